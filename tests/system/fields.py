#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Fields of the contract: what a request says is heeded, and what an answer promises is there."""

import re
import threading

from daemon import (BASE, PROCESS, SANDBOX, Cayd, b64, case, eventually, fails, is_chosen,
                    list_if_asked, unb64)
from small_base import import_small, run_with_cayd, small_cayd

silent = {}  # a stream without output, under way while other cases run
GREEDY = "a=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#a}"


def stream(cay, session_id, tool_name, call=None, **params):
    request = {"sessionId": session_id, "call": {"toolName": tool_name, "params": params} | (call or {})}
    return cay.stream(SANDBOX + "ExecuteToolStream", request, timeout_s=90)


@case
def unknown_fields(cay):
    """a misspelt field is refused with the right one, at any depth, and nothing is made"""
    cay.create("quiet")
    for request, nearest in (({"sesionId": "x"}, "sessionId"), ({"sesion_id": "x"}, "session_id"),
                             ({"id": "x"}, "session_id"), ({"limits": {"memoryByte": 1}}, "memoryBytes"),
                             ({"limits": {"memory": 1}}, "memory_bytes"),
                             ({"lifecycle": {"onExpirey": 1}}, "onExpiry")):
        error = fails("invalid_argument", cay.call, SANDBOX + "CreateSession", request)
        assert error.message.endswith(f"did you mean '{nearest}'?"), error
        assert error.metadata == {"nearest": nearest}, error.metadata
    error = fails("invalid_argument", cay.call, SANDBOX + "CreateSession",
                  {"lifecycle": {"onExpiry": "PAUSE"}})
    assert "did you mean 'EXPIRY_ACTION_PAUSE'?" in error.message, error
    error = fails("invalid_argument", cay.stream, SANDBOX + "DiffSnapshots", {"sessionId": "quiet", "path": []})
    assert error.metadata == {"nearest": "paths"}, error.metadata
    assert cay.ids() == ["quiet"]


@case
def facts(cay):
    """errors carry facts for programs"""
    error = fails("not_found", cay.get, "nobody")
    assert error.metadata == {"session_id": "nobody"}, error.metadata
    cay.create("facts", lazyStart=True)
    cay.destroy("facts")
    error = fails("not_found", cay.get, "facts")
    assert error.metadata == {"session_id": "facts", "gone": "destroyed"}, error.metadata
    cay.create("facts", lazyStart=True)
    assert fails("not_found", cay.tool, "facts", "raed_file", path="x").metadata == {"nearest": "read_file"}
    assert fails("not_found", cay.rollback, "facts", "x").metadata == {"session_id": "facts"}
    cay.call(SANDBOX + "PauseSession", {"sessionId": "facts"})
    error = fails("failed_precondition", cay.bash, "facts", "true", reason="session_paused")
    assert error.metadata == {"session_id": "facts", "state": "paused"}, error.metadata
    error = fails("not_found", cay.get, "\n" * 3000)
    assert error.metadata == {}, error.metadata
    cay.destroy("facts")


@case
def by_alias(cay):
    """sessions are listed by their base's name and by its aliases"""
    cay.create("quiet", lazyStart=True)
    import_small(cay, "other")
    cay.call(BASE + "UpdateBase", {"name": "other", "addAliases": ["nick"]})
    cay.create("a", base="other", lazyStart=True)
    cay.create("b", base="nick", lazyStart=True)
    for name, wanted in (("other", ["a", "b"]), ("nick", ["a", "b"]), ("small", ["quiet"]), ("none", [])):
        found = cay.call(SANDBOX + "ListSessions", {"base": name}).get("sessions", [])
        assert sorted(session["id"] for session in found) == wanted, (name, found)
    cay.destroy("a")
    cay.destroy("b")
    cay.call(BASE + "RemoveBase", {"name": "other"})


@case
def tools_of(cay):
    """the tools of a session are those of one that exists and is the caller's"""
    cay.create("quiet", lazyStart=True)
    names = [tool["name"] for tool in cay.call(SANDBOX + "ListTools")["tools"]]
    of = cay.call(SANDBOX + "ListTools", {"sessionId": "quiet"})["tools"]
    assert [tool["name"] for tool in of] == names and "bash" in names
    fails("not_found", cay.call, SANDBOX + "ListTools", {"sessionId": "nobody"})


@case
def file_tool_timeout(cay):
    """a file tool ends at the time its call names, with what it has until then"""
    cay.create("file-tool-timeout")
    cay.sh("file-tool-timeout", "for i in $(seq 300); do mkdir $i; for j in 1 2 3 4 5 6 7 8; do "
           "echo text > $i/$j; done; done; echo one > f")
    call = {"policy": {"timeout": "0.001s"}}
    late = cay.tool("file-tool-timeout", "grep", call, pattern="text", path="/workspace")
    assert late["data"]["timed_out"] is True, late["data"]
    whole = cay.tool("file-tool-timeout", "grep", pattern="text", path="/workspace")
    assert whole["data"]["timed_out"] is False and int(whole["data"]["match_count"]) == 2400, whole["data"]
    fails("invalid_argument", cay.tool, "file-tool-timeout", "grep", {"policy": {"timeout": "-1s"}}, pattern="x")
    assert cay.tool("file-tool-timeout", "read", {"policy": {"timeout": "5s"}}, path="f", limit=1).get("content")
    cay.destroy("file-tool-timeout")


@case
def usage(cay):
    """what sessions use is told: with one session always, in lists if asked for"""
    cay.create("usage", limits={"memoryBytes": str(64 << 20)})
    cay.sh("usage", "dd if=/dev/zero of=big bs=1M count=8 2>/dev/null; cat big > /dev/null")
    result = cay.bash("usage", GREEDY)
    assert result["exec"]["cause"] == "END_CAUSE_OOM", result
    listed = {s["id"]: s for s in cay.call(SANDBOX + "ListSessions", {"includeUsage": True})["sessions"]}
    used = listed["usage"]["usage"]
    assert int(used["diskBytes"]) >= 8 << 20 and int(used["inodes"]) >= 1, used
    assert int(used["memoryBytes"]) > 0 and used["measuredAt"], used
    assert int(used.get("memoryCacheBytes", 0)) > 0, used
    assert int(used.get("oomKills", 0)) >= 1, (used, result)
    plain = {s["id"]: s for s in cay.call(SANDBOX + "ListSessions")["sessions"]}
    assert "memoryBytes" not in plain["usage"].get("usage", {}), plain
    assert int(cay.get("usage")["usage"]["memoryBytes"]) > 0
    host = cay.call(SANDBOX + "GetUsage")["host"]
    assert int(host["baseBytes"]) > 1 << 20, host
    cay.destroy("usage")


@case
def process_count(cay):
    """a session and the host say how many processes live"""
    cay.create("process-count")
    assert "processCount" not in cay.get("process-count")
    first = cay.call(PROCESS + "LaunchProcess", {"sessionId": "process-count", "spec": {"argv": ["sleep", "1000"]}})
    cay.call(PROCESS + "LaunchProcess", {"sessionId": "process-count", "spec": {"argv": ["sleep", "1000"]}})
    assert cay.get("process-count")["processCount"] == 2
    assert int(cay.call(SANDBOX + "GetUsage")["host"]["processes"]) >= 2
    cay.call(PROCESS + "KillProcess", {"sessionId": "process-count", "processId": first["process"]["id"], "signal": 9,
                                       "wait": True})
    assert cay.get("process-count")["processCount"] == 1
    cay.destroy("process-count")


@case
def started_names_its_process(cay):
    """a streamed command says at once which process it is, and that one can be killed"""
    cay.create("started-names-its-process")
    request = {"sessionId": "started-names-its-process", "call": {"toolName": "bash", "params": {"cmd": "echo here; sleep 1000"}}}
    with cay.open(SANDBOX + "ExecuteToolStream", request) as frames:
        started = frames.next()["started"]
        assert started["processId"], started
        assert b"here" in unb64(frames.next()["output"]["data"])
        cay.call(PROCESS + "KillProcess", {"sessionId": "started-names-its-process", "processId": started["processId"], "signal": 9})
        result = list(frames)[-1]["result"]
    assert result["exec"]["signal"] == 9 and result["isError"], result
    frames = stream(cay, "started-names-its-process", "bash", cmd="sleep 1000", background=True)
    assert frames[0]["started"]["processId"] == frames[-1]["result"]["processId"], frames
    frames = stream(cay, "started-names-its-process", "read_file", path="/etc/passwd")
    assert "processId" not in frames[0]["started"] and "result" in frames[-1], frames
    cay.destroy("started-names-its-process")


@case
def cached(cay):
    """the result of an earlier call with the same id says that it is that"""
    cay.create("cached")
    call = {"toolCallId": "once"}
    assert not cay.tool("cached", "bash", call, cmd="date +%N").get("cached")
    again = cay.tool("cached", "bash", call, cmd="date +%N")
    assert again["cached"] is True, again
    frames = stream(cay, "cached", "bash", call, cmd="date +%N")
    assert len(frames) == 1 and frames[0]["result"]["cached"] is True, frames
    assert frames[0]["result"]["content"] == again["content"]
    assert not cay.tool("cached", "bash", {"toolCallId": "twice"}, cmd="date +%N").get("cached")
    cay.destroy("cached")


@case
def sentences(cay):
    """how a command ended is a sentence too; after exit code 0 there is none"""
    cay.create("sentences", limits={"memoryBytes": str(64 << 20)})
    for script, policy, sentence in (
            ("true", {}, None), ("exit 3", {}, "exit code 3"), ("kill -9 $$", {}, "killed by signal 9"),
            ("sleep 100", {"timeout": "0.3s"}, "timed out after"),
            ("sleep 100", {"noOutputTimeout": "0.3s"}, "no output for too long"),
            (GREEDY, {}, "memory limit was reached")):
        result = cay.launch("sentences", "/bin/bash", "-c", script, policy=policy)[0]
        message = result.get("message", "")
        assert (sentence in message) if sentence else message == "", (script, result)
        said = cay.bash("sentences", script, {"policy": policy})
        assert said["exec"].get("message", "").split(" ")[:2] == message.split(" ")[:2], (said, message)
        if sentence:
            assert f"[{said['exec']['message']}]" in said["content"][0]["text"], said
    cay.destroy("sentences")


@case
def events(cay):
    """an event names the request that caused it, and its port as a number"""
    cay.create("events")
    port = cay.call(PROCESS + "ExposePort", {"sessionId": "events", "port": {"port": 8123}})["port"]
    assert "url" not in port, port
    cay.call(PROCESS + "UnexposePort", {"sessionId": "events", "port": 8123})
    frames = cay.stream(SANDBOX + "WatchEvents", {"noFollow": True, "sessionIds": ["events"]})
    found = {frame["event"]["type"]: frame["event"] for frame in frames if "event" in frame}
    assert found["port.exposed"]["port"] == found["port.closed"]["port"] == 8123, found
    ids = [found[name]["requestId"] for name in ("session.created", "port.exposed", "port.closed")]
    assert len(set(ids)) == 3 and all(re.fullmatch("[0-9a-f]{16}", one) for one in ids), ids
    cay.destroy("events")


@case
def configured(_):
    """where the daemon proxies ports under a domain, a port has its URL; the access log names requests"""
    with Cayd("--e2b-domain", "box.test:8080", "--access-log=true") as other:
        import_small(other)
        for session_id, url in (("one", "http://8123-one.box.test:8080"), ("One.Two", None)):
            other.create(session_id)
            port = other.call(PROCESS + "ExposePort", {"sessionId": session_id, "port": {"port": 8123}})["port"]
            assert port.get("url") == url, port
            other.destroy(session_id)
        frames = other.stream(SANDBOX + "WatchEvents", {"noFollow": True, "types": ["session.created"]})
        for event in (frame["event"] for frame in frames if "event" in frame):
            wanted = re.compile(rf"CreateSession.* request={event['requestId']} ")
            eventually(lambda: wanted.search(other.log_path.read_text()), "a line of the access log")


@case
def pieces_of_input(_):
    """input that comes in pieces does not fill the log: one that fails is there, others only at the level debug"""
    count = 50
    for level, logged in (("info", 0), ("debug", count)):
        with Cayd("--default-base", "small", "--access-log=true", "--log-level", level) as other:
            import_small(other)
            other.create("one")
            request = {"sessionId": "one", "spec": {"argv": ["cat"], "stdinOpen": True}}
            process = other.call(PROCESS + "LaunchProcess", request)["process"]["id"]
            piece = {"sessionId": "one", "processId": process, "data": b64(b"x" * 1000)}
            for _ in range(count):
                other.call(PROCESS + "SendInput", piece)
            fails("not_found", other.call, PROCESS + "SendInput", piece | {"processId": "nobody"})
            eventually(lambda log=other: "code=not_found" in log.log_path.read_text(), "what failed is logged")
            lines = [line for line in other.log_path.read_text().splitlines() if "/SendInput " in line]
            assert len(lines) == logged + 1, lines[:3]
            events = other.stream(SANDBOX + "WatchEvents", {"noFollow": True, "sessionIds": ["one"]})
            assert len(events) < count / 2, events
            assert (other.data / "audit.log").read_text().count("\n") < count / 2
            other.destroy("one")


@case
def call_memory(cay):
    """the capabilities name every limit that there is"""
    limits = cay.call(SANDBOX + "GetCapabilities")["capabilities"]["limits"]
    assert {limit["name"] for limit in limits} == {
        "cpus", "memory", "pids", "disk", "inodes", "call_memory"}, limits


@case
def looked_after(cay):
    """some time after a snapshot it is synced, and what it changed is counted; a parent that goes counts anew"""
    cay.create("after")
    cay.sh("after", "mkdir d; echo 1 > d/a; echo 1 > b")
    first = cay.turn("after")
    assert not first.get("durable") and "changes" not in first, first
    cay.sh("after", "echo 2 > b; rm d/a; echo 3 > c")
    cay.turn("after")
    cay.turn("after")

    def counts():
        log = cay.log("after")
        return [{k: int(v) for k, v in s["changes"].items()} for s in log if s.get("durable") and "changes" in s]
    wanted = [{"added": 3}, {"added": 1, "modified": 1, "deleted": 1}, {}]
    eventually(lambda: counts() == wanted, "all are counted")
    cay.call(SANDBOX + "DeleteSnapshot", {"sessionId": "after", "snapshots": ["turn-0001"]})
    eventually(lambda: counts() == [{"added": 3}, {}], "all are counted")
    cay.restart()
    assert counts() == [{"added": 3}, {}], counts()
    cay.destroy("after")


def listen():
    try:
        with small_cayd() as cay:
            cay.create("quiet")
            silent["frames"] = stream(cay, "quiet", "bash", cmd="sleep 32; echo done")
    except Exception as error:  # pylint: disable=broad-except
        silent["error"] = error


@case
def heartbeats(_):
    """a stream that was silent for half a minute had a sign of life, then its result"""
    silent["thread"].join(90)
    assert "error" not in silent, silent
    kinds = [next(iter(frame)) for frame in silent["frames"]]
    assert kinds == ["started", "heartbeat", "output", "result"], kinds


if __name__ == "__main__":
    list_if_asked()
    if is_chosen(heartbeats):
        silent["thread"] = threading.Thread(target=listen)
        silent["thread"].start()
    run_with_cayd()
