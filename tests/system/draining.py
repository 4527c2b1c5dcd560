#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Turns, snapshots, rollbacks and ends of sessions in which tools still run."""

import contextlib
import os
import threading

from daemon import MIB, SANDBOX, Closed, RpcError, case, eventually, fails, unb64
from past import at, names, put, text_of
from process_client import Processes
from small_base import run_with_cayd, small_cayd

# Says and writes one half, and the other when it is told to.
HALVES = "echo half | tee file; until [ -e go ]; do sleep 0.02; done; rm go; echo whole | tee file"


class Background:
    """A call in a thread of its own."""

    def __init__(self, function, *arguments, **more):
        self.answer = self.error = None
        self.thread = threading.Thread(target=self.run, args=(function, arguments, more))
        self.thread.start()

    def run(self, function, arguments, more):
        try:
            self.answer = function(*arguments, **more)
        except (RpcError, Closed, OSError) as error:
            self.error = error

    def join(self):
        self.thread.join()
        return self.answer or self.error

    def is_waiting(self):
        return self.thread.is_alive()


class Tool(Background):
    """A tool call in the midst of its work, which ends when it is told to."""

    def __init__(self, cay, session_id):
        self.table = Processes(cay, session_id)
        self.helper = self.table.sh("read line; touch /workspace/go", stdinOpen=True)
        self.stream = cay.open(SANDBOX + "ExecuteToolStream", {
            "sessionId": session_id, "call": {"toolName": "bash", "params": {"cmd": HALVES}}})
        said = {}
        while "half" not in unb64(said.get("data")).decode():
            said = self.stream.next().get("output", {})
        super().__init__(lambda: [frame for frame in self.stream][-1]["result"])

    def end(self):
        self.table.send(self.helper, b"go\n")


def waits(call, cay, session_id):
    """The call waits for tools, and so do others behind it: the first of them."""
    def is_held_up():
        behind = Background(put, cay, session_id, "behind", "x")
        behind.thread.join(0.3)
        return behind if behind.is_waiting() else None
    behind = eventually(is_held_up, "others wait behind it")
    assert call.is_waiting(), (call.answer, call.error)
    return behind


def printed(result):
    return "".join(part.get("text", "") for part in result.get("content", []))


def late_snapshot(cay, take, name):
    """A snapshot waits for tools, fails when they take longer, or does not wait."""
    cay.create("s")
    tool = Tool(cay, "s")
    for limit in ("0s", "0.1s"):
        refused = fails("failed_precondition", take, drainTimeout=limit, reason="tools_in_flight")
        assert "drain_timeout" in refused.message, refused
    fails("invalid_argument", take, drainTimeout="-1s")
    assert not names(cay, "s"), "nothing was done"
    now = take()
    assert at(cay, "s", now["name"], "file") == "half\n", "it was not asked to wait"
    later = Background(take, drainTimeout="60s", **name)
    behind = waits(later, cay, "s")
    tool.end()
    assert at(cay, "s", later.join()["name"], "file") == "whole\n", later.error
    assert not tool.join().get("isError"), tool.answer
    behind.join()
    assert text_of(cay, "s", "behind") == "x" and behind.error is None, "what waited behind it runs after it"
    cay.destroy("s")


@case
def turns(cay):
    """a turn waits for tools when it is asked to, and otherwise does not"""
    late_snapshot(cay, lambda **fields: cay.turn("s", **fields), {})


@case
def snapshots(cay):
    """a named snapshot waits for tools when it is asked to, and otherwise does not"""
    late_snapshot(cay, lambda name="now", **fields: cay.snapshot("s", name, **fields), {"name": "later"})


@case
def rollback_refuses(cay):
    """a rollback refuses while tools run, at once or after a while, and nothing happens to them"""
    cay.create("r")
    put(cay, "r", "file", "old")
    cay.turn("r")
    tool = Tool(cay, "r")
    for fields in ({}, {"drainTimeout": "0s"}, {"drainTimeout": "0.1s"}, {"processes": "PROCESS_POLICY_KILL"}):
        fails("failed_precondition", cay.rollback, "r", "turn-0001", reason="tools_in_flight", **fields)
    assert text_of(cay, "r", "file") == "half\n" and names(cay, "r") == ["turn-0001"]
    later = Background(cay.rollback, "r", "turn-0001", drainTimeout="60s")
    waits(later, cay, "r")
    tool.end()
    assert later.join()["branch"], later.error
    result = tool.join()
    assert not result.get("isError") and "whole" in printed(result), result
    assert text_of(cay, "r", "file") == "old"
    assert at(cay, "r", later.answer["branch"], "file") == "whole\n"
    cay.destroy("r")


@case
def rollback_kills(cay):
    """a rollback kills tools when it is told to, and nothing that anybody printed is lost"""
    cay.create("k")
    put(cay, "k", "file", "old")
    cay.turn("k")
    table = Processes(cay, "k")
    logged = table.sh("echo logged; echo more; sleep 1000")
    eventually(lambda: b"more" in table.output(logged, noFollow=True)[0], "it has printed")
    tool = Tool(cay, "k")
    plain = Background(cay.bash, "k", "echo plain; touch printed; sleep 1000")
    eventually(lambda: "printed" in cay.sh("k", "ls /workspace"), "it has printed")
    with cay.attach("k", "/bin/sh", "-c", "echo attached; sleep 1000") as stream:
        while "output" not in stream.next():
            pass
        fails("not_found", cay.rollback, "k", "turn-0009", killTools=True)
        assert tool.is_waiting() and plain.is_waiting(), "everything is checked first"
        killed = cay.rollback("k", "turn-0001", killTools=True)["killed"]
        ends = [frame["exited"]["result"] for frame in stream if "exited" in frame]
    assert len(killed) >= 4, killed
    assert [end["cause"] for end in ends] == ["END_CAUSE_KILLED"], ends
    for call, said in ((tool, "half"), (plain, "plain")):
        result = call.join()
        assert result["isError"] and result["exec"]["cause"] == "END_CAUSE_KILLED", result
        assert said in printed(result), result
    assert text_of(cay, "k", "file") == "old"
    assert table.output(logged)[0] == b"logged\nmore\n"
    assert table.result(logged)["cause"] == "END_CAUSE_KILLED"
    assert cay.sh("k", "ps | grep -c '[s]leep 1000' || true").strip() == "0"
    cay.destroy("k")


@case
def rollback_kills_late(cay):
    """a rollback that is told to wait and to kill waits first"""
    cay.create("l")
    cay.turn("l")
    tool = Tool(cay, "l")
    later = Background(cay.rollback, "l", "turn-0001", killTools=True, drainTimeout="60s")
    waits(later, cay, "l")
    tool.end()
    assert not later.join().get("killed") and not tool.join().get("isError"), (later.answer, tool.answer)
    tool = Tool(cay, "l")
    assert cay.rollback("l", "turn-0001", killTools=True, drainTimeout="0.2s")["killed"]
    assert tool.join()["exec"]["cause"] == "END_CAUSE_KILLED", tool.error
    cay.destroy("l")


@case
def destroy_waits(cay):
    """the end of a session waits for tools when it is asked to, and kills those that take longer"""
    for limit in ("60s", "0.2s", None):
        cay.create("d")
        tool = Tool(cay, "d")
        fields = {"drainTimeout": limit} if limit else {}
        later = Background(cay.destroy, "d", **fields)
        if limit == "60s":
            waits(later, cay, "d")
            tool.end()
        assert later.join()["existed"], later.error
        result = tool.join()
        assert ("whole" in printed(result)) == (limit == "60s") and "half" in printed(result), (limit, result)
        fails("not_found", cay.get, "d")
    cay.create("d")
    fails("invalid_argument", cay.destroy, "d", drainTimeout="-1s")
    cay.destroy("d")


@case
def destroy_overtakes(cay):
    """a destroy that does not wait ends those that do"""
    for wait in (cay.destroy, cay.turn):
        cay.create("o")
        tool = Tool(cay, "o")
        later = Background(wait, "o", drainTimeout="600s")
        waits(later, cay, "o")
        cay.destroy("o")
        if wait == cay.turn:
            assert later.join().reason == "session_destroying", later.answer
        else:
            assert later.join()["existed"], later.error
        assert "half" in printed(tool.join()), tool.error


@case
def ends_tell(cay):
    """who follows a command when the session is destroyed or stopped gets everything that it printed, and its end"""
    lines = "".join(f"{number}\n" for number in range(20000)).encode()
    ends = {"destroy": lambda: cay.destroy("t"),
            "stop": lambda: cay.call(SANDBOX + "PauseSession", {"sessionId": "t", "mode": "PAUSE_MODE_STOP"}),
            "rollback": lambda: cay.rollback("t", "first", killTools=True)}
    for name, end in ends.items():
        cay.create("t")
        cay.snapshot("t", "first")
        script = "seq 0 19999; touch printed; sleep 1000"
        tool = None if name == "stop" else Background(cay.bash, "t", f"mkdir tool; cd tool; {script}")
        with cay.attach("t", "/bin/sh", "-c", script) as stream:
            wanted = "1" if name == "stop" else "2"  # a session in which tools run is not stopped
            eventually(lambda: cay.sh("t", "ls printed tool/printed 2>/dev/null | wc -l").strip() == wanted,
                       "they have printed")
            end()  # nothing was read until here
            frames = list(stream)
        data = b"".join(unb64(frame["output"]["data"]) for frame in frames if "output" in frame)
        assert data == lines, (name, len(data))
        results = [frame["exited"]["result"]["cause"] for frame in frames if "exited" in frame]
        assert results == ["END_CAUSE_KILLED"], (name, results)
        assert not tool or "19999" in printed(tool.join()), (name, tool.error)
        cay.destroy("t", missingOk=True)


@case
def lost(cay):
    """a sandbox that is lost meanwhile lets nobody wait"""
    cay.create("x")
    put(cay, "x", "file", "old")
    tool = Tool(cay, "x")
    later = Background(cay.turn, "x", drainTimeout="600s")
    waits(later, cay, "x")
    for pid in cay.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
    assert later.join().code == "unavailable", later.answer
    tool.join()
    assert cay.turn("x")["name"] == "turn-0001"
    cay.destroy("x")


@case
def daemon_ends(_):
    """a daemon that is told to end while somebody waits ends well, and the tool goes on"""
    with small_cayd("--shutdown-timeout", "100ms") as cay:
        cay.create("e")
        tool = Tool(cay, "e")
        calls = [Background(cay.turn, "e", drainTimeout="600s")]
        waits(calls[0], cay, "e")
        calls += [Background(cay.rollback, "e", "turn-0001", drainTimeout="600s"),
                  Background(cay.destroy, "e", drainTimeout="600s")]
        assert cay.stop() == 0, cay.log_tail()
        for call in (*calls, tool):
            call.join()
            assert call.error, call.answer
        cay.start()
        assert text_of(cay, "e", "file") == "half\n" and not names(cay, "e")
        cay.destroy("e")


@case
def counted_meanwhile(cay):
    """a session may go while its snapshot is counted: nothing of it is written down any more"""
    cay.create("c")
    tool = Tool(cay, "c")
    cay.turn("c")
    later = Background(cay.destroy, "c", drainTimeout="600s")
    behind = waits(later, cay, "c")
    cay.create("d")
    cay.turn("d")  # counted together with the other one, or after it
    eventually(lambda: "changes" in cay.log("d")[0], "it is counted", 60)
    tool.end()
    for call in (tool, later, behind):
        call.join()
    assert later.answer, later.error
    cay.destroy("d")
    assert "snapshots.record_failed" not in cay.log_path.read_text(), cay.log_tail()


def left_of(cay):
    """Files of its sessions that the store still has, and bytes in use if the disk is all its own."""
    marked = sum(name.startswith("mark") for _, _, names_here in os.walk(cay.data) for name in names_here)
    disk = os.statvfs(cay.data)
    return marked, 0 if cay.has_host_base else (disk.f_blocks - disk.f_bfree) * disk.f_frsize


@case
def everything_is_free(_):
    """who waits for the end of a session finds nothing of it afterwards"""
    with small_cayd("--default-base", "small") as cay:
        cay.create("w")
        cay.sh("w", "cd /workspace; mkdir d; cd d; seq 3000 | sed s/^/mark/ | xargs touch; "
                    "dd if=/dev/urandom of=big bs=1M count=40 2>/dev/null; sync")
        cay.turn("w")
        cay.sh("w", "cd /workspace; rm -r d; mkdir e; cd e; seq 3000 | sed s/^/mark/ | xargs touch")
        marked, before = left_of(cay)
        assert marked >= 6000, marked
        assert cay.destroy("w", wait=True)["existed"]
        held = {"processes": cay.processes(), "groups": cay.cgroups(), "mounts": cay.mounts(),
                "sockets": cay.sockets()}
        marked, after = left_of(cay)
        assert not marked and not any(held.values()), (marked, held)
        assert not before or before - after > 30 * MIB, (before, after)
        assert not cay.destroy("w", wait=True, missingOk=True).get("existed")


if __name__ == "__main__":
    run_with_cayd()
