#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Which methods of the contract are not implemented: exactly those of unimplemented.txt. A method
may leave the list, none may join it."""

import json
from pathlib import Path

from clients import (CONTRACT_SET, case, cayd, envelope, end_of_stream, methods, request, run)

LIST = Path(__file__).with_name("unimplemented.txt")
# What an implemented method refuses at once, where an empty request would do something.
REFUSED = {
    "CreateSession": {"base": "../nothing"},
    "CreatePool": {"sizeBytes": "1"},
    "CreateKey": {"owner": "../nobody"},
}
TIMEOUT_MS = 2000  # for a stream that would go on for ever


def error_of(daemon, path, method):
    """The error of a call, or None."""
    message = json.dumps(REFUSED.get(method.name, {})).encode()
    is_stream = method.client_streaming or method.server_streaming
    body = envelope(message) if is_stream else message
    answer = daemon.ask(request(
        f"POST {path}", body, content_length=len(body), authorization=f"Bearer {daemon.key}",
        connection="close", connect_timeout_ms=TIMEOUT_MS,
        **{"content-type": f"application/{'connect+' if is_stream else ''}json"}))
    if is_stream:
        return end_of_stream(answer)[0].get("error")
    return answer.json() if answer.status != 200 else None


def reason_of(error):
    return error["details"][0]["debug"]["reason"]


def listed():
    return {line for line in LIST.read_text().splitlines() if line and not line.startswith("#")}


@case
def exact():
    """the list of unimplemented methods is true"""
    found = set()
    with cayd() as daemon:
        for path, method in methods(CONTRACT_SET, "cay.v1"):
            error = error_of(daemon, path, method)
            if error and error["code"] == "unimplemented" and reason_of(error) == "unimplemented":
                found.add(path)
    joined, left = sorted(found - listed()), sorted(listed() - found)
    assert not joined, f"these were implemented, or are new without an implementation: {joined}"
    assert not left, f"these are implemented now, take them off {LIST.name}: {left}"


@case
def known():
    """every method of the list is in the contract, once and in order"""
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    assert lines == sorted(set(lines)), "sort the list"
    assert set(lines) <= {path for path, _ in methods(CONTRACT_SET, "cay.v1")}


@case
def errors():
    """every method has an error that carries its reason, or succeeds"""
    with cayd() as daemon:
        for path, method in methods(CONTRACT_SET, "cay.v1"):
            error = error_of(daemon, path, method)
            if error:
                assert error["message"] and reason_of(error), (path, error)
                assert error["code"] != "internal", (path, error)


@case
def guarded():
    """no method is served without a key"""
    with cayd() as daemon:
        daemon.key = "cay_wrong"
        for path, method in methods(CONTRACT_SET, "cay.v1"):
            error = error_of(daemon, path, method)
            assert error and error["code"] == "unauthenticated", (path, error)


if __name__ == "__main__":
    run()
