# SPDX-License-Identifier: Apache-2.0
"""What agents wait for: E2B's own SDK for JavaScript, on loopback, with sandboxes of the recipe `debian`.

A command is a login shell of Debian here, and the SDK's own time is in all figures. Budgets are times of
an idle machine, scaled as in session.py.
"""

import contextlib
import json
import os
import subprocess

import daemon
import harness
import session
import timing
from harness import Bench

CALLS = 12
STORM = 100
CLIENTS = harness.ROOT / "tests/clients"


def take_base(world, data):
    """The data directory of a daemon that has built the base."""
    done = subprocess.run(["/usr/bin/python3", str(CLIENTS / "debian_base.py"), world.program("src/bin/cayd"), "debian",
                           str(data)], check=False, capture_output=True, text=True)
    if done.returncode:
        raise harness.Skip(done.stdout.strip() or done.stderr.strip().splitlines()[-1])


@contextlib.contextmanager
def client(world):
    """The SDK at work, as a process that takes orders."""
    if os.geteuid() != 0:
        raise harness.Skip("sandboxes need root")
    if not (CLIENTS / "node_modules/e2b").is_dir():
        raise harness.Skip("needs the clients of tests/clients; ./dev bench fetches them")
    home = world.tmp / "e2b"
    home.mkdir()
    take_base(world, home / "data")
    flags = ("--destroy-on-exit", "--e2b-template", "debian")
    with daemon.cayd_at(world, home, *flags, cpus=timing.all_cpus()) as server:
        answer = daemon.raw_call(server.socket, "/cay.v1.KeyService/CreateKey", '{"owner":"bench","e2b":true}')
        key = json.loads(answer.partition(b"\r\n\r\n")[2])["secret"]
        env = {**daemon.clean_environment(), "E2B_API_KEY": key, "E2B_API_URL": server.url, "E2B_SANDBOX_URL": server.url}
        command = [str(harness.ROOT / "tools/node"), str(harness.ROOT / "bench/e2b_client.mjs")]
        with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                if process.stdout.readline() != "ready\n":
                    raise ChildProcessError(f"the client ended with status {process.wait()}")
                yield process
            finally:
                process.stdin.close()
                process.wait()


def sample(what, count):
    """Milliseconds, as the client took them."""
    def take(world):
        process = world.get(client)
        process.stdin.write(f"{what} {count}\n")
        process.stdin.flush()
        return float(process.stdout.readline())
    return take


def within(name, what, count, budget_ms):
    return Bench(name, "ms", sample(what, count), session.scaled(session.free, budget_ms), "budget", at_most=1)


BENCHES = [
    within("e2b create, first command", "create", CALLS, 15),
    within("e2b commands.run echo hi", "run", 2 * CALLS, 5),
    within("e2b write+read 1 MiB", "file", CALLS, 15),
    within("e2b 100 creates at once", "storm", STORM, 1000),
]
