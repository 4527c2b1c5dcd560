#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Exposed ports: bytes from outside to a server in a sandbox and back, and nothing left behind."""

import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading

from daemon import (MIB, PATIENCE_S, PROCESS, SANDBOX, Client, RpcError, Skip, Stream, b64, case, eventually,
                    fails, good, init_of, together, unb64)
from process_client import Processes
from small_base import run_with_cayd


def expose(cay, session_id, port, process_id="", **fields):
    request = {"sessionId": session_id, "port": {"port": port} | fields, "processId": process_id}
    return cay.call(PROCESS + "ExposePort", request).get("port")


def unexpose(cay, session_id, port):
    return cay.call(PROCESS + "UnexposePort", {"sessionId": session_id, "port": port})


def echo_server(cay, session_id, port, address="127.0.0.1"):
    return Processes(cay, session_id).start("echo_server", address, str(port))["id"]


def served(cay, session_id, port, **fields):
    """An echo server and its port, ready."""
    echo_server(cay, session_id, port)
    return expose(cay, session_id, port, waitListening="60s", **fields)


def connect(port):
    sock = socket.create_connection((port["bindAddress"], port["hostPort"]), PATIENCE_S)
    sock.settimeout(PATIENCE_S)
    return sock


def rest(sock):
    data = bytearray()
    while piece := sock.recv(65536):
        data += piece
    return bytes(data)


def exchange(port, data):
    """Send all, end our half, read all."""
    with connect(port) as sock:
        def send():
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        try:
            return rest(sock)
        finally:
            sender.join()


def is_closed(cay, port):
    """The daemon does not listen there; somebody else may, by now."""
    held = set(cay.fds())
    with open("/proc/net/tcp", encoding="ascii") as table:
        lines = [line.split() for line in table.readlines()[1:]]
    return not any(line[3] == "0A" and line[1].endswith(f":{port['hostPort']:04X}") and
                   f"socket:[{line[9]}]" in held for line in lines)


def is_cut(sock):
    """The other side has hung up on us."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def is_turned_away(port):
    """The connection is cut as soon as it is there."""
    try:
        with connect(port) as sock:
            return is_cut(sock)
    except ConnectionResetError:
        return True


def events(cay, session_id):
    frames = cay.stream(SANDBOX + "WatchEvents", {
        "noFollow": True, "sessionIds": [session_id], "kinds": ["EVENT_KIND_PORT"]})
    return [(frame["event"]["type"], frame["event"]["data"]["port"], frame["event"].get("reason"))
            for frame in frames if "event" in frame and "listening" not in frame["event"]["type"]]


def heard(cay, session_id):
    """What was told of who listens: (type, port, process)."""
    frames = cay.stream(SANDBOX + "WatchEvents", {
        "noFollow": True, "sessionIds": [session_id], "kinds": ["EVENT_KIND_PORT"]})
    told = [frame["event"] for frame in frames if "event" in frame]
    return [(event["type"], event["data"]["port"], event.get("processId")) for event in told
            if event["type"] in ("port.listening", "port.not_listening")]


@case
def web(cay):
    """a web server in a sandbox answers requests from outside"""
    cay.create("web")
    process = Processes(cay, "web").start("busybox", "httpd", "-f", "-p", "8080", "-h", "/usr/share/data")
    port = expose(cay, "web", 8080, waitListening="60s")
    assert port["port"] == 8080 and port["hostPort"] and port["listening"] and port["createdAt"], port
    assert port["bindAddress"] == "127.0.0.1", port
    assert port["address"] == f"127.0.0.1:{port['hostPort']}", port
    for number in (7, 42, 199):
        client = http.client.HTTPConnection("127.0.0.1", port["hostPort"], timeout=PATIENCE_S)
        client.request("GET", f"/{number}")
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (200, f"{number}\n".encode())
        client.close()
    assert expose(cay, "web", 8080) == port, "the same again"
    assert expose(cay, "web", 8080, hostPort=port["hostPort"]) == port
    assert cay.get("web")["ports"] == [port]
    fails("already_exists", expose, cay, "web", 8080, process["id"])
    cay.destroy("web")


@case
def both_ways(cay):
    """bytes go both ways, much of them at once, and half a connection ends by itself"""
    cay.create("echo")
    port = served(cay, "echo", 7000)
    assert exchange(port, b"") == b""
    assert exchange(port, b"hello") == b"hello"
    data = os.urandom(MIB)
    assert exchange(port, data) == data
    with connect(port) as idle, connect(port) as sock:
        sock.sendall(b"one")
        assert sock.recv(3, socket.MSG_WAITALL) == b"one"
        idle.sendall(b"two")
        assert idle.recv(3, socket.MSG_WAITALL) == b"two"
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b"", "the end came back"
    cay.destroy("echo")


@case
def slow_reader(cay):
    """a client that does not read is waited for, and what it missed is all there"""
    cay.create("slow")
    port = served(cay, "slow", 7000)
    data = os.urandom(4 * MIB)
    before = cay.rss_bytes()
    with connect(port) as sock:
        sock.setblocking(False)
        sent = 0
        try:
            while True:
                sent += sock.send(data[sent % len(data):sent % len(data) + 65536])
                assert sent < 256 * MIB, "somebody holds all of it"
        except BlockingIOError:
            pass
        sock.settimeout(PATIENCE_S)
        got = bytearray()
        sock.shutdown(socket.SHUT_WR)
        while piece := sock.recv(MIB):
            got += piece
    assert len(got) == sent and got == (data * (sent // len(data) + 1))[:sent]
    assert cay.rss_bytes() - before < cay.rss_room(16)
    cay.destroy("slow")


@case
def same_port(cay):
    """equal ports of two sessions do not clash, and each reaches its own"""
    ports = {}
    for name in ("one", "two"):
        cay.create(name)
        cay.sh(name, f"mkdir /tmp/www; echo {name} > /tmp/www/name")
        Processes(cay, name).start("busybox", "httpd", "-f", "-p", "80", "-h", "/tmp/www", user="root")
        ports[name] = expose(cay, name, 80, waitListening="60s")
    for name, port in ports.items():
        client = http.client.HTTPConnection("127.0.0.1", port["hostPort"], timeout=PATIENCE_S)
        client.request("GET", "/name")
        assert client.getresponse().read() == f"{name}\n".encode()
        client.close()
    fails("already_exists", expose, cay, "one", 81, hostPort=ports["two"]["hostPort"])
    for name in ports:
        cay.destroy(name)


@case
def six(cay):
    """a server on ::1 alone is reached, too"""
    cay.create("six")
    if not cay.sh("six", "cat /proc/net/if_inet6 2> /dev/null || :").strip():
        cay.destroy("six")
        raise Skip("no IPv6 here")
    echo_server(cay, "six", 7000, "::1")
    port = expose(cay, "six", 7000, waitListening="60s")
    assert exchange(port, b"six") == b"six"
    cay.destroy("six")


@case
def nobody_there(cay):
    """where nobody listens connections are cut; waiting has a limit, and the port stays"""
    cay.create("none")
    port = expose(cay, "none", 7000)
    assert not port.get("listening"), port
    assert is_turned_away(port)
    fails("deadline_exceeded", expose, cay, "none", 7000, waitListening="0.2s")
    assert [item["port"] for item in cay.get("none")["ports"]] == [7000]
    echo_server(cay, "none", 7000)
    assert expose(cay, "none", 7000, waitListening="60s")["hostPort"] == port["hostPort"]
    assert exchange(port, b"now") == b"now"
    cay.destroy("none")


@case
def closed(cay):
    """a port is closed on request, with its process, with its sandbox, with its session"""
    cay.create("c")
    port = served(cay, "c", 7000)
    assert not is_closed(cay, port)
    with connect(port) as sock:
        sock.sendall(b"x")
        assert sock.recv(1) == b"x"
        unexpose(cay, "c", 7000)
        assert is_cut(sock) and is_closed(cay, port)
    fails("not_found", unexpose, cay, "c", 7000)
    assert not cay.get("c").get("ports")

    table = Processes(cay, "c")
    process = echo_server(cay, "c", 7001)
    port = expose(cay, "c", 7001, process, waitListening="60s")
    assert port["processId"] == process
    assert [item["port"] for item in table.get(process)["ports"]] == [7001]
    table.kill(process, signal=9, wait=True)
    eventually(lambda: not cay.get("c").get("ports"), "it goes with its process")
    assert is_closed(cay, port)
    fails("failed_precondition", expose, cay, "c", 7001, process)

    port = served(cay, "c", 7002)
    cay.sh("c", "touch /tmp/c-is-here")
    os.kill(init_of(cay, "tmp/c-is-here"), signal.SIGKILL)
    eventually(lambda: not cay.get("c").get("ports"), "it goes with its sandbox")
    assert is_closed(cay, port)

    port = served(cay, "c", 7003)
    cay.destroy("c")
    assert is_closed(cay, port)
    assert events(cay, "c") == [
        ("port.exposed", "7000", None), ("port.closed", "7000", "requested"),
        ("port.exposed", "7001", None), ("port.closed", "7001", "process_exited"),
        ("port.exposed", "7002", None), ("port.closed", "7002", "sandbox_lost"),
        ("port.exposed", "7003", None), ("port.closed", "7003", "sandbox_ended")], events(cay, "c")


@case
def paused(cay):
    """connections to a frozen session wait; with its processes ended its ports are closed"""
    cay.create("p")
    port = served(cay, "p", 7000)
    cay.call(SANDBOX + "PauseSession", {"sessionId": "p"})
    with connect(port) as sock:
        sock.sendall(b"later")
        fails("failed_precondition", expose, cay, "p", 7001, reason="session_paused")
        cay.call(SANDBOX + "ResumeSession", {"sessionId": "p"})
        assert sock.recv(5, socket.MSG_WAITALL) == b"later"
    cay.call(SANDBOX + "PauseSession", {"sessionId": "p", "mode": "PAUSE_MODE_STOP"})
    assert is_closed(cay, port) and not cay.get("p").get("ports")
    cay.destroy("p")


@case
def many(cay):
    """fifty connections at once, each with its own bytes; more than the limit are cut"""
    cay.create("m")
    port = served(cay, "m", 7000)
    pieces = [os.urandom(20_000) for _ in range(50)]
    assert good(together(*(lambda data=data: exchange(port, data) for data in pieces))) == pieces
    limit = min(256, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 8)
    socks = [connect(port) for _ in range(limit)]
    try:
        for sock in socks:
            sock.sendall(b"x")
        assert all(sock.recv(1) == b"x" for sock in socks), "all are served"
        assert is_turned_away(port), "one too many"
    finally:
        for sock in socks:
            sock.close()
    eventually(lambda: try_exchange(port), "there is room again")
    cay.destroy("m")


def try_exchange(port):
    try:
        return exchange(port, b"again") == b"again"
    except OSError:
        return False


@case
def refused(cay):
    """nonsense, and what only an administrator may choose, is refused"""
    cay.create("r", lazyStart=True)
    for bad in ({"port": 0}, {"port": 65536}, {"port": 1, "hostPort": 65536},
                {"port": 1, "waitListening": "601s"}, {"port": 1, "bindAddress": "localhost"}):
        fails("invalid_argument", cay.call, PROCESS + "ExposePort", {"sessionId": "r", "port": bad})
    fails("invalid_argument", cay.call, PROCESS + "ExposePort", {"sessionId": "r"})
    fails("not_found", expose, cay, "nobody", 80)
    fails("not_found", expose, cay, "r", 80, "p-none", reason="process_not_found")
    key = cay.call("cay.v1.KeyService/CreateKey", {"owner": "guest"})["secret"]
    guest = Client(cay, key)
    fails("not_found", expose, guest, "r", 80)
    guest.create("g")
    fails("permission_denied", expose, guest, "g", 80, bindAddress="0.0.0.0")
    fails("permission_denied", expose, guest, "g", 80, hostPort=80)
    assert expose(guest, "g", 80, bindAddress="127.0.0.1")["hostPort"] >= 1024
    port = expose(cay, "r", 80, bindAddress="127.0.0.2")
    assert port["address"] == f"127.0.0.2:{port['hostPort']}", port
    for name in ("g", "r"):
        cay.destroy(name)


@case
def with_the_daemon(cay):
    """the next daemon opens ports where they were, and not those that were closed"""
    cay.create("d")
    table = Processes(cay, "d")
    port = served(cay, "d", 7000)
    process = echo_server(cay, "d", 7001)
    own = expose(cay, "d", 7001, process, waitListening="60s")
    served(cay, "d", 7002)
    unexpose(cay, "d", 7002)
    ended = echo_server(cay, "d", 7003)
    expose(cay, "d", 7003, ended, waitListening="60s")
    for end in (cay.stop, cay.kill):
        with connect(port) as sock:
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"
            if end == cay.kill:
                table.end(ended)
            end()
            assert is_cut(sock)
        cay.start()
        assert exchange(port, b"still there") == b"still there"
        assert exchange(own, b"and this") == b"and this"
        found = {item["port"]: item for item in cay.get("d")["ports"]}
        assert found[7000]["hostPort"] == port["hostPort"] and found[7000]["createdAt"] == port["createdAt"]
        assert table.get(process)["ports"][0]["hostPort"] == own["hostPort"]
        assert sorted(found) == ([7000, 7001, 7003] if end == cay.stop else [7000, 7001]), found
    table.end(process)
    eventually(lambda: len(cay.get("d")["ports"]) == 1, "it goes with its process")
    # Paused, it comes back all the same; and where somebody else is meanwhile, it does not.
    cay.call(SANDBOX + "PauseSession", {"sessionId": "d"})
    cay.restart()
    assert cay.get("d")["ports"][0]["hostPort"] == port["hostPort"]
    cay.call(SANDBOX + "ResumeSession", {"sessionId": "d"})
    assert exchange(port, b"awake") == b"awake"
    cay.kill()
    with socket.create_server(("127.0.0.1", port["hostPort"])):
        cay.start()
        assert not cay.get("d").get("ports")
    cay.restart()
    assert not cay.get("d").get("ports")
    cay.destroy("d")


def launch(cay, session_id, *argv, wait=None, **port):
    spec = {"argv": list(argv), "exposePort": port}
    request = {"sessionId": session_id, "spec": spec} | ({"wait": wait} if wait else {})
    return cay.call(PROCESS + "LaunchProcess", request)["process"]


@case
def with_a_process(cay):
    """a process comes with its port, and the port goes with it"""
    cay.create("l")
    table = Processes(cay, "l")
    process = launch(cay, "l", "echo_server", "127.0.0.1", "7000", port=7000, waitListening="60s")
    (port,) = process["ports"]
    assert port["listening"] and port["processId"] == process["id"], port
    assert exchange(port, b"at once") == b"at once"
    # What cannot be exposed is not left running.
    fails("already_exists", launch, cay, "l", "sleep", "1000", port=7001, hostPort=port["hostPort"])
    fails("already_exists", launch, cay, "l", "sleep", "1000", port=7000)
    eventually(lambda: "sleep" not in cay.sh("l", "ps -o args"), "they are killed")
    fails("invalid_argument", launch, cay, "l", "true", port=0)
    fails("invalid_argument", launch, cay, "l", "true", port=70000)
    error = fails("failed_precondition", launch, cay, "l", "true", port=7002, waitListening="60s")
    assert "7002" in error.message, error
    error = fails("deadline_exceeded", launch, cay, "l", "sleep", "1000", port=7003, waitListening="0.2s")
    (late,) = [item for item in table.list() if item["id"] in error.message]
    assert [item["port"] for item in late["ports"]] == [7003], late
    table.end(late["id"])
    assert launch(cay, "l", "true", port=7004)["id"]
    ran = launch(cay, "l", "sh", "-c", "exit 7", port=7005, wait="60s")
    assert ran["result"]["exitCode"] == 7, ran
    table.end(process["id"])
    eventually(lambda: not cay.get("l").get("ports"), "all are closed")
    assert is_closed(cay, port)
    cay.destroy("l")


@case
def listening(cay):
    """events tell who starts to listen and who stops, and the status of a process says where"""
    cay.create("e")
    table = Processes(cay, "e")

    def ports_of(process_id):
        return table.get(process_id).get("listeningPorts", [])
    one = echo_server(cay, "e", 7000)
    eventually(lambda: ports_of(one) == [7000], "it listens")
    child = table.sh("echo_server ::1 7001 & echo_server 127.0.0.1 7002 & wait")
    eventually(lambda: ports_of(child) == [7001, 7002], "its children listen")
    quiet = table.sh("sleep 1000")
    assert not ports_of(quiet) and ports_of(one) == [7000]
    table.end(one)
    eventually(lambda: ("port.not_listening", "7000", one) in heard(cay, "e"), "it stopped")
    assert not ports_of(one)
    assert sorted(heard(cay, "e")) == [
        ("port.listening", "7000", one), ("port.listening", "7001", child),
        ("port.listening", "7002", child), ("port.not_listening", "7000", one)], heard(cay, "e")
    cay.restart()
    eventually(lambda: ports_of(child) == [7001, 7002], "the next daemon knows, too")
    assert not ports_of(one), "it is on the records as one that listened"
    table.kill(child, signal=9, wait=True)
    # It begins with who listens: what it did not see may have changed. What the old one told last may have died with it.
    eventually(lambda: sum(what == "port.not_listening" and who == child for what, _, who in heard(cay, "e")) == 2, "their end")
    told = heard(cay, "e")[-4:]
    assert [sorted(told[:2]), sorted(told[2:])] == [
        [("port.listening", "7001", child), ("port.listening", "7002", child)],
        [("port.not_listening", "7001", child), ("port.not_listening", "7002", child)]], heard(cay, "e")
    # Nobody is in the audit log for what a sandbox does by itself.
    assert "listening" not in (cay.data / "audit.log").read_text()
    cay.destroy("e")


@case
def listening_exposed(cay):
    """an exposed port says whether somebody listens now, also when nobody connects"""
    cay.create("e")
    expose(cay, "e", 7000)

    def is_listening():
        port, = cay.get("e")["ports"]
        return port.get("listening", False)
    assert not is_listening()
    for _ in range(2):
        server = echo_server(cay, "e", 7000)
        eventually(is_listening, "somebody listens")
        Processes(cay, "e").end(server)
        eventually(lambda: not is_listening(), "nobody does any more")
    cay.destroy("e")


@case
def command_line(cay):
    """the command line exposes, lists and closes ports"""
    environment = os.environ | {"CAY_URL": f"unix:{cay.socket_path}"}

    def run_cay(*words, status=0):
        done = subprocess.run([sys.argv[2], *words], env=environment, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        assert done.returncode == status, done
        return done.stderr if status else done.stdout
    cay.create("cli")
    process = echo_server(cay, "cli", 7000)
    address = run_cay("port", "cli", "7000", "--wait", "50s", "--process", process).strip()
    host, _, number = address.rpartition(":")
    assert exchange({"bindAddress": host, "hostPort": int(number)}, b"cli") == b"cli"
    row = run_cay("port", "cli").splitlines()[1].split()
    assert row == ["7000", address, "yes", process], row
    assert run_cay("port", "cli", "7000", "--host-port", number, "--process", process).strip() == address
    assert json.loads(run_cay("--json", "port", "cli"))["ports"][0]["port"] == 7000
    assert "in another way" in run_cay("port", "cli", "7000", status=125)
    assert "not a port" in run_cay("port", "cli", "http", status=125)
    assert "which port" in run_cay("port", "cli", "--wait", "1s", status=125)
    started = run_cay("exec", "cli", "--background", "--port", "7001", "--wait-port", "50s", "--",
                      "echo_server", "127.0.0.1", "7001").split()
    assert len(started) == 2, started
    host, _, number = started[1].rpartition(":")
    assert exchange({"bindAddress": host, "hostPort": int(number)}, b"cli") == b"cli"
    assert "--background" in run_cay("exec", "cli", "--port", "7001", "--", "true", status=125)
    run_cay("kill", "cli", started[0])
    eventually(lambda: "7001" not in run_cay("port", "cli"), "it is closed")
    run_cay("port", "rm", "cli", "7000")
    assert run_cay("port", "cli") == ""
    assert "not exposed" in run_cay("port", "rm", "cli", "7000", status=125)
    assert "no session 'rm'" in run_cay("port", "--", "rm", status=125)
    for words in (("port", "c"), ("port", "rm", "c")):
        offered = run_cay("complete", "--", *words)
        assert offered.split("\t")[0] == "cli", offered
    cay.destroy("cli")


def tunnel(cay, session_id, port):
    stream = Stream(cay, PROCESS + "ConnectPort")
    stream.send({"open": {"sessionId": session_id, "port": port}})
    return stream


@case
def tunnels(cay):
    """a call carries a connection to a port: bytes both ways, large ones too, until either side ends"""
    cay.create("t")
    served(cay, "t", 7000)
    data = os.urandom(3 * MIB)
    with tunnel(cay, "t", 7000) as stream:
        assert stream.next() == {"opened": {}}
        stream.send({"data": b64(b"hi")})
        assert unb64(stream.next()["data"]) == b"hi"

        def send():
            for at in range(0, len(data), 100_000):
                stream.send({"data": b64(data[at:at + 100_000])})
            stream.end()
        sender = threading.Thread(target=send)
        sender.start()
        got = b"".join(unb64(message["data"]) for message in stream)
        sender.join()
        assert got == data, f"{len(got)} of {len(data)} bytes came back"
    with tunnel(cay, "t", 7001) as stream:
        fails("unavailable", stream.next, reason="port_not_open")
    for port in (0, 65536):
        with tunnel(cay, "t", port) as stream:
            fails("invalid_argument", stream.next)
    with tunnel(cay, "nobody", 7000) as stream:
        fails("not_found", stream.next)
    with Stream(cay, PROCESS + "ConnectPort") as stream:
        stream.send({"data": b64(b"x")})
        fails("invalid_argument", stream.next)
    with tunnel(cay, "t", 7000) as stream:
        assert stream.next() == {"opened": {}}
        cay.destroy("t")
        try:
            assert stream.next() is None
        except RpcError as error:
            assert error.code == "unavailable", error


@case
def nothing_held(cay):
    """closed ports and connections leave no descriptors in the daemon"""
    def round_trip():
        cay.create("h")
        port = served(cay, "h", 7000)
        socks = [connect(port) for _ in range(20)]
        for sock in socks:
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"
        for sock in socks[::2]:
            sock.close()
        expose(cay, "h", 7001)
        tunnel(cay, "h", 7000).close()
        with tunnel(cay, "h", 7000) as stream:
            assert stream.next() == {"opened": {}}
        cay.destroy("h")
        for sock in socks:
            sock.close()
    round_trip()
    before = [name for name in cay.fds() if name.startswith(("net:", "socket:"))]
    round_trip()
    eventually(lambda: len([name for name in cay.fds() if name.startswith(("net:", "socket:"))])
               <= len(before) + 2, "descriptors are back")


if __name__ == "__main__":
    run_with_cayd("--default-base", "small", "--reserve", "0", echo_server=sys.argv[3])
