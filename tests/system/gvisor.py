#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions in gVisor beside others: one tree for tools and processes, turns, pauses, ports, limits, other daemons."""

import contextlib
import json
import socket
import sys
import urllib.request
from pathlib import Path

from daemon import BASE, FILE, KEY, PATIENCE_S, PROCESS, SANDBOX, case, eventually, fails
from small_base import run_with_cayd

STORE = sys.argv[3] if len(sys.argv) > 3 else "auto"
SID = "walled"
TICKER = "echo 0 > tick; echo ready; i=0; while :; do i=$((i+1)); echo $i > tick; sleep 0.05; done"


def text_of(cay, path):
    return cay.read(SID, path).decode()


def ticks(cay):
    """What the ticker does is seen from outside."""
    first = text_of(cay, "tick")
    eventually(lambda: text_of(cay, "tick") not in ("", first), "it ticks")


@case
def beside(cay):
    """a session gets the kernel it asks for, the others that of the host"""
    cay.create(SID, runtime="gvisor")
    cay.create("usual")
    assert cay.get(SID)["runtime"] == "gvisor" and cay.get("usual")["runtime"] == "namespaces"
    kernels = [cay.sh(session_id, "uname -r; dmesg 2>/dev/null | head -n 1") for session_id in (SID, "usual")]
    assert kernels[0] != kernels[1], kernels
    told = {info["name"]: info for info in cay.call(SANDBOX + "GetCapabilities")["capabilities"]["runtimes"]}
    for name in ("available", "isolated", "ownNetwork", "pauseKeepsProcesses", "survivesRestart"):
        assert told["gvisor"][name], told


def name_base(cay, name, runtime):
    """The small base under another name, whose sessions are to have this runtime."""
    options = {"name": name, "existingBase": "small", "settings": {"runtime": runtime}}
    return cay.send_all(BASE + "ImportBase", [{"options": options}])["base"]


@case
def by_its_base(cay):
    """a base says what isolates its sessions, to clients of E2B as well; a request says otherwise, and nobody is isolated by less"""
    assert name_base(cay, "walls", "gvisor")["settings"]["runtime"] == "gvisor"
    cay.create(SID, base="walls")
    cay.create("other", base="walls", runtime="namespaces")
    assert [cay.get(name)["runtime"] for name in (SID, "other")] == ["gvisor", "namespaces"]
    secret = cay.call(KEY + "CreateKey", {"owner": "agent"})["secret"]
    request = urllib.request.Request(f"http://{cay.host}:{cay.port}/sandboxes", json.dumps({"templateID": "walls"}).encode(),
                                     {"x-api-key": secret, "content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        assert cay.get(json.load(answer)["sandboxID"])["runtime"] == "gvisor"
    for runtime in ("none", "chroot", "x" * 5000):
        fails("unimplemented", name_base, cay, "holes", runtime)


@case
def one_tree(cay):
    """file tools and processes see each other's changes at once, with the right owners"""
    cay.create(SID, runtime="gvisor")
    for number in range(5):
        cay.tool(SID, "write_file", path="a.txt", content=f"{number}\n")
        assert cay.sh(SID, "cat a.txt; stat -c %u a.txt") == f"{number}\n1000\n"
        cay.sh(SID, f"echo by a command {number} > b.txt; mv b.txt c{number}.txt")
        assert text_of(cay, f"c{number}.txt") == f"by a command {number}\n"
    cay.sh(SID, "mkdir d; echo x > d/e; chmod 640 d/e", user="root", cwd="/workspace")
    assert cay.read(SID, "/workspace/d/e", user="root") == b"x\n"
    fails("permission_denied", cay.read, SID, "/workspace/d/e")
    cay.call(FILE + "RemoveFile", {"sessionId": SID, "path": "/workspace/d", "recursive": True, "user": "root"})
    assert cay.sh(SID, "ls -d d 2>/dev/null || echo gone") == "gone\n"


@case
def users(cay):
    """users are told apart, and root of the sandbox cannot mount or trace the first process"""
    cay.create(SID, runtime="gvisor")
    assert cay.sh(SID, "id -u; touch /etc/x 2>/dev/null || echo no") == "1000\nno\n"
    assert cay.sh(SID, "id -u; touch /etc/x && echo yes; mount -t tmpfs x /tmp 2>/dev/null || echo no; "
                       "kill -9 1 2>/dev/null || echo never; ls /proc/1 | wc -l", user="root") == "0\nyes\nno\nnever\n0\n"


@case
def history(cay):
    """turns and rollbacks change the tree under a sandbox, which goes on"""
    cay.create(SID, runtime="gvisor")
    if STORE == "local-disk":
        fails("unimplemented", cay.turn, SID, reason="snapshots_not_available")
        return
    cay.sh(SID, "echo one > a.txt")
    cay.turn(SID)
    cay.sh(SID, "echo two > a.txt; rm -rf /usr/share/data", user="root", cwd="/workspace")
    cay.rollback(SID, "turn-0001")
    assert cay.sh(SID, "cat a.txt; ls /usr/share/data | wc -l; echo x > /dev/null && echo dev; cat /proc/self/comm") == \
        "one\n200\ndev\ncat\n"
    cay.background(SID, TICKER)
    ticks(cay)
    cay.snapshot(SID, "living")
    ticks(cay)
    cay.fork(SID, newSessionId="fork")
    assert cay.get("fork")["runtime"] == "gvisor" and cay.sh("fork", "cat a.txt") == "one\n"


@case
def pauses(cay):
    """a paused session stands still and goes on exactly there"""
    cay.create(SID, runtime="gvisor")
    cay.background(SID, TICKER)
    ticks(cay)
    cay.call(SANDBOX + "PauseSession", {"sessionId": SID})
    fails("failed_precondition", cay.sh, SID, "true", reason="session_paused")
    cay.call(SANDBOX + "ResumeSession", {"sessionId": SID})
    ticks(cay)
    assert cay.sh(SID, "echo awake") == "awake\n"


@case
def survives(cay):
    """commands go on while the daemon is killed, and the next one hears of them"""
    cay.create(SID, runtime="gvisor")
    cay.background(SID, "echo ready; while ! [ -e go ]; do sleep 0.05; done; echo it has gone on > went.txt")
    for _ in range(2):
        cay.kill()
        cay.start()
    assert cay.get(SID).get("sandboxRunning"), cay.get(SID)
    cay.tool(SID, "write_file", path="go", content="")
    eventually(lambda: "gone on" in str(cay.bash(SID, "cat went.txt")["content"][0]), "it goes on")


@case
def ports(cay):
    """a server in the sandbox is reached from outside"""
    cay.create(SID, runtime="gvisor")
    cay.background(SID, "echo ready; while :; do echo hello | nc -l -p 8080; done")
    request = {"sessionId": SID, "port": {"port": 8080, "waitListening": "20s"}}
    port = cay.call(PROCESS + "ExposePort", request)["port"]
    with socket.create_connection((port["bindAddress"], port["hostPort"]), PATIENCE_S) as sock:
        sock.settimeout(PATIENCE_S)
        assert sock.recv(100) == b"hello\n"


@case
def memory(cay):
    """a sandbox that runs out of memory says so, and the next call makes another"""
    cay.create("little", runtime="gvisor", limits={"memoryBytes": str(128 << 20)})
    result, _, _ = cay.launch("little", "/bin/sh", "-c", "tail -c 500000000 /dev/zero")
    assert result["cause"] == "END_CAUSE_OOM" and "memory" in result["message"], result
    assert cay.get("little")["stateReason"] == "out_of_memory", cay.get("little")
    assert cay.sh("little", "echo again") == "again\n"


def kernels(cay):
    """Sandboxes that run or wait."""
    count = 0
    for pid in cay.all_processes():
        with contextlib.suppress(OSError):  # it has gone
            count += b"boot" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return count


@case
def from_the_reserve(cay):
    """once one was asked for, another waits: it becomes the next session's, with its tree, name and limits"""
    def handed_out():
        return int(cay.call(SANDBOX + "HealthCheck")["reserve"].get("handedOut", 0))
    cay.create(SID, runtime="gvisor")
    eventually(lambda: kernels(cay) == 2, "another comes")
    cay.reserve_full(2)  # one of each runtime
    before = handed_out()
    cay.create("next", runtime="gvisor", limits={"pids": 16})
    assert handed_out() == before + 1
    assert cay.sh("next", "hostname; pwd; cat /proc/self/comm; echo x > a; cat a") == "next\n/workspace\ncat\nx\n"
    assert b"all" not in cay.launch("next", "/bin/sh", "-c", "for i in $(seq 40); do sleep 60 & done; echo all")[1]


if __name__ == "__main__":
    run_with_cayd("--store", STORE, "--runtimes", "gvisor", "--default-base", "small")
