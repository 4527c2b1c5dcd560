#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every verb in every state of a session, compared with the table that the daemon prints of itself."""

import os
import shutil
import signal
import subprocess
import threading

from daemon import CAYD, SANDBOX, Cayd, RpcError, case, eventually, fails, init_of, run
from past import put, text_of
from small_base import import_small, small_cayd

INWARD = ("created", "broke")  # what happens to a session; nobody asks for it


def table():
    """By state and verb: the refusal, or None, and the state it leads to."""
    said = subprocess.run([CAYD, "--list-states"], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in said.splitlines()]
    return {(state, verb): (None if refusal == "-" else refusal, following)
            for state, verb, refusal, following in rows if verb not in INWARD}


def state_of(cay, session_id):
    return cay.get(session_id)["state"].removeprefix("SESSION_STATE_").lower()


def attempts(cay, sid, snapshot):
    """A call for every verb. A failed session has only its snapshots."""
    def call(verb, **fields):
        return cay.call(SANDBOX + verb, {"sessionId": sid} | fields)

    def fork():
        cay.destroy(cay.fork(sid, lazyStart=True, **({"snapshot": snapshot} if snapshot else {}))[0]["id"])
    return {
        "look": lambda: cay.get(sid),
        "update": lambda: call("UpdateSession", setLabels={"a": "b"}),
        "tool": lambda: put(cay, sid, "written", "x"),
        "exec": lambda: cay.launch(sid, "/bin/true"),
        "snapshot": lambda: cay.snapshot(sid, ""),
        "rollback": lambda: cay.rollback(sid, snapshot or "first"),
        "fork": fork,
        "export": lambda: cay.stream(SANDBOX + "ExportSession", {"sessionId": sid} | ({"until": snapshot} if snapshot else {})),
        "pause": lambda: call("PauseSession"),
        "resume": lambda: call("ResumeSession"),
        "destroy": lambda: cay.destroy(sid),
    }


def result(call):
    try:
        call()
    except RpcError as error:
        return error.reason
    return None


def compare(cay, sid, state, verb, snapshot=None):
    """One call; the session is in the state before it."""
    wanted, following = table()[state, verb]
    got = result(attempts(cay, sid, snapshot)[verb])
    assert got == wanted, (state, verb, got, wanted)
    if verb == "destroy":
        eventually(lambda: sid not in cay.ids(), "it is gone")
    elif state not in ("creating", "destroying"):
        assert state_of(cay, sid) == following, (state, verb, state_of(cay, sid), following)


def verbs():
    return list(dict.fromkeys(verb for _, verb in table()))


@case
def active_and_paused(_):
    """active and paused sessions"""
    with small_cayd() as cay:
        for state in ("active", "paused"):
            for verb in verbs():
                cay.create("s")
                cay.snapshot("s", "first")
                if state == "paused":
                    cay.call(SANDBOX + "PauseSession", {"sessionId": "s"})
                compare(cay, "s", state, verb)
                cay.destroy("s", missingOk=True)


@case
def creating(_):
    """sessions that are being made"""
    with Cayd("--store", "local-disk", "--default-base", "small") as cay:
        # Each is a copy of the base, which takes its time.
        big = cay.folder / "big"
        for number in range(8):
            (big / f"d{number}").mkdir(parents=True)
            for name in range(1000):
                (big / f"d{number}" / f"{name}").touch()
        import_small(cay)
        cay.send_all("cay.v1.BaseService/ImportBase", [{"options": {
            "name": "big", "format": "BASE_FORMAT_DIRECTORY", "hostPath": str(big)}}])
        shutil.rmtree(big)
        left = verbs()
        for number in range(20):
            sid = f"c{number}"
            maker = threading.Thread(target=result, args=(lambda: cay.create(sid, base="big", lazyStart=True),))  # noqa: B023
            maker.start()
            eventually(lambda: result(lambda: cay.get(sid)) is None, "it is there")  # noqa: B023
            for verb in list(left):
                if state_of(cay, sid) != "creating":
                    break
                got = result(attempts(cay, sid, None)[verb])
                if verb == "destroy" or state_of(cay, sid) == "creating":
                    assert got == table()["creating", verb][0], (verb, got)
                    left.remove(verb)
            maker.join()
            cay.destroy(sid, missingOk=True)
            if not left:
                return
        raise AssertionError(f"{left} never came in time")


@case
def destroying(_):
    """sessions that are being removed"""
    def seen(cay, wanted):
        """What came of the verbs as long as it was being removed."""
        cay.create("d")
        cay.sh("d", "touch /workspace/here")
        request = {"sessionId": "d", "call": {"toolName": "bash", "params": {"cmd": "echo 1; sleep 1000"}}}
        got = {}
        with cay.open(SANDBOX + "ExecuteToolStream", request) as stream:
            while "output" not in stream.next():
                pass
            # An init that stands still is waited for: its caller wants the output.
            os.kill(init_of(cay, "workspace/here"), signal.SIGSTOP)
            ender = threading.Thread(target=cay.destroy, args=("d",))
            ender.start()
            eventually(lambda: result(lambda: cay.get("d")) or state_of(cay, "d") == "destroying", "it is removed")
            for verb in wanted:
                if result(lambda: cay.get("d")):
                    break
                reason = result(attempts(cay, "d", None)[verb])
                if reason != "session_not_found":
                    got[verb] = reason
            ender.join()
        return got

    with small_cayd() as cay:
        left = verbs()
        while left:
            got = seen(cay, left)
            assert got, left
            for verb, reason in got.items():
                assert reason == table()["destroying", verb][0], (verb, reason)
            left = [verb for verb in left if verb not in got]


@case
def failed(_):
    """sessions whose files are gone: their snapshots are what is left, and health says so"""
    with small_cayd("--store", "overlay", "--pool-warn", "0", "--pool-critical", "1") as cay:
        cay.create("other", lazyStart=True)
        for verb in verbs():
            sessions = cay.data / "store" / "s"
            others = set(os.listdir(sessions))
            cay.create("f")
            put(cay, "f", "file", "kept")
            cay.snapshot("f", "first")
            cay.power_off()
            for name in set(os.listdir(sessions)) - others:
                (sessions / name).unlink()
            cay.start()
            session = cay.get("f")
            assert session["state"] == "SESSION_STATE_FAILED" and session["stateReason"] == "storage", session
            health = cay.call(SANDBOX + "HealthCheck")
            reasons = [problem["reason"] for problem in health["problems"]]
            assert {"pool_space_low", "pool_inodes_low", "sessions_failed"} <= set(reasons), health
            assert health["status"] == "HEALTH_STATUS_DEGRADED", health
            for call in (lambda: cay.fork("f"), lambda: cay.stream(SANDBOX + "ExportSession", {"sessionId": "f"})):
                fails("failed_precondition", call, reason="session_failed")
            fork = cay.fork("f", snapshot="first", lazyStart=True)[0]["id"]
            assert text_of(cay, fork, "file") == "kept"
            cay.destroy(fork)
            compare(cay, "f", "failed", verb, "first")
            cay.destroy("f", missingOk=True)


if __name__ == "__main__":
    run(None)
