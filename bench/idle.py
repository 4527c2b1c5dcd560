# SPDX-License-Identifier: Apache-2.0
"""Idle keep-alive connections: what each holds in memory, and whether all are still served."""

import contextlib
import resource
import subprocess

import daemon
import harness
import load
from harness import Bench

CONNECTIONS = 10_000
SPARE_DESCRIPTORS = 200
BUDGET_KB = 10


def allow_descriptors():
    """The daemon inherits the limit. Root may raise it."""
    wanted = CONNECTIONS + SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        except (ValueError, PermissionError):
            raise harness.Skip(f"needs {wanted} open files, the hard limit is {hard}") from None


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
    allow_descriptors()
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
        with clients(CONNECTIONS) as process:
            connections = Held(server, process)
            connections.first_answers = connections.answered()
            connections.kb_each = (server.status("VmRSS") - before_kb) / CONNECTIONS
            yield connections
            process.stdin.close()


def memory(world):
    return world.get(held).kb_each


def still_served(world):
    connections = world.get(held)
    if connections.first_answers != CONNECTIONS:
        return connections.first_answers
    return connections.ask_again()


BENCHES = [
    Bench("idle connection, resident", "kB", memory, BUDGET_KB, "budget", at_most=1.0, rounds=1),
    Bench("idle connections, answered", "", still_served, CONNECTIONS, "all", at_least=1.0,
          rounds=1),
]
