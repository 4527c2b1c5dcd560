#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions as streams: out, in again, elsewhere, in pieces, and what hostile streams do."""

import contextlib
import hashlib
import io
import itertools
import json
import os
import random
import stat
import subprocess
import tarfile
import tempfile
import threading
import time
from pathlib import Path

from daemon import (BASE, IS_FULL, SANDBOX, Cayd, Client, RpcError, Stream, at_end, case,
                    eventually, fails)
from session_stream import changed, export, import_, messages
from small_base import run_on
from transfer_story import compare, import_rich, make_story, same, seen_from_outside, tree_of


def story(cay):
    """Make a session `story` with a past of every kind; its export."""
    make_story(cay, "story")
    return export(cay, "story")[1]


@case
def round_trip(cay):
    """what comes back is what went out: every point, every kind of file, and the live ones"""
    make_story(cay, "story")
    head = cay.get("story")["head"]
    info, data = export(cay, "story")
    assert info["session"]["id"] == "story" and int(info["snapshotCount"]) == 8, info
    assert info["formatVersion"] == 2 and "since" not in info
    assert cay.get("story")["head"] == head and len(cay.log("story")) == 8
    answer = import_(cay, data, sessionId="copy", labels={"copy": "yes"})
    assert answer["session"]["state"] == "SESSION_STATE_ACTIVE", answer
    assert int(answer["snapshotCount"]) == 8 and int(answer["bytes"]) == len(data), answer
    labels = answer["session"]["labels"]
    assert labels == {"kind": "story", "copy": "yes"}, labels
    cay.destroy("copy")
    import_(cay, data, sessionId="copy")
    compare(cay, "story", cay, "copy")
    # It goes on as any session does.
    assert cay.turn("copy")["name"] == "turn-0007"
    cay.rollback("copy", "turn-0003")
    assert cay.sh("copy", "cat /workspace/d/hard", user="root") == "1\n"



@case
def too_deep(cay):
    """directories too deep to look into, and paths too long for an archive, are told of and hide nothing else"""
    cay.create("deep")
    cay.sh("deep", "echo kept > kept")
    cay.turn("deep")
    half = "/".join(["n" * 200] * 15)
    cay.sh("deep", "(i=0; while [ $i -lt 450 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done; echo hidden > file)")
    cay.sh("deep", f"mkdir -p one/{half} two/{half} && echo x > two/{half}/file && mv two one/{half}/ &&"
                   "echo seen > zz && echo changed > kept")
    entries, stats = cay.diff("deep")
    assert entries["/workspace/zz"]["kind"] == "DIFF_KIND_ADDED", stats
    assert entries["/workspace/kept"]["kind"] == "DIFF_KIND_MODIFIED", stats
    deep = [path for path, entry in entries.items() if entry.get("tooDeep")]
    assert len(deep) == 1 and deep[0].count("/") == 401 and deep[0].startswith("/workspace/d/d/"), deep
    assert int(stats["tooDeep"]) == 1, stats
    assert f"/workspace/one/{half}/two/{half}/file" in entries, "a long path"
    # In what did not change nothing is told of.
    cay.turn("deep")
    cay.sh("deep", "echo later > zz")
    assert set(cay.diff("deep")[0]) == {"/workspace/zz"}
    frames = cay.stream(SANDBOX + "ExportSession", {"sessionId": "deep"})
    summary = frames[-1]["summary"]
    assert int(summary["leftOut"]) == 2 and summary["leftOutPath"].startswith("workspace/"), summary
    _, data = export(cay, "deep")
    import_(cay, data, sessionId="deep-copy")
    assert cay.sh("deep-copy", "cat kept zz") == "changed\nlater\n"
    cay.call(SANDBOX + "RestorePaths", {"sessionId": "deep", "snapshot": "turn-0001", "paths": ["kept"]})
    assert cay.sh("deep", "cat kept") == "kept\n"
    fails("resource_exhausted", cay.call, SANDBOX + "RestorePaths",
          {"sessionId": "deep", "snapshot": "turn-0001", "paths": ["d"]})
    cay.rollback("deep", "turn-0001")
    cay.destroy("deep")
    cay.destroy("deep-copy")


@case
def left_alone(cay):
    """exports that nobody reads to their end harm nobody, whenever their readers leave"""
    cay.create("left")
    cay.sh("left", "dd if=/dev/urandom of=file bs=1M count=8 2> /dev/null; truncate -s 400G holes")
    for number in range(40):
        with cay.open(SANDBOX + "ExportSession", {"sessionId": "left"}) as stream:
            for _ in range(number % 4):
                stream.next()
    assert cay.get("left")["state"] == "SESSION_STATE_ACTIVE"
    cay.destroy("left")

@case
def gone_with_directory(cay):
    """names of one file that went with their directory stay away"""
    cay.create("gone")
    cay.sh("gone", "mkdir d e; echo 1 > d/one; ln d/one d/two; ln d/one e/three; ln d/one e/four",
           user="root")
    cay.turn("gone")
    cay.sh("gone", "rm -r d", user="root")
    cay.turn("gone")
    cay.sh("gone", "rm -r e; echo a-file > e", user="root")
    import_(cay, export(cay, "gone")[1], sessionId="gone-too")
    compare(cay, "gone", cay, "gone-too")
    cay.destroy("gone")
    cay.destroy("gone-too")


@case
def attributes_taken_away(cay):
    """attributes that a directory has lost do not come back"""
    cay.create("bare")
    cay.sh("bare", "mkdir d", user="root")
    with seen_from_outside(cay, "bare") as root:
        os.setxattr(root / "workspace/d", "user.note", b"1")
        os.setxattr(root / "workspace/d", "user.other", b"2")
    cay.turn("bare")
    with seen_from_outside(cay, "bare") as root:
        os.removexattr(root / "workspace/d", "user.note")
    import_(cay, export(cay, "bare")[1], sessionId="bare-too")
    compare(cay, "bare", cay, "bare-too")
    cay.destroy("bare")
    cay.destroy("bare-too")


@case
def odd_attributes(cay):
    """attributes whatever their names and values come back as they were, and no others"""
    odd = {b"user.a=b": b"c=d", b"user.with space": b"", b"user.100%41": b"%41", b"user.new\nline": b"\n",
           b"user.\xff\xfe": bytes(range(256)), "user.ü".encode(): b"\0", b"user.cay.socket": b"1"}
    cay.create("odd")
    cay.sh("odd", "mkdir d; echo 1 > f", user="root")
    with seen_from_outside(cay, "odd") as root:
        for (name, value), path in itertools.product(odd.items(), ("d", "f")):
            os.setxattr(root / "workspace" / path, name, value)
    import_(cay, export(cay, "odd")[1], sessionId="odd-too")
    compare(cay, "odd", cay, "odd-too")
    with seen_from_outside(cay, "odd-too") as root:
        found = {os.fsencode(name): os.getxattr(root / "workspace/f", name)
                 for name in os.listxattr(root / "workspace/f")}
    assert found == odd, found
    cay.destroy("odd")
    cay.destroy("odd-too")


@case
def again(cay):
    """an import of an import of an import is still the same"""
    import_(cay, story(cay), sessionId="copy")
    _, data = export(cay, "copy", until="turn-0006")
    assert not any(frame.startswith("live/") for frame in names_in(data))
    import_(cay, export(cay, "copy")[1], sessionId="third")
    import_(cay, export(cay, "third")[1], sessionId="fourth")
    compare(cay, "story", cay, "fourth", ["turn-0004"])


def names_in(data):
    plain = subprocess.run(["zstd", "-dc"], input=data, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        return archive.getnames()


@case
def ordinary_tools(cay):
    """tar and zstd read the archive"""
    with tempfile.TemporaryDirectory(prefix="caysys-tar-") as folder:
        path = Path(folder) / "story.tar.zst"
        path.write_bytes(story(cay))
        done = subprocess.run(["tar", "--zstd", "-xf", str(path), "-C", folder,
                               "--warning=no-unknown-keyword"], check=False, capture_output=True)
        assert done.returncode == 0, done.stderr
        head = json.loads((Path(folder) / "cay-export.json").read_text())
        assert head["format"] == "cay-export" and len(head["points"]) == 8, head
        first = Path(folder) / "points/000001/tree/workspace"
        assert (first / "d/hard").read_text() == "1\n"
        assert (first / "d/sparse").stat().st_size == (8 << 20) + 4
        assert (Path(folder) / "points/000002/deleted/workspace/d/e").is_file()


@case
def elsewhere(cay):
    """another host takes it on a base of the same content, on one it is given, or with its own"""
    data = story(cay)
    with Cayd() as other:
        fails("not_found", import_, other, data, reason="base_not_found")
        assert other.ids() == [] and not other.store()["p"]
        _, whole = export(cay, "story", includeBase=True)
        answer = import_(other, whole)
        assert answer["session"]["id"] == "story" and answer["session"]["base"] == "small", answer
        compare(cay, "story", other, "story", ["kept"])
        bases = other.call(BASE + "ListBases")["bases"]
        assert [base["name"] for base in bases] == ["small"], bases
        answer = import_(other, whole)  # the base is there now, the name is not free
        assert answer["session"]["id"] != "story" and answer["session"]["base"] == "small"
        assert len(other.call(BASE + "ListBases")["bases"]) == 1
        other.destroy(answer["session"]["id"])
        import_(other, data, sessionId="digest")
        same(tree_of(cay, "story"), tree_of(other, "digest"), "live")
        key = other.call("cay.v1.KeyService/CreateKey", {"owner": "guest"})["secret"]
        guest = Client(other, key)
        assert import_(guest, data, sessionId="guests")["session"]["owner"] == "guest"
        for session_id in other.ids():
            other.destroy(session_id)
        other.call(BASE + "RemoveBase", {"name": "small"})
        fails("permission_denied", import_, guest, whole)


@case
def since(cay):
    """a stream can continue a session that has its beginning"""
    make_story(cay, "story")
    with Cayd() as other:
        _, whole = export(cay, "story", includeBase=True, until="turn-0002", noBranches=True)
        import_(other, whole)
        assert [entry["name"] for entry in other.log("story")] == ["turn-0001", "turn-0002"]
        same(tree_of(cay, "story", "turn-0002"), tree_of(other, "story"), "until")
        fails("failed_precondition", export, cay, "story", since="kept")
        fails("not_found", export, cay, "story", since="nothing")
        fails("not_found", export, cay, "story", until="nothing")
        _, rest = export(cay, "story", since="turn-0002", noBranches=True)
        fails("failed_precondition", import_, other, rest, sessionId="new")
        fails("failed_precondition", import_, other, whole, sessionId="story", intoExisting=True)
        other.sh("story", "echo 1 > /workspace/in-the-way")
        fails("failed_precondition", import_, other, rest, sessionId="story", intoExisting=True)
        assert other.sh("story", "cat /workspace/in-the-way") == "1\n"
        other.rollback("story", "turn-0002", discard=True)
        answer = import_(other, rest, sessionId="story", intoExisting=True)
        assert int(answer["snapshotCount"]) == 2 and answer["session"]["head"] == "turn-0006", answer
        assert [entry["name"] for entry in other.log("story")] == [
            "turn-0001", "turn-0002", "turn-0005", "turn-0006"]
        same(tree_of(cay, "story", "turn-0005"), tree_of(other, "story", "turn-0005"), "turn-0005")
        same(tree_of(cay, "story"), tree_of(other, "story"), "the live files")
        fails("failed_precondition", import_, other, rest, sessionId="story", intoExisting=True)
        other.restart()
        same(tree_of(cay, "story"), tree_of(other, "story"), "after a restart")
        # All branches that come from there.
        _, rest = export(cay, "story", since="turn-0002")
        assert sum(name.endswith("/tree") for name in names_in(rest)) == 6 + 1


@case
def since_of_another(cay):
    """a stream that continues one session is not put onto the snapshot of the same name of another"""
    for name in ("one", "two"):
        cay.create(name)
        cay.sh(name, f"mkdir d; echo {name} | tee f d/{name}")
        cay.turn(name)
    import_(cay, export(cay, "one")[1], sessionId="copy")
    ahead = changed(export(cay, "one")[1], lambda members: set_snapshot(
        members, "createdAt", "2101-01-01T00:00:00.123456789Z"))
    import_(cay, ahead, sessionId="ahead")  # of a host whose clock is
    import_(cay, export(cay, "ahead")[1], sessionId="ahead-too")
    cay.sh("one", "echo more > g; rm d/one")
    cay.sh("ahead", "echo more > g; rm d/one")
    cay.turn("one")
    cay.turn("ahead")
    rest = export(cay, "one", since="turn-0001")[1]
    fails("failed_precondition", import_, cay, rest, sessionId="two", intoExisting=True)
    assert cay.sh("two", "cat f d/*; ls") == "two\ntwo\nd\nf\n" and len(cay.log("two")) == 1
    import_(cay, rest, sessionId="copy", intoExisting=True)
    compare(cay, "one", cay, "copy")
    import_(cay, export(cay, "ahead", since="turn-0001")[1], sessionId="ahead-too", intoExisting=True)
    compare(cay, "ahead", cay, "ahead-too")
    for name in ("one", "two", "copy", "ahead", "ahead-too"):
        cay.destroy(name)


@case
def running(cay):
    """a session is exported while it writes, at one instant, and does not notice"""
    cay.create("busy")
    cay.background("busy", "i=0; : > a; : > b; echo ready; while :; do i=$((i+1)); echo $i >> a; echo $i >> b; done")
    for _ in range(3):
        _, data = export(cay, "busy")
        import_(cay, data, sessionId="still")
        a, b = (cay.read("still", name).split() for name in ("a", "b"))
        assert 0 <= len(a) - len(b) <= 1, (len(a), len(b))
        cay.destroy("still")
    before = len(cay.read("busy", "a"))
    eventually(lambda: len(cay.read("busy", "a")) > before, "it goes on")
    assert not cay.log("busy")
    cay.destroy("busy")


def head_with(**values):
    def change(members):
        head = json.loads(members[0][1])
        for path, value in values.items():
            at = head
            keys = path.split("__")
            for key in keys[:-1]:
                at = at[int(key) if key.isdigit() else key]
            at[keys[-1]] = value
        return [(members[0][0], json.dumps(head).encode()), *members[1:]]
    return change


def with_member(name, kind=tarfile.REGTYPE, content=b"", at=-1, **fields):
    def change(members):
        member = tarfile.TarInfo(name)
        member.type = kind
        for key, value in fields.items():
            setattr(member, key, value)
        members.insert(at, (member, content if kind == tarfile.REGTYPE else None))
        return members
    return change


def plain(cay):
    """Make a session `plain` with one turn; its export."""
    cay.create("plain")
    cay.sh("plain", "echo 1 > one; mkdir dir; echo 2 > dir/two; ln one three")
    cay.turn("plain")
    cay.sh("plain", "rm one; echo live > live")
    return export(cay, "plain")[1]


@case
def hostile(cay):
    """streams that lie are refused, and nothing is left of them"""
    data = plain(cay)
    cay.create("victim")
    before = (cay.ids(), cay.store()["s"], cay.store()["p"])
    changes = {
        "above": with_member("live/tree/../../../etc/evil", content=b"evil"),
        "absolute": with_member("/etc/evil", content=b"evil"),
        "elsewhere": with_member("dead/tree/x", content=b"x"),
        "no part": with_member("live/other/x", content=b"x"),
        "back": with_member("points/000001/tree/x", content=b"x"),
        "beyond": with_member("points/000007/tree/x", content=b"x"),
        "device": with_member("live/tree/device", kind=tarfile.CHRTYPE, devmajor=1, devminor=3),
        "link out": with_member("live/tree/hard", kind=tarfile.LNKTYPE, linkname="../../etc/passwd"),
        "link across": with_member("live/tree/hard", kind=tarfile.LNKTYPE,
                                   linkname="points/000001/tree/workspace/one"),
        "after the end": lambda members: [*members, members[-2]],
        "no end": lambda members: members[:-1],
        "no live": lambda members: [m for m in members if not m[0].name.startswith("live")],
        "no point": lambda members: [m for m in members if not m[0].name.startswith("points")],
        "no head": lambda members: members[1:],
        "through a link": lambda members: [
            *members[:-1], *with_member("live/tree/out", kind=tarfile.SYMTYPE, linkname="/etc")([]),
            *with_member("live/tree/out/evil", content=b"evil")([]), members[-1]],
        "format": head_with(format="tar"),
        "version": head_with(version=3),
        "no version": head_with(version=0),
        "unknown head": head_with(head="nothing"),
        "bad name": lambda members: set_snapshot(members, "name", "../../x"),
        "bad onto": lambda members: set_point(members, "onto", "later"),
        "bad kind": lambda members: set_snapshot(members, "kind", "SNAPSHOT_KIND_UNSPECIFIED"),
        "long message": lambda members: set_snapshot(members, "message", "x" * 5000),
        "wrong type": lambda members: set_snapshot(members, "turnNumber", {}),
        "bad env": head_with(session__env={"A=B": "c"}),
        "bad user": head_with(session__defaultUser="no:body"),
        "no object": lambda members: [(members[0][0], b"[]"), *members[1:]],
        "no json": lambda members: [(members[0][0], b"{"), *members[1:]],
        "nested": lambda members: [(members[0][0], b"[" * 100000), *members[1:]],
        "twice": lambda members: double_point(members),
        "deletes the root": with_member("live/deleted", kind=tarfile.REGTYPE, content=b"", at=-2),
    }
    for what, change in changes.items():
        bad = changed(data, change)
        try:
            answer = import_(cay, bad, sessionId="bad")
        except RpcError as error:
            assert error.code == "invalid_argument", (what, error.code, error)
        else:
            raise AssertionError((what, answer))
    huge = changed(data, lambda members: [(members[0][0], b" " * (17 << 20)), *members[1:]])
    packed = subprocess.run(["zstd", "-qc"], input=huge, capture_output=True, check=True).stdout
    fails("resource_exhausted", import_, cay, packed, sessionId="bad")
    fails("invalid_argument", import_, cay, b"", sessionId="bad")
    fails("invalid_argument", import_, cay, b"this is no archive at all", sessionId="bad")
    fails("invalid_argument", import_, cay, data, sessionId="bad", sha256="0" * 64)
    fails("invalid_argument", import_, cay, data, sessionId="../bad")
    fails("already_exists", import_, cay, data, sessionId="victim")
    fails("not_found", import_, cay, data, sessionId="bad", base="nosuch")
    import_(cay, data, sessionId="good", sha256=hashlib.sha256(data).hexdigest())
    cay.destroy("good")
    eventually(lambda: (cay.ids(), cay.store()["s"], cay.store()["p"]) == before,
               "nothing of them is left")


def set_point(members, key, value):
    head = json.loads(members[0][1])
    head["points"][0][key] = value
    return [(members[0][0], json.dumps(head).encode()), *members[1:]]


def set_snapshot(members, key, value):
    head = json.loads(members[0][1])
    head["points"][0]["snapshot"][key] = value
    return [(members[0][0], json.dumps(head).encode()), *members[1:]]


def double_point(members):
    head = json.loads(members[0][1])
    head["points"] *= 2
    return [(members[0][0], json.dumps(head).encode()), *members[1:]]


@case
def circular(cay):
    """a past whose parents lead round in a circle is put right: nobody walks it for ever"""
    data = plain(cay)
    for parent in ("turn-0001", "nobody"):
        odd = changed(data, lambda members, parent=parent: set_snapshot(members, "parent", parent))
        import_(cay, odd, sessionId="odd")
        assert [entry.get("parent", "") for entry in cay.log("odd")] == [""], cay.log("odd")
        cay.turn("odd")
        assert cay.log("odd")[1]["parent"] == "turn-0001"
        cay.destroy("odd")


@case
def names_of_our_own(cay):
    """snapshots that came with the names of turns and branches to come are not overwritten by these"""
    cay.create("ours")
    cay.sh("ours", "echo 1 > f")
    cay.snapshot("ours", "mine")
    _, data = export(cay, "ours")
    for name in ("turn-0001", "branch-0001", "branch-0002"):
        odd = changed(data, lambda members, name=name: head_with(head=name)(
            set_snapshot(members, "name", name)))
        import_(cay, odd, sessionId="theirs")
        cay.sh("theirs", "echo 2 > f")
        cay.turn("theirs")
        cay.sh("theirs", "echo 3 > f")
        cay.rollback("theirs", name)
        cay.sh("theirs", "echo 4 > f")
        cay.rollback("theirs", name)
        found = [entry["name"] for entry in cay.log("theirs")]
        assert len(found) == len(set(found)) == 4 and found[0] == name, found
        assert cay.sh("theirs", "cat f") == "1\n"
        cay.destroy("theirs")
    cay.destroy("ours")


@case
def flipped(cay):
    """turned bits and cut ends are refused, and never leave anything"""
    data = plain(cay)
    before = (cay.ids(), cay.store()["s"], cay.store()["p"])
    dice = random.Random(7)
    for number in range(200 if IS_FULL else 30):
        bad = bytearray(data)
        if number < 6:  # the checksum at the very end
            bad[-1 - number] ^= 1
        elif number == 6:
            del bad[-1:]
        elif dice.random() < 0.5:
            bad = bad[:dice.randrange(len(bad))]
        else:
            bad[dice.randrange(len(bad))] ^= 1 << dice.randrange(8)
        try:
            answer = import_(cay, bytes(bad), sessionId="bad")
        except RpcError as error:
            # The name of the base's digest may be what was hit.
            assert error.code in ("invalid_argument", "resource_exhausted", "not_found"), error
        else:
            # A few bits of zstd's own tables mean nothing: then all is as it was.
            assert len(bad) == len(data), ("it was taken", answer)
            compare(cay, "plain", cay, "bad")
            cay.destroy("bad")
    eventually(lambda: (cay.ids(), cay.store()["s"], cay.store()["p"]) == before,
               "nothing of them is left")


@case
def too_long(cay):
    """of a tree that no archive can hold, all that one can hold is exported, and the rest is told of"""
    cay.create("long")
    half = "/".join(["d" * 200] * 15)  # two of them are more than a path may have
    cay.sh("long", "head -c 2000000 /dev/urandom > data")  # something is packed before that
    cay.sh("long", f"mkdir -p one/{half} two/{half}; cd one/{half}; mv /workspace/two .")
    for number in range(3):
        frames = cay.stream(SANDBOX + "ExportSession", {"sessionId": "long"})
        assert int(frames[-1]["summary"]["leftOut"]) == 1, frames[-1]
        _, data = export(cay, "long")
        import_(cay, data, sessionId=f"long-{number}")
        assert cay.sh(f"long-{number}", "sha256sum data") == cay.sh("long", "sha256sum data")
        cay.destroy(f"long-{number}")
    assert cay.sh("long", "echo on") == "on\n" and not cay.log("long")
    cay.destroy("long")


@case
def gone_clients(cay):
    """clients that leave in the middle leave nothing"""
    data = story(cay)
    before = (cay.ids(), cay.store()["s"], cay.store()["p"])
    for cut in (0, 1, 2):
        with Stream(cay, SANDBOX + "ImportSession") as stream:
            for message in itertools.islice(messages(data, {"sessionId": "bad"}), cut):
                stream.send(message)
    with cay.open(SANDBOX + "ExportSession", {"sessionId": "story"}) as stream:
        assert "info" in stream.next()
    eventually(lambda: (cay.ids(), cay.store()["s"], cay.store()["p"]) == before,
               "nothing of them is left")


@case
def killed(cay):
    """a daemon killed during an import or an export forgets it; what was whole is whole"""
    data = story(cay)
    before = cay.ids()
    tree = tree_of(cay, "story")
    count = len(cay.store()["p"])
    took = time.monotonic()
    import_(cay, data, sessionId="timed")
    took = time.monotonic() - took
    cay.destroy("timed")
    outcomes = set()
    attempts = 20 if IS_FULL else 4
    for number in range(attempts):
        thread = threading.Thread(target=quiet, args=(import_, cay, data),
                                  kwargs={"sessionId": "half"})
        thread.start()
        time.sleep(took * number / attempts)
        cay.restart()
        thread.join()
        there = cay.ids()
        outcomes.add("half" in there)
        if "half" in there:
            assert cay.get("half")["state"] == "SESSION_STATE_ACTIVE"
            assert len(cay.log("half")) == len(cay.log("story"))
            cay.destroy("half")
        assert cay.ids() == before, there
        eventually(lambda: len(cay.store()["p"]) == count, "its snapshots are gone")
        eventually(lambda: len(cay.store()["s"]) == len(before), "its trees are gone")
    assert False in outcomes, "no kill came in time"
    thread = threading.Thread(target=quiet, args=(export, cay, "story"))
    thread.start()
    eventually(lambda: len(cay.store()["p"]) > count or not thread.is_alive(), "it is under way")
    cay.restart()
    thread.join()
    eventually(lambda: len(cay.store()["p"]) == count, "the live point is gone")
    same(tree_of(cay, "story"), tree, "the session is as it was")


def quiet(function, *arguments, **more):
    with contextlib.suppress(Exception):
        function(*arguments, **more)


@at_end
def no_snapshot_is_left(cay):
    """with the sessions gone, nothing of them is left in the store"""
    eventually(lambda: not cay.store()["s"] and not cay.store()["p"], "the store is empty")


if __name__ == "__main__":
    run_on(Cayd, import_rich)
