#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bases that `cay base build` makes of a Debian, once for all test programs.

    debian_base.py CAYD RECIPE DATA   makes DATA, the data directory of a cayd that has the base; status
                                      77 and the reason where none can be built
    debian_base.py CAYD               the test: both recipes, in TAP

What was built stays in .dev/bases of the checkout until the sources it depends on change. DATA has copies
of the daemon's records and hard links to the trees of its bases, into whose files nothing ever writes; copies
of them, too, on another file system.
"""

import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / ".dev/bases"
SKIPPED = 77
RECIPES = ("debian", "code-interpreter")
# What decides how a data directory with a base looks.
SOURCES = ("src/host/db", "src/host/store", "src/host/base/base_record.c", "src/host/build/debian.c",
           "src/host/build/interpreter.c", "src/host/build/interpreter.h", "src/host/build/verbs_build.c",
           "share/code-interpreter")
# What debootstrap says where there is no mirror; everything else that goes wrong is a bug.
NO_MIRROR = re.compile(r"Failed getting release|couldn't download|no package source of this machine", re.I)
BUILD_S = 900


class Missing(Exception):
    """There is no such base, and why."""


def digest():
    state = hashlib.sha256()
    for name in SOURCES:
        path = ROOT / name
        for file in [path] if path.is_file() else sorted(path.rglob("*.[chp]*")):
            state.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return state.hexdigest()[:16]


def need():
    if os.geteuid() != 0:
        raise Missing("needs root")
    if not shutil.which("debootstrap"):
        raise Missing("needs debootstrap")


def build(cayd, recipe, data):
    """A daemon of its own builds it and ends."""
    with tempfile.TemporaryDirectory(prefix="caybase-") as run:
        daemon = subprocess.Popen([cayd, "--data", data, "--run", run, "--listen", "127.0.0.1:0", "--default-base", recipe,
                                   "--log-level", "error"], stdout=subprocess.PIPE, text=True)
        try:
            assert " ready" in daemon.stdout.readline(), "the daemon did not start"
            cay = [str(Path(cayd).parent / "cay"), "--url", f"unix:{run}/cayd.sock"]
            built = subprocess.run([*cay, "base", "build", recipe], capture_output=True, text=True, timeout=BUILD_S)
            if built.returncode:
                said = (built.stderr + built.stdout)[-2000:]
                if NO_MIRROR.search(said):
                    raise Missing(f"no mirror: {said.strip().splitlines()[-1]}")
                raise RuntimeError(said)
        finally:
            daemon.send_signal(signal.SIGTERM)
            status = daemon.wait(60)
            daemon.stdout.close()
        assert status == 0, f"the daemon ended with {status}"


def data_of(cayd, recipe):
    """The data directory with the base; one process builds, the others wait."""
    need()
    KEPT.mkdir(parents=True, exist_ok=True, mode=0o755)
    key = digest()
    kept, failed = KEPT / f"{recipe}-{key}", KEPT / f"{recipe}.failed"
    with open(KEPT / f"{recipe}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if kept.is_dir():
            return kept
        run = os.environ.get("CAY_TEST_RUN", "")
        if failed.is_file() and run:
            of_run, _, reason = failed.read_text().partition("\n")
            if of_run == f"{run} {key}":
                raise Missing(reason)
        for old in KEPT.glob(f"{recipe}-*"):
            if re.fullmatch(r"[0-9a-f]{16}|new", old.name[len(recipe) + 1:]):
                shutil.rmtree(old)
        new = KEPT / f"{recipe}-new"
        new.mkdir(mode=0o700)
        try:
            build(cayd, recipe, new)
        except Exception as error:
            shutil.rmtree(new)
            # One try per run is enough.
            reason = str(error) if isinstance(error, Missing) else f"recipe {recipe} failed; clients-debian says how"
            failed.write_text(f"{run} {key}\n{reason}")
            raise
        new.rename(kept)
        return kept


def link(kept, data):
    trees, links = kept / "store/l", Path(data) / "store/l"
    shutil.copytree(kept, data, symlinks=True, ignore=lambda path, names: {"l"} & set(names) if Path(path) == trees.parent else set())
    if subprocess.run(["cp", "-alT", trees, links], check=False, capture_output=True).returncode:
        subprocess.run(["cp", "-aT", "--remove-destination", trees, links], check=True)


def main():
    cayd, *wanted = sys.argv[1:]
    if wanted:
        recipe, data = wanted
        try:
            link(data_of(cayd, recipe), data)
        except Missing as reason:
            print(reason)
            return SKIPPED
        return 0
    if os.environ.get("TEST_LIST"):
        return 0  # others wait for what it builds: it has no cases to choose from
    print(f"1..{len(RECIPES)}")
    is_good = True
    for number, name in enumerate(RECIPES, 1):
        started = time.monotonic()
        case = f"{number} - the recipe {name} builds a base"
        try:
            data_of(cayd, name)
            print("ok", case)
        except Missing as reason:
            print("ok", case, "# SKIP", reason)
        except Exception as error:
            is_good = False
            print("not ok", case)
            print(re.sub("^", "# ", str(error), flags=re.M))
        print(f"# took {time.monotonic() - started:.1f} s", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
