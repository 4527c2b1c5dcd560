#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One owner does its worst; another does not notice."""

import collections
import contextlib
import gzip
import json
import os
import threading
import time
from pathlib import Path

from daemon import CGROUPS, KEY, SANDBOX, Client, Closed, Raw, Skip, case, eventually, good, together
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
    call = search(evil, evil_sessions(evil, 1)[0])
    eventually(lambda: is_busy(cay), "the search is under way")
    call.sock.close()
    before = cpu_s(cay)
    eventually(lambda: not is_busy(cay), "the daemon is at rest")
    used = cpu_s(cay) - before
    assert used < 0.7, used


def unfinished(client, size):
    """A call whose body never comes to its end."""
    raw = Raw(client.socket(60))
    raw.send((f"POST /{SANDBOX}GetSession HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n"
              f"content-length: {size + 1}\r\n{client.auth}\r\n").encode())
    with contextlib.suppress(OSError):  # it may be refused while it is sent
        raw.send(b" " * size)
    return raw


@case
def bodies(cay):
    """bodies of requests under way take bounded memory, of one owner and of all; others' calls are answered"""
    evil, polite = owner(cay, "evil"), owner(cay, "polite")
    polite.create("polite", lazyStart=True)
    before = cay.rss_bytes()
    raws = good(together(*[lambda: unfinished(evil, 15 << 20) for _ in range(40)]))
    refused = 0
    for raw in raws:
        raw.sock.settimeout(0.2)
        with contextlib.suppress(OSError, Closed):
            answer = raw.answer()
            assert answer.status == 429 and "owner_body_memory" in answer.json()["message"], answer.json()
            refused += 1
    grown = cay.rss_bytes() - before
    assert polite.call(SANDBOX + "ListSessions")
    polite.tool("polite", "write_file", path="/workspace/large", content="x" * (4 << 20))
    for raw in raws:
        raw.sock.close()
    assert refused >= 30, refused
    assert grown < cay.rss_room(300), grown


def loop_s(cay):
    """Processor time of the thread that everybody's calls go through."""
    thread = Path(f"/proc/{cay.process.pid}/task/{cay.process.pid}/schedstat")
    return int(thread.read_text().split()[0]) / 1e9


def dear_messages():
    """Small to send, large to decode; (its encoding, the bytes)."""
    head = b'{"sessionId":"polite","call":{"toolName":"read_file","params":{"path":['
    plain = head + b"1.234567890123456789e-300," * 500000 + b"0]}}}"
    return [("identity", plain), ("gzip", gzip.compress(plain, 1))]


@case
def messages(cay):
    """a message that takes long to decode is decoded beside the loop, and others are answered meanwhile"""
    evil = owner(cay, "evil")
    for encoding, body in dear_messages():
        head = (f"POST /{SANDBOX}ExecuteTool HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n"
                f"content-encoding: {encoding}\r\ncontent-length: {len(body)}\r\n{evil.auth}\r\n").encode()
        before, loop_before = cpu_s(cay), loop_s(cay)
        with Raw(evil.socket(60)) as raw:
            for _ in range(10):
                raw.send(head + body)
                assert raw.answer().status == 400
        # Processor time, not time: however busy the machine is, the loop's part of the work stays the same.
        used, of_loop = cpu_s(cay) - before, loop_s(cay) - loop_before
        assert of_loop < used / 3, (encoding, of_loop, used)


def loop_share(cay, call, count=20):
    """The loop's part of the processor time that the daemon takes for a call."""
    call()
    before, loop_before = cpu_s(cay), loop_s(cay)
    for _ in range(count):
        call()
    return (loop_s(cay) - loop_before) / (cpu_s(cay) - before)


@case
def e2b_messages(cay):
    """a message that came by E2B's door is decoded beside the loop, too"""
    evil = owner(cay, "evil")
    pairs = b",".join(b'"%d":"\\u0041"' % number for number in range(200000))
    body = b'{"templateID":"nobody","metadata":{' + pairs + b"}}"
    head = (f"POST /sandboxes HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n{evil.auth}\r\n").encode()
    with Raw(evil.socket(60)) as raw:
        def call():
            raw.send(head + body)
            answer = raw.answer()
            assert answer.status == 400 and b"metadata" in answer.body, answer.body[:500]
        share = loop_share(cay, call, 10)
    assert share < 0.33, share


@case
def answers(cay):
    """a large answer, and a large message of a stream, is encoded beside the loop"""
    evil = owner(cay, "evil")
    evil.create("large", lazyStart=True)
    text = '"\\"\\"\\\n' * 100000
    evil.tool("large", "write_file", path="/workspace/large", content=text)

    def read():
        call = {"maxResultBytes": 2 << 20}
        answer = evil.tool("large", "read_file", call, path="/workspace/large", limit=100000)
        assert len(answer["content"][0]["text"]) > len(text) / 2, str(answer)[-500:]

    def diff():
        entries, stats = evil.diff("large", patch=True, maxPatchBytes=8 << 20)
        assert stats["linesAdded"] == "100000" and len(entries) == 1, (list(entries), stats)

    for call in (read, diff):
        share = loop_share(cay, call)
        assert share < 0.25, (call.__name__, share)


def parts(cay):
    """What each sandbox gets of the processors when all want them, by the name of its group."""
    found = {}
    for name in ("cpu/*/*/cpu.shares", "*/cpu.weight", "*/*/cpu.weight", "*/*/*/cpu.weight"):
        for path in CGROUPS.glob(name):
            if path.parent.parent.name == cay.cgroup:
                found[path.parent.name] = int(path.read_text())
    return found


@case
def processors(cay):
    """however many sandboxes one owner has, they get no more of the processors than the one of another"""
    evil, polite = owner(cay, "evil"), owner(cay, "polite")
    polite.create("alone")
    mine = parts(cay)
    if not mine:
        raise Skip("no controller of processors here")
    names = [f"many-{number}" for number in range(5)]
    good(together(*[lambda name=name: evil.create(name) for name in names]))
    others = {name: part for name, part in parts(cay).items() if name not in mine}
    assert len(others) == 5 and sum(others.values()) <= max(mine.values()), (mine, others)
    assert all(parts(cay)[name] == part for name, part in mine.items()), (mine, parts(cay))
    for name in names[1:]:
        evil.destroy(name)
    assert len(parts(cay)) == 2 and min(parts(cay).values()) >= max(mine.values()) / 2, parts(cay)
    cay.restart()
    evil.sh(names[0], "true")
    assert min(parts(cay).values()) >= max(mine.values()) / 2, parts(cay)
    for client, name in ((evil, names[0]), (polite, "alone")):
        client.destroy(name)


@contextlib.contextmanager
def places_of_loop(cay):
    """Where in the kernel the thread that everybody's calls go through is seen to wait, and how often."""
    path = Path(f"/proc/{cay.process.pid}/task/{cay.process.pid}/wchan")
    found, is_over = collections.Counter(), threading.Event()

    def look():
        while not is_over.is_set():
            found[path.read_text()] += 1
    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()


@case
def trees(cay):
    """nobody waits while the kernel takes down a tree that a session does not need any more"""
    evil = owner(cay, "evil")
    for number in range(60):
        evil.create(f"tree-{number}", lazyStart=True)
        evil.tool(f"tree-{number}", "write_file", path="/workspace/f", content="x")
    with places_of_loop(cay) as found:
        for number in range(60):
            evil.sh(f"tree-{number}", "true")
            evil.destroy(f"tree-{number}")
    assert sum(found.values()) > 1000 and not [place for place in found if "rcu" in place], found


def packed_stream(client, message):
    """A stream without an end, begun by a packed message; its connection."""
    data = gzip.compress(message, 1)
    raw = Raw(client.socket(60))
    raw.send((f"POST /{SANDBOX}WatchEvents HTTP/1.1\r\nhost: test\r\ncontent-type: application/connect+json\r\n"
              f"connect-content-encoding: gzip\r\ncontent-length: {len(data) + 5}\r\n{client.auth}\r\n").encode()
             + b"\1" + len(data).to_bytes(4, "big") + data)
    return raw


@case
def decoded(cay):
    """what messages decode to takes bounded memory, too, however small they came"""
    evil, polite = owner(cay, "evil"), owner(cay, "polite")
    polite.create("polite", lazyStart=True)
    message = b'{"labels":{' + b",".join(b'"%d":""' % number for number in range(400000)) + b"}}"
    before = cay.rss_bytes()
    raws = [packed_stream(evil, message) for _ in range(30)]
    said = [raw.until(b"}") for raw in raws]
    grown = cay.rss_bytes() - before
    assert polite.call(SANDBOX + "ListSessions")
    for raw in raws:
        raw.sock.close()
    assert sum(b"owner_body_memory" in text for text in said) >= 20, said[-1]
    assert grown < cay.rss_room(400), grown


class Line:
    """One connection for many calls."""

    def __init__(self, client):
        self.client = client
        self.raw = Raw(client.socket(60))

    def call(self, method, message, status=200):
        body = json.dumps(message).encode()
        self.raw.send((f"POST /{method} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n"
                       f"content-length: {len(body)}\r\n{self.client.auth}\r\n").encode() + body)
        answer = self.raw.answer()
        assert answer.status == status, answer.body[:500]
        return answer


def loop_cost_s(cay, call, count=40):
    """Processor time of the loop for one call. The first one may find out what others then know."""
    call()
    before = loop_s(cay)
    for _ in range(count):
        call()
    return (loop_s(cay) - before) / count


def long_past(client, name, turns):
    """A session with that many turns; of the last one but one it is held."""
    def some():
        line = Line(client)
        for _ in range(turns // 4):
            line.call(SANDBOX + "TurnComplete", {"sessionId": name})

    client.create(name, lazyStart=True)
    good(together(some, some, some, some))
    client.call(SANDBOX + "HoldSnapshot", {"sessionId": name, "snapshot": f"turn-{turns - 1:04}"})


LOOKS = {  # what is asked, of which status, and how much more it may cost with a past 600 times as long
    "a page": ("ListSnapshots", {"pageSize": 1}, 200, 4),
    "a page from behind": ("ListSnapshots", {"pageSize": 1, "order": "ORDER_CREATED_DESC"}, 200, 4),
    "a later page": ("ListSnapshots", {"pageSize": 1, "pageToken": "turn-0008"}, 200, 4),
    "one to delete": ("DeleteSnapshot", {"snapshots": ["turn-0008"], "dryRun": True}, 200, 4),
    "a refusal to discard": ("RollbackSession", {"snapshot": "turn-0001", "discard": True}, 400, 1000),
}


@case
def long_pasts(cay):
    """what the loop does for a page of a long past, or before a deletion, does not grow with that past"""
    evil = owner(cay, "evil")
    long_past(evil, "short-past", 12)
    long_past(evil, "long-past", 7200)
    line = Line(evil)
    for what, (verb, message, status, most) in LOOKS.items():
        cost = {name: loop_cost_s(cay, lambda name=name: line.call(
            SANDBOX + verb, {"sessionId": name} | message, status)) for name in ("short-past", "long-past")}
        assert cost["long-past"] < most * cost["short-past"], (what, cost)


if __name__ == "__main__":
    # Not the base that the daemon makes of the host by itself: that takes time, too.
    run_with_cayd("--default-base", "small", "--reserve", "0")
