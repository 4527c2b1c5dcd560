#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The files of the past are read without a rollback: of any snapshot, whatever the session does."""

import io
import sys
import tarfile

from daemon import FILE, SANDBOX, RpcError, case, fails
from small_base import run_with_cayd


def listed(cay, session_id, path, **fields):
    answer = cay.file("ListDir", session_id, path=path, **fields)
    return {entry["path"]: entry for entry in answer.get("entries", [])}


def story(cay, name):
    """Two turns that differ, and live files that differ from both."""
    cay.create(name)
    cay.sh(name, "echo one > a; mkdir d; echo deep > d/b; ln -s a link; printf x > gone; chmod 600 d/b")
    cay.turn(name)
    cay.sh(name, "echo two > a; rm gone; mv d e; ln -sf /etc/passwd link")
    cay.turn(name)
    cay.sh(name, "echo three > a; rm -r e link; mkdir d; echo other > d/c")


@case
def reads(cay):
    """ReadFile, StatFile and ListDir see a snapshot as it was, and the live files as they are"""
    story(cay, "past")
    for snapshot, text in (("turn-0001", b"one\n"), ("turn-0002", b"two\n"), ("", b"three\n")):
        assert cay.read("past", "a", snapshot=snapshot) == text
        info = cay.file("StatFile", "past", path="a", snapshot=snapshot)["info"]
        assert int(info["size"]) == len(text) and info["path"] == "/workspace/a", info
        assert (info["uid"], info["owner"]) == (1000, "user"), info
    first = listed(cay, "past", "/workspace", snapshot="turn-0001", depth=8)
    assert sorted(first) == [f"/workspace/{n}" for n in ("a", "d", "d/b", "gone", "link")], first
    assert first["/workspace/d/b"]["mode"] == 0o600
    second = listed(cay, "past", "/workspace", snapshot="turn-0002", depth=8)
    assert sorted(second) == [f"/workspace/{n}" for n in ("a", "e", "e/b", "link")], second
    assert cay.read("past", "/workspace/link", snapshot="turn-0001") == b"one\n"
    assert cay.read("past", "link", snapshot="turn-0002").startswith(b"root:x:0:0:"), "inside the snapshot"
    assert cay.read("past", "a", snapshot="turn-0001", offset=-3, length="2") == b"ne"
    fails("not_found", cay.read, "past", "gone", snapshot="turn-0002")
    fails("not_found", cay.read, "past", "a", snapshot="turn-0009")
    fails("not_found", cay.file, "StatFile", "past", path="e", snapshot="turn-0001")
    fails("not_found", cay.file, "ListDir", "past", path="e", snapshot="turn-0001")
    cay.destroy("past")


@case
def rights(cay):
    """the user's rights count in the past too, as the snapshot's own passwd file tells users"""
    cay.create("past")
    cay.sh("past", "echo guest:x:1234:1234::/srv/guest:/bin/sh >> /etc/passwd; mkdir -p -m 755 /srv; mkdir -m 700 /srv/guest;"
           "echo mine > /srv/guest/f; chown -R 1234:1234 /srv/guest", user="root")
    cay.turn("past")
    cay.sh("past", "sed -i /guest/d /etc/passwd; rm -r /srv/guest", user="root")
    cay.turn("past")
    fails("permission_denied", cay.read, "past", "/etc/secret", snapshot="turn-0001")
    assert cay.read("past", "/etc/secret", snapshot="turn-0001", user="root") == b"only root\n"
    fails("permission_denied", cay.read, "past", "/srv/guest/f", snapshot="turn-0001")
    assert cay.read("past", "~/f", snapshot="turn-0001", user="guest") == b"mine\n"
    fails("not_found", cay.read, "past", "/x", snapshot="turn-0002", user="guest")
    for path in ("/../../../etc/shadow", "/proc/1/root/etc/shadow", "/proc/self/environ"):
        try:
            found = cay.read("past", path, snapshot="turn-0001", user="root")
            raise AssertionError(f"{path}: {found[:80]!r}")
        except RpcError as error:
            assert error.code == "not_found", error
    cay.destroy("past")


@case
def any_state(cay):
    """to look back needs no sandbox: a paused session and one that was never started can be looked back into"""
    story(cay, "past")
    cay.call(SANDBOX + "PauseSession", {"sessionId": "past", "mode": "PAUSE_MODE_STOP"})
    assert cay.read("past", "a", snapshot="turn-0001") == b"one\n"
    assert "/workspace/e" in listed(cay, "past", "/workspace", snapshot="turn-0002")
    assert not cay.get("past").get("sandboxRunning") and cay.get("past")["state"] == "SESSION_STATE_PAUSED"
    cay.create("lazy", lazyStart=True)
    cay.write("lazy", "/workspace/f", b"early")
    cay.turn("lazy")
    cay.write("lazy", "/workspace/f", b"late")
    assert cay.read("lazy", "f", snapshot="turn-0001") == b"early"
    assert not cay.get("lazy").get("sandboxRunning")
    cay.destroy("past")
    cay.destroy("lazy")


@case
def a_reader_keeps_its_file(cay):
    """a file of a snapshot that is deleted while it is read comes to its end"""
    cay.create("past")
    data = bytes(range(256)) * 4096 * 24
    cay.write("past", "/workspace/big", data)
    cay.turn("past")
    cay.sh("past", "rm big")
    cay.turn("past")
    request = {"sessionId": "past", "path": "big", "snapshot": "turn-0001"}
    with cay.open(FILE + "ReadFile", request) as stream:
        stream.next()
        cay.call(SANDBOX + "DeleteSnapshot", {"sessionId": "past", "snapshots": ["turn-0001"]})
        from daemon import unb64
        got = b"".join(unb64(frame.get("data")) for frame in stream)
    assert got == data, (len(got), len(data))
    fails("not_found", cay.read, "past", "big", snapshot="turn-0001")
    cay.destroy("past")


@case
def context(cay):
    """a patch has as many unchanged lines around a change as were asked for"""
    cay.create("past")
    cay.sh("past", "seq 1 40 > n")
    cay.turn("past")
    cay.sh("past", "sed -i 's/^20$/twenty/; s/^26$/more/' n")
    for lines, hunks, shown in ((0, 2, 0), (1, 2, 4), (2, 2, 8), (3, 1, 11), (None, 1, 11), (100, 1, 38)):
        fields = {} if lines is None else {"contextLines": lines}
        patch = cay.diff("past", patch=True, **fields)[0]["/workspace/n"]["patch"]
        assert patch.count("\n@@ ") == hunks, (lines, patch)
        assert sum(line.startswith(" ") for line in patch.splitlines()) == shown, (lines, patch)
        cay.write("past", "/workspace/p", patch.encode())
    fails("invalid_argument", cay.diff, "past", patch=True, contextLines=101)
    fails("invalid_argument", cay.diff, "past", patch=True, contextLines=-1)
    cay.destroy("past")


if __name__ == "__main__":
    run_with_cayd()
