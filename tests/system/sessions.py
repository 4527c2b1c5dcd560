#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions: how they come and go, whose they are, and that they never see each other."""

import random
import sys
import time

from daemon import (FILE, KEY, PROCESS, SANDBOX, Cayd, Client, RpcError, case, eventually, fails, good,
                    together)
from small_base import import_small, run_with_cayd, small_cayd

BAD_IDS = ("..", "a..b", ".a", "-a", "_a", "a/b", "/a", "a b", "a\nb", "a\0b", "a\x7fb", "é", "🙂", "x" * 129,
           "x" * 4096, "a;b", "$(id)", "a%2e%2e", "a:b", "a\\b")


def raw_create(client, **fields):
    return client.call(SANDBOX + "CreateSession", {"base": "small"} | fields)


@case
def ids(cay):
    """ids follow their rule; others are refused before anything is made"""
    for bad in BAD_IDS:
        fails("invalid_argument", cay.create, bad)
    for fine in ("a", "A.b_c-1", "0", "x" * 128, "a.b.c"):
        assert cay.create(fine)["id"] == fine
        assert cay.sh(fine, "echo fine") == "fine\n"
        cay.destroy(fine)
    made = {cay.create(lazyStart=True)["id"] for _ in range(20)}
    assert len(made) == 20
    for session_id in made:
        cay.destroy(session_id)
    assert cay.ids() == [] and cay.store()["s"] == []


@case
def unknown_ids(cay):
    """every verb says not_found for a session that is not there, however it is named"""
    for bad in ("nobody", "", "../x", "x" * 5000, "🙂", "a\0b"):
        for method, fields in ((SANDBOX + "GetSession", {}), (SANDBOX + "TurnComplete", {}),
                               (SANDBOX + "ListSnapshots", {}), (SANDBOX + "DestroySession", {}),
                               (SANDBOX + "ForkSession", {}), (SANDBOX + "RollbackSession", {"snapshot": "x"}),
                               (SANDBOX + "CreateSnapshot", {"name": "x"}),
                               (SANDBOX + "ExecuteTool", {"call": {"toolName": "bash",
                                                                   "params": {"cmd": "true"}}}),
                               (PROCESS + "LaunchProcess", {"wait": "1s", "spec": {"argv": ["true"]}}),
                               (FILE + "StatFile", {"path": "/"}), (FILE + "MakeDir", {"path": "/x"})):
            fails("not_found", cay.call, method, {"sessionId": bad} | fields)
    assert cay.destroy("nobody", missingOk=True) in ({}, {"existed": False})


@case
def bad_fields(cay):
    """what cannot be is refused, and what cannot be done yet says so"""
    for fields in ({"labels": {"": "x"}}, {"labels": {"a\n": "x"}}, {"labels": {"a": "x\0"}},
                   {"labels": {"x" * 129: "y"}}, {"labels": {"a": "x" * 1025}},
                   {"labels": {f"l{i}": "" for i in range(65)}}, {"env": {"A=B": "x"}}, {"env": {"": "x"}},
                   {"env": {"A": "x\0"}}, {"env": {"A": "x" * 300000}}, {"limits": {"cpus": 0}},
                   {"limits": {"cpus": -1}}, {"limits": {"memoryBytes": "1"}}, {"limits": {"pids": "0"}},
                   {"limits": {"cpus": "NaN"}}, {"defaultCwd": "relative"}, {"defaultCwd": "/" + "x" * 5000},
                   {"owner": "../x"}):
        fails("invalid_argument", cay.create, "bad", **fields)
    fails("not_found", cay.create, "bad", base="no-such-base")
    for lazy in (False, True):
        error = fails_with(("not_found",), cay.create, "bad", defaultUser="nosuch", lazyStart=lazy)
        assert error.reason == "user_not_found" and "'nosuch'" in str(error), error
    for base in ("../small", "small/", "x" * 5000, "🙂", "a\0b"):
        error = fails_with(("not_found", "invalid_argument"), cay.create, "bad", base=base)
        assert error.code != "internal"
    for fields in ({"network": {"allow": ["x.org"]}}, {"runtime": "gvisor"}):
        fails_with(("unimplemented",), cay.create, "bad", **fields)
    assert cay.ids() == []
    assert not cay.leftovers() and cay.store()["s"] == []


def fails_with(codes, function, *arguments, **more):
    try:
        answer = function(*arguments, **more)
    except RpcError as error:
        assert error.code in codes, error
        return error
    raise AssertionError(f"it went well: {str(answer)[:300]}")


@case
def idempotent(cay):
    """a create that is repeated with the same content is the same create; with other content not"""
    first = raw_create(cay, sessionId="same", labels={"a": "1"}, env={"X": "y"})
    cay.sh("same", "echo x > file")
    again = raw_create(cay, sessionId="same", labels={"a": "1"}, env={"X": "y"})
    assert again["existing"] and not first.get("existing"), again
    assert again["session"]["createdAt"] == first["session"]["createdAt"]
    assert cay.read("same", "file") == b"x\n"
    for other in ({"labels": {"a": "2"}}, {"labels": {}}, {"env": {}}, {"defaultUser": "root"}):
        fails("already_exists", raw_create, cay, **({"sessionId": "same", "labels": {"a": "1"},
                                                     "env": {"X": "y"}} | other))
    cay.restart()
    assert raw_create(cay, sessionId="same", labels={"a": "1"}, env={"X": "y"})["existing"]
    cay.destroy("same")
    outcomes = good(together(*(lambda: raw_create(cay, sessionId="once") for _ in range(8))))
    assert sum(not outcome.get("existing") for outcome in outcomes) == 1, outcomes
    for outcome in outcomes:
        assert outcome["session"]["state"] == "SESSION_STATE_ACTIVE", outcome
    cay.destroy("once")


@case
def maximum(_):
    """at the limit of sessions a repeated create is still answered, and a new one is refused"""
    with small_cayd("--max-sessions", "3") as cay:
        cay.create("a")
        cay.create("b")
        fails("resource_exhausted", cay.fork, "a", count=2)
        assert cay.ids() == ["a", "b"], "half a fork was made"
        cay.create("c")
        fails("resource_exhausted", cay.create, "d", reason="max_sessions_reached")
        assert raw_create(cay, sessionId="a")["existing"]
        fails("already_exists", cay.create, "a", env={"X": "y"})
        fails("resource_exhausted", cay.fork, "a")
        cay.destroy("c")
        outcomes = together(*(lambda n=n: cay.create(f"r{n}") for n in range(6)))
        made = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
        assert len(made) == 1, outcomes
        assert len(cay.ids()) == 3


@case
def destroy(cay):
    """a destroyed session is gone, and its name is free for a new one that has nothing of it"""
    cay.create("gone")
    cay.sh("gone", "echo secret > file")
    cay.turn("gone")
    assert cay.destroy("gone") == {"existed": True}
    fails("not_found", cay.destroy, "gone")
    fails("not_found", cay.get, "gone")
    cay.create("gone")
    fails("not_found", cay.file, "StatFile", "gone", path="/workspace/file")
    assert cay.log("gone") == [] and cay.turn("gone")["name"] == "turn-0001"
    outcomes = together(*(lambda: cay.destroy("gone") for _ in range(6)))
    assert {"existed": True} in outcomes, outcomes
    for outcome in outcomes:
        assert outcome == {"existed": True} or outcome.code == "not_found", outcome


@case
def destroy_while_creating(cay):
    """a session that is destroyed while it is made does not come back to life"""
    dice = random.Random(2)
    for number in range(25):
        session_id = f"race-{number}"

        def create(session_id=session_id):
            return cay.create(session_id)

        def remove(session_id=session_id):
            time.sleep(dice.random() * 0.02)
            return cay.destroy(session_id)
        _, removed = together(create, remove)
        if isinstance(removed, Exception):
            assert removed.code == "not_found", removed
            cay.destroy(session_id)
        fails("not_found", cay.get, session_id)
    assert not cay.leftovers() and cay.store()["s"] == []


@case
def destroy_while_forking(cay):
    """a fork that is destroyed while it is made does not come back to life, and the daemon survives the attempt"""
    cay.create("src")
    cay.sh("src", "head -c 20000000 /dev/zero > big")
    cay.background("src", "echo ready; sleep 1000")
    for number in range(15):
        session_id = f"fork-{number}"

        def fork(session_id=session_id):
            return cay.fork("src", newSessionId=session_id)

        def remove(session_id=session_id, number=number):
            time.sleep(number * 0.002)
            return cay.destroy(session_id)
        together(fork, remove, remove)
        cay.destroy(session_id, missingOk=True)
        fails("not_found", cay.get, session_id)
    many = together(lambda: cay.fork("src", count=30, newSessionId="m"),
                    *(lambda n=n: eventually(lambda: n in cay.ids(), "it is there") and cay.destroy(n)
                      for n in ("m-1", "m-2", "m-15", "m-30")))
    assert cay.process.poll() is None, "the daemon died"
    assert not any(isinstance(outcome, (ConnectionError, TimeoutError)) for outcome in many), many
    for session_id in cay.ids():
        cay.destroy(session_id, missingOk=True)  # a fork that failed takes its others with it
    assert not cay.leftovers()
    eventually(lambda: cay.store()["s"] == [], f"no tree is left: {cay.store()['s']}")


@case
def listing(cay):
    """sessions are listed by label, state and page, and destroyed ones hide no others"""
    for number in range(9):
        cay.create(f"l{number}", labels={"half": str(number % 2)}, lazyStart=True)

    def page(token="", **fields):
        return cay.call(SANDBOX + "ListSessions", {"pageSize": 4, "pageToken": token,
                                                   "order": "ORDER_CREATED_ASC"} | fields)
    first = page()
    assert [s["id"] for s in first["sessions"]] == ["l0", "l1", "l2", "l3"], first
    cay.destroy("l3")
    second = page(first["nextPageToken"])
    assert [s["id"] for s in second["sessions"]] == ["l4", "l5", "l6", "l7"], second
    third = page(second["nextPageToken"])
    assert [s["id"] for s in third["sessions"]] == ["l8"] and not third.get("nextPageToken"), third
    odd = cay.call(SANDBOX + "ListSessions", {"labels": {"half": "1"}})["sessions"]
    assert sorted(s["id"] for s in odd) == ["l1", "l5", "l7"], odd
    assert not cay.call(SANDBOX + "ListSessions", {"states": ["SESSION_STATE_FAILED"]}).get("sessions")
    for fields in ({"pageSize": -1}, {"pageSize": 1001}, {"pageToken": "garbage"}, {"pageToken": "\0"}):
        fails("invalid_argument", cay.call, SANDBOX + "ListSessions", fields)
    for session_id in cay.ids():
        cay.destroy(session_id)


@case
def owners(cay):
    """sessions of other owners do not exist for a user"""
    def key(owner, role="KEY_ROLE_USER"):
        return Client(cay, cay.call(KEY + "CreateKey", {"owner": owner, "role": role})["secret"])
    alice, bob, admin = key("alice"), key("bob"), key("root", "KEY_ROLE_ADMIN")
    assert alice.create("hers")["owner"] == "alice"
    alice.sh("hers", "echo secret > file")
    alice.turn("hers")
    for function, arguments in ((bob.get, ()), (bob.destroy, ()), (bob.turn, ()), (bob.log, ()),
                                (bob.fork, ()), (bob.diff, ()), (bob.rollback, ("turn-0001",)),
                                (bob.snapshot, ("x",)), (bob.bash, ("true",)), (bob.launch, ("/bin/true",)),
                                (bob.read, ("file",)), (bob.write, ("file", b"x")),
                                (bob.tool, ("read_file",))):
        fails_with(("not_found", "invalid_argument"), function, "hers", *arguments)
    for verb, fields in (("StatFile", {"path": "file"}), ("ListDir", {"path": "/"}),
                         ("MakeDir", {"path": "x"}), ("MakeSymlink", {"path": "x", "target": "y"}),
                         ("RemoveFile", {"path": "file"}),
                         ("MoveFile", {"source": "file", "destination": "x"})):
        fails("not_found", bob.file, verb, "hers", **fields)
    with bob.attach("hers", "/bin/true") as stream:
        fails("not_found", lambda: list(stream))
    assert bob.ids() == [] and alice.ids() == ["hers"] and "hers" in admin.ids()
    error, missing = (fails("not_found", bob.get, name) for name in ("hers", "nobodys"))
    assert error.message.replace("hers", "") == missing.message.replace("nobodys", "")
    fails("already_exists", bob.create, "hers")
    fails("permission_denied", bob.create, "x", owner="alice")
    fails("not_found", bob.call, SANDBOX + "ListSnapshots", {"sessionId": "hers"})
    assert admin.sh("hers", "cat file") == "secret\n"
    forked = admin.fork("hers")[0]
    assert forked["owner"] == "alice" and alice.destroy(forked["id"])["existed"]
    fails_with(("permission_denied",), bob.send_all, "cay.v1.BaseService/ImportBase",
               [{"options": {"name": "evil", "hostPath": "/etc"}}])
    fails_with(("unauthenticated",), Client(cay, "cay_" + "0" * 40).ids)
    alice.destroy("hers")


@case
def host_path(cay):
    """a path of the host is imported over the Unix socket only"""
    secret = cay.call(KEY + "CreateKey", {"owner": "root", "role": "KEY_ROLE_ADMIN"})["secret"]
    fails_with(("permission_denied", "invalid_argument", "failed_precondition"),
               import_small, Client(cay, secret), "by-tcp")


@case
def apart(cay):
    """two sessions never see each other"""
    cay.create("one", env={"SECRET": "one"})
    cay.create("two")
    marks = "echo mark-one > /workspace/f; echo mark-one > /tmp/f; echo mark-one > /dev/shm/f"
    cay.sh("one", marks)
    cay.background("one", "echo ready; exec sleep 4711")
    assert cay.sh("one", "ls /workspace /tmp /dev/shm") == "/dev/shm:\nf\n\n/tmp:\nf\n\n/workspace:\nf\n"
    for user in ("user", "root"):
        assert cay.sh("two", "ls /workspace /tmp /dev/shm", user=user) == "/dev/shm:\n\n/tmp:\n\n/workspace:\n"
        assert "4711" not in cay.sh("two", "ps -o args | grep -v grep", user=user)
        out = cay.launch("two", "/bin/sh", "-c", "cat /proc/*/environ; ls -d /proc/[0-9]*", user=user)[1]
        assert b"SECRET" not in out and len(out.split(b"/proc/")) < 12, out
    assert cay.sh("one", "hostname") == "one\n" and cay.sh("two", "hostname") == "two\n"
    uids = {line.split()[1] for pid in cay.processes()
            for line in open(f"/proc/{pid}/status", encoding="utf-8") if line.startswith("Uid:")}
    assert len(uids) >= 3 and all(int(uid) > 65536 for uid in uids), "root of a sandbox is root of the host"
    cay.destroy("one")
    cay.destroy("two")


@case
def probes(cay):
    """what hostile code tries from inside is refused, also after a turn, a rollback and a fork"""
    cay.create("evil")

    def check(session_id):
        for user in ("user", "root"):
            result, out, err = cay.launch(session_id, "/bin/probe", user=user)
            assert b"0 reached" in out and b"reached:" not in out, (user, result, out, err)
    check("evil")
    cay.sh("evil", "echo x > file")
    cay.turn("evil")
    check("evil")
    cay.sh("evil", "rm -rf /dev/* /proc/* /workspace 2> /dev/null; true", user="root")
    cay.rollback("evil", "turn-0001")
    check("evil")
    check(cay.fork("evil")[0]["id"])
    cay.restart()
    check("evil")


@case
def odd_bases(cay):
    """a base whose /dev, /proc or /workspace is a link or a file leads nowhere outside"""
    cay.create("odd")
    cay.sh("odd", "rm -rf /dev /proc /sys /tmp 2> /dev/null; mv /workspace /w; ln -s /etc /workspace", user="root",
           cwd="/")
    cay.turn("odd")
    fork = cay.fork("odd", snapshot="turn-0001", lazyStart=True)[0]["id"]
    try:
        out = cay.launch(fork, "/bin/sh", "-c", "ls -d /dev/null /proc/1; pwd", user="root", cwd="/")
        assert b"/dev/null" in out[1], out
    except RpcError as error:
        assert error.code in ("internal", "failed_precondition", "unavailable", "invalid_argument"), error
    assert cay.process.poll() is None


@case
def missing_directory(cay):
    """the directory commands start in is made if it is missing"""
    cay.create("deep", defaultCwd="/srv/a/b")
    assert cay.sh("deep", "pwd; touch x; stat -c %U .") == "/srv/a/b\nuser\n"
    cay.tool("deep", "write_file", path="y", content="z")
    assert cay.sh("deep", "ls") == "x\ny\n"


@case
def tokens(cay):
    """a session's token opens this session and nothing else, stays the same, and ends with it"""
    made = raw_create(cay, sessionId="tok", labels={"a": "b"})
    token = made["tokens"]["accessToken"]
    raw_create(cay, sessionId="other")
    again = cay.call(SANDBOX + "GetSession", {"sessionId": "tok", "includeTokens": True})
    assert again["tokens"] == made["tokens"] and made["tokens"]["trafficToken"] != token
    public = raw_create(cay, sessionId="public", network={"publicPorts": True})
    assert "trafficToken" not in public["tokens"], "what is open needs no token"
    cay.destroy("public")
    holder = Client(cay.daemon, token)
    assert holder.call(SANDBOX + "GetSession", {"sessionId": "tok"})["session"]["labels"] == {"a": "b"}
    assert holder.call(FILE + "StatFile", {"sessionId": "tok", "path": "/"})["info"]["type"] == "FILE_TYPE_DIRECTORY"
    fails("not_found", holder.call, SANDBOX + "GetSession", {"sessionId": "other"})
    fails("not_found", holder.call, FILE + "StatFile", {"sessionId": "other", "path": "/"})
    for method, fields in ((SANDBOX + "GetSession", {"sessionId": "tok", "includeTokens": True}),
                           (SANDBOX + "CreateSession", {"base": "small"}), (SANDBOX + "ListSessions", {}),
                           (SANDBOX + "UpdateSession", {"sessionId": "tok"}),
                           (SANDBOX + "ForkSession", {"sessionId": "tok"}),
                           (SANDBOX + "DestroySession", {"sessionId": "tok"}),
                           (SANDBOX + "GetUsage", {}), (KEY + "ListKeys", {})):
        fails("permission_denied", holder.call, method, fields)
    fork = cay.call(SANDBOX + "ForkSession", {"sessionId": "tok"})["forks"][0]
    assert fork["tokens"]["accessToken"] != token
    for wrong in (token[:-1], token + "0", token.replace("tok", "other"), "cst__", "cst_tok_" + "0" * 40):
        fails("unauthenticated", Client(holder.daemon, wrong).call, SANDBOX + "GetSession", {"sessionId": "tok"})
    for session_id in ("tok", "other", fork["session"]["id"]):
        cay.destroy(session_id)
    fails("unauthenticated", holder.call, SANDBOX + "GetSession", {"sessionId": "tok"})
    made = raw_create(cay, sessionId="tok")
    assert made["tokens"]["accessToken"] != token, "another session of that name"
    cay.destroy("tok")


if __name__ == "__main__":
    run_with_cayd(probe=sys.argv[2])
