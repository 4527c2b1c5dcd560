#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Loss of power, in an emulated machine with version 2 control groups. What was acknowledged as durable is there,
whole; everything else is there or not, and the daemon serves.

    power.py CAYD CAY CAY_INIT KERNEL_TOOL
"""

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from daemon import IS_FULL, Skip, case, run  # noqa: E402
from machine import Machine, make_image, make_initrd, make_root  # noqa: E402
from power_disk import PowerDisk  # noqa: E402
from small_base import busybox, make_root as make_base  # noqa: E402

CAYD, CAY, CAY_INIT, KERNEL_TOOL = sys.argv[1:5]
SEED = int(os.environ.get("CAY_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
CUTS = 8 if IS_FULL else 2
DISK_MIB = 160
ROOT_MIB = 160
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "btrfs": ["mkfs.btrfs", "-q", "-f"]}
TREE = "cd /workspace && find . -type f | sort | xargs sha256sum"


def kernel():
    if not shutil.which("qemu-system-x86_64"):
        raise Skip("needs qemu-system-x86_64 (package qemu-system-x86)")
    folder = Path("guest-kernel").absolute()
    done = subprocess.run([KERNEL_TOOL, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skip(done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "no kernel to emulate")
    return folder


@contextlib.contextmanager
def machine_on(filesystem, chance):
    """A machine with an empty disk; what it runs is the build under test."""
    found = kernel()
    with tempfile.TemporaryDirectory(prefix="caysys-power-") as name:
        folder = Path(name)
        base = folder / "base"
        base.mkdir()
        make_base(base, {})
        make_root(folder / "root", busybox(),
                  {"src/bin/cayd": CAYD, "src/bin/cay": CAY, "src/init/cay-init": CAY_INIT}, base)
        make_image(folder / "root", folder / "root.img", ROOT_MIB)
        shutil.rmtree(folder / "root")
        make_initrd(found, busybox(), filesystem, folder / "initrd")
        with open(folder / "disk", "wb") as disk:
            disk.truncate(DISK_MIB << 20)
        subprocess.run([*MAKE[filesystem], str(folder / "disk")], check=True)
        machine = Machine(folder, found, PowerDisk(folder / "disk", folder / "nbd", chance), filesystem)
        try:
            yield machine
        finally:
            machine.cut()


def boot(machine):
    """Up, with a daemon that serves."""
    machine.start()
    machine.sh("mkdir -p /data/cay && chmod 700 /data/cay")
    machine.sh("cayd --data /data/cay --run /run/cay --listen 127.0.0.1:0 --default-base small"
               " --no-access-log </dev/null >/tmp/said 2>/tmp/log & "
               "until grep -q ready /tmp/said; do kill -0 $! || { cat /tmp/log; break; }; usleep 50000; done; "
               "grep -q ready /tmp/said")


class Story:
    """What was acknowledged, by the name of the turn; and what the machine may have beside that."""

    def __init__(self, machine, chance):
        self.machine = machine
        self.chance = chance
        self.durable = {}
        self.other = {}
        self.steps = 0

    def begin(self):
        self.machine.sh("cay base import small /base")
        self.machine.sh("cay create --name w --base small")

    def write(self):
        self.steps += 1
        name = f"d{self.steps % 3}/f{self.steps % 7}"
        size = self.chance.choice((10, 5_000, 200_000))
        self.machine.sh(f"cay exec w -- sh -c 'mkdir -p /workspace/d{self.steps % 3} && yes {self.steps}.{size} |"
                        f" head -c {size} > /workspace/{name} && rm -f /workspace/d0/f{self.chance.randrange(7)}'")

    def tree(self, session="w"):
        return self.machine.sh(f"cay exec {session} -- sh -c '{TREE}'")

    def turn(self, is_durable):
        tree = self.tree()
        assert tree, "nothing was written"
        name = self.machine.sh("cay turn w" + " --durable" * is_durable).strip()
        assert re.fullmatch(r"turn-\d{4}", name), name
        assert name not in self.durable and name not in self.other, f"{name} was given twice"
        (self.durable if is_durable else self.other)[name] = tree

    def live(self, turns):
        """Some turns, the last of which is durable; then something that nobody waits for."""
        for number in range(turns):
            self.write()
            self.turn(number == turns - 1 or self.chance.random() < 0.3)
        self.write()
        self.turn(False)
        self.machine.send(self.chance.choice((
            "cay turn w", "cay exec w -- sh -c 'yes x | head -c 3000000 > /workspace/big'; cay turn w",
            "cay rollback w turn-0001", "cay fork w --name f; cay turn w --durable", "cay create --name n; cay rm n",
            "sync", "true")))

    def check(self):
        """After the power came back."""
        log = json.loads(self.machine.sh("cay log w --json"))
        names = [snapshot["name"] for snapshot in log["snapshots"]]
        lost = set(self.durable) - set(names)
        assert not lost, f"{sorted(lost)} were acknowledged as durable and are gone; there are {names}"
        for snapshot in log["snapshots"]:
            self.check_snapshot(snapshot)
        numbers = [int(name[5:]) for name in names if re.fullmatch(r"turn-\d{4}", name)]
        assert numbers == sorted(set(numbers)), names
        # What is not there is forgotten: its number is free again, since nobody can have kept it.
        self.other = {name: tree for name, tree in self.other.items() if name in names}
        self.machine.sh("cay exec w -- sh -c 'echo on > /workspace/on'")
        for session in json.loads(self.machine.sh("cay ls --json"))["sessions"]:
            if session["id"] != "w":
                self.machine.sh(f"cay rm {session['id']}")

    def check_snapshot(self, snapshot):
        name = snapshot["name"]
        self.machine.sh(f"cay fork w {name} --name check")
        tree = self.tree("check")
        self.machine.sh("cay rm check")
        if name in self.durable:
            assert snapshot.get("durable"), f"{name} is not marked as durable"
            assert tree == self.durable[name], f"{name} is not what was kept:\n{tree}\n{self.durable[name]}"


def lose_power(filesystem):
    chance = random.Random(SEED)
    print(f"# CAY_TEST_SEED={SEED}")
    with machine_on(filesystem, chance) as machine:
        story = Story(machine, chance)
        boot(machine)
        story.begin()
        for _ in range(CUTS):
            story.live(chance.randrange(1, 4))
            with contextlib.suppress(AssertionError):
                machine.answer(chance.uniform(0, 3))
            written, arrived = machine.cut()
            print(f"# cut with {written} pieces not flushed, of which {arrived} arrived; "
                  f"durable {sorted(story.durable)}")
            boot(machine)
            story.check()


@case
def ext4():
    """turns that are durable survive a loss of power on ext4, whole, and the daemon serves"""
    lose_power("ext4")


@case
def btrfs():
    """and on btrfs"""
    if not IS_FULL:
        raise Skip("only with --full: it is slow to emulate")
    lose_power("btrfs")


if __name__ == "__main__":
    run()
