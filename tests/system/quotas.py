#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What one owner may have, and one session: refused with the quota's name, its value and what to do."""

import contextlib

from daemon import KEY, PROCESS, SANDBOX, Client, case, fails
from small_base import run_with_cayd

MIB = 1 << 20
FLAGS = ("--default-memory", "128MiB", "--default-pids", "64", "--quota-sessions", "4", "--quota-memory", "1GiB",
         "--quota-pids", "1000", "--quota-snapshots", "6", "--session-max-snapshots", "4", "--quota-ports", "2",
         "--session-max-memory", "768MiB", "--session-max-pids", "500")


@contextlib.contextmanager
def sessions_of(cay, name, *ids):
    client = Client(cay, cay.call(KEY + "CreateKey", {"owner": name})["secret"])
    try:
        for session_id in ids:
            client.create(session_id, lazyStart=True)
        yield client
    finally:
        for session in client.call(SANDBOX + "ListSessions").get("sessions", []):
            client.destroy(session["id"])


def refused(what, *arguments, code="resource_exhausted", **fields):
    error = fails(code, *arguments, **fields)
    assert all(word in str(error) for word in what), error


@case
def sessions(cay):
    """an owner has so many sessions, by whatever verb; another owner and the administrator are not bound by them"""
    with sessions_of(cay, "a", "a1", "a2", "a3") as one, sessions_of(cay, "b", "b1"):
        refused(["quota_sessions", "'a'", "4"], one.fork, "a1", count=2)
        one.create("a4", lazyStart=True)
        refused(["quota_sessions", "'a'", "4"], one.create, "a5", lazyStart=True)
        for number in range(6):
            cay.create(f"admin-{number}", lazyStart=True)
            cay.destroy(f"admin-{number}")
        one.destroy("a4")
        one.create("a5", lazyStart=True)


@case
def limits(cay):
    """limits of an owner's sessions add up to its quota, and a single one has a ceiling"""
    with sessions_of(cay, "a", "a1") as one:
        for client in (one, cay):
            refused(["session_max_memory", "768 MiB"], client.create, "big", limits={"memoryBytes": str(900 << 30)},
                    code="invalid_argument")
            refused(["session_max_pids", "500"], client.create, "big", limits={"pids": "4000000"},
                    code="invalid_argument")
        refused(["session_max_memory"], one.call, SANDBOX + "UpdateSession",
                {"sessionId": "a1", "limits": {"memoryBytes": str(900 << 30)}}, code="invalid_argument")
        one.create("a2", lazyStart=True, limits={"memoryBytes": str(700 * MIB)})
        refused(["quota_memory", "1024 MiB"], one.create, "a3", limits={"memoryBytes": str(300 * MIB)})
        refused(["quota_memory"], one.call, SANDBOX + "UpdateSession",
                {"sessionId": "a1", "limits": {"memoryBytes": str(400 * MIB)}})
        one.call(SANDBOX + "UpdateSession", {"sessionId": "a2", "limits": {"memoryBytes": str(100 * MIB)}})
        one.call(SANDBOX + "UpdateSession", {"sessionId": "a1", "limits": {"memoryBytes": str(400 * MIB)}})


@case
def snapshots(cay):
    """a session has so many snapshots and an owner so many; a session that prunes by itself goes on"""
    with sessions_of(cay, "a", "a1", "a2") as one:
        for _ in range(4):
            one.turn("a1")
        refused(["session_max_snapshots"], one.turn, "a1")
        refused(["session_max_snapshots"], one.snapshot, "a1", "named")
        for _ in range(2):
            one.turn("a2")
        refused(["quota_snapshots", "6"], one.turn, "a2")
        one.call(SANDBOX + "UpdateSession", {"sessionId": "a2", "maxSnapshots": 2})
        one.turn("a2")


@case
def ports(cay):
    """an owner exposes so many ports, and chooses those of the host from a range"""
    def expose(client, session_id, port, **fields):
        return client.call(PROCESS + "ExposePort", {"sessionId": session_id, "port": {"port": port} | fields})

    with sessions_of(cay, "a", "a1", "a2") as one:
        refused(["port_first", "10000"], expose, one, "a1", 8000, code="permission_denied", hostPort=5432)
        expose(one, "a1", 8000)
        expose(one, "a2", 8000)
        refused(["quota_ports", "2"], expose, one, "a2", 8001)


if __name__ == "__main__":
    run_with_cayd(*FLAGS)
