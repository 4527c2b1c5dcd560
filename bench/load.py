# SPDX-License-Identifier: Apache-2.0
"""Load on a server: wrk for HTTP/1.1, h2load for HTTP/2."""

import os
import re
import subprocess
from dataclasses import dataclass

import harness

CALL = {"path": "/cay.v1.SandboxService/HealthCheck", "body": "{}"}


@dataclass
class Load:
    per_second: float
    p50_us: float
    p99_us: float
    cpu_us: float  # that the server used for one call


def wrk(world, server, connections, cpus=None, call=None):
    """One sample of a call (HealthCheck) by `connections` clients, one at a time each."""
    call = call or CALL
    env = os.environ | {"BENCH_PATH": call["path"], "BENCH_BODY": call["body"],
                        "BENCH_KEY": server.key}
    script = str(harness.ROOT / "bench/call.lua")
    before_us = server.cpu_us()
    done = subprocess.run(
        ["wrk", "-t1", f"-c{connections}", f"-d{world.effort.seconds}s", "-s", script,
         server.url], env=env, capture_output=True, text=True, check=True,
        preexec_fn=harness.on(cpus or harness.client_cpu()))
    found = re.search(r"^result (\d+) (\d+) (\d+) (\S+) (\S+)$", done.stderr, re.MULTILINE)
    requests, duration_us, errors = (int(found[i]) for i in (1, 2, 3))
    if errors or not requests:
        raise ConnectionError(f"{errors} of {requests} calls failed\n{done.stdout}")
    return Load(requests * 1e6 / duration_us, float(found[4]), float(found[5]),
                (server.cpu_us() - before_us) / requests)


def h2load(world, server, connections, streams):
    """Calls per second over HTTP/2."""
    body = world.tmp / "body"
    body.write_text(CALL["body"])
    done = subprocess.run(
        ["h2load", "-t1", f"-c{connections}", f"-m{streams}", "-D", f"{world.effort.seconds}",
         "-d", str(body), "-H", "content-type: application/json",
         "-H", f"authorization: Bearer {server.key}", server.url + CALL["path"]],
        capture_output=True, text=True, check=True,
        preexec_fn=harness.on(harness.client_cpu()))
    rate = re.search(r"finished in .*?, ([\d.]+) req/s", done.stdout)
    codes = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", done.stdout)
    if not rate or not codes or any(int(codes[i]) for i in (2, 3, 4)):
        raise ConnectionError(done.stdout + done.stderr)
    return float(rate[1])
