#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a base starts in its sessions, and how they wait for it."""

from daemon import BASE, PROCESS, SANDBOX, RpcError, case, eventually, fails
from small_base import run_with_cayd


def settings(cay, **values):
    options = {"name": "small", "existingBase": "small", "settings": values}
    cay.send_all(BASE + "ImportBase", [{"options": options}])


def sh(script):
    return ["/bin/sh", "-c", script]


def started(cay, session_id):
    """The processes with the tag."""
    answer = cay.call(PROCESS + "ListProcesses", {"sessionId": session_id, "tag": "start",
                                                  "includeExited": True})
    return answer.get("processes", [])


def runs(cay, session_id):
    return [process["state"] for process in started(cay, session_id)].count("PROCESS_STATE_RUNNING")


def starts_slowly(cay):
    """A session whose base starts something that takes a moment."""
    settings(cay, env={"WHERE": "/tmp/up"}, user="root",
             startCommand=sh("sleep 0.3; echo $WHERE; touch $WHERE; exec sleep 1000"),
             readyCommand=sh("test -e $WHERE"))
    return cay.create("s")


@case
def waits(cay):
    """a session is there when what its base starts is ready"""
    session = starts_slowly(cay)
    assert session["startCommand"][:2] == ["/bin/sh", "-c"], session
    assert cay.sh("s", "ls /tmp/up") == "/tmp/up\n"
    assert runs(cay, "s") == 1, started(cay, "s")


@case
def comes_back(cay):
    """what a base starts is started with every sandbox of the session, once"""
    starts_slowly(cay)
    cay.sh("s", "rm /tmp/up", user="root")
    cay.restart()
    assert runs(cay, "s") == 1, "the sandbox outlives the daemon, and so does it"
    cay.call(SANDBOX + "PauseSession", {"sessionId": "s", "mode": "PAUSE_MODE_STOP"})
    cay.call(SANDBOX + "ResumeSession", {"sessionId": "s"})
    assert runs(cay, "s") == 1, "it runs again after a stop"
    assert cay.sh("s", "ls /tmp/up") == "/tmp/up\n", "who resumes waits until it is ready"
    cay.fork("s", newSessionId="f", count=3)
    for fork in ("f-1", "f-2", "f-3"):
        assert runs(cay, fork) == 1 and cay.sh(fork, "ls /tmp/up") == "/tmp/up\n", f"{fork} is not ready"
        cay.destroy(fork)
    lazy = cay.create("lazy", lazyStart=True)
    assert lazy["startCommand"] and not lazy.get("sandboxRunning"), lazy
    cay.sh("lazy", "true")
    eventually(lambda: runs(cay, "lazy") == 1, "it runs when the sandbox is there")
    for name in ("s", "lazy"):
        cay.destroy(name)


@case
def published(cay):
    """what is published of such a session is started in the same way"""
    starts_slowly(cay)
    cay.snapshot("s", "point", publishBase="point")
    cay.destroy("s")
    cay.create("s", base="point")
    assert runs(cay, "s") == 1
    cay.destroy("s")
    cay.call(BASE + "RemoveBase", {"name": "point"})


def not_ready(cay, *words):
    try:
        cay.create("bad")
    except RpcError as error:
        text = str(error)
        assert text.startswith("failed_precondition (not_ready)"), text
        assert all(word in text for word in words), text
    else:
        raise AssertionError("it was made")
    eventually(lambda: "bad" not in cay.ids(), "it is gone again")


@case
def failures(cay):
    """what fails says so, with what it printed last, and leaves no session"""
    settings(cay, startCommand=sh("echo first; echo the disk is upside down >&2; exit 3"),
             readyCommand=["/bin/false"])
    not_ready(cay, "status 3", "the disk is upside down")
    settings(cay, startCommand=["/no/such/program"], readyCommand=["/bin/true"])
    not_ready(cay, "cannot be started")
    settings(cay, startCommand=["/no/such/program"])
    not_ready(cay, "cannot be started")
    assert not cay.leftovers(), cay.leftovers()
    settings(cay, startCommand=["/bin/sleep", "1000"])
    cay.create("good")
    assert runs(cay, "good") == 1
    cay.destroy("good")
    settings(cay, user="root", startCommand=sh("if test -e /broken; then exit 4; fi; exec sleep 1000"),
             readyCommand=sh("test ! -e /broken"))
    cay.create("good")
    cay.sh("good", "touch /broken", user="root")
    fails("failed_precondition", cay.fork, "good", newSessionId="bad", count=2, reason="not_ready")
    eventually(lambda: cay.ids() == ["good"], "all forks are gone again")
    cay.call(SANDBOX + "PauseSession", {"sessionId": "good", "mode": "PAUSE_MODE_STOP"})
    cay.call(SANDBOX + "ResumeSession", {"sessionId": "good"})
    assert cay.sh("good", "rm -v /broken", user="root"), "it is resumed even so"
    cay.destroy("good")
    fails("invalid_argument", settings, cay, readyCommand=["/bin/true"])


if __name__ == "__main__":
    run_with_cayd("--default-base", "small")
