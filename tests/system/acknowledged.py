#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What was acknowledged stays, whatever happens beside it.

Two neighbourhoods, repeated with random timing: files written by tools beside an edit and a background command, when
the sandbox's first process is killed by the host; and uploads beside named snapshots and turns, within milliseconds of
each other. Every file knows when it was acknowledged, every snapshot when it was asked for: what was acknowledged
before is in it, and what was begun after its answer is not.

CAY_TEST_SEED repeats the choices of a run (its timing cannot be repeated), CAY_TEST_STEPS sets the number of rounds."""

import contextlib
import os
import random
import signal
import threading
import time

from daemon import IS_FULL, PROCESS, SANDBOX, Closed, RpcError, case, eventually, good, together
from small_base import run_with_cayd

SEED = int(os.environ.get("CAY_TEST_SEED") or random.randrange(1 << 32))
STEPS = int(os.environ.get("CAY_TEST_STEPS") or (10_000 if IS_FULL else 250))
SESSIONS = 3
TURNS_KEPT = 40  # deep enough for layers to be made flat
RESTART_EVERY = 23  # rounds; a sandbox that was taken over has another root than one that was started
EDITED = "edited"


def listed(cay, session_id, path="/workspace"):
    answer = cay.file("ListDir", session_id, path=path)
    return {entry["name"] for entry in answer.get("entries", [])}


def flat_layers(cay):
    """Layers of the store that show the same as another one."""
    layers = cay.data / "store" / "l"
    return [attribute for layer in layers.iterdir() for attribute in os.listxattr(layer)
            if attribute == "trusted.cay.same"]


def init_pid(cay, session_id, mark=None):
    """The first process of the session's sandbox, or None."""
    for pid in cay.processes():
        with contextlib.suppress(OSError, StopIteration):
            with open(f"/proc/{pid}/status", encoding="ascii") as status:
                inner = next(line.split()[-1] for line in status if line.startswith("NSpid:"))
            if inner == "1" and os.path.exists(f"/proc/{pid}/root/workspace/{mark or 'is-' + session_id}"):
                return pid
    return None


class Session:
    """One session and what was acknowledged of it."""

    def __init__(self, cay, session_id, dice):
        self.cay, self.id, self.dice = cay, session_id, dice
        self.files = {}   # name: text
        self.edits = 0
        self.count = 0
        cay.create(session_id, maxSnapshots=TURNS_KEPT)
        self.put(f"is-{session_id}", "here", {})
        self.put(EDITED, "edit 0", {})

    def fresh(self):
        self.count += 1
        return f"f{self.count}", f"text {self.count}"

    def put(self, name, text, times):
        """By a tool or as an upload; acknowledged when this returns."""
        times[name] = [time.monotonic(), None]
        if self.dice.random() < 0.5:
            result = self.cay.tool(self.id, "write_file", path=f"/workspace/{name}", content=text)
            assert not result.get("isError"), result
        else:
            self.cay.write(self.id, f"/workspace/{name}", text.encode())
        times[name][1] = time.monotonic()
        self.files[name] = text

    def edit(self):
        before, self.edits = self.edits, self.edits + 1
        result = self.cay.tool(self.id, "edit_file", path=f"/workspace/{EDITED}",
                               old_string=f"edit {before}", new_string=f"edit {self.edits}")
        assert not result.get("isError"), result
        self.files[EDITED] = f"edit {self.edits}"

    def background(self):
        """A command that nobody waits for; it may be lost with its sandbox."""
        script = self.dice.choice(("sleep 60", "sleep 0.01", "echo x > b; sleep 1 & sleep 0.02",
                                   "while :; do echo y > c; sleep 0.02; done"))
        with contextlib.suppress(RpcError):
            self.cay.call(PROCESS + "LaunchProcess", {
                "sessionId": self.id, "spec": {"argv": ["/bin/sh", "-c", script], "user": "user"}})

    def check(self):
        there = listed(self.cay, self.id)
        lost = sorted(set(self.files) - there)
        assert not lost, f"session {self.id} has lost {lost}: {self.cay.log_tail()}"
        for name in self.dice.sample(sorted(self.files), min(3, len(self.files))) + [EDITED]:
            text = self.cay.read(self.id, f"/workspace/{name}").decode()
            assert text == self.files[name], f"{self.id}: {name} holds {text!r}, not {self.files[name]!r}"

    def thin(self):
        """Not too many of them, so that a round stays short."""
        if len(self.files) > 40:
            for name in [name for name in self.files if name.startswith("f")][:30]:
                self.cay.file("RemoveFile", self.id, path=f"/workspace/{name}")
                del self.files[name]


def kill_round(session):
    dice = session.dice
    wait_s = dice.random() * 0.03

    def kill():
        time.sleep(wait_s)
        pid = init_pid(session.cay, session.id)
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def write():
        for _ in range(3):
            session.put(*session.fresh(), {})
    jobs = [kill, write, session.edit, session.background]
    dice.shuffle(jobs)
    good(together(*jobs))
    session.check()
    session.thin()


def turn_round(session):
    """Uploads, a named snapshot and two turns at once; then each is looked into."""
    cay, dice = session.cay, session.dice
    times = {}
    points = {}
    is_busy = dice.random() < 0.5
    if is_busy:
        session.background()

    def upload(_index):
        time.sleep(dice.random() * 0.02)
        session.put(*session.fresh(), times)

    def point(index):
        time.sleep(dice.random() * 0.03)
        begun = time.monotonic()
        if index:
            name = cay.turn(session.id)["name"]
        else:
            name = cay.snapshot(session.id, f"named-{session.count}-{dice.randrange(1 << 30)}")["name"]
        points[name] = (begun, time.monotonic())
    if dice.random() < 0.5:  # one after the other, as a client alone does it
        session.put(*session.fresh(), times)
        for index in range(3):
            point(index)
    else:
        good(together(*(lambda i=i: upload(i) for i in range(2)), *(lambda i=i: point(i) for i in range(3))))
    for name, (begun, answered) in points.items():
        fork = cay.fork(session.id, snapshot=name, lazyStart=True)[0]["id"]
        there = listed(cay, fork)
        cay.destroy(fork)
        for file, (start, acknowledged) in times.items():
            assert acknowledged > begun or file in there, (
                f"{session.id}: {file}, acknowledged {(begun - acknowledged) * 1000:.1f} ms before, is not in {name}"
                f" (busy: {is_busy}; points {points}; files {times}): {cay.log_tail()}")
            assert start < answered or file not in there, f"{session.id}: {file} is in {name}, which is older"
        if name.startswith("named"):
            with contextlib.suppress(RpcError):  # the tree may stand on it
                cay.call(SANDBOX + "DeleteSnapshot", {"sessionId": session.id, "snapshots": [name]})
    session.check()
    session.thin()
    if is_busy and dice.random() < 0.7:
        cay.sh(session.id, "kill -9 -1; true", user="root")


def rounds(cay, kind):
    dice = random.Random(f"{SEED}/{kind.__name__}")
    print(f"# {kind.__name__}: CAY_TEST_SEED={SEED} CAY_TEST_STEPS={STEPS}", flush=True)
    sessions = [Session(cay, f"{kind.__name__[:4]}-{number}", random.Random(dice.random()))
                for number in range(SESSIONS)]
    done = 0
    while done < STEPS:
        good(together(*(lambda s=session: kind(s) for session in sessions)))
        done += SESSIONS
        if done % (RESTART_EVERY * SESSIONS) == 0:
            cay.restart()
    for session in sessions:
        cay.destroy(session.id)


# A command that ends at once and leaves somebody who takes long to die: all his memory is to be given back.
DYING = "(dd if=/dev/zero bs=300M count=1000 of=/dev/null 2>/dev/null) & usleep 400000; exit 0"


def leave_dying(cay, session_id):
    result = cay.launch(session_id, "/bin/sh", "-c", DYING, policy={"leftovers": "LEFTOVER_POLICY_KILL"})[0]
    assert result.get("exitCode") == 0 and result.get("leftoverCount"), result


def lost_count(cay):
    return cay.log_path.read_text().count("event=sandbox.lost")


@case
def dying(cay):
    """a turn, a fork and a rollback beside what is left of a killed command keep the sandbox"""
    cay.create("dying")
    before = lost_count(cay)
    for verb in (lambda: cay.turn("dying"), lambda: cay.fork("dying", newSessionId="other", lazyStart=True),
                 lambda: cay.rollback("dying", "turn-0001")):
        cay.write("dying", "/workspace/changed", str(time.monotonic()).encode())
        leave_dying(cay, "dying")
        verb()
        assert lost_count(cay) == before, cay.log_tail()
    cay.destroy("other")
    cay.destroy("dying")


@case
def left_root(cay):
    """a daemon that died during a turn beside them takes no sandbox over whose root is a snapshot"""
    cay.create("left")
    for number in range(31):  # the next turn goes on from a flat copy of the history
        cay.write("left", "/workspace/turn", str(number).encode())
        cay.turn("left")
    cay.kill()
    cay.environment = {"CAY_TEST_CRASH": "turn.recorded"}
    cay.start()
    eventually(lambda: flat_layers(cay), "the history is made flat")
    cay.write("left", "/workspace/before", b"1")
    leave_dying(cay, "left")
    try:
        cay.turn("left")
        raise AssertionError("the daemon lives")
    except (Closed, OSError):
        cay.process.wait()
        cay.process.stdout.close()
    cay.environment = {}
    cay.start()
    cay.write("left", "/workspace/after", b"2")
    entries, _ = cay.diff("left", fromSnapshot="turn-0032")
    assert {path: entry["kind"] for path, entry in entries.items()} == {"/workspace/after": "DIFF_KIND_ADDED"}, entries
    pid = init_pid(cay, "left", "after")
    assert pid, "there is no sandbox"
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: pid not in cay.processes(), "the first process is gone")
    assert {"before", "after"} <= listed(cay, "left"), listed(cay, "left")
    assert cay.sh("left", "cat /workspace/after") == "2"
    cay.destroy("left")


@case
def killed_init(cay):
    """a file that a tool wrote is there after the sandbox's first process was killed"""
    rounds(cay, kill_round)


@case
def turns_and_uploads(cay):
    """an upload is in every snapshot that is asked for after its answer"""
    rounds(cay, turn_round)


if __name__ == "__main__":
    run_with_cayd("--store", "overlay", "--default-base", "small")
