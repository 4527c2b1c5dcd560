# SPDX-License-Identifier: Apache-2.0
"""Many sessions that run nothing: what the daemon holds of them, what a page of the list costs,
how long it takes to serve again after it was killed."""

import contextlib
import json
import os
import time

import daemon
import harness
import session
import timing
from harness import Bench
from timing import SANDBOX, call

COUNT = 10_000
COUNT_QUICK = 1_000
PAGE = 100
# For COUNT sessions; fewer get their share of what is not there without any.
BUDGET_MB = 40
BUDGET_PAGE_MS = 10
BUDGET_RESTART_S = 2


class Many:
    """A daemon that can be started again on its directories."""

    def __init__(self, world, count):
        self.world = world
        self.count = count
        self.home = world.tmp / "many"
        self.server = None
        self.empty_mb = 0  # the daemon without sessions
        self.exits = contextlib.ExitStack()

    def start(self):
        self.server = self.exits.enter_context(
            daemon.cayd_at(self.world, self.home, "--max-sessions", str(COUNT + 100),
                           cpus=timing.all_cpus()))

    def kill(self):
        self.server.process.kill()
        self.server.process.wait()
        self.exits.close()

    def make_sessions(self):
        session.import_base(self.server, "small", self.world.get(session.bases)["small"])
        self.empty_mb = self.server.status("VmRSS") / 1000
        script = [session.create(f"many-{number:05}", "small", lazy=True)
                  for number in range(self.count)]
        timing.calls(self.world, self.server, script, timing.all_cpus())


@contextlib.contextmanager
def many(world):
    if os.geteuid() != 0:
        raise harness.Skip("sandboxes need root")
    thing = Many(world, COUNT_QUICK if world.effort.is_quick else COUNT)
    thing.start()
    try:
        thing.make_sessions()
        yield thing
    finally:
        thing.exits.close()


def memory_mb(world):
    """What only the daemon has, code and libraries that it shares with others not counted twice."""
    return world.get(many).server.status("VmRSS") / 1000


def budget_mb(world):
    thing = world.get(many)
    return thing.empty_mb + (BUDGET_MB - thing.empty_mb) * thing.count / COUNT


def list_page(world):
    """Not the first."""
    server = world.get(many).server
    answer = daemon.raw_call(server.port, SANDBOX + "ListSessions",
                             json.dumps({"pageSize": 5 * PAGE}), server.key)
    token = json.loads(answer.partition(b"\r\n\r\n")[2])["nextPageToken"]
    body = {"pageSize": PAGE, "pageToken": token}
    times = timing.calls(world, server, [call("x", SANDBOX + "ListSessions", body)] * 20,
                         timing.all_cpus())
    return times["x"].p50_us / 1000


def restart(world):
    """From the start of the process to its line that says it serves."""
    thing = world.get(many)
    thing.kill()
    since = time.monotonic()
    thing.start()
    return time.monotonic() - since


def restart_cpu(world):
    """The same as CPU time: what other programs take is not in it."""
    restart(world)
    return world.get(many).server.cpu_us() / 1e6


def restart_budget(world):
    return BUDGET_RESTART_S * world.get(many).count / COUNT


BENCHES = [
    Bench("lazy sessions, resident", "MB", memory_mb, budget_mb, "budget", at_most=1.0, rounds=1),
    Bench("lazy sessions, page of 100", "ms", list_page, BUDGET_PAGE_MS, "budget", at_most=1.0),
    Bench("lazy sessions, restart", "s", restart, restart_budget, "budget", at_most=1.0, rounds=3),
    Bench("lazy sessions, restart, cpu", "s", restart_cpu, restart_budget, "budget", at_most=1.0,
          rounds=3),
    Bench("lazy sessions, after restart", "MB", memory_mb, budget_mb, "budget", at_most=1.0,
          rounds=1),
]
