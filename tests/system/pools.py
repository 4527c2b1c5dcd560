#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Pools: a file system of their own for sessions, how full it is, and what follows."""

import os
import shutil
import subprocess
from pathlib import Path

from daemon import BASE, SANDBOX, case, eventually, fails
from past import put, text_of
from small_base import import_small, run_with_cayd

POOL = "cay.v1.PoolService/"
MIB = 1 << 20


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


@case
def not_after(cay):
    """a pool is made before there are bases and sessions, and says what is wrong otherwise"""
    assert pool_of(cay)["kind"] in ("POOL_KIND_DIRECTORY", "POOL_KIND_BTRFS"), pool_of(cay)
    fails("failed_precondition", create, cay, sizeBytes=str(300 * MIB))  # the small base is there
    cay.call(BASE + "RemoveBase", {"name": "small"})
    for bad in ({}, {"sizeBytes": "1000"}, {"sizeBytes": "-1"}, {"path": "relative"},
                {"kind": "POOL_KIND_DIRECTORY", "path": "/nowhere/at/all"},
                {"kind": "POOL_KIND_DIRECTORY", "path": "/tmp", "sizeBytes": str(300 * MIB)},
                {"sizeBytes": str(300 * MIB), "filesystem": "ntfs"}):
        fails("invalid_argument", create, cay, **bad)
    assert pool_of(cay)["kind"] != "POOL_KIND_LOOP"


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
def loop_pool(cay):
    """a loop pool holds sessions, survives the daemon, and grows while it is used"""
    if not has_loop_devices():
        print("# no loop devices here")
        return
    kind = best_filesystem()
    pool = create(cay, sizeBytes=str(300 * MIB), filesystem=kind)
    assert pool["kind"] == "POOL_KIND_LOOP" and pool["filesystem"] == kind, pool
    assert pool["state"] == "POOL_STATE_ONLINE" and pool["growable"], pool
    assert len(loops(cay)) == 1, loops(cay)
    import_small(cay)
    used_in(cay, "p")
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
    fails("invalid_argument", cay.call, POOL + "GrowPool", {"sizeBytes": str(200 * MIB)})
    grown = cay.call(POOL + "GrowPool", {"sizeBytes": str(500 * MIB)})["pool"]
    assert int(grown["sizeBytes"]) > before * 1.5, (before, grown)
    assert text_of(cay, "p", "file") == "1"


@case
def usage(cay):
    """what sessions use is told, the largest first"""
    if pool_of(cay)["kind"] != "POOL_KIND_LOOP":
        return
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
def full(cay):
    """a pool that is nearly full says so, takes nothing new, and what is there goes on"""
    if pool_of(cay)["kind"] != "POOL_KIND_LOOP":
        return
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
def gone_with_the_daemon(cay):
    """without sessions, a stopped daemon leaves no device and no mount"""
    cay.stop()
    eventually(lambda: not loops(cay), "the device is gone", 60)
    assert str(cay.folder) not in Path("/proc/self/mountinfo").read_text()
    cay.start()


if __name__ == "__main__":
    run_with_cayd("--health-interval", "200ms")
