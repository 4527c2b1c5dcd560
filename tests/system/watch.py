#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""WatchDir: what happens in a directory is told, through turns and rollbacks, until the session ends."""

import contextlib
import sys

from daemon import FILE, SANDBOX, RpcError, case, eventually, fails
from small_base import run_with_cayd

SID = "watch"
KINDS = {"FILE_EVENT_TYPE_CREATE": "create", "FILE_EVENT_TYPE_WRITE": "write",
         "FILE_EVENT_TYPE_REMOVE": "remove", "FILE_EVENT_TYPE_RENAME": "rename",
         "FILE_EVENT_TYPE_CHMOD": "chmod"}


def sh(cay, script, user="user"):
    return cay.sh(SID, script, user)


class Watch:
    """A stream of events, from its first frame on."""

    def __init__(self, cay, path, **fields):
        self.stream = cay.open(FILE + "WatchDir", {"sessionId": SID, "path": path} | fields)
        self.started = self.stream.next()["started"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()

    def next(self):
        """An event as (name, kind), or "overflow"."""
        while True:
            frame = self.stream.next()
            if frame is None:
                return None
            if "overflow" in frame:
                return "overflow"
            if "event" in frame:
                self.event = frame["event"]
                return frame["event"]["name"], KINDS[frame["event"]["type"]]

    def until(self, name, kind):
        """All events up to that one."""
        seen = []
        while not seen or seen[-1] != (name, kind):
            seen.append(self.next())
        return seen


@case
def kinds(cay):
    """every kind of change by a process or a client is told, with what is there"""
    sh(cay, "mkdir d; echo old > d/old")
    with Watch(cay, "d", includeInfo=True) as watch:
        assert int(watch.started["directories"]) == 1, watch.started
        sh(cay, "echo 1 > d/new")
        assert watch.next() == ("new", "create")
        assert watch.event["info"]["path"] == "/workspace/d/new", watch.event
        assert watch.next() == ("new", "write")
        assert watch.event["info"]["owner"] == "user", watch.event
        sh(cay, "chmod 600 d/new")
        assert watch.next() == ("new", "chmod")
        assert watch.event["info"]["mode"] == 0o600, watch.event
        sh(cay, "echo more >> d/old")
        assert watch.next() == ("old", "write")
        sh(cay, "mv d/new d/moved")
        assert [watch.next(), watch.next()] == [("new", "rename"), ("moved", "create")]
        sh(cay, "mv d/moved .; mv moved d/back; rm d/back")
        assert [watch.next() for _ in range(3)] == [("moved", "rename"), ("back", "create"), ("back", "remove")]
        assert "info" not in watch.event, watch.event
        cay.write(SID, "d/by-client", b"x", writeMode="WRITE_MODE_TRUNCATE")
        assert watch.until("by-client", "write")[0] == ("by-client", "create")
        cay.write(SID, "d/by-client", b"y", writeMode="WRITE_MODE_TRUNCATE")
        assert watch.until("by-client", "write")
        sh(cay, "mkdir d/sub; echo 1 > d/sub/hidden; echo 1 > d/last")
        seen = watch.until("last", "write")
        assert not any("hidden" in name for name, _ in seen), seen


@case
def recursive(cay):
    """what is below is watched, too, also what is made, moved in, renamed or taken away later"""
    sh(cay, "mkdir -p d/a/b; mkdir -p aside/c")
    with Watch(cay, "/workspace/d", recursive=True) as watch:
        assert int(watch.started["directories"]) == 3, watch.started
        sh(cay, "echo 1 > d/a/b/f")
        assert watch.next() == ("a/b/f", "create")
        watch.until("a/b/f", "write")
        sh(cay, "mkdir -p d/x/y/z; echo 1 > d/x/y/z/f; echo 1 > d/end")
        seen = watch.until("end", "create")
        for name in ("x", "x/y", "x/y/z", "x/y/z/f"):
            assert seen.count((name, "create")) == 1, (name, seen)
        eventually(lambda: sh(cay, "echo 2 > d/x/y/z/g; echo 1 >> d/mark") or
                   ("x/y/z/g", "create") in watch.until("mark", "write"), "the new one is watched")
        sh(cay, "mv aside d/in; echo 1 > d/mark2")
        watch.until("mark2", "create")
        sh(cay, "echo 1 > d/in/c/f")
        watch.until("in/c/f", "create")
        sh(cay, "mv d/in d/renamed; echo 1 > d/mark3")
        seen = watch.until("mark3", "create")
        assert ("in", "rename") in seen and ("renamed", "create") in seen, seen
        sh(cay, "echo 1 > d/renamed/c/g")
        assert watch.until("renamed/c/g", "create")
        sh(cay, "mv d/renamed /workspace/out; echo 1 > d/mark4")
        watch.until("mark4", "create")
        sh(cay, "echo 1 > out/c/unseen; rm -rf d/x; echo 1 > d/mark5")
        seen = watch.until("mark5", "create")
        assert not any("unseen" in name for name, _ in seen), seen
        assert ("x/y/z/f", "remove") in seen and ("x", "remove") in seen, seen


@case
def several(cay):
    """watchers of one directory and of others do not disturb each other"""
    sh(cay, "mkdir -p d/a")
    with Watch(cay, "d", recursive=True) as upper, Watch(cay, "d/a") as lower, Watch(cay, "d", user="root") as root:
        sh(cay, "echo 1 > d/a/f")
        assert lower.next() == ("f", "create")
        assert upper.next() == ("a/f", "create")
        lower.stream.close()
        sh(cay, "echo 1 > d/a/g; echo 1 > d/g")
        upper.until("a/g", "create")
        assert root.until("g", "create")[-1] == ("g", "create")
    sh(cay, "mkdir -m 700 secret", "root")
    fails("permission_denied", Watch, cay, "secret")
    fails("not_found", Watch, cay, "nothing")
    sh(cay, "echo 1 > file")
    fails("failed_precondition", Watch, cay, "file", reason="not_a_directory")
    fails("not_found", Watch, cay, "/", user="stranger", reason="user_not_found")


@case
def mounted(cay):
    """what happens in /dev/shm is told, too"""
    with Watch(cay, "/dev/shm") as watch:
        sh(cay, "echo 1 > /dev/shm/f; rm /dev/shm/f")
        watch.until("f", "remove")


@case
def turns(cay):
    """a turn puts another tree under the session, and nothing is missed"""
    sh(cay, "mkdir -p d/a")
    with Watch(cay, "d", recursive=True) as watch:
        for number in range(4):
            cay.turn(SID)
            cay.write(SID, f"d/a/client{number}", b"x", writeMode="WRITE_MODE_TRUNCATE")
            assert watch.until(f"a/client{number}", "create") == [(f"a/client{number}", "create")] or number
            sh(cay, f"echo 1 > d/a/process{number}")
            watch.until(f"a/process{number}", "write")
        cay.background(SID, "echo ready; exec sleep 1000")
        cay.turn(SID)
        sh(cay, "echo 1 > d/a/busy")
        watch.until("a/busy", "write")
        cay.call("cay.v1.SandboxService/PauseSession", {"sessionId": SID})
        cay.call("cay.v1.SandboxService/ResumeSession", {"sessionId": SID})
        sh(cay, "echo 1 > d/a/resumed")
        watch.until("a/resumed", "write")


@case
def rollbacks(cay):
    """a rollback is told as changes that were missed; a directory that is gone with it ends the stream"""
    sh(cay, "mkdir d")
    turn = cay.turn(SID)["name"]
    sh(cay, "mkdir late; echo 1 > d/later")
    with Watch(cay, "d") as watch, Watch(cay, "late") as late:
        cay.rollback(SID, turn)
        seen = watch.next()
        while seen != "overflow":
            seen = watch.next()
        sh(cay, "echo 1 > d/after")
        watch.until("after", "create")
        while late.next() is not None:
            pass


@case
def removed(cay):
    """a directory that is removed ends its stream, and so does the session"""
    sh(cay, "mkdir -p gone/a")
    with Watch(cay, "gone", recursive=True) as watch:
        sh(cay, "rm -rf gone")
        while watch.next() is not None:
            pass
    cay.create("ending", base="small")
    stream = cay.open(FILE + "WatchDir", {"sessionId": "ending", "path": "/"})
    assert "started" in stream.next()
    cay.destroy("ending")
    error = fails("failed_precondition", stream.next)
    assert error.reason == "session_destroying", error


@case
def storms(cay):
    """a storm is told in full or as an overflow, and the daemon stays well; readers may be slow or gone"""
    sh(cay, "mkdir d")
    before = cay.fd_count()
    with Watch(cay, "d", recursive=True) as watch, Watch(cay, "d", recursive=True) as slow:
        sh(cay, "i=0; while [ $i -lt 6000 ]; do echo > d/$i; i=$((i+1)); done; echo > d/end")
        seen, lost = set(), False
        while ("end", "create") not in seen and not lost:
            event = watch.next()
            lost = event == "overflow"
            seen.add(event)
        if not lost:
            assert {(str(number), "create") for number in range(6000)} <= seen, len(seen)
        slow.stream.close()
        sh(cay, "i=0; while [ $i -lt 300 ]; do mkdir -p d/t$i/a/b; i=$((i+1)); done; rm -rf d/t*; echo > d/over")
        event = None
        while event not in (("over", "create"), "overflow"):
            event = watch.next()
    eventually(lambda: cay.fd_count() <= before, "what watched is closed")


@case
def limits(cay):
    """there is a limit to the directories of a session, and none of its watchers costs another session"""
    sh(cay, "mkdir d; cd d; i=0; while [ $i -lt 140 ]; do mkdir $i; "
            "(cd $i; j=0; while [ $j -lt 120 ]; do mkdir $j; j=$((j+1)); done); i=$((i+1)); done")
    error = fails("resource_exhausted", Watch, cay, "d", recursive=True)
    assert "directories" in error.message, error
    with Watch(cay, "d") as watch:
        sh(cay, "echo 1 > d/f")
        watch.until("f", "create")
    sh(cay, "rm -rf d; mkdir d")
    watches = [Watch(cay, "d") for _ in range(150)]
    sh(cay, "echo 1 > d/f")
    for watch in watches:
        watch.until("f", "create")
        watch.stream.close()


@case
def bounded(cay):
    """a session is watched so many times and no more; a watch that ends makes room"""
    sh(cay, "mkdir -p bounded")
    watches = [Watch(cay, "bounded") for _ in range(256)]
    fails("resource_exhausted", Watch, cay, "bounded")
    watches.pop().stream.close()

    def again():
        with contextlib.suppress(RpcError), Watch(cay, "bounded"):
            return True
    eventually(again, "there is room")
    for watch in watches:
        watch.stream.close()


@case
def destroyed_meanwhile(cay):
    """a session goes that somebody has just begun to watch, whether the watcher waits for its first word or has left"""
    cay.create("many")
    cay.sh("many", "mkdir deep; cd deep; i=0; while [ $i -lt 40 ]; do mkdir $i; "
                   "(cd $i; j=0; while [ $j -lt 40 ]; do mkdir $j; j=$((j+1)); done); i=$((i+1)); done")
    for leaves in (False, True) * 8:
        [fork] = cay.fork("many", lazyStart=True)
        cay.tool(fork["id"], "read_file", path="/etc/passwd")  # its files are there
        request = {"sessionId": fork["id"], "path": "/workspace/deep", "recursive": True}
        with cay.open(FILE + "WatchDir", request) as watch:  # a worker is at it for a while
            with cay.post(SANDBOX + "DestroySession", {"sessionId": fork["id"]}) as destroying:
                if leaves:
                    watch.close()
                else:
                    fails("failed_precondition", list, watch, reason="session_destroying")
                assert destroying.answer().status == 200


if __name__ == "__main__":
    run_with_cayd("--reserve", "0", session=SID, swapper=sys.argv[3])
