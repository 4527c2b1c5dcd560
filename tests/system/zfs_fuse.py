#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""On a file system without id-mapped mounts, zfs-fuse: what cannot be done there is said at the start."""

import contextlib
import subprocess
import tempfile
from pathlib import Path

from daemon import BASE, CAYD, MIB, SANDBOX, Cayd, case, eventually
from small_base import import_small, run_on


def datasets():
    return set(subprocess.run(["zfs", "list", "-H", "-o", "name"], stdout=subprocess.PIPE, check=True,
                              text=True).stdout.splitlines())


@case
def says_so(_):
    """a daemon that is told to keep its sessions there does not start, and says what to do"""
    before = datasets()
    for store in ("zfs", "local-disk"):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([CAYD, "--data", f"{folder}/data", "--run", f"{folder}/run", "--listen",
                                   "127.0.0.1:0", "--store", store], capture_output=True, timeout=60, check=False)
            made = sorted(path.name for path in Path(folder).rglob("format"))
        said = done.stderr.decode()
        assert done.returncode > 0 and "id-mapped" in said and "OpenZFS 2.2 or later" in said, said
        assert not made, f"what was refused stays chosen: {made}"
    assert datasets() == before, f"left in the pool: {datasets() - before}"


@case
def is_not_chosen(cay):
    """left to itself it does not choose zfs-fuse, warns, and its capabilities say why"""
    can = cay.call(SANDBOX + "GetCapabilities")["capabilities"]
    stores = {store["name"]: store for store in can["stores"]}
    assert stores["overlay"].get("active"), stores
    for name in ("zfs", "local-disk"):
        assert "id-mapped" in stores[name].get("unavailableReason", ""), stores
    assert "store.unfit" in cay.log_path.read_text(), cay.log_tail()


@case
def device_lost(_):
    """a pool that has lost a device is degraded, says so, and goes on; it recovers"""
    zpool = lambda *words: subprocess.run(["zpool", *words], check=True, capture_output=True)
    folder = tempfile.mkdtemp(dir="/run")  # which is ours alone, and goes with us, as zfs-fuse does
    with contextlib.ExitStack() as stack:
        disks = [f"{folder}/disk{number}" for number in range(2)]
        for disk in disks:
            with open(disk, "wb") as file:
                file.truncate(256 * MIB)
        zpool("create", "-m", f"{folder}/pool", "twin", "mirror", *disks)
        stack.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = f"{folder}/pool"
        cay = stack.enter_context(Cayd("--store", "zfs", "--runtime", "none", "--health-interval", "100ms"))
        health = lambda: cay.call(SANDBOX + "HealthCheck")
        assert health()["status"] == "HEALTH_STATUS_HEALTHY" and health()["poolState"] == "POOL_STATE_ONLINE"
        zpool("offline", "twin", disks[1])
        eventually(lambda: health()["status"] == "HEALTH_STATUS_DEGRADED", "it is degraded")
        found = health()
        assert found["poolState"] == "POOL_STATE_DEGRADED", found
        assert [problem["reason"] for problem in found["problems"]] == ["pool_degraded"], found
        import_small(cay)
        cay.create("goes-on")
        cay.destroy("goes-on")
        zpool("online", "twin", disks[1])
        eventually(lambda: health()["status"] == "HEALTH_STATUS_HEALTHY", "all is well again")
        cay.call(BASE + "RemoveBase", {"name": "small"})


if __name__ == "__main__":
    run_on(Cayd, lambda daemon: None)
