# SPDX-License-Identifier: Apache-2.0
"""How a benchmark is described, run and judged.

A benchmark takes turns: one sample of ours, one of the other's, as many rounds as the effort says.
What disturbs the machine for a while so disturbs both, and the medians stay comparable.
"""

import contextlib
import os
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Effort:
    """How hard to measure."""

    rounds: int
    seconds: int  # that one sample of load lasts; wrk and h2load know whole ones only
    is_quick: bool


# Many short rounds rather than few long ones: they are disturbed alike.
QUICK = Effort(rounds=3, seconds=1, is_quick=True)
FULL = Effort(rounds=15, seconds=2, is_quick=False)

NOISE_MAX = 0.1  # above which a target is measured for as many rounds again
BUSY_SHARE = 0.1  # of the CPU time that others use, from which on we say so


@dataclass(frozen=True)
class Bench:
    """One line of the report. `ours` and `theirs` take the World and return one sample each.

    `theirs` may be a number: a budget instead of a measured floor or peer. The target is a bound
    of the ratio ours/theirs: `at_least` where more is better, `at_most` where less is; without
    either the line is for information.
    """

    name: str
    unit: str
    ours: Callable
    theirs: object
    against: str  # who the other is: "epoll", "crun", "budget"
    at_least: Optional[float] = None
    at_most: Optional[float] = None
    rounds: Optional[int] = None  # instead of the effort's
    needs: tuple = ()  # commands, without which it is skipped


class Skip(Exception):
    """Raised by a sample that cannot be taken on this machine; says why."""


@dataclass
class World:
    """What the benchmarks of a run share: a directory, and things started at first use."""

    effort: Effort
    build: Path
    tmp: Path
    exits: contextlib.ExitStack
    things: dict = field(default_factory=dict)

    def get(self, start):
        """What start(world), a context manager, gives; entered once and left after the run."""
        if start not in self.things:
            self.things[start] = self.exits.enter_context(start(self))
        return self.things[start]

    def program(self, path):
        program = self.build / path
        if not program.exists():
            raise FileNotFoundError(f"{program} is not built; ./dev build does that")
        return str(program)


def server_cpu():
    """Where servers run, so that every server gets the same: the first CPU."""
    return {min(os.sched_getaffinity(0))}


def client_cpu():
    """Where load comes from: the last CPU, which is another one where there are two."""
    return {max(os.sched_getaffinity(0))}


def on(cpus):
    """For preexec_fn: run there."""
    return lambda: os.sched_setaffinity(0, cpus)


def figure(value):
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    return f"{value:,.{digits}f}"


def spread(samples):
    """How far samples are from their median, as a share of it: half of them are nearer."""
    middle = statistics.median(samples)
    return statistics.median(abs(sample - middle) for sample in samples) / middle


def busy_share(seconds=1):
    """What others use of the CPUs while we do nothing."""

    def read():
        with open("/proc/stat", encoding="ascii") as stat:
            fields = [int(field) for field in stat.readline().split()[1:9]]
        return sum(fields), fields[3] + fields[4]

    total, idle = read()
    time.sleep(seconds)
    total_after, idle_after = read()
    return 1 - (idle_after - idle) / max(1, total_after - total)


def verdict_of(bench, ratio):
    if bench.at_least is not None:
        return "ok" if ratio >= bench.at_least else "MISS"
    if bench.at_most is not None:
        return "ok" if ratio <= bench.at_most else "MISS"
    return "info"


def bound_of(bench):
    if bench.at_least is not None:
        return f">= {bench.at_least:g}"
    if bench.at_most is not None:
        return f"<= {bench.at_most:g}"
    return ""


def measure(bench, world):
    missing = [command for command in bench.needs if not shutil.which(command)]
    if missing:
        raise Skip(f"needs {', '.join(missing)}")
    ours, theirs = [], []
    rounds = bench.rounds or world.effort.rounds
    if world.effort.is_quick and not bound_of(bench):
        rounds = 1
    while len(ours) < rounds:
        ours.append(bench.ours(world))
        theirs.append(bench.theirs(world) if callable(bench.theirs) else bench.theirs)
        # By the noise only, never by the verdict: that would be measuring until it fits.
        is_noisy = max(spread(ours), spread(theirs)) > NOISE_MAX
        if len(ours) == rounds == world.effort.rounds and bound_of(bench) and is_noisy:
            rounds *= 2
    return ours, theirs


def judge(bench, world):
    """One benchmark from first sample to verdict, as a dict for the report."""
    result = {"name": bench.name, "unit": bench.unit, "against": bench.against,
              "target": bound_of(bench)}
    try:
        ours, theirs = measure(bench, world)
    except Skip as skip:
        return result | {"verdict": "skip", "why": str(skip)}
    except Exception as error:  # one that fails must not hide the others
        return result | {"verdict": "FAIL", "why": f"{type(error).__name__}: {error}"}
    ratio = statistics.median(ours) / statistics.median(theirs)
    noise = max(spread(ours), spread(theirs))
    return result | {"noise": noise, "ours": statistics.median(ours), "theirs": statistics.median(theirs),
                     "ratio": ratio, "verdict": verdict_of(bench, ratio),
                     "samples": {"ours": ours, "theirs": theirs}}


HEAD = f"{'':28} {'ours':>10} {'other':>10}  {'':6} {'':8} {'ratio':>6}  noise {'target':>8}"


def line(result):
    if "why" in result:
        return f"{result['name']:28} {result['verdict']}: {result['why']}"
    return (f"{result['name']:28} {figure(result['ours']):>10} {figure(result['theirs']):>10}  "
            f"{result['unit']:6} {result['against']:8} {result['ratio']:6.2f} "
            f"{result['noise']:6.0%} {result['target']:>8}  {result['verdict']}")


def run(benches, effort, build):
    results = []
    with contextlib.ExitStack() as exits:
        tmp = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="cay-bench-")))
        world = World(effort=effort, build=build, tmp=tmp, exits=exits)
        busy = busy_share()
        if busy > BUSY_SHARE:
            print(f"Other programs use {busy:.0%} of this machine: expect noise, and trust ratios of "
                  "CPU time more than others.", flush=True)
        print(HEAD, flush=True)
        for bench in benches:
            results.append(judge(bench, world))
            print(line(results[-1]), flush=True)
    missed = sum(result["verdict"] == "MISS" for result in results)
    print(f"{len(results)} measured, {missed} missed")
    return results
