#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots published as bases."""

import contextlib
import re
import sqlite3
from pathlib import Path

from daemon import BASE, SANDBOX, Client, at_end, case, eventually, fails
from small_base import run_with_cayd

KEY = "cay.v1.KeyService/"


def listed(cay, **fields):
    return {base["name"]: base for base in cay.call(BASE + "ListBases", fields).get("bases", [])}


def remove(cay, name):
    cay.call(BASE + "RemoveBase", {"name": name})


def snapshots(cay, session_id):
    return [snapshot["name"] for snapshot in cay.log(session_id)]


@case
def outlives(cay):
    """a published snapshot is a base that outlives its session, and the daemon"""
    cay.create("from", env={"SECRET": "key"})
    cay.sh("from", "mkdir -p d && echo kept > d/file && echo 2 > d/one && ln d/one d/two && mkfifo d/fifo")
    cay.turn("from")
    cay.sh("from", "rm -rf /workspace/d/fifo && echo more >> d/file")
    cay.sh("from", "rm /etc/passwd && mkdir /etc/new && echo 1 > /etc/new/one", user="root")
    cay.background("from", "echo ready; exec sleep 1000")
    taken = cay.snapshot("from", "ready", publishBase="ready")
    assert taken["name"] == "ready", taken
    base = listed(cay)["ready"]
    assert base["origin"] == "BASE_ORIGIN_SNAPSHOT" and base["source"] == "from@ready", base
    assert base["digest"].startswith("sha256:") and base["digest"] != listed(cay)["small"]["digest"]
    assert int(base["sizeBytes"]) > 0 and int(base["entryCount"]) > 0 and "owner" not in base, base
    cay.sh("from", "echo later > later")
    cay.destroy("from")
    cay.restart()
    session = cay.create("to", base="ready")
    assert "env" not in session, session
    seen = cay.sh("to", "cat d/file; stat -c %i d/one d/two | uniq | wc -l; ls /workspace d /etc/new; ls /etc/passwd 2>&1 || :")
    assert seen.startswith("kept\nmore\n1\n"), seen
    assert "fifo" not in seen and "later" not in seen and "one" in seen, seen
    assert "No such file" in seen, seen
    assert not cay.diff("to", fromSnapshot="base")[0]
    cay.sh("to", "echo mine > d/file")
    assert list(cay.diff("to", fromSnapshot="base")[0]) == ["/workspace/d/file"]
    cay.create("third", base="ready")
    assert cay.sh("third", "cat d/file") == "kept\nmore\n"
    cay.destroy("third")
    cay.destroy("to")
    remove(cay, "ready")


@case
def removed(cay):
    """a published base is removed like any base, and in any order"""
    cay.create("from")
    cay.snapshot("from", "ready", publishBase="ready")
    cay.create("to", base="ready")
    cay.sh("to", "mkdir d && echo mine > d/file")
    fails("failed_precondition", remove, cay, "ready", reason="base_in_use")
    cay.destroy("from")
    cay.snapshot("to", "again", publishBase="again")
    cay.destroy("to")
    remove(cay, "ready")
    cay.create("on", base="again")
    assert cay.sh("on", "cat d/file") == "mine\n"
    cay.snapshot("on", "twice", publishBase="twice")
    cay.destroy("on")
    remove(cay, "again")
    cay.create("on", base="twice")
    assert cay.sh("on", "cat d/file") == "mine\n"
    cay.destroy("on")
    remove(cay, "twice")
    assert list(listed(cay)) == ["small"]


@case
def refused(cay):
    """what cannot be published takes no snapshot either"""
    cay.create("no")
    for bad in ("..", "a/b", "host", "host-1", "a b", "x" * 129):
        fails("invalid_argument", cay.snapshot, "no", "point", publishBase=bad)
    fails("already_exists", cay.snapshot, "no", "point", publishBase="small", reason="base_exists")
    assert snapshots(cay, "no") == []
    cay.snapshot("no", "point", publishBase="point")
    fails("already_exists", cay.snapshot, "no", "point", publishBase="other")
    assert sorted(listed(cay)) == ["point", "small"]
    cay.destroy("no")
    remove(cay, "point")


@case
def settings(cay):
    """sessions of a published base start with what those of its own base start with"""
    change = {"name": "small", "existingBase": "small",
              "settings": {"env": {"FROM": "base"}, "cwd": "/tmp", "user": "root"}}
    cay.send_all(BASE + "ImportBase", [{"options": change}])
    cay.create("set", env={"OWN": "session"})
    cay.snapshot("set", "", publishBase="set")
    cay.destroy("set")
    session = cay.create("set", base="set", lazyStart=True)
    assert session["env"] == {"FROM": "base"}, session
    assert session["defaultCwd"] == "/tmp" and session["defaultUser"] == "root", session
    cay.destroy("set")
    remove(cay, "set")


@case
def large(cay):
    """holes and hard links that would be read for days are published without a digest, and nothing of them is read"""
    def read_bytes():
        return int(re.search(r"rchar: (\d+)", Path(f"/proc/{cay.process.pid}/io").read_text())[1])

    cay.create("large")
    cay.sh("large", "truncate -s 8000G holes; dd if=/dev/zero of=0 bs=1M count=32 2> /dev/null; "
                    "i=1; while [ $i -lt 2000 ]; do ln 0 $i; i=$((i+1)); done; sync")
    before = read_bytes()
    cay.snapshot("large", "both", publishBase="both")
    cay.sh("large", "rm holes")
    cay.snapshot("large", "links", publishBase="links")
    assert read_bytes() - before < 1 << 30, (before, read_bytes())
    cay.sh("large", "rm [0-9]*; truncate -s 200M holes")
    cay.snapshot("large", "small-holes", publishBase="small-holes")
    digests = {name: base.get("digest") for name, base in listed(cay).items()}
    assert not digests["both"] and not digests["links"] and digests["small-holes"], digests
    cay.destroy("large")
    cay.create("large", base="both")
    seen = cay.sh("large", "stat -c %s holes 7")
    assert seen == f"{8000 << 30}\n{32 << 20}\n", seen
    cay.destroy("large")
    for name in ("both", "links", "small-holes"):
        remove(cay, name)


@case
def token(cay):
    """who holds no more than the token of a session publishes nothing: a base outlives the session"""
    cay.create("token")
    token = cay.call(SANDBOX + "GetSession", {"sessionId": "token", "includeTokens": True})["tokens"]
    holder = Client(cay, token["accessToken"])
    assert holder.snapshot("token", "point")["name"] == "point"
    fails("permission_denied", holder.snapshot, "token", "other", publishBase="other")
    assert snapshots(cay, "token") == ["point"] and "other" not in listed(cay)
    cay.destroy("token")


def key(cay, owner, **fields):
    return Client(cay, cay.call(KEY + "CreateKey", {"owner": owner, **fields})["secret"])


def publish(who, name):
    """A base with a file that says whose it is."""
    whose = str(id(who))
    who.create(f"from-{whose}", base="small")
    who.sh(f"from-{whose}", f"echo {whose} > whose")
    who.snapshot(f"from-{whose}", "point", publishBase=name)
    who.destroy(f"from-{whose}")


def got(who, base):
    """Whose base this is: the one that `publish` was called with."""
    session = who.create("got", base=base)
    whose = who.sh("got", "cat whose").strip()
    who.destroy("got")
    return session["base"], int(whose)


@case
def owned(cay):
    """what a user publishes is theirs alone"""
    alice, bob = key(cay, "alice"), key(cay, "bob")
    publish(alice, "hers")
    cay.restart()
    assert listed(alice)["alice/hers"]["owner"] == "alice" and "alice/hers" in listed(cay)
    assert "alice/hers" not in listed(bob)
    for name in ("hers", "alice/hers", "alice-_shers"):
        assert not listed(bob, name=name)
        fails("not_found", bob.create, "x", base=name, reason="base_not_found")
        fails("not_found", remove, bob, name, reason="base_not_found")
    fails("permission_denied", remove, alice, "small")
    for name in ("hers", "alice/hers"):
        assert list(listed(alice, name=name)) == ["alice/hers"]
        assert got(alice, name) == ("alice/hers", id(alice))
    remove(alice, "hers")
    assert "alice/hers" not in listed(cay)


@case
def well_known(cay):
    """a name that a user took is still there for others, and an administrator never gets the user's base by it"""
    alice, bob = key(cay, "alice"), key(cay, "bob")
    publish(alice, "debian")
    fails("already_exists", publish, alice, "debian", reason="base_exists")
    alice.destroy(f"from-{id(alice)}")
    assert not listed(cay, name="debian")
    for ask in (lambda: cay.create("x", base="debian"), lambda: remove(cay, "debian"),
                lambda: cay.call(BASE + "UpdateBase", {"name": "debian", "addAliases": ["python"]})):
        fails("not_found", ask, reason="base_not_found")
    assert got(cay, "alice/debian") == ("alice/debian", id(alice))
    publish(cay, "debian")
    publish(bob, "debian")
    assert {"debian", "alice/debian", "bob/debian"} <= set(listed(cay))
    for who in (alice, bob):
        assert got(who, "debian")[1] == id(who)
    assert got(cay, "debian") == got(key(cay, "carol"), "debian") == ("debian", id(cay))
    cay.create("on", base="debian")
    alice.create("hers", base="debian")
    found = alice.call(SANDBOX + "ListSessions", {"base": "debian"})["sessions"]
    assert [session["id"] for session in found] == ["hers"], found
    counts = {name: int(base.get("sessionCount", 0)) for name, base in listed(cay).items()}
    assert counts == {"small": 0, "debian": 1, "alice/debian": 1, "bob/debian": 0}, counts
    for who, name in ((cay, "on"), (alice, "hers")):
        who.destroy(name)
    remove(cay, "debian")
    remove(bob, "debian")
    remove(cay, "alice/debian")
    assert list(listed(cay)) == ["small"]


@case
def before_owners(cay):
    """a base that a user made when names were common to all is the user's still, and nobody else's by its short name"""
    publish(cay, "old")
    cay.stop()
    with contextlib.closing(sqlite3.connect(cay.data / "cay.db")) as db, db:
        (spec,) = db.execute("SELECT spec FROM bases WHERE name = 'old'").fetchone()
        db.execute("UPDATE bases SET spec = ? WHERE name = 'old'", (spec + b"\x72\x05alice",))  # owner = 14
    cay.start()
    alice = key(cay, "alice")
    assert list(listed(alice, name="old")) == list(listed(cay, name="alice/old")) == ["alice/old"]
    fails("not_found", cay.create, "x", base="old", reason="base_not_found")
    for who, name in ((alice, "old"), (alice, "alice/old"), (cay, "alice/old")):
        assert got(who, name)[1] == id(cay)
    fails("already_exists", publish, alice, "old", reason="base_exists")
    alice.destroy(f"from-{id(alice)}")
    remove(cay, "alice/old")
    assert list(listed(cay)) == ["small"]


@at_end
def no_base_is_left(cay):
    """nothing is left of what was removed"""
    cay.restart()  # clones made ahead of need are for bases that were used since
    def kept():
        found = cay.store()  # where it keeps its trees depends on its kind
        return {kind: len(names) for kind, names in found.items()}
    trees = {"l": 1, "s": 0, "p": 0, "t": 0} if kept()["l"] else {"l": 0, "s": 0, "p": 0, "t": 1}
    eventually(lambda: kept() == trees, "only the first base is left")


if __name__ == "__main__":
    run_with_cayd("--default-base", "small")
