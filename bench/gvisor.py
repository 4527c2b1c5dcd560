# SPDX-License-Identifier: Apache-2.0
"""Sessions in gVisor next to runsc's own commands, which start a program of some 20 ms for each."""

import contextlib
import os
import shutil
import time

import daemon
import harness
import peers
import process
import reserve
import session
import timing
from harness import Bench
from timing import PROCESS, call

CREATES = 3  # in one sample: each takes longer than everything else here
EXECS = 12
FILL_SECONDS = 60
MIB = 1 << 20
ALL = ("runsc",)


def started(*flags):
    """A daemon whose sessions are in gVisor, with one that has a sandbox and a shell."""
    @contextlib.contextmanager
    def start(world):
        if not shutil.which("runsc"):
            raise harness.Skip("needs runsc")
        if os.geteuid() != 0:
            raise harness.Skip("sandboxes need root")
        with daemon.fresh_cayd(world, "--destroy-on-exit", "--runtime", "gvisor", *flags, cpus=timing.all_cpus()) as server:
            session.import_base(server, "small", world.get(session.bases)["small"])
            session.import_base(server, "shell", world.get(process.shell_base))
            timing.calls(world, server, [session.create("kept", "shell")], timing.all_cpus())
            yield server
    return start


bare = started("--reserve", "0")
stocked = started("--reserve", str(CREATES))


def create_on(world, server):
    made = [next(session.names) for _ in range(CREATES)]
    script = [session.create(name, "small", label="x") for name in made] + [session.destroy(name) for name in made]
    return timing.calls(world, server, script, timing.all_cpus())["x"].p50_us / 1000


def create(world):
    return create_on(world, world.get(bare))


def create_waiting(world):
    """Milliseconds of a create, every one of which gets a sandbox that waited."""
    server = world.get(stocked)
    until = time.monotonic() + FILL_SECONDS
    if reserve.figures(server)["waiting"] < CREATES:
        create_on(world, server)  # which tells how many are asked for at once
    while reserve.figures(server)["waiting"] < CREATES:
        if time.monotonic() > until:
            raise TimeoutError(f"only {reserve.figures(server)} wait")
        time.sleep(0.05)
    before = reserve.figures(server)
    took = create_on(world, server)
    after = reserve.figures(server)
    if after["handedOut"] - before["handedOut"] != CREATES:
        raise RuntimeError(f"not all came from the reserve: {before}, {after}")
    return took


def execute(world):
    launch = call("x", PROCESS + "LaunchProcess", {"sessionId": "kept", "spec": {"argv": ["/bin/true"]}, "wait": "10s"},
                  '"exitCode":0')
    return timing.calls(world, world.get(bare), [launch] * EXECS, timing.all_cpus())["x"].p50_us / 1000


def stream(world):
    blocks = ("if=/dev/zero", "bs=65536", f"count={process.STREAM_MIB * MIB // 65536}")
    return process.stream_on(world.get(bare), "kept", "/bin/dd", *blocks)


def paused(label):
    return lambda world: timing.calls(world, world.get(bare), process.pause_script(label), timing.all_cpus())["x"].p50_us / 1000


def peer_create(world):
    return world.get(peers.runsc).time_create(world, timing.all_cpus()) / 1000


def peer_exec(world):
    return world.get(peers.runsc).time_exec(world, timing.all_cpus()) / 1000


BENCHES = [
    Bench("gvisor, exec true", "ms", execute, peer_exec, "runsc", at_most=1 / 8, needs=ALL),
    Bench("gvisor, create", "ms", create, peer_create, "runsc", at_most=1.2, rounds=3, needs=ALL),
    Bench("gvisor, create, reserve", "ms", create_waiting, 15, "budget", at_most=1, rounds=3, needs=ALL),
    # 250 MiB/s on a machine whose pipe carries 1232.
    Bench("gvisor, stream 256 MiB", "MiB/s", stream, process.pipe, "pipe", at_least=0.2, rounds=3, needs=ALL),
    *[Bench(f"gvisor, {label}", "ms", paused(label), 2, "budget", at_most=1, rounds=3, needs=ALL)
      for label in ("pause", "resume")],
]
