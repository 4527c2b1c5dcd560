# SPDX-License-Identifier: Apache-2.0
"""An internet for tests, in a network namespace of its own with addresses that look public, the
host's place in it, and what sandboxes reach of it. What is closed to sandboxes is served there too and
reached from the host, so that a refusal is ours."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from daemon import PATIENCE_S, SANDBOX, Raw
from own_network import OPEN, sh

WORLD = "52.95.113.10", "2a05:d018:2::10"
HOST = "52.94.100.2", "2a05:d018:1::2", "192.168.77.1"  # addresses of the host itself
PRIVATE = ("10.1.2.3", "172.16.0.9", "192.168.9.9", "100.100.100.200", "169.254.169.254",
           "168.63.129.16", "192.0.0.192", "198.18.0.7", "fd00:ec2::254", "fd12::9", "2002::9",
           "192.0.2.9", "198.51.100.9", "203.0.113.9", "2001:db8::9", "2001:2::9", "3fff::9")


class World:
    """The internet, and the host's place in it. What runs there ends with it."""

    def __init__(self, script="net_world.py", *arguments):
        self.process = subprocess.Popen(
            ["unshare", "-nmp", "--fork", "--kill-child", sys.executable, "-B", str(Path(__file__).with_name(script)),
             *map(str, arguments)], stdout=subprocess.PIPE, text=True)
        self.lines = []
        assert self.process.stdout.readline() == "ready\n"
        threading.Thread(target=self._read, daemon=True).start()
        there = f"nsenter -t {self.process.pid} -n ip"
        sh(f"ip link add wan type veth peer name wan netns {self.process.pid}\n"
           f"ip addr add {HOST[0]}/24 dev wan; ip addr add {HOST[1]}/64 dev wan nodad\n"
           f"ip addr add {HOST[2]}/32 dev lo\n"
           f"{there} addr add 52.94.100.1/24 dev wan; {there} addr add 2a05:d018:1::1/64 dev wan nodad\n"
           f"ip link set wan up; {there} link set wan up\n"
           "ip route add default via 52.94.100.1; ip route add default via 2a05:d018:1::1\n"
           # As if somebody out there knew where sandboxes are.
           f"{there} route add 100.96.0.0/16 via 52.94.100.2")
        for address in (*WORLD, "52.95.113.53", *PRIVATE):
            sh(f"{there} addr add {address} dev lo {'nodad' if ':' in address else ''}")
        with tempfile.NamedTemporaryFile("w", suffix=".conf", delete=False) as file:
            file.write("# ours\nnameserver 52.95.113.53\n")
        os.chmod(file.name, 0o644)
        sh(f"mount --bind {file.name} /etc/resolv.conf")
        os.unlink(file.name)

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.strip())

    def run(self, *command):
        return subprocess.run(["nsenter", "-t", str(self.process.pid), "-n", *command],
                              capture_output=True, text=True, check=False)

    def close(self):
        self.process.kill()
        self.process.wait()


def serve_on_host():
    """Somebody on every address of the host, also those of its loopback."""
    listener = socket.create_server(("::", 80), family=socket.AF_INET6, dualstack_ipv6=True)

    def serve():
        while True:
            with listener.accept()[0] as sock:
                sock.sendall(b"host")
    threading.Thread(target=serve, daemon=True).start()


def client(cay, session_id, *arguments, user="user"):
    """What the client inside says: (is it good, the rest)."""
    result, out, err = cay.launch(session_id, "net_client", *map(str, arguments), user=user)
    assert result.get("exitCode", 0) == 0, (arguments, result, out, err)
    word, _, rest = out.decode().strip().partition(" ")
    return word == "ok", rest


def reaches(cay, session_id, address, port=80):
    return client(cay, session_id, "tcp", address, port)


def cannot_reach(cay, session_id, address, port=80):
    """Why not."""
    good, why = client(cay, session_id, "try", address, port)
    assert not good, (address, why)
    return why


def assert_open(cay, session_id):
    for address, own in zip(WORLD, HOST):
        assert reaches(cay, session_id, address) == (True, own), address
    assert reaches(cay, session_id, "world.test")[0]


def assert_closed(cay, session_id):
    for address in WORLD:
        cannot_reach(cay, session_id, address)


def update(cay, session_id, network):
    return cay.call(SANDBOX + "UpdateSession", {"sessionId": session_id, "network": network})["session"]


def e2b(cay, method, path, body=None):
    """A call of E2B's control plane: its status and what it answers."""
    data = json.dumps(body or {}).encode()
    with Raw(cay.socket(PATIENCE_S)) as raw:
        raw.send(f"{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-type: application/json\r\n"
                 f"content-length: {len(data)}\r\n\r\n".encode() + data)
        answer = raw.answer()
    return answer.status, answer.json() if answer.body else None


@contextlib.contextmanager
def session(cay, session_id, network=OPEN, **fields):
    try:
        yield cay.create(session_id, network=network, **fields)
    finally:
        cay.destroy(session_id, missingOk=True)
