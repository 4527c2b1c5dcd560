#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A restart refuses nobody: PROGRAM CAYD CAY ECHO_SERVER.

The daemon replaces itself (SIGUSR2) or is started anew on sockets that a service manager holds. New
calls wait, calls under way are answered, streams that have no end are told to come back, and `cay`
comes back by itself.
"""

import contextlib
import errno
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from cli_daemon import Cli
from daemon import (FILE, IS_FULL, KEY, PROCESS, SANDBOX, Client, case, eventually, fails,
                    list_if_asked, run)
from process_client import Processes
from small_base import import_small

ECHO_SERVER = sys.argv[3]
RESTARTS = 10
PATIENCE_S = 60


class Daemon(Cli):
    """A daemon that is replaced by signal, or restarted on sockets that are ours."""

    def __init__(self, *flags, listen=None, sockets=()):
        self.held = sockets
        self.address = listen
        super().__init__(*flags)

    def start(self):
        if self.address:
            self.command[self.command.index("--listen") + 1] = self.address
        if not self.held:
            super().start()
            return
        numbers = [sock.fileno() for sock in self.held]
        script = ("import fcntl, os, sys\n"
                  f"high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in {numbers}]\n"
                  "for number, fd in enumerate(high): os.dup2(fd, 3 + number)\n"
                  f"os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='{len(numbers)}')\n"
                  "os.execv(sys.argv[1], sys.argv[1:])\n")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([sys.executable, "-c", script, *self.command], pass_fds=numbers,
                                            stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL)
        self.read_ready()

    def read_ready(self):
        line = self.process.stdout.readline().decode()
        assert line.startswith("cayd ready on "), f"cayd said {line!r}; its log: {self.log_tail()}"
        self.host, _, port = line.split()[-1].removeprefix("http://").rpartition(":")
        self.port = int(port)

    def replace(self):
        """The daemon runs its program once more, in the same process."""
        before = self.port
        self.process.send_signal(signal.SIGUSR2)
        self.read_ready()
        assert self.process.poll() is None and self.port == before, (self.port, before)

    def end(self):
        """SIGTERM; how long it took."""
        started = time.monotonic()
        assert self.stop() == 0, self.log_tail()
        return time.monotonic() - started

    def anew(self):
        self.end()
        self.start()


class Load(threading.Thread):
    """Calls one after the other until it is told to stop. No failure is put up with."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self.work = work
        self.is_over = False
        self.count = 0
        self.error = None
        self.start()

    def run(self):
        try:
            while not self.is_over:
                self.work(self.count)
                self.count += 1
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def finish(self):
        self.is_over = True
        self.join(PATIENCE_S)
        assert not self.is_alive(), "a call has no answer"
        assert self.error is None, f"after {self.count} calls: {self.error!r}"
        return self.count


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the daemon's own socket."""

    def __init__(self, path):
        super().__init__("test", timeout=PATIENCE_S)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(self.path)


def asks(connection, key, method, message):
    """One call on a connection that is kept; it must not be closed in between."""
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    before = connection.sock
    connection.request("POST", "/" + method, json.dumps(message), headers)
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200, (response.status, body)
    assert before is None or connection.sock is before, "the connection was closed"


def loads(cay, key, keeps_connections):
    """All ways to call: TCP and the Unix socket, connections kept and not, quick and slow verbs."""
    admin = cay
    tcp = Client(cay, key)

    def writes(number):
        data = f"{number}\n"
        admin.tool("load", "write_file", path=f"f{number % 7}", content=data)
        assert admin.read("load", f"f{number % 7}").decode() == data

    works = [lambda _: tcp.call(SANDBOX + "GetSession", {"sessionId": "load"}),
             lambda _: admin.call(SANDBOX + "GetSession", {"sessionId": "load"}),
             writes,
             lambda n: assert_said(admin.bash("load", f"sleep 0.1; echo said-{n}"), f"said-{n}")]
    if keeps_connections:
        kept = http.client.HTTPConnection(cay.host, cay.port, timeout=PATIENCE_S)
        kept_unix = UnixConnection(cay.socket_path)
        works += [lambda _: asks(kept, key, SANDBOX + "GetSession", {"sessionId": "load"}),
                  lambda _: asks(kept_unix, None, SANDBOX + "ListSessions", {})]
    return [Load(work) for work in works]


def assert_said(result, text):
    assert text in json.dumps(result), result


def progress(load, calls=3):
    """It gets that many answers more."""
    goal = load.count + calls
    eventually(lambda: load.count >= goal or load.error, "answers come", PATIENCE_S)


def admin_key(cay):
    return cay.call(KEY + "CreateKey", {"owner": "load", "role": "KEY_ROLE_ADMIN"})["secret"]


def under_load(cay, restart, keeps_connections):
    cay.create("load", base="small")
    running = loads(cay, admin_key(cay), keeps_connections)
    for _ in range(RESTARTS):
        for load in running:
            progress(load)
        restart()
    for load in running:
        progress(load)
    counts = [load.finish() for load in running]
    assert min(counts) >= RESTARTS, counts
    cay.destroy("load")


@case
def replaced_under_load(cay):
    """ten times replaced under load: no connection is refused or closed, every call is answered"""
    under_load(cay, cay.replace, True)


@case
def endless_streams_are_cut(cay):
    """streams without an end are cut at once, with a reason; a wait is answered"""
    cay.create("cut", base="small")
    processes = Processes(cay, "cut")
    sleeper = processes.sh("echo up; sleep 1000")
    open_streams = {
        "events": cay.open(SANDBOX + "WatchEvents", {}),
        "attach": processes.attach(sleeper),
        "watch": cay.open(FILE + "WatchDir", {"sessionId": "cut", "path": "/workspace"}),
    }
    for stream in open_streams.values():
        assert stream.next(), "it begins"
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(processes.wait(sleeper)))
    waiting.start()
    eventually(lambda: peers_of(cay) >= 4, "all are connected")
    took_s = cay.end()
    assert took_s < 10, took_s
    for name, stream in open_streams.items():
        error = fails("unavailable", list, stream, reason="daemon_restarting")
        assert "again" in error.message, (name, error)
    waiting.join(PATIENCE_S)
    assert answers and not answers[0].get("exited") and answers[0]["process"]["id"] == sleeper, answers
    cay.start()
    assert processes.get(sleeper)["state"] == "PROCESS_STATE_RUNNING"
    cay.destroy("cut")


def peers_of(cay):
    """How many connections the daemon has on its Unix socket, besides the one that listens."""
    with open("/proc/net/unix", encoding="ascii") as file:
        return sum(line.rstrip().endswith(str(cay.socket_path)) for line in file) - 1


class Reader(threading.Thread):
    """The lines of a program, as they come."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process = process
        self.lines = []
        self.start()

    def run(self):
        for line in self.process.stdout:
            self.lines.append(line.decode().rstrip("\n"))

    def wait_for(self, count):
        eventually(lambda: len(self.lines) >= count or self.process.poll() is not None, f"{count} lines",
                   PATIENCE_S)
        if self.process.poll() is not None:  # what it printed last may still be on its way to us
            self.join(PATIENCE_S)
        assert len(self.lines) >= count, (self.process.poll(), self.lines[-3:], self.process.stderr.read())

    def finish(self):
        status = self.process.wait(PATIENCE_S)
        self.join(PATIENCE_S)
        error = self.process.stderr.read().decode()
        self.process.stdout.close()
        self.process.stderr.close()
        return status, error


def counting(last, status=0):
    return f"i=0; while [ $i -lt {last} ]; do echo line-$i; i=$((i+1)); usleep 3000; done; exit {status}"


@case
def cay_comes_back(cay):
    """cay exec, logs -f, attach and events -f go on after restarts: each line once, the status as ever"""
    last = 900
    cay.create("back", base="small")
    process_id = Processes(cay, "back").sh(counting(last, 3))
    readers = {
        "exec": Reader(cay.begin("exec", "back", "--", "/bin/sh", "-c", counting(last, 7))),
        "logs": Reader(cay.begin("logs", "-f", "back", process_id)),
        "attach": Reader(cay.begin("attach", "back", process_id)),
    }
    events = Reader(cay.begin("events", "-f", "back"))
    for restart in (cay.replace, cay.replace, cay.anew, cay.replace):
        for reader in readers.values():
            reader.wait_for(min(len(reader.lines) + 20, last - 100))
        restart()
    wanted = [f"line-{number}" for number in range(last)]
    for name, reader in readers.items():
        status, error = reader.finish()
        assert reader.lines == wanted, (name, len(reader.lines), diff_of(reader.lines, wanted), error)
        assert status == {"exec": 7, "logs": 0, "attach": 3}[name], (name, status, error)
    # What happens afterwards is seen.
    cay.snapshot("back", "after")
    eventually(lambda: any("after" in line for line in events.lines), "the event is shown")
    events.process.send_signal(signal.SIGINT)
    events.finish()
    cay.destroy("back")


def diff_of(got, wanted):
    for number, (one, two) in enumerate(zip(got, wanted)):
        if one != two:
            return number, one, two
    return min(len(got), len(wanted)), got[len(wanted):][:3], wanted[len(got):][:3]


@case
def much_output(cay):
    """what a command prints while the daemon is away is not lost, however much it is"""
    cay.create("much", base="small")
    size = 30_000_000
    reader = cay.begin("exec", "much", "--", "/bin/sh", "-c", f"yes 0123456789 | head -c {size}")
    seen = 0
    for goal in (1_000_000, 8_000_000, 20_000_000):
        while seen < goal:
            seen += len(reader.stdout.read1(65536))
        cay.replace()
    while piece := reader.stdout.read1(1 << 20):
        seen += len(piece)
    assert reader.wait(PATIENCE_S) == 0 and seen == size, (seen, size, reader.stderr.read())
    reader.stdout.close()
    reader.stderr.close()
    cay.destroy("much")


@case
def ctrl_c_after_a_restart(cay):
    """a command followed across a restart still dies with its caller"""
    cay.create("ctrl", base="small")
    reader = Reader(cay.begin("exec", "ctrl", "--", "/bin/sh", "-c", "echo up; sleep 1000"))
    reader.wait_for(1)
    cay.replace()
    processes = Processes(cay, "ctrl")
    running = processes.list()
    assert len(running) == 1 and running[0]["state"] == "PROCESS_STATE_RUNNING", running
    eventually(lambda: processes.get(running[0]["id"]).get("attached"), "it is followed again")
    reader.process.send_signal(signal.SIGINT)
    status, error = reader.finish()
    assert status == 128 + signal.SIGINT, (status, error)
    eventually(lambda: processes.get(running[0]["id"])["state"] == "PROCESS_STATE_EXITED", "it is killed")
    cay.destroy("ctrl")


@case
def nobody_comes_back(cay):
    """a command whose caller does not come back dies after a while"""
    cay.create("gone", base="small")
    reader = Reader(cay.begin("exec", "gone", "--", "/bin/sh", "-c", "echo up; sleep 1000"))
    reader.wait_for(1)
    reader.process.send_signal(signal.SIGSTOP)
    cay.replace()
    reader.process.kill()
    reader.finish()
    processes = Processes(cay, "gone")
    process_id = processes.list()[0]["id"]
    assert processes.get(process_id)["state"] == "PROCESS_STATE_RUNNING"
    if IS_FULL:
        eventually(lambda: processes.get(process_id)["state"] == "PROCESS_STATE_EXITED", "it is killed", 60)
    cay.destroy("gone")


@case
def exposed_ports_stay_open(cay):
    """a connection to an exposed port is never refused, and the port stays the same"""
    cay.create("port", base="small")
    Processes(cay, "port").start("echo_server", "127.0.0.1", "7000")
    request = {"sessionId": "port", "port": {"port": 7000, "waitListening": "60s"}}
    port = cay.call(PROCESS + "ExposePort", request)["port"]
    refused = []

    def connect(_):
        # It may be cut off while the daemon goes, even before we know that it stood, but it is not refused.
        with contextlib.suppress(ConnectionResetError, BrokenPipeError), \
             socket.create_connection((port["bindAddress"], port["hostPort"]), PATIENCE_S) as sock:
            sock.sendall(b"x")
            try:
                sock.shutdown(socket.SHUT_WR)
            except OSError as error:
                if error.errno != errno.ENOTCONN:  # cut off just now
                    raise
                return
            refused.append(sock.recv(1) != b"x")

    load = Load(connect)
    for _ in range(5):
        progress(load)
        cay.replace()
    progress(load)
    load.finish()
    cay.destroy("port")


@case
def a_bad_configuration(cay):
    """a daemon whose program does not take the configuration is not given up"""
    config = cay.folder / "cayd.conf"
    good = config.read_text() if config.exists() else ""
    config.write_text("no_such_key = 1\n")
    try:
        cay.process.send_signal(signal.SIGUSR2)
        eventually(lambda: "cayd.not_replaced" in cay.log_tail(), "it says so")
        assert cay.process.poll() is None
        cay.create("conf", base="small")
        cay.destroy("conf")
    finally:
        config.write_text(good)
    cay.replace()


@case
def on_sockets_of_a_service_manager(_):
    """started anew on sockets that somebody else holds: no connection is refused"""
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen(1024)
        path = f"/tmp/cay-restart-{os.getpid()}.sock"
        unix.bind(path)
        unix.listen(1024)
        address = f"127.0.0.1:{tcp.getsockname()[1]}"
        try:
            with Daemon("--listen", f"unix:{path}", listen=address, sockets=(tcp, unix)) as cay:
                cay.socket_path = path
                import_small(cay)
                under_load(cay, cay.anew, False)
                assert os.path.exists(path), "the socket belongs to the service manager"
                cay.replace()
                cay.replace()
                cay.anew()
        finally:
            os.unlink(path)


@case
def sessions_stay(_):
    """sessions that end with the daemon stay when it is replaced"""
    with Daemon("--destroy-on-exit") as cay:
        import_small(cay)
        cay.create("stays", base="small")
        cay.replace()
        assert cay.ids() == ["stays"]
        cay.anew()
        assert cay.ids() == []


@case
def stopped_while_replaced(cay):
    """a daemon that is told to stop while it is being replaced stops"""
    cay.create("stop", base="small")
    calls = threading.Thread(target=lambda: cay.bash("stop", "sleep 1"))
    calls.start()
    eventually(lambda: [1 for pid in cay.processes() if b"sleep" in command_of(pid)], "it runs")
    cay.process.send_signal(signal.SIGUSR2)
    eventually(lambda: "cayd.replacing" in cay.log_tail(), "it is being replaced")
    assert cay.end() < 30
    calls.join(PATIENCE_S)
    cay.start()
    cay.destroy("stop")


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def main():
    list_if_asked()
    with Daemon() as cay:
        config = cay.folder / "cayd.conf"
        config.write_text("")
        cay.end()
        cay.command += ["--config", str(config)]
        cay.start()
        import_small(cay, echo_server=ECHO_SERVER)
        cay.keep()
        run(cay, after_each=cay.reset)


if __name__ == "__main__":
    main()
