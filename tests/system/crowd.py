#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One key opens as many connections and streams as it can: others still get in, and an administrator can end it."""

import contextlib

from cli_daemon import Cli
from daemon import KEY, SANDBOX, Client, Closed, RpcError, case, eventually
from small_base import run_on

CONNECTIONS = 64
EVENT_STREAMS = 256
WATCH = SANDBOX + "WatchEvents"


def owner(cay, name):
    return Client(cay, cay.call(KEY + "CreateKey", {"owner": name})["secret"])


def watch(client):
    """A stream that has begun, or the error it was refused with, or None when nobody took the connection."""
    try:
        stream = client.open(WATCH, {})
        stream.next()
    except RpcError as error:
        return error
    except (Closed, KeyError, OSError):  # a farewell has no length
        return None
    return stream


def others_get_in(cay, polite):
    assert polite.call(SANDBOX + "ListSessions") is not None
    said = cay.cay("status")
    assert said.status == 0, said


@case
def streams(cay):
    """streams of one key leave connections for other owners and for the administrator; it is told what to do"""
    evil, polite = owner(cay, "evil"), owner(cay, "polite")
    with contextlib.ExitStack() as held:
        outcomes = [watch(evil) for _ in range(2 * CONNECTIONS)]
        taken = [outcome for outcome in outcomes if hasattr(outcome, "close")]
        for stream in taken:
            held.callback(stream.close)
        others_get_in(cay, polite)
        assert CONNECTIONS / 2 < len(taken) < CONNECTIONS * 4 / 5, len(taken)
        errors = [outcome for outcome in outcomes if isinstance(outcome, RpcError)]
        assert len(errors) + len(taken) == len(outcomes), outcomes
        for error in errors:
            assert error.code == "resource_exhausted" and "owner 'evil' has" in str(error), error
            assert "close some" in str(error), error
        # Some of them end, and there is room again.
        for stream in taken[:8]:
            stream.close()

        def is_taken():
            stream = watch(evil)
            if hasattr(stream, "close"):
                held.callback(stream.close)
                return True
            return False
        eventually(is_taken, "there is room again")


@case
def idle(cay):
    """connections on which nobody calls leave some for others, also from the same address"""
    polite = owner(cay, "polite")
    with contextlib.ExitStack() as held:
        for _ in range(3 * CONNECTIONS):
            held.callback(polite.socket(30).close)
        others_get_in(cay, polite)


@case
def both(cay):
    """somebody with streams and idle connections at once leaves some for others, too"""
    evil, polite = owner(cay, "evil"), owner(cay, "polite")
    with contextlib.ExitStack() as held:
        for _ in range(2 * CONNECTIONS):
            held.callback(evil.socket(30).close)
            stream = watch(evil)
            if hasattr(stream, "close"):
                held.callback(stream.close)
        others_get_in(cay, polite)


@case
def watchers(_):
    """an owner has so many streams of events, and others have theirs"""
    with Cli() as cay, contextlib.ExitStack() as held:
        evil, polite = owner(cay, "evil"), owner(cay, "polite")
        for _ in range(EVENT_STREAMS):
            held.enter_context(evil.open(WATCH, {})).next()
        error = watch(evil)
        assert isinstance(error, RpcError) and error.code == "resource_exhausted", error
        assert "owner 'evil' has 256 streams of events" in str(error) and "end some" in str(error), error
        for client in (polite, cay):
            held.enter_context(client.open(WATCH, {})).next()


if __name__ == "__main__":
    run_on(lambda: Cli("--max-connections", str(CONNECTIONS)), lambda daemon: None)
