#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a session has on disk is limited, bytes and files, wherever and however it is written."""

import contextlib
import gzip
import os
import pathlib
import subprocess
import sys
import time

from building import archive, step
from daemon import BASE, FILE, MIB, PATIENCE_S, SANDBOX, RpcError, Skip, b64, case, eventually, fails
from past import put
from session_stream import export, import_
from small_base import run_with_cayd

LIMIT = 16 * MIB
FAR_MORE = 60  # mebibytes
STORE = sys.argv[3]
KILLED_WITHIN_S = 20  # the promise is seconds; a machine under load is slow
LOOKED_WITHIN_S = 2  # docs/disk.md: the next look comes not later


def is_by_kernel(cay):
    limits = cay.call(SANDBOX + "GetCapabilities")["capabilities"]["limits"]
    return next(limit for limit in limits if limit["name"] == "disk")["enforcement"] == "ENFORCEMENT_KERNEL"


def needs_past(cay):
    if not cay.call(SANDBOX + "GetCapabilities")["capabilities"].get("snapshots"):
        raise Skip("this store has no snapshots")


def used(cay, session_id):
    return int(cay.get(session_id).get("usage", {}).get("diskBytes", 0))


def is_stopped(cay, session_id, *argv, is_files=False):
    """A command that would go on for ever is ended for the disk limit, and soon; or the kernel says no to it."""
    started = time.monotonic()
    result, out, err = cay.launch(session_id, *argv, wait=f"{PATIENCE_S}s")
    took_s = time.monotonic() - started
    is_refused = b"quota" in err.lower() and is_by_kernel(cay) and not is_files
    assert result.get("cause") == "END_CAUSE_QUOTA" or is_refused, (result, out[-200:], err[-200:])
    assert took_s < KILLED_WITHIN_S, took_s
    return took_s


def hidden(cay, kind):
    cay.create(kind, limits={"diskBytes": LIMIT})
    try:
        is_stopped(cay, kind, "/usr/bin/hider", kind, str(FAR_MORE))
        assert not cay.sh(kind, "ls /workspace")
    finally:
        cay.destroy(kind)


@case
def nameless(cay):
    """a file without a name counts as long as somebody has it open"""
    hidden(cay, "open")


@case
def mapped(cay):
    """or mapped"""
    hidden(cay, "mapped")


@case
def of_a_thread(cay):
    """or a thread alone has it open"""
    hidden(cay, "thread")


@case
def in_a_message(cay):
    """files in messages that nobody receives cannot be measured, and are too much"""
    hidden(cay, "message")


def holds(cay):
    """How many unlinked files the daemon has open."""
    found = 0
    for fd in pathlib.Path(f"/proc/{cay.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found += "/held" in os.readlink(fd) and fd.stat().st_nlink == 0
    return found


def within_limit(cay, session_id, script):
    """False when the limit ends it."""
    result, _, err = cay.launch(session_id, "/bin/sh", "-c", script)
    is_done = result.get("exitCode") == 0
    assert is_done or result.get("cause") == "END_CAUSE_QUOTA" or b"quota" in err.lower(), (result, err)
    return is_done


def hold(cay, session_id, streams, number):
    """Writes a file, begins to read it and unlinks it; False when there is no room for it."""
    if not within_limit(cay, session_id, f"dd if=/dev/urandom of=held{number} bs=1048576 count=4"):
        return False
    streams.append(cay.open(FILE + "ReadFile", {"sessionId": session_id, "path": f"held{number}"}))
    assert "info" in streams[-1].next()
    return within_limit(cay, session_id, f"rm held{number}; sync")


@case
def held_by_readers(cay):
    """or the daemon itself has it open, for a reader that takes its time"""
    streams = []
    cay.create("held", limits={"diskBytes": LIMIT})
    while len(streams) < 5 and hold(cay, "held", streams, len(streams)):
        pass
    eventually(lambda: is_over(cay, "held"), "what readers hold counts")
    for stream in streams[1:]:
        stream.close()
    eventually(lambda: not is_over(cay, "held"), "and no longer when they have gone")
    assert holds(cay) == 1, holds(cay)
    cay.destroy("held")
    eventually(lambda: holds(cay) == 0, "nothing is held of a session that is gone")
    fails("failed_precondition", list, streams[0], reason="session_destroying")


@case
def own_volume(cay):
    """a subvolume that a program makes for itself is no way out"""
    if STORE != "btrfs":
        raise Skip("there are no subvolumes here")
    cay.create("volume", limits={"diskBytes": LIMIT})
    is_stopped(cay, "volume", "/usr/bin/hider", "volume", str(FAR_MORE))
    cay.snapshot("volume", "full")
    cay.rollback("volume", "full")  # its tree goes, with what is in it
    assert cay.sh("volume", "rm -rf volume; echo 1 > small; cat small") == "1\n"
    cay.destroy("volume")


@case
def deep(cay):
    """files that lie deeper than anybody looks are too much"""
    if is_by_kernel(cay):
        raise Skip("nobody walks the trees here")
    cay.create("deep", limits={"diskBytes": LIMIT})
    is_stopped(cay, "deep", "/bin/sh", "-c",
               "i=0; while [ $i -lt 450 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done; "
               f"dd if=/dev/zero of=f bs=1048576 count={FAR_MORE}; while :; do sleep 1; done")
    error = fails("resource_exhausted", put, cay, "deep", "x", "1", reason="quota_exceeded")
    assert "too deep" in error.message, error
    cay.sh("deep", "rm -rf /workspace/d")
    eventually(lambda: not is_over(cay, "deep"), "it may write again")
    cay.destroy("deep")


def is_over(cay, session_id):
    try:
        reason = cay.tool(session_id, "write_file", path="probe", content="1").get("errorReason")
    except RpcError as error:
        reason = error.reason
    assert reason in (None, "quota_exceeded"), reason
    return reason is not None


@case
def announced(cay):
    """what an upload announces is compared with the limit before anything is allocated"""
    cay.create("up", limits={"diskBytes": LIMIT}, lazyStart=True)
    free = os.statvfs(cay.data).f_bavail
    request = {"open": {"sessionId": "up", "path": "big", "size": str(20 << 30)}}
    error = fails("resource_exhausted", cay.send_all, FILE + "WriteFile", [request])
    assert error.reason in ("quota_exceeded", "no_space"), error
    # Without a limit it is the disk that counts; it is not filled to find out.
    cay.create("free", lazyStart=True)
    request["open"] |= {"sessionId": "free", "size": str(1 << 50)}
    fails("resource_exhausted", cay.send_all, FILE + "WriteFile", [request], reason="no_space")
    if not is_by_kernel(cay):
        request["open"] |= {"sessionId": "up"}
        del request["open"]["size"]
        pieces = [{"data": b64(os.urandom(MIB))} for _ in range(FAR_MORE)]
        fails("resource_exhausted", cay.send_all, FILE + "WriteFile", [request, *pieces],
              reason="quota_exceeded")
    block = os.statvfs(cay.data).f_frsize
    assert (free - os.statvfs(cay.data).f_bavail) * block < 4 << 30
    for name in ("up", "free"):
        cay.destroy(name)


@case
def allocated(cay):
    """who allocates without writing has what there is until the next look, which comes within two seconds; or gets nothing from the kernel"""
    took_s = []
    while len(took_s) < 4 and min(took_s, default=LOOKED_WITHIN_S + 1) > LOOKED_WITHIN_S + 0.5:  # others may have the processors
        cay.create("ahead", limits={"diskBytes": LIMIT})
        took_s.append(is_stopped(cay, "ahead", "/bin/sh", "-c", f"fallocate -l {FAR_MORE}M ahead && exec sleep 1000"))
        if not is_by_kernel(cay):
            assert is_over(cay, "ahead")
            cay.sh("ahead", "rm ahead")
        eventually(lambda: not is_over(cay, "ahead"), "it may write again")
        cay.destroy("ahead")
    assert min(took_s) <= LOOKED_WITHIN_S + 0.5, took_s


@case
def asleep(cay):
    """a session in which nothing has run is measured, too"""
    needs_past(cay)
    cay.create("lazy", limits={"diskBytes": 2 * MIB}, lazyStart=True)
    for number in range(200):
        try:
            result = cay.tool("lazy", "write_file", path=f"f{number}", content="x" * (MIB // 2))
            if result.get("errorReason") == "quota_exceeded" and is_by_kernel(cay):
                return cay.destroy("lazy")
            assert not result.get("isError"), result
            cay.turn("lazy")
        except RpcError as error:
            assert error.reason == "quota_exceeded", error
            break
        time.sleep(0.02)  # calls of a client with other things to do
    else:
        raise AssertionError("100 MiB were written under a limit of 2 MiB")
    eventually(lambda: used(cay, "lazy") > 2 * MIB, "it is told")
    assert used(cay, "lazy") < 40 * MIB, used(cay, "lazy")
    cay.destroy("lazy")


@case
def uploads(cay):
    """uploads are counted as they come, not only when somebody looks"""
    cay.create("cp", limits={"diskBytes": 4 * MIB}, lazyStart=True)
    written = 0
    for number in range(40):
        try:
            cay.write("cp", f"f{number}", os.urandom(MIB))
            written += 1
        except RpcError as error:
            assert error.reason == "quota_exceeded", error
    assert 2 <= written <= 5, written
    cay.destroy("cp")


@case
def files(cay):
    """empty files count: there is a limit for their number"""
    fails("invalid_argument", cay.create, "n", limits={"inodes": 1})
    cay.create("n", limits={"inodes": 500})
    assert cay.get("n")["limits"]["inodes"] == "500"
    is_stopped(cay, "n", "/bin/sh", "-c",
               "mkdir f; cd f; i=0; while :; do touch $i.$(seq 40) $(seq $i $((i+40))); i=$((i+41)); done", is_files=True)
    fails("resource_exhausted", put, cay, "n", "x", "1", reason="quota_exceeded")
    with contextlib.suppress(Skip):
        needs_past(cay)
        fails("resource_exhausted", cay.turn, "n", reason="quota_exceeded")
    cay.sh("n", "rm -rf f")
    eventually(lambda: not is_over(cay, "n"), "it may write again")
    cay.call(SANDBOX + "UpdateSession", {"sessionId": "n", "limits": {"inodes": 5000}})
    cay.sh("n", "mkdir f; cd f; touch $(seq 1000)")
    cay.destroy("n")


@case
def branches(cay):
    """what was left behind by rollbacks counts as long as it is kept"""
    needs_past(cay)
    cay.create("b", limits={"diskBytes": LIMIT})
    cay.snapshot("b", "start")
    for number in range(40):
        try:
            cay.write("b", "f", os.urandom(3 * MIB))
            cay.turn("b")
            cay.rollback("b", "start")
        except RpcError as error:
            assert error.reason == "quota_exceeded", error
            break
        eventually(lambda number=number: used(cay, "b") >= (number + 1) * 3 * MIB, "it is measured")
    else:
        raise AssertionError("120 MiB of history under a limit of 16 MiB")
    cay.destroy("b")


@case
def shared(cay):
    """what turns share counts once"""
    needs_past(cay)
    cay.create("s", limits={"diskBytes": LIMIT})
    # A file that was written within 20 ms before a turn is copied again by the next one: it is older here.
    cay.background("s", "dd if=/dev/urandom of=f bs=1048576 count=5 2>/dev/null; usleep 200000; "
                        "echo ready; while :; do sleep 1; done")
    for number in range(8):
        put(cay, "s", "note", str(number))
        cay.turn("s")
    time.sleep(1)  # a look that finds too much would come within that
    put(cay, "s", "note", "still")
    assert used(cay, "s") < LIMIT, used(cay, "s")
    cay.destroy("s")


@case
def imports(cay):
    """an import ends where the session's limit is, bytes and files"""
    needs_past(cay)
    cay.create("big", limits={"diskBytes": 1 << 40}, lazyStart=True)
    for number in range(4):
        cay.write("big", f"f{number}", b"cay" * (5 * MIB))
        cay.turn("big")
    cay.call(FILE + "MakeDir", {"sessionId": "big", "path": "many"})
    for number in range(40):
        cay.write("big", f"many/{number}", b"")
    _, stream = export(cay, "big")
    assert len(stream) < MIB, len(stream)
    for limits, last in (({"diskBytes": LIMIT}, "f1"), ({"inodes": 30}, "many/")):
        error = fails("resource_exhausted", import_, cay, stream, sessionId="less", limits=limits,
                      reason="quota_exceeded")
        assert last in error.message, error
        assert cay.ids() == ["big"], cay.ids()
    import_(cay, stream, sessionId="more", limits={"diskBytes": 100 * MIB, "inodes": 100})
    assert cay.read("more", "f3") == b"cay" * (5 * MIB)
    is_stopped(cay, "more", "/bin/sh", "-c",
               "dd if=/dev/zero of=f bs=1048576 count=200 || exit 1; while :; do sleep 1; done")
    for name in ("more", "big"):
        cay.destroy(name)


@case
def copies(cay):
    """files that a build copies end where the limit is"""
    context = gzip.compress(archive(*((f"f{number}", b"cay" * (5 * MIB)) for number in range(4))))
    request = {"name": "built", "fromBase": "small", "context": b64(context), "limits": {"diskBytes": LIMIT},
               "steps": [step("COPY", ".", "/srv")]}
    error = fails("failed_precondition", cay.stream, BASE + "BuildBase", request)
    assert "srv/f1" in error.message, error
    request["limits"]["diskBytes"] = 100 * MIB
    cay.stream(BASE + "BuildBase", request)
    cay.call(BASE + "RemoveBase", {"name": "built"})


@case
def archives(cay):
    """an archive is unpacked up to the limit, bytes and files"""
    packed = gzip.compress(archive(*((f"f{number}", b"cay" * (5 * MIB)) for number in range(4))))
    many = archive(*((f"{number}", b"") for number in range(100)))
    for limits, data in (({"diskBytes": LIMIT}, packed), ({"inodes": 50}, many)):
        cay.create("a", limits=limits, lazyStart=True)
        open_ = {"open": {"sessionId": "a", "path": "to", "archive": "TREE_FORMAT_TAR"}}
        pieces = [{"data": b64(data[at:at + MIB // 2])} for at in range(0, len(data), MIB // 2)]
        fails("resource_exhausted", cay.send_all, FILE + "WriteFile", [open_, *pieces], reason="quota_exceeded")
        cay.destroy("a")


@case
def told(cay):
    """what a session without limits uses is told as well"""
    cay.create("t")
    cay.write("t", "f", os.urandom(MIB))
    subprocess.run(["sync", "-f", cay.data], check=True)  # btrfs does not know before where it will be
    eventually(lambda: used(cay, "t") >= MIB, "its disk usage is told", 40)
    cay.destroy("t")


if __name__ == "__main__":
    run_with_cayd("--default-base", "small", "--store", STORE, hider=sys.argv[2])
