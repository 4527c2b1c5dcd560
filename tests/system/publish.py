#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots published as bases."""

from daemon import BASE, SANDBOX, Cayd, Client, case, eventually, fails, run
from small_base import import_small

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


@case
def removed(cay):
    """it is removed like any base, and in any order"""
    fails("failed_precondition", remove, cay, "ready", reason="base_in_use")
    cay.destroy("third")
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
    """sessions of it start with what those of its base start with"""
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
    """holes and hard links that would be read for days are published at once, without a digest"""
    cay.create("large")
    cay.sh("large", "truncate -s 8000G holes; dd if=/dev/zero of=0 bs=1M count=32 2> /dev/null; "
                    "i=1; while [ $i -lt 2000 ]; do ln 0 $i; i=$((i+1)); done; sync")
    cay.snapshot("large", "both", publishBase="both")
    cay.sh("large", "rm holes")
    cay.snapshot("large", "links", publishBase="links")
    cay.sh("large", "rm [0-9]*; truncate -s 1G holes")
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


@case
def owned(cay):
    """what a user publishes is theirs alone"""
    def key(owner):
        return Client(cay, cay.call(KEY + "CreateKey", {"owner": owner})["secret"])
    alice, bob = key("alice"), key("bob")
    alice.create("hers")
    alice.snapshot("hers", "mine", publishBase="hers")
    alice.destroy("hers")
    cay.restart()
    assert listed(alice)["hers"]["owner"] == "alice" and "hers" in listed(cay)
    assert "hers" not in listed(bob) and not listed(bob, name="hers")
    fails("not_found", bob.create, "x", base="hers", reason="base_not_found")
    fails("not_found", remove, bob, "hers", reason="base_not_found")
    fails("permission_denied", remove, alice, "small")
    alice.create("again", base="hers")
    alice.destroy("again")
    remove(alice, "hers")
    assert "hers" not in listed(cay)


@case
def nothing_left(cay):
    """nothing is left of what was removed"""
    def kept():
        found = cay.store()  # where it keeps its trees depends on its kind
        return {kind: len(names) for kind, names in found.items()}
    trees = {"l": 1, "s": 0, "p": 0, "t": 0} if kept()["l"] else {"l": 0, "s": 0, "p": 0, "t": 1}
    eventually(lambda: kept() == trees, "only the first base is left")


with Cayd("--default-base", "small") as daemon:
    import_small(daemon)
    run(daemon)
