#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Terminals: `cay shell`, `cay attach` and `cay exec -t` driven by a real one; the Terminal stream."""

import contextlib
import fcntl
import json
import os
import pty
import queue
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from daemon import PATIENCE_S, case, eventually
from process_client import Processes
from small_base import run_with_cayd

CAY = sys.argv[-2]
CONTRACT = sys.argv[-1]
SID = "tty"


class Screen:
    """A command on a terminal of ours."""

    def __init__(self, cay, *arguments, rows=24, cols=80):
        self.master, slave = pty.openpty()
        self.resize(rows, cols)
        self.before = termios.tcgetattr(slave)
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "HOME": "/",
                       "CAY_URL": f"unix:{cay.socket_path}"}
        self.process = subprocess.Popen([CAY, *arguments], stdin=slave, stdout=slave, stderr=slave,
                                        env=environment, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.slave = slave
        self.seen = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, data):
        os.write(self.master, data)

    def until(self, text):
        """Read until the text is on the screen; what came before it goes."""
        until = time.monotonic() + PATIENCE_S
        while text not in self.seen:
            is_over = self.process.poll() is not None  # asked first: it may print until then
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 65536)
            elif is_over or time.monotonic() > until:
                raise AssertionError((text, self.seen[-500:]))
        at = self.seen.index(text) + len(text)
        shown, self.seen = self.seen[:at], self.seen[at:]
        return shown

    def end(self):
        """Wait for the command: its status; the terminal is as it was."""
        until = time.monotonic() + PATIENCE_S
        is_over = False
        while not is_over or select.select([self.master], [], [], 0)[0]:
            assert time.monotonic() < until, self.seen[-500:]
            is_over = self.process.poll() is not None
            if select.select([self.master], [], [], 0.05)[0]:
                self.seen += os.read(self.master, 65536)
        assert termios.tcgetattr(self.slave) == self.before, "the terminal is not as it was"
        return self.process.returncode


@case
def size(cay):
    """a shell has a terminal of our size, and a resize reaches it"""
    with Screen(cay, "shell", SID, rows=33, cols=101) as screen:
        screen.type(b"stty size; tty; echo mark-$((1+1))\n")
        shown = screen.until(b"mark-2")
        assert b"33 101" in shown and b"/dev/pts/" in shown, shown
        screen.resize(44, 55)
        os.kill(screen.process.pid, signal.SIGWINCH)
        screen.type(b"while ! stty size | grep '44 55'; do :; done; echo mark-$((2+2))\n")
        screen.until(b"mark-4")
        screen.type(b"exit 7\n")
        assert screen.end() == 7
    assert Processes(cay, SID).ids() == []


@case
def interrupt(cay):
    """Ctrl-C goes to what runs in the foreground, not to the shell or to cay"""
    with Screen(cay, "shell", SID) as screen:
        screen.type(b"echo mark-$((1+1)); sleep 1000\n")
        screen.until(b"mark-2")
        eventually(lambda: b"sleep 1000" in cay.launch(SID, "/bin/ps", "-o", "args")[1], "it sleeps")
        screen.type(b"\x03")
        screen.type(b"echo status-$?-\n")
        screen.until(b"status-130-")
        screen.until(b"$ ")  # before its prompt the shell does not see single keys
        screen.type(b"\x04")
        assert screen.end() in (0, 130)


@case
def detach(cay):
    """ctrl-p ctrl-q leaves the shell running; attach comes back to it, also after a restart"""
    plane = Processes(cay, SID)
    with Screen(cay, "shell", SID) as screen:
        screen.type(b"x=kept; echo mark-$((1+1))\n")
        screen.until(b"mark-2")
        screen.type(b"\x10\x11")
        assert screen.end() == 0 and b"detached" in screen.seen, screen.seen
    process_id, = plane.ids()
    assert plane.list()[0]["tag"] == "shell"
    assert f"process {process_id} goes on, and 'cay attach {SID} {process_id}'".encode() in screen.seen, screen.seen
    cay.restart()
    with Screen(cay, "attach", SID, process_id, rows=20, cols=60) as screen:
        screen.until(b"mark-2")
        screen.type(b"echo $x-$((2+2)); stty size\n")
        screen.until(b"kept-4")
        screen.type(b"\x10")
        screen.type(b"\x11")
        assert screen.end() == 0
    with Screen(cay, "attach", SID, process_id) as screen:
        screen.type(b"exit 5\n")
        assert screen.end() == 5
    assert plane.ids() == []


@case
def questions(cay):
    """questions that were put to a terminal before we came are not put to ours"""
    script = ("printf 'a\\033[6nb\\033[cc\\033[?1$pd\\033]11;?\\007e\\033P+q544e\\033\\\\f\\033[1mg\\033]0;title\\007h\\n';"
              "read x; printf 'live\\033[6n\\n'; read x")
    plane = Processes(cay, SID)
    process_id = plane.start("/bin/sh", "-c", script, pty={"rows": 24, "cols": 80})["id"]
    plane.read_until(process_id, b"h")
    with Screen(cay, "attach", SID, process_id) as screen:
        shown = screen.until(b"h\r\n")
        assert shown.endswith(b"abcdef\x1b[1mg\x1b]0;title\x07h\r\n"), shown
        screen.type(b"\n")
        screen.until(b"live\x1b[6n")
        screen.type(b"\n")
        assert screen.end() == 0


@case
def killed(cay):
    """the terminal is as it was also when cay is told to end, and the shell goes on"""
    plane = Processes(cay, SID)
    with Screen(cay, "shell", SID) as screen:
        screen.type(b"echo mark-$((1+1))\n")
        screen.until(b"mark-2")
        os.kill(screen.process.pid, signal.SIGTERM)
        assert screen.end() == 143
    for process_id in plane.ids():
        plane.end(process_id)


@case
def exec_with_terminal(cay):
    """exec -t gives a terminal, exec -it every key, and the exit code passes"""
    with Screen(cay, "exec", "-t", SID, "--", "/bin/sh", "-c", "test -t 1 && echo is a terminal; exit 3") as screen:
        screen.until(b"is a terminal")
        assert screen.end() == 3
    with Screen(cay, "exec", "-it", SID, "--", "/bin/cat") as screen:
        screen.type(b"typed\n")
        screen.until(b"typed\r\ntyped\r\n")
        screen.type(b"\x04")
        assert screen.end() == 0
    with Screen(cay, "exec", "-t", SID, "--", "/bin/sleep", "1001") as screen:
        eventually(lambda: b"sleep 1001" in cay.launch(SID, "/bin/ps", "-o", "args")[1], "it sleeps")
        screen.type(b"\x03")
        assert screen.end() == 130


@case
def end_of_input(cay):
    """where our input is no terminal, its end is that of the terminal: nothing waits for keys for ever"""
    def ends(status, words, *arguments, data=b""):
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "HOME": "/", "CAY_URL": f"unix:{cay.socket_path}"}
        done = subprocess.run([CAY, *arguments], input=data, env=environment, capture_output=True, timeout=PATIENCE_S,
                              check=False)
        assert done.returncode == status and words in done.stdout, (arguments, done)

    ends(0, b"", "shell", SID)
    ends(0, b"is 42", "shell", SID, data=b"echo is $((6*7))\n")
    ends(5, b"", "shell", SID, data=b"exit 5\n")
    ends(0, b"", "exec", "-t", SID, "--", "/bin/cat")
    ends(0, b"half a line", "exec", "-it", SID, "--", "/bin/cat", data=b"half a line")
    assert Processes(cay, SID).ids() == []


class Terminal:
    """The bidirectional stream, over gRPC."""

    pool = descriptor_pool.DescriptorPool()

    def __init__(self, channel, key, **fields):
        if not hasattr(Terminal, "factory"):
            for file in descriptor_pb2.FileDescriptorSet.FromString(Path(CONTRACT).read_bytes()).file:
                self.pool.Add(file)
            Terminal.factory = message_factory.MessageFactory(self.pool)
        self.requests = queue.Queue()
        method = channel.stream_stream(
            "/cay.v1.ProcessService/Terminal", request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=self.type("TerminalResponse").FromString)
        self.send(open=self.type("TerminalOpen")(**fields))
        self.answers = method(iter(self.requests.get, None), timeout=PATIENCE_S,
                              metadata=[("authorization", f"Bearer {key}")])
        self.seen = b""
        self.sizes = []
        self.opened = next(self.answers).opened

    def type(self, name):
        return self.factory.GetPrototype(self.pool.FindMessageTypeByName(f"cay.v1.{name}"))

    def send(self, **fields):
        self.requests.put(self.type("TerminalRequest")(**fields))

    def close(self):
        self.requests.put(None)

    def until(self, text):
        while text not in self.seen:
            self.take(next(self.answers))
        self.seen = self.seen[self.seen.index(text) + len(text):]

    def take(self, answer):
        self.seen += answer.output.data
        if answer.HasField("resized"):
            self.sizes.append((answer.resized.rows, answer.resized.cols))

    def end(self):
        """The last frame: how it ended."""
        last = None
        for answer in self.answers:
            self.take(answer)
            last = answer
        return last.exited


@case
def stream(cay):
    """the Terminal stream carries both directions, for several clients at once"""
    key = cay.call("cay.v1.KeyService/CreateKey", {"owner": "root", "role": "KEY_ROLE_ADMIN"})["secret"]
    with grpc.insecure_channel(f"{cay.host}:{cay.port}") as channel:
        first = Terminal(channel, key, session_id=SID, size={"rows": 30, "cols": 70})
        assert first.opened.pty.rows == 30 and first.opened.pid, first.opened
        first.send(input=b"stty size; echo mark-$((1+1))\n")
        first.until(b"30 70")
        first.until(b"mark-2")
        second = Terminal(channel, key, session_id=SID, process_id=first.opened.id)
        second.until(b"mark-2")
        second.send(resize={"rows": 11, "cols": 22})
        second.send(input=b"stty size\n")
        second.until(b"11 22")
        first.until(b"11 22")
        assert first.sizes == [(11, 22)] and second.sizes == [], (first.sizes, second.sizes)
        watcher = Terminal(channel, key, session_id=SID, process_id=first.opened.id, read_only=True)
        watcher.send(input=b"echo never\n")
        second.close()
        list(second.answers)
        first.send(input=b"sleep 1003\n")
        eventually(lambda: b"sleep 1003" in cay.launch(SID, "/bin/ps", "-o", "args")[1], "it sleeps")
        first.send(input=b"\x03")
        first.send(input=b"exit 9\n")
        assert first.end().result.exit_code == 9
        assert watcher.end().result.exit_code == 9 and b"never" not in watcher.seen
        third = Terminal(channel, key, session_id=SID, launch={"argv": ["/bin/cat"]})
        third.send(input=b"x" * 100 + b"\n")
        third.until(b"x" * 100)
        third.send(signal={"signal": 15})
        assert third.end().result.signal == 15


@case
def commands(cay):
    """ps, logs and kill show and end what runs in the background"""
    environment = {"PATH": os.environ["PATH"], "CAY_URL": f"unix:{cay.socket_path}"}

    def run(*arguments, status=0, **more):
        done = subprocess.run([CAY, *arguments], env=environment, capture_output=True, check=False,
                              timeout=PATIENCE_S, **more)
        assert done.returncode == status, (arguments, done)
        return done.stdout.decode()
    script = "echo one; echo two >&2; sleep 1002"
    process_id = run("exec", "--background", "--tag", "job", SID, "--", "/bin/sh", "-c", script).strip()
    assert run("ps", "-q", SID) == process_id + "\n"
    line = run("ps", SID).splitlines()[1]
    assert process_id in line and "running" in line and "job" in line and "echo one" in line, line
    found = json.loads(run("ps", "--json", SID))["processes"]
    assert found[0]["id"] == process_id, found
    eventually(lambda: run("logs", SID, process_id) == "one\n", "it has printed")
    assert run("logs", "--since", "1", SID, process_id) == "ne\n"
    assert run("logs", "--tail", "1", SID, process_id) == "", "the newest line is standard error's"
    run("logs", SID, "p-nothing", status=125)
    run("kill", "-s", "USR9", SID, process_id, status=125)
    follower = subprocess.Popen([CAY, "logs", "-f", SID, process_id], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert follower.stdout.readline() == b"one\n"
    run("kill", "-s", "HUP", "--tree", "--wait", SID, process_id)
    assert follower.wait(PATIENCE_S) == 0
    follower.stdout.close()
    assert run("ps", "-q", SID) == ""
    assert "killed" in run("ps", "-a", SID)
    big = os.urandom(300000)
    done = subprocess.run([CAY, "exec", "-i", SID, "--", "/bin/cat"], env=environment, input=big,
                          capture_output=True, check=False, timeout=PATIENCE_S)
    assert done.stdout == big and done.returncode == 0, (len(done.stdout), done.stderr)


if __name__ == "__main__":
    run_with_cayd(session=SID)
