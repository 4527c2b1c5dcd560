#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Processes and their output survive the daemon: nothing lost, nothing doubled."""

import contextlib
import os
import sqlite3
import sys
import threading
import time

from daemon import (IN_GVISOR, IS_FULL, MIB, Closed, RpcError, also_in_gvisor, case, eventually, fails, good,
                    init_of, together, unb64)
from process_client import Processes
from small_base import run_with_cayd

KILLS = 200 if IS_FULL else 20
WRITERS = 4
OLD_INIT = sys.argv[-1]


class Follower(threading.Thread):
    """Reads a process from a thread of its own, and comes back at its offset whenever it is cut off."""

    def __init__(self, processes, process_id):
        super().__init__(daemon=True)
        self.processes = processes
        self.process_id = process_id
        self.data = bytearray()
        self.cuts = 0
        self.error = None
        self.exited = None
        self.start()

    def run(self):
        try:
            while self.exited is None:
                try:
                    self.follow()
                except (OSError, Closed, RpcError) as error:
                    if isinstance(error, RpcError) and error.code not in ("unavailable", "canceled"):
                        raise
                    self.cuts += 1
                    time.sleep(0.02)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def follow(self):
        with self.processes.attach(self.process_id, offset=len(self.data)) as stream:
            for frame in stream:
                chunk = frame.get("output")
                if chunk:
                    assert int(chunk.get("droppedBytes", 0)) == 0, chunk.get("droppedBytes")
                    assert int(chunk.get("offset", 0)) == len(self.data), (chunk, len(self.data))
                    self.data += unb64(chunk.get("data"))
                self.exited = frame.get("exited", self.exited)


@case
def nothing_lost(cay):
    """the daemon is killed again and again under load: every numbered line comes exactly once"""
    cay.create("load")
    plane = Processes(cay, "load")
    script = ("i=0; while [ ! -e /tmp/stop ]; do echo $0 $i; i=$((i+1)); "
              "[ $((i % 50)) != 0 ] || usleep 20000; done; echo $0 last $i")
    policy = {"outputRingBytes": str(8 * MIB)}
    ids = [plane.start("/bin/sh", "-c", script, f"w{n}", tag=f"writer-{n}", policy=policy)["id"]
           for n in range(WRITERS)]
    followers = [Follower(plane, process_id) for process_id in ids for _ in range(2)]
    for number in range(KILLS):
        want = [len(follower.data) for follower in followers]
        cay.restart()
        found = plane.list()
        assert sorted(item["id"] for item in found) == sorted(ids), (number, found)
        assert {item["tag"] for item in found} == {f"writer-{n}" for n in range(WRITERS)}, found
        eventually(lambda: all(len(f.data) > w or f.error for f, w in zip(followers, want)),
                   "output goes on", 60)
    cay.sh("load", "touch /tmp/stop")
    for follower in followers:
        follower.join(60)
        assert follower.error is None, follower.error
        assert follower.exited and follower.exited["result"]["exitCode"] == 0, follower.exited
    for index, follower in enumerate(followers):
        name = f"w{index // 2}"
        lines = bytes(follower.data).decode().splitlines()
        count = int(lines[-1].split()[-1])
        assert lines[-1] == f"{name} last {count}" and len(lines) == count + 1, (lines[-1], len(lines))
        assert lines[:-1] == [f"{name} {i}" for i in range(count)], "lines are lost or doubled"
        assert follower.cuts >= KILLS // 2, follower.cuts
    cay.destroy("load")


@case
@also_in_gvisor
def ends_meanwhile(cay):
    """what ends while no daemon runs is told by the next one, with its output"""
    cay.create("away")
    plane = Processes(cay, "away")
    code = plane.sh("sleep 0.5; echo said; exit 5", tag="code")
    timeout = plane.sh("sleep 100", policy={"timeout": "1s"})
    again = plane.sh("echo run; sleep 0.2; exit 1",
                     restart={"mode": "RESTART_MODE_ALWAYS", "delay": "0.1s"})
    cay.kill()
    if IN_GVISOR:  # whose processes nobody sees from outside
        time.sleep(1.5)
    else:
        eventually(lambda: len(cay.processes()) <= 1, "only init is left")
    cay.start()
    result = plane.result(code)
    assert result["exitCode"] == 5 and result["cause"] == "END_CAUSE_EXITED", result
    assert plane.output(code)[0] == b"said\n"
    assert plane.result(timeout)["cause"] == "END_CAUSE_TIMEOUT_WALL"
    count = plane.get(again).get("restartCount", 0)
    eventually(lambda: plane.get(again).get("restartCount", 0) > count, "it is started again")
    plane.kill(again, signal=9, wait=True)
    cay.restart()
    status = plane.get(code)
    assert status["result"]["exitCode"] == 5 and status["tag"] == "code", status
    assert plane.output(code)[0] == b"said\n", "its output did not survive a second daemon"
    assert plane.get(timeout)["result"]["cause"] == "END_CAUSE_TIMEOUT_WALL"
    cay.destroy("away")


def recorded(cay):
    """How many processes the daemon has written down."""
    with contextlib.closing(sqlite3.connect(f"file:{cay.data}/cay.db?mode=ro", uri=True)) as database:
        return database.execute("SELECT count(*) FROM processes WHERE session_id = 'calls'").fetchone()[0]


@case
@also_in_gvisor
def commands_of_calls(cay):
    """a command of a call that was cut off goes on as a process, and so do leftovers"""
    cay.create("calls")
    plane = Processes(cay, "calls")
    left = cay.bash("calls", "sleep 301 & true")["exec"]["leftovers"][0]["processId"]

    def restart():
        eventually(lambda: len(plane.ids()) == 2 and recorded(cay) == 2, "it is written down")
        cay.restart()
    outcomes = together(lambda: cay.bash("calls", "echo begun; sleep 302; echo $?"), restart)
    assert isinstance(outcomes[0], Exception), outcomes[0]
    found = {item["id"]: item for item in plane.list()}
    assert left in found and len(found) == 2, found
    other = next(item for item in found.values() if item["id"] != left)
    assert other["origin"] == "PROCESS_ORIGIN_TOOL" and "sleep 302" in other["argv"][-1], other
    assert plane.kept(other["id"]) == b"begun\n"
    for process_id in found:
        answer = plane.end(process_id)
        assert answer["process"]["result"]["cause"] == "END_CAUSE_KILLED", answer
    cay.destroy("calls")


@case
@also_in_gvisor
def input_survives(cay):
    """input and terminals go on with the next daemon"""
    cay.create("input")
    plane = Processes(cay, "input")
    echo = plane.sh("while read line; do echo got $line; done", stdinOpen=True)
    shell = plane.start("/bin/sh", pty={"rows": 30, "cols": 90})["id"]
    plane.send(echo, b"one\n")
    plane.read_until(echo, b"got one\n")
    cay.restart()
    plane.send(echo, b"two\n", close=True)
    assert plane.output(echo)[0] == b"got one\ngot two\n"
    assert plane.get(shell)["pty"] == {"rows": 30, "cols": 90}, plane.get(shell)
    plane.call("ResizePty", processId=shell, size={"rows": 31, "cols": 91})
    plane.send(shell, b"stty size; exit\n")
    assert b"31 91" in plane.output(shell)[0]
    cay.destroy("input")


@case
@also_in_gvisor
def reboot(cay):
    """after a reboot of the host, processes are lost and say so"""
    cay.create("reboot")
    plane = Processes(cay, "reboot")
    process_id = plane.sh("sleep 100", restart={"mode": "RESTART_MODE_ALWAYS"})
    cay.sh("reboot", "echo kept > kept")
    cay.power_off()
    cay.start()
    status = plane.get(process_id)
    assert status["result"]["cause"] == "END_CAUSE_LOST" and status["result"]["message"], status
    assert cay.sh("reboot", "cat kept") == "kept\n"
    assert plane.ids() == []
    cay.destroy("reboot")


@case
@also_in_gvisor
def lost_after_all(cay):
    """a sandbox that was taken over and is lost then makes way for a new one, with the same files"""
    cay.create("lost")
    cay.sh("lost", "echo kept > kept")
    cay.turn("lost")
    cay.sh("lost", "echo since > since")
    for again in range(2):
        cay.restart()
        with cay.attach("lost", "/bin/sleep", "1000") as stream:
            stream.next()
            os.kill(init_of(cay, "workspace/kept"), 9)
            with contextlib.suppress(RpcError):
                list(stream)
        assert cay.sh("lost", "cat kept since") == "kept\nsince\n", again
    cay.turn("lost")
    cay.rollback("lost", "turn-0001")
    assert cay.sh("lost", "ls") == "kept\n"
    cay.destroy("lost")


@case
def older_init(cay):
    """sandboxes of an init of the version before are taken over with what runs in them"""
    usual = list(cay.command)
    cay.stop()
    cay.command = usual + ["--init-path", OLD_INIT]
    cay.start()
    cay.create("old")
    plane = Processes(cay, "old")
    process_id = plane.sh("i=0; while :; do echo old $i; i=$((i+1)); usleep 100000; done", tag="old")
    plane.read_until(process_id, b"old 2\n")
    fails("unimplemented", plane.start, "/bin/sh", pty={})
    assert cay.sh("old", "echo fine") == "fine\n"
    cay.kill()
    cay.command = usual
    cay.start()
    assert plane.ids() == [process_id] and plane.get(process_id)["tag"] == "old"
    data = plane.read_until(process_id, b"old 12\n", offset=0)
    assert data.startswith(b"old 0\nold 1\n"), data[:40]
    results = together(*(lambda: plane.read_until(process_id, b"old 15\n", offset=6) for _ in range(3)))
    assert all(result.startswith(b"old 1\nold 2\n") for result in good(results)), results
    assert cay.sh("old", "echo fine") == "fine\n"
    assert plane.end(process_id)["process"]["result"]["cause"] == "END_CAUSE_KILLED"
    cay.destroy("old")
    cay.create("new")
    assert Processes(cay, "new").start("/bin/sh", "-c", "exit", pty={})["pty"]
    cay.destroy("new")


if __name__ == "__main__":
    run_with_cayd()
