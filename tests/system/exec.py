#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The exec contract, sentence by sentence, by every verb that runs a command."""

import os
import signal
import sys
import threading
import time

from daemon import (FILE, IN_GVISOR, IS_FULL, MIB, PROCESS, SANDBOX, RpcError, also_in_gvisor, b64, case,
                    eventually, fails, good, init_of, together, unb64)
from small_base import run_with_cayd

SID = "exec"
SOON_S = 1  # the contract says 50 ms; the machine may be busy
# A grandchild that holds the pipes, and a child that ends.
LEAVES = "sleep 30 & echo said; exit 3"


# gVisor needs some 25 MiB of it for itself.
LITTLE = {"memoryBytes": str((128 if IN_GVISOR else 32) * MIB)}


def follow(stream):
    """Read a stream of AttachProcess to its end: (attached, exited, stdout, stderr, chunks)."""
    frames = [frame for frame in stream if "heartbeat" not in frame]
    assert "attached" in frames[0] and "exited" in frames[-1], (frames[0], frames[-1])
    chunks = [frame["output"] for frame in frames[1:-1]]
    data = {"OUTPUT_STREAM_STDOUT": b"", "OUTPUT_STREAM_STDERR": b""}
    for chunk in chunks:
        assert len(unb64(chunk["data"])) <= 65536
        data[chunk["stream"]] += unb64(chunk["data"])
    return frames[0]["attached"], frames[-1]["exited"], *data.values(), chunks


def tool_stream(cay, cmd, **call):
    """Call bash by ExecuteToolStream: (outputs, result)."""
    request = {"sessionId": SID, "call": {"toolName": "bash", "params": {"cmd": cmd}} | call}
    frames = cay.stream(SANDBOX + "ExecuteToolStream", request)
    frames = [frame for frame in frames if "heartbeat" not in frame]
    assert "started" in frames[0] and "result" in frames[-1], frames
    assert all("output" in frame for frame in frames[1:-1]), frames
    return [frame["output"] for frame in frames[1:-1]], frames[-1]["result"]


def took_s(function, *arguments, **more):
    started = time.monotonic()
    answer = function(*arguments, **more)
    return time.monotonic() - started, answer


def kill_all(cay, name="sleep"):
    cay.launch(SID, "/bin/killall", "-9", name, user="root")


def alive(cay, text):
    """Lines of ps that have the text, as seen by root."""
    out = cay.launch(SID, "/bin/ps", "-o", "pid,stat,args", user="root")[1].decode()
    return [line for line in out.splitlines() if text in line and "ps -o" not in line]


@case
@also_in_gvisor
def ends_with_the_child(cay):
    """a command ends when its direct child ends, though grandchildren hold the pipes"""
    cay.sh(SID, "true")
    waited, (result, out, _) = took_s(cay.launch, SID, "/bin/sh", "-c", LEAVES)
    assert waited < SOON_S and result["exitCode"] == 3 and out == b"said\n", (waited, result, out)
    waited, result = took_s(cay.bash, SID, LEAVES)
    assert waited < SOON_S and result["exec"]["exitCode"] == 3, (waited, result)
    waited, (_, result) = took_s(tool_stream, cay, LEAVES)
    assert waited < SOON_S and result["exec"]["exitCode"] == 3, (waited, result)
    with cay.attach(SID, "/bin/sh", "-c", LEAVES) as stream:
        waited, (_, exited, out, _, _) = took_s(follow, stream)
    assert waited < SOON_S and exited["result"]["exitCode"] == 3 and out == b"said\n", exited
    kill_all(cay)


@case
@also_in_gvisor
def output_until_then(cay):
    """all output written until the end comes, however much and however late"""
    script = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; printf end"
    expected = "".join(f"line {i}\n" for i in range(2000)).encode() + b"end"
    for _ in range(10):
        result, out, _ = cay.launch(SID, "/bin/sh", "-c", script)
        assert out == expected and int(result["stdoutBytes"]) == len(expected), len(out)
    with cay.attach(SID, "/bin/sh", "-c", script) as stream:
        assert follow(stream)[2] == expected
    _, result = tool_stream(cay, script)
    assert result["content"][0]["text"].startswith(expected.decode())


@case
def output_through_a_small_ring(cay):
    """what does not fit into the ring of a command comes all the same"""
    for size in (4096, 65536):
        policy = {"outputRingBytes": str(size)}
        result, out, _ = cay.launch(SID, "/bin/sh", "-c", "head -c 200000 /dev/zero", policy=policy)
        assert result["exitCode"] == 0 and len(out) == 200000, (size, result, len(out))
        assert result.get("droppedBytes", "0") == "0", result


@case
@also_in_gvisor
def leftovers_are_reported(cay):
    """what a command leaves behind is reported and goes on"""
    result, _, _ = cay.launch(SID, "/bin/sh", "-c", "sleep 31 & sleep 31 & exit 0")
    assert result["leftoverCount"] == 2 and len(result["leftovers"]) == 2, result
    pids = {int(line.split()[0]) for line in alive(cay, "sleep 31")}
    assert {process["pid"] for process in result["leftovers"]} == pids, (result, pids)
    assert not any(process.get("killed") for process in result["leftovers"]), result
    # Again and again: one that has not become `sleep` yet has another name.
    eventually(lambda: kill_all(cay) or not alive(cay, "sleep 31"), "they are gone")
    result = cay.bash(SID, "setsid sleep 31 > /dev/null 2>&1 & exit 0")
    assert result["exec"]["leftoverCount"] == 1, "one that left the session is forgotten"
    kill_all(cay)


def all_killed(result, command):
    """The result lists who was killed with the command, and none as left."""
    left = result["leftovers"]
    assert result["leftoverCount"] == len(left) >= 1 and all(process["killed"] for process in left), result
    assert any(command in process["command"] for process in left), result
    assert not any(process.get("processId") for process in left), result


@case
@also_in_gvisor
def leftovers_are_killed(cay):
    """by option what a command leaves behind is killed with the call, also when it hides in a session of its own"""
    policy = {"leftovers": "LEFTOVER_POLICY_KILL"}
    script = "setsid sleep 32 > /dev/null 2>&1 & (trap '' TERM; sleep 32) & exit 0"
    waited, (result, _, _) = took_s(cay.launch, SID, "/bin/sh", "-c", script, policy=policy)
    assert waited < 5 and result["exitCode"] == 0, (waited, result)
    all_killed(result, "sleep 32")
    eventually(lambda: not alive(cay, "sleep 32"), "they are killed", 5)
    result = cay.bash(SID, script, {"policy": policy})
    assert not result.get("isError"), result
    all_killed(result["exec"], "sleep 32")
    assert "were killed" in result["content"][0]["text"], result
    eventually(lambda: not alive(cay, "sleep 32"), "they are killed", 5)


@case
def leftovers_without_arguments(cay):
    """a process that has no arguments, as one has that is about to become another program, is told by its name"""
    script = 'exec 3< <(exec -a "" swapper); read -u 3 line; exit 0'
    result, _, _ = cay.launch(SID, "/bin/bash", "-c", script, policy={"leftovers": "LEFTOVER_POLICY_KILL"})
    assert [process.get("command") for process in result["leftovers"]] == ["[swapper]"], result


@case
@also_in_gvisor
def wall_timeout(cay):
    """a wall timeout kills the whole tree and returns the partial output"""
    policy = {"timeout": "0.5s"}
    script = "echo before; setsid sleep 33 & trap '' TERM; sleep 33; echo after"
    waited, (result, out, _) = took_s(cay.launch, SID, "/bin/sh", "-c", script, policy=policy)
    assert 0.5 <= waited < 5 and out == b"before\n", (waited, out)
    assert result["cause"] == "END_CAUSE_TIMEOUT_WALL" and "exitCode" not in result, result
    all_killed(result, "sleep 33")
    assert not alive(cay, "sleep 33"), alive(cay, "sleep 33")
    result = cay.bash(SID, script, {"policy": policy})
    assert result["isError"] and result["exec"]["cause"] == "END_CAUSE_TIMEOUT_WALL", result
    assert result["content"][0]["text"].startswith("before\n"), result
    outputs, result = tool_stream(cay, script, policy=policy)
    assert b"".join(unb64(chunk["data"]) for chunk in outputs) == b"before\n"
    assert result["exec"]["cause"] == "END_CAUSE_TIMEOUT_WALL", result
    assert not alive(cay, "sleep 33")


@case
def tool_timeout(cay):
    """a timeout in the parameters of bash counts if it is the shorter one"""
    for params, policy in ((500, None), (500, "60s"), (60000, "0.5s")):
        call = {"policy": {"timeout": policy}} if policy else {}
        waited, result = took_s(cay.tool, SID, "bash", call, cmd="sleep 34", timeout_ms=params)
        assert waited < 10 and result["exec"]["cause"] == "END_CAUSE_TIMEOUT_WALL", result
    assert not alive(cay, "sleep 34")


@case
@also_in_gvisor
def silence_timeout(cay):
    """a no-output timeout counts from the last output"""
    policy = {"noOutputTimeout": "0.7s"}
    script = "for i in 1 2 3 4; do echo $i; usleep 300000; done; sleep 35; echo after"
    result, out, _ = cay.launch(SID, "/bin/sh", "-c", script, policy=policy)
    assert result["cause"] == "END_CAUSE_TIMEOUT_NO_OUTPUT", result
    assert out == b"1\n2\n3\n4\n" and not alive(cay, "sleep 35"), out


@case
@also_in_gvisor
def streamed(cay):
    """output is streamed as it comes, with the streams told apart and offsets that add up"""
    script = "for i in 1 2 3; do echo out$i; usleep 300000; echo err$i >&2; usleep 300000; done"
    times = []
    with cay.attach(SID, "/bin/sh", "-c", script) as stream:
        assert stream.next()["attached"]["state"] == "PROCESS_STATE_RUNNING"
        offset = 0
        for frame in stream:
            if "exited" in frame:
                break
            chunk = frame["output"]
            assert int(chunk.get("offset", 0)) == offset, chunk
            assert int(chunk.get("droppedBytes", 0)) == 0
            offset += len(unb64(chunk["data"]))
            times.append((time.monotonic(), chunk["stream"], unb64(chunk["data"])))
    expected = [(f"OUTPUT_STREAM_STD{s.upper()}", f"{s}{i}\n".encode())
                for i in (1, 2, 3) for s in ("out", "err")]
    assert [item[1:] for item in times] == expected, times
    gaps = [b[0] - a[0] for a, b in zip(times, times[1:])]
    assert sum(gap > 0.1 for gap in gaps) >= 4, gaps
    result = frame["exited"]["result"]
    assert result["stdoutBytes"] == "15" and result["stderrBytes"] == "15", result


@case
@also_in_gvisor
def truncated(cay):
    """truncated results tell how many bytes were dropped"""
    size = 3 * MIB
    script = f"yes 2> /dev/null | head -c {size}"
    result, out, _ = cay.launch(SID, "/bin/sh", "-c", script, maxOutputBytes=100000)
    assert int(result["stdoutBytes"]) == size, result
    assert 100000 <= len(out) < 101000, len(out)
    dropped = int(cay.call(PROCESS + "LaunchProcess", {
        "sessionId": SID, "wait": "60s", "maxOutputBytes": 100000,
        "spec": {"argv": ["/bin/sh", "-c", script]}})["output"][0]["droppedBytes"])
    assert dropped == size - 100000, dropped
    result = cay.bash(SID, script)
    truncation = result["truncation"]
    assert int(truncation["totalBytes"]) == size, truncation
    text = result["content"][0]["text"]
    assert int(truncation["shownBytes"]) <= len(text) < 300 * 1024, truncation
    assert int(result["exec"]["droppedBytes"]) == size - int(truncation["shownBytes"]), result["exec"]
    assert str(size - int(truncation["shownBytes"])) in text, text[-200:]


@case
def slow_reader(cay):
    """a slow reader gets everything, or is told exactly what it missed"""
    size = 8 * MIB
    with cay.attach(SID, "/bin/sh", "-c", f"head -c {size} /dev/zero") as stream:
        seen = dropped = offset = 0
        for number, frame in enumerate(stream):
            if number % 50 == 0:
                time.sleep(0.05)
            if "exited" in frame:
                break
            chunk = frame.get("output", {})
            lost = int(chunk.get("droppedBytes", 0))
            assert int(chunk.get("offset", 0)) == offset + lost, (chunk["offset"], offset, lost)
            offset = int(chunk.get("offset", 0)) + len(unb64(chunk.get("data")))
            dropped += lost
            seen += len(unb64(chunk.get("data")))
    assert offset == size and seen + dropped == size, (seen, dropped)
    assert int(frame["exited"]["result"].get("droppedBytes", 0)) == dropped, frame["exited"]["result"]


@case
def stalled_reader(cay):
    """a reader that stops reading does not hold the command for good, nor others at all"""
    with cay.attach(SID, "/bin/sh", "-c", "head -c 40000000 /dev/zero; : > finished") as stream:
        stream.next()
        waited, _ = took_s(cay.sh, SID, "echo others")
        assert waited < SOON_S, waited
        eventually(lambda: cay.launch(SID, "/bin/test", "-e", "finished")[0]["exitCode"] == 0,
                   "the command ends though nobody reads", 30)


@case
@also_in_gvisor
def causes(cay):
    """an exit, a signal, a timeout and a lack of memory are told apart"""
    cay.create("little", limits=LITTLE)
    result, _, _ = cay.launch(SID, "/bin/sh", "-c", "exit 7")
    assert (result["exitCode"], result["cause"]) == (7, "END_CAUSE_EXITED"), result
    for number in (9, 11, 15):
        result, _, _ = cay.launch(SID, "/bin/sh", "-c", f"kill -{number} $$")
        assert (result["signal"], result["cause"]) == (number, "END_CAUSE_SIGNALED"), result
        assert "exitCode" not in result
    result, _, _ = cay.launch("little", "/bin/sh", "-c", "exec tail -c 500000000 /dev/zero")
    assert result["cause"] == "END_CAUSE_OOM", result
    result = cay.bash("little", "x=$(head -c 400000000 /dev/zero | tr '\\0' x); echo no")
    assert result["isError"] and result["exec"]["cause"] == "END_CAUSE_OOM", result
    assert cay.sh("little", "echo fine") == "fine\n", "the session did not survive"
    result, _, _ = cay.launch(SID, "/bin/sh", "-c", "exit 137")
    assert result["cause"] == "END_CAUSE_EXITED" and result["exitCode"] == 137, result
    cay.destroy("little")


@case
@also_in_gvisor
def oom_of_a_child(cay):
    """a command that survives a child's lack of memory ended by itself; in gVisor, whose memory is one, all end of it"""
    cay.create("little", limits=LITTLE)
    result, out, _ = cay.launch("little", "/bin/sh", "-c", "tail -c 500000000 /dev/zero; echo then; exit 4")
    if IN_GVISOR:
        assert result["cause"] == "END_CAUSE_OOM" and "memory" in result["message"] and not out, (result, out)
        assert cay.get("little")["stateReason"] == "out_of_memory", cay.get("little")
        assert cay.sh("little", "echo again") == "again\n"
    else:
        assert result.get("exitCode") == 4 and out == b"then\n", (result, out)
    cay.destroy("little")


@case
@also_in_gvisor
def plain_signals(cay):
    """a command starts with no signal ignored or blocked, whatever the daemon was started with"""
    if IN_GVISOR:  # whose /proc does not tell
        for number in (1, 2, 10, 12, 13, 14, 15):
            result, _, _ = cay.launch(SID, "/bin/sh", "-c", f"kill -{number} $$; echo alive")
            assert result.get("signal") == number, (number, result)
    else:  # not by a shell, which has a will of its own
        _, said, _ = cay.launch(SID, "/bin/grep", "-E", "SigIgn|SigBlk", "/proc/self/status")
        assert said.split() == [b"SigBlk:", b"0" * 16, b"SigIgn:", b"0" * 16], said
    result, out, err = cay.launch(SID, "/bin/sh", "-c", "yes | head -n 1")
    assert (result.get("exitCode"), out, err) == (0, b"y\n", b""), (result, out, err)


@case
@also_in_gvisor
def zombies(cay):
    """zombies never accumulate"""
    count = 2000 if IS_FULL else 300
    script = f"i=0; while [ $i -lt {count} ]; do (true &); i=$((i+1)); done; exit 0"
    for _ in range(3):
        assert cay.launch(SID, "/bin/sh", "-c", script)[0]["exitCode"] == 0
    for _ in range(50):
        cay.bash(SID, "true & true & exit 0")
    eventually(lambda: not [line for line in alive(cay, "") if line.split()[1].startswith("Z")],
               "no zombie is left")
    assert not cay.children() or len(cay.children()) <= len(cay.ids()), cay.children()


@case
@also_in_gvisor
def fork_bomb(cay):
    """a fork bomb is bounded by its session, and ends with its timeout"""
    cay.create("bomb", limits={"pids": "64"})
    bomb = "b() { b | b & }; b; sleep 100"
    waited, result = took_s(cay.bash, "bomb", bomb, {"policy": {"timeout": "1s"}})
    assert waited < 30 and result["isError"], (waited, result)
    assert cay.sh(SID, "echo fine") == "fine\n"
    cay.destroy("bomb")
    cay.create("bomb")
    cay.destroy("bomb")


@case
@also_in_gvisor
def disconnect_keeps(cay):
    """a client that leaves does not end the command"""
    cay.background(SID, "echo ready; sleep 0.5; echo done > left; sleep 36")
    eventually(lambda: cay.launch(SID, "/bin/cat", "left")[1] == b"done\n", "it went on")
    assert alive(cay, "sleep 36")
    kill_all(cay)


@case
@also_in_gvisor
def disconnect_kills(cay):
    """a client that leaves ends the command if it was asked to"""
    stream = cay.attach(SID, "/bin/sh", "-c", "setsid sleep 37 & echo ready; sleep 37",
                        policy={"killOnDisconnect": True})
    stream.next()
    stream.next()
    assert alive(cay, "sleep 37")
    stream.close()
    eventually(lambda: not alive(cay, "sleep 37"), "all of it is killed")
    request = {"sessionId": SID, "call": {"toolName": "bash", "params": {"cmd": "sleep 38"},
                                          "policy": {"killOnDisconnect": True}}}
    stream = cay.open(SANDBOX + "ExecuteToolStream", request)
    assert "started" in stream.next()
    stream.close()
    eventually(lambda: not alive(cay, "sleep 38"), "all of it is killed")


@case
def disconnect_early(cay):
    """a client that leaves before the command began ends it if it was asked to"""
    for _ in range(20):
        stream = cay.attach(SID, "/bin/sleep", "39", policy={"killOnDisconnect": True})
        stream.close()
    eventually(lambda: not alive(cay, "sleep 39"), "all of them are killed")
    for number in range(5):
        cay.create(f"lazy-{number}", lazyStart=True)
        cay.attach(f"lazy-{number}", "/bin/sleep", "39", policy={"killOnDisconnect": True}).close()
    for number in range(5):
        session_id = f"lazy-{number}"
        eventually(lambda s=session_id: "sleep 39" not in cay.sh(s, "ps -o args | grep -v grep"),
                   "it never began, or was killed")
        cay.destroy(session_id)


@case
def bounded_memory(cay):
    """the daemon's memory is bounded whatever a command prints"""
    size = (1024 if IS_FULL else 256) * MIB
    cay.launch(SID, "/bin/sh", "-c", f"yes | head -c {16 * MIB}")
    before = cay.rss_bytes()
    result, _, _ = cay.launch(SID, "/bin/sh", "-c", f"yes | head -c {size}", wait="600s")
    assert int(result["stdoutBytes"]) == size, result
    result = cay.bash(SID, "head -c 200000000 /dev/zero; head -c 100000000 /dev/zero >&2")
    assert int(result["exec"]["stderrBytes"]) == 100000000, result["exec"]
    stalled = [cay.attach(SID, "/bin/sh", "-c", "head -c 50000000 /dev/zero") for _ in range(8)]
    for stream in stalled:
        stream.next()
    growth = cay.rss_bytes() - before
    assert growth < cay.rss_room(24), growth
    for stream in stalled:
        stream.close()


@case
def flooded(cay):
    """a short command keeps its output and its end while others flood the sandbox's link"""
    floods = [cay.attach(SID, "/bin/sh", "-c", "exec cat /dev/zero", policy={"killOnDisconnect": True})
              for _ in range(6)]
    for stream in floods:
        stream.next()
    for number in range(60):
        result, out, err = cay.launch(SID, "/bin/sh", "-c", f"echo {number}; echo e{number} >&2")
        assert (out, err) == (f"{number}\n".encode(), f"e{number}\n".encode()), (number, result)
    for stream in floods:
        stream.close()
    eventually(lambda: not alive(cay, "cat /dev/zero"), "the floods are over")


@case
def odd_output(cay):
    """binary output, no newline, single bytes and closed streams are carried as they are"""
    result, out, _ = cay.launch(SID, "/bin/sh", "-c", "printf '\\000\\377\\001\\n\\000'")
    assert out == b"\0\xff\x01\n\0", out
    result = cay.bash(SID, "printf 'a\\377b'")
    assert result["content"][0]["text"].startswith("a\ufffdb"), result
    result, out, err = cay.launch(SID, "/bin/sh", "-c", "exec >&- 2>&-; sleep 0.2; exit 5")
    assert (result["exitCode"], out, err) == (5, b"", b""), result
    script = "i=0; while [ $i -lt 500 ]; do printf o; printf e >&2; i=$((i+1)); done"
    result, out, err = cay.launch(SID, "/bin/sh", "-c", script)
    assert (out, err) == (b"o" * 500, b"e" * 500)


@case
@also_in_gvisor
def users(cay):
    """commands run as the user of the session, or as the one that is named"""
    script = "id -u; id -g; echo $HOME $USER; touch mine 2> /dev/null; stat -c %u mine; rm -f mine"
    assert cay.sh(SID, script) == "1000\n1000\n/home/user user\n1000\n"
    assert cay.sh(SID, script, user="root") == "0\n0\n/root root\n0\n"
    assert cay.sh(SID, "head -c 4 /etc/secret", user="root") == "only"
    assert cay.launch(SID, "/bin/cat", "/etc/secret", user="user")[0]["exitCode"] == 1
    cay.create("as-root", defaultUser="root", defaultCwd="/tmp", env={"COLOUR": "blue"})
    assert cay.launch("as-root", "/bin/sh", "-c", "id -u; pwd; echo $COLOUR")[1] == b"0\n/tmp\nblue\n"
    assert cay.launch("as-root", "/bin/sh", "-c", "echo $COLOUR", env={"COLOUR": "red"})[1] == b"red\n"
    cay.destroy("as-root")
    for bad in ("nobody-we-know", "roo t", "../root", "-1", "4294967296", "x" * 5000, "r\0t", "🙂"):
        error = fails_any(cay.launch, SID, "/bin/true", user=bad)
        assert error.code in ("invalid_argument", "not_found"), error


@case
@also_in_gvisor
def users_of_passwd(cay):
    """any user of the sandbox's own passwd can be named, by name or number, with its groups and home"""
    cay.sh(SID, """mkdir -p /srv/eve; chown 2001:2002 /srv/eve
        echo 'eve:x:2001:2002:Eve:/srv/eve:/bin/ash' >> /etc/passwd
        printf 'eves:x:2002:\nstaff:x:50:user,eve\nwheel:x:10:eve\nnone:x:11:evelyn\n' >> /etc/group
        echo shared > /var/for-staff; chgrp 50 /var/for-staff; chmod 640 /var/for-staff""", user="root")
    who = "id -u; id -g; id -G; echo $HOME $USER $LOGNAME $SHELL"
    expected = "2001\n2002\n2002 10 50\n/srv/eve eve eve /bin/ash\n"
    assert cay.sh(SID, who, user="eve") == cay.sh(SID, who, user="2001") == expected
    assert cay.sh(SID, "id -G") == "1000 50\n", "a change of group counts at once"
    assert cay.sh(SID, "pwd", user="eve", cwd="~") == "/srv/eve\n"
    assert cay.bash(SID, "whoami; pwd", {"user": "eve", "cwd": "~"})["content"][0]["text"] == "eve\n/srv/eve\n"
    cay.write(SID, "~/mine", b"x", user="eve")
    assert cay.sh(SID, "stat -c %u:%g /srv/eve/mine", user="root") == "2001:2002\n"
    assert cay.read(SID, "/var/for-staff", user="eve") == b"shared\n", "files know the groups, too"
    assert cay.tool(SID, "read_file", {"user": "eve"}, path="/var/for-staff")["content"], "and tools"
    cay.sh(SID, "echo 'nil:x:2003:2003:::' >> /etc/passwd", user="root")
    fails("permission_denied", cay.read, SID, "/var/for-staff", user="nil")
    assert cay.sh(SID, "echo $HOME $SHELL", user="nil") == "/ /bin/sh\n"
    for unknown in ("mallory", "4242"):
        for call in (lambda: cay.launch(SID, "/bin/true", user=unknown),  # pylint: disable=cell-var-from-loop
                     lambda: cay.bash(SID, "true", {"user": unknown}),  # pylint: disable=cell-var-from-loop
                     lambda: cay.read(SID, "/etc/passwd", user=unknown),  # pylint: disable=cell-var-from-loop
                     lambda: cay.write(SID, "/tmp/x", b"", user=unknown)):  # pylint: disable=cell-var-from-loop
            error = fails("not_found", call, reason="user_not_found")
            assert unknown in str(error), error
    started = cay.call(PROCESS + "LaunchProcess", {"sessionId": SID, "spec": {"argv": ["/bin/true"], "user": "eve"}})
    assert started["process"]["user"] == "eve", started


@case
@also_in_gvisor
def hostile_passwd(cay):
    """whatever the sandbox makes of its passwd, nothing hangs, leaks or breaks, and root stays reachable"""
    cay.create("hostile")
    wrecks = ("rm /etc/passwd /etc/group", "mkfifo /etc/passwd", "mkdir /etc/passwd",
              "ln -s /proc/self/environ /etc/passwd", "ln -s passwd /etc/passwd",
              "truncate -s 8G /etc/passwd", "head -c 300000 /dev/urandom > /etc/passwd",
              "(yes 'x:x:77777777777:1:::' | head -n 9999; echo 'user:x:0:0::/:') > /etc/passwd; chmod 0 /etc/passwd",
              "printf 'big:x:70000:1:::\\nneg:x:-1:1:::\\nhome:x:5:5::relative:sh\\n:x:6:6:::\\n' > /etc/passwd",
              "(echo 'many:x:7:7:::' > /etc/passwd; i=100; while [ $i -lt 400 ]; do echo g$i:x:$i:many; i=$((i+1)); done > /etc/group)")
    for wreck in wrecks:
        cay.sh("hostile", wreck, user="root")
        assert cay.launch("hostile", "/bin/cat", "/etc/secret", user="root")[1] == b"only root\n", wreck
        assert took_s(cay.read, "hostile", "/etc/secret", user="root")[0] < 5
        fails("not_found", cay.launch, "hostile", "/bin/true", user="eve", reason="user_not_found")
        if "mkfifo" in wreck and IN_GVISOR:  # it is in gVisor's memory only
            cay.sh("hostile", "rm /etc/passwd", user="root")
        elif wreck not in wrecks[-2:]:  # a shell would wait for the fifo, too
            cay.call(FILE + "RemoveFile", {"sessionId": "hostile", "path": "/etc/passwd", "recursive": True,
                                           "missingOk": True, "user": "root"})
    for none in ("big", "neg", "70000", "g100"):
        fails("not_found", cay.launch, "hostile", "/bin/true", user=none, reason="user_not_found")
    assert len(cay.sh("hostile", "id -G", user="many").split()) == 33, "more groups than a call can carry are left out"
    cay.destroy("hostile")


def fails_any(function, *arguments, **more):
    """The call fails, by the caller's fault."""
    try:
        answer = function(*arguments, **more)
    except Exception as error:  # pylint: disable=broad-except
        assert getattr(error, "code", "internal") not in ("internal", "unknown"), error
        return error
    raise AssertionError(f"it went well: {str(answer)[:300]}")


@case
@also_in_gvisor
def environment(cay):
    """a command gets a clean environment and no descriptor but its own three"""
    out = cay.sh(SID, "env; ls /proc/self/fd | wc -l")
    if not IN_GVISOR:  # there plain_signals tries them
        signals = cay.launch(SID, "/bin/grep", "-E", "Sig(Ign|Blk)", "/proc/self/status")[1].split()
        assert set(signals[1::2]) == {b"0" * 16}, f"every signal does what it does by default: {signals}"
    names = {line.split("=")[0] for line in out.splitlines() if "=" in line}
    assert names <= {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "CAY_SESSION", "PWD",
                     "SHLVL", "OLDPWD", "_"}, names
    assert out.splitlines()[-1] == "4", out


@case
@also_in_gvisor
def not_found(cay):
    """a program that is not there gives 127, one that cannot be run 126"""
    assert cay.launch(SID, "no-such-program")[0]["exitCode"] == 127
    assert cay.launch(SID, "/no/such/program")[0]["exitCode"] == 127
    assert cay.launch(SID, "/etc/passwd")[0]["exitCode"] == 126
    assert cay.launch(SID, "/etc")[0]["exitCode"] == 126
    assert cay.bash(SID, "no-such-program")["exec"]["exitCode"] == 127
    assert cay.bash(SID, "/etc/passwd")["exec"]["exitCode"] == 126
    for program in ("no-such-program", "/etc/passwd"):
        assert cay.launch(SID, program)[0]["message"], "it does not say why"


@case
@also_in_gvisor
def path_lookup(cay):
    """a program is looked up in the sandbox's PATH, not in the daemon's"""
    cay.sh(SID, "mkdir -p bin && printf '#!/bin/sh\\necho own\\n' > bin/own && chmod 755 bin/own")
    assert cay.launch(SID, "own")[0]["exitCode"] == 127
    assert cay.launch(SID, "own", env={"PATH": "/workspace/bin:/bin"})[1] == b"own\n"
    assert cay.launch(SID, "echo", "-n", "a b", "$HOME", "*")[1] == b"a b $HOME *"


@case
@also_in_gvisor
def working_directory(cay):
    """a missing working directory is the caller's mistake, told as such"""
    assert cay.launch(SID, "/bin/pwd", cwd="/tmp")[1] == b"/tmp\n"
    for bad in ("/no/such", "/etc/passwd", "relative", "/tmp\0x", "/" + "x" * 5000, "/tmp/../../../no"):
        fails("invalid_argument", cay.launch, SID, "/bin/pwd", cwd=bad)
    fails("invalid_argument", cay.bash, SID, "pwd", {"cwd": "/no/such"})
    root = "/." if IN_GVISOR else "/"  # a link to / itself is the end of every path there (docs/security.md)
    cay.sh(SID, f"ln -sfn /proc/self/fd/3 /tmp/fd; ln -sfn {root} /tmp/root")
    assert cay.launch(SID, "/bin/pwd", cwd="/tmp/root/../../etc")[1] == b"/etc\n"
    fails_any(cay.launch, SID, "/bin/pwd", cwd="/proc/self/fd/7")


@case
@also_in_gvisor
def bad_arguments(cay):
    """arguments and variables: many and large go, too many and NUL are refused"""
    many = [str(i) for i in range(4000)]
    assert cay.launch(SID, "/bin/sh", "-c", "echo $#", "sh", *many)[1] == b"4000\n"
    assert cay.launch(SID, "/bin/sh", "-c", "echo ${#1}", "sh", "x" * 100000)[1] == b"100000\n"
    env = {f"NAME_{i}": "v" * 200 for i in range(800)}
    assert cay.launch(SID, "/bin/sh", "-c", "env | grep -c ^NAME_", env=env)[1] == b"800\n"
    odd = {"ODD": "a\nb=c\t'\"🙂"}
    assert cay.launch(SID, "/bin/sh", "-c", "printf %s \"$ODD\"", env=odd)[1].decode() == odd["ODD"]
    fails("invalid_argument", cay.launch, SID)
    fails("invalid_argument", cay.launch, SID, "")
    fails("invalid_argument", cay.launch, SID, "/bin/echo", "a\0b")
    fails("invalid_argument", cay.launch, SID, "/bin/echo", *(["x"] * 5000))
    fails("invalid_argument", cay.launch, SID, "/bin/echo", "x" * (3 * MIB))
    fails("invalid_argument", cay.launch, SID, "/bin/env", env={"A\0": "b"})
    fails("invalid_argument", cay.launch, SID, "/bin/env", env={"A=B": "c"})
    fails("invalid_argument", cay.launch, SID, "/bin/env", env={"": "c"})
    fails("invalid_argument", cay.launch, SID, "/bin/env", env={"A": "x\0y"})
    fails("invalid_argument", cay.launch, SID, "/bin/env", env={"A": "x" * MIB})
    fails("invalid_argument", cay.bash, SID, "")
    fails("invalid_argument", cay.bash, SID, "echo \0")
    fails("invalid_argument", cay.launch, SID, "/bin/true", policy={"timeout": "-1s"})
    fails("not_found", cay.launch, "no-such-session", "/bin/true")
    assert cay.sh(SID, "echo fine") == "fine\n"


@case
@also_in_gvisor
def standard_input(cay):
    """standard input is empty unless it is given, and then all of it comes"""
    assert cay.launch(SID, "/bin/cat")[1] == b""
    data = bytes(range(256)) * 256
    assert cay.launch(SID, "/bin/cat", stdinData=b64(data))[1] == data
    assert cay.launch(SID, "/bin/true", stdinData=b64(data))[0]["exitCode"] == 0


@case
def many_at_once(cay):
    """many commands run at the same time and do not mix"""
    def one(number):
        return cay.sh(SID, f"for i in 1 2 3 4 5; do echo {number}; usleep 10000; done")
    outputs = good(together(*(lambda n=n: one(n) for n in range(24))))
    assert outputs == [f"{n}\n" * 5 for n in range(24)]


@case
def stopped(cay):
    """a process that is stopped or ignores everything is killed by its timeout too"""
    for script in ("kill -STOP $$", "trap '' TERM INT HUP QUIT; while :; do sleep 1; done"):
        waited, result = took_s(cay.bash, SID, script, {"policy": {"timeout": "0.5s"}})
        assert waited < 10 and result["exec"]["cause"] == "END_CAUSE_TIMEOUT_WALL", result


@case
@also_in_gvisor
def death_of_the_first_process(cay):
    """sandbox root cannot reach the sandbox's first process; a lost sandbox is made anew"""
    cay.create("hard")
    result, out, _ = cay.launch("hard", "/bin/sh", "-c", "kill -9 1; kill -STOP 1; echo $?", user="root")
    assert cay.sh("hard", "echo fine") == "fine\n", (result, out)
    cay.sh("hard", "echo kept > kept")
    with cay.attach("hard", "/bin/sleep", "100") as stream:
        stream.next()
        os.kill(init_of(cay, "workspace/kept"), signal.SIGKILL)
        try:
            exited = follow_rest(stream)
            assert exited["result"]["cause"] in ("END_CAUSE_LOST", "END_CAUSE_KILLED"), exited
        except RpcError as error:
            assert error.code == "unavailable", error
    assert cay.sh("hard", "cat kept") == "kept\n"
    cay.destroy("hard")


def follow_rest(stream):
    for frame in stream:
        if "exited" in frame:
            return frame["exited"]
    raise AssertionError("the stream ended without an end")


@case
def once(cay):
    """a tool call with an id happens once: repeated, joined while it runs, and after a rollback anew"""
    cay.create("once")
    cay.turn("once")
    count = {"toolCallId": "c1"}
    first = cay.tool("once", "bash", call=count, cmd="echo x >> log; wc -l < log")
    again = cay.tool("once", "bash", call=count, cmd="echo x >> log; wc -l < log")
    assert first["content"] == again["content"], (first, again)
    assert cay.sh("once", "wc -l < /workspace/log").strip() == "1"
    fails("already_exists", cay.tool, "once", "bash", call=count, cmd="echo other")
    slow = {"toolCallId": "c2"}
    command = "echo y >> log2; until [ -e go ]; do sleep 0.05; done; wc -l < log2"
    results = []
    threads = [threading.Thread(target=lambda: results.append(
        cay.tool("once", "bash", call=slow, cmd=command))) for _ in range(5)]
    for thread in threads:
        thread.start()
    eventually(lambda: "log2" in cay.sh("once", "ls /workspace"), "it runs")
    cay.sh("once", "touch /workspace/go")
    for thread in threads:
        thread.join()
    assert len(results) == 5 and len({str(result["content"]) for result in results}) == 1, results
    assert cay.sh("once", "wc -l < /workspace/log2").strip() == "1"
    failed = {"toolCallId": "c3"}
    fails("invalid_argument", cay.tool, "once", "bash", call=failed, cmd=7)
    assert cay.tool("once", "bash", call=failed, cmd="echo ok")["content"], "failures are not kept"
    cay.rollback("once", "turn-0001")
    assert "1" in str(cay.tool("once", "bash", call=count,
                               cmd="echo x >> log; wc -l < log")["content"])
    assert cay.sh("once", "wc -l < /workspace/log").strip() == "1"
    for number in range(300):
        cay.tool("once", "list_dir", call={"toolCallId": f"many-{number}"}, path="/")
    assert cay.tool("once", "list_dir", call={"toolCallId": "many-0"}, path="/workspace")["content"]
    cay.destroy("once")


@case
def once_and_left(cay):
    """whoever left a call with an id gets all that it printed when asking again, also after leaving"""
    cay.create("left")
    command = "echo before; touch begun; until [ -e go ]; do sleep 0.05; done; echo after; echo bad >&2"
    for verb in ("ExecuteTool", "ExecuteToolStream"):
        call = {"toolName": "bash", "params": {"cmd": command}, "toolCallId": verb}
        request = {"sessionId": "left", "call": call}
        with (cay.open if verb.endswith("Stream") else cay.post)(SANDBOX + verb, request):
            eventually(lambda: "begun" in cay.sh("left", "ls /workspace"), "it runs")
        cay.sh("left", "touch /workspace/go")
        result = cay.tool("left", "bash", call={"toolCallId": verb}, cmd=command)
        text = result["content"][0]["text"]
        assert result["cached"] and "before" in text and "bad" in text and "after" in text, result
        cay.sh("left", "cd /workspace; rm begun go")


@case
def destroy_while_running(cay):
    """a session that is destroyed takes its commands with it, and their callers are told"""
    cay.create("short")
    def run_long():
        return cay.bash("short", "sleep 100")
    def destroy_soon():
        eventually(lambda: cay.get("short").get("toolsInFlight", 0) == 1, "it runs")
        return cay.destroy("short")
    ran, destroyed = together(run_long, destroy_soon)
    assert destroyed == {"existed": True}, destroyed
    assert isinstance(ran, Exception) or ran["isError"], ran
    assert getattr(ran, "code", None) in (None, "failed_precondition", "not_found", "aborted"), ran


if __name__ == "__main__":
    run_with_cayd("--send-timeout", "8s", session=SID, swapper=sys.argv[3])
