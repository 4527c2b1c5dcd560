#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Rounds of everything a client can do and do wrong; then the daemon holds what it held before:
descriptors, threads, children, mounts, control groups, namespaces, files, layers, memory."""

import os
import re
import tempfile
from collections import Counter
from pathlib import Path

from building import archive, step
from daemon import (BASE, FILE, IS_FULL, MIB, PATIENCE_S, PROCESS, SANDBOX, Stream, b64, case, eventually,
                    fails, good, together)
from oracle import ACTOR, NO_HOST_BASE, act, clear, dump, layers, records
from small_base import run_with_cayd

WARM_UP = 3  # until caches have what they will ever have
THREADS_MAX = 24  # the loop and its workers
SPARES_MAX = 4
WAITING = 2  # in reserve: fewer than are asked for at once
ROUNDS = 60 if IS_FULL else 10
MEMORY_MIB = 12  # by which the heap may differ; a leak of one session's tree per round is more


def lives(cay):
    """Sessions come, work and go, in the usual ways."""
    cay.create("a", labels={"x": "y"})
    cay.create("lazy", lazyStart=True)
    act(cay, "a", "mkdir workspace/d 755", "write workspace/d/f 0 1000 data", "fifo workspace/p 600")
    cay.turn("a")
    cay.write("a", "big", b"x" * (2 * MIB))
    assert len(cay.read("a", "big")) == 2 * MIB
    cay.background("a", "echo ready; exec sleep 1000")
    cay.turn("a", durable=True)
    cay.snapshot("a", "named", publishBase="published")
    cay.call(BASE + "RemoveBase", {"name": "published"})
    cay.fork("a", count=3)
    cay.fork("a", snapshot="turn-0001", lazyStart=True)
    cay.diff("a")
    cay.rollback("a", "turn-0001")
    cay.rollback("a", "named", discard=True)
    dump(cay, "lazy")
    cay.call(SANDBOX + "RevokeTokens", {"sessionId": "a"})
    cay.destroy("a")


def leavers(cay):
    """Commands that leave children, time out, or are left by their client."""
    cay.create("b")
    cay.launch("b", "/bin/sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 3")
    cay.launch("b", "/bin/sleep", "1000", policy={"timeout": "0.05s"})
    for _ in range(3):
        cay.call(PROCESS + "LaunchProcess", {"sessionId": "b", "spec": {"argv": ["true"]}, "requestId": "once", "wait": "60s"})
    for _ in range(3):
        with cay.attach("b", "/bin/sh", "-c", "while :; do echo output; done") as stream:
            while "output" not in stream.next():
                pass
    with cay.open(FILE + "ReadFile", {"sessionId": "b", "path": "/bin/busybox"}) as stream:
        stream.next()
    with Stream(cay, FILE + "WriteFile") as stream:
        stream.send({"open": {"sessionId": "b", "path": "half"}})
        stream.send({"data": b64(b"x" * 100000)})
    with Stream(cay, BASE + "ImportBase") as stream:
        stream.send({"options": {"name": "half", "format": "BASE_FORMAT_TAR"}})
        stream.send({"data": b64(b"x" * 100000)})
    with cay.open(SANDBOX + "DiffSnapshots", {"sessionId": "b"}):
        pass
    raw = cay.socket(PATIENCE_S)
    raw.sendall(b"POST /cay.v1.SandboxService/CreateSession HTTP/1.1\r\nhost: x\r\ncontent-le")
    raw.close()


def failures(cay):
    """Calls that are refused, in every room."""
    cay.create("c")
    cay.turn("c")
    fails("already_exists", cay.create, "c", labels={"other": "labels"})
    fails("not_found", cay.create, "d", base="nowhere")
    fails("not_found", cay.rollback, "c", "nowhere")
    fails("not_found", cay.fork, "c", snapshot="nowhere")
    fails("invalid_argument", cay.snapshot, "c", "turn-0001")
    cay.snapshot("c", "twice")
    fails("already_exists", cay.snapshot, "c", "twice")
    fails("already_exists", cay.fork, "c", newSessionId="c")
    fails("not_found", cay.destroy, "nobody")
    fails("not_found", cay.file, "StatFile", "c", path="nothing")
    fails("invalid_argument", cay.create, "../x")
    assert cay.launch("c", "/no/such/program")[0]["exitCode"] == 127
    request = {"options": {"name": "other", "format": "BASE_FORMAT_DIRECTORY", "hostPath": "/nowhere"}}
    fails("invalid_argument", cay.send_all, BASE + "ImportBase", [request])
    cay.background("c", "echo ready; exec sleep 9999")


def builds(cay):
    """Builds by themselves with files that were put before: one takes the other's alias and place."""
    key = "ab" * 32
    for name, command in (("one", "true"), ("two", "true"), ("three", "exit 1")):
        frames = [{"key": key}, {"data": b64(archive(("file", b"x" * 1000)))}]
        cay.send_all(BASE + "PutBuildFiles", frames)
        steps = [step("COPY", "file", "/file") | {"files": key}, step("RUN", command)]
        build = {"name": name, "fromBase": "small", "steps": steps, "aliases": ["x/built:1"],
                 "goesWithAliases": True}
        build_id = cay.call(BASE + "StartBuild", {"build": build})["build"]["id"]
        eventually(lambda: cay.call(BASE + "GetBuild", {"buildId": build_id})["build"]["state"] !=
                   "BUILD_STATE_RUNNING", "the build ends", PATIENCE_S)
    cay.call(BASE + "UpdateBase", {"name": "two", "addAliases": ["x/built:2"]})
    with Stream(cay, BASE + "PutBuildFiles") as stream:
        stream.send({"key": key})
    for alias in ("x/built:1", "x/built:2"):
        cay.call(BASE + "RemoveBase", {"name": alias})
    eventually(lambda: "two" not in str(cay.call(BASE + "ListBases")), "the last one is gone", PATIENCE_S)


def once(cay):
    good(together(lambda: lives(cay), lambda: leavers(cay), lambda: failures(cay), lambda: builds(cay)))
    clear(cay)
    left = cay.leftovers()
    assert not left, left


def held(cay):
    """What the daemon holds of the machine, by kind."""
    cay.reserve_full(WAITING)
    process = Path(f"/proc/{cay.process.pid}")
    kinds = Counter()
    for name in cay.fds():
        name = name.removesuffix(" (deleted)").replace(str(cay.folder), "")
        name = re.sub(r"#\d+$", "#", name)  # a file without a name
        name = re.sub(r"/[0-9a-f]{16}\b", "/ID", name)  # of a sandbox that waits
        kinds[f"fd {name.split(':')[0] if ':' in name else name}"] += 1
    # Network namespaces are made ahead, up to a bound, by whoever has the time.
    kinds["fd net"] = max(SPARES_MAX, kinds["fd net"])
    # Workers are started when they are needed, up to a bound, and stay.
    kinds["threads"] = max(THREADS_MAX, len(os.listdir(process / "task")))
    kinds["children"] = len(cay.children())
    kinds["mounts"] = len(cay.mounts())
    kinds["cgroups"] = len(cay.cgroups())
    kinds["layers"] = len(layers(cay)[1])
    kinds["rows"] = sum(records(cay).values())
    kinds["files"] = sum(len(files) for _, _, files in os.walk(cay.run_dir))
    kinds["temporary files"] = len([name for name in os.listdir(tempfile.gettempdir())
                                    if name.startswith("cay") and name != cay.folder.name])
    return kinds


@case
def rounds(cay):
    """after rounds of everything the daemon holds what it held before"""
    for _ in range(WARM_UP):
        once(cay)
    before, rss = held(cay), cay.rss_bytes()
    for _ in range(ROUNDS):
        once(cay)
    grown = lambda: {kind: (before[kind], count) for kind, count in held(cay).items()
                     if count > before[kind]}
    try:
        eventually(lambda: not grown(), "it holds what it held", PATIENCE_S)
    except AssertionError:
        raise AssertionError(f"it holds more (before, now): {grown()}") from None
    more = cay.rss_bytes() - rss
    print(f"# {ROUNDS} rounds: {more / MIB:+.1f} MiB, {sum(before.values())} things held")
    assert more < cay.rss_room(MEMORY_MIB), f"memory grew by {more / MIB:.1f} MiB"


@case
def restart(cay):
    """after rounds of everything a new daemon on the same directories holds what one held before"""
    descriptors = lambda: sum(count for kind, count in held(cay).items() if kind.startswith("fd "))
    for _ in range(WARM_UP):
        once(cay)
    before = descriptors()
    cay.restart()
    once(cay)
    eventually(lambda: descriptors() <= before, "no more descriptors", PATIENCE_S)


if __name__ == "__main__":
    run_with_cayd(*NO_HOST_BASE, "--reserve", str(WAITING), tree_actor=ACTOR)
