#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""On a file system without id-mapped mounts, zfs-fuse: what cannot be done there is said at the start."""

import subprocess
import tempfile
from pathlib import Path

from daemon import CAYD, SANDBOX, Cayd, case, run


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


if __name__ == "__main__":
    with Cayd() as daemon:
        run(daemon)
