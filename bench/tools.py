# SPDX-License-Identifier: Apache-2.0
"""File tools through the API: read_file next to a server that does nothing else, grep next to
ripgrep."""

import contextlib
import json
import os
import subprocess
from dataclasses import dataclass

import daemon
import harness
import load
import session
import timing
from harness import Bench
from timing import SANDBOX, call

INCLUDES = "/usr/include"
PATTERNS = {
    "literal": "pthread_mutex_lock",
    "init": r"static inline [a-z_]+ \*?[a-z_]+_init\(",
    "(?i)error": "(?i)error",
    "_SUSPEND": "[A-Z]+_SUSPEND",
    "void f(": r"\bvoid\s+\w+\s*\(",
}
READ = {"path": SANDBOX + "ExecuteTool", "body": json.dumps({"sessionId": "kept", "call": {
    "toolName": "read_file", "params": {"path": "/four-kb"}}})}


@contextlib.contextmanager
def read_floor(world):
    """Opens, reads and escapes the same file for each request, and nothing else."""
    directory = world.get(session.bases)["small"]
    with daemon.started([world.program("bench/epoll_floor"), "--read", str(directory),
                         "four-kb"]) as process:
        yield daemon.Server(process, int(daemon.first_line(process)), "none")


def read_rate(server, connections):
    return lambda world: load.wrk(world, world.get(server), connections, call=READ).per_second


def read_cpu(server, connections):
    return lambda world: load.wrk(world, world.get(server), connections, call=READ).cpu_us


@dataclass
class Includes:
    server: daemon.Server
    plain: str  # the directory that was copied
    merged: str  # the copy, as the sandbox's first process sees it


def children(pid):
    """Of all threads of a process."""
    found = set()
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
            found.update(file.read().split())
    return found


@contextlib.contextmanager
def includes(world):
    """A session that has a copy of /usr/include, on the daemon that uses all CPUs."""
    if not os.path.isdir(INCLUDES):
        raise harness.Skip(f"needs {INCLUDES}")
    server = world.get(session.free)
    base = world.tmp / "base-includes"
    base.mkdir()
    subprocess.run(["cp", "-r", INCLUDES, base / "include"], check=True)
    session.import_base(server, "includes", base)
    before = children(server.process.pid)
    timing.calls(world, server, [session.create("includes", "includes")], timing.all_cpus())
    (init,) = children(server.process.pid) - before
    yield Includes(server, str(base / "include"), f"/proc/{init}/root/include")


def grep(pattern):
    body = {"sessionId": "includes",
            "call": {"toolName": "grep", "params": {"pattern": pattern, "path": "/include"}}}
    script = [call("x", SANDBOX + "ExecuteTool", body, '"content"')] * 3
    return lambda world: timing.calls(world, world.get(includes).server, script,
                                      timing.all_cpus())["x"].min_us / 1000


def ripgrep(pattern, tree):
    """With its output in a file: it does less when nobody reads."""
    return lambda world: timing.command(
        world, 3, ["-1", "rg", "-j2", "--no-config", "--", pattern,
                   getattr(world.get(includes), tree)], timing.all_cpus()).min_us / 1000


def greps(name, pattern):
    """Next to ripgrep on the same tree, which is the target, and on a plain directory."""
    return [Bench(f"grep {name}", "ms", grep(pattern), ripgrep(pattern, "merged"), "rg",
                  at_most=1.0, needs=("rg",)),
            Bench(f"grep {name}", "ms", grep(pattern), ripgrep(pattern, "plain"), "rg/plain",
                  needs=("rg",))]


BENCHES = [
    # 50,000 a second on a machine whose floor is 80,000.
    Bench("read_file 4 kB c=16", "req/s", read_rate(session.pinned, 16), read_rate(read_floor, 16),
          "epoll", at_least=0.62, needs=("wrk",)),
    Bench("read_file 4 kB c=16 cpu", "us", read_cpu(session.pinned, 16), read_cpu(read_floor, 16),
          "epoll", at_most=1.6, needs=("wrk",)),
    Bench("read_file 4 kB c=16", "req/s", read_rate(session.pinned, 16), 50_000, "budget",
          at_least=1, needs=("wrk",)),
    *sum((greps(name, pattern) for name, pattern in PATTERNS.items()), []),
]
