#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One owner does its worst; another does not notice."""

import os
import time
from pathlib import Path

from daemon import KEY, SANDBOX, Client, case, eventually, good, together
from small_base import run_with_cayd

EVIL = "(a+)+$"
TICKS = os.sysconf("SC_CLK_TCK")


def owner(cay, name):
    return Client(cay, cay.call(KEY + "CreateKey", {"owner": name})["secret"])


def cpu_s(cay):
    """Processor time of the daemon alone."""
    fields = Path(f"/proc/{cay.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def evil_sessions(client, count):
    """Sessions without sandboxes, with a text that an expression never gets through."""
    ids = [f"evil-{number}" for number in range(count)]
    good(together(*[lambda name=name: client.create(name, lazyStart=True) for name in ids]))
    text = ("a" * 40 + "!\n") * 100000
    for name in ids:
        client.tool(name, "write_file", path="/workspace/a", content=text)
    return ids


def search(client, name, pattern=EVIL):
    """A search whose answer nobody waits for yet."""
    return client.post(SANDBOX + "ExecuteTool", {"sessionId": name, "call": {
        "toolName": "grep", "params": {"pattern": pattern, "path": "/workspace/a"}}})


@case
def searches(cay):
    """however many endless searches one owner has in however many sessions, another's files are read at once"""
    evil, polite = owner(cay, "evil"), owner(cay, "polite")
    ids = evil_sessions(evil, 24)
    polite.create("polite", lazyStart=True)
    polite.tool("polite", "write_file", path="/workspace/f", content="fine\n")
    calls = [search(evil, name) for name in ids for _ in range(4)]
    eventually(lambda: is_busy(cay), "the searches are under way")
    took = []
    for _ in range(20):
        begun = time.monotonic()
        assert "fine" in str(polite.tool("polite", "read_file", path="/workspace/f"))
        took.append(time.monotonic() - begun)
    for call in calls:
        call.sock.close()
    assert max(took) < 3, took
    hung_up(cay)


def is_busy(cay):
    before = cpu_s(cay)
    time.sleep(0.2)
    return cpu_s(cay) - before > 0.05


def hung_up(cay):
    """Nobody waits any more, so nothing is done any more: what is at work ends within a tenth of a second of
    processor time each, what waits is not begun. The time-out of a search is thirty seconds."""
    before = cpu_s(cay)
    eventually(lambda: not is_busy(cay), "the daemon is at rest")
    used = cpu_s(cay) - before
    assert used < 4, used


@case
def hanging_up(cay):
    """a search ends when its caller hangs up, and when its time is over"""
    evil = owner(cay, "evil")
    call = search(evil, "evil-0")
    eventually(lambda: is_busy(cay), "the search is under way")
    call.sock.close()
    before = cpu_s(cay)
    eventually(lambda: not is_busy(cay), "the daemon is at rest")
    used = cpu_s(cay) - before
    assert used < 0.7, used


if __name__ == "__main__":
    run_with_cayd()
