# SPDX-License-Identifier: Apache-2.0
"""How the tests look at a session's present and past."""


def put(cay, session_id, path, text):
    result = cay.tool(session_id, "write_file", path=path, content=text)
    assert not result.get("isError"), result


def text_of(cay, session_id, path):
    return cay.read(session_id, path).decode()


def at(cay, session_id, snapshot, path):
    """What a snapshot has at a path, seen by a fork of it."""
    fork = cay.fork(session_id, snapshot=snapshot, lazyStart=True)[0]["id"]
    try:
        return text_of(cay, fork, path)
    finally:
        cay.destroy(fork)


def names(cay, session_id):
    return [snapshot["name"] for snapshot in cay.log(session_id)]
