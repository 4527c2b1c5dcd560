#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The runtime without isolation: commands are processes of the host in a directory of the session's tree.
Files and histories are as anywhere. Nothing here may name a path of the host."""

import os
import sys
import tempfile
from pathlib import Path

from daemon import BASE, SANDBOX, at_end, case, eventually, fails, steps
from process_client import Processes
from small_base import run_with_cayd

STORE = sys.argv[4] if len(sys.argv) > 4 else "overlay"


def shows(cay, session_id, script, wanted):
    text = cay.sh(session_id, script)
    assert text == wanted, (script, text)


@case
def says_so(cay):
    """the daemon warns that it isolates nothing, and its capabilities say what is in use"""
    assert "runtime.warning" in cay.log_path.read_text(), cay.log_tail()
    can = cay.call(SANDBOX + "GetCapabilities")["capabilities"]
    assert [runtime["name"] for runtime in can["runtimes"] if runtime.get("available")] == ["none"], can["runtimes"]
    assert [store["name"] for store in can["stores"] if store.get("active")] == [STORE], can["stores"]


@case
def one_tree(cay):
    """file tools and commands see the same files, with the same owners"""
    cay.create("one")
    written = cay.tool("one", "write_file", path="a.txt", content="by a tool\n")
    assert not written.get("isError"), written
    shows(cay, "one", "cat a.txt; stat -c %u a.txt; echo 'by a command' > b.txt", "by a tool\n1000\n")
    assert cay.read("one", "b.txt") == b"by a command\n"
    assert cay.file("StatFile", "one", path="b.txt")["info"].get("uid", 0) == os.geteuid()
    assert cay.sh("one", "/bin/pwd").endswith("/workspace\n")
    fails("not_found", cay.file, "StatFile", "one", path="/nowhere")


def two_turns(cay):
    """A session with two turns; what runs since before the second."""
    cay.create("one")
    cay.sh("one", "echo first > a.txt; echo 'by a command' > b.txt")
    assert cay.turn("one")["name"] == "turn-0001"
    shows(cay, "one", "cat b.txt; echo changed > b.txt", "by a command\n")
    processes = Processes(cay, "one")
    runs = processes.sh("echo running > r.txt; exec sleep 1000")
    eventually(lambda: "running" in str(cay.bash("one", "cat r.txt")), "it runs")
    assert cay.turn("one")["name"] == "turn-0002"
    return runs


@case
def turns(cay):
    """turns and forks leave the sandbox alone, whether something runs in it or not"""
    runs = two_turns(cay)
    changed = sorted(cay.diff("one", fromSnapshot="turn-0001", toSnapshot="turn-0002")[0])
    assert changed == ["/workspace/b.txt", "/workspace/r.txt"], changed
    cay.fork("one", newSessionId="two", snapshot="turn-0001")
    shows(cay, "two", "cat b.txt; ls", "by a command\na.txt\nb.txt\n")
    assert Processes(cay, "one").get(runs)["state"] == "PROCESS_STATE_RUNNING"
    assert "sandbox.lost" not in cay.log_path.read_text(), cay.log_tail()


@case
def rollbacks(cay):
    """a rollback ends what runs, says so, and commands find the old files"""
    two_turns(cay)
    killed = cay.rollback("one", "turn-0001").get("killed", [])
    assert len(killed) == 1 and killed[0]["pid"] > 1 and "sleep" in killed[0]["command"], killed
    shows(cay, "one", "cat b.txt; ls", "by a command\na.txt\nb.txt\n")
    assert not cay.rollback("one", "turn-0002").get("killed")
    shows(cay, "one", "cat b.txt r.txt; rm b.txt", "changed\nrunning\n")
    cay.call(SANDBOX + "RestorePaths", {"sessionId": "one", "snapshot": "turn-0001",
                                        "paths": ["/workspace/b.txt"]})
    shows(cay, "one", "cat b.txt", "by a command\n")
    assert "sandbox.lost" not in cay.log_path.read_text(), cay.log_tail()


@case
def past(cay):
    """files of snapshots are read as they were"""
    two_turns(cay)
    assert cay.read("one", "/workspace/b.txt", snapshot="turn-0001") == b"by a command\n"
    assert cay.read("one", "/workspace/b.txt", snapshot="turn-0002") == b"changed\n"
    names = cay.file("ListDir", "one", path="/workspace", snapshot="turn-0001")["entries"]
    assert [entry["name"] for entry in names] == ["a.txt", "b.txt"], names


@case
def survives(cay):
    """what runs outlives the daemon"""
    cay.create("one")
    cay.sh("one", "echo 'by a command' > b.txt")
    processes = Processes(cay, "one")
    runs = processes.sh("read line; echo \"got $line\"", stdinOpen=True)
    cay.restart()
    assert processes.get(runs)["state"] == "PROCESS_STATE_RUNNING"
    processes.send(runs, b"a line\n")
    output = processes.output(runs)[0]
    assert output == b"got a line\n", output
    cay.write("one", "/after.txt", b"it is the session's own tree\n", user="root")
    shows(cay, "one", "cat ../after.txt", "it is the session's own tree\n")
    assert not os.path.exists("/after.txt")
    shows(cay, "one", "cat b.txt", "by a command\n")


@case
def network(cay):
    """a network of its own is refused"""
    fails("unimplemented", cay.create, "three", network={"mode": "NETWORK_MODE_OPEN"}, reason="not_supported")


def build(cay, *steps, **fields):
    request = {"name": "built", "fromBase": "small", "steps": [
        {"kind": f"BUILD_STEP_KIND_{kind}", "args": list(args)} for kind, *args in steps]}
    return cay.stream(BASE + "BuildBase", request | fields)


@case
def builds(cay):
    """a build with a RUN step is refused before anything is done: it would run on the host; other steps work"""
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "mark"
        steps = ("ENV", "A", "b"), ("RUN", f"touch {mark}")
        error = fails("unimplemented", build, cay, *steps, reason="not_supported")
        assert "step 2" in error.message and "'none'" in error.message, error.message
        assert not mark.exists(), "a step of a build ran on the host"
    names = [base["name"] for base in cay.call(BASE + "ListBases")["bases"]]
    assert "built" not in names, names
    made = build(cay, ("ENV", "A", "b"), ("WORKDIR", "/srv/app"))[-1]["base"]
    assert made["settings"]["env"] == {"A": "b"} and made["settings"]["cwd"] == "/srv/app", made
    cay.call(BASE + "RemoveBase", {"name": "built"})


@at_end
def clears(cay):
    """the base can go when its sessions are gone"""
    cay.call(BASE + "RemoveBase", {"name": "small"})


if __name__ == "__main__":
    run_with_cayd("--runtime", "none", "--store", STORE)
