#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What became of connections of filtered networks: events, totals, metrics, and what a command was
refused.

The same world as that of filtered networks (filtered.py).
"""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import time

from daemon import KEY, PATIENCE_S, SANDBOX, case, eventually
from filtered_world import CAY, filtered, helpers, main, refused
from internet import WORLD, client, session, update

WATCH = SANDBOX + "WatchEvents"


def cli(cay, *arguments, check=True):
    environment = os.environ | {"CAY_URL": f"unix:{cay.socket_path}"}
    done = subprocess.run([CAY, *arguments], env=environment, capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S)
    assert not check or done.returncode == 0, done
    return done


def events(cay, session_id, kind="NETWORK"):
    frames = cay.stream(WATCH, {"noFollow": True, "sessionIds": [session_id], "kinds": ["EVENT_KIND_" + kind]})
    # Another case had a session of this name.
    since = cay.get(session_id)["createdAt"]
    return [frame["event"] for frame in frames if frame.get("event", {}).get("time", "") > since]


def receipts(cay, session_id, **wanted):
    """Of those that fit, with their events."""
    found = [(event, event["network"]) for event in events(cay, session_id)]
    return [pair for pair in found if all(pair[1].get(key) == value for key, value in wanted.items())]


def await_receipt(cay, session_id, **wanted):
    found = []

    def is_there():
        found[:] = receipts(cay, session_id, **wanted)
        return found
    eventually(is_there, f"a receipt of {wanted}")
    return found[-1]


def totals(cay, session_id):
    return {key: int(value) for key, value in cay.get(session_id).get("networkTotals", {}).items()}


def metric(cay, name):
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    with connection.sock:
        connection.sock.connect(str(cay.socket_path))
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    (line,) = [line for line in lines if line.startswith(name + " ")]
    return int(line.split()[-1])


ECHO_BYTES = 2


def echoes(cay, session_id, name="world.test"):
    assert client(cay, session_id, "echo", name, 7) == (True, ""), name


@case
def told(cay, _world):
    """each connection and each refusal is an event, with all that is known of it"""
    with session(cay, "first", network=filtered("world.test:7", deny=["four.test"])):
        echoes(cay, "first")
        event, receipt = await_receipt(cay, "first", outcome="NETWORK_OUTCOME_ALLOWED")
        assert event["type"] == "network.allowed" and "reason" not in event, event
        assert receipt["name"] == "world.test" and receipt["port"] == 7 and receipt["address"] == WORLD[0], receipt
        assert receipt["rule"] == "world.test:7" and int(receipt["count"]) == 1, receipt
        assert int(receipt["receivedBytes"]) == ECHO_BYTES and "duration" in receipt, receipt
        refused(cay, "first", "names", "other.test")
        event, receipt = await_receipt(cay, "first", name="other.test")
        assert event["type"] == "network.refused" and event["reason"] == receipt["reason"] == "no_rule", event
        assert receipt["why"] == "no rule allows it" and "port" not in receipt, receipt
        refused(cay, "first", "names", "four.test")
        _, receipt = await_receipt(cay, "first", name="four.test")
        assert receipt["why"] == "'four.test' denies it", receipt
        refused(cay, "first", "tcp", "world.test", 81)
        _, receipt = await_receipt(cay, "first", port=81)
        assert receipt["why"] == "'world.test:7' allows it on other ports only", receipt


@case
def turns(cay, _world):
    """a receipt has the turn that was under way, and the log shows those of one"""
    with session(cay, "first", network=filtered("world.test")):
        echoes(cay, "first")
        cay.turn("first")  # before the helper tells: it is of the first turn all the same
        refused(cay, "first", "names", "second.test")
        assert await_receipt(cay, "first", name="world.test")[1]["turn"] == "1"
        assert await_receipt(cay, "first", name="second.test")[1]["turn"] == "2"
        lines = cli(cay, "net", "log", "first", "--turn", "2").stdout.splitlines()
        assert lines and all("second.test" in line and "  turn 2  refused" in line for line in lines), lines
        found = [json.loads(line) for line in cli(cay, "net", "log", "first", "--json").stdout.splitlines()]
        assert {one["network"]["name"] for one in found} == {"world.test", "second.test"}, found
    assert cli(cay, "net", "log", "first", check=False).returncode == 125


@case
def processes(cay, _world):
    """a process is named when no other one ran, and only then"""
    with session(cay, "first", network=filtered("world.test")):
        result, _, _ = cay.launch("first", "net_client", "names", "alone.test")
        assert await_receipt(cay, "first", name="alone.test")[0].get("processId"), result
        cay.sh("first", "sleep 1000 > /dev/null 2>&1 &")
        refused(cay, "first", "names", "one-of-two.test")
        assert "processId" not in await_receipt(cay, "first", name="one-of-two.test")[0]


@case
def follows(cay, _world):
    """cay net log -f shows what happens as it happens"""
    with session(cay, "first", network=filtered("world.test")):
        environment = os.environ | {"CAY_URL": f"unix:{cay.socket_path}"}
        refused(cay, "first", "names", "before.test")
        with subprocess.Popen([CAY, "net", "log", "-f", "first"], env=environment, stdout=subprocess.PIPE,
                              text=True) as follower:
            try:
                assert "before.test, no rule allows it" in follower.stdout.readline()
                refused(cay, "first", "names", "after.test")
                while "after.test" not in (line := follower.stdout.readline()):
                    assert line, "it has ended"
            finally:
                follower.kill()


@case
def flood(cay, _world):
    """a flood of refusals is bounded, counted, and pushes out nothing else"""
    with session(cay, "first", network=filtered("world.test")):
        cay.sh("first", "for i in $(seq 250); do echo n$i.test; done | xargs -n1 net_client names >/dev/null 2>&1; true")
        refused(cay, "first", "names", "last.test")
        eventually(lambda: totals(cay, "first").get("refusedNames", 0) >= 500, "all are counted")
        found = receipts(cay, "first")
        told_count = sum(int(receipt["count"]) for _, receipt in found)
        assert len(found) < 250, len(found)
        assert told_count + sum(int(receipt.get("omitted", 0)) for _, receipt in found) <= 600
        types = [event["type"] for event in events(cay, "first", "SESSION")]
        assert "session.created" in types, types


@case
def counted(cay, _world):
    """totals outlast the daemon, the helper and the sandbox; a fork begins anew; metrics have them, too"""
    with session(cay, "first", network=filtered("world.test")):
        for _ in range(3):
            echoes(cay, "first")
        refused(cay, "first", "names", "other.test")
        wanted = {"allowed": 3, "refusedNames": totals(cay, "first").get("refusedNames"),
                  "receivedBytes": 3 * ECHO_BYTES, "sentBytes": 3 * ECHO_BYTES}

        def is_there():
            now = totals(cay, "first")
            wanted["refusedNames"] = now.get("refusedNames")
            return now.get("allowed") == 3 and now.get("refusedNames") and now == wanted
        eventually(is_there, "totals")
        before = metric(cay, 'cay_network_connections_total{outcome="allowed"}')
        cay.kill()
        cay.start()
        assert totals(cay, "first") == wanted
        # While there is no daemon, the helper counts on.
        (helper,) = helpers()
        os.kill(helper, signal.SIGKILL)
        echoes(cay, "first")
        eventually(lambda: totals(cay, "first").get("allowed") == 4, "the next helper counts on")
        # The next daemon begins anew, and counts what was before it only once.
        assert before >= 3 and metric(cay, 'cay_network_connections_total{outcome="allowed"}') == 1
        (fork,) = cay.fork("first")
        assert totals(cay, fork["id"]) == {}
        cay.destroy(fork["id"])
        shown = cli(cay, "show", "first").stdout
        assert "4 connections, 0 refused, 0 failed" in shown, shown


DENIED = "network: {0} refused, no rule allows it; 'cay net allow first {0}' would"


@case
def told_to_commands(cay, _world):
    """what a command was refused is in its result, in that of a tool, and on standard error of cay exec"""
    with session(cay, "first", network=filtered("world.test:7")):
        # Again and again: all but the first of the same are counted by the helper, and told later.
        script = "for i in 1 2 3 4 5 6 7 8; do net_client names other.test; net_client try world.test 81; done"
        by_port = ("network: world.test:81 refused, 'world.test:7' allows it on other ports only; "
                   "'cay net allow first world.test:81' would")
        for _ in range(3):
            result, _, _ = cay.launch("first", "sh", "-c", script)
            assert sorted(result["networkRefusals"]) == sorted([DENIED.format("other.test"), by_port]), result
            assert result["networkRefusalCount"] == 2, result
            # Those that the helper counts are told to nobody who came later.
            result, _, _ = cay.launch("first", "net_client", "echo", "world.test", "7")
            assert "networkRefusals" not in result and "networkRefusalCount" not in result, result
        done = cli(cay, "exec", "first", "--", "net_client", "names", "other.test")
        assert done.stdout == "failed no such name\n" and done.stderr == f"cay: {DENIED.format('other.test')}\n", done
        done = cay.bash("first", "net_client names for-a-tool.test; exit 3")
        text = done["content"][0]["text"]
        assert text.endswith(f"[{DENIED.format('for-a-tool.test')}]\n[exit code 3]\n"), text
        # What does not exist is told as well: the program only sees that its connection is reset.
        cay.destroy("first")
        cay.create("first", network=filtered("*.test"))
        result, _, _ = cay.launch("first", "net_client", "echo", "nowhere.test", "7")
        assert result["networkRefusals"] == ["network: nowhere.test:7 failed, no address of it was found"], result


@case
def many_told(cay, _world):
    """a command is told of 8 at most, and how many more there were"""
    with session(cay, "first", network=filtered("world.test")):
        done = cli(cay, "exec", "first", "--", "sh", "-c",
                   "for i in $(seq 20); do net_client names n$i.test > /dev/null; done")
        lines = done.stderr.splitlines()
        assert len(lines) == 9 and lines[-1] == "cay: network: and 12 more", lines
        assert all(line.startswith("cay: network: n") for line in lines[:8]), lines


def http_post(cay, path, body, headers):
    connection = http.client.HTTPConnection(cay.host, cay.port, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        assert answer.status < 300, (path, answer.status, data)
        return data


@case
def e2b(cay, _world):
    """a command of an E2B client that fails says in its error what it was refused"""
    key = cay.call(KEY + "CreateKey", {"owner": "e2b"})["secret"]
    wanted = {"templateID": "small", "timeout": 60, "secure": True,
              "network": {"allowOut": ["world.test"], "denyOut": ["0.0.0.0/0"]}}
    sandbox = json.loads(http_post(cay, "/sandboxes", json.dumps(wanted),
                                   {"X-API-Key": key, "Content-Type": "application/json"}))
    for status in (3, 0):
        process = {"process": {"cmd": "/bin/sh", "args": ["-c", f"net_client names other.test; exit {status}"]}}
        message = json.dumps(process).encode()
        stream = http_post(cay, "/process.Process/Start", struct.pack(">BI", 0, len(message)) + message, {
            "E2b-Sandbox-Id": sandbox["sandboxID"], "E2b-Sandbox-Port": "49983",
            "X-Access-Token": sandbox["envdAccessToken"], "Content-Type": "application/connect+json"})
        (end,) = [json.loads(line)["event"]["end"] for line in re.findall(rb'{"event":{"end":.*?}}}', stream)]
        assert end["exited"] and end.get("exitCode", 0) == status, end
        sentence = DENIED.format("other.test").replace("first", sandbox["sandboxID"])
        assert end.get("error") == (f"exit status 3\n{sentence}" if status else None), end
    cay.destroy(sandbox["sandboxID"])


@case
def updated(cay, _world):
    """an update answers when the helper has the rules, and does not wait for one that does not answer"""
    with session(cay, "first", network=filtered()):
        refused(cay, "first", "names", "world.test")
        for _ in range(3):
            assert cli(cay, "net", "allow", "first", "world.test").returncode == 0
            echoes(cay, "first")
            assert cli(cay, "net", "allow", "first", "--rm", "world.test").returncode == 0
            refused(cay, "first", "names", "world.test")
        (helper,) = helpers()
        os.kill(helper, signal.SIGSTOP)
        began = time.monotonic()
        update(cay, "first", filtered("world.test"))
        assert time.monotonic() - began > 0.9, "it has not waited"
        os.kill(helper, signal.SIGCONT)
        echoes(cay, "first")


if __name__ == "__main__":
    main()
