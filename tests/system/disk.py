#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Disk limits that the kernel keeps, on stores whose file system has quotas."""

from daemon import MIB, SANDBOX, Skip, case, fails
from small_base import run_with_cayd

LIMIT = 64 * MIB


def fill(cay, session_id, name, mebibytes):
    """Exit status and complaint of a command that writes so much."""
    result, _, err = cay.launch(session_id, "/bin/sh", "-c",
                                f"dd if=/dev/urandom of={name} bs=1048576 count={mebibytes} && sync {name}")
    # The kernel does not count for a fork what it shares with its origin; that is found by measuring.
    return result.get("exitCode", 0) or result.get("cause") == "END_CAUSE_QUOTA", err.decode()


def need_kernel(cay):
    limits = cay.call(SANDBOX + "GetCapabilities")["capabilities"]["limits"]
    disk = next(limit for limit in limits if limit["name"] == "disk")
    if disk["enforcement"] != "ENFORCEMENT_KERNEL":
        raise Skip(f"not the kernel: {disk['detail']}")


@case
def refused(cay):
    """what is too much is refused to the command, and the session goes on"""
    need_kernel(cay)
    cay.create("d", limits={"diskBytes": LIMIT})
    status, text = fill(cay, "d", "small", 8)
    assert status == 0, text
    cay.turn("d")
    status, text = fill(cay, "d", "big", 128)
    assert status != 0 and ("quota" in text.lower() or "space" in text.lower()), (status, text)
    cay.sh("d", "rm -f big && echo still here > note")
    cay.turn("d")
    cay.rollback("d", "turn-0001")
    status, text = fill(cay, "d", "big", 128)
    assert status != 0, "the limit was lost in the rollback"
    cay.sh("d", "rm -f big")
    fork = cay.fork("d")[0]["id"]
    status, text = fill(cay, fork, "big", 128)
    assert status != 0, "the fork has no limit"
    cay.destroy(fork)


@case
def changed(cay):
    """a limit can be raised"""
    need_kernel(cay)
    cay.create("d", limits={"diskBytes": LIMIT})
    status, text = fill(cay, "d", "big", 128)
    assert status != 0, text
    cay.sh("d", "rm -f big")
    cay.call(SANDBOX + "UpdateSession", {"sessionId": "d", "limits": {"diskBytes": 16 * LIMIT}})
    status, text = fill(cay, "d", "big", 128)
    assert status == 0, text
    fails("invalid_argument", cay.call, SANDBOX + "UpdateSession",
          {"sessionId": "d", "limits": {"diskBytes": 1}})


if __name__ == "__main__":
    run_with_cayd("--default-base", "small")
