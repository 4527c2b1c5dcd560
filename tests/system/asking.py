#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Filtered networks that ask: what is held back, who is told, how it is answered, and who may die
meanwhile. The world is that of filtered.py."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import threading
import time

from daemon import PATIENCE_S, SANDBOX, also_in_gvisor, case, eventually, fails
from filtered_world import CAY, WHO, filtered, helpers, main, packets_out, reaches_by_name, refused
from internet import HOST, client, session, update
from own_network import OPEN

ASK_TIMEOUT_S = 10
REFUSED = False, "no answer"  # to a client that waits for a server's first word


def asking(*allow, deny=()):
    return filtered(*allow, deny=deny) | {"ask": True}


def questions(cay, session_id="first"):
    return cay.call(SANDBOX + "ListNetworkQuestions", {"sessionId": session_id}).get("questions", [])


def one_question(cay, waiting=1):
    eventually(lambda: [q.get("waiting", 0) for q in questions(cay)] == [waiting], "it is asked")
    return questions(cay)[0]


def answer(cay, question, decision):
    return cay.call(SANDBOX + "AnswerNetworkQuestion",
                    {"sessionId": "first", "questionId": question["id"], "decision": "NETWORK_DECISION_" + decision})


@contextlib.contextmanager
def meanwhile(function, *arguments):
    """Runs it in a thread; its outcome is in the list when the block is left."""
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(function(*arguments)))
    thread.start()
    try:
        yield outcome
    finally:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def dial(cay, name="world.test", port=WHO):
    return client(cay, "first", "tcp", name, port)


def events(cay, *types):
    frames = cay.stream(SANDBOX + "WatchEvents", {"noFollow": True, "sessionIds": ["first"], "types": list(types),
                                                 "since": "2020-01-01T00:00:00Z"})
    return [frame["event"] for frame in frames if "event" in frame]


@case
@also_in_gvisor
def once(cay, _world):
    """an unknown name is held until somebody lets it through; that counts for those who wait alone"""
    with session(cay, "first", network=asking()):
        assert cay.get("first")["network"]["ask"]
        with meanwhile(dial, cay) as first, meanwhile(dial, cay) as second:
            question = one_question(cay, waiting=2)
            assert (question["name"], question["port"]) == ("world.test", WHO), question
            assert answer(cay, question, "ALLOW_ONCE") == {}
        assert first == second == [(True, HOST[0])]
        assert not questions(cay)
        fails("failed_precondition", answer, cay, question, "ALLOW_ONCE")
        with meanwhile(dial, cay) as third:
            answer(cay, one_question(cay), "REJECT_ONCE")
        assert third == [REFUSED], third
        assert [(event["type"], event.get("reason"), event["data"]["name"]) for event in events(cay, "network.asked", "network.answered")] == [
            ("network.asked", None, "world.test"), ("network.answered", "allow_once", "world.test"),
            ("network.asked", None, "world.test"), ("network.answered", "reject_once", "world.test")]
        assert "allow" not in cay.get("first")["network"]


@case
def always(cay, _world):
    """an answer for ever is a rule of the session: of those it allows, or of those it denies"""
    with session(cay, "first", network=asking("four.test")):
        with meanwhile(dial, cay) as outcome:
            assert answer(cay, one_question(cay), "ALLOW_ALWAYS") == {"rule": f"world.test:{WHO}"}
        assert outcome == [(True, HOST[0])]
        assert reaches_by_name(cay, "first") == HOST[0]
        with meanwhile(dial, cay, "x.below.test") as outcome:
            assert answer(cay, one_question(cay), "REJECT_ALWAYS") == {"rule": f"x.below.test:{WHO}"}
        assert outcome == [REFUSED]
        refused(cay, "first", "tcp", "x.below.test", WHO)
        network = cay.get("first")["network"]
        assert network["allow"] == ["four.test", f"world.test:{WHO}"] and network["deny"] == [f"x.below.test:{WHO}"], network
        assert not questions(cay)


@case
def in_a_tool(cay, _world):
    """a tool that waits for an answer does not hold the answer up"""
    with session(cay, "first", network=asking()):
        with meanwhile(cay.bash, "first", f"net_client tcp world.test {WHO}") as outcome:
            answer(cay, one_question(cay), "ALLOW_ALWAYS")
        assert HOST[0] in str(outcome), outcome


@case
def nothing_leaves(cay, _world):
    """before it is answered nothing of it leaves this host, not even the question for its addresses"""
    with session(cay, "first", network=asking(deny=["denied.test"])):
        with packets_out() as seen:
            good, addresses = client(cay, "first", "names", "secret-data.evil.test")
            assert good and "198.18." in addresses
            assert refused(cay, "first", "names", "denied.test") == "no such name"
            with meanwhile(dial, cay, "secret-data.evil.test"):
                question = one_question(cay)
                left = seen()
                answer(cay, question, "REJECT_ONCE")
            left += seen()
        assert not left, left
        # By number nobody is asked.
        refused(cay, "first", "try", "52.95.113.10", 80)
        assert not questions(cay)


@case
def rules_decide(cay, _world):
    """rules that change answer questions, too; what was let through goes on"""
    with session(cay, "first", network=asking()):
        with meanwhile(dial, cay) as outcome:
            one_question(cay)
            update(cay, "first", asking("*.test"))
        assert outcome == [(True, HOST[0])]
        eventually(lambda: not questions(cay), "it is no question any more")
        update(cay, "first", asking())
        with meanwhile(dial, cay) as outcome:
            one_question(cay)
            update(cay, "first", filtered())
        assert outcome == [REFUSED]
        for network in (OPEN | {"ask": True}, {"mode": "NETWORK_MODE_NONE", "ask": True}):
            fails("unimplemented", update, cay, "first", network)


@case
def nobody_answers(cay, _world):
    """after its time it is refused, and told why"""
    with session(cay, "first", network=asking()):
        started = time.monotonic()
        assert dial(cay, "four.test") == REFUSED
        assert time.monotonic() - started > ASK_TIMEOUT_S / 2
        eventually(lambda: not questions(cay), "it is over")
        assert events(cay, "network.answered")[-1]["reason"] == "timeout"


@case
def daemon_killed(cay, _world):
    """the daemon dies: the next one is asked the same, and its answer counts"""
    with session(cay, "first", network=asking()):
        cay.sh("first", f"(net_client tcp world.test {WHO} > /tmp/out 2>&1) > /dev/null 2>&1 &")
        question = one_question(cay)
        cay.restart()
        assert one_question(cay)["id"] == question["id"]
        answer(cay, question, "ALLOW_ONCE")
        eventually(lambda: HOST[0] in cay.sh("first", "cat /tmp/out"), "it is let through")


@case
def helper_killed(cay, _world):
    """the helper dies: its questions with it, and whoever connects again asks anew"""
    with session(cay, "first", network=asking()):
        with meanwhile(dial, cay) as outcome:
            question = one_question(cay)
            (helper,) = helpers()
            os.kill(helper, signal.SIGKILL)
        assert HOST[0] not in outcome[0], outcome
        eventually(lambda: not questions(cay), "nobody asks any more")
        with meanwhile(dial, cay) as outcome:
            again = one_question(cay)
            assert again["id"] != question["id"]
            fails("failed_precondition", answer, cay, question, "ALLOW_ONCE")
            answer(cay, again, "ALLOW_ONCE")
        assert outcome == [(True, HOST[0])]


def cli(cay, *arguments):
    environment = os.environ | {"CAY_URL": f"unix:{cay.socket_path}"}
    return subprocess.run([CAY, *arguments], env=environment, capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S, stdin=subprocess.DEVNULL)


@case
def command_line(cay, _world):
    """cay create --network ask; cay net ask lists, answers and follows"""
    assert cli(cay, "create", "--base", "small", "--name", "first", "--network", "ask", "--allow", "four.test").returncode == 0
    assert cli(cay, "net", "show", "first").stdout.split()[:2] == ["network", "ask"]
    checked = cli(cay, "net", "check", "first", "world.test").stdout
    assert "asked" in checked and "somebody is asked" in checked, checked
    with meanwhile(dial, cay) as outcome:
        question = one_question(cay)
        listed = cli(cay, "net", "ask", "first", "--now").stdout
        assert question["id"] in listed and f"world.test:{WHO}" in listed, listed
        listed = json.loads(cli(cay, "--json", "net", "ask", "first", "--now").stdout)
        assert [q["id"] for q in listed["questions"]] == [question["id"]]
        assert cli(cay, "net", "ask", "first", "--answer", "maybe", question["id"]).returncode == 125
        assert cli(cay, "net", "ask", "first", question["id"]).returncode == 125
        done = cli(cay, "net", "ask", "first", "--answer", "always", question["id"])
        assert done.returncode == 0 and done.stdout == f"rule added: allow world.test:{WHO}\n", done
    assert outcome == [(True, HOST[0])]
    done = cli(cay, "net", "ask", "first", "--answer", "once", question["id"])
    assert done.returncode == 125 and "no such question" in done.stderr, done
    assert cli(cay, "net", "allow", "first", "--rm", f"world.test:{WHO}").returncode == 0
    assert cay.get("first")["network"]["ask"], "a change of rules leaves it"


@case
def at_a_terminal(cay, _world):
    """cay net ask shows questions as they come and takes answers; --json is for programs"""
    environment = os.environ | {"CAY_URL": f"unix:{cay.socket_path}"}
    with session(cay, "first", network=asking()):
        ours, theirs = pty.openpty()
        with subprocess.Popen([CAY, "net", "ask", "first"], env=environment, stdin=theirs, stdout=subprocess.PIPE) as person, \
                subprocess.Popen([CAY, "--json", "net", "ask", "first"], env=environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE) as program:
            try:
                for word in (b"perhaps\nonce\n", b"no\n"):
                    with meanwhile(dial, cay) as outcome:
                        shown = person.stdout.readline().decode()
                        told = json.loads(program.stdout.readline())
                        assert told["id"] in shown and f"world.test:{WHO}" in shown, (told, shown)
                        os.write(ours, word)
                    assert outcome[0][0] == (b"once" in word), outcome
            finally:
                person.kill()
                program.kill()
                os.close(ours)
                os.close(theirs)


if __name__ == "__main__":
    main("--network-ask-timeout", f"{ASK_TIMEOUT_S}s")
