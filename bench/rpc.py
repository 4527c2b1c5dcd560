# SPDX-License-Identifier: Apache-2.0
"""The cost of a call that does nothing: HealthCheck, with a key, in JSON, against epoll_floor."""

import daemon
import harness
import load
from harness import Bench

RATE_MIN = 0.55  # of the floor's rate


def rate(server, connections):
    return lambda world: load.wrk(world, world.get(server), connections).per_second


def cpu(server, connections):
    """Holds still on a busy machine, and when the client is what limits the rate."""
    return lambda world: load.wrk(world, world.get(server), connections).cpu_us


def rate_h2(server, connections, streams):
    return lambda world: load.h2load(world, world.get(server), connections, streams)


def latency(server, percentile, cpus=None):
    """One client, one call at a time."""

    def sample(world):
        result = load.wrk(world, world.get(server), 1, cpus() if cpus else None)
        return getattr(result, percentile)

    return sample


def unary(name, connections):
    return Bench(name, "req/s", rate(daemon.cayd, connections), rate(daemon.floor, connections),
                 "epoll", at_least=RATE_MIN, needs=("wrk",))


def unary_cpu(name, connections):
    """The same target where the machine is not ours alone: the server is what is busy."""
    return Bench(name, "us", cpu(daemon.cayd, connections), cpu(daemon.floor, connections),
                 "epoll", at_most=round(1 / RATE_MIN, 2), needs=("wrk",))


BENCHES = [
    unary("rpc unary h1 c=16", 16),
    unary("rpc unary h1 c=64", 64),
    unary_cpu("rpc unary h1 c=16 cpu", 16),
    unary_cpu("rpc unary h1 c=64 cpu", 64),
    # The floor speaks HTTP/1.1 only: what HTTP/2 costs or saves against that.
    Bench("rpc unary h2 c=16 m=1", "req/s", rate_h2(daemon.cayd, 16, 1), rate(daemon.floor, 16),
          "epoll/h1", needs=("wrk", "h2load")),
    Bench("rpc unary h2 c=4 m=32", "req/s", rate_h2(daemon.cayd, 4, 32), rate(daemon.floor, 64),
          "epoll/h1", needs=("wrk", "h2load")),
    # Client and server on two CPUs: the price of waking the other one is in both figures.
    Bench("rpc latency c=1 p50", "us", latency(daemon.cayd, "p50_us"),
          latency(daemon.floor, "p50_us"), "epoll", needs=("wrk",)),
    Bench("rpc latency c=1 p99", "us", latency(daemon.cayd, "p99_us"),
          latency(daemon.floor, "p99_us"), "epoll", needs=("wrk",)),
    # Both on one CPU: nothing but work.
    Bench("rpc latency c=1 p50 one cpu", "us",
          latency(daemon.cayd, "p50_us", harness.server_cpu),
          latency(daemon.floor, "p50_us", harness.server_cpu), "epoll", needs=("wrk",)),
]
