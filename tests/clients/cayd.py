#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The life of cayd: start, shutdown under traffic, neighbours, TLS, and what it holds."""

import json
import os
import signal
import socket
import ssl
import struct
import subprocess

from clients import CAYD, Closed, Raw, case, cayd, eventually, folder, request, run, steady

HEALTH = "POST /cay.v1.SandboxService/HealthCheck"


def ask(daemon, line=HEALTH, body=b"{}", **fields):
    return request(line, body, content_length=len(body), authorization=f"Bearer {daemon.key}",
                   **{"content-type": "application/json"}, **fields)


def open_fds(daemon):
    return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))


def resident_bytes(daemon):
    with open(f"/proc/{daemon.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def refuses(daemon):
    try:
        daemon.socket().close()
        return False
    except ConnectionError:
        return True


@case
def cycles():
    """a thousand connects and disconnects leave no descriptor and no memory"""
    # No base of this machine is copied meanwhile, with descriptors of its own.
    with cayd("--default-base", "none") as daemon:
        assert daemon.ask(ask(daemon, connection="close")).status == 200
        fds, rss = steady(lambda: open_fds(daemon)), resident_bytes(daemon)
        for number in range(1000):
            sock = daemon.socket()
            if number % 4 == 1:
                sock.sendall(b"POST /x HT")
            elif number % 4 == 2:
                sock.sendall(ask(daemon))
            elif number % 4 == 3:
                sock.sendall(ask(daemon)[:-1])
            if number % 3 == 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        eventually(lambda: open_fds(daemon) == fds, "no descriptor is left", patience_s=5)
        assert resident_bytes(daemon) - rss < daemon.rss_room(4)


@case
def drain():
    """SIGTERM lets a call finish, takes no new ones, and ends with 0"""
    with cayd() as daemon:
        data = ask(daemon)
        with daemon.raw() as busy, daemon.raw() as idle:
            idle.send(data)
            assert idle.answer().status == 200
            busy.send(data[:-1])
            with daemon.raw() as probe:  # after its answer the half request has been read
                probe.send(ask(daemon, connection="close"))
                assert probe.answer().status == 200
            daemon.process.send_signal(signal.SIGTERM)
            eventually(lambda: refuses(daemon), "new connections are refused")
            assert idle.is_closed()
            busy.send(data[-1:])
            answer = busy.answer()
            assert answer.status == 200 and answer.header("connection") == "close", answer
        assert daemon.process.wait(10) == 0


@case
def drain_cut():
    """what does not finish in time is cut"""
    with cayd("--shutdown-timeout", "500ms") as daemon, daemon.raw() as stuck:
        stuck.send(ask(daemon)[:-1])
        with daemon.raw() as probe:
            probe.send(ask(daemon, connection="close"))
            assert probe.answer().status == 200
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(10) == 0


@case
def neighbours():
    """two daemons run side by side; neither takes the other's directories"""
    with cayd() as one, cayd() as two:
        assert one.key != two.key and one.port != two.port
        assert one.ask(ask(one)).status == two.ask(ask(two)).status == 200
        crossed = one.key
        one.key = two.key
        assert one.ask(ask(one)).status == 401
        one.key = crossed
        run_dir = os.path.dirname(two.socket_path)
        data_dir = os.path.join(os.path.dirname(run_dir), "data")
        with folder() as path:
            for flags in (("--data", data_dir, "--run", f"{path}/run"),
                          ("--data", f"{path}/data", "--run", run_dir)):
                done = subprocess.run([CAYD, "--listen", "127.0.0.1:0", *flags], check=False,
                                      capture_output=True, text=True, timeout=20)
                assert done.returncode != 0 and "cayd: " in done.stderr, done
        assert two.ask(ask(two)).status == 200
        assert one.stop() == 0
        assert two.ask(ask(two)).status == 200


@case
def keys_survive():
    """keys outlive the daemon, a revoked one stays revoked"""
    with folder() as path:
        with cayd(home=path) as daemon:
            key = daemon.key
            made = daemon.ask(ask(daemon, "POST /cay.v1.KeyService/CreateKey",
                                  b'{"owner":"somebody"}')).json()
            answer = daemon.ask(ask(daemon, "POST /cay.v1.KeyService/RevokeKey",
                                    json.dumps({"keyId": made["key"]["id"]}).encode()))
            assert answer.status == 200 and answer.json()["key"]["revoked"], answer
        with cayd(home=path) as daemon:
            daemon.key = key
            assert daemon.ask(ask(daemon)).status == 200
            daemon.key = made["secret"]
            assert daemon.ask(ask(daemon)).status == 401
        secrets = [secret.encode() for secret in (key, made["secret"])]
        for folder_path, _, names in os.walk(path):
            for name in names:
                file_path = os.path.join(folder_path, name)
                if not os.path.isfile(file_path):
                    continue
                with open(file_path, "rb") as file:
                    data = file.read()
                assert not any(secret in data for secret in secrets), f"{name} holds a secret"


@case
def tls():
    """TLS by both versions of HTTP; peers that break off do no harm; a new certificate is taken"""
    with folder() as path:
        def certificate():
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                            "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                            "/CN=test", "-addext", "subjectAltName=DNS:localhost", "-keyout",
                            f"{path}/key", "-out", f"{path}/cert"], check=True, capture_output=True)

        certificate()
        with cayd("--tls-cert", f"{path}/cert", "--tls-key", f"{path}/key") as daemon:
            def connect(*protocols):
                context = ssl.create_default_context(cafile=f"{path}/cert")
                context.set_alpn_protocols(list(protocols))
                return context.wrap_socket(daemon.socket(), server_hostname="localhost")

            for flag in ("--http1.1", "--http2"):
                done = subprocess.run(
                    ["curl", "-sS", flag, "--cacert", f"{path}/cert", "-H",
                     f"Authorization: Bearer {daemon.key}", "--json", "{}",
                     f"https://localhost:{daemon.port}/cay.v1.SandboxService/HealthCheck"],
                    check=True, capture_output=True, text=True)
                assert json.loads(done.stdout)["status"], done
            for number in range(40):
                sock = connect("http/1.1")
                sock.sendall(ask(daemon) * 50)
                if number % 2:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()
            with connect("http/1.1") as old:
                certificate()
                daemon.process.send_signal(signal.SIGHUP)

                def is_new():
                    try:
                        with Raw(connect("http/1.1")) as raw:
                            raw.send(ask(daemon))
                            return raw.answer().status == 200
                    except (ssl.SSLError, Closed):
                        return False

                eventually(is_new, "the new certificate is used")
                raw = Raw(old)
                raw.send(ask(daemon))
                assert raw.answer().status == 200


@case
def bad_flags():
    """a mistake on the command line is said, with the nearest right word"""
    for flags, word in ((("--lisen", "x"), "listen"), (("--listen", "nowhere"), "nowhere"),
                        (("surplus",), "surplus"), (("--max-connections", "many"), "many"),
                        (("--tls-cert", "/nowhere"), "tls")):
        with folder() as path:
            done = subprocess.run([CAYD, "--data", f"{path}/d", "--run", f"{path}/r", *flags],
                                  check=False, capture_output=True, text=True, timeout=20)
            assert done.returncode != 0 and word in done.stderr, (flags, done)


if __name__ == "__main__":
    run()
