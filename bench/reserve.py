# SPDX-License-Identifier: Apache-2.0
"""Sessions that get a sandbox from the reserve: what a create takes then, and what it costs to have one."""

import contextlib
import json
import time

import daemon
import peers
import process
import session
import timing
from harness import Bench
from session import CALLS, SPAWN_MS, cpus_of, free, peer_create, pinned, scaled
from timing import SANDBOX

SIZE = CALLS  # as many as one sample asks for
FILL_SECONDS = 10
FILES_MS = 1.6 * SPAWN_MS / 0.1  # 1.6 ms where a static program takes 0.1 ms


def figures(server):
    answer = daemon.raw_call(server.port, SANDBOX + "HealthCheck", "{}", server.key)
    reserve = json.loads(answer.partition(b"\r\n\r\n")[2])["reserve"]
    return {name: int(reserve.get(name, 0)) for name in ("waiting", "memoryBytes", "handedOut", "started")}


def fill(server):
    """Waits until as many sandboxes wait as may."""
    until = time.monotonic() + FILL_SECONDS
    while figures(server)["waiting"] < SIZE:
        if time.monotonic() > until:
            raise TimeoutError(f"only {figures(server)} wait")
        time.sleep(0.01)


def stocked(where):
    """The daemon with a reserve, which has learned how many are asked for at once."""
    @contextlib.contextmanager
    def start(world):
        with session.host_of(world, cpus_of(where), "--reserve", str(SIZE)) as server:
            timing.calls(world, server, session.create_script("small"), cpus_of(where))
            yield server
    return start


hosts = {where: stocked(where) for where in (free, pinned)}


def create(where):
    """Milliseconds of a create; every one gets a sandbox that waited."""
    def sample(world):
        server = world.get(hosts[where])
        fill(server)
        before = figures(server)
        took = timing.calls(world, server, session.create_script("files"), cpus_of(where))["x"].p50_us / 1000
        after = figures(server)
        if after["handedOut"] - before["handedOut"] != CALLS:
            raise RuntimeError(f"not all came from the reserve: {before}, {after}")
        return took
    return sample


def burst(world):
    """100 creates at once, of which a few find a sandbox that waits."""
    server = world.get(hosts[free])
    fill(server)
    return process.burst_on(server)


def memory(world):
    """MiB that the control groups of those count that wait, for each."""
    server = world.get(hosts[free])
    fill(server)
    found = figures(server)
    return found["memoryBytes"] / found["waiting"] / (1 << 20)


BENCHES = [
    *[Bench("create, reserve" + suffix, "ms", create(where), peer_create(peers.crun, where), "crun",
            at_most=0.25, needs=("crun",)) for suffix, where in (("", free), (" one cpu", pinned))],
    *[Bench("create, reserve" + suffix, "ms", create(where), scaled(where, FILES_MS), "budget", at_most=1)
      for suffix, where in (("", free), (" one cpu", pinned))],
    Bench("100 creates at once, reserve", "ms", burst, process.burst, "none", at_most=1.1),
    Bench("a sandbox in reserve", "MiB", memory, 0.5, "budget", at_most=1, rounds=1),
]
