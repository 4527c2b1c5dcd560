#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The contract as a whole: every method is implemented, asks for a key, and says why it refuses."""

import json

from clients import (CONTRACT_SET, case, cayd, envelope, end_of_stream, methods, request, run)

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


@case
def errors():
    """every method is implemented, and has an error that carries its reason, or succeeds"""
    with cayd() as daemon:
        for path, method in methods(CONTRACT_SET, "cay.v1"):
            error = error_of(daemon, path, method)
            if error:
                assert error["message"] and reason_of(error), (path, error)
                assert error["code"] != "internal" and reason_of(error) != "unimplemented", (path, error)


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
