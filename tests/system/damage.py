#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One session that cannot be recovered is one failed session: all else is served, and it can be destroyed."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys

from daemon import KEY, PROCESS, SANDBOX, Client, case, eventually, fails
from past import put, text_of
from small_base import run_with_cayd

CAY = sys.argv[2]


@contextlib.contextmanager
def database(cay):
    with contextlib.closing(sqlite3.connect(cay.data / "cay.db")) as db, db:
        yield db


def change(cay, statement, *values):
    with database(cay) as db:
        assert db.execute(statement, values).rowcount == 1, statement


def tree_of(cay, session_id):
    """The directory of the store that has the session's files. On btrfs nobody but a daemon reads its database."""
    with database(cay) as db:
        store_id, = db.execute("SELECT store_id FROM sessions WHERE id = ?", (session_id,)).fetchone()
    store = cay.data / "store"
    record, = (name for name in os.listdir(store / "s") if name.startswith(store_id))
    tree = record.split(",")[1]
    found = [store / kind / tree for kind in ("l", "t") if (store / kind / tree).is_dir()]
    assert len(found) == 1, (record, found)
    return found[0]


def lose_tree(cay, session_id):
    shutil.rmtree(tree_of(cay, session_id))


def state_of(cay, session_id):
    return cay.get(session_id)["state"].removeprefix("SESSION_STATE_").lower()


def shown(cay, session_id):
    environment = dict(os.environ) | {"CAY_URL": f"unix:{cay.socket_path}"}
    return subprocess.run([CAY, "show", session_id], env=environment, capture_output=True, text=True, check=True).stdout


def begin(cay):
    """One that will be damaged, asleep or not, and another one that is well."""
    for session_id in cay.ids():  # of a case that failed
        cay.destroy(session_id)
    for session_id in ("bad", "good"):
        cay.create(session_id)
        put(cay, session_id, "file", session_id)
        cay.snapshot(session_id, "first", message="said", metadata={"a": "b"})
    cay.call(PROCESS + "LaunchProcess", {"sessionId": "bad", "spec": {"argv": ["/bin/sleep", "1000"]}})


def is_failed(cay, why):
    """After a start: the one has failed and says why; the other is as it was."""
    session = cay.get("bad")
    assert session["state"] == "SESSION_STATE_FAILED" and session["stateReason"] == "storage", session
    assert why in session["stateMessage"], session
    text = shown(cay, "bad")
    assert "failed" in text and why in text, text
    assert [problem["reason"] for problem in cay.call(SANDBOX + "HealthCheck")["problems"]] == ["sessions_failed"]
    error = fails("failed_precondition", cay.sh, "bad", "true", reason="session_failed")
    assert why in str(error), error
    is_well(cay)
    assert cay.ids() == ["bad", "good"]


def is_well(cay, session_id="good"):
    assert text_of(cay, session_id, "file") == session_id
    assert cay.sh(session_id, "cat file") == session_id
    cay.turn(session_id)
    cay.rollback(session_id, "first")


def end(cay):
    for session_id in ("bad", "good"):
        cay.destroy(session_id)
    assert not cay.leftovers(), cay.leftovers()
    assert not cay.ids()
    eventually(lambda: not cay.store()["s"] and not cay.store()["p"], f"nothing is left in the store: {cay.store()}")


def damaged(cay, damage, why, fork=True):
    """Damaged while the daemon does not run: with its sandbox living on, and gone."""
    for stop in (cay.kill, cay.power_off):
        begin(cay)
        stop()
        damage()
        cay.start()
        is_failed(cay, why)
        if fork:
            forked = cay.fork("bad", snapshot="first")[0]
            assert text_of(cay, forked["id"], "/workspace/file") == "bad"
            limits = cay.get("good")["limits"]
            assert forked["limits"]["memoryBytes"] == limits["memoryBytes"], forked
            cay.destroy(forked["id"])
        cay.restart()
        is_failed(cay, why)
        end(cay)


@case
def tree_gone(cay):
    """a session whose files are gone has failed, and says so"""
    damaged(cay, lambda: lose_tree(cay, "bad"), "its files are gone", fork=False)


@case
def record_undecodable(cay):
    """a session whose record cannot be decoded has failed; forks of its snapshots have the limits of new sessions"""
    damaged(cay, lambda: change(cay, "UPDATE sessions SET spec = x'ff' WHERE id = 'bad'"), "its record is damaged")


@case
def state_unknown(cay):
    """a session whose record has a state that there is not has failed"""
    damaged(cay, lambda: change(cay, "UPDATE sessions SET state = 77 WHERE id = 'bad'"), "its record is damaged")


@case
def uids_unknown(cay):
    """a session whose record has uids that there are not has failed"""
    damaged(cay, lambda: change(cay, "UPDATE sessions SET uid_slot = 99999 WHERE id = 'bad'"), "uids")


@case
def work_undecodable(cay):
    """a session has failed when it cannot be decoded what it was at as the daemon died; when that is put right, it is well again"""
    damaged(cay, lambda: change(cay, "UPDATE sessions SET restore = x'ff' WHERE id = 'bad'"), "restore is damaged")
    begin(cay)
    cay.kill()
    change(cay, "UPDATE sessions SET restore = x'ff' WHERE id = 'bad'")
    cay.start()
    is_failed(cay, "restore is damaged")
    fails("failed_precondition", cay.call, SANDBOX + "UpdateSession", {"sessionId": "bad", "setLabels": {"a": "b"}},
          reason="session_failed")
    cay.kill()
    change(cay, "UPDATE sessions SET restore = x'' WHERE id = 'bad'")
    cay.start()
    is_well(cay, "bad")
    end(cay)


@case
def snapshot_undecodable(cay):
    """the record of a snapshot is damaged: its files are there, and the session goes on"""
    begin(cay)
    cay.turn("bad", message="second")
    cay.stop()
    change(cay, "UPDATE snapshots SET spec = x'ff' WHERE session_id = 'bad' AND name = 'first'")
    cay.start()
    first, second = cay.log("bad")
    assert (first["name"], first["kind"], first["message"]) == ("first", "SNAPSHOT_KIND_NAMED", "said"), first
    assert second["message"] == "second" and second["isHead"], second
    is_well(cay, "bad")
    assert text_of(cay, cay.fork("bad", snapshot="first", newSessionId="fork")[0]["id"], "file") == "bad"
    cay.destroy("fork")
    end(cay)


@case
def words_undecodable(cay):
    """what was said of a snapshot is damaged: that is told in its place, and everything else is there"""
    begin(cay)
    cay.stop()
    change(cay, "UPDATE snapshots SET words = x'ff' WHERE session_id = 'bad'")
    cay.start()
    first, = cay.log("bad")
    assert first["name"] == "first" and "damaged" in first["message"] and "metadata" not in first, first
    assert cay.log("good")[0]["metadata"] == {"a": "b"}
    is_well(cay, "bad")
    end(cay)


@case
def process_undecodable(cay):
    """the record of a process is damaged: the session goes on without it"""
    begin(cay)
    cay.kill()
    change(cay, "UPDATE processes SET process = x'ff' WHERE session_id = 'bad'")
    cay.start()
    is_well(cay, "good")
    assert cay.sh("bad", "cat file") == "bad"
    cay.call(PROCESS + "ListProcesses", {"sessionId": "bad"})
    end(cay)


@case
def base_undecodable(cay):
    """the record of a base is damaged: owners do not get it, sessions on it are well, and it is there again when mended"""
    begin(cay)
    owner = Client(cay, cay.call(KEY + "CreateKey", {"owner": "somebody"})["secret"])
    cay.stop()
    with database(cay) as db:
        spec, = db.execute("SELECT spec FROM bases WHERE name = 'small'").fetchone()
    change(cay, "UPDATE bases SET spec = x'ff' WHERE name = 'small'")
    cay.start()
    is_well(cay)
    fails("not_found", owner.create, "more")
    cay.stop()
    change(cay, "UPDATE bases SET spec = ? WHERE name = 'small'", spec)
    cay.start()
    owner.create("more")
    owner.destroy("more")
    end(cay)


@case
def gone_at_wake(cay):
    """files that are gone when the session wakes: it has failed, and says so from then on"""
    begin(cay)
    cay.power_off()
    tree = tree_of(cay, "bad")
    cay.start()
    shutil.rmtree(tree)
    error = fails("failed_precondition", cay.sh, "bad", "true", reason="session_failed")
    assert "fork" in str(error) and "remove" in str(error), error
    assert state_of(cay, "bad") == "failed"
    eventually(lambda: "failed" in shown(cay, "bad"), "it is shown")
    is_well(cay)
    end(cay)


if __name__ == "__main__":
    run_with_cayd()
