#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon that may have 300 files open: when they are used up, every call says what to do, nothing spins, and all
works again when sessions go."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

from daemon import PROCESS, SANDBOX, Cayd, Closed, RpcError, case, eventually
from past import put, text_of
from small_base import run_on

CAY = sys.argv[2]
LIMIT = 300
REASON = "too_many_open_files"


class Few(Cayd):
    """The soft limit is lower still: the daemon raises it."""

    def start(self):
        if self.command[0] != "prlimit":
            self.command = ["prlimit", f"--nofile=100:{LIMIT}", "--", *self.command]
        super().start()


def soft_limit(pid):
    line, = (line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if line.startswith("Max open files"))
    return int(line.split()[3])


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def refusal(function, *arguments, **fields):
    """None when it went well. A refusal is in the words for it, always."""
    try:
        function(*arguments, **fields)
    except RpcError as error:
        assert error.code == "resource_exhausted" and error.reason in (REASON, None), error
        assert "LimitNOFILE" in str(error) and "end sessions" in str(error), error
        return error
    return None


def is_quiet(cay):
    """Once it has done what was left to do, it takes next to no time in a second."""
    def seldom_runs():
        before = cpu_seconds(cay.process.pid)
        time.sleep(1)
        return cpu_seconds(cay.process.pid) - before < 0.1
    eventually(seldom_runs, "nothing spins")


def expose(cay, session_id, number):
    return cay.call(PROCESS + "ExposePort", {"sessionId": session_id, "port": {"port": number}})["port"]


def clear(cay):
    for session_id in cay.ids():
        cay.destroy(session_id)


def until_refused(function, prefix):
    """Sessions until there are no more; those that were made."""
    made = []
    for number in range(LIMIT + 1):
        error = refusal(function, f"{prefix}{number}")
        if error:
            assert error.reason == REASON, error
            return made
        made.append(f"{prefix}{number}")
    raise AssertionError("they are never used up")


def use_up(cay, prefix):
    clear(cay)
    return until_refused(lambda name: cay.create(name, lazyStart=True), prefix)


@case
def raised(cay):
    """the daemon raises its limit as far as it may, and says when that is little; so does cay doctor"""
    assert soft_limit(cay.process.pid) == LIMIT
    assert "cayd.few_descriptors" in cay.log_path.read_text()
    said = subprocess.run(["prlimit", f"--nofile=100:{LIMIT}", "--", CAY, "doctor", "--data", str(cay.data)],
                          capture_output=True, text=True, check=False).stdout
    line, = (line for line in said.splitlines() if f"up to {LIMIT} open files" in line)
    assert "LimitNOFILE" in said and "warn" in line.lower(), said


@case
def sessions(cay):
    """lazily made sessions, and what runs in them, are refused before nothing else works any more"""
    before = cay.fd_count()
    made = use_up(cay, "lazy")
    assert len(made) > 20 and cay.fd_count() < LIMIT - 20, (len(made), cay.fd_count())
    outcomes = [refusal(cay.sh, session_id, "true") for session_id in made]
    assert outcomes[-1] and outcomes[-1].reason == REASON, outcomes[-1]
    is_quiet(cay)
    # What is there can be looked at, worked with and removed.
    for session_id in made:
        cay.get(session_id)
        put(cay, session_id, "file", session_id)
        assert text_of(cay, session_id, "file") == session_id
    assert not refusal(cay.turn, made[0]) and len(cay.log(made[0])) == 1
    until_refused(lambda name: cay.fork(made[0], newSessionId=name, lazyStart=True), "fork")
    until_refused(cay.create, "whole")
    clear(cay)
    eventually(lambda: cay.fd_count() <= before + 8, f"they are given back: {before}, {cay.fd_count()}")


@case
def running(cay):
    """sandboxes use them up: those that run go on, with commands and streams"""
    clear(cay)
    made = until_refused(cay.create, "s")
    assert len(made) > 8, made
    for session_id in made:
        assert cay.sh(session_id, "echo here") == "here\n"
    with contextlib.ExitStack() as streams:
        for session_id in made[:8]:
            stream = streams.enter_context(cay.attach(session_id, "/bin/sh", "-c", "echo begun; sleep 1000"))
            while "output" not in stream.next():
                pass
        is_quiet(cay)
        until_refused(cay.create, "more")
        until_refused(lambda name: expose(cay, made[0], 8000 + int(name)), "")
        assert cay.sh(made[0], "echo here") == "here\n"
    clear(cay)


@case
def connections(cay):
    """connections use them up: whoever comes beyond that is told, nothing spins, and calls work when they go"""
    made = use_up(cay, "c")
    with contextlib.ExitStack() as held:
        for _ in range(LIMIT + 100):
            sock = cay.socket(30)
            held.callback(sock.close)
        is_quiet(cay)
        told = 0
        for _ in range(20):
            try:
                cay.call(SANDBOX + "GetSession", {"sessionId": made[0]}, timeout_s=5)
            except RpcError as error:
                assert error.code == "resource_exhausted" and "LimitNOFILE" in str(error), error
                told += 1
            except (Closed, ConnectionError, OSError):
                pass  # it said so before it had heard the call
        assert told, "nobody was told why"
    eventually(lambda: not refusal(cay.get, made[0]), "calls work again")
    assert cay.process.poll() is None
    for session_id in made:
        cay.destroy(session_id)


@case
def works_again(cay):
    """with the sessions gone everything works"""
    assert not cay.ids()
    cay.create("after")
    assert cay.sh("after", "echo fine") == "fine\n"
    cay.turn("after")
    expose(cay, "after", 8000)
    cay.file("StatFile", "after", path="/etc/passwd")
    cay.restart()
    assert cay.sh("after", "echo fine") == "fine\n" and soft_limit(cay.process.pid) == LIMIT
    cay.destroy("after")
    assert not cay.leftovers(), cay.leftovers()


if __name__ == "__main__":
    run_on(lambda: Few("--reserve", "0"))  # it is counted what is open
