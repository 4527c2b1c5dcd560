# SPDX-License-Identifier: Apache-2.0
"""Idle keep-alive connections: what each holds in memory, and whether all are still served."""

import contextlib
import resource
import subprocess

import daemon
import harness
import load
from harness import Bench

CONNECTIONS_MAX = 10_000
BUDGET_KB = 10


def connections():
    """As many as one owner may have: three quarters, but for a few, of a quarter of the daemon's
    descriptors. It inherits the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS_MAX if hard == resource.RLIM_INFINITY else min(CONNECTIONS_MAX, hard * 7 // 40)


class Held:
    """The connections, opened and used once, and what the daemon held before and after."""

    def __init__(self, server, clients):
        self.server = server
        self.clients = clients

    def answered(self):
        return int(self.clients.stdout.readline().split()[1])

    def ask_again(self):
        self.clients.stdin.write("again\n")
        self.clients.stdin.flush()
        return self.answered()


@contextlib.contextmanager
def held(world):
    count = connections()
    with daemon.fresh_cayd(world) as server:
        request = world.tmp / "request"
        request.write_bytes(daemon.request_bytes(load.CALL["path"], load.CALL["body"], server.key))
        command = [world.program("bench/idle_clients"), str(server.port), None, str(request)]

        def clients(count):
            return subprocess.Popen(command[:2] + [str(count)] + command[3:], text=True,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    preexec_fn=harness.on(harness.client_cpu()))

        # A first connection pays for what is made once.
        with clients(1) as first:
            Held(server, first).answered()
            first.stdin.close()
        before_kb = server.status("VmRSS")
        with clients(count) as process:
            them = Held(server, process)
            them.first_answers = them.answered()
            them.kb_each = (server.status("VmRSS") - before_kb) / count
            yield them
            process.stdin.close()


def memory(world):
    return world.get(held).kb_each


def still_served(world):
    them = world.get(held)
    return them.first_answers if them.first_answers != connections() else them.ask_again()


BENCHES = [
    Bench("idle connection, resident", "kB", memory, BUDGET_KB, "budget", at_most=1.0, rounds=1),
    Bench("idle connections, answered", "", still_served, connections(), "all", at_least=1.0,
          rounds=1),
]
