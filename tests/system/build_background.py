#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Builds that go on by themselves, what they copy, and bases that are somebody's own."""

import gzip
import hashlib
import signal

from building import archive, build_sessions, listed, nothing_left, step
from daemon import BASE, KEY, Client, Stream, b64, case, eventually, fails
from small_base import run_with_cayd


def key_of(cay, owner):
    return Client(cay, cay.call("cay.v1.KeyService/CreateKey", {"owner": owner})["secret"])


def start(cay, *steps, build_id="", **fields):
    request = {"name": "built", "fromBase": "small", "steps": list(steps)} | fields
    return cay.call(BASE + "StartBuild", {"build": request, "buildId": build_id})["build"]


def get(cay, build_id, **fields):
    return cay.call(BASE + "GetBuild", {"buildId": build_id} | fields)


def ended(cay, build_id):
    eventually(lambda: get(cay, build_id)["build"]["state"] != "BUILD_STATE_RUNNING", "the build ends", 60)
    return get(cay, build_id)["build"]


def put(cay, data, key=None, piece=100_000):
    key = key or hashlib.sha256(data).hexdigest()
    pieces = [{"data": b64(data[at:at + piece])} for at in range(0, len(data), piece)]
    cay.send_all(BASE + "PutBuildFiles", [{"key": key}, *pieces])
    return key


def names(cay):
    return {base["name"]: sorted(base.get("aliases", [])) for base in listed(cay).values()}


@case
def revoked(cay):
    """a build ends when the key that it was started with is revoked, and leaves nothing"""
    made = cay.call(KEY + "CreateKey", {"owner": "team"})
    mine, other = Client(cay, made["secret"]), key_of(cay, "team")
    for build_id in ("long", "next"):
        mine.call(BASE + "StartBuild", {"buildId": build_id, "build": {
            "name": build_id, "fromBase": "small", "steps": [step("RUN", "echo begun; exec sleep 1000")]}})
    eventually(lambda: get(other, "long").get("logs"), "the build is under way", 60)
    cay.call(KEY + "RevokeKey", {"keyId": made["key"]["id"]})
    for build_id in ("long", "next"):
        build = ended(other, build_id)
        assert build["failure"]["reason"] == "unauthenticated", build
        assert "was revoked" in build["failure"]["message"], build
    eventually(lambda: not build_sessions(cay), "the sessions of the builds are gone")
    nothing_left(cay)


@case
def background(cay):
    """a build goes on without its caller, and its log can be read in pages"""
    made = start(cay, step("RUN", "for i in 1 2 3; do echo line $i; done"), step("RUN", "cat /proc/self/stat"),
                 build_id="mine")
    assert made["id"] == "mine" and made["state"] == "BUILD_STATE_RUNNING" and made["name"] == "built", made
    fails("already_exists", start, cay, build_id="mine", name="other")
    build = ended(cay, "mine")
    assert build["state"] == "BUILD_STATE_READY" and build["progress"]["fraction"] == 1, build
    assert "failure" not in build and build["endedAt"] >= build["startedAt"], build
    lines, offset = [], 0
    while page := get(cay, "mine", logOffset=offset, pageSize=2).get("logs", []):
        assert len(page) <= 2
        lines += [(line["step"], line["message"]) for line in page]
        offset += len(page)
    assert [line for line in lines if line[1].startswith("line")] == [(1, "line 1"), (1, "line 2"), (1, "line 3")], lines
    assert len(lines) == int(build["logCount"]), (lines, build)
    assert not get(cay, "mine", logOffset=10 ** 12).get("logs")
    fails("invalid_argument", get, cay, "mine", logOffset=-1)
    fails("not_found", get, cay, "nothing")
    fails("not_found", get, key_of(cay, "guest"), "mine")
    cay.call(BASE + "RemoveBase", {"name": "built"})


@case
def background_failures(cay):
    """what cannot begin is refused; what fails later says where and why"""
    fails("not_found", start, cay, fromBase="nothing", reason="base_not_found")
    fails("invalid_argument", start, cay, step("RUN"))
    fails("invalid_argument", start, cay, step("RUN", "true"), build_id="a b")
    fails("invalid_argument", cay.call, BASE + "StartBuild", {})
    made = start(cay, step("RUN", "true"), step("RUN", "echo so it goes; exit 3"), step("RUN", "true"))
    build = ended(cay, made["id"])
    assert build["state"] == "BUILD_STATE_FAILED", build
    assert build["failure"]["reason"] == "build_step_failed" and build["failure"]["step"] == 2, build
    assert "status 3: so it goes" in build["failure"]["message"], build
    nothing_left(cay)


@case
def log_is_bounded(cay):
    """of a build that says too much, the beginning is kept, and that there was more"""
    made = start(cay, step("RUN", "yes 'a line that is not so short as others are' | head -n 60000"))
    build = ended(cay, made["id"])
    assert build["state"] == "BUILD_STATE_READY", build
    count = int(build["logCount"])
    assert 5000 < count <= 10001, build
    assert "more lines were not kept" in get(cay, made["id"], logOffset=count - 1)["logs"][0]["message"]
    cay.call(BASE + "RemoveBase", {"name": "built"})


@case
def owners(cay):
    """anybody may build by steps; the base is theirs, and so are its aliases"""
    alice, bob = key_of(cay, "alice"), key_of(cay, "bob")
    made = start(alice, step("RUN", "echo hers > /file"), aliases=["alice/app:1"], name="hers")
    assert ended(alice, made["id"])["state"] == "BUILD_STATE_READY"
    assert listed(alice)["alice/hers"]["owner"] == "alice" and "alice/hers" not in listed(bob)
    fails("not_found", bob.create, "b", base="alice/app:1", reason="base_not_found")
    for name in ("hers", "alice/hers"):
        fails("not_found", start, bob, fromBase=name, name="his", reason="base_not_found")
    fails("already_exists", start, alice, name="hers", reason="base_exists")
    fails("invalid_argument", start, bob, name="alice/hers", replace=True)
    for name in ("hers", "small"):  # others keep theirs
        made = start(bob, step("RUN", "echo his > /file"), name=name, replace=True)
        assert ended(bob, made["id"])["state"] == "BUILD_STATE_READY"
        assert f"bob/{name}" in listed(bob) and "file" not in cay.sh(cay.create("c", base="small")["id"], "ls /")
        cay.destroy("c")
        bob.call(BASE + "RemoveBase", {"name": name})
    for alias in ("alice/app:1", "small-too", "alice", "bobby/app", "bob"):
        fails("permission_denied", start, bob, name="his", aliases=[alias])
    fails("not_found", bob.call, BASE + "UpdateBase", {"name": "hers", "addAliases": ["bob/x"]})
    fails("permission_denied", bob.call, BASE + "UpdateBase", {"name": "small", "addAliases": ["bob/x"]})
    fails("not_found", bob.call, BASE + "RemoveBase", {"name": "hers"})
    alice.create("a", base="alice/app:1")
    assert alice.sh("a", "cat /file") == "hers\n"
    alice.destroy("a")
    made = start(alice, step("RUN", "echo again > /file"), aliases=["alice/app:1"], name="hers", replace=True)
    assert ended(alice, made["id"])["state"] == "BUILD_STATE_READY"
    alice.call(BASE + "RemoveBase", {"name": "hers"})
    nothing_left(cay)


@case
def aliases(cay):
    """a base that goes with its aliases does, wherever the last one goes"""
    def build(name, *wanted):
        assert ended(cay, start(cay, name=name, aliases=wanted, goesWithAliases=True)["id"])["state"] == "BUILD_STATE_READY"
    fails("invalid_argument", start, cay, goesWithAliases=True)
    build("one", "x/app:default", "x/app:v1")
    build("two", "x/app:default")
    assert names(cay) == {"small": [], "one": ["x/app:v1"], "two": ["x/app:default"]}, names(cay)
    answer = cay.call(BASE + "UpdateBase", {"name": "x/app:default", "addAliases": ["x/app:v1", "x/app:v2"]})
    assert sorted(answer["base"]["aliases"]) == ["x/app:default", "x/app:v1", "x/app:v2"], answer
    eventually(lambda: "one" not in names(cay), "the one without aliases is gone")
    fails("not_found", cay.call, BASE + "UpdateBase", {"name": "nothing", "addAliases": ["x/y"]})
    fails("already_exists", cay.call, BASE + "UpdateBase", {"name": "two", "addAliases": ["small"]})
    for alias in ("default", "v1", "v2"):
        assert "two" in names(cay)
        cay.call(BASE + "RemoveBase", {"name": "x/app:" + alias})
    nothing_left(cay)


@case
def files(cay):
    """COPY steps take from archives that were put before, each from its own"""
    alice, bob = key_of(cay, "alice"), key_of(cay, "bob")
    first = put(alice, gzip.compress(archive(("app", None), ("app/one", b"1" * 300_000))))
    second = put(alice, archive(("a.txt", b"a"), ("dir", None), ("dir/b.txt", b"b")))
    assert int(alice.call(BASE + "GetBuildFiles", {"key": second})["bytes"]) > 0
    fails("not_found", bob.call, BASE + "GetBuildFiles", {"key": second})
    fails("invalid_argument", alice.call, BASE + "GetBuildFiles", {"key": "../" + second[3:]})
    fails("invalid_argument", start, bob, step("COPY", ".", "/x") | {"files": second}, name="his")
    fails("invalid_argument", start, alice, step("RUN", "true") | {"files": second})
    fails("invalid_argument", start, alice, step("COPY", "a", "/b"))
    made = start(alice, step("COPY", "app", "/srv/app") | {"files": first},
                 step("COPY", "*.txt", "/srv/glob") | {"files": second},
                 step("COPY", "dir/*.txt", "/srv/deep/", "user", "0600") | {"files": second}, name="hers")
    build = ended(alice, made["id"])
    assert build["state"] == "BUILD_STATE_READY", build
    alice.create("a", base="hers")
    shown = alice.sh("a", "wc -c < /srv/app/one; cat /srv/glob/a.txt; stat -c '%U %a' /srv/deep/b.txt",
                     user="root")
    assert shown == "300000\nauser 600\n", shown
    alice.destroy("a")
    alice.call(BASE + "RemoveBase", {"name": "hers"})
    for bad in ([{"data": b64(b"x")}], [{"key": "short"}], [{"key": first}], [{"key": first}, {"key": first}], []):
        fails("invalid_argument", alice.send_all, BASE + "PutBuildFiles", bad)
    broken = put(alice, b"this is no archive at all" * 100)
    made = start(alice, step("COPY", ".", "/x") | {"files": broken}, name="hers")
    assert ended(alice, made["id"])["failure"]["step"] == 1
    with Stream(alice, BASE + "PutBuildFiles") as stream:  # leaves in the middle
        stream.send({"key": "ab" * 32})
        stream.send({"data": b64(b"half")})
    fails("not_found", alice.call, BASE + "GetBuildFiles", {"key": "ab" * 32})
    nothing_left(cay)
    cay.restart()
    fails("not_found", alice.call, BASE + "GetBuildFiles", {"key": first})


@case
def begin_as(cay):
    """steps begin as the user, in the directory and by the shell that the request says"""
    made = start(cay, step("RUN", "echo $(id -un) $(pwd) $0"), user="user", cwd="/home/user",
                 shell=["/bin/sh", "-e", "-c"])
    assert ended(cay, made["id"])["state"] == "BUILD_STATE_READY"
    said = [line["message"] for line in get(cay, made["id"])["logs"]]
    assert "user /home/user /bin/sh" in said, said
    session = cay.create("s", base="built")
    assert session["defaultUser"] == "user" and session["defaultCwd"] == "/home/user", session
    cay.destroy("s")
    cay.call(BASE + "RemoveBase", {"name": "built"})
    fails("invalid_argument", start, cay, cwd="not/absolute")


@case
def the_end(cay):
    """the end of the daemon is the end of its builds, and leaves nothing of them"""
    for end in (signal.SIGTERM, signal.SIGKILL):
        made = start(cay, step("RUN", "echo running; sleep 1000"))
        eventually(lambda: "running" in str(get(cay, made["id"]).get("logs")), "it runs")
        cay.process.send_signal(end)
        status = cay.process.wait(60)
        cay.process.stdout.close()
        assert status == (0 if end == signal.SIGTERM else -end), (status, cay.log_tail())
        cay.start()
        assert not build_sessions(cay)
        nothing_left(cay)
        assert not cay.leftovers(), cay.leftovers()
        fails("not_found", get, cay, made["id"])


if __name__ == "__main__":
    run_with_cayd("--default-base", "small")
