#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What one owner may have, and one session: refused with the quota's name, its value and what to do."""

import contextlib
import json
import os
import subprocess
import sys

from daemon import BASE, FILE, KEY, PROCESS, SANDBOX, Client, b64, case, eventually, fails, together
from session_stream import export, import_
from small_base import run_with_cayd

CAY = sys.argv[2]
QUOTA = "cay.v1.QuotaService/"
MIB = 1 << 20
FLAGS = ("--default-memory", "128MiB", "--default-pids", "64", "--quota-sessions", "4", "--quota-memory", "1GiB",
         "--quota-pids", "1000", "--quota-snapshots", "6", "--session-max-snapshots", "4", "--quota-ports", "2", "--quota-bases", "2",
         "--quota-streams", "4",
         "--session-max-memory", "768MiB", "--session-max-pids", "500")


@contextlib.contextmanager
def sessions_of(cay, name, *ids):
    client = Client(cay, cay.call(KEY + "CreateKey", {"owner": name})["secret"])
    try:
        for session_id in ids:
            client.create(session_id, lazyStart=True)
        yield client
    finally:
        for session in client.call(SANDBOX + "ListSessions").get("sessions", []):
            client.destroy(session["id"])
        cay.call(QUOTA + "SetQuota", {"owner": name, "clear": ["sessions", "memory_bytes", "cpus", "disk_bytes", "pids",
                                                               "snapshots", "ports", "bases", "streams"]})


def refused(what, *arguments, code="resource_exhausted", **fields):
    error = fails(code, *arguments, **fields)
    assert all(word in str(error) for word in what), error


@case
def sessions(cay):
    """an owner has so many sessions, by whatever verb; another owner and the administrator are not bound by them"""
    with sessions_of(cay, "a", "a1", "a2", "a3") as one, sessions_of(cay, "b", "b1"):
        refused(["quota_sessions", "'a'", "4"], one.fork, "a1", count=2)
        one.create("a4", lazyStart=True)
        refused(["quota_sessions", "'a'", "4"], one.create, "a5", lazyStart=True)
        for number in range(6):
            cay.create(f"admin-{number}", lazyStart=True)
            cay.destroy(f"admin-{number}")
        one.destroy("a4")
        one.create("a5", lazyStart=True)


@case
def limits(cay):
    """limits of an owner's sessions add up to its quota, and a single one has a ceiling"""
    with sessions_of(cay, "a", "a1") as one:
        for client in (one, cay):
            refused(["session_max_memory", "768 MiB"], client.create, "big", limits={"memoryBytes": str(900 << 30)},
                    code="invalid_argument")
            refused(["session_max_pids", "500"], client.create, "big", limits={"pids": "4000000"},
                    code="invalid_argument")
        refused(["session_max_memory"], one.call, SANDBOX + "UpdateSession",
                {"sessionId": "a1", "limits": {"memoryBytes": str(900 << 30)}}, code="invalid_argument")
        one.create("a2", lazyStart=True, limits={"memoryBytes": str(700 * MIB)})
        refused(["quota_memory", "1024 MiB"], one.create, "a3", limits={"memoryBytes": str(300 * MIB)})
        refused(["quota_memory"], one.call, SANDBOX + "UpdateSession",
                {"sessionId": "a1", "limits": {"memoryBytes": str(400 * MIB)}})
        one.call(SANDBOX + "UpdateSession", {"sessionId": "a2", "limits": {"memoryBytes": str(100 * MIB)}})
        one.call(SANDBOX + "UpdateSession", {"sessionId": "a1", "limits": {"memoryBytes": str(400 * MIB)}})


@case
def snapshots(cay):
    """a session has so many snapshots and an owner so many; a session that prunes by itself goes on"""
    with sessions_of(cay, "a", "a1", "a2") as one:
        for _ in range(4):
            one.turn("a1")
        refused(["session_max_snapshots"], one.turn, "a1")
        refused(["session_max_snapshots"], one.snapshot, "a1", "named")
        for _ in range(2):
            one.turn("a2")
        refused(["quota_snapshots", "6"], one.turn, "a2")
        one.call(SANDBOX + "UpdateSession", {"sessionId": "a2", "maxSnapshots": 2})
        one.turn("a2")


@case
def ports(cay):
    """an owner exposes so many ports, and chooses those of the host from a range"""
    def expose(client, session_id, port, **fields):
        return client.call(PROCESS + "ExposePort", {"sessionId": session_id, "port": {"port": port} | fields})

    with sessions_of(cay, "a", "a1", "a2") as one:
        refused(["port_first", "10000"], expose, one, "a1", 8000, code="permission_denied", hostPort=5432)
        expose(one, "a1", 8000)
        expose(one, "a2", 8000)
        refused(["quota_ports", "2"], expose, one, "a2", 8001)
        expose(one, "a1", 8000)  # again: no other one


def build(client, name, **fields):
    """A base made of another by a step; it takes a while."""
    step = {"kind": "BUILD_STEP_KIND_RUN", "args": ["echo made > /made"]}
    return client.stream(BASE + "BuildBase", {"name": name, "fromBase": "small", "steps": [step]} | fields)


@case
def steps_of_builds(cay):
    """the session that a build's steps run in is its owner's like any other"""
    with sessions_of(cay, "a", "a1", "a2", "a3", "a4") as one:
        refused(["quota_sessions", "'a'", "4"], build, one, "a-base")
        one.destroy("a4")
        refused(["quota_memory"], build, one, "a-base", limits={"memoryBytes": str(700 * MIB)})
        build(one, "a-base")
        one.call(BASE + "RemoveBase", {"name": "a-base"})


@case
def bases(cay):
    """an owner has so many bases, built and published, also when several are begun at once; its own it may replace"""
    with sessions_of(cay, "a", "a1") as one:
        one.snapshot("a1", "first", publishBase="a-first")
        outcomes = together(*[lambda name=name: build(one, name) for name in ("a-2", "a-3", "a-4")])
        errors = [str(error) for error in outcomes if isinstance(error, Exception)]
        assert len(errors) == 2 and all("quota_bases" in text and "of at most 2 bases" in text for text in errors), outcomes
        refused(["quota_bases", "has 2 of at most 2 bases", "cay quota set a --bases"], one.snapshot, "a1", "second",
                publishBase="a-second")
        assert [point["name"] for point in one.log("a1")] == ["first"], one.log("a1")
        assert get_quota(one)["used"]["bases"] == "2"
        made = next(name for name, error in zip(("a-2", "a-3", "a-4"), outcomes) if not isinstance(error, Exception))
        build(one, made, replace=True)
        cay.snapshot("a1", "admin", publishBase="of-admin")
        assert get_quota(one)["used"]["bases"] == "2"
        set_quota(cay, "a", bases="3")
        one.snapshot("a1", "second", publishBase="a-second")
        refused(["has 3 of at most 3 bases"], build, one, "a-5")
        one.destroy("a1")
        for name in ("a-first", made, "a-second"):
            one.call(BASE + "RemoveBase", {"name": name})
        cay.call(BASE + "RemoveBase", {"name": "of-admin"})
        assert get_quota(one)["used"].get("bases", "0") == "0"


def disk_of(client):
    """Mebibytes that count for its quota."""
    return int(get_quota(client)["used"].get("diskBytes", 0)) / MIB


def publish(client, session_id, name):
    return client.snapshot(session_id, name, publishBase=name)


@case
def bases_on_disk(cay):
    """what an owner's bases add to those of everybody counts for its disk quota, however they come one from another"""
    with sessions_of(cay, "a") as one:
        set_quota(cay, "a", diskBytes=str(40 * MIB), bases="9", snapshots="9")
        one.create("a1", lazyStart=True, limits={"diskBytes": str(20 * MIB)})
        one.write("a1", "f", os.urandom(8 * MIB))
        publish(one, "a1", "a-one")
        assert 28 <= disk_of(one) < 29, disk_of(one)
        publish(one, "a1", "a-two")
        refused(["quota_disk", "cay quota set a --disk"], publish, one, "a1", "a-three")
        assert [point["name"] for point in one.log("a1")] == ["a-one", "a-two"], one.log("a1")
        cay.snapshot("a1", "admin", publishBase="of-admin")
        assert 36 <= disk_of(one) < 37, disk_of(one)
        one.destroy("a1")
        one.call(BASE + "RemoveBase", {"name": "a-two"})
        # What it adds is nothing; but the other one may go, and it keeps the files.
        one.create("a2", base="a-one", lazyStart=True, limits={"diskBytes": str(2 * MIB)})
        publish(one, "a2", "a-same")
        one.call(BASE + "RemoveBase", {"name": "a-one", "force": True})
        assert 10 <= disk_of(one) < 11, disk_of(one)
        publish(one, "a2", "a-last")  # stands on what is gone: all of it counts
        counted = disk_of(one)
        assert 20 <= counted < 26, counted
        cay.restart()
        assert disk_of(one) == counted, disk_of(one)
        one.call(BASE + "RemoveBase", {"name": "a-last"})
        one.destroy("a2")
        # The session of a build goes with its end: there need not be room for both.
        fill = {"kind": "BUILD_STEP_KIND_RUN", "args": ["dd if=/dev/urandom of=/made bs=1048576 count=8"]}
        for _ in range(2):
            build(one, "a-built", replace=True, steps=[fill], limits={"diskBytes": str(20 * MIB)})
            assert 16 <= disk_of(one) < 17, disk_of(one)
        for name in ("a-same", "a-built"):
            one.call(BASE + "RemoveBase", {"name": name})
        cay.call(BASE + "RemoveBase", {"name": "of-admin"})
        assert disk_of(one) == 0


def put_files(client, key, mebibytes):
    piece = {"data": b64(os.urandom(MIB))}
    return client.send_all(BASE + "PutBuildFiles", [{"key": f"{key:064x}"}, *[piece] * mebibytes])


@case
def what_passes_through(cay):
    """streams that are kept until they are whole count for the disk quota, as long as they are there"""
    with sessions_of(cay, "a") as one:
        set_quota(cay, "a", diskBytes=str(20 * MIB))
        one.create("a1", lazyStart=True, limits={"diskBytes": str(12 * MIB)})
        put_files(one, 1, 7)
        assert disk_of(one) == 19, disk_of(one)
        refused(["quota_disk"], one.create, "a2", lazyStart=True, limits={"diskBytes": str(2 * MIB)})
        put_files(one, 2, 15)  # the older ones make way
        fails("not_found", one.call, BASE + "GetBuildFiles", {"key": f"{1:064x}"})
        refused(["quota_disk", "cay quota set a --disk"], put_files, one, 3, 30)
        refused(["quota_disk"], import_, one, os.urandom(30 * MIB))
        one.write("a1", "f", os.urandom(11 * MIB))
        eventually(lambda: int(one.get("a1").get("usage", {}).get("diskBytes", 0)) >= 11 * MIB, "it is measured")
        refused(["quota_disk"], export, one, "a1")
        open_ = {"open": {"sessionId": "a1", "path": "to", "archive": "TREE_FORMAT_TAR"}}
        refused(["quota_disk"], one.send_all, FILE + "WriteFile", [open_, *[{"data": b64(os.urandom(MIB))}] * 11])
        eventually(lambda: disk_of(one) <= 12, "nothing is kept of what was refused")
        put_files(cay, 1, 30)  # an administrator's are not bound by a quota


def expose(client, session_id, port):
    return client.call(PROCESS + "ExposePort", {"sessionId": session_id, "port": {"port": port}})


def set_quota(client, owner, clear=(), **values):
    return client.call(QUOTA + "SetQuota", {"owner": owner, "set": values, "clear": clear})["quota"]


def get_quota(client, owner=""):
    return client.call(QUOTA + "GetQuota", {"owner": owner})["quota"]


@case
def own_values(cay):
    """an owner's own values hold at once, for every verb, and for nobody else; cleared, the configuration's hold again"""
    with sessions_of(cay, "a", "a1") as one, sessions_of(cay, "b", "b1") as other:
        quota = set_quota(cay, "a", sessions="2", memoryBytes=str(300 * MIB), pids="200", snapshots="1", ports="1")
        assert quota["own"] == {"sessions": "2", "memoryBytes": str(300 * MIB), "pids": "200", "snapshots": "1",
                                "ports": "1"}, quota
        refused(["quota_sessions", "'a' has 1 of at most 2 sessions", "cay quota set a --sessions"], one.fork, "a1", count=2)
        refused(["quota_memory", "300 MiB", "cay quota set a --memory"], one.call, SANDBOX + "UpdateSession",
                {"sessionId": "a1", "limits": {"memoryBytes": str(301 * MIB)}})
        refused(["quota_pids", "has 64 of at most 200 processes", "--pids"], one.create, "a2", limits={"pids": "137"})
        one.turn("a1")
        refused(["quota_snapshots", "has 1 of at most 1 snapshots", "--snapshots"], one.turn, "a1")
        expose(one, "a1", 8000)
        refused(["quota_ports", "has 1 of at most 1 exposed", "--ports"], expose, one, "a1", 8001)
        one.create("a2", lazyStart=True)
        refused(["quota_sessions"], one.create, "a3", lazyStart=True)
        for number in (2, 3, 4):
            other.create(f"b{number}", lazyStart=True)
        refused(["'b' has 4 of at most 4 sessions"], other.create, "b5", lazyStart=True)
        set_quota(cay, "a", sessions="0", clear=["memory_bytes", "pids", "snapshots", "ports"])
        for number in (3, 4, 5):
            one.create(f"a{number}", lazyStart=True)
        one.turn("a1")
        expose(one, "a1", 8001)
        set_quota(cay, "a", clear=["sessions"])
        assert get_quota(cay, "a")["own"] == {}
        refused(["'a' has 5 of at most 4 sessions"], one.create, "a6", lazyStart=True)


@case
def limits_that_come_later(cay):
    """what is over a new quota stays and may become less; sessions need the limits that a quota counts"""
    with sessions_of(cay, "a", "a1", "a2") as one:
        set_quota(cay, "a", sessions="1", memoryBytes=str(100 * MIB), cpus=1.5)
        refused(["limits.cpus", "quota_cpus"], one.create, "a3", lazyStart=True, code="invalid_argument")
        one.call(SANDBOX + "UpdateSession", {"sessionId": "a1", "limits": {"memoryBytes": str(64 * MIB), "cpus": 1}})
        refused(["quota_cpus", "has 1 of at most 1.5 processors", "asks for 0.75 more"], one.call,
                SANDBOX + "UpdateSession", {"sessionId": "a2", "limits": {"cpus": 0.75}})
        refused(["quota_memory"], one.call, SANDBOX + "UpdateSession",
                {"sessionId": "a1", "limits": {"memoryBytes": str(65 * MIB)}})
        set_quota(cay, "a", clear=["cpus"], sessions="0", memoryBytes="0", pids="0", diskBytes=str(1 << 62))
        one.create("a3", lazyStart=True, limits={"diskBytes": str(1 << 61)})
        refused(["quota_disk"], one.create, "a4", lazyStart=True, limits={"diskBytes": str((1 << 63) - 1)})
        refused(["quota_disk"], one.fork, "a3", count=8)


@case
def kept(cay):
    """own values are there again after the daemon was killed, and changed ones are"""
    with sessions_of(cay, "a", "a1") as one:
        set_quota(cay, "a", sessions="3", cpus=0.5, diskBytes=str(1 << 40))
        set_quota(cay, "a", sessions="1", clear=["cpus"])
        before = get_quota(cay, "a")
        assert before["own"] == {"sessions": "1", "diskBytes": str(1 << 40)}, before
        cay.restart()
        assert get_quota(cay, "a") == before
        refused(["'a' has 1 of at most 1 sessions"], one.create, "a2", lazyStart=True, limits={"diskBytes": "2000000"})
        set_quota(cay, "a", clear=["sessions", "disk_bytes"])
        cay.restart()
        assert get_quota(cay, "a")["own"] == {}
        one.create("a2", lazyStart=True)


@case
def streams(cay):
    """an owner has so many calls under way that stream, of whatever kind; those of others do not count"""
    with sessions_of(cay, "a", "a1") as one, sessions_of(cay, "b", "b1") as two, contextlib.ExitStack() as held:
        def begin(client, method, message):
            stream = held.enter_context(client.open(method, message))
            stream.next()
            return stream

        begun = [begin(one, SANDBOX + "WatchEvents", {}), begin(one, SANDBOX + "WatchEvents", {}),
                 begin(one, FILE + "WatchDir", {"sessionId": "a1", "path": "/"}),
                 begin(one, PROCESS + "AttachProcess", {"sessionId": "a1", "launch": {"argv": [
                     "/bin/sh", "-c", "sleep 1000"]}})]
        assert get_quota(one)["used"]["streams"] == "4"
        told = ["quota_streams", "'a' has 4 of at most 4 streams", "end some", "cay quota set a --streams"]
        refused(told, begin, one, SANDBOX + "WatchEvents", {})
        refused(told, one.read, "a1", "/etc/passwd")
        assert one.get("a1")
        begin(two, SANDBOX + "WatchEvents", {})
        for _ in range(6):
            begin(cay, SANDBOX + "WatchEvents", {})
        begun.pop().close()
        eventually(lambda: get_quota(one)["used"]["streams"] == "3", "it is counted no more")
        one.read("a1", "/etc/passwd")
        set_quota(cay, "a", streams="3")
        refused(["quota_streams", "at most 3"], one.read, "a1", "/etc/passwd")
        set_quota(cay, "a", streams="0")
        one.read("a1", "/etc/passwd")


@case
def who_may_know(cay):
    """an owner reads its own quota and sets none; another owner's is not found; what is wrong is refused"""
    with sessions_of(cay, "a", "a1") as one, sessions_of(cay, "b"):
        one.turn("a1")
        expose(one, "a1", 8000)
        quota = get_quota(one)
        assert quota == get_quota(one, "a") == get_quota(cay, "a")
        assert quota["owner"] == "a" and quota["limits"] == {
            "sessions": "4", "memoryBytes": str(1024 * MIB), "pids": "1000", "snapshots": "6", "ports": "2",
            "bases": "2", "streams": "4"}, quota
        used = quota["used"]
        assert (used["sessions"], used["memoryBytes"], used["pids"], used["snapshots"], used["ports"]) \
            == ("1", str(128 * MIB), "64", "1", "1"), quota
        theirs = fails("not_found", get_quota, one, "b")
        nobodys = fails("not_found", get_quota, one, "c")
        assert theirs.message.replace("'b'", "'c'") == nobodys.message
        for owner in ("a", "b"):
            fails("permission_denied", set_quota, one, owner, sessions="9")
        for message in ({}, {"owner": "../x"}, {"owner": "a", "clear": ["nothing"]}, {"owner": "a", "set": {"pids": "-1"}},
                        {"owner": "a", "set": {"cpus": -1}}, {"owner": "a", "set": {"ports": "-7"}},
                        {"owner": "a", "set": {"ports": "1"}, "clear": ["ports"]}):
            fails("invalid_argument", cay.call, QUOTA + "SetQuota", message)
        assert get_quota(cay, "a") == quota


@case
def command(cay):
    """cay quota shows limits and use, and sets them"""
    def run(*words, key=None):
        environment = dict(os.environ) | {"CAY_URL": f"unix:{cay.socket_path}"}
        environment.pop("CAY_API_KEY", None)
        if key:
            environment |= {"CAY_URL": f"http://{cay.host}:{cay.port}", "CAY_API_KEY": key}
        return subprocess.run([CAY, "quota", *words], env=environment, capture_output=True, text=True, check=False)

    def rows(done):
        assert done.returncode == 0, done
        return {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}

    with sessions_of(cay, "a", "a1") as one:
        shown = rows(run("set", "a", "--sessions", "50", "--memory", "64G", "--cpus", "8.5", "--disk", "100G",
                         "--pids", "none", "--snapshots", "5000", "--ports", "20", "--bases", "7",
                         "--streams", "9"))
        assert shown == rows(run("a")) == rows(run(key=one.key)), shown
        assert shown["sessions"] == ["1", "50", "its", "own"] and shown["memory"] == ["128MiB", "64GiB", "its", "own"]
        assert shown["cpus"][1] == "8.5" and shown["pids"] == ["64", "none", "its", "own"], shown
        assert rows(run("set", "a", "--pids", "default"))["pids"] == ["64", "1000", "configuration"]
        assert json.loads(run("a", "--json").stdout)["quota"]["own"] == {
            "sessions": "50", "memoryBytes": str(64 << 30), "cpus": 8.5, "diskBytes": str(100 << 30),
            "snapshots": "5000", "ports": "20", "bases": "7", "streams": "9"}
        for words, told in ((("set", "a"), "--sessions 50"), (("set", "a", "--memory", "much"), "default"),
                            (("set", "a", "--ports", "-1"), "none")):
            done = run(*words)
            assert done.returncode == 125 and told in done.stderr, done
        done = run("b", key=one.key)
        assert done.returncode == 125 and "'b'" in done.stderr, done


if __name__ == "__main__":
    run_with_cayd(*FLAGS)
