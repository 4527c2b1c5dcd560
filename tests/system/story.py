#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A day in the life of a session: make it, work, break everything, look, go back, fork, lose the
daemon, go on. The chapters of the day are one case: each goes on where the one before it ended."""

from daemon import also_in_gvisor, case, fails, good, steps, together
from small_base import run_with_cayd

TURN = "turn-0001"
PROGRAM = "echo $((6 * 7))\n"


def works(cay, session_id):
    """What the session could do on its first day."""
    assert cay.sh(session_id, "sh /workspace/answer") == "42\n"
    result = cay.bash(session_id, "set -o pipefail; ls /usr/bin | wc -l")
    assert not result.get("isError"), result
    assert int(result["content"][0]["text"]) > 50, result
    assert cay.read(session_id, "/workspace/answer") == PROGRAM.encode()


def create(cay):
    """a session is made"""
    session = cay.create("demo", labels={"story": "yes"})
    assert session["state"] == "SESSION_STATE_ACTIVE" and session["sandboxRunning"], session
    assert cay.get("demo")["labels"] == {"story": "yes"}


def write_and_run(cay):
    """files are written and programs run"""
    result = cay.tool("demo", "write_file", path="answer", content=PROGRAM)
    assert not result.get("isError"), result
    works(cay, "demo")
    assert cay.sh("demo", "stat -c '%U %a' /workspace/answer") == "user 644\n"
    cay.sh("demo", "mkdir -p src/deep && echo one > src/a && echo two > src/deep/b && ln -s a src/l")


def turn(cay):
    """the turn is kept, by number"""
    snapshot = cay.turn("demo", message="the first day")
    assert snapshot["name"] == TURN and snapshot["turnNumber"] == "1", snapshot
    session = cay.get("demo")
    assert session["head"] == TURN and session["turnCount"] == "1", session
    works(cay, "demo")


def breaks(cay):
    """root of the sandbox removes /usr and the workspace"""
    assert cay.launch("demo", "/bin/rm", "-rf", "/usr", "/workspace", user="root")[0]["exitCode"] == 0
    assert cay.launch("demo", "/bin/ls", "/", cwd="/")[0]["exitCode"] == 127
    fails("not_found", cay.file, "StatFile", "demo", path="/workspace")


def looks(cay):
    """the difference tells that they are gone, and walks what changed only"""
    entries, stats = cay.diff("demo")
    for path in ("/usr", "/workspace"):
        assert entries[path]["kind"] == "DIFF_KIND_DELETED", entries
    assert int(stats["deleted"]) == len(entries) and int(stats["entriesVisited"]) < 100, stats
    entries, _ = cay.diff("demo", paths=["/workspace"])
    assert entries and all(path.startswith("/workspace") for path in entries), entries


def goes_back(cay):
    """a rollback brings everything back and keeps what was left behind"""
    answer = cay.rollback("demo", TURN)
    assert answer["session"]["head"] == TURN and answer["branch"], answer
    assert answer["session"]["state"] == "SESSION_STATE_ACTIVE", answer
    works(cay, "demo")
    assert cay.sh("demo", "cat src/a src/deep/b src/l; readlink src/l") == "one\ntwo\none\na\n"
    assert cay.diff("demo")[1].get("deleted", "0") == "0"
    kinds = [snapshot["kind"] for snapshot in cay.log("demo")]
    assert kinds == ["SNAPSHOT_KIND_TURN", "SNAPSHOT_KIND_BRANCH"], kinds


def forks(cay):
    """eight forks begin alike and go their own ways"""
    cay.sh("demo", "echo unsaved > live")
    made = [session["id"] for session in cay.fork("demo", count=8)]
    assert len(set(made)) == 8
    for number, session_id in enumerate(made):
        assert cay.sh(session_id, f"cat live; echo {number} > mine; cat mine") == f"unsaved\n{number}\n"
    for number, session_id in enumerate(made):
        assert cay.sh(session_id, "cat mine") == f"{number}\n"
    result, _, _ = cay.launch("demo", "/bin/cat", "mine")
    assert result["exitCode"] == 1, "a fork wrote into its parent"
    works(cay, made[7])
    for session_id in made[1:]:
        cay.destroy(session_id)
    cay.fork_id = made[0]


def loses_the_daemon(cay):
    """the daemon is killed; what runs goes on, what was kept is there"""
    cay.background("demo", "echo $$ > pid; echo ready; exec sleep 1000")
    pid = cay.sh("demo", "cat pid").strip()
    before = cay.get("demo")
    log = cay.log("demo")
    sandboxes = cay.lasting()
    cay.kill()
    assert set(cay.processes()) >= set(sandboxes)
    cay.start()
    after = cay.get("demo")
    for name in ("head", "turnCount", "snapshotCount", "createdAt", "labels", "state"):
        assert after[name] == before[name], (name, before, after)
    assert cay.log("demo") == log
    assert cay.sh("demo", f"tr '\\0' ' ' < /proc/{pid}/cmdline") == "sleep 1000 "


def goes_on(cay):
    """and the story goes on"""
    works(cay, "demo")
    assert cay.sh(cay.fork_id, "cat live mine") == "unsaved\n0\n"
    cay.sh("demo", "echo later > later")
    snapshot = cay.turn("demo")
    assert snapshot["name"] == "turn-0002", snapshot
    cay.rollback("demo", TURN, branch="evening")
    assert "sleep 1000" not in cay.sh("demo", "ps -o args"), "a process lived through the rollback"
    fails("not_found", cay.file, "StatFile", "demo", path="later")
    cay.rollback("demo", "turn-0002")
    assert cay.read("demo", "later") == b"later\n"
    works(cay, "demo")


def ends(cay):
    """the sessions go, and nothing of them is left"""
    good(together(*(lambda i=i: cay.destroy(i) for i in cay.ids())))
    assert cay.ids() == []
    assert not cay.leftovers(), cay.leftovers()
    store = cay.store()
    assert not store["s"] and not store["p"], store


@case
@also_in_gvisor
def day(cay):
    """a session is made, works, is broken, looked at, rolled back and forked, loses its daemon, and goes on"""
    steps(create, write_and_run, turn, breaks, looks, goes_back, forks, loses_the_daemon, goes_on, ends)(cay)


if __name__ == "__main__":
    run_with_cayd()
