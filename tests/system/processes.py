#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The process plane: launch, list, status, wait, signals, input, output at any offset, restarts."""

import hashlib
import os
import signal
import time

from daemon import MIB, PROCESS, SANDBOX, Client, RpcError, b64, case, eventually, fails, good, init_of, together, unb64
from process_client import Processes, collect
from small_base import run_with_cayd

SID = "plane"


def plane(cay, session_id, **fields):
    cay.create(session_id, **fields)
    return Processes(cay, session_id)


def running(cay, text, session_id=SID):
    out = cay.launch(session_id, "/bin/ps", "-o", "pid,stat,args", user="root")[1].decode()
    return [line for line in out.splitlines() if text in line and "ps -o" not in line]


def tried(function, *arguments):
    """Its code; None: it went well."""
    try:
        function(*arguments)
        return None
    except RpcError as error:
        return error.code


@case
def launched(cay):
    """a process is launched with argv, env, cwd and user, listed by its id and tag, and goes on"""
    plane_ = Processes(cay, SID)
    process = plane_.start("/bin/sh", "-c", "echo $A; pwd; id -u; sleep 100", env={"A": "b"}, cwd="/tmp",
                           user="root", tag="server")
    assert process["state"] == "PROCESS_STATE_RUNNING" and process["pid"] > 1, process
    assert process["origin"] == "PROCESS_ORIGIN_LAUNCHED" and process["user"] == "root", process
    assert process["cwd"] == "/tmp" and process["argv"][0] == "/bin/sh", process
    found = plane_.list(tag="server")
    assert [item["id"] for item in found] == [process["id"]], found
    assert plane_.list(tag="other") == []
    assert plane_.read_until(process["id"], b"0\n") == b"b\n/tmp\n0\n"
    status = plane_.get(process["id"])
    assert status["outputEnd"] == "9" and "outputStart" not in status, status
    assert running(cay, f"{process['pid']} "), "its pid is not the one inside"
    plane_.end(process["id"])
    assert plane_.ids() == [] and process["id"] in plane_.ids(includeExited=True)


@case
def not_startable(cay):
    """what cannot be started is an error that says why, and leaves nothing behind"""
    plane_ = Processes(cay, SID)
    before = plane_.ids(includeExited=True)
    fails("not_found", plane_.start, "/no/such/program")
    fails("not_found", plane_.start, "no-such-program")
    fails("permission_denied", plane_.start, "/etc/passwd")
    fails("invalid_argument", plane_.start, "/bin/true", cwd="/no/such/directory")
    fails("not_found", plane_.start, "/bin/true", user="nobody-we-know", reason="user_not_found")
    fails("invalid_argument", plane_.start)
    fails("invalid_argument", plane_.start, "/bin/true", tag="x" * 200)
    fails("invalid_argument", plane_.start, "/bin/true", pty={"rows": 70000})
    fails("invalid_argument", plane_.start, "/bin/true", exposePort={"port": 0})
    fails("not_found", Processes(cay, "no-such").start, "/bin/true", reason="session_not_found")
    fails("not_found", plane_.get, "p-nothing", reason="process_not_found")
    fails("not_found", plane_.wait, "p-nothing")
    fails("not_found", plane_.kill, "p-nothing")
    fails("not_found", plane_.output, "p-nothing")
    assert plane_.ids(includeExited=True) == before


@case
def ends(cay):
    """exit code, signal, timeout and lack of memory are kept after the end"""
    plane_ = Processes(cay, SID)
    small = plane(cay, "small-memory", limits={"memoryBytes": str(32 * MIB)})
    assert plane_.result(plane_.sh("exit 7"))["exitCode"] == 7
    result = plane_.result(plane_.sh("kill -11 $$"))
    assert (result["signal"], result["cause"]) == (11, "END_CAUSE_SIGNALED"), result
    result = plane_.result(plane_.sh("sleep 100", policy={"timeout": "0.3s"}))
    assert result["cause"] == "END_CAUSE_TIMEOUT_WALL", result
    result = plane_.result(plane_.sh("echo x; sleep 100", policy={"noOutputTimeout": "0.3s"}))
    assert result["cause"] == "END_CAUSE_TIMEOUT_NO_OUTPUT", result
    result = small.result(small.sh("exec tail -c 500000000 /dev/zero"))
    assert result["cause"] == "END_CAUSE_OOM", result
    process_id = plane_.sh("echo kept; exit 3")
    plane_.result(process_id)
    for _ in range(3):
        status = plane_.get(process_id)
        assert status["state"] == "PROCESS_STATE_EXITED" and status["result"]["exitCode"] == 3, status
        assert status["endedAt"] >= status["startedAt"], status
    assert plane_.output(process_id)[0] == b"kept\n", "its output went with it"
    cay.destroy("small-memory")


@case
def waits(cay):
    """a wait ends with the process or with its time"""
    plane_ = Processes(cay, SID)
    process_id = plane_.sh("sleep 100")
    answer = plane_.wait(process_id, "0.2s")
    assert "exited" not in answer and answer["process"]["state"] == "PROCESS_STATE_RUNNING", answer
    outcomes = together(lambda: plane_.wait(process_id), lambda: plane_.wait(process_id),
                        lambda: eventually(lambda: plane_.kill(process_id), "it is killed"))
    for answer in good(outcomes)[:2]:
        assert answer["exited"] and answer["process"]["result"]["signal"] == 15, answer
    fails("invalid_argument", plane_.wait, process_id, "7200s")


@case
def waited_launch(cay):
    """a launch that waits answers the output; when the wait is over the process goes on"""
    plane_ = Processes(cay, SID)
    request = {"spec": {"argv": ["/bin/sh", "-c", "echo early; read line < /tmp/go; echo late"]}}
    cay.sh(SID, "rm -f /tmp/go; mkfifo /tmp/go")
    answer = plane_.call("LaunchProcess", wait="0.5s", **request)
    process = answer["process"]
    assert process["state"] == "PROCESS_STATE_RUNNING" and "result" not in process, process
    assert unb64(answer["output"][0]["data"]) == b"early\n", answer
    assert process["id"] in plane_.ids()
    cay.sh(SID, "echo > /tmp/go")
    assert plane_.result(process["id"])["exitCode"] == 0
    data, dropped, exited = plane_.output(process["id"], offset=6)
    assert (data, dropped) == (b"late\n", 0) and exited["result"]["exitCode"] == 0, (data, dropped)
    answer = plane_.call("LaunchProcess", wait="60s", spec={"argv": ["/bin/echo", "quick"]})
    assert plane_.get(answer["process"]["id"])["result"]["exitCode"] == 0
    answer = plane_.call("LaunchProcess", wait="60s", spec={"argv": ["/bin/cat"], "stdinOpen": True,
                                                            "stdinData": "aGk=", "policy": {"timeout": "1s"}})
    assert unb64(answer["output"][0]["data"]) == b"hi", answer


@case
def repeated_launch(cay):
    """a launch with an id happens once, however often, by how many and over which restart it is asked for"""
    plane_ = Processes(cay, SID)
    script = "echo ran >> once; echo ran; read line < /tmp/go; exit 7"
    cay.sh(SID, "rm -f once /tmp/go; mkfifo /tmp/go")
    answers = good(together(*[lambda: plane_.launch_once("a", script) for _ in range(8)]))
    process = answers[0]["process"]
    assert {answer["process"]["id"] for answer in answers} == {process["id"]} and process["requestId"] == "a", answers
    other = plane_.launch_once("b", script)["process"]["id"]
    assert other != process["id"]
    plane_.read_until(other, b"ran\n")
    plane_.end(other)
    answer = plane_.launch_once("a", script, wait="0.2s")
    assert answer["process"]["id"] == process["id"] and unb64(answer["output"][0]["data"]) == b"ran\n", answer
    cay.restart()
    answers = good(together(lambda: plane_.launch_once("a", script, wait="60s"), lambda: plane_.launch_once("a", script, wait="60s"),
                            lambda: cay.sh(SID, "echo > /tmp/go")))[:2]
    answers.append(plane_.launch_once("a", script, wait="60s"))  # also when it has ended
    for answer in answers:
        assert answer["process"]["id"] == process["id"] and answer["process"]["result"]["exitCode"] == 7, answer
        assert unb64(answer["output"][0]["data"]) == b"ran\n", answer
    assert cay.sh(SID, "cat once") == "ran\nran\n"  # once for each of the two ids
    fails("already_exists", plane_.launch_once, "a", script + " ")
    fails("invalid_argument", plane_.launch_once, "a" * 129, script)
    fails("invalid_argument", plane_.launch_once, "c", script, {"policy": {"killOnDisconnect": True}})


@case
def repeated_failure(cay):
    """a launch with an id that started nothing may be asked for again"""
    plane_ = Processes(cay, SID)
    missing = {"argv": ["/tmp/program"]}
    for outcome in together(*[lambda: tried(lambda: plane_.launch_once("a", "", missing)) for _ in range(4)]):
        assert outcome in ("not_found", "unavailable"), outcome
    assert tried(lambda: plane_.launch_once("a", "", missing)) == "not_found"
    cay.sh(SID, "printf '#!/bin/sh\\necho now\\n' > /tmp/program; chmod +x /tmp/program")
    assert unb64(plane_.launch_once("a", "", missing, wait="60s")["output"][0]["data"]) == b"now\n"
    # So may one whose port could not be exposed; another launch with the same port and id is the same one.
    plane_.call("ExposePort", port={"port": 4711})
    server = {"exposePort": {"port": 4711}}
    fails("already_exists", plane_.launch_once, "s", "exec sleep 204", server)
    eventually(lambda: not running(cay, "sleep 204"), "it does not stay")
    plane_.call("UnexposePort", port=4711)
    first, second = (plane_.launch_once("s", "exec sleep 204", server)["process"] for _ in range(2))
    assert first["id"] == second["id"] and second["state"] == "PROCESS_STATE_RUNNING", second
    assert [port["port"] for port in second["ports"]] == [4711], second
    fails("already_exists", plane_.launch_once, "s", "exec sleep 204", {"exposePort": {"port": 4711, "bindAddress": "127.0.0.2"}})
    assert len(running(cay, "sleep 204")) == 1, "it stays"
    plane_.end(first["id"])


@case
def signals(cay):
    """a signal reaches the process or all it started, and SIGKILL follows when asked"""
    plane_ = Processes(cay, SID)
    script = "trap 'echo told' USR1; setsid sleep 201 & sleep 201 & echo up; while :; do sleep 0.05; done"
    process_id = plane_.sh(script)
    plane_.read_until(process_id, b"up\n")
    plane_.kill(process_id, signal=10, scope="KILL_SCOPE_PROCESS")
    plane_.read_until(process_id, b"told\n")
    assert len(running(cay, "sleep 201")) >= 2
    answer = plane_.kill(process_id, signal=15, wait=True)
    assert answer["process"]["result"]["cause"] == "END_CAUSE_KILLED", answer
    eventually(lambda: not running(cay, "sleep 201"), "all it started is gone")
    assert plane_.kill(process_id)["alreadyExited"] is True
    process_id = plane_.sh("trap '' TERM HUP INT; echo deaf; while :; do sleep 0.1; done")
    plane_.read_until(process_id, b"deaf\n")
    answer = plane_.kill(process_id, killAfter="0.3s", wait=True)
    assert answer["process"]["result"]["signal"] == 9, answer
    process_id = plane_.sh("kill -STOP $$; sleep 100")
    assert plane_.end(process_id)["process"]["result"]["cause"] == "END_CAUSE_KILLED"
    fails("invalid_argument", plane_.kill, process_id, signal=65)


@case
def one_alone(cay):
    """the process alone can be killed; what it leaves is adopted, listed and killable"""
    plane_ = Processes(cay, SID)
    process_id = plane_.sh("sleep 202 & echo up; wait")
    plane_.read_until(process_id, b"up\n")
    eventually(lambda: running(cay, "sleep 202"), "what it started is the program that it is to be")
    plane_.kill(process_id, signal=9, scope="KILL_SCOPE_PROCESS", wait=True)
    result = plane_.get(process_id)["result"]
    assert result["leftoverCount"] == 1 and "sleep 202" in result["leftovers"][0]["command"], result
    left = plane_.get(result["leftovers"][0]["processId"])
    assert left["origin"] == "PROCESS_ORIGIN_LEFTOVER", left
    assert left["state"] == "PROCESS_STATE_RUNNING" and left["id"] in plane_.ids(), left
    answer = plane_.end(left["id"])
    assert answer["process"]["result"]["cause"] == "END_CAUSE_KILLED", answer
    eventually(lambda: not running(cay, "sleep 202"), "it is gone")


@case
def leftovers(cay):
    """leftovers of tools and commands are processes: what they print can be read"""
    plane_ = Processes(cay, SID)
    cay.sh(SID, "rm -f /tmp/go; mkfifo /tmp/go")
    result = cay.bash(SID, "(read line < /tmp/go; echo from the past; sleep 203) & echo now")
    left = result["exec"]["leftovers"][0]
    assert left["processId"] in plane_.ids(), left
    cay.sh(SID, "echo > /tmp/go")
    assert b"from the past\n" in plane_.read_until(left["processId"], b"past\n")
    plane_.end(left["processId"])
    result, _, _ = cay.launch(SID, "/bin/sh", "-c", "sleep 0.5 & exit 0")
    answer = plane_.wait(result["leftovers"][0]["processId"])
    assert answer["process"]["result"]["cause"] == "END_CAUSE_LOST", answer


@case
def bash(cay):
    """bash takes standard input, a timeout of silence, and runs in the background"""
    plane_ = Processes(cay, SID)
    result = cay.tool(SID, "bash", cmd="wc -c", stdin="x" * 200000)
    assert result["content"][0]["text"].startswith("200000"), result
    result = cay.tool(SID, "bash", cmd="echo x; sleep 100", no_output_timeout_ms=300)
    assert result["exec"]["cause"] == "END_CAUSE_TIMEOUT_NO_OUTPUT", result
    result = cay.tool(SID, "bash", {"toolCallId": "call-1"}, cmd="cat; sleep 100", background=True, stdin="hi")
    process = plane_.get(result["processId"])
    assert process["origin"] == "PROCESS_ORIGIN_TOOL" and process["toolCallId"] == "call-1", process
    assert process["id"] in result["content"][0]["text"]
    assert plane_.read_until(process["id"], b"hi") == b"hi"
    plane_.end(process["id"])
    fails("invalid_argument", cay.tool, SID, "bash", cmd="true", background="yes")


@case
def offsets(cay):
    """output is read from any offset by any number of readers, while it flows"""
    plane_ = Processes(cay, SID)
    script = "i=0; while [ $i -lt 300 ]; do echo line $i; echo err $i >&2; i=$((i+1)); usleep 3000; done"
    process_id = plane_.sh(script)
    whole = [b""]
    results = together(*(lambda: plane_.output(process_id) for _ in range(8)))
    for data, dropped, exited in good(results):
        assert dropped == 0 and exited["result"]["exitCode"] == 0, (dropped, exited)
        whole[0] = whole[0] or data
        assert data == whole[0]
    text = whole[0]
    assert sorted(text.split(b"\n")) == sorted(
        [b"line %d" % i for i in range(300)] + [b"err %d" % i for i in range(300)] + [b""])
    for offset in (0, 1, 7, 1000, len(text) - 1, len(text)):
        assert plane_.output(process_id, offset=offset)[0] == text[offset:], offset
    assert plane_.kept(process_id, tailBytes=10) == text[-10:]
    fails("invalid_argument", plane_.output, process_id, offset=-1)
    fails("invalid_argument", plane_.output, process_id, offset=1, tailBytes=1)


@case
def resumed(cay):
    """a reader that breaks off and comes back at its offset loses and repeats nothing"""
    plane_ = Processes(cay, SID)
    process_id = plane_.sh("i=0; while [ $i -lt 400 ]; do echo number $i; i=$((i+1)); usleep 2000; done")
    data = b""
    is_over = False
    while not is_over:
        with plane_.attach(process_id, offset=len(data)) as stream:
            for _ in range(7):
                frame = stream.next()
                is_over = frame is None or "exited" in frame
                if is_over:
                    break
                assert int(frame.get("output", {}).get("droppedBytes", 0)) == 0
                data += unb64(frame.get("output", {}).get("data"))
    assert data == b"".join(b"number %d\n" % i for i in range(400)), len(data)


@case
def overflow(cay):
    """what the ring dropped is counted and told; by option the writer waits instead"""
    plane_ = Processes(cay, SID)
    policy = {"outputRingBytes": "65536"}
    process_id = plane_.sh("yes 2> /dev/null | head -c 1000000", policy=policy)
    plane_.result(process_id)
    data, dropped, exited = plane_.output(process_id, offset=0)
    assert len(data) == 65536 and dropped == 1000000 - 65536, (len(data), dropped)
    assert int(exited["outputStart"]) == dropped and int(exited["outputEnd"]) == 1000000, exited
    blocking = policy | {"overflow": "OUTPUT_OVERFLOW_BLOCK"}
    process_id = plane_.sh("yes 2> /dev/null | head -c 1000000; echo over >&2", policy=blocking)
    answer = plane_.wait(process_id, "0.3s")
    assert "exited" not in answer, "it did not wait for its reader"
    data, dropped, exited = plane_.output(process_id)
    # Two pipes: what the first still holds may come after the second's.
    assert dropped == 0 and data.count(b"over\n") == 1, (len(data), dropped)
    assert data.replace(b"over\n", b"") == b"y\n" * 500000, len(data)
    assert exited["result"]["exitCode"] == 0


@case
def overflow_read(cay):
    """a process that somebody launches and reads waits for him; who comes later is told what he missed"""
    plane_ = Processes(cay, SID)
    policy = {"outputRingBytes": "65536"}
    script = "head -c 20000000 /dev/zero; echo over"
    with cay.attach(plane_.session_id, "/bin/sh", "-c", script, policy=policy) as stream:
        process_id = stream.next()["attached"]["id"]
        eventually(lambda: int(plane_.get(process_id).get("outputEnd", 0)) >= 65536, "the ring is full")
        data, dropped, exited = collect(stream)
    assert (len(data), dropped) == (20000005, 0) and data.endswith(b"over\n"), (len(data), dropped)
    assert exited["result"].get("droppedBytes", "0") == "0", exited
    data, dropped, exited = plane_.output(process_id)
    assert len(data) == 65536 and dropped == 20000005 - 65536, (len(data), dropped)
    assert int(exited["result"]["droppedBytes"]) == dropped, exited
    with cay.attach(plane_.session_id, "/bin/sh", "-c", script,
                    policy=policy | {"overflow": "OUTPUT_OVERFLOW_DROP_OLDEST"}) as stream:
        process_id = stream.next()["attached"]["id"]
        plane_.result(process_id)  # nobody waited for us
        data, dropped, _ = collect(stream)
    assert dropped and len(data) + dropped == 20000005, (len(data), dropped)


@case
def overflow_followed(cay):
    """by option the writer waits for readers that are attached, and for nobody else"""
    plane_ = Processes(cay, SID)
    policy = {"outputRingBytes": "65536", "overflow": "OUTPUT_OVERFLOW_FOLLOW"}
    process_id = plane_.sh("yes 2> /dev/null | head -c 1000000", policy=policy)
    plane_.result(process_id)
    with cay.open(PROCESS + "AttachProcess", {"sessionId": SID, "launch": {
            "argv": ["/bin/sh", "-c", "yes 2> /dev/null | head -c 9000000; echo over"], "policy": policy}}) as stream:
        process_id = stream.next()["attached"]["id"]
        stream.next()
        answer = plane_.wait(process_id, "0.3s")
        assert "exited" not in answer, "it did not wait for its reader"
    assert plane_.result(process_id)["exitCode"] == 0, "nobody is attached any more"
    data, dropped, _ = plane_.output(process_id, offset=0)
    assert len(data) == 65536 and dropped == 9000005 - 65536, (len(data), dropped)
    data = b""
    for frame in cay.stream(PROCESS + "AttachProcess", {"sessionId": SID, "launch": {
            "argv": ["/bin/sh", "-c", "yes 2> /dev/null | head -c 3000000"], "policy": policy}}):
        data += unb64(frame.get("output", {}).get("data"))
    assert data == b"y\n" * 1500000, len(data)


@case
def given_input(cay):
    """input is sent in pieces, closed once or twice, and refused when nobody reads"""
    plane_ = Processes(cay, SID)
    process_id = plane_.sh("cat; echo end", stdinOpen=True)
    for number in range(20):
        plane_.send(process_id, b"piece %d\n" % number)
    plane_.read_until(process_id, b"piece 19\n")
    plane_.send(process_id, b"last\n", close=True)
    plane_.call("CloseInput", processId=process_id)
    assert plane_.output(process_id)[0].endswith(b"piece 19\nlast\nend\n")
    plane_.call("CloseInput", processId=process_id)
    fails("failed_precondition", plane_.send, process_id, b"late")
    data = os.urandom(MIB)
    process_id = plane_.start("/bin/sha256sum", stdinData=b64(data))["id"]
    digest = hashlib.sha256(data).hexdigest().encode()
    assert plane_.output(process_id)[0].startswith(digest)
    process_id = plane_.sh("sleep 100", stdinOpen=True)
    error = None
    for _ in range(20):
        try:
            plane_.send(process_id, b"x" * 256 * 1024)
        except Exception as caught:  # pylint: disable=broad-except
            error = caught
            break
    assert error is not None and error.code == "resource_exhausted", error
    plane_.end(process_id)
    process_id = plane_.sh("sleep 100")
    fails("failed_precondition", plane_.send, process_id, b"x")
    fails("failed_precondition", plane_.call, "ResizePty", processId=process_id, size={"rows": 1, "cols": 1})
    plane_.end(process_id)


@case
def input_of_the_killed(cay):
    """from the moment at which a process is killed no input for it is taken, also where its queue becomes empty by its end"""
    plane_ = Processes(cay, SID)
    for _ in range(20):
        process_id = plane_.sh("exec sleep 100", stdinOpen=True)
        answers = []
        while "resource_exhausted" not in answers:
            answers.append(tried(plane_.send, process_id, b"x" * 256 * 1024))
        plane_.kill(process_id, signal=9)
        answers = [tried(plane_.send, process_id, b"x") for _ in range(10)]
        assert set(answers) == {"failed_precondition"}, answers
        plane_.wait(process_id)


@case
def left_while_restarting(cay):
    """a client leaves a process that dies with it, while it waits to be started again"""
    plane_ = plane(cay, "left")
    spec = {"argv": ["/bin/sh", "-c", "exit 1"], "policy": {"killOnDisconnect": True},
            "restart": {"mode": "RESTART_MODE_ALWAYS", "delay": "3600s"}}
    for verb in ("LaunchProcess", "AttachProcess"):
        if verb == "LaunchProcess":
            waiting = cay.post(PROCESS + verb, {"sessionId": "left", "spec": spec, "wait": "60s"})
        else:
            waiting = cay.open(PROCESS + verb, {"sessionId": "left", "launch": spec})
        with waiting:
            eventually(lambda: any(item["state"] == "PROCESS_STATE_RESTARTING" for item in plane_.list()),
                       "it waits to be started again")
        eventually(lambda: all(item["state"] == "PROCESS_STATE_EXITED" for item in plane_.list(includeExited=True)),
                   "it is ended")
    cay.destroy("left")


@case
def restarts(cay):
    """a restart policy starts a process again, with growing delays, until it is killed"""
    plane_ = Processes(cay, SID)
    cay.sh(SID, "rm -f /tmp/runs")
    script = "echo run >> /tmp/runs; echo run; exit 1"
    process_id = plane_.sh(script, restart={"mode": "RESTART_MODE_ON_FAILURE", "maxRestarts": 3, "delay": "0.05s"})
    result = plane_.result(process_id)
    status = plane_.get(process_id)
    assert status["restartCount"] == 3 and result["exitCode"] == 1, status
    assert cay.sh(SID, "wc -l < /tmp/runs").strip() == "4"
    assert plane_.output(process_id)[0] == b"run\n" * 4, "the output of earlier runs is gone"
    process_id = plane_.sh("exit 0", restart={"mode": "RESTART_MODE_ON_FAILURE", "delay": "0.05s"})
    assert plane_.result(process_id)["exitCode"] == 0 and "restartCount" not in plane_.get(process_id)
    process_id = plane_.sh("echo again; sleep 0.05", restart={"mode": "RESTART_MODE_ALWAYS", "delay": "0.02s"})
    eventually(lambda: plane_.get(process_id).get("restartCount", 0) >= 2, "it is started again")
    answer = plane_.kill(process_id, wait=True)
    assert answer["process"]["state"] == "PROCESS_STATE_EXITED", answer
    count = plane_.get(process_id)["restartCount"]
    assert plane_.wait(process_id, "0.2s")["process"]["restartCount"] == count
    process_id = plane_.sh("exit 1", restart={"mode": "RESTART_MODE_ALWAYS", "delay": "3600s"})
    eventually(lambda: plane_.get(process_id)["state"] == "PROCESS_STATE_RESTARTING", "it waits")
    assert plane_.kill(process_id, wait=True)["process"]["state"] == "PROCESS_STATE_EXITED"


@case
def history(cay):
    """of ended processes a bounded number is remembered, the newest ones"""
    plane_ = plane(cay, "history")
    ids = [plane_.sh("exit 0") for _ in range(120)]
    for process_id in ids[-3:]:
        plane_.result(process_id)
    eventually(lambda: not plane_.ids(), "all have ended")
    kept = plane_.ids(includeExited=True, pageSize=1000)
    assert kept == ids[-len(kept):] and 50 <= len(kept) <= 100, len(kept)
    pages = []
    token = ""
    while True:
        answer = plane_.call("ListProcesses", includeExited=True, pageSize=30, pageToken=token)
        pages += [process["id"] for process in answer["processes"]]
        token = answer.get("nextPageToken", "")
        if not token:
            break
    assert pages == kept
    cay.destroy("history")


@case
def many_readers(cay):
    """slow readers harm nobody, and the daemon's memory stays bounded"""
    plane_ = Processes(cay, SID)
    process_id = plane_.sh("exec yes")
    before = cay.rss_bytes()
    streams = [plane_.attach(process_id) for _ in range(30)]
    for stream in streams:
        stream.next()
    started = time.monotonic()
    assert cay.sh(SID, "echo fine") == "fine\n"
    assert time.monotonic() - started < 20
    assert int(plane_.get(process_id)["attached"]) == 30
    growth = cay.rss_bytes() - before
    assert growth < cay.rss_room(120), growth
    for stream in streams:
        stream.close()
    plane_.end(process_id)


@case
def lost_sandbox(cay):
    """when init dies, processes are lost and say so; the next call makes the sandbox anew"""
    plane_ = plane(cay, "lost")
    cay.sh("lost", "echo kept > kept")
    process_id = plane_.sh("echo before; sleep 100")
    plane_.read_until(process_id, b"before\n")
    with plane_.attach(process_id) as stream:
        stream.next()
        os.kill(init_of(cay, "workspace/kept"), signal.SIGKILL)
        exited = collect(stream)[2]
    assert exited["result"]["cause"] == "END_CAUSE_LOST" and exited["result"]["message"], exited
    assert "lost" in cay.get("lost")["stateMessage"], cay.get("lost")
    assert cay.get("lost")["stateReason"] == "init_died", cay.get("lost")
    assert cay.sh("lost", "cat kept") == "kept\n"
    assert "stateMessage" not in cay.get("lost"), cay.get("lost")
    assert plane_.get(process_id)["result"]["cause"] == "END_CAUSE_LOST"
    cay.destroy("lost")


@case
def others(cay):
    """a process of somebody else's session is not there"""
    plane_ = Processes(cay, SID)
    key = cay.call("cay.v1.KeyService/CreateKey", {"owner": "somebody"})["secret"]
    process_id = plane_.sh("sleep 100")
    stranger = Processes(Client(cay, key), SID)
    for verb in ("GetProcessStatus", "KillProcess", "WaitProcess", "CloseInput", "SendInput", "ResizePty"):
        fails("not_found", stranger.call, verb, processId=process_id, reason="session_not_found")
    fails("not_found", stranger.output, process_id)
    fails("not_found", stranger.list)
    plane_.end(process_id)


@case
def destroyed(cay):
    """with the session its processes end, and whoever waits is told"""
    plane_ = plane(cay, "gone")
    process_id = plane_.sh("sleep 100")
    with plane_.attach(process_id) as stream:
        stream.next()
        outcomes = together(lambda: plane_.wait(process_id), lambda: time.sleep(0.1) or cay.destroy("gone"))
        exited = collect(stream)[2]
    assert exited["result"]["cause"] == "END_CAUSE_KILLED", exited
    assert isinstance(outcomes[0], Exception) or outcomes[0]["exited"], outcomes[0]
    assert outcomes[1] == {"existed": True}, outcomes[1]


@case
def destroyed_at_the_start(cay):
    """a session goes whose processes are just being started: each call is answered, and the daemon lives on"""
    request = {"sessionId": "short", "spec": {"argv": ["/bin/sleep", "100"]}}
    for _ in range(10):
        cay.create("short")
        calls = [cay.post(PROCESS + "LaunchProcess", request) for _ in range(4)]
        calls.append(cay.post(SANDBOX + "DestroySession", {"sessionId": "short"}))
        answers = []
        for call in calls:
            with call:
                answers.append(call.answer().status)
        assert answers[-1] == 200 and 500 not in answers, answers
    assert cay.call(SANDBOX + "ListSessions")


if __name__ == "__main__":
    run_with_cayd("--send-timeout", "60s", session=SID)
