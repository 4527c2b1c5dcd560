# SPDX-License-Identifier: Apache-2.0
"""Filtered networks next to loopback, and next to open ones, which are a veth and NAT: connections, streams, requests, creates, and
what a helper takes. All servers are in one internet (network_world.py); clients are beside them, or in sandboxes."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import harness
from harness import Bench

CONNECTS = "400 1"
STREAM = "4000 65536"
REQUESTS = "20000 64"


@contextlib.contextmanager
def net(world):
    """A function that measures there."""
    if os.geteuid() != 0:
        raise harness.Skip("network namespaces need root")
    if not shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin:/bin"):
        raise harness.Skip("needs nft (package nftables)")
    script = Path(__file__).with_name("network_world.py")
    with subprocess.Popen([sys.executable, str(script), str(world.build), str(world.tmp)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        def ask(line):
            process.stdin.write(line + "\n")
            process.stdin.flush()
            said = process.stdout.readline()
            if not said:
                raise ChildProcessError(f"no answer to {line!r}")
            return float(said)
        if process.stdout.readline() != "ready\n":
            raise ChildProcessError("the world does not stand")
        yield ask
        process.stdin.close()


def asked(line):
    return lambda world: world.get(net)(line)


def pair(name, unit, verb, other, **target):
    return Bench(f"filtered, {name}", unit, asked(f"filtered {verb}"), asked(f"{other} {verb}"), other, **target)


BENCHES = [
    pair("connect", "us", f"connect {CONNECTS}", "loopback", at_most=3),
    pair("connect, veth", "us", f"connect {CONNECTS}", "open", at_most=2.2),
    pair("one stream", "64K/s", f"stream {STREAM}", "loopback", at_least=0.35),
    pair("requests", "req/s", f"requests {REQUESTS}", "open", at_least=0.4),
    Bench("filtered, create", "us", asked("create filtered"), asked("create none"), "none", at_most=1.2),
    Bench("filtered, helper", "MB", asked("helper"), 0.5, "budget", at_most=1),
]
