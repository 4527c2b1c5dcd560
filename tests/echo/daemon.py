# SPDX-License-Identifier: Apache-2.0
"""Start daemons for a test, talk to them in raw bytes, and report in TAP.

A test program registers its cases with @case and ends with run(). Binaries come from the command
line, so that the same program tests a sanitizer build. The runner (tools/run-tests) chooses among
the cases and orders them by TEST_CASES, and asks for their list by TEST_LIST.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

SERVICE = "/cay.test.v1.EchoService/"
PATIENCE_S = 15  # for what must come; a machine under load is slow, not wrong
MIB = 1024 * 1024

_cases, _checks, _for_gvisor, _for_nft = [], [], set(), set()


class Skip(Exception):
    """Raised by a case that cannot run here; says why."""


def case(function):
    """Register a test case. Its function has its short name, its docstring says what is promised.
    It makes what it needs: it may be run alone, and after any other."""
    assert all(function.__name__ != other.__name__ for other in _cases), function.__name__
    if (os.environ.get("CAY_RUNTIME") != "gvisor" or function in _for_gvisor) and \
            (os.environ.get("CAY_NETWORK_STEERING") != "nft" or function in _for_nft):
        _cases.append(function)
    return function


def also_in_gvisor(function):
    """Below @case: one of those that a program runs with CAY_RUNTIME=gvisor. Sandboxes take a hundred times as long to
    come there, and the host does not see what is in them: so it is some."""
    _for_gvisor.add(function)
    return function


def also_by_nft(function):
    """Below @case: one of those that a program runs with CAY_NETWORK_STEERING=nft, too."""
    _for_nft.add(function)
    return function


def at_end(function):
    """Register a check of what the cases left: it comes after them, whichever are run."""
    _checks.append(function)
    return function


def list_if_asked():
    """The runner may want to know the cases only. To be called before anything is made for them."""
    if not os.environ.get("TEST_LIST"):
        return
    for function in _cases:
        print(f"case {function.__name__}\t{_promise(function)}")
    sys.exit(0)


def _promise(function):
    return " ".join((function.__doc__ or "").split()).rstrip(".")


def _chosen():
    """The cases that the runner chose, in its order; all, when it chose none."""
    if not (names := os.environ.get("TEST_CASES", "").split()):
        return _cases
    known = {function.__name__: function for function in _cases}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"there is no case {', '.join(unknown)}")
    return [known[name] for name in names]


def is_chosen(function):
    """The case is one of those that are run: what it needs can be begun before its turn."""
    return function in _chosen()


def steps(*functions):
    """Make one case of several functions, which go on where the one before ended. For what is a
    sequence by its nature; everything else is a case of its own."""
    def run_steps(*arguments):
        for function in functions:
            print(f"# {function.__name__}: {_promise(function)}")
            function(*arguments)
    return run_steps


def is_whole():
    """All cases are run, in whatever order."""
    return set(_chosen()) == set(_cases)


def run(*arguments, before_each=lambda: None, after_each=lambda: None):
    """Run the cases with the given arguments; print TAP; exit. before_each() makes what every case
    needs, after_each() takes away what a case made, so that no other can use it."""
    list_if_asked()
    sys.stdout.reconfigure(line_buffering=True)
    chosen = _chosen()
    print(f"1..{len(chosen) + len(_checks)}")
    failed = 0
    for number, function in enumerate([*chosen, *_checks], 1):
        name = ": ".join(filter(None, (function.__name__, _promise(function))))
        started = time.monotonic()
        try:
            if function in _checks:
                function(*arguments)
            else:
                _run_case(lambda: function(*arguments), before_each, after_each)
            print(f"ok {number} - {name}")
        except Skip as skip:
            print(f"ok {number} - {name} # SKIP {skip}")
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok {number} - {name}")
            for line in traceback.format_exc().splitlines():
                print(f"# {line}")
        took_s = time.monotonic() - started
        if took_s > 1:
            print(f"# took {took_s:.1f} s")
    sys.exit(1 if failed else 0)


def _run_case(body, before, after):
    try:
        before()
        body()
    except BaseException:
        # What it left by half may not go away; that it failed is what matters.
        with contextlib.suppress(Exception):
            after()
        raise
    after()


def eventually(condition, what, patience_s=PATIENCE_S):
    """Wait until condition() is true and return what it returned."""
    until = time.monotonic() + patience_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"still not so after {patience_s} s: {what}")
        time.sleep(0.01)


def steady(read):
    """Wait until a number stops moving; return it."""
    last, count = read(), 0

    def is_steady():
        nonlocal last, count
        now = read()
        last, count = now, count + 1 if now == last else 0
        return count == 10

    eventually(is_steady, "it stops moving")
    return last


def is_sanitized(binary):
    code = Path(binary).read_bytes()
    return b"__asan_init" in code or b"__tsan_init" in code


def little_kept(environment):
    """The environment, in which freed memory that ASan holds back does not look like a leak."""
    options = environment.get("ASAN_OPTIONS", "")
    return {**environment, "ASAN_OPTIONS": f"{options}:quarantine_size_mb=4".lstrip(":")}


class Daemon:
    """A daemon of our own, as a context manager; it must end with status 0 when it is told to."""

    def __init__(self, binary, *flags, name="echod", rlimit_fds=None, listen="127.0.0.1:0"):
        environment = little_kept(os.environ)
        environment.setdefault("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
        command = [binary, "--listen", listen, *flags]
        if rlimit_fds:
            command = ["prlimit", f"--nofile={rlimit_fds}", *command]
        self.is_sanitized = is_sanitized(binary)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                        env=environment)
        line = self.process.stdout.readline().decode()
        if not line.startswith(f"{name} ready on "):
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{binary} said {line!r}")
        self.address = line.split()[-1].rpartition("//")[2]
        self.is_unix = self.address.startswith("unix:")
        self.host, _, port = self.address.rpartition(":")
        self.port = None if self.is_unix else int(port)
        self.url = f"http://{self.address}"

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        status = self.stop()
        if kind is None:
            assert status == 0, f"the daemon ended with {status}"

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.stdout.close()
        return self.process.wait()

    def socket(self, timeout_s=PATIENCE_S):
        if self.is_unix:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(self.address.removeprefix("unix:"))
        else:
            sock = socket.create_connection((self.host, self.port))
        sock.settimeout(timeout_s)
        return sock

    def raw(self, timeout_s=PATIENCE_S):
        return Raw(self.socket(timeout_s))

    def ask(self, data, timeout_s=PATIENCE_S):
        """Send bytes on a connection of their own; return the first answer."""
        with self.raw(timeout_s) as raw:
            raw.send(data)
            return raw.answer()

    def call(self, method, message=None, **headers):
        """A Connect unary call in JSON on a connection of its own."""
        fields = {"connection": "close"} | {k.replace("_", "-"): v for k, v in headers.items()}
        return self.ask(post(method, json.dumps(message or {}), **fields))

    def stats(self):
        """What the daemon holds. This very question has a connection and a descriptor of its own,
        which are not counted."""
        answer = self.call("Stats")
        assert answer.status == 200, answer
        stats = {name: int(value) for name, value in answer.json().items()}
        names = ("liveCalls", "cancelledCalls", "messagesReceived", "messagesSent", "timeouts")
        return {name: stats.get(name, 0) for name in names} | {
            "openConnections": stats["openConnections"] - 1,
            "openExchanges": stats["openExchanges"] - 1,
            "fds": stats["fds"] - 1,
            "rssBytes": stats["rssBytes"],
        }

    def settled(self):
        """The same, once the connections of earlier questions are gone."""
        def when_settled():
            stats = self.stats()
            return stats if not stats["openConnections"] and not stats["liveCalls"] else None

        return eventually(when_settled, "earlier connections and calls are gone")

    def rss_room(self, megabytes):
        """How far resident memory may grow: sanitizers need several times as much."""
        return megabytes * MIB * (5 if self.is_sanitized else 1)


class Watch:
    """What a daemon held at the start, to compare with at the end."""

    def __init__(self, daemon, rss_growth_mib=12):
        self.daemon = daemon
        self.start = daemon.settled()
        self.rss_growth_mib = rss_growth_mib

    def check(self):
        """Everything is back to where it was."""
        assert self.daemon.process.poll() is None, "the daemon is gone"
        names = ("fds", "openConnections", "openExchanges", "liveCalls")
        last = {}

        def is_back():
            last.update(self.daemon.stats())
            return all(last[name] == self.start[name] for name in names)

        try:
            eventually(is_back, "everything is back")
        except AssertionError as error:
            raise AssertionError(f"{error}: at the start {self.start}, now {last}") from None
        growth = last["rssBytes"] - self.start["rssBytes"]
        room = self.daemon.rss_room(self.rss_growth_mib)
        assert growth < room, f"memory grew by {growth} bytes, allowed are {room}"


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers  # (name in lower case, value)
        self.body = body

    def header(self, name):
        values = [value for key, value in self.headers if key == name]
        assert len(values) < 2, f"{name} is there {len(values)} times"
        return values[0] if values else None

    def json(self):
        assert self.header("content-type") == "application/json", self
        return json.loads(self.body)

    def code(self):
        """The Connect code of an error that has all its parts."""
        error = self.json()
        assert error["message"], self
        return error["code"]

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body[:400]!r}"


class Closed(Exception):
    """The peer hung up before the answer was complete."""


class Raw:
    """A connection that we write to byte by byte, and a strict reader of answers."""

    def __init__(self, sock):
        self.sock = sock
        self.buffer = bytearray()  # cheap to cut at the front

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        """A peer that has said no may hang up while we still talk."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.sock.sendall(data)

    def more(self):
        try:
            data = self.sock.recv(65536)
        except ConnectionResetError:
            data = b""
        self.buffer += data
        return bool(data)

    def until(self, mark):
        while (at := self.buffer.find(mark)) < 0:
            if not self.more():
                raise Closed(f"before {mark!r}, after {self.buffer[:200]!r}")
        head = bytes(self.buffer[:at])
        del self.buffer[:at + len(mark)]
        return head

    def exactly(self, count):
        while len(self.buffer) < count:
            if not self.more():
                raise Closed(f"{len(self.buffer)} of {count} bytes")
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def rest(self):
        """All that comes until the peer hangs up."""
        while self.more():
            pass
        data = bytes(self.buffer)
        self.buffer.clear()
        return data

    def chunks(self):
        data = []
        while True:
            size = int(self.until(b"\r\n"), 16)
            data.append(self.exactly(size))
            assert self.exactly(2) == b"\r\n"
            if size == 0:
                return b"".join(data)

    def answer(self, is_head=False):
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, text = lines[0].split(" ", 2)
        assert version == "HTTP/1.1" and text, lines[0]
        headers = []
        for line in lines[1:]:
            name, _, value = line.partition(": ")
            headers.append((name.lower(), value))
        found = Answer(int(status), headers, b"")
        length = found.header("content-length")
        if is_head or found.status < 200 or found.status in (204, 304):
            pass
        elif found.header("transfer-encoding"):
            assert length is None and found.header("transfer-encoding") == "chunked"
            found.body = self.chunks()
        elif length is not None:
            found.body = self.exactly(int(length))
        else:
            found.body = self.rest()
        return found

    def is_closed(self, patience_s=PATIENCE_S):
        """Wait for the peer to hang up; nothing may come before that."""
        until = time.monotonic() + patience_s
        while True:
            ready, _, _ = select.select([self.sock], [], [], max(0, until - time.monotonic()))
            if not ready:
                return False
            if not self.more():
                return not self.buffer


def request(line, body=b"", **headers):
    """A request with a Host; header names are written with _ for -."""
    fields = {"host": "test"} | {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value is not None)
    return f"{line} HTTP/1.1\r\n{head}\r\n".encode() + body


def post(method, body=b"{}", content_type="application/json", **headers):
    data = body.encode() if isinstance(body, str) else body
    fields = {"content-type": content_type, "content-length": len(data)}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    return request(f"POST {SERVICE}{method}", data, **fields)


def envelope(payload, flags=0):
    data = payload.encode() if isinstance(payload, str) else payload
    return bytes([flags]) + len(data).to_bytes(4, "big") + data


def envelopes(data):
    """Cut a body into (flags, payload)."""
    found, at = [], 0
    while at < len(data):
        end = at + 5 + int.from_bytes(data[at + 1:at + 5], "big")
        assert end <= len(data), f"an envelope is cut: {data[at:at + 40]!r}"
        found.append((data[at], data[at + 5:end]))
        at = end
    return found


def end_of_stream(answer):
    """The parsed last envelope of a Connect stream, and the messages before it."""
    assert answer.status == 200, answer
    parts = envelopes(answer.body)
    assert parts and parts[-1][0] == 2 and all(not flags & 2 for flags, _ in parts[:-1]), parts
    return json.loads(parts[-1][1]), [payload for _, payload in parts[:-1]]


def stream_code(answer):
    """The code at the end of a Connect stream; None for success."""
    error = end_of_stream(answer)[0].get("error")
    assert error is None or error["message"], error
    return error and error["code"]


@contextlib.contextmanager
def folder():
    """An empty directory, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="t") as path:
        yield Path(path)
