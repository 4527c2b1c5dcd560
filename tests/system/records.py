#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The database: what clients say of snapshots is there and not in memory, and it shrinks."""

import contextlib
import sqlite3
import subprocess

from daemon import MIB, SANDBOX, b64, case, eventually, unb64
from small_base import run_with_cayd

WORDS = {"message": "what happened", "metadata": {"tool": "bash", "list": [1, None, True], "deep": {"x": "y"}}}


def said(snapshot):
    return {name: snapshot.get(name) for name in WORDS}


def said_of(cay, session_id):
    return [said(snapshot) for snapshot in cay.log(session_id)]


def newest(cay, session_id):
    request = {"sessionId": session_id, "pageSize": 20, "order": "ORDER_CREATED_DESC"}
    return cay.call(SANDBOX + "ListSnapshots", request)["snapshots"]


def large(number):
    return {"message": f"turn {number} " + "m" * 2000, "metadata": {"number": number, "text": "t" * 60_000}}


@contextlib.contextmanager
def database(cay):
    with contextlib.closing(sqlite3.connect(cay.data / "cay.db")) as db:
        db.execute("PRAGMA foreign_keys = ON")
        with db:
            yield db


@case
def words(cay):
    """message and metadata come back from every verb, after a restart, a prune, an export and a fork"""
    cay.create("one", lazyStart=True)
    assert said(cay.turn("one", requestId="first", **WORDS)) == WORDS
    assert said(cay.turn("one", requestId="first", message="again")) == WORDS, "a repeated turn tells what it was told"
    assert said(cay.snapshot("one", "named", **WORDS)) == WORDS
    assert said(cay.turn("one")) == {"message": None, "metadata": None}
    expected = [WORDS, WORDS, {"message": None, "metadata": None}]
    assert said_of(cay, "one") == expected
    held = cay.call(SANDBOX + "HoldSnapshot", {"sessionId": "one", "snapshot": "named"})["snapshot"]
    assert said(held) == WORDS and held["held"], held
    cay.restart()
    assert said_of(cay, "one") == expected
    cay.call(SANDBOX + "DeleteSnapshot", {"sessionId": "one", "snapshots": ["turn-0001"]})
    assert said_of(cay, "one") == expected[1:], "an heir keeps what was said of it"
    frames = cay.stream(SANDBOX + "ExportSession", {"sessionId": "one"})
    data = b"".join(unb64(frame["data"]) for frame in frames if "data" in frame)
    cay.send_all(SANDBOX + "ImportSession", [{"options": {"sessionId": "copy"}}, {"data": b64(data)}])
    assert said_of(cay, "copy") == expected[1:]
    cay.fork("one", snapshot="named", newSessionId="fork", lazyStart=True)
    assert [snapshot.get("forks") for snapshot in cay.log("one")] == [["fork"], None]
    cay.rollback("one", "named")
    cay.restart()
    assert said_of(cay, "one") == said_of(cay, "copy") == expected[1:] and not cay.log("fork")
    for session_id in ("fork", "one", "copy"):
        cay.destroy(session_id)


@case
def older_database(cay):
    """what was said stands in the records of an older daemon in another place, and is found there"""
    cay.create("one", lazyStart=True)
    for _ in range(3):
        cay.turn("one", **WORDS)
    cay.kill()
    with database(cay) as db:  # behind each other, two encoded messages are the one of both
        rows = db.execute("SELECT name, spec, words FROM snapshots").fetchall()
        assert len(rows) == 3 and all(kept for _, _, kept in rows), rows
        db.executemany("UPDATE snapshots SET spec = ?, words = NULL WHERE name = ?",
                       [(spec + kept, name) for name, spec, kept in rows])
    cay.start()
    assert said_of(cay, "one") == [WORDS] * 3
    cay.call(SANDBOX + "HoldSnapshot", {"sessionId": "one", "snapshot": "turn-0003"})
    cay.call(SANDBOX + "DeleteSnapshot", {"sessionId": "one", "snapshots": ["turn-0001"]})
    cay.restart()
    assert said_of(cay, "one") == [WORDS] * 2
    cay.destroy("one")


@case
def memory(cay):
    """a snapshot with 60 kB of metadata takes as much of the daemon's memory as one without"""
    cay.create("one", lazyStart=True)
    for number in range(200):
        cay.turn("one", **large(number))
    before = cay.rss_bytes()
    for number in range(200, 1200):
        cay.turn("one", **large(number))
    grown = cay.rss_bytes() - before
    assert grown < cay.rss_room(16), f"{grown / 1000:.0f} bytes for each"
    assert [said(snapshot) for snapshot in newest(cay, "one")] == [large(number) for number in range(1199, 1179, -1)]
    assert [snapshot["metadata"]["number"] for snapshot in cay.log("one")] == list(range(1200)), "page by page"
    cay.restart()
    after = cay.rss_bytes()
    assert after < before + cay.rss_room(16), (before, after)
    cay.destroy("one")


def database_bytes(cay):
    return (cay.data / "cay.db").stat().st_size


@case
def shrinks(cay):
    """the database becomes smaller when what it told of is gone"""
    cay.create("one", lazyStart=True)
    cay.create("two", lazyStart=True)
    eventually(lambda: database_bytes(cay) < 4 * MIB, "the database is small")
    for number in range(400):
        cay.turn("one", **large(number))
        if number % 20 == 0:
            cay.turn("two", **large(number))
    assert database_bytes(cay) > 16 * MIB, database_bytes(cay)
    cay.destroy("one")
    eventually(lambda: database_bytes(cay) < 6 * MIB, "the database is small again")
    assert said_of(cay, "two") == [large(number) for number in range(0, 400, 20)]
    cay.restart()
    assert said_of(cay, "two") == [large(number) for number in range(0, 400, 20)]
    cay.destroy("two")


def make_old(cay):
    """As an older daemon left it: a database that does not shrink."""
    with contextlib.closing(sqlite3.connect(cay.data / "cay.db")) as db:
        db.execute("PRAGMA auto_vacuum = NONE")
        db.execute("VACUUM")
    with contextlib.closing(sqlite3.connect(cay.data / "cay.db")) as db:
        assert db.execute("PRAGMA auto_vacuum").fetchone() == (0,)


@case
def killed_at_it(cay):
    """a daemon killed while it writes an older database anew loses nothing of it, and the next one does it"""
    cay.create("one", lazyStart=True)
    for number in range(300):
        cay.turn("one", **large(number))
    expected = [snapshot["name"] for snapshot in newest(cay, "one")]
    cay.stop()
    for number in range(8):
        make_old(cay)
        with subprocess.Popen(cay.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.01 * number + 0.005)  # somewhere in its start
            process.kill()
    cay.start()
    with contextlib.closing(sqlite3.connect(f"file:{cay.data / 'cay.db'}?mode=ro", uri=True)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    assert [snapshot["name"] for snapshot in newest(cay, "one")] == expected
    assert newest(cay, "one")[0]["metadata"] == large(299)["metadata"]
    cay.destroy("one")


if __name__ == "__main__":
    run_with_cayd("--session-max-snapshots", "0", "--quota-snapshots", "0")
