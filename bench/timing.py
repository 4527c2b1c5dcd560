# SPDX-License-Identifier: Apache-2.0
"""Times of single calls and commands, taken by programs in C: what Python adds is not measured."""

import json
import os
import subprocess
from dataclasses import dataclass

import harness

SANDBOX = "/cay.v1.SandboxService/"
PROCESS = "/cay.v1.ProcessService/"


@dataclass
class Times:
    count: int
    min_us: float
    p50_us: float
    p99_us: float


def read_times(text):
    """What api_client and command_time print, by label."""
    times = {}
    for line in text.splitlines():
        label, count, *figures = line.split("\t")
        times[label] = Times(int(count), *(float(figure) for figure in figures))
    return times


def call(label, path, body, expected=""):
    """One line of a script: a call that is timed under its label, or not at all ("-")."""
    return "\t".join([label, path, json.dumps(body)] + ([expected] if expected else []))


def sleep(milliseconds):
    return f"sleep\t{milliseconds}"


def calls(world, server, script, cpus, address=None):
    """Times of the calls in a script, made one after the other over one kept connection: to the server's port with its key,
    or to an address that api_client knows and that needs none."""
    where = [address] if address else [str(server.port), server.key]
    done = subprocess.run([world.program("bench/api_client"), *where], input="\n".join(script) + "\n",
                          capture_output=True, text=True, check=False, preexec_fn=harness.on(cpus))
    if done.returncode:
        raise ConnectionError(done.stderr.strip())
    return read_times(done.stdout)


def command(world, count, words, cpus, before=()):
    """Times of a command that is run `count` times, below another one if that is given."""
    # To a file: a container that goes on keeps what it was started with, and a pipe would not end.
    errors = world.tmp / "errors"
    with open(errors, "w", encoding="utf-8") as stderr:
        done = subprocess.run(
            [*before, world.program("bench/command_time"), str(count), str(world.tmp / "output"),
             *words], stdout=subprocess.PIPE, stderr=stderr, text=True, check=False,
            preexec_fn=harness.on(cpus))
    if done.returncode:
        raise ChildProcessError(f"{' '.join(words)}: {errors.read_text().strip()}")
    return read_times(done.stdout)["command"]


def all_cpus():
    return os.sched_getaffinity(0)
