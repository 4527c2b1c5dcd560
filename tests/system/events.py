#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Events: what happened, for readers at their own pace; the audit log."""

import json
import stat

from daemon import SANDBOX, Client, RpcError, case, eventually, fails
from past import put
from process_client import Processes
from small_base import run_with_cayd

WATCH = SANDBOX + "WatchEvents"


def kept(cay, **fields):
    """All events that are kept, oldest first."""
    frames = cay.stream(WATCH, {"noFollow": True} | fields)
    return [frame["event"] for frame in frames if "event" in frame]


def types(events):
    return [event["type"] for event in events]


@case
def told(cay):
    """what is done to a session is told in order, with who did it and to what"""
    cay.create("e", labels={"team": "a"})
    put(cay, "e", "file", "1")
    cay.turn("e")
    cay.snapshot("e", "mine")
    cay.rollback("e", "turn-0001")
    cay.call(SANDBOX + "UpdateSession", {"sessionId": "e", "setLabels": {"x": "y"}})
    cay.call(SANDBOX + "PauseSession", {"sessionId": "e"})
    cay.call(SANDBOX + "ResumeSession", {"sessionId": "e"})
    cay.call(SANDBOX + "DeleteSnapshot", {"sessionId": "e", "snapshots": ["mine"]})
    fork = cay.fork("e", snapshot="turn-0001", lazyStart=True)[0]["id"]
    cay.destroy(fork)
    cay.destroy("e")
    events = kept(cay, sessionIds=["e"])
    assert types(events) == [
        "session.created", "tool.completed", "snapshot.created", "snapshot.created",
        "session.rolled_back", "session.updated", "session.paused", "session.resumed",
        "snapshot.deleted", "session.destroyed"], types(events)
    assert all(event["actor"] == "local" and event["owner"] for event in events), events
    assert events[1]["data"]["tool_name"] == "write_file" and events[2]["snapshot"] == "turn-0001"
    assert types(kept(cay, sessionIds=[fork])) == ["session.forked", "session.destroyed"]
    cursors = [event["cursor"] for event in events]
    assert len(set(cursors)) == len(cursors)
    assert types(kept(cay, cursor=cursors[6], sessionIds=["e"])) == types(events[7:])
    assert set(types(kept(cay, types=["session"], sessionIds=["e"]))) == {
        name for name in types(events) if name.startswith("session.")}
    assert types(kept(cay, kinds=["EVENT_KIND_TOOL"], sessionIds=["e"])) == ["tool.completed"]


@case
def followed(cay):
    """a reader that waits hears of things as they happen"""
    with cay.open(WATCH, {"types": ["session.created", "process"]}) as stream:
        assert "heartbeat" in stream.next()
        cay.create("f")
        frame = stream.next()
        assert frame["event"]["type"] == "session.created" and frame["cursor"], frame
        cay.background("f", "echo ready; sleep 1000")
        process = stream.next()["event"]
        assert process["type"] == "process.started" and process["processId"], process
        cay.call("cay.v1.ProcessService/KillProcess", {
            "sessionId": "f", "processId": process["processId"], "signal": 9})
        ended = stream.next()["event"]
        assert ended["type"] == "process.exited", ended
        assert ended["processId"] == process["processId"], ended
    cay.destroy("f")


@case
def survives(cay):
    """the journal outlives its daemon, also one that was killed: cursors go on, and nothing is told twice"""
    path = cay.data / "events"
    cay.create("l", lazyStart=True)
    cursor = kept(cay)[-1]["cursor"]
    before = kept(cay)
    for torn in (b"", b"\xff\x00\x00\x00half of an event"):
        eventually(lambda: cursor.encode() in path.read_bytes(), "it is written")
        cay.kill()
        with open(path, "ab") as file:  # the daemon was cut off while it wrote
            file.write(torn)
        cay.start()
        assert kept(cay) == before
        cay.call(SANDBOX + "UpdateSession", {"sessionId": "l", "setLabels": {"x": "y"}})
        frames = cay.stream(WATCH, {"noFollow": True, "cursor": cursor})
        assert not any("gap" in frame for frame in frames), frames
        assert types(frame["event"] for frame in frames if "event" in frame) == ["session.updated"], frames
        before = kept(cay)
        cursor = before[-1]["cursor"]
    cursors = [event["cursor"] for event in before]
    assert len(set(cursors)) == len(cursors)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    cay.destroy("l")


@case
def lost(cay):
    """a cursor of what is not kept gives a gap and all that is; nonsense is refused"""
    cay.create("l", lazyStart=True)
    last = kept(cay)[-1]["cursor"]
    life, _, number = last.partition("-")
    cay.restart()
    cay.destroy("l")
    for unknown in ("0" * 16 + "-1", f"{life}-{int(number) + 7}"):
        frames = cay.stream(WATCH, {"noFollow": True, "cursor": unknown})
        assert any("gap" in frame for frame in frames), frames
        assert types(frame["event"] for frame in frames if "event" in frame)[-1] == "session.destroyed"
    for bad in ("x", "0" * 16 + "-", "0" * 16 + "-x", "-1"):
        fails("invalid_argument", cay.stream, WATCH, {"cursor": bad})
    fails("invalid_argument", cay.stream, WATCH, {"kinds": ["EVENT_KIND_UNSPECIFIED"]})


@case
def own_only(cay):
    """a caller hears of its own sessions only"""
    key = cay.call("cay.v1.KeyService/CreateKey", {"owner": "guest"})["secret"]
    guest = Client(cay, key)
    guest.create("g", lazyStart=True)
    cay.create("h", lazyStart=True)
    seen = kept(guest)
    assert {event["sessionId"] for event in seen} == {"g"}, seen
    assert seen[0]["actor"] not in ("", "local"), "it was done with a key"
    assert {event["sessionId"] for event in kept(cay)} >= {"g", "h"}
    for name in ("g", "h"):
        cay.destroy(name)


def takes(client, process_id, data):
    """It takes this input now."""
    try:
        client.send(process_id, data)
        return True
    except RpcError as error:
        assert error.code == "resource_exhausted", error
        return False


@case
def processes(cay):
    """a process is told of once when it starts and once when it ends, with its command and how it went"""
    cay.create("p")
    client = Processes(cay, "p")
    process = client.start("/bin/sh", "-c", "cat >/dev/null; exit 3", stdinOpen=True, tag="eater", user="user")
    for _ in range(40):  # each piece makes room for the next
        eventually(lambda: takes(client, process["id"], b"x" * 32768), "there is room")
    client.call("CloseInput", processId=process["id"])
    client.result(process["id"])
    cay.launch("p", "/bin/sh", "-c", "sleep 0.4; kill -9 $$", user="root")
    cay.tool("p", "bash", cmd="exit 7")

    def told():
        events = kept(cay, sessionIds=["p"], kinds=["EVENT_KIND_PROCESS", "EVENT_KIND_TOOL"])
        return [(event["type"], event.get("reason"), event.get("data", {})) for event in events]
    eventually(lambda: len(told()) >= 5, "all is told")
    started, exited, second, killed, tool = told()
    assert started[0] == "process.started" and exited[:2] == ("process.exited", "exited"), told()
    assert second[0] == "process.started" and killed[:2] == ("process.exited", "signaled"), told()
    for facts in (started[2], exited[2]):
        assert facts["command"] == "/bin/sh -c cat >/dev/null; exit 3" and facts["user"] == "user", facts
        assert facts["tag"] == "eater" and facts["pid"] > 0, facts
    assert exited[2]["exit_code"] == 3 and exited[2]["duration_ms"] >= 0, exited
    assert killed[2]["signal"] == 9 and killed[2]["user"] == "root" and killed[2]["duration_ms"] >= 400, killed
    assert tool[0] == "tool.completed" and tool[2]["tool_name"] == "bash" and tool[2]["exit_code"] == 7, tool
    assert tool[2]["command"] == "exit 7" and tool[2]["duration_ms"] >= 0 and tool[2]["user"], tool
    cay.destroy("p")


@case
def many(cay):
    """more events than are kept: the newest are there, and memory is bounded"""
    cay.create("m", lazyStart=True)
    put(cay, "m", "file", "x")
    with cay.open(WATCH, {"sessionIds": ["m"]}) as slow:
        slow.next()
        first = kept(cay, sessionIds=["m"])[0]["cursor"]
        for _ in range(300):
            cay.tool("m", "read_file", path="file")
        got = [slow.next() for _ in range(300)]
        assert all(frame["event"]["type"] == "tool.completed" for frame in got)
    assert len(kept(cay, sessionIds=["m"], cursor=first)) >= 300
    cay.destroy("m")


@case
def audited(cay):
    """the audit log has who did what, and no contents; only the daemon's user reads it"""
    secret = "a-very-secret-content"
    cay.create("a")
    put(cay, "a", "file", secret)
    cay.tool("a", "bash", cmd=f"echo {secret}")
    cay.destroy("a")
    path = cay.folder / "data" / "audit.log"

    def lines():
        return [json.loads(line) for line in path.read_text().splitlines()]
    eventually(lambda: any(line["type"] == "session.destroyed" and line["sessionId"] == "a"
                           for line in lines()), "it is written")
    mine = [line for line in lines() if line.get("sessionId") == "a"]
    assert types(mine) == ["session.created", "tool.completed", "tool.completed",
                           "session.destroyed"], mine
    assert all(line["actor"] == "local" and line["time"] for line in mine)
    assert secret not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not [line for line in lines() if line.get("data", {}).get("tool_name") == "read_file"]


if __name__ == "__main__":
    run_with_cayd()
