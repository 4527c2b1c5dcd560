#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Pausing and resuming; deadlines and idle sessions; changing a session."""

import contextlib
import hashlib
import threading
import time
import uuid
from pathlib import Path

from daemon import IN_GVISOR, MIB, SANDBOX, Closed, RpcError, also_in_gvisor, case, eventually, fails, unb64
from past import put, text_of
from process_client import Processes, collect
from small_base import run_with_cayd, small_cayd

# Counts as fast as it can be seen: a frozen one stands still.
TICKER = "echo 0 > /workspace/tick; echo ready; i=0; while :; do i=$((i+1)); echo $i > /workspace/tick; done"


def pause(cay, session_id, **fields):
    return cay.call(SANDBOX + "PauseSession", {"sessionId": session_id} | fields)


def resume(cay, session_id, **fields):
    return cay.call(SANDBOX + "ResumeSession", {"sessionId": session_id} | fields)


def update(cay, session_id, **fields):
    return cay.call(SANDBOX + "UpdateSession", {"sessionId": session_id} | fields)["session"]


def state(cay, session_id):
    return cay.get(session_id)["state"].removeprefix("SESSION_STATE_").lower()


def host_text(cay, session_id, path):
    """A file of a session that takes no tools now: seen by a fork."""
    fork = cay.fork(session_id, lazyStart=True)[0]["id"]
    try:
        return text_of(cay, fork, path)
    finally:
        cay.destroy(fork)


def tree_hash(cay, session_id):
    script = "cd / && find bin etc workspace -type f ! -name tick | sort | xargs sha256sum"
    return hashlib.sha256(cay.sh(session_id, script, user="root").encode()).hexdigest()


@case
@also_in_gvisor
def frozen(cay):
    """a paused session stands still, refuses tools and commands, and goes on exactly there"""
    cay.create("p")
    put(cay, "p", "file", "1")
    cay.background("p", TICKER)
    eventually(lambda: text_of(cay, "p", "tick"), "it ticks")
    answer = pause(cay, "p")["session"]
    assert answer["state"] == "SESSION_STATE_PAUSED" and answer["stateReason"] == "requested"
    assert answer["pauseMode"] == "PAUSE_MODE_FREEZE", answer
    first = host_text(cay, "p", "tick")
    for call in (lambda: text_of(cay, "p", "file"), lambda: cay.bash("p", "true"),
                 lambda: put(cay, "p", "file", "2"), lambda: cay.launch("p", "/bin/true"),
                 lambda: cay.rollback("p", "turn-0001")):
        fails("failed_precondition", call, reason="session_paused")
    fails("failed_precondition", pause, cay, "p", reason="session_paused")
    assert host_text(cay, "p", "tick") == first, "frozen means frozen"
    assert cay.snapshot("p", "while-paused")["name"] == "while-paused"
    assert state(cay, "p") == "paused"
    assert resume(cay, "p")["resumed"] and state(cay, "p") == "active"
    eventually(lambda: text_of(cay, "p", "tick") not in ("", first), "it goes on")
    fails("failed_precondition", resume, cay, "p")
    assert not resume(cay, "p", allowActive=True).get("resumed")
    cay.destroy("p")


@case
@also_in_gvisor
def cycles(cay):
    """fifty cycles keep processes, sockets and files, and a daemon killed among them"""
    cay.create("c")
    put(cay, "c", "file", "x" * 10000)
    cay.background("c", "mkfifo /workspace/in /workspace/out; echo ready; exec 3<>/workspace/in "
                        "4<>/workspace/out; while read line <&3; do echo got $line >&4; done")
    before = tree_hash(cay, "c")
    for number in range(50):
        pause(cay, "c")
        if number % 10 == 5:
            cay.kill()
            cay.start()
            assert state(cay, "c") == "paused"
        resume(cay, "c")
        if number % 10 == 0:
            said = cay.sh("c", f"echo {number} > /workspace/in; head -n 1 /workspace/out")
            assert said == f"got {number}\n", said
    assert tree_hash(cay, "c") == before
    cay.destroy("c")


@case
@also_in_gvisor
def output(cay):
    """what a frozen process has written is there after the pause, also when the daemon died meanwhile"""
    cay.create("o")
    table = Processes(cay, "o")
    lines = b"".join(b"line %d\n" % number for number in range(12))
    over = table.sh("echo done")
    table.result(over)
    process = table.sh("i=0; while [ $i -lt 12 ]; do echo line $i; i=$((i+1)); done; read x; echo more", stdinOpen=True)
    assert table.read_until(process, b"line 11\n") == lines
    pause(cay, "o")
    for _ in range(2):
        for each in (process, over):  # not nothing, and not at some time: it says what to do
            fails("failed_precondition", table.kept, each, reason="session_paused")
        assert [entry["state"] for entry in table.list()] == ["PROCESS_STATE_RUNNING"], table.list()
        cay.restart()
    fails("failed_precondition", table.send, process, b"x", reason="session_paused")
    fails("failed_precondition", table.kill, process, reason="session_paused")
    with table.attach(process, offset=0) as stream:  # who follows waits
        assert stream.next()["attached"]["id"] == process
        resume(cay, "o")
        data = b""
        while data != lines:
            data += unb64(stream.next().get("output", {}).get("data"))
            assert lines.startswith(data), data
        table.send(process, b"\n")
        data, dropped, exited = collect(stream)
    assert (data, dropped, exited["result"]["exitCode"]) == (b"more\n", 0, 0), (data, dropped, exited)
    assert table.kept(process) == lines + b"more\n" and table.kept(over) == b"done\n"
    cay.destroy("o")


@case
@also_in_gvisor
def drained(cay):
    """running tools may finish; when they do not, the session is active as before"""
    cay.create("d")
    cay.background("d", "echo ready; until [ -e /workspace/begun ]; do sleep 0.1; done; sleep 3; "
                        "touch /workspace/go")
    tool = threading.Thread(target=lambda: cay.bash(
        "d", "touch begun; until [ -e go ]; do sleep 0.05; done"))
    tool.start()
    eventually(lambda: cay.get("d").get("toolsInFlight"), "the tool runs")
    fails("failed_precondition", pause, cay, "d", drainTimeout="0s", reason="tools_in_flight")
    fails("failed_precondition", pause, cay, "d", drainTimeout="0.1s", reason="tools_in_flight")
    assert state(cay, "d") == "active"
    put(cay, "d", "file", "still works")
    assert pause(cay, "d", drainTimeout="60s")["session"]["state"] == "SESSION_STATE_PAUSED"
    tool.join()
    resume(cay, "d")
    assert text_of(cay, "d", "file") == "still works" and "go" in cay.sh("d", "ls /workspace")
    cay.destroy("d")


class Tool:
    """A tool call that runs until it is told to end, also while its session takes no new ones."""

    def __init__(self, cay, session_id):
        put(cay, session_id, "file", "x")
        self.table = Processes(cay, session_id)
        self.helper = self.table.sh("read line; touch /workspace/go", stdinOpen=True)
        self.result = self.error = None
        self.thread = threading.Thread(target=self.run, args=(cay, session_id))
        self.thread.start()
        eventually(lambda: cay.get(session_id).get("toolsInFlight"), "the tool runs")

    def run(self, cay, session_id):
        try:
            self.result = cay.bash(session_id, "until [ -e go ]; do sleep 0.05; done; rm go")
        except (RpcError, Closed, OSError) as error:
            self.error = error

    def end(self):
        self.table.send(self.helper, b"go\n")
        self.thread.join()


class Pausing:
    """A PauseSession that waits for tools."""

    def __init__(self, cay, session_id, **fields):
        self.answer = self.error = None
        self.thread = threading.Thread(target=self.run, args=(cay, session_id, fields))
        self.thread.start()
        is_being_paused(cay, session_id)

    def run(self, cay, session_id, fields):
        try:
            self.answer = pause(cay, session_id, **fields)
        except (RpcError, Closed, OSError) as error:
            self.error = error

    def join(self):
        self.thread.join()
        return self.answer["session"] if self.answer else self.error


def is_being_paused(cay, session_id):
    """No new tool is taken: the pause has begun to wait."""
    def is_refused():
        try:
            text_of(cay, session_id, "file")
        except RpcError as error:
            assert error.reason == "session_paused", error
            return True
        return False
    eventually(is_refused, "the pause waits")


@case
@also_in_gvisor
def waits_to_stop(cay):
    """a pause that waits for tools and then ends the sandbox, again and again"""
    cay.create("w")
    for mode in ("PAUSE_MODE_STOP", "PAUSE_MODE_FREEZE", "PAUSE_MODE_STOP"):
        tool = Tool(cay, "w")
        waiting = Pausing(cay, "w", mode=mode, drainTimeout="60s")
        tool.end()
        session = waiting.join()
        assert session["state"] == "SESSION_STATE_PAUSED" and session["pauseMode"] == mode, session
        assert not tool.error and not session.get("toolsInFlight"), (tool.error, session)
        resume(cay, "w")
    cay.destroy("w")


@case
def waits_in_vain(cay):
    """while a pause waits, a second one is refused, and the session may be destroyed"""
    cay.create("v")
    tool = Tool(cay, "v")
    waiting = Pausing(cay, "v", drainTimeout="60s")
    fails("failed_precondition", pause, cay, "v", reason="session_paused")
    fails("failed_precondition", pause, cay, "v", freezeTools=True, reason="session_paused")
    cay.destroy("v")
    tool.thread.join()
    assert tool.result["exec"]["cause"] == "END_CAUSE_KILLED", (tool.result, tool.error)
    assert waiting.join().reason == "session_destroying", waiting.error
    assert "v" not in cay.ids()


@case
def waits_alone(cay):
    """a client that leaves while its pause waits: the session is paused all the same"""
    cay.create("l")
    tool = Tool(cay, "l")
    with cay.post(SANDBOX + "PauseSession", {"sessionId": "l", "drainTimeout": "60s"}):
        is_being_paused(cay, "l")
    tool.end()
    eventually(lambda: state(cay, "l") == "paused", "it is paused")
    resume(cay, "l")
    assert cay.sh("l", "echo hi") == "hi\n"
    cay.destroy("l")


@case
def waits_past_deadline(cay):
    """a deadline that comes while a pause waits is not forgotten when the pause fails"""
    late = {"onExpiry": "EXPIRY_ACTION_PAUSE", "timeout": "3600s"}
    cay.create("b", lifecycle=late)
    tool = Tool(cay, "b")
    waiting = Pausing(cay, "b", drainTimeout="5s")
    update(cay, "b", expireIn="0s")
    assert waiting.join().reason == "tools_in_flight", waiting.error
    eventually(lambda: state(cay, "b") == "paused", "the deadline pauses it")
    assert cay.get("b")["stateReason"] == "expired"
    resume(cay, "b")
    tool.end()
    assert not tool.error, tool.error
    tool = Tool(cay, "b")
    waiting = Pausing(cay, "b", drainTimeout="60s")
    update(cay, "b", lifecycle=late | {"onExpiry": "EXPIRY_ACTION_DESTROY"}, expireIn="0s")
    eventually(lambda: "b" not in cay.ids(), "the deadline ends it")
    tool.thread.join()
    assert waiting.join().reason == "session_destroying", waiting.error


@case
@also_in_gvisor
def overtaken(cay):
    """a tool that a pause overtakes while the files are mounted is refused, and not counted"""
    cay.create("o")
    put(cay, "o", "file", "x")
    for _ in range(3):
        pause(cay, "o", mode="PAUSE_MODE_STOP")
        cay.restart()
        resume(cay, "o")
        call = {"toolName": "read_file", "params": {"path": "file"}}
        with cay.post(SANDBOX + "ExecuteTool", {"sessionId": "o", "call": call}) as tool, \
                cay.post(SANDBOX + "PauseSession", {"sessionId": "o"}) as pausing:
            assert pausing.answer().status == 200
            tool.answer()  # of either kind: which of the two came first is not known
        resume(cay, "o")
        assert not cay.get("o").get("toolsInFlight"), cay.get("o")
    cay.destroy("o")


@case
def waits_at_the_end(_):
    """a daemon that is told to end while a pause waits ends well"""
    with small_cayd("--shutdown-timeout", "0s") as cay:
        cay.create("q")
        tool = Tool(cay, "q")
        waiting = Pausing(cay, "q", mode="PAUSE_MODE_STOP", drainTimeout="60s")
        assert cay.stop() == 0, cay.log_tail()
        tool.thread.join()
        assert waiting.join() and not waiting.answer
        cay.start()
        assert state(cay, "q") == "active"
        with contextlib.suppress(RpcError):
            cay.destroy("q")


@case
def stopped(cay):
    """a session can be paused without its processes: files are kept, the sandbox starts afresh"""
    cay.create("s")
    put(cay, "s", "file", "kept")
    cay.background("s", TICKER)
    answer = pause(cay, "s", mode="PAUSE_MODE_STOP")
    assert answer["stopped"], "what was ended is listed"
    assert not answer["session"].get("sandboxRunning")
    fails("failed_precondition", cay.bash, "s", "true", reason="session_paused")
    cay.restart()
    assert state(cay, "s") == "paused"
    resume(cay, "s")
    assert text_of(cay, "s", "file") == "kept"
    assert "tick" in cay.sh("s", "ls /workspace")
    fails("invalid_argument", pause, cay, "s", mode="PAUSE_MODE_STOP", freezeTools=True)
    pause(cay, "s")
    assert resume(cay, "s", cold=True)["resumed"]
    assert cay.sh("s", "echo fresh") == "fresh\n"
    pause(cay, "s")
    cay.destroy("s")


@case
@also_in_gvisor
def boots(cay):
    """a session has a boot id of its own, as long as its processes are kept and no longer"""
    def boot_id(session_id="boots", user="user"):
        text = cay.sh(session_id, "cat /proc/sys/kernel/random/boot_id", user=user)
        if IN_GVISOR:  # its /proc is inside only
            fails("not_found", cay.read, session_id, "/proc/sys/kernel/random/boot_id")
        else:
            assert cay.read(session_id, "/proc/sys/kernel/random/boot_id") == text.encode(), "as files see it"
        return uuid.UUID(text.strip())
    cay.create("boots")
    cay.create("other")
    host = uuid.UUID(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    first = boot_id()
    assert first.version == host.version == 4 and first.variant == host.variant, first
    assert len({host, first, boot_id("other")}) == 3, "everybody has one"
    assert cay.launch("boots", "/bin/sh", "-c", "echo x > /proc/sys/kernel/random/boot_id", user="root")[0]["exitCode"]
    cay.turn("boots")
    assert boot_id() == first, "over a turn"
    pause(cay, "boots")
    resume(cay, "boots")
    assert boot_id() == first, "over a pause"
    cay.restart()
    assert boot_id(user="root") == first, "over the end of a daemon"
    pause(cay, "boots", mode="PAUSE_MODE_STOP")
    resume(cay, "boots")
    second = boot_id()
    assert second not in (first, host), "a new start is another boot"
    pause(cay, "boots")
    resume(cay, "boots", cold=True)
    assert boot_id() not in (first, second, host), "a cold one, too"
    cay.destroy("boots")
    cay.destroy("other")


@case
@also_in_gvisor
def expiry(cay):
    """a session ends or sleeps at its deadline, to the second, also across a restart"""
    lives = {"e1": {"timeout": "1s"}, "e2": {"timeout": "1s", "onExpiry": "EXPIRY_ACTION_PAUSE"},
             "e3": {"timeout": "1s", "onExpiry": "EXPIRY_ACTION_STOP"}, "e4": {"timeout": "3600s"}}
    due = {name: cay.create(name, lifecycle=life)["deadline"] for name, life in lives.items()}
    assert due["e1"] < due["e4"], due
    eventually(lambda: "e1" not in cay.ids(), "e1 is gone")
    eventually(lambda: state(cay, "e2") == "paused" and state(cay, "e3") == "paused",
               "both sleep")
    assert cay.get("e2")["stateReason"] == "expired" and cay.get("e4")["state"].endswith("ACTIVE")
    resume(cay, "e2", expireIn="3600s")
    assert state(cay, "e2") == "active" and cay.get("e2")["deadline"] > due["e2"]
    update(cay, "e4", expireIn="1s", extendOnly=True)
    assert cay.get("e4")["deadline"] == due["e4"], "never brought forward"
    update(cay, "e4", expireIn="1s")
    cay.kill()
    time.sleep(1.1)  # the deadline passes while no daemon runs
    cay.start()
    eventually(lambda: "e4" not in cay.ids(), "e4 is gone")
    update(cay, "e3", expireIn="0s")
    for bad in ("-1s", "315576000000s"):
        fails("invalid_argument", resume, cay, "e3", expireIn=bad)
    resume(cay, "e3")
    for bad in ({"timeout": "0s"}, {"timeout": "-1s"}, {"idleTimeout": "0s"}):
        fails("invalid_argument", cay.create, "bad", lifecycle=bad)
    for name in ("e2", "e3"):
        cay.destroy(name)


@case
@also_in_gvisor
def idle(cay):
    """a session that nobody uses sleeps; a call wakes it where that is wanted"""
    cay.create("i", lifecycle={"idleTimeout": "0.5s", "autoResume": True})
    put(cay, "i", "file", "1")
    cay.background("i", TICKER)
    eventually(lambda: state(cay, "i") == "paused", "it sleeps")
    assert cay.get("i")["stateReason"] == "idle"
    assert text_of(cay, "i", "file") == "1", "a file tool wakes it"
    assert state(cay, "i") == "active"
    eventually(lambda: state(cay, "i") == "paused", "it sleeps")
    cay.kill()
    cay.start()
    assert cay.sh("i", "echo hi") == "hi\n", "and so does a command, also after a restart"
    cay.destroy("i")


@case
@also_in_gvisor
def updated(cay):
    """labels, variables, limits and bounds change, all or nothing"""
    cay.create("u", labels={"a": "1", "b": "2"}, env={"X": "1", "Y": "2"})
    session = update(cay, "u", setLabels={"b": "3", "c": "4"}, removeLabels=["a", "zzz"],
                     setEnv={"X": "5"}, removeEnv=["Y"])
    assert session["labels"] == {"b": "3", "c": "4"} and session["env"] == {"X": "5"}, session
    assert cay.sh("u", "echo $X-$Y") == "5-\n"
    update(cay, "u", limits={"pids": "20"})
    limit = cay.get("u")["limits"]
    assert int(limit["pids"]) == 20 and int(limit["memoryBytes"]) > 0, limit
    _, _, said = cay.launch("u", "/bin/sh", "-c", "for i in $(seq 40); do sleep 60 & done")
    assert b"fork" in said, said
    fails("invalid_argument", update, cay, "u", setLabels={"d": "x"}, limits={"pids": "1"})
    assert "d" not in cay.get("u")["labels"]
    cay.restart()
    assert cay.get("u")["labels"] == {"b": "3", "c": "4"}
    for number in range(6):
        put(cay, "u", "file", f"{number}")
        cay.turn("u")
    update(cay, "u", maxSnapshots=2)
    assert [entry["name"] for entry in cay.log("u")] == ["turn-0005", "turn-0006"]
    fails("not_found", update, cay, "nobody", setLabels={"a": "1"})
    cay.destroy("u")


def memory_limit(cay):
    """The limit of the only session's memory, as the kernel has it."""
    found = [int(path.read_text()) for group in cay.cgroups() if group.parent.name == cay.cgroup
             for path in (group / "memory.limit_in_bytes", group / "memory.max") if path.exists()]
    assert len(found) == 1, found
    return found[0]


@case
def memory(cay):
    """memory is raised and lowered at once"""
    cay.create("m", limits={"memoryBytes": str(24 * MIB)})
    try:
        for size in (512 * MIB, 96 * MIB, 40 * MIB, 1024 * MIB, 160 * MIB):
            update(cay, "m", limits={"memoryBytes": str(size)})
            assert memory_limit(cay) == size, (memory_limit(cay), size)
    finally:
        cay.destroy("m")


@case
def memory_in_use(cay):
    """a limit of memory below what is in use is refused, and nothing is changed"""
    cay.create("m", limits={"memoryBytes": str(160 * MIB)})
    cay.sh("m", "dd if=/dev/zero of=/dev/shm/held bs=1M count=48 2>/dev/null")
    for function in (lambda: None, lambda: pause(cay, "m")):
        function()
        refused = fails("failed_precondition", update, cay, "m", setLabels={"a": "b"},
                        limits={"memoryBytes": str(32 * MIB)})
        assert "MiB of memory now" in refused.message and "32 MiB" in refused.message, refused
        session = cay.get("m")
        assert int(session["limits"]["memoryBytes"]) == 160 * MIB == memory_limit(cay), session
        assert not session.get("labels"), "all or nothing"
    resume(cay, "m")
    assert cay.sh("m", "wc -c < /dev/shm/held; rm /dev/shm/held").strip() == str(48 * MIB), "nobody was killed"
    # What is only kept of files that were read is no use of memory.
    cay.sh("m", "dd if=/dev/zero of=/workspace/file bs=1M count=64 2>/dev/null; sync; cat /workspace/file > /dev/null")
    update(cay, "m", limits={"memoryBytes": str(32 * MIB)})
    assert memory_limit(cay) == 32 * MIB
    cay.destroy("m")


if __name__ == "__main__":
    run_with_cayd()
