# SPDX-License-Identifier: Apache-2.0
"""Exposed ports: a server in a sandbox, reached through the daemon, next to the same server on the
host's own loopback.

A relay takes every byte into its hands once on each way, so a bare round trip of one byte shows the
price of two more wake-ups and nothing else. A request of the kind that ports are for has a
connection made and 16 KiB answered.
"""

import contextlib
import json
import shutil
import subprocess
import urllib.request

import daemon
import harness
import session
import timing
from harness import Bench
from timing import PROCESS, SANDBOX

COUNT = 400
SERVER_PORT = 7000


def post(server, path, body):
    request = urllib.request.Request(
        server.url + path, json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": f"Bearer {server.key}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@contextlib.contextmanager
def exposed(world, cpus):
    base = world.tmp / f"base-ports-{len(cpus)}"
    session.make_base(world, base, 0)
    shutil.copy(world.program("bench/bench_round_trip"), base / "bin/round_trip")
    with session.host_of(world, cpus) as server:
        session.import_base(server, "ports", base)
        post(server, SANDBOX + "CreateSession", {"sessionId": "ports", "base": "ports"})
        process = post(server, PROCESS + "LaunchProcess", {"sessionId": "ports", "spec": {
            "argv": ["/bin/round_trip", "serve", str(SERVER_PORT)],
            "exposePort": {"port": SERVER_PORT, "waitListening": "20s"}}})["process"]
        yield process["ports"][0]["hostPort"]


@contextlib.contextmanager
def exposed_free(world):
    with exposed(world, timing.all_cpus()) as port:
        yield port


@contextlib.contextmanager
def exposed_pinned(world):
    with exposed(world, harness.server_cpu()) as port:
        yield port


@contextlib.contextmanager
def direct(world, cpus):
    with daemon.started([world.program("bench/bench_round_trip"), "serve"], cpus=cpus) as process:
        yield int(daemon.first_line(process))


@contextlib.contextmanager
def direct_free(world):
    with direct(world, timing.all_cpus()) as port:
        yield port


@contextlib.contextmanager
def direct_pinned(world):
    with direct(world, harness.server_cpu()) as port:
        yield port


def trip(where, how, size, cpus):
    def sample(world):
        done = subprocess.run([world.program("bench/bench_round_trip"), how, str(world.get(where)),
                               str(COUNT), str(size)], capture_output=True, text=True, check=False,
                              preexec_fn=harness.on(cpus()))
        if done.returncode:
            raise ConnectionError(done.stderr.strip())
        return timing.read_times(done.stdout)["x"].p50_us
    return sample


def lines(name, how, size, at_most=None):
    return [Bench(name + suffix, "us", trip(ours, how, size, cpus), trip(theirs, how, size, cpus),
                  "direct", at_most=at_most)
            for suffix, ours, theirs, cpus in (
                ("", exposed_free, direct_free, timing.all_cpus),
                (" one cpu", exposed_pinned, direct_pinned, harness.server_cpu))]


BENCHES = [
    *lines("port, round trip", "time", 1, 1.5),
    *lines("port, round trip 16k", "time", 16384),
    *lines("port, new connection", "connect", 16384),
]
