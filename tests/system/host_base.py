#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The base `host`, made of a small machine that is a directory: in the background, anew when its packages change, and
in pools on other file systems, where it is a copy."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from daemon import BASE, MIB, PATIENCE_S, SANDBOX, Cayd, RpcError, Skip, Stream, case, eventually, fails, run
from small_base import make_root

POOL = "cay.v1.PoolService/"
FILES = 5000  # on a disk without a cache each takes a thousandth of a second, or several
AT_ONCE_S = 6  # a second, on a machine that has more to do


@contextlib.contextmanager
def machine(**extra):
    """A root file system with a list of packages, which the base is made of; and a daemon that believes so."""
    with tempfile.TemporaryDirectory(prefix="caysys-machine-") as folder:
        root = Path(folder) / "root"
        root.mkdir(mode=0o755)
        make_root(root, {})
        (root / "var/lib/dpkg").mkdir(parents=True)
        install(root, "first")
        for name, size in extra.items():
            (root / "usr/lib" / name).write_bytes(os.urandom(size))
        yield root


@contextlib.contextmanager
def daemon(root, *flags):
    with Cayd(*flags, environment={"CAY_TEST_HOST_ROOT": str(root)}) as cay:
        if not cay.has_host_base:
            raise Skip("the folder for tests is on another file system than /usr")
        yield cay


def install(root, name):
    """As a package manager does: a program, then the list."""
    program = root / "usr/bin" / name
    program.write_text(f"#!/bin/sh\necho {name}\n")
    program.chmod(0o755)
    status = root / "var/lib/dpkg/status"
    old = status.read_text() if status.exists() else ""
    (status.parent / "new").write_text(old + f"Package: {name}\n")
    (status.parent / "new").rename(status)


def host_bases(cay):
    """Their names; the one that is used comes with its alias."""
    found = cay.call(BASE + "ListBases", {"pageSize": 1000}).get("bases", [])
    return {base["name"]: base.get("aliases", []) for base in found if base["name"].startswith("host-")}


def current(cay):
    named = [name for name, aliases in host_bases(cay).items() if "host" in aliases]
    return named[0] if named else None


def problems(cay):
    return {problem["reason"]: problem["message"]
            for problem in cay.call(SANDBOX + "HealthCheck").get("problems", [])}


@contextlib.contextmanager
def disk(size, *options):
    """A directory on a file system of its own."""
    with tempfile.TemporaryDirectory(prefix="caysys-disk-") as top:
        image, point = Path(top) / "image", Path(top) / "disk"
        point.mkdir()
        image.touch()
        os.truncate(image, size)
        try:
            subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True, capture_output=True)
            subprocess.run(["mount", "-t", "ext4", "-o", ",".join(("loop", *options)), image, point],
                           check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Skip(f"no disk of its own: {getattr(error, 'stderr', error)}") from error
        try:
            (point / "pool").mkdir(mode=0o700)
            yield point / "pool"
        finally:
            eventually(lambda: subprocess.run(["umount", point], check=False, capture_output=True).returncode == 0,
                       "the file system is let go")


def create_pool(cay, **fields):
    return cay.stream(POOL + "CreatePool", fields)[-1]["pool"]


@case
def linked(_):
    """where files can be linked the base takes no space, and creates wait for it"""
    with machine() as root, daemon(root) as cay:
        cay.create("one", base="host")
        assert cay.sh("one", "first") == "first\n"
        assert (root / "usr/bin/first").stat().st_nlink == 2, "it was copied"
        assert not problems(cay) and len(host_bases(cay)) == 1, problems(cay)


@case
def masked(_):
    """whatever umask the daemon was started with, users of a sandbox can read what is in it"""
    with machine() as root:
        before = os.umask(0o077)
        try:
            with daemon(root) as cay:
                cay.create("one", base="host")
                assert cay.sh("one", "first; ls / /usr/bin >/dev/null && umask") == "first\n0022\n"
                assert "Umask:\t0022\n" in Path(f"/proc/{cay.process.pid}/status").read_text()
        finally:
            os.umask(before)


@case
def made_anew(_):
    """when packages change, sessions get the old base until the new one is there; it goes with the last that stands on it"""
    with machine() as root, daemon(root) as cay:
        cay.create("old", base="host")
        cay.turn("old")
        before = current(cay)
        install(root, "second")
        cay.create("between", base="host")
        eventually(lambda: current(cay) != before, "there is a new one", PATIENCE_S)
        cay.create("new", base="host")
        assert cay.sh("new", "second") == "second\n"
        assert cay.sh("old", "test ! -e /usr/bin/second && first") == "first\n"
        cay.fork("old", newSessionId="fork", snapshot="turn-0001")
        for session_id in ("old", "between", "fork"):
            assert before in host_bases(cay), f"it is gone, and {session_id} stands on it"
            assert cay.sh(session_id, "first") == "first\n"
            cay.destroy(session_id)
        eventually(lambda: list(host_bases(cay)) == [current(cay)], "the old one is gone")
        assert cay.sh("new", "second") == "second\n"
        layers = len(cay.store()["l"])
        for number in range(3):
            before = current(cay)
            install(root, f"more-{number}")
            cay.create("looks", base="host")
            cay.destroy("looks")
            eventually(lambda was=before: current(cay) != was, "there is a new one", PATIENCE_S)
        cay.destroy("new")
        eventually(lambda: list(host_bases(cay)) == [current(cay)], "only one is left")
        eventually(lambda: len(cay.store()["l"]) <= layers, "and of the others nothing")


@case
def after_a_restart(_):
    """what changed while the daemon was away is noticed, and what an earlier life left goes"""
    with machine() as root, daemon(root) as cay:
        cay.create("old", base="host")
        before = current(cay)
        cay.kill()
        install(root, "second")
        cay.start()
        eventually(lambda: current(cay) != before, "there is a new one", PATIENCE_S)
        assert set(host_bases(cay)) == {before, current(cay)}
        cay.call(BASE + "UpdateBase", {"name": before, "addAliases": ["mine"]})
        cay.destroy("old")
        cay.restart()
        assert before in host_bases(cay), "somebody has given it a name"
        cay.call(BASE + "RemoveBase", {"name": "mine"})
        cay.restart()
        assert list(host_bases(cay)) == [current(cay)], host_bases(cay)


def fill(root):
    """More than a slow disk takes in some seconds."""
    folder = root / "usr/share/many"
    folder.mkdir()
    for number in range(FILES):
        (folder / str(number)).write_text(str(number))
    os.link(folder / "0", folder / "same")


@case
def copied(_):
    """in a pool on another disk the base is a copy: said before, seen while it is made, and the same in the end"""
    with machine(library=20 * MIB) as root, disk(400 * MIB) as place, daemon(root) as cay:
        fill(root)
        pool = create_pool(cay, kind="POOL_KIND_DIRECTORY", path=str(place))
        assert "'host'" in pool["message"] and "MiB are copied" in pool["message"], pool
        assert "base_not_ready" in problems(cay), problems(cay)
        cay.create("one", base="host")
        script = "first; cd /usr/share/many; ls | wc -l; test 0 -ef same && sha256sum /usr/lib/library"
        said = cay.sh("one", script).split()
        sums = subprocess.run(["sha256sum", root / "usr/lib/library"], stdout=subprocess.PIPE, text=True, check=True)
        assert said[:3] == ["first", str(FILES + 1), sums.stdout.split()[0]], said
        assert (root / "usr/bin/first").stat().st_nlink == 1
        assert not problems(cay), problems(cay)
        cay.destroy("one")


@contextlib.contextmanager
def frozen(place):
    """Nothing is written to the disk: whatever takes long takes longer than anybody waits."""
    subprocess.run(["fsfreeze", "--freeze", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", place], check=True)


@case
def while_it_moves(_):
    """while a pool is made nothing begins in the place that is left; nor is one made while a base comes in"""
    with machine() as root, disk(200 * MIB) as place, daemon(root, "--default-base", "small") as cay:
        wanted = {"kind": "POOL_KIND_DIRECTORY", "path": str(place)}
        options = {"name": "small", "format": "BASE_FORMAT_DIRECTORY", "hostPath": str(root)}
        layers = len(cay.store()["l"])
        with Stream(cay, BASE + "ImportBase") as importing:
            importing.send({"options": {"name": "half"}})
            importing.send({"data": ""})
            eventually(lambda: len(cay.store()["l"]) > layers, "it comes in")
            fails("failed_precondition", create_pool, cay, **wanted)
        eventually(lambda: len(cay.store()["l"]) == layers, "it is given up")
        with frozen(place), cay.open(POOL + "CreatePool", wanted) as creating:
            assert creating.next()["step"]
            fails("unavailable", cay.create, "early", base="host")
            fails("unavailable", cay.send_all, BASE + "ImportBase", [{"options": options}])
            fails("unavailable", cay.stream, BASE + "BuildBase", {"name": "built", "recipe": "debian"})
            fails("unavailable", create_pool, cay, **wanted)
        eventually(lambda: cay.call(POOL + "GetPool")["pool"]["path"] == str(place), "it is made")
        cay.send_all(BASE + "ImportBase", [{"options": options}])
        cay.create("there", base="small")
        assert len(list((place / "store/s").iterdir())) == 1, "it is somewhere else"
        cay.destroy("there")


@case
def slowly(_):
    """while the base is copied creates are told how far it is, others work, and whoever leaves is not waited for"""
    with machine(library=MIB) as root, disk(400 * MIB, "sync") as place, daemon(root) as cay:
        fill(root)
        create_pool(cay, kind="POOL_KIND_DIRECTORY", path=str(place))
        with cay.post(SANDBOX + "CreateSession", {"sessionId": "left", "base": "host"}):
            def build():
                with contextlib.suppress(RpcError):
                    return cay.call(BASE + "GetBuild", {"buildId": "host"})["build"]
            eventually(lambda: (build() or {}).get("progress", {}).get("fraction"), "it is seen", PATIENCE_S)
        with frozen(place):
            assert build()["state"] == "BUILD_STATE_RUNNING" and build()["name"] == "host", build()
            error = fails("unavailable", cay.create, "late", base="host", reason="base_not_ready")
            assert "MiB are copied" in error.message, error.message
            assert "MiB are copied" in problems(cay)["base_not_ready"], problems(cay)
        assert not cay.ids()


def drafts(place):
    return len(list((place / "store/l").glob("*")))


@case
def stopped(_):
    """a daemon that ends, or is killed, while the base is copied: at once, and the next one removes the half and begins anew"""
    with machine(library=MIB) as root, disk(400 * MIB, "sync") as place, daemon(root) as cay:
        fill(root)
        create_pool(cay, kind="POOL_KIND_DIRECTORY", path=str(place))
        outcome = []

        def wait():
            try:
                outcome.append(cay.create("waits", base="host"))
            except Exception as error:  # noqa: BLE001 - whatever a client sees
                outcome.append(error)
        for end in (cay.stop, cay.kill, cay.stop):
            waiting = threading.Thread(target=wait)
            waiting.start()
            eventually(lambda: "base.copying" in cay.log_path.read_text(), "it is being copied", PATIENCE_S)
            eventually(lambda: any((place / "store/l").glob("*/d/usr/share/many/1*")), "files are there", PATIENCE_S)
            began = time.monotonic()
            end()
            took = time.monotonic() - began
            waiting.join()
            assert took < AT_ONCE_S, f"it took {took:.1f} s"
            assert isinstance(outcome[-1], Exception), outcome
            cay.log_path.write_text("")
            cay.start()
        assert not host_bases(cay), host_bases(cay)
        cay.stop()
        cay.command += ["--default-base", "small"]  # so that nobody begins anew
        cay.start()
        eventually(lambda: not any((place / "store/l").glob("*/d/usr/share/many")), "the half is gone", PATIENCE_S)


def files_of(place):
    """How many there are; at least one while they are being removed under our feet."""
    count = 0
    try:
        for _ in (place / "store").rglob("usr/share/many/*"):
            count += 1
    except FileNotFoundError:
        count += 1
    return count


@case
def rubbish_stays(_):
    """the end of the daemon does not wait until all is removed that was destroyed: the next one goes on with that"""
    with machine() as root, disk(400 * MIB) as place, daemon(root, "--default-base", "small") as cay:
        create_pool(cay, kind="POOL_KIND_DIRECTORY", path=str(place))
        fill(root)
        for folder in (root, root / "usr/share/many"):
            folder.chmod(0o755)
        options = {"name": "many", "format": "BASE_FORMAT_DIRECTORY", "hostPath": str(root)}
        cay.send_all(BASE + "ImportBase", [{"options": options}])
        subprocess.run(["mount", "-o", "remount,sync", place.parent], check=True)
        cay.call(BASE + "RemoveBase", {"name": "many"})
        took_to_stop(cay)
        assert files_of(place) > FILES / 4, "it was waited for"
        subprocess.run(["mount", "-o", "remount,async", place.parent], check=True)
        cay.start()
        eventually(lambda: not files_of(place), "they are removed", PATIENCE_S)


@case
def too_large(_):
    """what would fill the pool is refused with both sizes, before anything is copied; when there is room it is made"""
    if not os.path.exists("/dev/loop-control"):
        raise Skip("no loop devices here")
    if not shutil.which("mkfs.btrfs", path="/usr/sbin:/sbin") or "btrfs" not in Path("/proc/filesystems").read_text():
        raise Skip("no btrfs here")
    with machine(library=400 * MIB) as root, daemon(root, "--health-interval", "200ms") as cay:
        pool = create_pool(cay, sizeBytes=str(300 * MIB), filesystem="btrfs")
        message = pool["message"]
        assert "MiB, and the pool has room for" in message and "cay pool grow" in message, pool
        began = time.monotonic()
        error = fails("resource_exhausted", cay.create, "one", base="host", reason="no_space")
        assert time.monotonic() - began < PATIENCE_S / 4
        assert error.message.endswith(message.split("; ")[-1]), (error.message, message)
        assert problems(cay)["base_failed"] == message, problems(cay)
        used = int(cay.call(POOL + "GetPool")["pool"]["usedBytes"])
        assert used < 50 * MIB, f"{used} bytes were copied all the same"
        cay.call(POOL + "GrowPool", {"sizeBytes": str(900 * MIB)})
        cay.create("one", base="host")
        assert cay.sh("one", "first; stat -c %s /usr/lib/library") == f"first\n{400 * MIB}\n"
        assert not problems(cay), problems(cay)
        cay.destroy("one")


def trees(place):
    return list((place / "store/t").glob("*/usr/share/many"))


@case
def whole_copies(_):
    """local-disk copies the base for each session: that ends at once when nobody waits for it, or the session is destroyed"""
    with machine(library=MIB) as root, disk(400 * MIB, "sync") as place, \
            daemon(root, "--store", "local-disk", "--default-base", "many") as cay:
        create_pool(cay, kind="POOL_KIND_DIRECTORY", path=str(place))
        fill(root)
        for folder in (root, root / "usr/share/many"):
            folder.chmod(0o755)
        subprocess.run(["mount", "-o", "remount,async", place.parent], check=True)
        options = {"name": "many", "format": "BASE_FORMAT_DIRECTORY", "hostPath": str(root)}
        cay.send_all(BASE + "ImportBase", [{"options": options}])
        subprocess.run(["mount", "-o", "remount,sync", place.parent], check=True)
        with cay.post(SANDBOX + "CreateSession", {"sessionId": "left", "base": "many"}):
            eventually(lambda: len(trees(place)) == 2, "it is being copied", PATIENCE_S)
        eventually(lambda: not cay.ids(), "it is given up", AT_ONCE_S)
        with cay.post(SANDBOX + "CreateSession", {"sessionId": "ended", "base": "many"}) as creating:
            eventually(lambda: len(trees(place)) >= 2 and cay.ids(), "it is being copied", PATIENCE_S)
            began = time.monotonic()
            cay.destroy("ended")
            assert time.monotonic() - began < AT_ONCE_S, "the copy was waited for"
            assert creating.answer().status != 200
        eventually(lambda: len(trees(place)) == 1, "the halves are gone", PATIENCE_S)
        with cay.post(SANDBOX + "CreateSession", {"sessionId": "late", "base": "many"}):
            eventually(lambda: len(trees(place)) == 2, "it is being copied", PATIENCE_S)
            took_to_stop(cay)
        cay.start()
        assert not cay.ids(), cay.ids()


def took_to_stop(cay):
    began = time.monotonic()
    assert cay.stop() == 0
    took = time.monotonic() - began
    assert took < AT_ONCE_S, f"it took {took:.1f} s"


@case
def whole_copies_fit(_):
    """a whole copy that the disk has no room for is refused with both sizes, and nothing of it is left"""
    with machine(library=120 * MIB) as root, disk(200 * MIB) as place, \
            daemon(root, "--store", "local-disk", "--default-base", "big", "--pool-critical", "1") as cay:
        create_pool(cay, kind="POOL_KIND_DIRECTORY", path=str(place))
        options = {"name": "big", "format": "BASE_FORMAT_DIRECTORY", "hostPath": str(root)}
        cay.send_all(BASE + "ImportBase", [{"options": options}])
        before = os.statvfs(place).f_bavail
        error = fails("resource_exhausted", cay.create, "one", base="big", reason="no_space")
        assert "copies the whole base" in error.message and error.message.count("MiB") == 2, error.message
        assert not cay.ids()
        eventually(lambda: os.statvfs(place).f_bavail >= before - 100, "its room is free")


@case
def imports_end(_):
    """an import, or a build, that is under way does not hold up the end of the daemon, and leaves nothing"""
    with machine() as root, daemon(root, "--default-base", "small") as cay:
        options = {"name": "small", "format": "BASE_FORMAT_DIRECTORY", "hostPath": str(root)}
        cay.send_all(BASE + "ImportBase", [{"options": options}])
        with Stream(cay, BASE + "ImportBase") as importing:
            importing.send({"options": {"name": "half"}})
            importing.send({"data": ""})
            steps = [{"kind": "BUILD_STEP_KIND_RUN", "args": ["echo begun; sleep 1000"]}]
            request = {"name": "built", "fromBase": "small", "steps": steps}
            cay.call(BASE + "StartBuild", {"build": request, "buildId": "b"})
            with cay.open(BASE + "BuildBase", request | {"name": "built-too"}) as building:
                while "begun" not in str(building.next().get("log", "")):
                    pass
                took_to_stop(cay)
        cay.start()
        names = [base["name"] for base in cay.call(BASE + "ListBases")["bases"]]
        assert names == ["small"] and not cay.ids(), (names, cay.ids())


if __name__ == "__main__":
    run(None)
