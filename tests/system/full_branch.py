#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A disk that runs full under unsaved work: what a rollback keeps of it as a branch is whole, or the rollback is refused.

File systems of a few hundred MiB are really filled: ext4 and btrfs, and a pool in a file with holes on a full disk, where
what programs have written finds no room later. What is in memory is dropped before it is compared.
"""

import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from daemon import MIB, Cayd, RpcError, Skip, case, eventually, run
from small_base import import_small

SIZE = 400 * MIB
ATTEMPTS_MAX = 3
CLONE_NEWNS = 0x20000
REFUSED = ("no_space", "store_failed", "quota_exceeded", "disk_failed", "resource_exhausted", "internal")
# Some files fit into an inode, some into a block, some need many.
FILL = """mkdir -p work && cd work && i=0
while test $i -lt 600; do
    for size in 20 3000 5000 200000 70000; do
        i=$((i + 1))
        head -c $size /dev/urandom > f$i 2> /dev/null || { rm -f f$i; exit 0; }
        test $(wc -c < f$i) = $size || { rm -f f$i; exit 0; }
    done
done"""
SUMS = "cd /workspace/work && find . -type f -exec sha256sum {} +"


@contextlib.contextmanager
def small_disk(kind):
    """A directory on a file system of its own."""
    with tempfile.TemporaryDirectory(prefix="caysys-full-") as top:
        image, point = Path(top) / "image", Path(top) / "disk"
        point.mkdir()
        image.touch()
        os.truncate(image, SIZE)
        make = {"ext4": ["mkfs.ext4", "-q", "-F"], "btrfs": ["mkfs.btrfs", "-q", "--mixed"]}[kind]
        try:
            subprocess.run([*make, image], check=True, capture_output=True)
            subprocess.run(["mount", "-t", kind, "-o", "loop", image, point], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Skip(f"{kind}: {getattr(error, 'stderr', error)}") from error
        try:
            yield point
        finally:
            eventually(lambda: subprocess.run(["umount", point], check=False, capture_output=True).returncode == 0,
                       "the file system is let go")


class Ballast:
    """Takes all of a file system but a little."""

    def __init__(self, folder):
        self.path = Path(folder) / "ballast"

    def leave(self, free_bytes):
        with open(self.path, "ab") as file:
            while True:
                space = os.statvfs(self.path.parent)
                more = space.f_bavail * space.f_frsize - free_bytes
                if more < MIB:
                    return
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, max(MIB, more // 2))
                except OSError:
                    return

    def drop(self):
        with contextlib.suppress(FileNotFoundError):
            os.truncate(self.path, 0)


class PoolDied(Exception):
    """The file system failed as a whole, so that nothing of what was just written can be read."""


def forget_memory(folder):
    """What is read next comes from the disk."""
    os.sync()
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            if os.path.isfile(path) and not os.path.islink(path):
                fd = os.open(path, os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)


def compare(before, after, where):
    before, after = (dict(reversed(line.split(None, 1)) for line in text.splitlines()) for text in (before, after))
    lost = [name for name in before if name not in after]
    wrong = [name for name in before if name in after and before[name] != after[name]]
    assert not lost and not wrong, \
        f"{where}: of {len(before)} files {len(lost)} are gone and {len(wrong)} differ: {(lost + wrong)[:10]}"


def fill_and_roll_back(cay, sid, ballast, free_bytes, is_busy):
    """What could be read before, and the branch; None: the rollback was refused."""
    cay.create(sid)
    cay.sh(sid, "echo first > first")
    cay.turn(sid)
    try:
        ballast.leave(free_bytes)
        if is_busy:
            cay.background(sid, "echo ready; while :; do date >> busy; done")
        cay.launch(sid, "/bin/sh", "-c", FILL, user="user")
        before = cay.sh(sid, SUMS)
        if len(before.splitlines()) <= 3:
            raise PoolDied(before)
        try:
            return before, cay.rollback(sid, "turn-0001")["branch"]
        except RpcError as error:
            assert error.reason in REFUSED, error
            print(f"# refused: {error.message}")
            return before, None
    finally:
        os.sync()  # now or never
        ballast.drop()


@contextlib.contextmanager
def pool_on(disk, **fields):
    """A daemon whose own records are elsewhere: only the store runs full."""
    with Cayd("--default-base", "small", "--pool-warn", "0.999", "--pool-critical", "1") as cay:
        cay.stream("cay.v1.PoolService/CreatePool", {"path": str(disk / "pool")} | fields)
        import_small(cay)
        yield cay


def on_a_full_disk(kind):
    with small_disk(kind) as disk:
        (disk / "pool").mkdir(mode=0o700)
        with pool_on(disk, kind="POOL_KIND_DIRECTORY") as cay:
            on_pool(cay, disk)


def on_pool(cay, disk):
    ballast = Ballast(disk)
    for number, (mebibytes, is_busy) in enumerate(((8, False), (20, True), (12, False))):
        sid = f"full{number}"
        before, branch = fill_and_roll_back(cay, sid, ballast, mebibytes * MIB, is_busy)
        forget_memory(disk / "pool")
        if branch:
            cay.rollback(sid, branch)
        compare(before, cay.sh(sid, SUMS), f"{sid}, {'the branch' if branch else 'the live files'}")
        cay.destroy(sid)


@case
def ext4(_):
    """overlay on ext4: every file is there, in the branch or in the live files"""
    on_a_full_disk("ext4")


@case
def btrfs(_):
    """btrfs: every file is there, in the branch or in the live files"""
    on_a_full_disk("btrfs")


def once_in_a_file(filesystem):
    with small_disk("ext4") as disk, pool_on(disk, sizeBytes=1 << 30, filesystem=filesystem, sparse=True) as cay:
        before, branch = fill_and_roll_back(cay, "full", Ballast(disk), 4 * MIB, False)
        if branch:
            cay.rollback("full", branch)
            compare(before, cay.sh("full", SUMS), "the branch")


def in_a_file(filesystem):
    """What is in such a pool when its disk is full may be lost; nothing is called kept that is not."""
    for _ in range(ATTEMPTS_MAX):
        try:
            return once_in_a_file(filesystem)
        except PoolDied:
            print(f"# {filesystem} gave up before anything could be rolled back")
    raise Skip(f"{filesystem} gave up before anything could be rolled back, {ATTEMPTS_MAX} times")


@case
def pool_ext4(_):
    """a pool in a file with holes, ext4: a branch is answered only when it is on the disk"""
    in_a_file("ext4")


@case
def pool_btrfs(_):
    """a pool in a file with holes, btrfs: a branch is answered only when it is on the disk"""
    in_a_file("btrfs")


if __name__ == "__main__":
    if os.geteuid() != 0 or ctypes.CDLL(None).unshare(CLONE_NEWNS) < 0:
        print("1..0 # SKIP needs root")
        sys.exit(0)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    run(None)
