# SPDX-License-Identifier: Apache-2.0
"""The servers that are measured: a cayd of our own with its own directories, and the floor."""

import contextlib
import json
import os
import re
import select
import socket
import subprocess
import time
from dataclasses import dataclass

import harness

READY_SECONDS = 20
STOP_SECONDS = 20


@dataclass
class Server:
    process: subprocess.Popen
    port: int
    key: str = ""
    socket: str = ""  # where no key is asked for

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def status(self, name):
        """A figure of /proc/PID/status in kB, such as VmRSS."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(rf"^{name}:\s+(\d+)", status.read(), re.MULTILINE)[1])

    def cpu_us(self):
        """The CPU time that all its threads have used."""
        tasks = f"/proc/{self.process.pid}/task"
        total_ns = 0
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/schedstat", encoding="ascii") as stat:
                total_ns += int(stat.read().split()[0])
        return total_ns / 1000


def first_line(process):
    """The first line of a program's output, which says that it is ready."""
    if not select.select([process.stdout], [], [], READY_SECONDS)[0]:
        raise TimeoutError(f"{process.args[0]} was not ready after {READY_SECONDS} s")
    text = process.stdout.readline().decode()
    if not text:
        raise ChildProcessError(f"{process.args[0]} ended with status {process.wait()}")
    return text


@contextlib.contextmanager
def started(command, env=None, cpus=None):
    """A process on the servers' CPU; stopped at the end, and killed when it does not stop."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env,
                          preexec_fn=harness.on(cpus or harness.server_cpu())) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def request_bytes(path, body, key):
    auth = f"authorization: Bearer {key}\r\n" if key else ""
    return (f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{auth}content-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n{body}").encode()


def read_answer(connection):
    data = b""
    while True:
        head, gap, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
        if gap and length and len(body) >= int(length[1]):
            return data
        more = connection.recv(65536)
        if not more:
            raise ConnectionError(f"hung up after {data!r}")
        data += more


def raw_call(address, path, body, key=""):
    """The whole answer, head and all, of one call. The address is a port or a socket's path."""
    if isinstance(address, int):
        connection = socket.create_connection(("127.0.0.1", address))
    else:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(address))
    with connection:
        connection.sendall(request_bytes(path, body, key))
        answer = read_answer(connection)
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise ConnectionError(answer.decode(errors="replace"))
    return answer


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("CAY_")}


@contextlib.contextmanager
def cayd_at(world, home, *flags, cpus=None):
    """A daemon on directories of its own, new or used before, with an admin key."""
    home.mkdir(exist_ok=True)
    (home / "cayd.conf").touch()
    command = [world.program("src/bin/cayd"), "--config", f"{home}/cayd.conf",
               "--data", f"{home}/data", "--run", f"{home}/run", "--listen", "127.0.0.1:0",
               "--default-base", "none", "--no-access-log", "--log-level", "warn", "--shutdown-timeout", "0s", *flags]
    with started(command, clean_environment(), cpus) as process:
        port = int(re.search(r":(\d+)\s*$", first_line(process))[1])
        answer = raw_call(home / "run/cayd.sock", "/cay.v1.KeyService/CreateKey",
                          '{"name":"bench","role":"KEY_ROLE_ADMIN"}')
        yield Server(process, port, json.loads(answer.partition(b"\r\n\r\n")[2])["secret"],
                     f"{home}/run/cayd.sock")


@contextlib.contextmanager
def fresh_cayd(world, *flags, cpus=None):
    """A daemon with directories of its own and an admin key, on the servers' CPU or on `cpus`."""
    with cayd_at(world, world.tmp / f"cayd-{time.monotonic_ns()}", *flags, cpus=cpus) as server:
        yield server


@contextlib.contextmanager
def cayd(world):
    """The daemon that most benchmarks share: world.get(daemon.cayd)."""
    with fresh_cayd(world) as server:
        yield server


@contextlib.contextmanager
def floor(world):
    """epoll_floor with a reply of the same bytes as the shared daemon's."""
    ours = world.get(cayd)
    reply = world.tmp / "reply"
    reply.write_bytes(raw_call(ours.port, "/cay.v1.SandboxService/HealthCheck", "{}", ours.key))
    with started([world.program("bench/epoll_floor"), str(reply)]) as process:
        yield Server(process, int(first_line(process)), ours.key)
