#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Pools: a file system of their own for sessions, how full it is, and what follows."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from daemon import BASE, SANDBOX, Cayd, Skip, case, eventually, fails, run
from past import put, text_of
from small_base import import_small, small_cayd

POOL = "cay.v1.PoolService/"
MIB = 1 << 20
FLAGS = ("--health-interval", "200ms", "--default-base", "small")


def pool_of(cay):
    return cay.call(POOL + "GetPool")["pool"]


def create(cay, **fields):
    return cay.stream(POOL + "CreatePool", fields)[-1]["pool"]


def health(cay):
    return cay.call(SANDBOX + "HealthCheck")


def has_loop_devices():
    return os.path.exists("/dev/loop-control")


def loops(cay):
    listed = subprocess.run(["losetup", "-a"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(cay.folder) in line]


def best_filesystem():
    """btrfs where it can be had: some machines let nobody enlarge ext4."""
    has_kernel = "\tbtrfs\n" in Path("/proc/filesystems").read_text()
    return "btrfs" if has_kernel and shutil.which("mkfs.btrfs", path="/usr/sbin:/sbin") else "ext4"


@contextlib.contextmanager
def with_pool(size_mib):
    """A daemon with a pool in a file, and in it a session `p`."""
    if not has_loop_devices():
        raise Skip("no loop devices here")
    with Cayd(*FLAGS) as cay:
        pool = create(cay, sizeBytes=str(size_mib * MIB), filesystem=best_filesystem())
        assert pool["kind"] == "POOL_KIND_LOOP" and pool["filesystem"] == best_filesystem(), pool
        assert pool["state"] == "POOL_STATE_ONLINE" and pool["growable"], pool
        import_small(cay)
        used_in(cay, "p")
        yield cay


@case
def not_after(_):
    """a pool is made before there are bases and sessions, and says what is wrong otherwise"""
    with small_cayd(*FLAGS) as cay:
        refuses_pools(cay)


def refuses_pools(cay):
    assert pool_of(cay)["kind"] in ("POOL_KIND_DIRECTORY", "POOL_KIND_BTRFS"), pool_of(cay)
    fails("failed_precondition", create, cay, sizeBytes=str(300 * MIB))  # the small base is there
    cay.call(BASE + "RemoveBase", {"name": "small"})
    for bad in ({}, {"sizeBytes": "1000"}, {"sizeBytes": "-1"}, {"path": "relative"},
                {"kind": "POOL_KIND_DIRECTORY", "path": "/nowhere/at/all"},
                {"kind": "POOL_KIND_DIRECTORY", "path": "/tmp", "sizeBytes": str(300 * MIB)},
                {"sizeBytes": str(300 * MIB), "filesystem": "ntfs"}, {"sizeBytes": str(2**63 - 1)}):
        fails("invalid_argument", create, cay, **bad)
    assert pool_of(cay)["kind"] != "POOL_KIND_LOOP"


@case
def of_another_host(_):
    """a directory with another host's sessions is refused, and they are there afterwards"""
    with tempfile.TemporaryDirectory(prefix="caysys-pool-") as folder:
        with Cayd(*FLAGS) as cay, Cayd("--default-base", "small") as other:
            create(other, kind="POOL_KIND_DIRECTORY", path=folder)
            import_small(other)
            used_in(other, "theirs")
            fails("unavailable", create, cay, kind="POOL_KIND_DIRECTORY", path=folder)  # it runs
            other.stop()
            fails("already_exists", create, cay, kind="POOL_KIND_DIRECTORY", path=folder)
            cay.restart()
            assert pool_of(cay).get("path") != folder, pool_of(cay)
            other.start()
            assert text_of(other, "theirs", "file") == "1" and len(other.log("theirs")) == 2
            other.destroy("theirs")


@case
def cannot_be_used(_):
    """a pool in which no store can be opened is not made: nothing of it is recorded or left"""
    if not has_loop_devices():
        raise Skip("no loop devices here")
    with Cayd("--store", "overlay", "--default-base", "small") as cay, \
            tempfile.TemporaryDirectory(prefix="caysys-pool-") as folder:
        (Path(folder) / "store").write_text("in the way")
        fails("internal", create, cay, kind="POOL_KIND_DIRECTORY", path=folder)
        assert not (cay.data / "pool").exists()
        cay.restart()
        create(cay, sizeBytes=str(300 * MIB))


@case
def missing_disk(_):
    """a daemon whose pool is empty where it was not forgets nothing: it refuses to start until the disk is there"""
    with tempfile.TemporaryDirectory(prefix="caysys-pool-") as folder, \
            Cayd("--default-base", "small") as cay:
        place, away = Path(folder) / "disk", Path(folder) / "away"
        place.mkdir(mode=0o700)
        create(cay, kind="POOL_KIND_DIRECTORY", path=str(place))
        import_small(cay)
        used_in(cay, "p")
        cay.power_off()
        place.rename(away)
        place.mkdir(mode=0o700)
        for _ in range(2):
            does_not_start(cay, "mount its disk")
        shutil.rmtree(place)
        away.rename(place)
        cay.start()
        assert [entry["name"] for entry in cay.log("p")][0] == "turn-0001", cay.log("p")
        cay.rollback("p", "turn-0001")
        assert text_of(cay, "p", "file") == "1"


@case
def missing_record(_):
    """a daemon that finds no word of its pool forgets nothing: the file stays, and with the record all is there again"""
    if not has_loop_devices():
        raise Skip("no loop devices here")
    with Cayd("--default-base", "small") as cay:
        create(cay, sizeBytes=str(300 * MIB))
        import_small(cay)
        used_in(cay, "p")
        cay.power_off()
        record = (cay.data / "pool").read_text()
        (cay.data / "pool").unlink()
        does_not_start(cay, "sessions whose files were in it")
        (cay.data / "pool").write_text(record)
        cay.start()
        assert text_of(cay, "p", "file") == "1" and len(cay.log("p")) == 2, cay.log("p")


def taken_by(path):
    return os.stat(path).st_blocks * 512


@case
def reserved(_):
    """a loop pool takes its whole size of the disk at once, and keeps it whatever is written and removed in it"""
    if not has_loop_devices():
        raise Skip("no loop devices here")
    with Cayd("--default-base", "small") as cay:
        file = cay.data / "pool.img"
        size = 300 * MIB
        create(cay, sizeBytes=str(size))
        assert taken_by(file) >= size, "the pool's file has holes"
        import_small(cay)
        cay.create("p")
        cay.sh("p", "head -c 100000000 /dev/urandom > /workspace/big; sync; rm /workspace/big; sync", user="root")
        grown = cay.call(POOL + "GrowPool", {"sizeBytes": str(size + 64 * MIB)})["pool"] \
            if best_filesystem() == "btrfs" else {}
        cay.destroy("p", wait=True)
        cay.stop()
        assert taken_by(file) >= size + (64 * MIB if grown else 0), "what was freed made holes"
        cay.start()
        free = os.statvfs(cay.data)  # others use the disk, too: far more than it has now
        too_much = str(2 * free.f_bavail * free.f_frsize + size)
        error = fails("resource_exhausted", cay.call, POOL + "GrowPool", {"sizeBytes": too_much}, reason="no_space")
        assert "left" in error.message and "GiB" in error.message, error.message


@case
def too_large(_):
    """a loop pool that the disk has no room for is refused with both sizes, and takes nothing; sparse it is made, with a warning"""
    if not has_loop_devices():
        raise Skip("no loop devices here")
    with Cayd("--default-base", "small") as cay:
        disk = os.statvfs(cay.data)
        size = (disk.f_bavail + (1 << 18)) * disk.f_frsize  # a GiB too much
        error = fails("resource_exhausted", create, cay, sizeBytes=str(size), reason="no_space")
        assert "left" in error.message and "--sparse" in error.message, error.message
        assert not list(cay.data.glob("pool*"))
        made = create(cay, sizeBytes=str(size), sparse=True)
        assert "may still grow by" in made.get("message", ""), made
        assert taken_by(cay.data / "pool.img") < size // 2
        assert pool_of(cay)["message"] == made["message"]
        doctor = Path(cay.command[0]).with_name("cay")
        said = subprocess.run([doctor, "doctor", "--data", cay.data], stdout=subprocess.PIPE, text=True, check=False).stdout
        assert "may still grow by" in said, said


@case
def relative_data(_):
    """a data directory that is given by a relative path keeps its pool"""
    if not has_loop_devices():
        raise Skip("no loop devices here")
    with Cayd("--default-base", "small") as cay:
        cay.stop()
        cay.command[cay.command.index("--data") + 1] = os.path.relpath(cay.data)
        cay.command[cay.command.index("--run") + 1] = os.path.relpath(cay.run_dir)
        cay.start()
        create(cay, sizeBytes=str(300 * MIB))
        import_small(cay)
        used_in(cay, "p")
        cay.restart()
        assert text_of(cay, "p", "file") == "1"
        kind, filesystem, path = (cay.data / "pool").read_text().split()
        assert path[0] == "/" and os.path.samefile(path, cay.data / "pool.img"), path
        cay.stop()
        # As it was written once; found also by a daemon that is started from elsewhere.
        (cay.data / "pool").write_text(f"{kind} {filesystem} {os.path.relpath(cay.data)}/pool.img\n")
        cay.command[cay.command.index("--data") + 1] = str(cay.data)
        cay.start()
        assert pool_of(cay)["kind"] == "POOL_KIND_LOOP"
        assert text_of(cay, "p", "file") == "1"


def does_not_start(cay, why):
    try:
        cay.start()
    except AssertionError as error:
        assert why in str(error), error
    else:
        raise AssertionError("it started")


def used_in(cay, session_id):
    """Sessions work in the pool, as everywhere."""
    cay.create(session_id)
    put(cay, session_id, "file", "1")
    cay.turn(session_id)
    put(cay, session_id, "file", "2")
    cay.rollback(session_id, "turn-0001")
    assert text_of(cay, session_id, "file") == "1"
    assert cay.sh(session_id, "cat /workspace/file") == "1"


@case
def loop_pool(_):
    """a loop pool holds sessions, survives the daemon, and grows while it is used"""
    with with_pool(300) as cay:
        survives_and_grows(cay)


def survives_and_grows(cay):
    assert len(loops(cay)) == 1, loops(cay)
    fails("already_exists", create, cay, sizeBytes=str(300 * MIB))
    cay.background("p", "echo ready; while :; do sleep 1; done")
    for end in (cay.kill, lambda: None):
        end()
        if end == cay.kill:
            cay.start()
        else:
            cay.restart()
        assert pool_of(cay)["kind"] == "POOL_KIND_LOOP"
        assert text_of(cay, "p", "file") == "1" and len(loops(cay)) == 1, loops(cay)
    before = int(pool_of(cay)["sizeBytes"])
    for bad in (200 * MIB, 2**63 - 1):
        fails("invalid_argument", cay.call, POOL + "GrowPool", {"sizeBytes": str(bad)})
    grown = cay.call(POOL + "GrowPool", {"sizeBytes": str(500 * MIB)})["pool"]
    assert int(grown["sizeBytes"]) > before * 1.5, (before, grown)
    assert text_of(cay, "p", "file") == "1"


@case
def usage(_):
    """what sessions use is told, the largest first"""
    with with_pool(300) as cay:
        tells_usage(cay)


def tells_usage(cay):
    cay.create("large")
    cay.sh("large", "head -c 20000000 /dev/urandom > /workspace/big; sync")
    answer = cay.call(SANDBOX + "GetUsage")
    assert [entry["sessionId"] for entry in answer["sessions"]] == ["large", "p"], answer
    large = answer["sessions"][0]["usage"]
    assert int(large["diskBytes"]) >= 20000000 and int(large["memoryBytes"]) > 0, large
    host = answer["host"]
    assert int(host["sessionBytes"]) >= 20000000 and int(host["daemonMemoryBytes"]) > 0, host
    one = cay.call(SANDBOX + "GetUsage", {"sessionId": "p"})
    assert [entry["sessionId"] for entry in one["sessions"]] == ["p"] and "host" not in one
    page = cay.call(SANDBOX + "GetUsage", {"pageSize": 1})
    rest = cay.call(SANDBOX + "GetUsage", {"pageSize": 1, "pageToken": page["nextPageToken"]})
    assert [entry["sessionId"] for entry in rest["sessions"]] == ["p"], rest
    fails("not_found", cay.call, SANDBOX + "GetUsage", {"sessionId": "nobody"})
    fails("invalid_argument", cay.call, SANDBOX + "GetUsage", {"pageToken": "x"})


def fill_until(cay, status, piece):
    for number in range(100):
        pool_of(cay)  # looks
        if health(cay)["status"] == status:
            return
        cay.sh("large", f"fallocate -l {piece} /workspace/{status}-{number}; sync", user="root")
    raise AssertionError(f"never {status}: {pool_of(cay)}")


@case
def full(_):
    """a pool that is nearly full says so, takes nothing new, and what is there goes on"""
    with with_pool(500) as cay:
        fills(cay)


def fills(cay):
    cay.create("large")
    assert health(cay)["status"] == "HEALTH_STATUS_HEALTHY", health(cay)
    piece = int(pool_of(cay)["sizeBytes"]) // 100
    fill_until(cay, "HEALTH_STATUS_DEGRADED", piece)
    assert health(cay)["problems"][0]["reason"] == "pool_space_low"
    put(cay, "p", "file", "still written")
    cay.turn("p")
    fill_until(cay, "HEALTH_STATUS_UNHEALTHY", piece)
    assert health(cay)["problems"][0]["reason"] == "pool_space_critical"
    fails("resource_exhausted", cay.create, "one-more")
    fails("resource_exhausted", cay.turn, "p")
    fails("resource_exhausted", cay.fork, "p", snapshot="turn-0001")
    assert text_of(cay, "p", "file") == "still written"
    assert "one-more" not in cay.ids()
    assert cay.sh("p", "echo on") == "on\n"
    cay.destroy("large")
    # A file system may take its time to free what was deleted.
    eventually(lambda: health(cay)["status"] == "HEALTH_STATUS_HEALTHY", "there is room again", 90)
    cay.turn("p")
    cay.destroy("p")


@case
def gone_with_the_daemon(_):
    """without sessions, a stopped daemon leaves no device and no mount"""
    with with_pool(300) as cay:
        cay.destroy("p")
        assert len(loops(cay)) == 1, loops(cay)
        assert cay.stop() == 0
        eventually(lambda: not loops(cay), "the device is gone", 60)
        assert str(cay.folder) not in Path("/proc/self/mountinfo").read_text()
        cay.start()


if __name__ == "__main__":
    run(None)
