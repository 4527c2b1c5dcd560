#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the machine refuses: space, and the writing of records. The call says so with its reason, what was there
is there, the daemon goes on, and with the fault gone everything works again."""

import contextlib
import errno
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

from daemon import PATIENCE_S, Cayd, RpcError, case, eventually, steady
from oracle import ACTOR, NO_HOST_BASE, act, clear, dump, log_of, look, settled, tell_difference
from small_base import import_small, run_with_cayd

DISK_MIB = 48


class Disk:
    """A small file system of its own for a daemon's data, in a mount that the daemon sees too."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="caysys-disk-")
        self.mount("-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=700", "cay-test", self.folder)

    def mount(self, *arguments):
        subprocess.run(["mount", *arguments], check=True)

    def fill(self):
        """Until nothing fits any more."""
        with contextlib.suppress(OSError), open(Path(self.folder) / "filler", "ab", buffering=0) as file:
            while True:
                try:
                    file.write(b"x" * 65536)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    file.write(b"x" * 64)

    def empty(self):
        (Path(self.folder) / "filler").unlink()

    def close(self):
        subprocess.run(["umount", "--lazy", self.folder], check=False)
        with contextlib.suppress(OSError):
            Path(self.folder).rmdir()


class FailingDisk(Disk):
    """A disk whose writes fail on demand: a file system in a file on a memory that is too small for it. Once
    that is full, the kernel answers writes of blocks with EIO, and the file system makes itself read-only."""

    def __init__(self):
        super().__init__()
        self.memory = self.folder
        self.image = Path(self.memory) / "image"
        with open(self.image, "wb") as file:
            file.truncate(4 * DISK_MIB << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", self.image], check=True)
        self.folder = tempfile.mkdtemp(prefix="caysys-disk-")
        self.attach()

    def attach(self):
        self.mount("-t", "ext4", "-o", "loop,errors=remount-ro", self.image, self.folder)

    def fail(self):
        """From now on, once what is written down reaches the disk."""
        subprocess.run(["sync", "-f", self.folder], check=True)
        self.folder, kept = self.memory, self.folder
        self.fill()
        self.folder = kept

    def mend(self):
        """As a reboot does: the fault is gone, and so is what had not reached the disk."""
        (Path(self.memory) / "filler").unlink()
        subprocess.run(["umount", self.folder], check=True)
        # A mount namespace that was copied meanwhile still has the mount, and a second one of the same image
        # would be the broken file system again.
        eventually(lambda: not self.loops(), "nobody has the broken file system any more", PATIENCE_S)
        self.attach()

    def loops(self):
        return subprocess.run(["losetup", "--associated", self.image], check=True, capture_output=True).stdout

    def close(self):
        super().close()
        self.folder = self.memory
        super().close()


@contextlib.contextmanager
def on_disk(kind=Disk):
    """A daemon whose data is on a small disk, with a session and a past."""
    disk = kind()
    try:
        cay = Cayd(*NO_HOST_BASE, "--data", f"{disk.folder}/data")
        cay.data = Path(disk.folder) / "data"
        with cay:
            import_small(cay, tree_actor=ACTOR)
            cay.create("w")
            act(cay, "w", "write workspace/one 0 100 one", "mkdir workspace/dir 750")
            cay.turn("w")
            act(cay, "w", "write workspace/two 0 100 two")
            yield disk, cay
            clear(cay)
    finally:
        disk.close()


def refused(reasons, function, *arguments, **fields):
    """The call fails with one of these reasons: never an internal error."""
    try:
        function(*arguments, **fields)
    except RpcError as error:
        assert error.reason in reasons, error
        return error
    return None


def all_is_as(before, cay):
    told = tell_difference(before, look(cay))
    assert not told, told


def try_everything(cay, reasons):
    """Verbs that write; what of them was refused."""
    calls = {
        "create": lambda: cay.create("n"),
        "turn": lambda: cay.turn("w"),
        "named": lambda: cay.snapshot("w", "named"),
        "rollback": lambda: cay.rollback("w", "turn-0001"),
        "discard": lambda: cay.rollback("w", "turn-0001", discard=True),
        "fork": lambda: cay.fork("w", newSessionId="f", count=2),
        "import": lambda: import_small(cay, "other"),
    }
    return {name: error for name, call in calls.items() if (error := refused(reasons, call))}


@case
def full(_):
    """on a full disk calls are refused for want of space, and nothing is lost"""
    with on_disk() as (disk, cay):
        before = look(cay)
        disk.fill()
        # Some need no space: what was done is done. Rolled back by hand, the rest is as it was.
        done = try_everything(cay, {"no_space", "resource_exhausted"})
        assert "import" in done, done
        assert cay.process.poll() is None, "the daemon is gone"
        assert cay.sh("w", "cat /workspace/one | head -c 3") == "one"
        disk.empty()
        for name in cay.ids():
            if name != "w":
                cay.destroy(name)
        names = [name for name, _, _ in log_of(cay, "w")]
        trees = {name: tree for name, tree in look(cay)["sessions"]["w"]["trees"].items()
                 if name == "turn-0001"}
        assert "turn-0001" in names and trees == before["sessions"]["w"]["trees"], names
        cay.restart()
        settled(cay)
        cay.turn("w")
        cay.create("n")
        dump(cay, "n")


@case
def failing_disk(_):
    """on a disk that fails and becomes read-only calls are refused, what was kept can be read, and is there afterwards"""
    with on_disk(FailingDisk) as (disk, cay):
        before = look(cay)["sessions"]["w"]["trees"]
        disk.fail()
        reasons = {"disk_failed"}
        until = time.monotonic() + PATIENCE_S
        refusals = {}
        while "create" not in refusals or "turn" not in refusals:
            assert time.monotonic() < until, refusals
            with contextlib.suppress(AssertionError, RpcError):
                cay.sh("w", "head -c 4000000 /dev/zero > /workspace/more; sync")
            refusals |= try_everything(cay, reasons)
            for name in cay.ids():
                with contextlib.suppress(RpcError):
                    if name != "w":
                        cay.destroy(name)
        assert cay.process.poll() is None, "the daemon is gone"
        assert cay.sh("w", "head -c 3 /workspace/one") == "one"
        cay.power_off()
        disk.mend()
        cay.start()
        assert look(cay)["sessions"]["w"]["trees"].items() >= before.items(), cay.log("w")
        assert cay.sh("w", "head -c 3 /workspace/one") == "one"
        cay.turn("w")
        settled(cay)


@case
def read_by_others(cay):
    """another program that reads the database does not take its log away"""
    cay.create("before")
    with contextlib.closing(sqlite3.connect(cay.data / "cay.db", timeout=PATIENCE_S)) as database:
        assert database.execute("SELECT count(*) FROM sessions").fetchone() == (1,)
    cay.create("after")
    cay.kill()
    cay.start()
    assert cay.ids() == ["after", "before"], cay.ids()
    clear(cay)


@contextlib.contextmanager
def failing(cay, event, condition="1"):
    """The database refuses some statements."""
    with contextlib.closing(sqlite3.connect(cay.data / "cay.db", timeout=PATIENCE_S,
                                            isolation_level=None)) as database:
        database.execute(f"CREATE TRIGGER cay_test BEFORE {event} WHEN {condition}"
                         " BEGIN SELECT RAISE(ABORT, 'refused by the test'); END")
        try:
            yield
        finally:
            database.execute("DROP TRIGGER cay_test")


@contextlib.contextmanager
def with_past(cay):
    """A session with a turn and something unsaved; and what there is to see of it."""
    clear(cay)
    cay.create("w")
    act(cay, "w", "write workspace/one 0 100 one")
    cay.turn("w")
    act(cay, "w", "write workspace/two 0 100 two")
    yield look(cay)
    clear(cay)


@case
def ended_later(cay):
    """a session whose end cannot be written down goes at the next try, its own one or a client's"""
    clear(cay)
    cay.create("warm")
    cay.destroy("warm")
    before = steady(cay.fd_count)
    for number in range(6):
        name = f"e{number}"
        cay.create(name, lifecycle={"timeout": "3600s"})
        with failing(cay, "UPDATE ON sessions", "NEW.state <> OLD.state"):
            try:
                cay.destroy(name)
                raise AssertionError("it was not written down")
            except RpcError:
                pass
            assert cay.get(name)["state"] == "SESSION_STATE_DESTROYING"
        cay.destroy(name)
        assert name not in cay.ids()
    eventually(lambda: cay.fd_count() <= before + 5, f"{before} descriptors: {cay.fds()}")
    cay.create("due", lifecycle={"timeout": "1s"})
    with failing(cay, "UPDATE ON sessions", "NEW.state <> OLD.state"):
        eventually(lambda: cay.get("due")["state"] == "SESSION_STATE_DESTROYING", "it is due")
        eventually(lambda: "session.destroy_failed" in cay.log_tail(), "and cannot go")
    eventually(lambda: "due" not in cay.ids(), "it goes by itself")
    settled(cay)


@case
def lost_by_the_store(cay):
    """a turn that the store does not have any more, as after a loss of power, is gone; all else stays"""
    with with_past(cay):
        lost = cay.turn("w")["name"]
        act(cay, "w", "write workspace/three 0 100 three")
        cay.turn("w")
        act(cay, "w", "write workspace/four 0 100 four")
        before = look(cay)["sessions"]["w"]["trees"]
        live = dump(cay, "w")
        cay.kill()
        with contextlib.closing(sqlite3.connect(cay.data / "cay.db")) as database:
            store_id, = database.execute("SELECT store_id FROM snapshots WHERE name = ?", (lost,)).fetchone()
        names = [path for path in (cay.data / "store/p").iterdir() if path.name.startswith(store_id)]
        assert len(names) == 1, names
        names[0].unlink()
        cay.start()
        assert "recovery.snapshot_lost" in cay.log_tail(), cay.log_tail()
        assert look(cay)["sessions"]["w"]["trees"] == {name: tree for name, tree in before.items() if name != lost}
        assert [(item["name"], item.get("parent", "")) for item in cay.log("w")] == [
            ("turn-0001", ""), ("turn-0003", "turn-0001")], cay.log("w")
        assert dump(cay, "w") == live, "the tree is another one"
        assert cay.turn("w")["name"] == "turn-0004"
        cay.restart()
        settled(cay)


STATEMENTS = [("INSERT ON snapshots", "1"), ("UPDATE ON snapshots", "NEW.is_pending = 0"),
              ("UPDATE ON sessions", "1"), ("UPDATE ON sessions", "NEW.pending <> ''")]


@case
def records_gone(_):
    """without its database a daemon does not take the sessions for rubbish: it waits until that is back"""
    with Cayd(*NO_HOST_BASE) as cay:
        import_small(cay, tree_actor=ACTOR)
        with with_past(cay):
            before = look(cay)
            cay.power_off()
            files = {path: path.read_bytes() for path in cay.data.glob("cay.db*")}
            database, log = cay.data / "cay.db", cay.data / "cay.db-wal"
            assert len(files[log]) > len(files[database]), "nothing is in its log alone"
            for take in (database.unlink, log.unlink, lambda: database.write_bytes(b"")):
                take()
                for _ in range(2):
                    does_not_start(cay, "bring it back")
                for path, content in files.items():
                    path.write_bytes(content)
            cay.start()
            all_is_as(before, cay)


def does_not_start(cay, why):
    try:
        cay.start()
    except AssertionError as error:
        assert why in str(error), error
    else:
        raise AssertionError("it started")


def refuses(cay, verb, statement):
    with with_past(cay) as before:
        with failing(cay, *statement):
            try:
                verb()
                return  # it needs no such statement
            except RpcError:
                pass
        all_is_as(before, cay)
        act(cay, "w", "write workspace/three 0 100 three")
        for snapshot, tree in before["sessions"]["w"]["trees"].items():
            assert look(cay)["sessions"]["w"]["trees"][snapshot] == tree, "a snapshot was written to"
        live = dump(cay, "w")
        cay.restart()
        assert dump(cay, "w") == live, "what was written after the refusal is gone"
        settled(cay)
        verb()
        cay.restart()
        settled(cay)
        for snapshot, tree in look(cay)["sessions"]["w"]["trees"].items():
            if snapshot.startswith("turn-0002") or snapshot == "named":
                assert tree == live, "the snapshot is not what was kept"


def add_refusals():
    verbs = {
        "a turn": lambda cay: cay.turn("w"),
        "a named snapshot": lambda cay: cay.snapshot("w", "named"),
        "a rollback": lambda cay: cay.rollback("w", "turn-0001"),
        "a discarding rollback": lambda cay: cay.rollback("w", "turn-0001", discard=True),
        "forks": lambda cay: cay.fork("w", newSessionId="f", count=2),
    }
    for name, verb in verbs.items():
        def record(cay, verb=verb):
            for statement in STATEMENTS:
                try:
                    refuses(cay, lambda: verb(cay), statement)
                except AssertionError as error:
                    raise AssertionError(f"{statement}: {error}") from None
        record.__name__ = f"refuses_{name.removeprefix('a ').replace(' ', '_')}"
        record.__doc__ = f"{name} whose records cannot be written is refused as a whole"
        case(record)


if __name__ == "__main__":
    add_refusals()
    run_with_cayd(*NO_HOST_BASE, "--reserve", "0", tree_actor=ACTOR)
