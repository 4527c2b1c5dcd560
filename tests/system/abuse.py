#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What hostile or broken programs do: bounded, told apart, cleaned up, and a neighbour still answers."""

import contextlib
import sys
import time

from daemon import MIB, SANDBOX, RpcError, case, eventually, fails, good, together, unb64
from process_client import Processes
from small_base import run_with_cayd

NEIGHBOUR = "neighbour"


def hostile(cay, name, **limits):
    """A session of its own for one abuse, next to one that must not notice."""
    if NEIGHBOUR not in cay.ids():
        cay.create(NEIGHBOUR)
    cay.create(name, limits={key: str(value) for key, value in limits.items()})
    return Processes(cay, name)


def over(cay, name):
    """The neighbour answers; the session goes and nothing of it is left."""
    assert cay.sh(NEIGHBOUR, "echo fine") == "fine\n"
    cay.destroy(name)
    assert cay.sh(NEIGHBOUR, "echo fine") == "fine\n"


@case
def fork_bomb(cay):
    """a fork bomb is bounded by its session and dies with the kill of its tree"""
    plane = hostile(cay, "forks", pids=100)
    process_id = plane.sh("b() { b | b & }; b; sleep 1000")
    assert cay.sh(NEIGHBOUR, "echo fine") == "fine\n"
    plane.end(process_id)
    eventually(lambda: cay.launch("forks", "/bin/echo", "room")[1] == b"room\n", "there is room again")
    over(cay, "forks")


@case
def held_starts(cay):
    """who holds up the start of a program is waited for a moment only; commands after it run"""
    plane = hostile(cay, "starts")
    cay.sh("starts", "cp /bin/busybox /workspace/busybox")
    holder = plane.start("/bin/nuisance", "lease", "/workspace/busybox", user="user")["id"]
    plane.read_until(holder, b"leased 1")
    begun = time.monotonic()
    held = together(lambda: cay.launch("starts", "/workspace/busybox", "true", user="user", policy={"timeout": "3s"}),
                    lambda: cay.launch("starts", "/bin/echo", "after", policy={"timeout": "3s"}))
    (result, _, _), (after, out, _) = good(held)
    assert time.monotonic() - begun < 20, "the start was awaited for long"
    assert result.get("exitCode") == 126 and "held up" in result["message"], result
    assert after.get("exitCode") == 0 and out == b"after\n", (after, out)
    plane.end(holder)
    assert cay.launch("starts", "/workspace/busybox", "echo", "free")[1] == b"free\n"
    stopper = plane.start("/bin/nuisance", "stopper", user="user")["id"]
    plane.read_until(stopper, b"stops 1")
    for _ in range(5):
        begun = time.monotonic()
        result, _, _ = cay.launch("starts", "/bin/true", user="user", policy={"timeout": "2s"})
        assert time.monotonic() - begun < 20, "it was awaited for long"
        assert "exitCode" in result or result["cause"] == "END_CAUSE_TIMEOUT_WALL", result
    assert cay.launch("starts", "/bin/echo", "fine", user="root")[1] == b"fine\n"
    plane.end(stopper)
    over(cay, "starts")


@case
def memory_bomb(cay):
    """a memory bomb is killed for its memory, and says so; the session lives on"""
    plane = hostile(cay, "memory", memoryBytes=48 * MIB)
    result = plane.result(plane.sh("exec tail -c 1000000000 /dev/zero"))
    assert result["cause"] == "END_CAUSE_OOM", result
    process_id = plane.sh("sleep 1000")
    result = plane.result(plane.sh("x=$(cat /dev/zero | tr '\\0' x); echo no"))
    assert result["cause"] in ("END_CAUSE_OOM", "END_CAUSE_EXITED"), result
    assert cay.launch("memory", "/bin/echo", "alive")[1] == b"alive\n"
    plane.end(process_id)
    over(cay, "memory")


@case
def no_memory_at_all(cay):
    """memory that no process has and nobody frees ends the whole sandbox: everybody is told, the session lives on"""
    plane = hostile(cay, "memory", memoryBytes=32 * MIB)
    cay.sh("memory", "echo kept > kept")
    process_id = plane.sh("sleep 1000")
    for _ in range(100):
        with contextlib.suppress(RpcError):
            cay.launch("memory", "/bin/dd", "if=/dev/zero", "of=/dev/shm/full", "bs=64k", "count=640")
        if cay.get("memory").get("stateReason"):
            break
    lost = cay.get("memory")
    assert lost["stateReason"] == "out_of_memory" and "out of memory" in lost["stateMessage"], lost
    result = plane.result(process_id)
    assert result["cause"] == "END_CAUSE_OOM", result
    told = cay.stream(SANDBOX + "WatchEvents", {"sessionIds": ["memory"], "types": ["session.lost"], "noFollow": True})
    assert [frame["event"]["reason"] for frame in told if "event" in frame] == ["out_of_memory"], told
    assert cay.sh("memory", "cat kept") == "kept\n"
    assert "stateReason" not in cay.get("memory"), cay.get("memory")
    over(cay, "memory")


@case
def shared_memory(cay):
    """a tmpfs fills up to its size or its number of files, and counts as the session's memory"""
    plane = hostile(cay, "tmpfs", memoryBytes=160 * MIB)
    result = plane.result(plane.sh("dd if=/dev/zero of=/dev/shm/full bs=1M count=1000 2> /dev/null"))
    assert result.get("exitCode") == 1 or result["cause"] == "END_CAUSE_OOM", result
    used = int(cay.sh("tmpfs", "wc -c < /dev/shm/full"))
    assert MIB <= used <= 64 * MIB, used
    empty = "rm /dev/shm/full; i=0; while [ $i -lt 100000 ] && true > /dev/shm/empty-$i; do i=$((i + 1)); done 2> /dev/null; ls /dev/shm | wc -l"
    assert 1000 < int(cay.sh("tmpfs", empty)) < 20000, "empty files count"
    over(cay, "tmpfs")


@case
def disk(cay):
    """a session that fills its disk is stopped and told why; what is there can be read and removed"""
    plane = hostile(cay, "disk", diskBytes=24 * MIB)
    result = plane.result(plane.sh("i=0; while dd if=/dev/zero of=f$i bs=1M count=4 2> /dev/null; do "
                                   "i=$((i+1)); usleep 50000; done; exit 9"))
    assert result["cause"] == "END_CAUSE_QUOTA" or result.get("exitCode") == 9, result
    error = fails("resource_exhausted", cay.tool, "disk", "write_file", path="/workspace/more", content="x")
    assert error.reason in ("quota_exceeded", "no_space"), error
    assert cay.tool("disk", "list_dir", path="/workspace")["content"]
    cay.launch("disk", "/bin/sh", "-c", "rm -f /workspace/f*")
    eventually(lambda: writes(cay, "disk"), "there is room again", 60)
    over(cay, "disk")


def writes(cay, name):
    try:
        return not cay.tool(name, "write_file", path="/workspace/more", content="x").get("isError")
    except RpcError:
        return False


@case
def many_files(cay):
    """a hundred thousand open files are the session's own affair"""
    plane = hostile(cay, "files")
    before = cay.fd_count()
    opened, ids = 0, []
    while opened < 100000:
        assert len(ids) < 60, opened
        ids.append(plane.start("/bin/nuisance", "files", str(100000 - opened))["id"])
        number = int(plane.read_until(ids[-1], b"\n").split()[-1])
        assert number >= min(1000, 100000 - opened), number
        opened += number
    assert cay.sh(NEIGHBOUR, "echo fine") == "fine\n"
    eventually(lambda: cay.fd_count() <= before + 8, f"the daemon has about {before} files", 60)
    for process_id in ids:
        plane.end(process_id)
    over(cay, "files")


@case
def orphans(cay):
    """ten thousand orphans are reaped, and a crowd of them that stays is bounded and dies with its call"""
    plane = hostile(cay, "orphans", pids=1500)
    process_id = plane.start("/bin/nuisance", "orphans", "10000")["id"]
    assert plane.output(process_id)[0] == b"made 10000\n", plane.get(process_id)
    eventually(lambda: b" Z " not in cay.launch("orphans", "/bin/ps", "-o", "pid,stat,args")[1], "no zombie is left")
    process_id = plane.start("/bin/nuisance", "crowd", "10000")["id"]
    made = int(plane.read_until(process_id, b"\n").split()[-1])
    assert 1000 < made < 1500, made
    assert cay.sh(NEIGHBOUR, "echo fine") == "fine\n"
    plane.end(process_id)
    eventually(lambda: cay.launch("orphans", "/bin/sh", "-c", "ps -o args | grep -c [n]uisance")[1] == b"0\n",
               "the crowd is gone", 30)
    result, _, _ = cay.launch("orphans", "/bin/nuisance", "crowd", "10000",
                              policy={"timeout": "2s", "leftovers": "LEFTOVER_POLICY_KILL"})
    assert result["cause"] == "END_CAUSE_TIMEOUT_WALL" and result["leftoverCount"] > 1000, result
    assert len(result["leftovers"]) == 64 and all(left["killed"] for left in result["leftovers"]), result
    eventually(lambda: cay.launch("orphans", "/bin/sh", "-c", "ps -o args | grep -c [n]uisance")[1] == b"0\n",
               "that one, too", 30)
    over(cay, "orphans")


@case
def traced(cay):
    """a process that its tracer holds is killed with its tree, by hand and by a timeout"""
    plane = hostile(cay, "traced")
    process_id = plane.start("/bin/nuisance", "traced")["id"]
    said = plane.read_until(process_id, b"\n")
    assert said.startswith(b"traced "), f"the sandbox lets nobody trace: {said}"
    answer = plane.kill(process_id, killAfter="0.1s", wait=True)
    assert answer["process"]["state"] == "PROCESS_STATE_EXITED", answer
    for left in plane.ids():
        plane.end(left)
    result, _, _ = cay.launch("traced", "/bin/nuisance", "traced", policy={"timeout": "0.5s"})
    assert result["cause"] == "END_CAUSE_TIMEOUT_WALL", result
    eventually(lambda: b"nuisance" not in cay.launch("traced", "/bin/ps", "-o", "args")[1], "nothing is left of them")
    over(cay, "traced")


@case
def missing(cay):
    """a directory, a program and a user that are not there are told apart, and leave no process behind"""
    plane = hostile(cay, "missing")
    for _ in range(20):
        assert "cwd" in str(fails("invalid_argument", plane.start, "/bin/true", cwd="/not/there"))
        assert "program" in str(fails("not_found", plane.start, "/not/there", reason="not_found"))
        assert "mallory" in str(fails("not_found", plane.start, "/bin/true", user="mallory", reason="user_not_found"))
        assert "run" in str(fails("permission_denied", plane.start, "/etc/passwd"))
    assert plane.ids() == []
    over(cay, "missing")


@case
def floods(cay):
    """floods without newlines and of binary bytes cost the daemon no memory"""
    plane = hostile(cay, "flood")
    cay.sh("flood", "head -c 3000000 /dev/zero > /dev/null")
    before = cay.rss_bytes()
    ids = [plane.sh("exec cat /dev/zero"), plane.sh("exec cat /dev/urandom"),
           plane.sh("exec yes '' >&2"), plane.sh("exec cat /dev/zero", pty={})]
    streams = [plane.attach(process_id) for process_id in ids for _ in range(2)]
    for stream in streams:
        for _ in range(8):
            stream.next()
    assert cay.sh(NEIGHBOUR, "echo fine") == "fine\n"
    assert cay.rss_bytes() - before < cay.rss_room(64), cay.rss_bytes() - before
    for process_id in ids:
        assert int(plane.get(process_id)["outputEnd"]) > 65536
        plane.end(process_id)
    for stream in streams:
        stream.close()
    data = bytes(range(256)) * 64
    cay.write("flood", "/tmp/binary", data)
    assert plane.output(plane.start("/bin/cat", "/tmp/binary")["id"])[0] == data
    over(cay, "flood")


@case
def closed_pipes(cay):
    """processes that close their output, or leave it to others, still end as they end"""
    plane = hostile(cay, "pipes")
    result = plane.result(plane.sh("exec >&- 2>&- <&-; sleep 0.1; exit 6"))
    assert result["exitCode"] == 6, result
    process_id = plane.sh("setsid sh -c 'trap \"\" HUP; sleep 1000; echo never' & echo ended; exit 4")
    result = plane.result(process_id)
    assert result["exitCode"] == 4 and result["leftoverCount"] >= 1, result
    assert plane.output(process_id)[0] == b"ended\n"
    left = result["leftovers"][0]["processId"]
    assert plane.ids() == [left], plane.list()
    plane.end(left)
    process_id = plane.sh("cat > /dev/null; echo got it", stdinOpen=True)
    plane.send(process_id, b"x" * MIB, close=True)
    assert plane.output(process_id)[0] == b"got it\n"
    process_id = plane.sh("exec <&-; sleep 0.5", stdinOpen=True)
    plane.send(process_id, b"x" * 100000)
    assert plane.result(process_id)["exitCode"] == 0
    over(cay, "pipes")


@case
def stubborn(cay):
    """what ignores signals, is stopped, or hides as an orphan is killed all the same"""
    plane = hostile(cay, "stubborn")
    scripts = ("trap '' TERM INT HUP QUIT; echo up; while :; do sleep 0.1; done",
               "echo up; kill -STOP $$; sleep 1000",
               "echo up; (setsid sh -c '(sleep 1000 &) ; sleep 1000' &); sleep 1000",
               "echo up; trap '' TERM; (trap '' TERM; exec sleep 1000) & (exec sleep 1000) & wait; wait")
    for script in scripts:
        process_id = plane.sh(script)
        plane.read_until(process_id, b"up\n")
        answer = plane.kill(process_id, killAfter="0.1s", wait=True)
        assert answer["process"]["state"] == "PROCESS_STATE_EXITED", answer
        for left in plane.ids():
            plane.end(left)
        eventually(lambda: b"sleep 1000" not in cay.launch("stubborn", "/bin/ps", "-o", "args")[1],
                   "all of it is gone")
    assert plane.ids() == []
    over(cay, "stubborn")


@case
def huge_arguments(cay):
    """arguments and environment up to 1 MiB go; what is larger is refused with the limit's name"""
    plane = hostile(cay, "huge")
    arguments = ["x" * 100000] * 9
    script = "echo $# ${#9} ${#BIG}"
    process = plane.start("/bin/sh", "-c", script, "sh", *arguments, env={"BIG": "y" * 100000})
    assert plane.output(process["id"])[0] == b"9 100000 100000\n"
    assert sum(len(word) for word in plane.get(process["id"])["argv"]) <= 4096
    error = fails("invalid_argument", plane.start, "/bin/true", *(["x" * 100000] * 11))
    assert "1048576" in error.message, error
    error = fails("invalid_argument", plane.start, "/bin/true", "x" * 131072)
    assert "131071" in error.message, error
    fails("invalid_argument", plane.start, "/bin/true", env={"A": "x" * 131072})
    fails("invalid_argument", plane.start, "/bin/true", *(["x"] * 5000))
    over(cay, "huge")


@case
def many_processes(cay):
    """as many processes as a sandbox holds go; one more is refused, and nothing is lost"""
    plane = hostile(cay, "many", pids=400)
    ids = []
    error = None
    for _ in range(200):
        try:
            ids.append(plane.sh("sleep 1000"))
        except Exception as caught:  # pylint: disable=broad-except
            error = caught
            break
    assert len(ids) >= 100 and getattr(error, "code", None) == "resource_exhausted", (len(ids), error)
    assert sorted(plane.ids(pageSize=1000)) == sorted(ids)
    plane.end(ids[0])
    plane.sh("exit 0")
    over(cay, "many")


@case
def hanging_readers(cay):
    """a hundred readers that read nothing keep neither the writer nor each other"""
    plane = hostile(cay, "readers")
    process_id = plane.sh("i=0; while [ ! -e /tmp/stop ]; do echo $i; i=$((i+1)); done; echo last")
    before = cay.rss_bytes()
    streams = [plane.attach(process_id) for _ in range(100)]
    good = plane.attach(process_id)
    seen = 0
    until = time.monotonic() + 60
    while seen < MIB // 2:
        assert time.monotonic() < until, seen
        seen += len(unb64(good.next().get("output", {}).get("data")))
    cay.sh("readers", "touch /tmp/stop")
    assert plane.result(process_id)["exitCode"] == 0
    assert cay.rss_bytes() - before < cay.rss_room(120), cay.rss_bytes() - before
    for stream in (good, *streams):
        stream.close()
    over(cay, "readers")


@case
def long_searches(cay):
    """as many long searches as a session may order keep nobody else's files and commands waiting"""
    hostile(cay, "searches")
    cay.write("searches", "/workspace/line", b"a" * (128 << 10))
    cay.write(NEIGHBOUR, "/workspace/file", b"x")
    ended = []

    def search():
        cay.tool("searches", "grep", pattern="a{0,200}a{0,200}[cd]", path="/workspace/line")
        ended.append(time.monotonic())

    def neighbour():
        eventually(lambda: cay.get("searches").get("toolsInFlight", 0) >= 8, "all are under way")
        cay.file("StatFile", NEIGHBOUR, path="/workspace/file")
        assert cay.sh(NEIGHBOUR, "cat file") == "x"
        assert cay.snapshot(NEIGHBOUR, "meanwhile")
        return time.monotonic()
    outcomes = good(together(neighbour, *([search] * 8)))
    assert outcomes[0] < min(ended), f"the neighbour waited until {outcomes[0] - min(ended)} s after the first"
    over(cay, "searches")


if __name__ == "__main__":
    run_with_cayd("--reserve", "0", "--send-timeout", "60s", nuisance=sys.argv[3])
