#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon that has as many open files as it may: it says so, rests, and is well again when sessions go."""

import os
import time

from daemon import RpcError, case, eventually
from past import put, text_of
from small_base import run_with_cayd

OPEN_FILES = 300
SESSIONS_MAX = 2 * OPEN_FILES  # each holds one descriptor at least


def cpu_s(cay):
    with open(f"/proc/{cay.process.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def refusal(function, *arguments, **more):
    """The sentence of a call that the limit refuses; None when it succeeds."""
    try:
        function(*arguments, **more)
    except RpcError as error:
        assert error.code == "resource_exhausted" and "open files" in error.message, error
        return error.message
    return None


def rests(cay):
    before = cpu_s(cay)
    time.sleep(1)  # what is measured is this second
    assert cpu_s(cay) - before < 0.3, cpu_s(cay) - before


@case
def many_sessions(cay):
    """calls fail with a sentence when no descriptor is left, nothing spins, and all is well when sessions go"""
    cay.stop()
    cay.command = ["prlimit", f"--nofile={OPEN_FILES}:{OPEN_FILES}", *cay.command]
    cay.start()
    made = []
    while not refusal(cay.create, f"s{len(made)}", lazyStart=True):
        made.append(f"s{len(made)}")
        put(cay, made[-1], "file", made[-1])
        assert len(made) < SESSIONS_MAX, cay.fd_count()
    assert cay.ids() == sorted(made), "what was refused is not there"
    assert refusal(cay.sh, made[0], "true"), "a sandbox needs some more"
    assert text_of(cay, made[0], "file") == made[0]
    rests(cay)
    # Clients who knock all the same are let in as soon as there is room.
    waiting = [cay.socket(1) for _ in range(OPEN_FILES)]
    eventually(lambda: cay.fd_count() == OPEN_FILES, "all descriptors are taken")
    rests(cay)
    for connection in waiting:
        connection.close()
    for name in made[10:]:
        cay.destroy(name)
    eventually(lambda: cay.fd_count() < OPEN_FILES // 2, "they are given back")
    for name in made[:10]:
        assert cay.sh(name, "cat file") == name
        cay.turn(name)
    cay.create("after")


if __name__ == "__main__":
    run_with_cayd("--default-base", "small")
