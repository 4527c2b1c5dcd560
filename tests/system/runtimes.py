#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One daemon, several runtimes: each session has the one it was made with, for its whole life."""

import json
import os
import subprocess
import tempfile

from access_world import Owner
from daemon import CAYD, KEY, PROCESS, SANDBOX, Client, b64, case, eventually, fails, unb64
from small_base import run_with_cayd

NETWORK = "readlink /proc/self/ns/net"


def without_none(cay):
    """The daemon starts again and offers what it runs by default only."""
    at = cay.command.index("--runtimes")
    cay.kill()
    del cay.command[at:at + 2]
    cay.start()


def with_none(cay):
    cay.kill()
    cay.command += ["--runtimes", "none"]
    cay.start()


def runtime_of(cay, session_id):
    return cay.get(session_id)["runtime"]


def exported(cay, session_id):
    frames = cay.stream(SANDBOX + "ExportSession", {"sessionId": session_id})
    return b"".join(unb64(frame["data"]) for frame in frames if "data" in frame)


def imported(cay, data, **options):
    return cay.send_all(SANDBOX + "ImportSession", [{"options": options}, {"data": b64(data)}])["session"]


def two(cay):
    cay.create("walled")
    cay.create("plain", runtime="none")


@case
def side_by_side(cay):
    """a session gets the runtime it asks for, and the default one when it does not ask"""
    two(cay)
    assert runtime_of(cay, "walled") == "namespaces" and runtime_of(cay, "plain") == "none"
    here = os.readlink("/proc/self/ns/net")
    assert cay.sh("plain", NETWORK).strip() == here
    assert cay.sh("walled", NETWORK).strip() not in ("", here)
    for session_id in ("walled", "plain"):
        cay.tool(session_id, "write_file", path="a.txt", content=f"{session_id}\n")
        assert cay.sh(session_id, "cat a.txt; stat -c %u a.txt") == f"{session_id}\n1000\n"
        cay.turn(session_id)
        cay.sh(session_id, "echo changed > a.txt")
        cay.rollback(session_id, "turn-0001")
        assert cay.sh(session_id, "cat a.txt") == f"{session_id}\n"


@case
def each_by_its_own(cay):
    """what a session cannot do follows from its own runtime, not from the daemon's default one"""
    two(cay)
    expose = lambda session_id: cay.call(PROCESS + "ExposePort", {"sessionId": session_id, "port": {"port": 8080}})  # noqa: E731
    assert expose("walled")["port"]["hostPort"]
    fails("unimplemented", expose, "plain", reason="not_supported")
    fails("unimplemented", cay.create, "open", runtime="none", network={"mode": "NETWORK_MODE_OPEN"},
          reason="not_supported")
    told = {runtime["name"]: runtime for runtime in cay.call(SANDBOX + "GetCapabilities")["capabilities"]["runtimes"]}
    assert {name for name, runtime in told.items() if runtime.get("available")} == {"namespaces", "none"}, told
    assert told["namespaces"]["isDefault"] and not told["none"].get("isDefault"), told
    for name in ("isolated", "ownNetwork"):
        assert told["namespaces"][name] and not told["none"].get(name), told
    assert told["namespaces"]["survivesRestart"] and told["none"]["survivesRestart"], told


@case
def kept(cay):
    """a session keeps its runtime over a restart, with what runs in it, and gives it to forks and imports"""
    two(cay)
    for session_id in ("walled", "plain"):
        cay.background(session_id, "echo ready; while ! [ -e go ]; do sleep 0.05; done; echo it has gone on > went.txt")
    cay.restart()
    for session_id, name in (("walled", "namespaces"), ("plain", "none")):
        assert runtime_of(cay, session_id) == name
        cay.tool(session_id, "write_file", path="go", content="")
        eventually(lambda: "gone on" in str(cay.bash(session_id, "cat went.txt")["content"][0]), "it goes on")
        assert cay.fork(session_id, newSessionId=f"fork-{session_id}")[0]["runtime"] == name
        assert imported(cay, exported(cay, session_id), sessionId=f"copy-{session_id}")["runtime"] == name
        assert cay.sh(f"copy-{session_id}", "cat went.txt") == "it has gone on\n"


@case
def for_administrators(cay):
    """a runtime that isolates nothing is an administrator's to choose, in every way that sessions are made"""
    def key(role):
        return Client(cay, cay.call(KEY + "CreateKey", {"owner": "team", "role": role})["secret"])

    def refused(make, *args, **fields):
        error = fails("permission_denied", make, *args, **fields, reason="permission_denied")
        assert "ask one, or choose 'namespaces'" in error.message, error

    user, admin = key("KEY_ROLE_USER"), key("KEY_ROLE_ADMIN")
    refused(user.create, "bare", runtime="none")
    for name in ("", "namespaces"):
        assert user.create(runtime=name, lazyStart=True)["runtime"] == "namespaces"
    assert admin.create("bare", runtime="none")["runtime"] == "none"
    assert user.get("bare")["runtime"] == "none"
    for use in (lambda: user.sh("bare", "id"), lambda: exported(user, "bare"),
                lambda: user.fork("bare", newSessionId="fork")):
        error = fails("permission_denied", use, reason="permission_denied")
        assert "only an administrator may use" in error.message and "'namespaces'" in error.message, error
    assert admin.sh("bare", "echo used") == "used\n"
    data = exported(admin, "bare")
    refused(imported, user, data, sessionId="copy")
    assert imported(user, data, sessionId="copy", runtime="namespaces")["runtime"] == "namespaces"
    assert admin.fork("bare", newSessionId="fork")[0]["runtime"] == "none"
    names = lambda client: [each["name"] for each in  # noqa: E731
                            client.call(SANDBOX + "GetCapabilities")["capabilities"]["runtimes"]]
    assert "none" in names(admin) and "none" not in names(user), (names(admin), names(user))
    user.destroy("bare")  # its owner may do without it


@case
def as_default(cay):
    """where the default runtime isolates nothing, nobody needs to be an administrator to have it"""
    cay.kill()
    cay.command += ["--runtime", "none"]
    cay.start()
    user = Client(cay, cay.call(KEY + "CreateKey", {"owner": "team"})["secret"])
    for name in ("", "none"):
        assert user.sh(user.create(runtime=name)["id"], NETWORK).strip() == os.readlink("/proc/self/ns/net")
    told = user.call(SANDBOX + "GetCapabilities")["capabilities"]["runtimes"]
    assert [each["name"] for each in told if each.get("isDefault")] == ["none"], told
    cay.kill()
    del cay.command[-2:]
    cay.start()


@case
def not_offered(cay):
    """a runtime that the administrator does not offer is refused, with those that are there"""
    without_none(cay)
    for name in ("none", "fake", "gvisor", "name\u0007spaces", "x" * 5000):
        error = fails("unimplemented", cay.create, "bad", reason="not_supported", runtime=name)
        assert "offers namespaces" in error.message, error
    assert runtime_of(cay, cay.create(runtime="namespaces", lazyStart=True)["id"]) == "namespaces"
    can = cay.call(SANDBOX + "GetCapabilities")["capabilities"]["runtimes"]
    assert [runtime["name"] for runtime in can if runtime.get("available")] == ["namespaces"], can
    with_none(cay)


@case
def taken_away(cay):
    """in a session whose runtime is not offered any more nothing runs, and its files are there"""
    two(cay)
    cay.sh("plain", "echo kept > a.txt")
    cay.turn("plain")
    cay.background("plain", "echo ready; exec sleep 1000")
    data = exported(cay, "plain")
    without_none(cay)
    assert runtime_of(cay, "plain") == "none" and not cay.get("plain").get("sandboxRunning")
    assert cay.read("plain", "a.txt") == b"kept\n"
    error = fails("unimplemented", cay.sh, "plain", "true", reason="not_supported")
    assert "'none'" in error.message and "offers namespaces" in error.message, error
    fails("unimplemented", cay.fork, "plain", newSessionId="fork", reason="not_supported")
    fails("unimplemented", imported, cay, data, sessionId="copy", reason="not_supported")
    assert imported(cay, data, sessionId="copy", runtime="namespaces")["runtime"] == "namespaces"
    assert cay.sh("copy", "cat a.txt") == "kept\n"
    assert cay.sh("copy", NETWORK).strip() != os.readlink("/proc/self/ns/net")
    with_none(cay)
    assert cay.sh("plain", "cat a.txt") == "kept\n"


@case
def other_door(cay):
    """sandboxes of clients made for E2B have the default runtime"""
    team = Owner(cay, cay.call(KEY + "CreateKey", {"owner": "team"})["secret"])
    answer = team.http("POST", "/sandboxes", {}, {"templateID": "small"})
    assert answer.code == 201, answer
    assert runtime_of(cay, json.loads(answer.text)["sandboxID"]) == "namespaces"


@case
def unknown(_):
    """a daemon that is to offer a runtime there is none of does not start"""
    with tempfile.TemporaryDirectory() as folder:
        command = [CAYD, "--data", f"{folder}/data", "--run", f"{folder}/run", "--listen", "127.0.0.1:0",
                   "--runtimes", "kvm"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0 and "there is no runtime 'kvm'" in done.stderr, done


if __name__ == "__main__":
    run_with_cayd("--runtimes", "none")
