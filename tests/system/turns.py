#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Turns, snapshots, rollback, forks and diffs."""

import random
import threading
import time

from daemon import IS_FULL, SANDBOX, case, eventually, fails, good, together
from past import at, names, put, text_of
from small_base import run_with_cayd, small_cayd

# Two files that grow in step: whoever sees them at one instant sees the same length, or one more.
WRITER = "i=1; echo 1 > a; echo 1 > b; echo ready; while :; do i=$((i+1)); echo $i >> a; echo $i >> b; done"


def five_turns(cay, session_id):
    """A session with five turns, in each of which the file has another text: its number."""
    cay.create(session_id)
    for number in range(1, 6):
        put(cay, session_id, "file", f"{number}")
        yield number, cay.turn(session_id, message=f"turn {number}", metadata={"cost": number})


@case
def numbers(cay):
    """turns are numbered from 1 on, and each is what the session was then"""
    for number, snapshot in five_turns(cay, "n"):
        assert snapshot["name"] == f"turn-{number:04}" and snapshot["turnNumber"] == str(number)
        assert snapshot["kind"] == "SNAPSHOT_KIND_TURN" and snapshot["isHead"], snapshot
        assert not snapshot.get("unchanged"), snapshot
    log = cay.log("n")
    assert [entry["name"] for entry in log] == [f"turn-{n:04}" for n in range(1, 6)]
    assert [entry.get("parent", "") for entry in log] == ["", *(f"turn-{n:04}" for n in range(1, 5))]
    assert [entry["message"] for entry in log] == [f"turn {n}" for n in range(1, 6)]
    assert [entry["metadata"]["cost"] for entry in log] == [1, 2, 3, 4, 5]
    assert [bool(entry.get("isHead")) for entry in log] == [False] * 4 + [True]
    for number in range(1, 6):
        assert at(cay, "n", f"turn-{number:04}", "file") == f"{number}"


@case
def monotonic(cay):
    """turn numbers only grow, whatever is rolled back and discarded in between"""
    dice = random.Random(1)
    cay.create("m")
    newest, kept = 0, {}
    for step in range(60):
        if kept and dice.random() < 0.4:
            target = dice.choice(sorted(kept))
            is_discard = dice.random() < 0.5
            cay.rollback("m", target, discard=is_discard)
            assert text_of(cay, "m", "file") == kept[target]
            there = set(names(cay, "m"))
            assert is_discard or there >= set(kept), (there, kept)
            kept = {name: text for name, text in kept.items() if name in there}
            assert target in kept
        else:
            put(cay, "m", "file", f"{step}")
            snapshot = cay.turn("m")
            newest += 1
            assert snapshot["name"] == f"turn-{newest:04}", (snapshot, newest)
            kept[snapshot["name"]] = f"{step}"
        assert int(cay.get("m")["turnCount"]) == newest
    cay.restart()
    assert cay.turn("m")["name"] == f"turn-{newest + 1:04}"
    cay.destroy("m")


@case
def unknown_snapshot(cay):
    """a rollback to a snapshot that is not there is not_found, and nothing happens"""
    list(five_turns(cay, "n"))
    put(cay, "n", "live", "unsaved")
    before = cay.get("n")
    for bad in ("turn-9999", "", "base ", "../turn-0001", "turn-0001\0", "x" * 5000, "🙂", "TURN-0001"):
        fails("not_found", cay.rollback, "n", bad)
    after = cay.get("n")
    assert after["state"] == "SESSION_STATE_ACTIVE" and after["head"] == before["head"], after
    assert text_of(cay, "n", "live") == "unsaved"
    assert names(cay, "n") == [f"turn-{n:04}" for n in range(1, 6)]
    fails("not_found", cay.fork, "n", snapshot="turn-9999")
    fails("not_found", cay.diff, "n", fromSnapshot="turn-9999")
    fails("not_found", cay.diff, "n", toSnapshot="turn-9999")
    fails("not_found", cay.rollback, "no-session", "turn-0001")
    fails("not_found", cay.turn, "no-session")


@case
def branch(cay):
    """an abandoned future is kept as a branch, with its unsaved changes, and can be gone back to"""
    list(five_turns(cay, "n"))
    put(cay, "n", "live", "unsaved")
    answer = cay.rollback("n", "turn-0002")
    name = answer["branch"]
    assert text_of(cay, "n", "file") == "2"
    fails("not_found", cay.file, "StatFile", "n", path="live")
    entry = next(entry for entry in cay.log("n") if entry["name"] == name)
    assert entry["kind"] == "SNAPSHOT_KIND_BRANCH" and entry["parent"] == "turn-0005", entry
    put(cay, "n", "file", "other")
    assert cay.turn("n")["name"] == "turn-0006"
    cay.rollback("n", name)
    assert text_of(cay, "n", "live") == "unsaved" and text_of(cay, "n", "file") == "5"
    assert cay.get("n")["head"] == name
    answer = cay.rollback("n", "turn-0006", branch="mine")
    assert not answer.get("branch"), "nothing was unsaved, so there is nothing to keep"
    put(cay, "n", "more", "more")
    assert cay.rollback("n", "turn-0006", branch="mine")["branch"] == "mine"
    fails("already_exists", cay.rollback, "n", "turn-0001", branch="mine")
    fails("invalid_argument", cay.rollback, "n", "turn-0001", branch="../mine")
    assert text_of(cay, "n", "file") == "other"


@case
def taken_names(_):
    """a turn does not take the name of a snapshot that is there: its number is passed over"""
    with small_cayd("--default-base", "small", "--snapshot-prefix", "step") as cay:
        cay.create("p")
        for number in (1, 3):
            put(cay, "p", "file", f"mine {number}")
            cay.snapshot("p", f"step-000{number}")
        put(cay, "p", "file", "turn")
        assert [cay.turn("p")["name"] for _ in range(3)] == ["step-0002", "step-0004", "step-0005"]
        cay.restart()
        assert names(cay, "p") == [f"step-000{number}" for number in (1, 3, 2, 4, 5)], names(cay, "p")
        for number in (1, 3):
            cay.rollback("p", f"step-000{number}")
            assert text_of(cay, "p", "file") == f"mine {number}"
        assert cay.turn("p")["name"] == "step-0006"


@case
def discard(cay):
    """with discard later snapshots are deleted, and their space is freed"""
    cay.create("d")
    for number in (1, 2, 3):
        put(cay, "d", "file", f"{number}")
        cay.turn("d")
    put(cay, "d", "file", "unsaved")
    answer = cay.rollback("d", "turn-0001", discard=True)
    assert sorted(answer["discarded"]) == ["turn-0002", "turn-0003"], answer
    assert not answer.get("branch") and names(cay, "d") == ["turn-0001"], answer
    assert text_of(cay, "d", "file") == "1" and cay.get("d")["snapshotCount"] == "1"
    put(cay, "d", "file", "4")
    assert cay.turn("d")["name"] == "turn-0004"
    fork = cay.fork("d", snapshot="turn-0004")[0]["id"]
    cay.destroy("d")
    assert text_of(cay, fork, "file") == "4", "a fork lost its data with its parent"
    cay.destroy(fork)
    eventually(lambda: not cay.store()["p"], "snapshots are gone from disk")


@case
def concurrent_turns(cay):
    """eight turns at the same time are eight turns"""
    cay.create("c")
    for round_number in range(3):
        snapshots = good(together(*(lambda: cay.turn("c") for _ in range(8))))
        numbers_seen = sorted(int(snapshot["turnNumber"]) for snapshot in snapshots)
        assert numbers_seen == list(range(round_number * 8 + 1, round_number * 8 + 9)), numbers_seen
    parents = {entry["name"]: entry.get("parent", "") for entry in cay.log("c")}
    assert parents == {f"turn-{n:04}": f"turn-{n - 1:04}" if n > 1 else "" for n in range(1, 25)}


@case
def concurrent_mix(cay):
    """turns, rollbacks, forks, writes and commands at once are put in order, and none is lost"""
    cay.create("c")
    put(cay, "c", "file", "start")
    cay.turn("c")

    def one(number):
        put(cay, "c", f"file-{number}", "x")
        cay.turn("c")
        cay.sh("c", "ls > /dev/null")
        fork = cay.fork("c", count=2)
        cay.destroy(fork[0]["id"])
        cay.sh(fork[1]["id"], "test -e file")
        cay.destroy(fork[1]["id"])
    outcomes = together(*(lambda n=n: one(n) for n in range(6)),
                        *(lambda: cay.rollback("c", "turn-0001", killTools=True) for _ in range(2)))
    for outcome in outcomes:
        # A command that runs is killed by the rollback and says so.
        is_killed = getattr(outcome, "reason", "") == "rollback_in_progress"
        is_killed = is_killed or "END_CAUSE_KILLED" in str(outcome)
        if isinstance(outcome, Exception) and not is_killed:
            raise outcome
    session = cay.get("c")
    assert session["state"] == "SESSION_STATE_ACTIVE", session
    assert text_of(cay, "c", "file") == "start"
    cay.destroy("c")


@case
def unchanged(cay):
    """a turn in which nothing changed says so and shares its predecessor's data"""
    cay.create("u")
    put(cay, "u", "file", "x" * 100000)
    assert not cay.turn("u").get("unchanged")
    layers = len(cay.store()["l"])
    for _ in range(20):
        snapshot = cay.turn("u")
        assert snapshot["unchanged"] and int(snapshot.get("sizeBytes", 0)) == 0, snapshot
    assert len(cay.store()["l"]) <= layers + 1, "unchanged turns made layers"
    cay.sh("u", "cat file > /dev/null; ls -la / > /dev/null; test -e nothing; true")
    assert cay.turn("u")["unchanged"], "reading is no change"
    cay.sh("u", "touch file")
    cay.turn("u")
    assert at(cay, "u", "turn-0005", "file") == "x" * 100000
    cay.destroy("u")


@case
def live_writer(cay):
    """a turn catches running processes at one instant, and they do not notice"""
    cay.create("w")
    cay.background("w", WRITER)
    lengths = []
    for number in range(1, 9):
        time.sleep(0.1)
        snapshot = cay.turn("w")
        assert snapshot["turnNumber"] == str(number)
        a, b = (at(cay, "w", snapshot["name"], name).split() for name in ("a", "b"))
        assert 0 <= len(a) - len(b) <= 1, (len(a), len(b))
        assert a == [str(n) for n in range(1, len(a) + 1)], "lines are lost"
        lengths.append(len(a))
    assert lengths == sorted(lengths) and lengths[0] < lengths[-1], lengths
    fork = cay.fork("w")[0]["id"]
    a, b = (text_of(cay, fork, name).split() for name in ("a", "b"))
    assert 0 <= len(a) - len(b) <= 1 and len(a) >= lengths[-1]
    before = len(text_of(cay, "w", "a"))
    eventually(lambda: len(text_of(cay, "w", "a")) > before, "it goes on after the fork")
    for number, length in enumerate(lengths, 1):
        assert len(at(cay, "w", f"turn-{number:04}", "a").split()) == length, "a snapshot changed"
    cay.destroy(fork)


@case
def live_writer_restart(cay):
    """a turn catches processes that an earlier daemon started at one instant, too"""
    cay.create("w")
    cay.background("w", WRITER)
    cay.restart()
    for _ in range(3):
        before = len(text_of(cay, "w", "a"))
        snapshot = cay.turn("w")
        a, b = (at(cay, "w", snapshot["name"], name).split() for name in ("a", "b"))
        assert 0 <= len(a) - len(b) <= 1 and a == [str(n) for n in range(1, len(a) + 1)]
        assert len(" ".join(a)) >= before - 1
        eventually(lambda: len(text_of(cay, "w", "a")) > before, "files and process see the same tree")


@case
def rollback_with_processes(cay):
    """a rollback refuses or kills when processes run, by option"""
    cay.create("w")
    cay.background("w", WRITER)
    for _ in range(2):
        cay.turn("w")
    error = fails("failed_precondition", cay.rollback, "w", "turn-0001",
                  processes="PROCESS_POLICY_REFUSE")
    assert error.reason in ("processes_running", "tools_in_flight"), error
    before = len(text_of(cay, "w", "a"))
    eventually(lambda: len(text_of(cay, "w", "a")) > before, "nothing happened to it")
    cay.rollback("w", "turn-0001")
    length = len(text_of(cay, "w", "a"))
    time.sleep(0.3)
    assert len(text_of(cay, "w", "a")) == length, "somebody still writes"
    assert "echo" not in cay.sh("w", "ps -o args | grep -v grep | grep -v ps")
    a, b = (text_of(cay, "w", name).split() for name in ("a", "b"))
    assert 0 <= len(a) - len(b) <= 1
    with cay.attach("w", "/bin/sleep", "1000") as stream:
        stream.next()
        killed = cay.rollback("w", "turn-0002").get("killed", [])
        assert any(process.get("killed") for process in killed), killed
    cay.destroy("w")


@case
def immutable(cay):
    """snapshots do not change by what comes after them"""
    cay.create("i")
    cay.sh("i", "mkdir d; echo one > d/f; ln d/f d/hard; ln -s f d/link; mkfifo d/fifo; chmod 751 d;"
                "truncate -s 10000000 d/sparse; echo x > ' odd\tname '")
    cay.snapshot("i", "first")
    cay.sh("i", "echo two >> d/f; chmod 700 d; rm d/hard; ln -sfn other d/link; rm d/fifo; rm ' odd\tname ';"
                "dd if=/dev/zero of=d/sparse bs=1000 count=1 conv=notrunc 2> /dev/null; mv d e")
    cay.snapshot("i", "second")
    cay.sh("i", "rm -rf e")
    fork = cay.fork("i", snapshot="first")[0]["id"]
    assert cay.sh(fork, "cat d/f; readlink d/link; stat -c '%a %h' d/f; stat -c %a d; stat -c %F d/fifo;"
                        "stat -c '%s' d/sparse; cat ' odd\tname '") == (
        "one\nf\n644 2\n751\nfifo\n10000000\nx\n")
    assert cay.sh(fork, "test d/f -ef d/hard && echo same") == "same\n", "a hard link was torn"
    assert int(cay.sh(fork, "du -k d/sparse | cut -f1")) < 1000, "a sparse file was filled"
    cay.destroy(fork)
    fork = cay.fork("i", snapshot="second")[0]["id"]
    assert cay.sh(fork, "cat e/f; readlink e/link; ls e") == "one\ntwo\nother\nf\nlink\nsparse\n"
    cay.destroy(fork)


@case
def named(cay):
    """named snapshots have the names they were given, once"""
    cay.create("i")
    put(cay, "i", "file", "one")
    cay.snapshot("i", "first")
    put(cay, "i", "file", "two")
    cay.snapshot("i", "second")
    fails("already_exists", cay.snapshot, "i", "first")
    for bad in ("base", "turn-0001", "turn-x", "tool-x", "branch-1", "../x", "a..b", ".x", "-x", "a/b",
                "a b", "x" * 129, "🙂", "a\0b", "a\nb"):
        fails("invalid_argument", cay.snapshot, "i", bad)
    assert names(cay, "i") == ["first", "second"]
    assert cay.snapshot("i", "x" * 128)["name"] == "x" * 128
    fails("invalid_argument", cay.turn, "i", message="x" * 5000)
    fails("invalid_argument", cay.turn, "i", metadata={"x": "y" * 70000})
    cay.rollback("i", "first")
    assert text_of(cay, "i", "file") == "one"


def kind(entries, path):
    return entries.pop(path)["kind"].removeprefix("DIFF_KIND_") if path in entries else None


def change_all_kinds(cay):
    """A session `k` in which, since its first turn, paths were changed in every way."""
    cay.create("k")
    cay.sh("k", "mkdir dir gone; echo a > same; echo a > text; echo a > deleted; echo a > mode; echo a > type;"
                "ln -s a link; echo a > gone/x; printf 'a\\0b' > binary; echo a > todir; mkdir tofile")
    cay.turn("k")
    cay.sh("k", "echo b > text; rm deleted; chmod 755 mode; rm type; mkfifo type; ln -sfn b link; rm -r gone;"
                "printf 'c\\0d' > binary; echo n > new; mkdir newdir; echo n > newdir/f; rm todir;"
                "mkdir todir; rmdir tofile; echo f > tofile; echo a > same; printf '' > $(printf 'n\\377')")


@case
def diff_kinds(cay):
    """a diff tells what kind of change each path saw"""
    change_all_kinds(cay)
    entries, stats = cay.diff("k")
    expected = {"text": "MODIFIED", "deleted": "DELETED", "mode": "MODE_CHANGED", "type": "TYPE_CHANGED",
                "link": "MODIFIED", "gone": "DELETED", "binary": "MODIFIED", "new": "ADDED",
                "newdir": "ADDED", "newdir/f": "ADDED", "todir": "TYPE_CHANGED", "tofile": "TYPE_CHANGED",
                "n\uefff": "ADDED"}
    assert {path: entries[f"/workspace/{path}"]["kind"] for path in expected} == {
        path: f"DIFF_KIND_{name}" for path, name in expected.items()}, entries
    mode = entries["/workspace/mode"]
    assert (mode["oldMode"], mode["newMode"]) == (0o100644, 0o100755), mode
    extra = {path for path in entries if path.removeprefix("/workspace/") not in expected}
    assert extra <= {"/workspace", "/workspace/same", "/workspace/gone/x"}, extra
    assert "/workspace/same" not in entries, "the same content written again is no change"
    assert int(stats["added"]) == 4 and int(stats["modified"]) == 3, stats
    assert int(stats["typeChanged"]) == 3 and int(stats["deleted"]) >= 2, stats
    paths = list(entries)
    assert paths == sorted(paths, key=lambda p: p.split("/")), "not in the order of paths"


@case
def diff_points(cay):
    """a diff compares any two points, and by default a snapshot with its parent"""
    change_all_kinds(cay)
    cay.turn("k")
    assert cay.diff("k")[0] == {}, "nothing changed since the turn"
    entries, _ = cay.diff("k", toSnapshot="turn-0002")
    assert "/workspace/text" in entries and "/workspace/same" not in entries, entries
    assert cay.diff("k", fromSnapshot="turn-0001", toSnapshot="turn-0002")[0] == entries
    back, _ = cay.diff("k", fromSnapshot="turn-0002", toSnapshot="turn-0001")
    assert kind(back, "/workspace/new") == "DELETED" and kind(back, "/workspace/deleted") == "ADDED"
    whole, _ = cay.diff("k", fromSnapshot="base", toSnapshot="turn-0001")
    assert kind(whole, "/workspace/same") == "ADDED", whole
    first, _ = cay.diff("k", toSnapshot="turn-0001")
    assert kind(first, "/workspace/same") == "ADDED", first
    only, stats = cay.diff("k", fromSnapshot="turn-0001", paths=["/workspace/newdir", "workspace/text"])
    assert {"/workspace/newdir/f", "/workspace/text"} <= set(only) <= {
        "/workspace/newdir", "/workspace/newdir/f", "/workspace/text"}, only
    entries, stats = cay.diff("k", fromSnapshot="turn-0001", maxEntries=2)
    assert len(entries) == 2 and stats["truncated"], stats
    entries, stats = cay.diff("k", fromSnapshot="turn-0001", statsOnly=True)
    assert entries == {} and int(stats["added"]) == 4, stats


@case
def patch(cay):
    """patches of text can be applied; binary files have none"""
    cay.create("p")
    put(cay, "p", "text", "".join(f"line {n}\n" for n in range(100)))
    cay.sh("p", "printf 'no newline' > bare; echo 'Binary files a and b differ' > talk; printf 'a\\0' > bin")
    cay.turn("p")
    cay.sh("p", "sed -i 's/line 50$/LINE 50/; /line 7$/d' text; printf ' at all' >> bare;"
                "echo 'Binary files c' >> talk; printf 'b\\0' > bin; printf 'caf\\351\\n' > latin; echo n > new;"
                "echo b > 'a blank'")
    entries, stats = cay.diff("p", patch=True)
    entries = {path.removeprefix("/workspace/"): entry for path, entry in entries.items()}
    lines = entries["text"]["patch"].splitlines()
    assert "-line 50" in lines and "+LINE 50" in lines and "-line 7" in lines, lines
    assert "+line 7" not in lines and len(lines) < 30, lines
    assert (entries["text"]["linesAdded"], entries["text"]["linesRemoved"]) == ("1", "2")
    assert "\\ No newline at end of file" in entries["bare"]["patch"]
    assert entries["bin"]["binary"] and not entries["talk"].get("binary"), entries
    assert "+caf\uefe9\n" in entries["latin"]["patch"], entries["latin"]
    assert "+n\n" in entries["new"]["patch"] and "/dev/null" in entries["new"]["patch"]
    # Without the tab patch(1) takes the first word for the name.
    assert "\n--- /dev/null\n+++ b/workspace/a blank\t\n" in entries["a blank"]["patch"], entries["a blank"]
    assert int(stats["linesAdded"]) >= 4, stats
    cay.sh("p", "i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done > large")
    entries, _ = cay.diff("p", patch=True, maxPatchBytes=1000)
    assert entries["/workspace/large"]["patchTruncated"], entries["/workspace/large"]
    assert entries["/workspace/new"]["patch"], "one large patch took the room of others"
    cay.destroy("p")


@case
def cost(cay):
    """the cost of a diff grows with what changed, not with the tree"""
    count = 50000 if IS_FULL else 5000
    cay.create("big")
    cay.sh("big", f"mkdir t; cd t; i=0; while [ $i -lt {count} ]; do : > f$i; i=$((i+1)); done")
    cay.turn("big")
    cay.sh("big", "echo x > t/f17; rm t/f18; echo y > t/new")
    entries, stats = cay.diff("big")
    assert set(entries) - {"/workspace", "/workspace/t"} == {
        "/workspace/t/f17", "/workspace/t/f18", "/workspace/t/new"}, entries
    assert int(stats["entriesVisited"]) < 50, stats
    cay.turn("big")
    entries, stats = cay.diff("big", toSnapshot="turn-0002")
    assert len(set(entries) - {"/workspace", "/workspace/t"}) == 3 and int(stats["entriesVisited"]) < 50
    cay.destroy("big")


@case
def fork_isolation(cay):
    """forks share nothing that one of them can change"""
    cay.create("f", labels={"a": "1", "b": "1"}, env={"X": "1", "Y": "1"})
    cay.sh("f", "mkdir d; echo one > d/f")
    cay.turn("f")
    cay.sh("f", "echo live > d/g")
    from_turn = cay.fork("f", snapshot="turn-0001", newSessionId="ft", labels={"b": "2"}, env={"Y": "2"})[0]
    assert from_turn["id"] == "ft" and from_turn["parentSessionId"] == "f", from_turn
    assert from_turn["parentSnapshot"] == "turn-0001", from_turn
    assert from_turn["labels"] == {"a": "1", "b": "2"}, from_turn
    from_live = cay.fork("f", newSessionId="fl")[0]
    assert not from_live.get("parentSnapshot"), "a fork of the live files names no snapshot"
    assert cay.sh("ft", "ls d; echo $X$Y") == "f\n12\n" and cay.sh("fl", "cat d/g; echo $X$Y") == "live\n11\n"
    for session_id in ("f", "ft", "fl"):
        cay.sh(session_id, f"echo {session_id} > d/f; echo {session_id} > d/own-{session_id}; rm -f d/g")
    for session_id in ("f", "ft", "fl"):
        assert cay.sh(session_id, "cat d/f; ls d") == f"{session_id}\nf\nown-{session_id}\n"
    assert cay.turn("ft")["name"] == "turn-0001", "a fork numbers its own turns"
    cay.rollback("f", "turn-0001")
    assert cay.sh("f", "cat d/f; ls d") == "one\nf\n"
    fails("already_exists", cay.fork, "f", newSessionId="ft")
    fails("not_found", cay.fork, "no-session")
    for count in (-1, 101):
        fails("invalid_argument", cay.fork, "f", count=count)
    made = [session["id"] for session in cay.fork("f", count=3, newSessionId="many", lazyStart=True)]
    assert made == ["many-1", "many-2", "many-3"], made
    for session_id in ("f", "ft", "fl", *made):
        cay.destroy(session_id)


@case
def forked_from(cay):
    """a snapshot that sessions were forked from is not discarded under them"""
    cay.create("ff")
    put(cay, "ff", "file", "1")
    cay.turn("ff")
    put(cay, "ff", "file", "2")
    cay.turn("ff")
    fork = cay.fork("ff", snapshot="turn-0002")[0]["id"]
    fails("failed_precondition", cay.rollback, "ff", "turn-0001", discard=True)
    assert text_of(cay, "ff", "file") == "2" and names(cay, "ff") == ["turn-0001", "turn-0002"]
    cay.destroy(fork)
    cay.rollback("ff", "turn-0001", discard=True)
    cay.destroy("ff")


@case
def while_writing(cay):
    """a turn during a streamed write has the whole file or none of it"""
    cay.create("s")
    data = bytes(range(256)) * 4096 * 8
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            cay.write("s", f"/workspace/f{number % 3}", data, piece_bytes=200000)
            number += 1
        return number
    def turns():
        try:
            return [cay.turn("s")["name"] for _ in range(6)]
        finally:
            stop.set()
    _, made = good(together(write, turns))
    for name in made:
        fork = cay.fork("s", snapshot=name, lazyStart=True)[0]["id"]
        listed = cay.file("ListDir", fork, path="/workspace").get("entries", [])
        assert all(int(entry["size"]) == len(data) for entry in listed), listed
        assert {entry["name"] for entry in listed} <= {"f0", "f1", "f2"}, listed
        cay.destroy(fork)
    cay.destroy("s")


@case
def request_ids(cay):
    """a turn with a request id is made once, or the id is refused; never ignored"""
    cay.create("r")
    try:
        first = cay.turn("r", requestId="once")
    except Exception as error:  # pylint: disable=broad-except
        assert getattr(error, "code", "") == "unimplemented", error
        return
    assert cay.turn("r", requestId="once")["name"] == first["name"]
    assert len(cay.log("r")) == 1


@case
def paging(cay):
    """a log comes in pages, each snapshot once"""
    cay.create("page")
    for _ in range(7):
        cay.turn("page")
    seen, token = [], ""
    while True:
        answer = cay.call(SANDBOX + "ListSnapshots", {"sessionId": "page", "pageSize": 3, "pageToken": token})
        seen += [snapshot["name"] for snapshot in answer["snapshots"]]
        token = answer.get("nextPageToken", "")
        if not token:
            break
    assert seen == [f"turn-{n:04}" for n in range(1, 8)], seen
    for size in (-1, 1001):
        fails("invalid_argument", cay.call, SANDBOX + "ListSnapshots", {"sessionId": "page", "pageSize": size})


@case
def deep(cay):
    """a session has more turns than a mount can have layers, and each is what it was"""
    cay.create("deep")
    turns = 1000 if IS_FULL else 410
    for number in range(1, turns + 1):
        put(cay, "deep", f"file-{number % 50}", f"{number}")
        cay.turn("deep")
    for number in (1, 64, 65, 200, turns):
        assert at(cay, "deep", f"turn-{number:04}", f"file-{number % 50}") == f"{number}"
    cay.rollback("deep", "turn-0100")
    assert text_of(cay, "deep", "file-0") == "100"
    cay.destroy("deep")


if __name__ == "__main__":
    run_with_cayd()
