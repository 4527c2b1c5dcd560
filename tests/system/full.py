#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A full pool: the daemon starts, reads, rolls back, removes, and is well again when there is room."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

from daemon import BASE, KEY, MIB, SANDBOX, Cayd, Client, RpcError, Skip, b64, case, eventually, fails
from past import put, text_of
from small_base import import_small, run_with_cayd

POOL = "cay.v1.PoolService/"
FLAGS = ("--default-base", "small", "--health-interval", "200ms")

# What fills a pool from inside, to the last of its inodes or bytes; a full pool is no failure of the program.
FILLS = {
    "inodes": "mkdir -p f && cd f && i=0; while mkdir d$i && (cd d$i && touch $(seq 2000)); do i=$((i+1)); done "
              "2>/dev/null; j=0; while : > last$j; do j=$((j+1)); done 2>/dev/null; true",
    "bytes": "dd if=/dev/zero of=big bs=1048576 2>/dev/null; dd if=/dev/zero of=rest bs=4096 2>/dev/null; "
             "j=0; while [ $j -lt 500 ] && echo x > small$j; do j=$((j+1)); done 2>/dev/null; true",
}


def has(filesystem):
    return (os.path.exists("/dev/loop-control") and
            f"\t{filesystem}\n" in Path("/proc/filesystems").read_text() and
            shutil.which(f"mkfs.{filesystem}", path="/usr/sbin:/sbin"))


def health(cay):
    cay.call(POOL + "GetPool")  # looks
    return cay.call(SANDBOX + "HealthCheck")


def is_full(cay, what):
    return any(problem["reason"] == f"pool_{what}_critical" for problem in health(cay).get("problems", []))


@contextlib.contextmanager
def with_loop_pool(filesystem):
    """A daemon whose pool is small, and whose records have room."""
    if not has(filesystem):
        raise Skip(f"no loop devices or no {filesystem} here")
    with Cayd(*FLAGS) as cay:
        cay.stream(POOL + "CreatePool", {"sizeBytes": str(300 * MIB), "filesystem": filesystem})
        yield cay


@contextlib.contextmanager
def on_small_disk(filesystem="ext4"):
    """A daemon that has all it keeps on one small disk, records too. Its sockets are elsewhere, as /run is."""
    if not has(filesystem):
        raise Skip(f"no loop devices or no {filesystem} here")
    make = {"ext4": ["mkfs.ext4", "-q", "-F", "-m", "0"], "btrfs": ["mkfs.btrfs", "-q"]}[filesystem]
    with tempfile.TemporaryDirectory(prefix="caysys-disk-") as folder:
        image, place = Path(folder) / "image", Path(folder) / "disk"
        place.mkdir()
        with open(image, "wb") as file:
            file.truncate(300 * MIB)
        subprocess.run([*make, str(image)], check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
        before = tempfile.tempdir
        try:
            tempfile.tempdir = str(place)
            with Cayd(*FLAGS, run_dir=Path(folder) / "run") as cay:
                tempfile.tempdir = before
                yield cay
        finally:
            tempfile.tempdir = before
            subprocess.run(["umount", str(place)], check=True)


def served_when_full(place, what, way_out):
    with place as cay:
        import_small(cay)
        cay.create("quiet")
        put(cay, "quiet", "kept", "1")
        cay.turn("quiet")
        put(cay, "quiet", "kept", "2")
        cay.create("greedy")
        put(cay, "greedy", "before", "1")
        cay.turn("greedy")
        cay.launch("greedy", "/bin/sh", "-c", FILLS[what], wait="120s")
        eventually(lambda: is_full(cay, "space" if what == "bytes" else what), f"the pool has no {what} left")
        for end in (cay.restart, lambda: (cay.power_off(), cay.start()), lambda: (cay.stop(), cay.start())):
            end()
            assert cay.ids() == ["greedy", "quiet"]
            assert text_of(cay, "quiet", "kept") == "2"
            assert text_of(cay, "greedy", "before") == "1"
            fails("resource_exhausted", cay.create, "one-more")
        assert cay.sh("quiet", "cat kept") == "2", "a command runs that writes nothing"
        cay.rollback("quiet", "turn-0001", discard=True)
        assert text_of(cay, "quiet", "kept") == "1"
        way_out(cay)
        eventually(lambda: not health(cay).get("problems"), "there is room again", 90)
        cay.create("after")
        put(cay, "after", "file", "new")
        cay.turn("after")
        assert text_of(cay, "after", "file") == "new"


def remove(cay):
    cay.destroy("greedy")


def roll_back(cay):
    cay.rollback("greedy", "turn-0001", discard=True)


def clean_up(cay):
    cay.sh("greedy", "rm -rf f big rest small*; sync")


def vacuum_mode(cay):
    with contextlib.closing(sqlite3.connect(cay.data / "cay.db")) as db:
        return db.execute("PRAGMA auto_vacuum").fetchone()[0]


@case
def older_database(_):
    """a database that must be written anew to become smaller waits for a disk that has room for it"""
    with on_small_disk() as cay:
        import_small(cay)
        cay.create("one", lazyStart=True)
        for number in range(300):
            cay.turn("one", metadata={"number": number, "text": "t" * 60_000})
        cay.stop()
        with contextlib.closing(sqlite3.connect(cay.data / "cay.db")) as db:
            db.execute("PRAGMA auto_vacuum = NONE")
            db.execute("VACUUM")
        with open(cay.folder / "filler", "wb") as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(MIB))
        for _ in range(2):
            cay.start()
            assert cay.log("one")[299]["metadata"]["number"] == 299
            cay.stop()
            assert vacuum_mode(cay) == 0
        (cay.folder / "filler").unlink()
        cay.start()
        assert cay.log("one")[299]["metadata"]["number"] == 299
        cay.destroy("one")
        eventually(lambda: (cay.data / "cay.db").stat().st_size < 4 * MIB, "the database is small")
        assert vacuum_mode(cay) == 2


@case
def inodes_on_ext4(_):
    """the daemon starts and serves when a session has used up the inodes of ext4"""
    served_when_full(with_loop_pool("ext4"), "inodes", remove)


@case
def bytes_on_ext4(_):
    """the daemon starts and serves when a session has used up the bytes of ext4; a rollback frees them"""
    served_when_full(with_loop_pool("ext4"), "bytes", roll_back)


@case
def with_the_records(_):
    """the daemon starts and serves when its records are on a disk without inodes"""
    served_when_full(on_small_disk(), "inodes", remove)


@case
def with_the_records_bytes(_):
    """the daemon starts and serves when its records are on a disk without room"""
    served_when_full(on_small_disk(), "bytes", remove)


@case
def with_the_records_btrfs(_):
    """the daemon starts and serves when its records are on a full btrfs, where removing needs room, too"""
    served_when_full(on_small_disk("btrfs"), "bytes", remove)


@case
def spooled(_):
    """what is kept for one owner's builds never keeps others from making sessions"""
    with on_small_disk() as cay:
        import_small(cay)
        greedy = Client(cay, cay.call(KEY + "CreateKey", {"owner": "greedy"})["secret"])
        piece = {"data": b64(os.urandom(MIB))}
        for number in range(60):
            try:
                greedy.send_all(BASE + "PutBuildFiles", [{"key": f"{number:064x}"}, *[piece] * 7])
            except RpcError as error:
                assert error.reason in ("no_space", "resource_exhausted"), error
                break
        else:
            raise AssertionError("420 MiB were kept on a disk of 300 MiB")
        cay.create("another")
        put(cay, "another", "file", "1")
        cay.turn("another")


@case
def bytes_on_btrfs(_):
    """the daemon starts and serves when a session has filled btrfs; what the session removes is free again"""
    served_when_full(with_loop_pool("btrfs"), "bytes", clean_up)


if __name__ == "__main__":
    run_with_cayd("--default-base", "small")
