#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cay forward: TCP connections from here to ports of a sandbox, through the daemon: PROGRAM CAYD CAY ECHO_SERVER."""

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from cli_daemon import CAY, PATIENCE_S, Cli
from daemon import MIB, case, eventually, together
from process_client import Processes
from small_base import import_small, run_on

BIG = 100 * MIB


class Forward:
    """A running cay forward."""

    def __init__(self, cayd, *words, **environment):
        self.process = subprocess.Popen([CAY, "--json", "forward", *words],
                                        env=cayd.client_environment(**environment),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.process.stdout.readline()
        self.told = json.loads(line) if line else {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.end()

    def end(self):
        self.process.wait(PATIENCE_S)
        if self.process.stdout.closed:
            return ""
        self.process.stdout.close()
        with self.process.stderr as errors:
            return errors.read().decode()

    def address(self, index=0):
        host, _, port = self.told["forwards"][index]["address"].rpartition(":")
        return host.strip("[]"), int(port)

    def connect(self, index=0):
        return socket.create_connection(self.address(index), PATIENCE_S)

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        return self.end()


def serve(cayd, session, port, *more):
    """An echo server in the sandbox, once it listens."""
    process = Processes(cayd, session).start("echo_server", "127.0.0.1", str(port), *more)["id"]
    eventually(lambda: f":{port:04X} 00000000:0000 0A" in cayd.sh(session, "cat /proc/net/tcp"), "it listens")
    return process


def rest(sock):
    data = bytearray()
    while piece := sock.recv(1 << 16):
        data += piece
    return bytes(data)


def is_cut(sock):
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def is_turned_away(forward):
    """The connection is cut as soon as it is there."""
    try:
        with forward.connect() as sock:
            return is_cut(sock)
    except ConnectionResetError:
        return True


def echo(sock, text):
    sock.sendall(text)
    got = b""
    while len(got) < len(text) and (piece := sock.recv(len(text) - len(got))):
        got += piece
    return got == text


def big_echo(sock, size):
    """Send pieces and read them back at the same time; both must have the same digest."""
    piece = os.urandom(MIB)
    sent, got = hashlib.sha256(), hashlib.sha256()

    def send():
        for number in range(size // MIB):
            part = number.to_bytes(8, "big") + piece[8:]
            sent.update(part)
            sock.sendall(part)
        sock.shutdown(socket.SHUT_WR)
    sender = threading.Thread(target=send)
    sender.start()
    count = 0
    while part := sock.recv(1 << 20):
        got.update(part)
        count += len(part)
    sender.join()
    assert count == size // MIB * MIB, count
    assert got.digest() == sent.digest()


@case
def says_what_it_does(cayd):
    """forward prints where it listens, and refuses what it cannot forward with a sentence that helps"""
    cayd.create("w")
    serve(cayd, "w", 7000)
    with Forward(cayd, "w", "0:7000", "localhost:0:7000", "[::1]:0:7000") as forward:
        assert forward.told["sessionId"] == "w", forward.told
        assert [item["port"] for item in forward.told["forwards"]] == [7000] * 3
        assert forward.address(0)[0] == "127.0.0.1" and forward.address(2)[0] == "::1"
        for index in range(3):
            with forward.connect(index) as sock:
                assert echo(sock, b"hello")
        taken = forward.address()[1]
        cayd.fails(125, "cannot listen", "forward", "w", f"{taken}:7000")
        assert forward.interrupt() == ""
        assert forward.process.returncode == -signal.SIGINT
    with subprocess.Popen([CAY, "forward", "w", f"{taken}:7000"], env=cayd.client_environment(),
                          stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().decode() == f"127.0.0.1:{taken} -> port 7000 of w\n"
        process.terminate()
    for word in ("x", "0", "1:", ":1", "1:0", "70000", "1:2:3:4", "[::1:5", "a:b:c", ""):
        cayd.fails(125, "LOCAL:PORT", "forward", "w", word)
    cayd.fails(125, "no session 'nobody'", "forward", "nobody", "0:7000")
    cayd.fails(125, "usage", "forward", "w")
    assert cayd.ok("complete", "--", "forward", "").split("\t")[0] == "w"
    cayd.destroy("w")


@case
def both_ways(cayd):
    """100 MiB flow out and back at the same time, unchanged, through the Unix socket and by TCP"""
    cayd.create("b")
    serve(cayd, "b", 7000)
    key = json.loads(cayd.ok("key", "create", "--owner", "ann", "--admin", "--json"))["secret"]
    for environment in ({}, {"CAY_URL": cayd.tcp, "CAY_API_KEY": key}):
        with Forward(cayd, "b", "0:7000", **environment) as forward, forward.connect() as sock:
            big_echo(sock, BIG)
            assert forward.interrupt() == ""
    cayd.destroy("b")


@case
def one_half(cayd):
    """either side may end its half first: the other one goes on"""
    cayd.create("h")
    serve(cayd, "h", 7000)
    process = serve(cayd, "h", 7001, "bye")
    with Forward(cayd, "h", "0:7000", "0:7001") as forward:
        with forward.connect() as sock:
            sock.sendall(b"first")
            sock.shutdown(socket.SHUT_WR)
            assert rest(sock) == b"first"
        with forward.connect(1) as sock:
            assert rest(sock) == b"bye"
            for _ in range(3):
                sock.sendall(b"x" * MIB)
        eventually(lambda: f"{3 * MIB} bytes" in cayd.ok("logs", "h", process), "all of it arrives")
        assert forward.interrupt() == ""
    cayd.destroy("h")


@case
def not_read(cayd):
    """what one connection does not read stops neither its other direction, nor another connection, nor time"""
    cayd.create("n")
    serve(cayd, "n", 7000)
    with Forward(cayd, "n", "0:7000") as forward, forward.connect() as lazy:
        lazy.settimeout(0.5)
        piece = b"y" * MIB
        sent = 0
        try:
            while sent < 1000 * MIB:
                sent += lazy.send(piece)
        except TimeoutError:
            pass
        assert 0 < sent < 200 * MIB, f"{sent} bytes are held somewhere"
        with forward.connect() as sock:
            assert echo(sock, b"another")
        before = cayd.rss_bytes()
        assert before < 400 * MIB, before
        # Longer than the daemon waits for who does not read an ordinary answer (its send_timeout here).
        started = Path("/proc/uptime").read_text().split()[0]
        eventually(lambda: float(Path("/proc/uptime").read_text().split()[0]) - float(started) > 4, "time passes")
        lazy.settimeout(PATIENCE_S)
        lazy.shutdown(socket.SHUT_WR)
        assert len(rest(lazy)) == sent
    cayd.destroy("n")


@case
def many(cayd):
    """100 connections at once; nothing of them stays in the daemon"""
    cayd.create("m")
    serve(cayd, "m", 7000)

    def held():
        return len([name for name in cayd.fds() if name.startswith("socket:")])
    before = held()
    with Forward(cayd, "m", "0:7000") as forward:
        socks = [forward.connect() for _ in range(100)]
        for number, sock in enumerate(socks):
            assert echo(sock, b"%d" % number)
        for sock in socks[:50]:
            sock.close()
        for sock in socks[50:]:
            assert echo(sock, b"still")
        for sock in socks[50:]:
            sock.shutdown(socket.SHUT_WR)
            assert rest(sock) == b""
            sock.close()
        eventually(lambda: held() <= before + 2, "connections that were closed are gone")
        socks = [forward.connect() for _ in range(20)]
        assert all(echo(sock, b"x") for sock in socks)
        forward.interrupt()
        assert all(is_cut(sock) for sock in socks)
        for sock in socks:
            sock.close()
    eventually(lambda: held() <= before + 2, "so are those of who was interrupted")
    cayd.destroy("m")


@case
def nobody_there(cayd):
    """a port on which nothing listens: the connection is cut, one line says so, and the next one may do better"""
    cayd.create("x")
    with Forward(cayd, "x", "0:7000") as forward:
        for _ in range(2):
            assert is_turned_away(forward)
        serve(cayd, "x", 7000)
        with forward.connect() as sock:
            assert echo(sock, b"now")
        told = forward.interrupt()
        assert told.count("cay: port 7000: ") == 2 == len(told.splitlines()), told
    cayd.destroy("x")


@case
def session_ends(cayd):
    """connections end with their session, and so does the command at the next one"""
    cayd.create("e")
    serve(cayd, "e", 7000)
    with Forward(cayd, "e", "0:7000") as forward:
        with forward.connect() as sock:
            assert echo(sock, b"x")
            cayd.destroy("e")
            assert is_cut(sock)
        assert is_turned_away(forward)
        told = forward.end()
        assert forward.process.returncode == 125 and "'e'" in told, told


@case
def asleep(cayd):
    """a connection wakes a session that sleeps, and one on which something moves keeps it awake"""
    cayd.create("s")
    serve(cayd, "s", 7000)
    with Forward(cayd, "s", "0:7000") as forward:
        cayd.ok("update", "s", "--idle-after", "2s", "--auto-resume")
        eventually(lambda: cayd.get("s")["state"] == "SESSION_STATE_PAUSED", "it falls asleep")
        with forward.connect() as sock:
            assert echo(sock, b"good morning")
            state = cayd.get("s")
            assert state["state"] == "SESSION_STATE_ACTIVE", state
            first = state["lastActiveAt"]

            def moved_on():
                assert echo(sock, b"and")
                return cayd.get("s")["lastActiveAt"] != first
            eventually(moved_on, "bytes are a use of the session")
            assert cayd.get("s")["state"] == "SESSION_STATE_ACTIVE"
    cayd.destroy("s")


@case
def whose(cayd):
    """only who may use the session may forward its ports, and a key that is taken back ends it"""
    def key_of(owner):
        return json.loads(cayd.ok("key", "create", "--owner", owner, "--json"))
    ann, bob = key_of("ann"), key_of("bob")
    theirs = {"CAY_URL": cayd.tcp, "CAY_API_KEY": ann["secret"]}
    assert cayd.cay("create", "--name", "a", env=theirs).status == 0
    serve(cayd, "a", 7000)
    cayd.fails(125, "no session 'a'", "forward", "a", "0:7000", env=theirs | {"CAY_API_KEY": bob["secret"]})
    cayd.fails(125, "key", "forward", "a", "0:7000", env={"CAY_URL": cayd.tcp, "CAY_API_KEY": "cay_wrong"})
    cayd.fails(125, "CAY_API_KEY", "forward", "a", "0:7000", env={"CAY_URL": cayd.tcp})
    with Forward(cayd, "a", "0:7000", **theirs) as forward:
        with forward.connect() as sock:
            assert echo(sock, b"mine")
        cayd.ok("key", "revoke", ann["key"]["id"])
        with contextlib.suppress(ConnectionRefusedError):  # it may have ended by itself
            assert is_turned_away(forward)
        assert "key" in forward.end() and forward.process.returncode == 125
    cayd.destroy("a")


@case
def daemon_restarts(cayd):
    """a daemon that starts again is found again, also by who connects while it is away"""
    cayd.create("r")
    serve(cayd, "r", 7000)
    with Forward(cayd, "r", "0:7000") as forward:
        with forward.connect() as sock:
            assert echo(sock, b"before")
            cayd.kill()
            assert is_cut(sock)
        with forward.connect() as sock:
            together(cayd.start, lambda: echo(sock, b"meanwhile") or sys.exit("it did not answer"))
        with forward.connect() as sock:
            assert echo(sock, b"after")
    cayd.destroy("r")


@case
def over_tls(cayd):
    """bytes flow both ways at once through TLS, too; a certificate nobody knows is refused"""
    with tempfile.TemporaryDirectory(prefix="caysys-tls-") as name:
        folder = Path(name)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                        "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
        with Cli("--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem"), "--default-base",
                 "small") as other:
            import_small(other, echo_server=sys.argv[3])
            key = json.loads(other.ok("key", "create", "--owner", "tls", "--json"))["secret"]
            far = {"CAY_URL": f"{other.host}:{other.port}", "CAY_API_KEY": key,
                   "CAY_CA_FILE": str(folder / "cert.pem")}
            assert other.cay("create", "--name", "t", env=far).status == 0
            serve(other, "t", 7000)
            process = serve(other, "t", 7001, "bye")
            with Forward(other, "t", "0:7000", "0:7001", **far) as forward:
                with forward.connect() as sock:
                    big_echo(sock, BIG)
                socks = [forward.connect() for _ in range(30)]
                assert all(echo(sock, b"x" * 1000) for sock in socks)
                for sock in socks:
                    sock.close()
                with forward.connect(1) as sock:
                    assert rest(sock) == b"bye"
                    sock.sendall(b"x" * MIB)
                eventually(lambda: f"{MIB} bytes" in other.ok("logs", "t", process), "all of it arrives")
                assert forward.interrupt() == ""
            other.fails(125, "CAY_CA_FILE", "forward", "t", "0:7000", env=far | {"CAY_CA_FILE": "/etc/hostname"})
            other.destroy("t")
            assert not other.leftovers(), other.leftovers()


if __name__ == "__main__":
    run_on(lambda: Cli("--default-base", "small", "--send-timeout", "2s"),
           lambda daemon: import_small(daemon, echo_server=sys.argv[3]))
