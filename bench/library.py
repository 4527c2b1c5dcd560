# SPDX-License-Identifier: Apache-2.0
"""libcay and `cay`: what they add to what they stand on.

A call through the library stands beside the same bytes on a bare socket, a program beside one that does nothing but speak, a tool
of a local environment beside the tool alone. Both of a pair are measured by the same program.
"""

import subprocess

import harness
import session
import timing
from harness import Bench
from timing import SANDBOX, call

CALLS = 4000  # in one sample
RUNS = 60  # of a command
TOOL_CALLS = 4000

EXEC_BUDGET_MS = 3
TOOL_BUDGET_US = 20
SIZE_BUDGET_KB = 400


def health(where, through):
    """Microseconds of an empty call over the Unix socket: `through` the library ("unix:") or none ("")."""
    script = [call("x", SANDBOX + "HealthCheck", {}, '"uptime"')] * CALLS

    def sample(world):
        server = world.get(where)
        return timing.calls(world, server, script, session.cpus_of(where), through + server.socket)["x"].p50_us
    return sample


def version(world):
    return timing.command(world, RUNS, [world.program("src/bin/cay"), "version"], harness.client_cpu()).p50_us / 1000


def hello(program):
    return lambda world: timing.command(world, RUNS, [world.program(program)], harness.client_cpu()).p50_us / 1000


def exec_true(world):
    server = world.get(session.free)
    return timing.command(world, RUNS, [world.program("src/bin/cay"), "--url", f"unix:{server.socket}", "exec", "kept",
                                        "--", "/bin/true"], timing.all_cpus()).p50_us / 1000


def over_the_tool(world):
    """Microseconds that a local environment adds."""
    directory = world.tmp / "local"
    directory.mkdir(exist_ok=True)
    done = subprocess.run([world.program("bench/bench_local"), str(directory), str(TOOL_CALLS)], capture_output=True,
                          text=True, check=False, preexec_fn=harness.on(harness.client_cpu()))
    if done.returncode:
        raise ChildProcessError(done.stderr.strip())
    times = timing.read_times(done.stdout)
    return times["local"].p50_us - times["tool"].p50_us


def size(world):
    """Of the shared object as packages have it."""
    stripped = world.tmp / "libcay.so"
    subprocess.run(["strip", "--strip-unneeded", "--remove-section=.comment", "-o", stripped,
                    world.program("src/lib/libcay.so.1")], check=True)
    return stripped.stat().st_size / 1000


BENCHES = [
    Bench("library call", "us", health(session.free, "unix:"), health(session.free, ""), "raw", at_most=1.15),
    Bench("library call one cpu", "us", health(session.pinned, "unix:"), health(session.pinned, ""), "raw", at_most=1.15),
    Bench("cay version", "ms", version, hello("bench/bench_hello"), "hello", at_most=2),
    Bench("cay version", "ms", version, hello("bench/bench_hello_musl"), "musl"),
    Bench("cay exec true", "ms", exec_true, EXEC_BUDGET_MS, "budget", at_most=1),
    Bench("local over its tool", "us", over_the_tool, TOOL_BUDGET_US, "budget", at_most=1),
    Bench("libcay.so stripped", "kB", size, SIZE_BUDGET_KB, "budget", at_most=1, rounds=1),
]
