#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the host says that it can, it can, and the rest it refuses; what it is configured to do by default, it does."""

import os
import socket
import subprocess
import tempfile
import threading

from daemon import BASE, CAYD, FILE, MIB, PROCESS, SANDBOX, RpcError, case, eventually, fails, run
from past import names, put, text_of
from process_client import Processes, collect
from small_base import small_cayd

ABILITIES = ("snapshots", "rollback", "fork", "diff", "restore", "exportImport", "pause", "pauseKeepsProcesses",
             "tierRouting", "streaming", "pty", "ports", "survivesRestart")
FEATURES = ("idempotent_tools", "idempotent_launches", "idempotent_turns", "idle_policy", "base_build", "watch_dir", "events", "e2b")


def capabilities(cay):
    return cay.call(SANDBOX + "GetCapabilities")["capabilities"]


class Tries:
    """A way to try each ability, on a session. One that is refused as `unimplemented` is not there."""

    def __init__(self, cay):
        self.cay = cay
        self.cay.create("c")
        put(cay, "c", "file", "1")

    def call(self, verb, **fields):
        return self.cay.call(SANDBOX + verb, {"sessionId": "c"} | fields)

    def snapshots(self):
        assert self.cay.turn("c", requestId="t")["name"] == "turn-0001"
        assert self.cay.snapshot("c", "named")["name"] == "named"

    def rollback(self):
        self.cay.rollback("c", "turn-0001")

    def fork(self):
        fork = self.cay.fork("c", lazyStart=True)[0]["id"]
        assert text_of(self.cay, fork, "file") == "1"
        self.cay.destroy(fork)

    def diff(self):
        put(self.cay, "c", "other", "2")
        assert "/workspace/other" in self.cay.diff("c")[0]

    def restore(self):
        put(self.cay, "c", "file", "2")
        self.call("RestorePaths", snapshot="turn-0001", paths=["file"])
        assert text_of(self.cay, "c", "file") == "1"

    def export_import(self):
        frames = self.cay.stream(SANDBOX + "ExportSession", {"sessionId": "c"})
        archive = [{"data": frame["data"]} for frame in frames if "data" in frame]
        made = self.cay.send_all(SANDBOX + "ImportSession", [{"options": {"sessionId": "i"}}, *archive])
        assert text_of(self.cay, "i", "file") == "1", made
        self.cay.destroy("i")

    def pause(self):
        self.call("PauseSession", mode="PAUSE_MODE_STOP")
        fails("failed_precondition", text_of, self.cay, "c", "file", reason="session_paused")
        self.call("ResumeSession")

    def pause_keeps_processes(self):
        process = Processes(self.cay, "c").sh("sleep 1000")
        self.call("PauseSession", mode="PAUSE_MODE_FREEZE")
        self.call("ResumeSession")
        assert Processes(self.cay, "c").get(process)["state"] == "PROCESS_STATE_RUNNING"
        Processes(self.cay, "c").end(process)

    def tier_routing(self):
        assert self.cay.tool("c", "read_file", path="file")["tier"] == "TOOL_TIER_DAEMON"
        assert self.cay.bash("c", "true")["tier"] == "TOOL_TIER_SANDBOX"

    def streaming(self):
        request = {"sessionId": "c", "call": {"toolName": "bash", "params": {"cmd": "echo 1; sleep 1000"}}}
        with self.cay.open(SANDBOX + "ExecuteToolStream", request) as stream:
            while "output" not in stream.next():
                pass
        for process in Processes(self.cay, "c").list():
            if process["state"] == "PROCESS_STATE_RUNNING":
                Processes(self.cay, "c").end(process["id"])

    def pty(self):
        with self.cay.attach("c", "/bin/sh", "-c", "test -t 0 && echo yes", pty={"rows": 24, "cols": 80}) as stream:
            assert b"yes" in collect(stream)[0]

    def ports(self):
        self.cay.call(PROCESS + "ExposePort", {"sessionId": "c", "port": {"port": 8080}})

    def survives_restart(self):
        process = Processes(self.cay, "c").sh("sleep 1000")
        self.cay.restart()
        assert Processes(self.cay, "c").get(process)["state"] == "PROCESS_STATE_RUNNING"
        Processes(self.cay, "c").end(process)

    def idempotent_tools(self):
        for _ in range(2):
            self.cay.bash("c", "echo x >> once", {"toolCallId": "o"})
        assert text_of(self.cay, "c", "once") == "x\n"

    def idempotent_launches(self):
        first, second = (Processes(self.cay, "c").launch_once("l", "true")["process"]["id"] for _ in range(2))
        assert first == second

    def idempotent_turns(self):
        assert self.cay.turn("c", requestId="t")["name"] == "turn-0001"

    def idle_policy(self):
        self.cay.create("idle", lifecycle={"idleTimeout": "0.3s", "onIdle": "EXPIRY_ACTION_DESTROY"}, lazyStart=True)
        eventually(lambda: "idle" not in self.cay.ids(), "it is idle")

    def base_build(self):
        steps = [{"kind": "BUILD_STEP_KIND_WORKDIR", "args": ["/workspace"]},
                 {"kind": "BUILD_STEP_KIND_RUN", "args": ["echo built > built", "root"]}]
        request = {"name": "built", "fromBase": "small", "steps": steps}
        frames = self.cay.stream(BASE + "BuildBase", request)
        assert "base" in str(frames[-1]), frames
        self.cay.create("b", base="built", lazyStart=True)
        assert text_of(self.cay, "b", "/workspace/built") == "built\n"
        self.cay.destroy("b")

    def watch_dir(self):
        with self.cay.open(FILE + "WatchDir", {"sessionId": "c", "path": "."}) as stream:
            stream.next()
            put(self.cay, "c", "seen", "1")
            while "seen" not in str(stream.next()):
                pass

    def events(self):
        frames = self.cay.stream(SANDBOX + "WatchEvents", {"noFollow": True, "types": ["session.created"]})
        assert any("event" in frame for frame in frames), frames

    def e2b(self):
        sock = socket.create_connection((self.cay.host, self.cay.port))
        sock.sendall(b"GET /v2/sandboxes HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n")
        answer = sock.recv(4096)
        sock.close()
        if b" 401 " not in answer.split(b"\r\n")[0]:
            raise RpcError({"code": "unimplemented", "message": answer.decode()})

    def limit(self, name):
        """Whether a limit holds when it is passed."""
        limits = {"memoryBytes": str(32 * MIB), "pids": "12", "cpus": 0.5}
        if name == "call_memory":
            policy = {"limits": {"memoryBytes": limits["memoryBytes"]}}
            result = self.cay.bash("c", "dd if=/dev/zero of=/dev/null bs=80M count=1", {"policy": policy})
            return result["exec"]["cause"] == "END_CAUSE_OOM"
        self.cay.create("l", limits=limits)
        try:
            if name == "memory":
                return self.cay.launch("l", "dd", "if=/dev/zero", "of=/dev/null", "bs=80M", "count=1")[0]["cause"] \
                    == "END_CAUSE_OOM"
            if name == "pids":
                return b"fork" in self.cay.launch("l", "/bin/sh", "-c", "for i in $(seq 30); do sleep 60 & done")[2]
            return any((group / file).read_text().startswith(wanted)
                       for group in self.cay.cgroups() for file, wanted in
                       (("cpu.cfs_quota_us", "50000"), ("cpu.max", "50000 100000")) if (group / file).exists())
        finally:
            self.cay.destroy("l")


def snake(name):
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def is_there(function):
    try:
        function()
    except RpcError as error:
        assert error.code == "unimplemented", f"{function.__name__}: {error}"
        return False
    return True


def told_truly(*flags):
    """Every ability and feature is there exactly when the capabilities say so."""
    with small_cayd(*flags) as cay:
        can = capabilities(cay)
        tries = Tries(cay)
        for name in ABILITIES:
            assert is_there(getattr(tries, snake(name))) == can.get(name, False), (name, can)
        assert set(can["features"]) <= set(FEATURES), can["features"]
        for name in FEATURES:
            assert is_there(getattr(tries, name)) == (name in can["features"]), (name, can["features"])
        limits = {limit["name"]: limit for limit in can["limits"]}
        assert set(limits) == {"cpus", "memory", "pids", "disk", "inodes", "call_memory"}, limits
        assert all(limit["detail"] for limit in limits.values()), limits
        for name in ("cpus", "memory", "pids", "call_memory"):
            is_kept = limits[name]["enforcement"] == "ENFORCEMENT_KERNEL"
            assert tries.limit(name) == is_kept, (name, limits)
        for runtime in can["runtimes"]:
            create = lambda: cay.destroy(cay.create(runtime=runtime["name"], lazyStart=True)["id"])  # noqa: E731,B023
            assert is_there(create) == runtime.get("available", False), runtime
            assert bool(runtime.get("unavailableReason")) != bool(runtime.get("available")), runtime
        for mode in ("none", "open", "filtered"):
            create = lambda: cay.destroy(cay.create(  # noqa: E731,B023
                network={"mode": f"NETWORK_MODE_{mode.upper()}"}, lazyStart=True)["id"])  # noqa: B023
            assert is_there(create) == (mode in can["networkModes"]), (mode, can["networkModes"])
        return can


@case
def usual(_):
    """what the host says that it can, it can, and nothing else"""
    can = told_truly()
    assert all(can[name] for name in ABILITIES), can
    assert can["version"] and can["apiVersion"] == "v1" and int(can["maxMessageBytes"]) > 0, can
    assert int(can["maxOutputRingBytes"]) > 0 and can["toolTimeout"] == "120s", can


@case
def without_snapshots(_):
    """what the host says that it can, it can, on a store without snapshots and without a door for E2B"""
    can = told_truly("--store", "local-disk", "--no-e2b")
    assert not can.get("snapshots") and "e2b" not in can["features"], can


@case
def without_isolation(_):
    """what the host says that it can, it can, where nothing is isolated"""
    can = told_truly("--runtime", "none")
    assert [runtime["name"] for runtime in can["runtimes"] if runtime.get("available")] == ["none"], can
    assert not any(runtime.get("isolated") for runtime in can["runtimes"]), can


@case
def configured(_):
    """what sessions and calls do not say, the configuration does, and the capabilities tell it"""
    flags = ("--tool-timeout", "700ms", "--pause-drain", "100ms", "--max-snapshots", "3", "--tool-snapshots",
             "--max-sessions", "7", "--max-concurrent-tools", "5", "--durable-turns", "--default-memory", "64MiB",
             "--default-cpus", "0.5", "--default-pids", "99", "--default-disk", "50MiB")
    with small_cayd(*flags) as cay:
        can = capabilities(cay)
        assert can["toolTimeout"] == "0.700s" and can["maxSnapshotsPerSession"] == 3, can
        assert can["maxSessions"] == "7" and can["maxConcurrentTools"] == 5 and can["durableTurns"], can
        assert can["defaultLimits"] == {"cpus": 0.5, "memoryBytes": str(64 * MIB), "pids": "99",
                                        "diskBytes": str(50 * MIB)}, can["defaultLimits"]
        session = cay.create("d")
        assert session["maxSnapshots"] == 3 and session["toolSnapshots"] and session["maxConcurrentTools"] == 5
        tools = {tool["name"]: tool for tool in cay.call(SANDBOX + "ListTools")["tools"]}
        assert tools["bash"]["defaultTimeout"] == tools["git_clone"]["defaultTimeout"] == "0.700s", tools
        assert cay.bash("d", "sleep 1000")["errorReason"] == "timeout_wall"
        assert not cay.tool("d", "bash", cmd="sleep 1.2", timeout_ms=60000).get("isError"), "a call may say otherwise"
        for number in range(5):
            assert cay.tool("d", "write_file", path="file", content=f"{number}")["snapshot"].startswith("tool-")
        assert len(names(cay, "d")) == 3, names(cay, "d")
        assert cay.turn("d")["durable"]
        busy = threading.Thread(target=lambda: cay.tool("d", "bash", cmd="touch runs; sleep 3", timeout_ms=60000))
        busy.start()
        eventually(lambda: cay.get("d").get("toolsInFlight"), "a tool runs")
        fails("failed_precondition", cay.call, SANDBOX + "PauseSession", {"sessionId": "d"}, reason="tools_in_flight")
        busy.join()
        own = cay.create("o", maxSnapshots=0, toolSnapshots=False, maxConcurrentTools=0, lazyStart=True)
        assert not any(own.get(name) for name in ("maxSnapshots", "toolSnapshots", "maxConcurrentTools")), own


@case
def contradictions(_):
    """a daemon that would warn too late does not start"""
    with tempfile.TemporaryDirectory() as folder:
        command = [CAYD, "--data", f"{folder}/data", "--run", f"{folder}/run", "--listen", "127.0.0.1:0",
                   "--pool-warn", "0.96", "--pool-critical", "0.9"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0 and "pool_warn" in done.stderr and "0.96" in done.stderr, done
        assert not os.path.exists(f"{folder}/data")


if __name__ == "__main__":
    run(None)
