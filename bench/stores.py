# SPDX-License-Identifier: Apache-2.0
"""Stores, on a base of 10,000 files: through the API, next to the same system calls without a daemon and next to
the store's own tools. Sessions have no sandbox here; what that costs is in session.py.

btrfs is on a loop file of its own. zfs is measured where the kernel has it.
"""

import contextlib
import os
import shutil
import statistics
import subprocess
import time

import daemon
import floors
import harness
import session
import timing
from harness import Bench
from session import CALLS, FILES
from timing import SANDBOX, call

LOOP_BYTES = 6 << 30  # sparse
TURNS = 1000
TURNS_QUICK = 48
TREE_FILES = 100_000
TREE_CHANGED = 100
DIFF_CALLS = 10
APART = 6  # calls of one sample, where they are
PREPARE_MS = 200  # that an agent leaves between two calls, in which spares are made


class Store:
    """A daemon on a file system, and the floor beside its data."""

    def __init__(self, server, floor, directory):
        self.server = server
        self.floor = floor
        self.directory = directory


def fill(world, store, directory):
    subprocess.run(["cp", "-a", f"{world.get(session.bases)['files']}/.", directory], check=True)
    session.import_base(store, "files", world.get(session.bases)["files"])


@contextlib.contextmanager
def store_at(world, home, floor, *flags):
    if os.geteuid() != 0:
        raise harness.Skip("stores need root")
    with daemon.cayd_at(world, home, "--destroy-on-exit", *flags, cpus=timing.all_cpus()) as server:
        yield Store(server, floor, home)


@contextlib.contextmanager
def overlay(world):
    home = world.tmp / "store-overlay"
    floor = floors.Overlay(f"{world.tmp}/floor-overlay")
    with store_at(world, home, floor, "--store", "overlay") as store:
        os.mkdir(f"{floor.directory}/base")
        fill(world, store.server, f"{floor.directory}/base")
        yield store


@contextlib.contextmanager
def btrfs_mount(world):
    """A new file system; `cay pool create` makes its own in the same way."""
    image, at = world.tmp / "btrfs.img", world.tmp / "btrfs"
    with open(image, "wb") as file:
        file.truncate(LOOP_BYTES)
    at.mkdir()
    subprocess.run(["mkfs.btrfs", "-q", "-f", str(image)], check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(["mount", "-t", "btrfs", "-o", "loop", str(image), str(at)], check=False,
                          capture_output=True, text=True)
    if done.returncode:
        raise harness.Skip(f"btrfs cannot be mounted: {done.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=False)


@contextlib.contextmanager
def btrfs(world):
    at = world.get(btrfs_mount)
    floor = floors.Btrfs(f"{at}/floor")
    floor.make("base")
    with store_at(world, at / "home", floor, "--store", "btrfs") as store:
        fill(world, store.server, f"{floor.directory}/base")
        yield store


def zfs(_):
    if "zfs" not in open("/proc/filesystems", encoding="ascii").read():
        raise harness.Skip("this kernel has no zfs")
    raise harness.Skip("there is no zfs pool to measure on")


def script_times(where, script):
    """Milliseconds of the calls that the script labels x."""
    return lambda world: timing.calls(world, world.get(where).server, script(),
                                      timing.all_cpus())["x"].p50_us / 1000


def create_script():
    made = [next(session.names) for _ in range(CALLS)]
    script = [session.create(name, "files", lazy=True, label="x") for name in made]
    return script + [session.destroy(name) for name in made]


def turn_script():
    name = next(session.names)
    script = [session.create(name, "files", lazy=True)]
    for number in range(CALLS):
        script += change_and_turn(name, number, "x")
    return script + [session.destroy(name)]


def rollback_script(to, is_discard):
    """After each turn there is time to prepare: an agent thinks for longer. What was not saved is discarded, or there
    is none: to keep it is to take a turn more."""
    def script():
        name = next(session.names)
        script = [session.create(name, "files", lazy=True)]
        for number in range(1, APART + 1):
            script += change_and_turn(name, number)
            if is_discard:
                script.append(session.write(name, 0, "unsaved"))
            script += [timing.sleep(PREPARE_MS), call(
                "x" if number > 2 else "-", SANDBOX + "RollbackSession",
                {"sessionId": name, "snapshot": f"turn-{to(number):04}", "discard": is_discard})]
        return script + [session.destroy(name)]
    return script


def last_turn():
    return rollback_script(lambda number: number, True)()


def any_turn():
    return rollback_script(lambda number: number // 2 + 1, False)()


def fork_script():
    name = next(session.names)
    forks = [next(session.names) for _ in range(APART)]
    script = [session.create(name, "files", lazy=True), *change_and_turn(name, "1")]
    for fork in forks:
        script += [timing.sleep(PREPARE_MS), call("x", SANDBOX + "ForkSession", {
            "sessionId": name, "snapshot": "turn-0001", "newSessionId": fork, "lazyStart": True})]
    return script + [session.destroy(fork) for fork in [*forks, name]]


def floor_create(where):
    return lambda world: world.get(where).floor.time_create(CALLS)


def floor_turn(where):
    return lambda world: world.get(where).floor.time_turn(CALLS, FILES)


def tool_snapshot(world):
    """btrfs's own command, from its start to its end."""
    floor = world.get(btrfs).floor
    words = ["btrfs", "subvolume", "snapshot", f"{floor.directory}/base", f"{floor.directory}/tool-%"]
    try:
        return timing.command(world, CALLS, words, timing.all_cpus()).p50_us / 1000
    finally:
        for name in os.listdir(floor.directory):
            if name.startswith("tool-"):
                floor.remove(name)


def copy_tree(world):
    """What a store without clones has to do."""
    if world.effort.is_quick:
        raise harness.Skip("takes long; without --quick")
    source, target = f"{world.get(overlay).floor.directory}/base", f"{world.tmp}/copy"
    words = ["cp", "-a", source, target]
    try:
        return timing.command(world, 1, words, timing.all_cpus()).p50_us / 1000
    finally:
        shutil.rmtree(target)


def change_and_turn(name, text, label="-"):
    return [*[session.write(name, file, text) for file in range(FILES)], session.turn(name, label)]


@contextlib.contextmanager
def deep(world, where):
    """A session with a long history."""
    turns = TURNS_QUICK if world.effort.is_quick else TURNS
    name = f"deep-{where.__name__}"
    script = [session.create(name, "files", lazy=True)]
    for number in range(turns):
        script += [session.write(name, number % FILES, number), session.turn(name)]
    timing.calls(world, world.get(where).server, script, timing.all_cpus())
    yield name


def deep_overlay(world):
    return deep(world, overlay)


def deep_btrfs(world):
    return deep(world, btrfs)


def flat(where, history):
    """Turns of the long history, by turns with those of a new session: what disturbs one disturbs both."""
    def sample(world):
        new = next(session.names)
        script = [session.create(new, "files", lazy=True)]
        for number in range(CALLS):
            script += change_and_turn(world.get(history), f"{new}.{number}", "old")
            script += change_and_turn(new, f"{new}.{number}", "new")
        script.append(session.destroy(new))
        times = timing.calls(world, world.get(where).server, script, timing.all_cpus())
        world.things[(where, "new")] = times["new"].p50_us / 1000
        return times["old"].p50_us / 1000
    return sample


def beside(where):
    return lambda world: world.things[(where, "new")]


@contextlib.contextmanager
def large_tree(world):
    """A session on 100,000 files of which 100 have changed."""
    server = world.get(overlay).server
    directory = world.tmp / "base-large"
    session.make_base(world, directory, TREE_FILES)
    changed = [f"d{number * 10}/f{number % 100}" for number in range(TREE_CHANGED)]
    for path in changed:
        os.chown((directory / path).parent, 1000, 1000)
        os.chown(directory / path, 1000, 1000)
    session.import_base(server, "large", directory)
    shutil.rmtree(directory)
    script = [session.create("large", "large", lazy=True)]
    script += [call("-", SANDBOX + "ExecuteTool", {
        "sessionId": "large", "call": {"toolName": "write_file", "params": {
            "path": f"/{path}", "content": "changed\n"}}}, "bytes") for path in changed]
    script.append(session.turn("large"))
    timing.calls(world, server, script, timing.all_cpus())
    yield server


def diff(world):
    if world.effort.is_quick:
        raise harness.Skip("takes a tree of 100,000 files; without --quick")
    server = world.get(large_tree)
    return statistics.median(time_diff(server) for _ in range(DIFF_CALLS))


def time_diff(server):
    """From the request to the end of the stream, with a connection of its own."""
    message = {"sessionId": "large", "fromSnapshot": "base", "toSnapshot": "turn-0001"}
    since = time.perf_counter_ns()
    answer = session.stream(server, "/cay.v1.SandboxService/DiffSnapshots", message)
    took_ms = (time.perf_counter_ns() - since) / 1e6
    if answer.count(b'"path"') != TREE_CHANGED:
        raise ValueError(f"{answer.count(b'path')} entries instead of {TREE_CHANGED}")
    return took_ms


def within(name, where, script, budget_ms, needs=()):
    """Few rounds: their calls are apart."""
    return Bench(name, "ms", script_times(where, script), session.scaled(session.free, budget_ms),
                 "budget", at_most=1, rounds=3, needs=needs)


BENCHES = [
    Bench("overlay create", "ms", script_times(overlay, create_script), floor_create(overlay), "floor"),
    Bench("overlay create", "ms", script_times(overlay, create_script), copy_tree, "cp -a", rounds=3),
    Bench("overlay turn, 8 files", "ms", script_times(overlay, turn_script), floor_turn(overlay), "floor"),
    within("overlay rollback, last turn", overlay, last_turn, 2),
    within("overlay rollback, any turn", overlay, any_turn, 10),
    within("overlay fork", overlay, fork_script, 2),
    Bench("overlay turn, old and new", "ms", flat(overlay, deep_overlay), beside(overlay), "new", at_most=1.3, rounds=5),
    Bench("overlay diff 100 of 100k", "ms", diff, 5, "budget", at_most=1),
    Bench("btrfs create", "ms", script_times(btrfs, create_script), floor_create(btrfs), "floor", at_most=2,
          needs=("mkfs.btrfs",)),
    Bench("btrfs create", "ms", script_times(btrfs, create_script), tool_snapshot, "btrfs",
          needs=("btrfs", "mkfs.btrfs")),
    Bench("btrfs turn, 8 files", "ms", script_times(btrfs, turn_script), floor_turn(btrfs), "floor", at_most=1.3,
          needs=("mkfs.btrfs",)),
    within("btrfs rollback, last turn", btrfs, last_turn, 2, needs=("mkfs.btrfs",)),
    within("btrfs rollback, any turn", btrfs, any_turn, 10, needs=("mkfs.btrfs",)),
    within("btrfs fork", btrfs, fork_script, 2, needs=("mkfs.btrfs",)),
    Bench("btrfs turn, old and new", "ms", flat(btrfs, deep_btrfs), beside(btrfs), "new", at_most=1.3, rounds=3,
          needs=("mkfs.btrfs",)),
    Bench("zfs turn, 8 files", "ms", zfs, 0, "floor"),
]
