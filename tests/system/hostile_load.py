# SPDX-License-Identifier: Apache-2.0
"""What a hostile owner does: every kind of call, at full speed, from several processes, and left at any moment.

Each kind of attack is a function that does one of its kind; which sessions it meets and when it hangs up is a matter of its random
numbers.
"""

import contextlib
import gzip
import io
import json
import multiprocessing
import os
import random
import socket
import struct
import tarfile
import threading
import time

from daemon import FILE, PROCESS, SANDBOX, Closed, RpcError, Stream, b64

PROCESSES = 4
THREADS = 6
SESSIONS = 6  # that all processes share
ATTACKS = {}

HEAD = b'{"sessionId":"none","call":{"toolName":"read_file","params":{"path":['
LARGE = HEAD + b"1.234567890123456789e-300," * 40000 + b"0]}}}"
PACKED = gzip.compress(HEAD + b"1.234567890123456789e-300," * 400000 + b"0]}}}", 1)
TREE = "mkdir -p deep; cd deep; for i in $(seq 20); do mkdir -p $i/a $i/b $i/c; echo $i > $i/a/f; done"


def attack(function):
    ATTACKS[function.__name__] = function
    return function


def archive():
    """A tree as a packed stream."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for number in range(50):
            entry = tarfile.TarInfo(f"tree/{number % 7}/{number}")
            entry.size = 4000
            tar.addfile(entry, io.BytesIO(os.urandom(4000)))
    return packed.getvalue()


class Evil:
    """One thread of the attack."""

    def __init__(self, client, seed):
        self.client = client
        self.rng = random.Random(seed)

    def pick(self):
        return f"evil-{self.rng.randrange(SESSIONS)}"

    def wait(self, most_s=0.05):
        """Before a hang-up: none, short, or as long as that."""
        time.sleep(self.rng.choice((0, 0, 0.001, 0.005, most_s)))

    def hang_up(self, raw):
        """In the ways there are: gently, or with a reset."""
        if self.rng.random() < 0.5:
            raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.sock.close()

    def leave(self, method, message):
        """A call whose answer is left somewhere, or heard."""
        raw = self.client.post(method, message, 5)
        if self.rng.random() < 0.3:
            with raw:
                return raw.answer()
        self.wait()
        return self.hang_up(raw)

    def post(self, method, body, kind="json", encoding="identity"):
        """Raw bytes, maybe cut short."""
        raw = self.client.socket(5)
        head = (f"POST /{method} HTTP/1.1\r\nhost: test\r\ncontent-type: application/{kind}\r\ncontent-length: {len(body)}\r\n"
                f"content-encoding: {encoding}\r\n{self.client.auth}\r\n").encode()
        with raw:
            whole = self.rng.random() < 0.6
            raw.sendall(head + (body if whole else body[:self.rng.randrange(len(body))]))
            if whole and self.rng.random() < 0.5:
                raw.recv(4096)

    def read_some(self, stream):
        with stream:
            for _ in range(self.rng.choice((0, 1, 3, 20))):
                if stream.next() is None:
                    return
            self.wait()
            self.hang_up(stream.raw)

    def stream(self, method, message):
        self.read_some(self.client.open(method, message, 5))


@attack
def searches(evil):
    pattern = evil.rng.choice(("(a+)+$", "(a|aa)+$", "b", "(x*)*y", "[^!]*!$"))
    evil.leave(SANDBOX + "ExecuteTool", {"sessionId": evil.pick(), "call": {
        "toolName": "grep", "params": {"pattern": pattern, "path": evil.rng.choice(("/workspace/a", "/"))}}})


@attack
def bodies(evil):
    body, encoding = evil.rng.choice(((LARGE, "identity"), (PACKED, "gzip"), (PACKED[:5000], "gzip")))
    evil.post(SANDBOX + "ExecuteTool", body, encoding=encoding)


@attack
def binary(evil):
    body = b"\x0a\x06" + evil.pick().encode() + evil.rng.randbytes(evil.rng.choice((0, 5, 30000)))
    evil.post(SANDBOX + evil.rng.choice(("GetSession", "ExecuteTool", "CreateSession")), body, kind="proto")


@attack
def packed_streams(evil):
    body = gzip.compress(json.dumps({"labels": {str(n): "" for n in range(evil.rng.choice((1, 5000)))}}).encode(), 1)
    evil.post(SANDBOX + "WatchEvents", b"\1" + len(body).to_bytes(4, "big") + body, kind="connect+json")


@attack
def lists(evil):
    method, message = evil.rng.choice((("ListSessions", {"pageSize": 1000}), ("ListSnapshots", {"sessionId": evil.pick()}),
                                       ("GetUsage", {}), ("ListTools", {})))
    evil.leave(SANDBOX + method, message)


@attack
def events(evil):
    evil.stream(SANDBOX + "WatchEvents", {"noFollow": evil.rng.random() < 0.5})


@attack
def files(evil):
    session, rng = evil.pick(), evil.rng
    evil.leave(SANDBOX + "ExecuteTool", {"sessionId": session, "call": {"toolName": "write_file", "params": {
        "path": f"/workspace/deep/{rng.randrange(20)}/b/{rng.randrange(50)}", "content": "x" * rng.choice((1, 100000))}}})
    evil.stream(FILE + "ReadFile", {"sessionId": session, "path": "/workspace/a"})


@attack
def uploads(evil):
    data, rng = evil.rng.randbytes(200000), evil.rng
    with Stream(evil.client, FILE + "WriteFile", 5) as stream:
        packed = rng.random() < 0.5
        target = {"path": "/workspace/tree", "archive": "TREE_FORMAT_TAR_GZIP"} if packed else {"path": "/workspace/up"}
        stream.send({"open": {"sessionId": evil.pick()} | target})
        data = archive() if packed else data
        for at in range(0, len(data), 50000):
            if rng.random() < 0.1:
                return evil.hang_up(stream.raw)
            stream.send({"data": b64(data[at:at + 50000])})
        stream.end()
        if rng.random() < 0.5:
            return list(stream)
        evil.wait()
        return evil.hang_up(stream.raw)


@attack
def sessions(evil):
    name = evil.pick()
    evil.leave(SANDBOX + "DestroySession", {"sessionId": name, "missingOk": True})
    evil.leave(SANDBOX + "CreateSession", {"sessionId": name, "base": "small", "lazyStart": evil.rng.random() < 0.5})
    evil.leave(SANDBOX + "ExecuteTool", {"sessionId": name, "call": {"toolName": "write_file", "params": {
        "path": "/workspace/a", "content": ("a" * 40 + "!\n") * 5000}}})
    evil.leave(PROCESS + "LaunchProcess", {"sessionId": name, "wait": "5s", "spec": {"argv": ["/bin/sh", "-c", TREE]}})


@attack
def turns(evil):
    name = evil.pick()
    evil.leave(SANDBOX + "TurnComplete", {"sessionId": name})
    evil.leave(SANDBOX + "RollbackSession", {"sessionId": name, "snapshot": "turn-0001", "killTools": True})
    evil.stream(SANDBOX + "DiffSnapshots", {"sessionId": name, "from": "turn-0001"})


@attack
def forks(evil):
    fork = f"evil-fork-{evil.rng.randrange(4)}"
    evil.leave(SANDBOX + "ForkSession", {"sessionId": evil.pick(), "sessionIds": [fork], "lazyStart": True})
    evil.leave(SANDBOX + "DestroySession", {"sessionId": fork})


@attack
def pauses(evil):
    name = evil.pick()
    mode = evil.rng.choice(("PAUSE_MODE_STOP", "PAUSE_MODE_FREEZE"))
    evil.leave(SANDBOX + "PauseSession", {"sessionId": name, "mode": mode, "drainTimeout": "0s"})
    evil.leave(SANDBOX + "ResumeSession", {"sessionId": name})


@attack
def watches(evil):
    name = evil.pick()
    with evil.client.open(FILE + "WatchDir", {"sessionId": name, "path": "/workspace/deep", "recursive": True,
                                              "includeInfo": True}, 5) as stream:
        if evil.rng.random() < 0.3:
            evil.leave(SANDBOX + "DestroySession", {"sessionId": name})
        evil.read_some(stream)


@attack
def output(evil):
    evil.stream(PROCESS + "AttachProcess", {"sessionId": evil.pick(), "launch": {
        "argv": ["/bin/sh", "-c", "yes & exec timeout 3 yes"], "policy": {"killOnDisconnect": evil.rng.random() < 0.7}}})


@attack
def spinning(evil):
    evil.leave(PROCESS + "LaunchProcess", {"sessionId": evil.pick(), "wait": "1s", "spec": {
        "argv": ["/bin/sh", "-c", "timeout 2 sh -c 'while :; do :; done'"]}})


@attack
def short_commands(evil):
    evil.leave(PROCESS + "LaunchProcess", {"sessionId": evil.pick(), "wait": "5s", "spec": {"argv": ["/bin/true"]}})


@attack
def terminals(evil):
    with Stream(evil.client, PROCESS + "Terminal", 5) as stream:
        stream.send({"open": {"sessionId": evil.pick(), "launch": {"argv": ["/bin/sh"], "pty": {"rows": 24, "cols": 80}}}})
        stream.send({"input": b64(b"yes | head -c 100000; ls -R /\n")})
        evil.read_some(stream)


@attack
def ports(evil):
    name = evil.pick()
    evil.leave(PROCESS + "ExposePort", {"sessionId": name, "port": {"port": 8000}})
    with Stream(evil.client, PROCESS + "ConnectPort", 5) as stream:
        stream.send({"open": {"sessionId": name, "port": 8000}})
        evil.wait()
        evil.hang_up(stream.raw)
    evil.leave(PROCESS + "UnexposePort", {"sessionId": name, "port": 8000})


@attack
def exports(evil):
    evil.stream(SANDBOX + "ExportSession", {"sessionId": evil.pick()})
    with Stream(evil.client, SANDBOX + "ImportSession", 5) as stream:
        stream.send({"options": {"sessionId": "evil-import"}})
        stream.send({"data": b64(evil.rng.randbytes(3000))})
        evil.wait()
        evil.hang_up(stream.raw)


def _thread(client, seed, kinds, counts, heard):
    evil = Evil(client, seed)
    while True:
        number = evil.rng.randrange(len(kinds))
        # A refusal, a hang-up or a wait that is too long is what it came for.
        try:
            kinds[number](evil)
            heard[number] += 1
        except (OSError, Closed, RpcError, ValueError, KeyError, AssertionError):
            pass
        counts[number] += 1


def _process(client, seed, kinds, counts, heard):
    # Elsewhere, as attackers are: what they think takes little of this machine's processors from the daemon.
    os.setpriority(os.PRIO_PROCESS, 0, 10)
    for thread in range(THREADS):
        threading.Thread(target=_thread, args=(client, f"{seed}-{thread}", kinds, counts, heard), daemon=True).start()
    while True:
        time.sleep(60)


class Load:
    """The attack, while the block runs: each process is killed in the midst of it."""

    def __init__(self, client, names, seed):
        self.kinds = [ATTACKS[name] for name in (names.split(",") if names else ATTACKS)]
        fork = multiprocessing.get_context("fork")
        self.counts = fork.RawArray("L", len(self.kinds))  # of several threads: nearly right
        self.heard = fork.RawArray("L", len(self.kinds))  # those that came to their end
        self.processes = [fork.Process(target=_process, daemon=True,
                                       args=(client, f"{seed}-{number}", self.kinds, self.counts, self.heard))
                          for number in range(PROCESSES)]

    def __enter__(self):
        for process in self.processes:
            process.start()
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()

    def told(self):
        return ", ".join(f"{kind.__name__} {done}/{count}" for kind, count, done in zip(self.kinds, self.counts, self.heard))


def calm(client):
    """What is left of an attack goes."""
    for name in client.ids():
        with contextlib.suppress(RpcError, Closed, OSError):
            client.call(SANDBOX + "DestroySession", {"sessionId": name, "missingOk": True})
