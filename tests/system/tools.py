#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tools: git in the sandbox, images, what a call is refused for, and how many run at the same time."""

import os
import threading
import time
import zlib

from daemon import PROCESS, SANDBOX, RpcError, case, eventually, fails, together, unb64
from small_base import run_with_cayd

SID = "git"
WHO = {"author_name": "A. Author", "author_email": "a@example.org"}
GIT_TOOLS = ["git_" + name for name in ("add", "clone", "commit", "diff", "fetch", "log", "pull", "push", "show",
                                        "status")]


def text(result):
    return "".join(block.get("text", "") for block in result["content"])


def git(cay, name, call=None, **params):
    """A git tool that must do its task; its text."""
    result = cay.tool(SID, "git_" + name, call, **params)
    assert not result.get("isError"), (name, params, result)
    assert result["tier"] == "TOOL_TIER_SANDBOX", result
    return text(result)


def commit(cay, repo, name, content, message):
    cay.write(SID, f"/workspace/{repo}/{name}", content)
    git(cay, "add", repo=repo, paths=[name])
    return git(cay, "commit", repo=repo, message=message, **WHO)


def with_git(cay):
    """A session that has git. Its base is made of this machine first, which takes a while once."""
    def is_made():
        try:
            return cay.create(SID, base="host")
        except RpcError as error:
            assert error.reason == "base_not_ready", error
            return None
    eventually(is_made, "there is a session with git")


def with_repository(cay):
    """A session with git and a repository `one` that has one commit and an origin."""
    with_git(cay)
    cay.sh(SID, "git init -q --bare -b main origin.git && git clone -q origin.git one 2> /dev/null")
    commit(cay, "one", "a.txt", b"one\n", "first things")
    cay.sh(SID, "cd one; git branch -M main; git push -q -u origin main")


@case
def git_story(cay):
    """git: clone, status, add, commit, push, fetch, pull, log, show and diff with a bare repository in the sandbox"""
    with_git(cay)
    cay.sh(SID, "git init -q --bare -b main /workspace/origin.git")
    git(cay, "clone", url="/workspace/origin.git", directory="one")
    status = cay.tool(SID, "git_status", repo="one")
    assert status["data"] == {"change_count": 0, "clean": True}, status
    cay.write(SID, "/workspace/one/a.txt", b"one\n")
    status = cay.tool(SID, "git_status", repo="one")
    assert text(status).startswith("?? a.txt\n") and status["data"] == {"change_count": 1, "clean": False}, status
    git(cay, "add", repo="one", paths=["a.txt"])
    assert "+one" in git(cay, "diff", repo="one", staged=True)
    assert "first things" in git(cay, "commit", repo="one", message="first things", **WHO)
    cay.sh(SID, "cd one; git branch -M main")
    git(cay, "push", repo="one", remote="origin", ref="main", set_upstream=True)
    git(cay, "clone", url="file:///workspace/origin.git", directory="two", depth=1, branch="main")
    assert cay.read(SID, "/workspace/two/a.txt") == b"one\n"
    commit(cay, "two", "b.txt", b"two\n", "second things")
    git(cay, "push", repo="two")
    git(cay, "fetch", repo="one", prune=True)
    assert "second things" in git(cay, "log", repo="one", ref="origin/main", n=1)
    git(cay, "pull", repo="one")
    assert cay.read(SID, "/workspace/one/b.txt") == b"two\n"
    git(cay, "pull", repo="one", remote="origin", ref="main", rebase=True)
    lines = git(cay, "log", repo="one").splitlines()
    assert [line.split("\t")[1::2] for line in lines] == [["A. Author", "second things"], ["A. Author", "first things"]]
    assert len(git(cay, "log", repo="one", path="a.txt").splitlines()) == 1
    assert "+two" in git(cay, "show", repo="one") and "+one" in git(cay, "show", repo="one", ref="HEAD~1")
    assert git(cay, "show", repo="one", ref="HEAD:a.txt") == "one\n"
    cay.write(SID, "/workspace/one/a.txt", b"changed\n")
    assert "+changed" in git(cay, "diff", repo="one", ref="HEAD", path="a.txt")
    assert "changed" not in git(cay, "diff", repo="one", path="b.txt")
    assert git(cay, "commit", repo="one", message="all of it", all=True, **WHO)
    cay.sh(SID, "cd two; git fetch -q; git reset -q --hard HEAD~0")
    git(cay, "push", repo="one", force=True)
    assert "all of it" in git(cay, "log", {"cwd": "/workspace/one"}, n=1), "cwd is where a repository is looked for"


@case
def git_fails_as_a_result(cay):
    """git that fails at its task is a result with git's own words and exit code"""
    with_repository(cay)
    result = cay.tool(SID, "git_status", repo="/tmp")
    assert result["isError"] and result["errorReason"] == "exit_code", result
    assert "not a git repository" in text(result) and result["exec"]["exitCode"] == 128, result
    result = cay.tool(SID, "git_commit", repo="one", message="nothing", **WHO)
    assert result["isError"] and "nothing" in text(result), result
    result = cay.tool(SID, "git_clone", url="https://127.0.0.1:1/x.git", directory="three")
    assert result["isError"] and result["exec"]["exitCode"] == 128, result


@case
def git_arguments_are_no_options(cay):
    """no parameter of a git tool becomes an option, wherever it stands"""
    with_repository(cay)
    evil = ("--upload-pack=touch /tmp/pwned;", "--output=/tmp/pwned", "-uno", "--exec=touch /tmp/pwned")
    for word in evil:
        for name, params in (("git_clone", {"url": word}), ("git_clone", {"url": "origin.git", "directory": word}),
                             ("git_fetch", {"remote": word}), ("git_fetch", {"remote": "origin", "ref": word}),
                             ("git_pull", {"remote": word}), ("git_push", {"remote": word}), ("git_diff", {"ref": word}),
                             ("git_log", {"ref": word}), ("git_show", {"ref": word})):
            error = fails("invalid_argument", cay.tool, SID, name, repo="one", **params) if name != "git_clone" else \
                fails("invalid_argument", cay.tool, SID, name, **params)
            assert "'-'" in str(error), error
        for name, params in (("git_add", {"paths": [word]}), ("git_diff", {"path": word}), ("git_log", {"path": word})):
            cay.tool(SID, name, repo="one", **params)
        cay.tool(SID, "git_clone", url="origin.git", branch=word, directory="four")
        cay.tool(SID, "git_commit", repo="one", message=word, author_name=word, author_email=word)
        cay.tool(SID, "git_status", repo=word)
    assert cay.launch(SID, "/bin/ls", "/tmp/pwned")[0]["exitCode"] != 0, "it was taken for an option"
    fails("invalid_argument", cay.tool, SID, "git_pull", repo="one", ref="main")
    fails("invalid_argument", cay.tool, SID, "git_add", repo="one", paths=[])
    fails("invalid_argument", cay.tool, SID, "git_add", repo="one", paths=[7])
    fails("invalid_argument", cay.tool, SID, "git_log", repo="one", n=101)


@case
def git_is_missing(cay):
    """a base without git says so, and git never runs outside the sandbox"""
    cay.create("bare")
    result = cay.tool("bare", "git_status")
    assert result["isError"] and result["errorReason"] == "program_not_found", result
    assert "there is no git in this sandbox" in text(result), result
    with_repository(cay)
    cay.sh(SID, """cd one; git config core.fsmonitor 'touch /workspace/ran-inside; echo'
                   git config alias.status '!false'""")
    cay.tool(SID, "git_status", repo="one")
    assert cay.read(SID, "/workspace/ran-inside") == b"", "the repository's own code ran where the repository is"


@case
def every_tool_has_a_schema(cay):
    """tools are listed with their schema, and unknown ones fail with the nearest name"""
    cay.create(SID)
    tools = {tool["name"]: tool for tool in cay.call(SANDBOX + "ListTools", {})["tools"]}
    assert set(GIT_TOOLS) < set(tools), set(GIT_TOOLS) - set(tools)
    for name in GIT_TOOLS:
        schema = tools[name]["inputSchema"]
        assert tools[name]["tier"] == "TOOL_TIER_SANDBOX" and schema["additionalProperties"] is False, tools[name]
        assert all(rule.get("type") for rule in schema["properties"].values()), schema
        error = fails("invalid_argument", cay.tool, SID, name, no_such_parameter=1)
        assert "no_such_parameter" in str(error), error
    error = fails("not_found", cay.tool, SID, "git_statsu", reason="tool_not_found")
    assert "git_status" in str(error), error


def png(size_bytes):
    """Bytes that begin as a PNG does."""
    return b"\x89PNG\r\n\x1a\n" + zlib.compress(b"x")[:4] + b"\0" * (size_bytes - 12)


@case
def images(cay):
    """read_file of an image gives an image block with its type, bounded; by its bytes, not its name"""
    cay.create(SID)
    kinds = {"image/png": png(4000), "image/jpeg": b"\xff\xd8\xff\xe0" + b"\1\0" * 99, "image/gif": b"GIF89a" + b"\0" * 50,
             "image/webp": b"RIFF\x10\0\0\0WEBPVP8 " + b"\0" * 50}
    for kind, data in kinds.items():
        cay.write(SID, "/workspace/picture.txt", data)
        result = cay.tool(SID, "read_file", path="picture.txt")
        assert len(result["content"]) == 1 and not result.get("isError"), result
        image = result["content"][0]["image"]
        assert image["mimeType"] == kind and unb64(image["data"]) == data, (kind, image)
        assert result["data"] == {"size_bytes": len(data), "mime_type": kind}, result["data"]
    cay.write(SID, "/workspace/large.png", png(8 * 1024 * 1024 + 1))
    result = cay.tool(SID, "read_file", path="large.png")
    assert result["isError"] and result["errorReason"] == "file_too_large", result
    cay.write(SID, "/workspace/large.png", png(8 * 1024 * 1024))
    assert len(unb64(cay.tool(SID, "read_file", path="large.png")["content"][0]["image"]["data"])) == 8 * 1024 * 1024
    for data in (b"RIFF\x10\0\0\0WAVEfmt ", b"\x89PNG\0\0", b"GIF88a\0\0"):
        cay.write(SID, "/workspace/not.png", data)
        assert cay.tool(SID, "read_file", path="not.png")["errorReason"] == "binary_file"


@case
def background_and_input(cay):
    """bash takes input, goes on in the background, and ends when it is silent for too long"""
    cay.create(SID)
    assert text(cay.tool(SID, "bash", cmd="cat", stdin="said\n")) == "said\n"
    result = cay.tool(SID, "bash", cmd="cat > /workspace/kept; sleep 100", stdin="kept\n", background=True)
    assert result["processId"], result
    eventually(lambda: cay.sh(SID, "cat kept 2> /dev/null; true") == "kept\n", "it runs on")
    started = time.monotonic()
    result = cay.tool(SID, "bash", cmd="echo x; sleep 100", no_output_timeout_ms=200)
    assert result["errorReason"] == "timeout_no_output" and time.monotonic() - started < 20, result
    assert cay.tool(SID, "bash", cmd="sleep 100", timeout_ms=200)["errorReason"] == "timeout_wall"
    assert cay.tool(SID, "bash", cmd="kill -SEGV $$")["errorReason"] == "signal"
    assert cay.tool(SID, "bash", cmd="exit 3")["errorReason"] == "exit_code"


@case
def turns_of_tools(cay):
    """no more tools of a session run at once than it allows; the others wait in order, and all are answered"""
    cay.create("few", maxConcurrentTools=2)
    assert cay.get("few")["maxConcurrentTools"] == 2
    enter = "mkdir -p in; touch in/$$; ls in | wc -l >> seen; sleep 0.1; rm in/$$; true"
    results = together(*[lambda: cay.bash("few", enter) for _ in range(10)],
                       *[lambda: cay.tool("few", "list_dir", path="/") for _ in range(5)])
    assert not [result for result in results if isinstance(result, Exception) or result.get("isError")], results
    seen = [int(line) for line in cay.sh("few", "cat seen").split()]
    assert len(seen) == 10 and max(seen) <= 2, seen
    blockers = [threading.Thread(target=outcome, args=(cay, "few", "sleep 100")) for _ in range(2)]
    for thread in blockers:
        thread.start()
    eventually(lambda: cay.get("few").get("toolsInFlight") == 2, "both run")
    with cay.post(SANDBOX + "ExecuteTool",
                  {"sessionId": "few", "call": {"toolName": "bash", "params": {"cmd": "touch gone"}}}):
        pass  # who goes away while it waits never runs
    answers = []
    waiters = [threading.Thread(target=lambda: answers.append(outcome(cay, "few"))) for _ in range(20)]
    for thread in waiters:
        thread.start()
    cay.call(SANDBOX + "UpdateSession", {"sessionId": "few", "maxConcurrentTools": 3})
    for thread in waiters:
        thread.join(60)
    assert len(answers) == 20 and set(answers) == {"ok"}, answers
    assert cay.launch("few", "/bin/ls", "/workspace/gone")[0]["exitCode"] != 0
    fails("invalid_argument", cay.create, "fewer", maxConcurrentTools=-1)
    cay.destroy("few")
    for thread in blockers:
        thread.join(60)


# Takes memory until it is killed; a shell that only stores text.
EATS = "x=0123456789abcdef; while :; do x=$x$x; done"


@case
def limits_of_a_call(cay):
    """a call with limits of its own is killed within them, told as such, and the session's others go on"""
    cay.create("limits")
    neighbour = cay.tool("limits", "bash", cmd="while :; do date +%s%N > beat; usleep 20000; done", background=True)["processId"]
    small = {"policy": {"limits": {"memoryBytes": str(32 << 20)}}}
    for _ in range(3):
        result = cay.bash("limits", EATS, small)
        assert result["errorReason"] == "oom" and result["exec"]["cause"] == "END_CAUSE_OOM", result
        result = cay.bash("limits", f"(sh -c '{EATS}') & wait $!; exit 7", small)
        assert result["exec"]["cause"] == "END_CAUSE_OOM", ("a child is of the call, too", result)
    result = cay.bash("limits", f"(sh -c '{EATS}') & wait $!; echo went on", small)
    assert result["exec"]["cause"] == "END_CAUSE_EXITED" and "went on" in text(result), ("unless it copes", result)
    result, _, _ = cay.launch("limits", "/bin/sh", "-c", EATS, policy=small["policy"])
    assert result["cause"] == "END_CAUSE_OOM", result
    assert text(cay.bash("limits", "head -c 8000000 /dev/zero | tr '\\0' x | wc -c", small)) == "8000000\n"
    forks = "i=0; while [ $i -lt 20 ]; do sleep 5 & i=$((i+1)); done; echo all"
    kill = {"leftovers": "LEFTOVER_POLICY_KILL"}
    result, out, err = cay.launch("limits", "/bin/sh", "-c", forks, policy={"limits": {"pids": "8"}} | kill)
    assert result["exitCode"] != 0 and out == b"" and b"fork" in err, (result, out, err)
    assert cay.launch("limits", "/bin/sh", "-c", forks, policy=kill)[1] == b"all\n"
    # However busy the machine is, a tenth of a processor is not more; what is not used of a period may come on top.
    began = time.monotonic()
    spun = text(cay.bash("limits", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; cut -d' ' -f14,15 /proc/$$/stat",
                         {"policy": {"limits": {"cpus": 0.1}}}))
    used_s = sum(map(int, spun.split())) / os.sysconf("SC_CLK_TCK")
    limited_s = time.monotonic() - began
    assert used_s > 0.05 and limited_s > 5 * (used_s - 0.05), (limited_s, used_s)
    before = cay.read("limits", "/workspace/beat")
    eventually(lambda: cay.read("limits", "/workspace/beat") not in (before, b""), "the neighbour in the session lives")
    assert neighbour in str(cay.call(PROCESS + "ListProcesses", {"sessionId": "limits"}))
    results = together(*[lambda: cay.bash("limits", EATS, small) for _ in range(6)],
                       *[lambda: cay.bash("limits", "sleep 0.2; echo fine", small) for _ in range(6)])
    assert [result.get("errorReason") for result in results] == ["oom"] * 6 + [None] * 6, results
    fails("invalid_argument", cay.bash, "limits", "true", {"policy": {"limits": {"diskBytes": "10000000"}}})
    fails("invalid_argument", cay.bash, "limits", "true", {"policy": {"limits": {"memoryBytes": "1"}}})


@case
def limits_survive(cay):
    """limits of a call hold over a restart of the daemon, and rooms are used again"""
    cay.create("limits")
    process = cay.tool("limits", "bash", {"policy": {"limits": {"memoryBytes": str(32 << 20)}}},
                       cmd=f"while [ ! -e go ]; do usleep 10000; done; {EATS}", background=True)["processId"]
    cay.restart()
    for _ in range(40):
        assert cay.bash("limits", "true", {"policy": {"limits": {"pids": "20"}}})["exec"]["exitCode"] == 0
    cay.sh("limits", "touch go")
    ended = cay.call(PROCESS + "WaitProcess", {"sessionId": "limits", "processId": process})["process"]
    assert ended["result"]["cause"] == "END_CAUSE_OOM", ended
    busy = [cay.tool("limits", "bash", {"policy": {"limits": {"pids": "20"}}}, cmd="sleep 100", background=True)["processId"]
            for _ in range(32)]
    error = fails("resource_exhausted", cay.bash, "limits", "true", {"policy": {"limits": {"pids": "20"}}})
    assert "32" in str(error), error
    assert not cay.bash("limits", "true").get("isError"), "without limits there is room"
    cay.call(PROCESS + "KillProcess", {"sessionId": "limits", "processId": busy[0], "signal": 9})
    eventually(lambda: outcome(cay, "limits", "true", pids="20") == "ok", "a room is free again")
    cay.destroy("limits")


@case
def users_are_remembered(cay):
    """who a user is is read once, not for every call; and again when the file has changed"""
    cay.create("known")
    line = "user:x:1000:1000::/home/user:/bin/sh\n"
    padding = "".join(f"other{number}:x:{2000 + number}:100::/:/bin/sh\n" for number in range(5000))
    cay.write("known", "/etc/passwd", (line + padding).encode(), user="root")
    cay.write("known", "/workspace/a", b"content")
    cay.tool("known", "read_file", path="a")
    counted = read_by(cay)
    for _ in range(20):
        assert "content" in text(cay.tool("known", "read_file", path="a"))
    assert read_by(cay) - counted < 10 * len(padding), (read_by(cay) - counted, len(padding))
    cay.write("known", "/etc/passwd", line.replace("1000:1000", "1234:1000").encode(), user="root")
    cay.write("known", "/tmp/b", b"")
    assert cay.sh("known", "stat -c %u /tmp/b", user="root") == "1234\n"
    cay.destroy("known")


def read_by(cay):
    """Bytes that the daemon has read so far."""
    with open(f"/proc/{cay.process.pid}/io", encoding="ascii") as io:
        return int(next(line for line in io if line.startswith("rchar")).split()[1])


def outcome(cay, session_id, cmd="true", **limits):
    try:
        return "ok" if not cay.bash(session_id, cmd, {"policy": {"limits": limits}}).get("isError") else "failed"
    except RpcError as error:
        return error.code


@case
def destroyed_while_tools_wait(cay):
    """tools that wait for their turn end with their session"""
    cay.create("doomed", maxConcurrentTools=1)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(outcome(cay, "doomed", "sleep 100"))) for _ in range(50)]
    for thread in threads:
        thread.start()
    eventually(lambda: cay.get("doomed").get("toolsInFlight") == 1, "one runs")
    cay.destroy("doomed")
    for thread in threads:
        thread.join(60)
    assert len(answers) == 50, len(answers)
    assert set(answers) <= {"failed", "failed_precondition", "not_found"}, set(answers)


if __name__ == "__main__":
    run_with_cayd()
