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
import sys

sys.dont_write_bytecode = True
from daemon import IS_FULL, Skip, case, run  # noqa: E402
from machine import machine_on  # noqa: E402

SEED = int(os.environ.get("CAY_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
CUTS = 8 if IS_FULL else 2
TREE = "cd /workspace && find . -type f | sort | xargs sha256sum"


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
        machine.boot()
        story.begin()
        for _ in range(CUTS):
            story.live(chance.randrange(1, 4))
            with contextlib.suppress(AssertionError):
                machine.answer(chance.uniform(0, 3))
            written, arrived = machine.cut()
            print(f"# cut with {written} pieces not flushed, of which {arrived} arrived; "
                  f"durable {sorted(story.durable)}")
            machine.boot()
            story.check()


@case
def ext4():
    """turns that are durable survive a loss of power on ext4, whole, and the daemon serves"""
    lose_power("ext4")


@case
def btrfs():
    """turns that are durable survive a loss of power on btrfs, whole, and the daemon serves"""
    if not IS_FULL:
        raise Skip("only with --full: it is slow to emulate")
    lose_power("btrfs")


if __name__ == "__main__":
    run()
