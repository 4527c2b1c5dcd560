#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""File tools and FileService: what a process sees is what they see, and nothing leads outside."""

import gzip
import os
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from building import archive
from daemon import (FILE, IS_FULL, MIB, SANDBOX, RpcError, Stream, b64, case, eventually, fails, good,
                    together)
from small_base import run_with_cayd

SID = "files"
CLIENT_FAULTS = ("invalid_argument", "not_found", "failed_precondition", "permission_denied",
                 "already_exists", "out_of_range")


def tool(cay, tool_name, call=None, **params):
    """A tool that must do its task; its text."""
    result = cay.tool(SID, tool_name, call, **params)
    assert not result.get("isError"), result
    return result["content"][0]["text"]


def tool_fails(cay, tool_name, call=None, **params):
    """A tool that fails at its task, or a call that is refused; the reason."""
    try:
        result = cay.tool(SID, tool_name, call, **params)
    except RpcError as error:
        assert error.code in CLIENT_FAULTS, error
        return error.reason
    assert result.get("isError") and result["errorReason"], result
    return result["errorReason"]


def refused(function, *arguments, **more):
    """The call fails by the caller's fault; the error."""
    try:
        answer = function(*arguments, **more)
    except RpcError as error:
        assert error.code in CLIENT_FAULTS, error
        return error
    raise AssertionError(f"it went well: {str(answer)[:300]}")


def stat(cay, path, **fields):
    return cay.file("StatFile", SID, path=path, **fields)["info"]


def sh(cay, script, user="user"):
    return cay.sh(SID, script, user)


def verbs(cay, path):
    """Every verb and tool on one path."""
    return [
        lambda: cay.file("StatFile", SID, path=path), lambda: cay.file("ListDir", SID, path=path),
        lambda: cay.file("MakeDir", SID, path=path),
        lambda: cay.file("MakeSymlink", SID, path=path, target="anything"),
        lambda: cay.file("MoveFile", SID, source=path, destination="moved-away"),
        lambda: cay.file("MoveFile", SID, source="anything", destination=path),
        lambda: cay.file("RemoveFile", SID, path=path), lambda: cay.read(SID, path),
        lambda: cay.write(SID, path, b"x"),
    ]


def tools(cay, path):
    return [
        lambda: tool_fails(cay, "read_file", path=path),
        lambda: tool_fails(cay, "write_file", path=path, content="x", create_dirs=False),
        lambda: tool_fails(cay, "edit_file", path=path, old_string="a", new_string="b"),
        lambda: tool_fails(cay, "list_dir", path=path),
        lambda: tool_fails(cay, "grep", pattern="x", path=path),
        lambda: tool_fails(cay, "glob", pattern="*", path=path),
    ]


@case
def bad_paths(cay):
    """paths that cannot be are refused by every verb and tool, and change nothing"""
    sh(cay, "echo keep > anything")
    for bad in ("", "a\0b", "/workspace/\0", "x" * 256, "/" + "y/" * 2100 + "z", "x" * 5000):
        for function in verbs(cay, bad):
            refused(function)
        for function in tools(cay, bad):
            function()
    for bad in ("no/such/dir", "anything/below", "/no/such"):
        for function in tools(cay, bad):
            function()
    assert sh(cay, "ls; cat anything") == "anything\nkeep\n"


@case
def symlinks(cay):
    """symbolic links are made as they are asked for, with the user's rights, over files by option only"""
    link = lambda path, target, **more: cay.file("MakeSymlink", SID, path=path, target=target, **more)["info"]
    cay.write(SID, "anything", b"keep\n")
    made = link("links/a", "../anything", createParents=True)
    assert (made["type"], made["symlinkTarget"], made.get("uid")) == ("FILE_TYPE_SYMLINK", "../anything", 1000)
    assert cay.read(SID, "links/a") == b"keep\n"
    fails("already_exists", link, "links/a", "other")
    assert link("links/a", "/etc/../nowhere\uefff", replace=True)["symlinkTarget"] == "/etc/../nowhere\uefff"
    assert sh(cay, "[ \"$(readlink links/a)\" = \"$(printf '/etc/../nowhere\\377')\" ] && echo same") == "same\n"
    cay.write(SID, "links/file", b"x")
    link("links/file", "a", replace=True)
    assert sh(cay, "readlink links/file; ls -A links") == "a\na\nfile\n"
    for path in ("links", "links/", "/", "/proc", "/dev/shm"):
        refused(lambda path=path: link(path, "x", replace=True))
    for target in ("", "a\0b", "x" * 5000):
        refused(lambda target=target: link("links/b", target))
    fails("permission_denied", link, "/etc/link", "x")
    fails("not_found", link, "no/such/dir/link", "x")
    # It leads nowhere but inside.
    link("links/out", "/../../../../etc/passwd", replace=True)
    assert cay.read(SID, "links/out") == cay.read(SID, "/etc/passwd")
    assert sh(cay, "ls -A links") == "a\nfile\nout\n"
    cay.file("RemoveFile", SID, path="links", recursive=True)


@case
def odd_names(cay):
    """names with control characters, emoji, 255 bytes, spaces or bytes that are no UTF-8 are names"""
    for name in ("🙂", "a b", "tab\there", "line\nbreak", "\x01\x7f", "é" * 127, "x" * 255, "-rf", "~", "*",
                 "'\"$(id)", "back\\slash", "...", "\uef80\uefff", "n\uefff\uef80"):
        cay.write(SID, f"/workspace/odd/{name}", b"odd", createParents=True)
        assert cay.read(SID, f"/workspace/odd/{name}") == b"odd"
        listed = cay.file("ListDir", SID, path="/workspace/odd")["entries"]
        assert [entry["name"] for entry in listed] == [name], (name, listed)
        assert "odd" in tool(cay, "grep", pattern="odd", path="odd")
        assert sh(cay, "cd odd; for f in * ...; do test -e \"$f\" && cat -- \"$f\"; done; true") == "odd"
        cay.file("RemoveFile", SID, path=f"/workspace/odd/{name}")
    sh(cay, "cd odd; : > $(printf 'n\\377\\200')")
    assert cay.file("ListDir", SID, path="odd")["entries"][0]["name"] == "n\uefff\uef80"
    cay.file("RemoveFile", SID, path="odd", recursive=True)


@case
def dots(cay):
    """.. ends at the session's root, and links lead nowhere else"""
    sh(cay, "ln -s ../../../../../../etc up; ln -s /etc/passwd abs; ln -s loop loop; ln -s nowhere dangling;"
            "ln -s /proc/self/root/etc magic; ln -s /proc/1/root rootlink")
    own = sh(cay, "cat /etc/passwd").encode()
    for path in ("/etc/passwd", "../../../../../../../etc/passwd", "up/passwd", "abs", "/../etc/passwd",
                 "/workspace/../etc/./passwd", "//etc///passwd"):
        assert cay.read(SID, path) == own, path
    host = Path("/etc/passwd").read_bytes()
    assert own != host
    for path in ("loop", "dangling", "magic/passwd", "rootlink/etc/passwd", "/proc/self/root/etc/passwd"):
        refused(cay.read, SID, path)
        assert tool_fails(cay, "read_file", path=path)
    info = stat(cay, "abs")
    assert info["type"] == "FILE_TYPE_SYMLINK" and info["symlinkTarget"] == "/etc/passwd", info
    assert info["resolvedPath"] == "/etc/passwd" and info["targetType"] == "FILE_TYPE_FILE", info
    assert stat(cay, "abs", follow=True)["type"] == "FILE_TYPE_FILE"
    assert not stat(cay, "dangling").get("resolvedPath")
    cay.write(SID, "dangling", b"made")
    assert sh(cay, "cat nowhere; readlink dangling") == "made" + "nowhere\n"
    cay.file("RemoveFile", SID, path="up")
    assert sh(cay, "test -e /etc/passwd && echo there") == "there\n", "a link was followed on removal"


@case
def special_files(cay):
    """fifos, sockets and devices are told as such and hold nobody up"""
    sh(cay, "mkdir special; cd special; mkfifo fifo; ln -s fifo tofifo; echo text > text")
    sh(cay, "cd special; ln -s /dev/zero zero; ln -s /dev/tty tty", "root")
    assert stat(cay, "special/fifo")["type"] == "FILE_TYPE_FIFO"
    started = time.monotonic()
    for path in ("special/fifo", "special/tofifo", "special/zero", "special/tty", "/dev/zero", "special"):
        refused(cay.read, SID, path)
        assert tool_fails(cay, "read_file", path=path)
        assert tool_fails(cay, "edit_file", path=path, old_string="a", new_string="b")
        assert tool_fails(cay, "write_file", path=path, content="x")
        refused(cay.write, SID, path, b"x", writeMode="WRITE_MODE_APPEND")
    assert "text" in tool(cay, "grep", pattern="text", path="special")
    assert "fifo" in tool(cay, "list_dir", path="special")
    assert time.monotonic() - started < 20, "something waited for a fifo"
    assert sh(cay, "cd special; stat -c %F fifo text") == "fifo\nregular file\n"
    cay.file("MoveFile", SID, source="special/fifo", destination="special/moved")
    cay.file("RemoveFile", SID, path="special", recursive=True)


@case
def owners(cay):
    """new files belong to the user of the call, as a process sees it; modes and owners are kept"""
    tool(cay, "write_file", path="new/deep/file", content="x")
    assert sh(cay, "stat -c '%U:%G %a' new new/deep new/deep/file") == (
        "user:user 755\nuser:user 755\nuser:user 644\n")
    tool(cay, "write_file", {"user": "root"}, path="/root/file", content="x")
    assert sh(cay, "stat -c '%U:%G %a' /root/file", "root") == "root:root 644\n"
    sh(cay, "printf 'echo a\\n' > script; chmod 750 script")
    tool(cay, "edit_file", path="script", old_string="a", new_string="b")
    assert sh(cay, "stat -c '%U %a' script; ./script") == "user 750\nb\n", "an edit lost the mode"
    tool(cay, "write_file", path="script", content="echo c\n")
    assert sh(cay, "stat -c '%U %a' script; ./script") == "user 750\nc\n", "a write lost the mode"
    cay.write(SID, "script", b"echo d\n")
    assert sh(cay, "stat -c '%U %a' script; ./script") == "user 750\nd\n"
    cay.write(SID, "exec", b"#!/bin/sh\necho e\n", mode=0o755)
    assert sh(cay, "./exec") == "e\n"
    sh(cay, "echo r > rooted; chmod 666 rooted", "root")
    tool(cay, "edit_file", path="rooted", old_string="r", new_string="s")
    assert sh(cay, "stat -c '%u %a' rooted; cat rooted").endswith("666\ns\n")
    info = cay.file("MakeDir", SID, path="dir", mode=0o2750)["info"]
    assert (info["mode"], info["uid"], info["owner"]) == (0o2750, 1000, "user"), info
    assert sh(cay, "stat -c '%U %a' dir") == "user 2750\n"
    for name, mode in (("suid", 0o4755), ("sticky", 0o1777)):
        cay.file("MakeDir", SID, path=name, mode=mode)
        assert sh(cay, f"stat -c %a {name}") == f"{mode:o}\n"


@case
def rights(cay):
    """the rights of the sandbox's users count"""
    for function in (lambda: cay.read(SID, "/etc/secret"), lambda: cay.write(SID, "/etc/new", b"x"),
                     lambda: cay.file("MakeDir", SID, path="/etc/dir"),
                     lambda: cay.file("RemoveFile", SID, path="/etc/passwd"),
                     lambda: cay.file("MoveFile", SID, source="/etc/passwd", destination="mine"),
                     lambda: cay.file("ListDir", SID, path="/root")):
        assert refused(function).code == "permission_denied"
    assert tool_fails(cay, "read_file", path="/etc/secret") == "access_denied"
    assert tool_fails(cay, "write_file", path="/etc/secret", content="x") == "access_denied"
    assert tool_fails(cay, "edit_file", path="/etc/passwd", old_string="root:x:0:0", new_string="x") == "access_denied"
    assert cay.read(SID, "/etc/secret", user="root") == b"only root\n"
    assert "only root" in tool(cay, "read_file", {"user": "root"}, path="/etc/secret")
    assert "only root" not in tool_text(cay, "grep", pattern="only", path="/etc")


def tool_text(cay, tool_name, **params):
    return cay.tool(SID, tool_name, **params)["content"][0]["text"]


@case
def same_tree(cay):
    """file verbs see what a process sees at once, and the other way round, before and after a turn"""
    for _ in range(3):
        for number in range(5):
            sh(cay, f"echo {number} > seen")
            assert cay.read(SID, "seen") == f"{number}\n".encode()
            tool(cay, "write_file", path="seen", content=f"t{number}")
            assert sh(cay, "cat seen") == f"t{number}"
        cay.turn(SID)
    cay.restart()
    sh(cay, "echo after > seen")
    assert cay.read(SID, "seen") == b"after\n"
    cay.write(SID, "seen", b"written")
    assert sh(cay, "cat seen") == "written"


@case
def contents(cay):
    """empty, binary, huge and endless lines are carried whole or told to be cut"""
    for data in (b"", b"\0", b"no newline", b"\r\n\r\n", bytes(range(256)) * 5000, b"\xff\xfe", b"\n" * 100000):
        assert cay.write(SID, "data", data)["info"].get("size", "0") == str(len(data))
        assert cay.read(SID, "data") == data
    text = "".join(f"line {n}\n" for n in range(5000))
    cay.write(SID, "long", text.encode())
    result = cay.tool(SID, "read_file", path="long")
    truncation = result["truncation"]
    assert int(truncation["totalItems"]) == 5000 and int(truncation["shownItems"]) == 2000, truncation
    seen, offset = 0, 0
    while True:
        result = cay.tool(SID, "read_file", path="long", offset=offset)
        seen += int(result.get("truncation", {}).get("shownItems", 5000 - offset))
        if "nextOffset" not in result.get("truncation", {}):
            break
        offset = int(result["truncation"]["nextOffset"])
    assert seen == 5000, seen
    cay.write(SID, "wide", b"w" * 3000000)
    result = cay.tool(SID, "read_file", path="wide")
    assert int(result["truncation"]["cutLines"]) == 1 and len(result["content"][0]["text"]) < 10000, result
    cay.write(SID, "binary", b"\0\1\2" * 1000)
    result = cay.tool(SID, "read_file", path="binary")
    assert len(result["content"][0]["text"]) < 10000
    sh(cay, "truncate -s 100000000000 sparse")
    assert cay.read(SID, "sparse", offset="99999999990") == b"\0" * 10
    assert tool_fails(cay, "read_file", path="sparse")
    assert tool_fails(cay, "edit_file", path="sparse", old_string="a", new_string="b")
    tool_text(cay, "grep", pattern="x", path="sparse")
    sh(cay, "rm sparse wide")


@case
def ranges(cay):
    """a file is read in parts"""
    data = bytes(range(256)) * 100
    cay.write(SID, "data", data)
    assert cay.read(SID, "data", offset="1000", length="50") == data[1000:1050]
    assert cay.read(SID, "data", offset="25000", length="5000") == data[25000:]
    assert cay.read(SID, "data", offset="-10") == data[-10:]
    assert cay.read(SID, "data", length="0") == b""
    assert cay.read(SID, "data", offset=str(len(data))) == b""
    fails("out_of_range", cay.read, SID, "data", offset=str(len(data) + 1))
    fails("out_of_range", cay.read, SID, "data", offset=str(-len(data) - 1))
    refused(cay.read, SID, "data", length="-1")


@case
def write_modes(cay):
    """each way of writing does what it says"""
    cay.write(SID, "w", b"0123456789")
    cay.write(SID, "w", b"ab", writeMode="WRITE_MODE_APPEND")
    cay.write(SID, "w", b"XY", writeMode="WRITE_MODE_AT_OFFSET", offset="3")
    assert cay.read(SID, "w") == b"012XY56789ab"
    cay.write(SID, "w", b"z", writeMode="WRITE_MODE_AT_OFFSET", offset="20")
    assert cay.read(SID, "w") == b"012XY56789ab" + b"\0" * 8 + b"z"
    inode = stat(cay, "w")["inode"]
    cay.write(SID, "w", b"t", writeMode="WRITE_MODE_TRUNCATE")
    assert cay.read(SID, "w") == b"t" and stat(cay, "w")["inode"] == inode
    fails("already_exists", cay.write, SID, "w", b"x", writeMode="WRITE_MODE_CREATE")
    answer = cay.write(SID, "w2", b"x", writeMode="WRITE_MODE_CREATE")
    assert answer["created"] and answer["bytesWritten"] == "1", answer
    fails("not_found", cay.write, SID, "no/parent", b"x")
    fails("data_loss", cay.write, SID, "w", b"four", size="5")
    fails("data_loss", cay.write, SID, "w", b"four", size="3")
    assert cay.read(SID, "w") == b"t", "a write that failed changed the file"
    refused(cay.write, SID, "w", b"x", writeMode="WRITE_MODE_AT_OFFSET", offset="-1")
    refused(cay.write, SID, "w", b"x", mode=0o10000)
    refused(cay.send_all, FILE + "WriteFile", [{"data": b64(b"x")}])
    refused(cay.send_all, FILE + "WriteFile", [])
    cay.write(SID, "w", b"x", modifiedAt="2001-02-03T04:05:06Z", durable=True)
    assert stat(cay, "w")["modifiedAt"].startswith("2001-02-03T04:05:06")


@case
def broken_write(cay):
    """a stream that breaks off changes nothing and leaves nothing"""
    cay.write(SID, "w", b"whole")
    before = sh(cay, "ls -a")
    for number in range(10):
        with Stream(cay, FILE + "WriteFile") as stream:
            stream.send({"open": {"sessionId": SID, "path": "w"}})
            for _ in range(number):
                stream.send({"data": b64(b"x" * 100000)})
    with Stream(cay, FILE + "WriteFile") as stream:
        stream.send({"open": {"sessionId": SID, "path": "w"}})
        stream.send({"open": {"sessionId": SID, "path": "w"}})
        stream.end()
        refused(lambda: list(stream))
    cay.turn(SID)
    assert cay.read(SID, "w") == b"whole" and sh(cay, "ls -a") == before
    eventually(lambda: not cay.get(SID).get("toolsInFlight"), "nothing is in flight")


@case
def large(cay):
    """64 MiB are written and read in streams, in bounded memory"""
    data = os.urandom(MIB) * 64
    cay.write(SID, "warm", data[:8 * MIB])
    cay.read(SID, "warm")
    before = cay.rss_bytes()
    cay.write(SID, "large", data)
    assert int(stat(cay, "large")["size"]) == len(data)
    assert cay.read(SID, "large") == data
    slow = cay.open(FILE + "ReadFile", {"sessionId": SID, "path": "large"})
    slow.next()
    time.sleep(0.3)
    growth = cay.rss_bytes() - before
    assert growth < cay.rss_room(24), growth
    slow.close()
    sh(cay, "rm large warm")


@case
def directories(cay):
    """directories are made, listed in pages, moved and removed"""
    fails("not_found", cay.file, "MakeDir", SID, path="p/q/r")
    assert cay.file("MakeDir", SID, path="p/q/r", createParents=True)["created"]
    fails("already_exists", cay.file, "MakeDir", SID, path="p/q/r")
    assert not cay.file("MakeDir", SID, path="p/q/r", existOk=True).get("created")
    sh(cay, "cd p; i=0; while [ $i -lt 250 ]; do : > f$i; i=$((i+1)); done; echo x > q/r/deep")
    seen, token = [], ""
    while True:
        answer = cay.file("ListDir", SID, path="p", depth=3, pageSize=100, pageToken=token)
        seen += [entry["path"] for entry in answer["entries"]]
        token = answer.get("nextPageToken", "")
        if not token:
            break
    expected = [f"/workspace/p/f{n}" for n in range(250)] + [
        "/workspace/p/q", "/workspace/p/q/r", "/workspace/p/q/r/deep"]
    assert sorted(seen) == sorted(expected) and len(set(seen)) == len(seen), len(seen)
    for fields in ({"pageSize": -1}, {"pageSize": 10001}, {"depth": 65}, {"pageToken": "\0garbage"}):
        refused(cay.file, "ListDir", SID, path="p", **fields)
    refused(cay.file, "RemoveFile", SID, path="p")
    refused(cay.file, "MoveFile", SID, source="p", destination="p/q/inside")
    fails("already_exists", cay.file, "MoveFile", SID, source="p/f1", destination="p/f2", noReplace=True)
    cay.file("MoveFile", SID, source="p/f1", destination="p/f2")
    cay.file("MoveFile", SID, source="p", destination="s/t", createParents=True)
    assert sh(cay, "ls s/t | wc -l") == "250\n"
    assert int(cay.file("RemoveFile", SID, path="s", recursive=True)["removed"]) == 254
    fails("not_found", cay.file, "RemoveFile", SID, path="s")
    cay.file("RemoveFile", SID, path="s", missingOk=True)
    for path in ("/", "/..", "."):
        refused(cay.file, "RemoveFile", SID, path=path, recursive=True) if path != "." else None
    assert sh(cay, "echo alive") == "alive\n"


@case
def deep(cay):
    """a tree of a thousand levels is walked, searched and removed"""
    sh(cay, "mkdir deep; cd deep; i=0; while [ $i -lt 1000 ]; do mkdir d; cd d; i=$((i+1)); done; echo x > f")
    tool_text(cay, "glob", pattern="**/f", path="deep")
    tool_text(cay, "grep", pattern="x", path="deep")
    cay.file("ListDir", SID, path="deep", depth=64)
    cay.turn(SID)
    try:
        cay.diff(SID, toSnapshot=cay.get(SID)["head"])
    except RpcError as error:
        assert error.code == "resource_exhausted", error
    assert int(cay.file("RemoveFile", SID, path="deep", recursive=True)["removed"]) == 1002
    cay.turn(SID)


@case
def searching(cay):
    """grep and glob find, count and say what they left out"""
    sh(cay, "mkdir -p s/a s/.hidden; cd s; i=0; while [ $i -lt 150 ]; do echo needle $i > a/f$i; i=$((i+1)); done;"
            "echo needle > .hidden/x; printf 'needle\\0' > bin; echo NEEDLE > up; echo 'a.b' > lit")
    result = cay.tool(SID, "grep", pattern="needle", path="s")
    assert int(result["truncation"]["shownItems"]) == 100, result["truncation"]
    assert "hidden" not in result["content"][0]["text"] and "s/bin" not in result["content"][0]["text"]
    text = tool(cay, "grep", pattern="needle 7$", path="s")
    assert "s/a/f7:1" in text or "a/f7:1" in text, text
    assert "up" in tool(cay, "grep", pattern="needle", path="s/up", ignore_case=True)
    assert "lit" in tool(cay, "grep", pattern="a.b", path="s", literal=True)
    assert tool_fails(cay, "grep", pattern="(", path="s")
    result = cay.tool(SID, "glob", pattern="**/f*", path="s", max_results=10)
    assert int(result["truncation"]["shownItems"]) == 10, result
    assert "f149" in tool(cay, "glob", pattern="s/a/f14[89]")
    started = time.monotonic()
    cay.write(SID, "s/evil", b"a" * 100000 + b"!")
    tool_text(cay, "grep", pattern="(a+)+$", path="s/evil")
    assert time.monotonic() - started < 40, "a pattern ran away"
    sh(cay, "rm -r s")


@case
def bad_parameters(cay):
    """parameters are checked against the tool's schema; near misses of names are told"""
    error = fails("not_found", cay.tool, SID, "reed_file", path="x")
    assert "read_file" in error.message, error
    for name, params in (("read_file", {}), ("read_file", {"path": 7}), ("read_file", {"path": "x", "limit": 0}),
                         ("read_file", {"path": "x", "offset": -1}), ("read_file", {"path": "x", "extra": 1}),
                         ("write_file", {"path": "x"}), ("edit_file", {"path": "x", "old_string": ""}),
                         ("grep", {"pattern": ""}), ("glob", {"pattern": "x", "max_results": 1e9})):
        fails("invalid_argument", cay.tool, SID, name, **params)
    cay.write(SID, "anything", b"")
    for alias, params in (("read", {"path": "anything"}), ("ls", {}), ("write", {"path": "al", "content": ""})):
        assert cay.tool(SID, alias, **params)["toolName"] != alias
    names = {entry["name"] for entry in cay.call(SANDBOX + "ListTools")["tools"]}
    assert {"bash", "edit_file", "glob", "grep", "list_dir", "read_file", "write_file"} <= names


@case
def edits(cay):
    """edit_file changes exactly what it is told to"""
    cay.write(SID, "e", b"one\ntwo\ntwo\n\xff\xfebinary\r\nend")
    assert tool_fails(cay, "edit_file", path="e", old_string="three", new_string="x") == "no_match"
    assert tool_fails(cay, "edit_file", path="e", old_string="two", new_string="x") == "ambiguous_match"
    tool(cay, "edit_file", path="e", old_string="two", new_string="2", replace_all=True)
    tool(cay, "edit_file", path="e", old_string="end", new_string="end\n")
    assert cay.read(SID, "e") == b"one\n2\n2\n\xff\xfebinary\r\nend\n"


@case
def mounts(cay):
    """what is mounted in the sandbox is there for files, too: /dev/shm to write, /proc to read"""
    sh(cay, "echo of a process > /dev/shm/seen; mkdir -m 700 /dev/shm/own; echo own > /dev/shm/own/f;"
            "ln -s /dev/shm shm; ln -s /proc/meminfo memory")
    assert cay.read(SID, "/dev/shm/seen") == b"of a process\n"
    assert cay.read(SID, "shm/seen") == b"of a process\n"
    assert cay.read(SID, "/dev/shm/own/f", user="root") == b"own\n", "root may"
    cay.write(SID, "/dev/shm/given", b"by a client")
    assert sh(cay, "cat /dev/shm/given; stat -c %U:%a /dev/shm/given") == "by a clientuser:644\n"
    cay.write(SID, "shm/sub/given", b"below", createParents=True)
    assert sh(cay, "cat /dev/shm/sub/given") == "below"
    names = [entry["name"] for entry in cay.file("ListDir", SID, path="/dev/shm")["entries"]]
    assert names == ["given", "own", "seen", "sub"], names
    cay.file("MoveFile", SID, source="/dev/shm/given", destination="/dev/shm/moved")
    cay.file("RemoveFile", SID, path="/dev/shm/sub", recursive=True)
    assert sh(cay, "ls /dev/shm") == "moved\nown\nseen\n"
    assert stat(cay, "/dev/shm/own")["owner"] == "user"

    assert b"MemTotal" in cay.read(SID, "/proc/meminfo") and b"MemTotal" in cay.read(SID, "memory")
    frames = cay.stream(FILE + "ReadFile", {"sessionId": SID, "path": "/proc/version"})
    assert int(frames[0]["info"]["size"]) == len(cay.read(SID, "/proc/version")) > 20, frames[0]
    assert b"Name:" in cay.read(SID, "/proc/1/status")
    assert "1" in [entry["name"] for entry in cay.file("ListDir", SID, path="/proc")["entries"]]
    assert "MemTotal" in tool(cay, "read_file", path="/proc/meminfo")
    # What only root may read, and what answers by the namespaces and the user of who reads: those of the daemon.
    for path in ("/proc/sys/vm/mmap_rnd_bits", "/proc/sys/kernel/hostname", "/proc/sys/kernel/osrelease",
                 "/proc/sys/net/ipv4/ip_forward", "/proc/sysvipc/shm", "/proc/key-users", "/proc/keys", "/proc/kallsyms",
                 "/proc/timer_list", "/proc/kmsg"):
        if sh(cay, f"test -e {path} && stat -f -c %T {path} || echo none", user="root") != "proc\n":
            continue  # not there in the sandbox, or something else is mounted over it
        for user in ("user", "root"):
            error = refused(cay.read, SID, path, user=user)
            assert error.reason == "access_denied", error
        assert tool_fails(cay, "read_file", path=path) == "access_denied", path
    for path in ("/proc/sys", "/proc/sys/net/ipv4/conf", "/proc/sysvipc"):
        refused(cay.file, "ListDir", SID, path=path, user="root")
    with open("/proc/sys/kernel/hostname", encoding="ascii") as hostname:
        name = hostname.read().strip()
    found = cay.tool(SID, "grep", pattern=".", path="/proc", max_results=1000)
    assert name not in str(found), found
    for path in ("/proc/1/environ", "/proc/1/mem", "/proc/1/maps", "/proc/1/fd/0", "/proc/slabinfo",
                 "/proc/1/root/etc/passwd"):
        for user in ("user", "root"):
            refused(cay.read, SID, path, user=user)
    for user in ("user", "root"):
        refused(cay.write, SID, "/proc/sys/kernel/hostname", b"x", user=user)
        refused(cay.write, SID, "/proc/1/oom_score_adj", b"1", user=user, writeMode="WRITE_MODE_TRUNCATE")
        refused(cay.write, SID, "/proc/new", b"x", user=user)
        refused(cay.file, "RemoveFile", SID, path="/proc/meminfo", user=user)
        refused(cay.file, "MakeDir", SID, path="/proc/new", user=user)
        refused(cay.write, SID, "/dev/null", b"x", user=user, writeMode="WRITE_MODE_TRUNCATE")
        refused(cay.read, SID, "/dev/zero", user=user)
    sh(cay, "mkdir -p empty; ln -sf / top")
    for path in ("/proc", "/dev", "/dev/shm", "/dev/pts", "top/proc", "/proc/"):
        for recursive in (True, False):
            refused(cay.file, "RemoveFile", SID, path=path, user="root", recursive=recursive)
        refused(cay.file, "MoveFile", SID, source=path, destination="/workspace/moved", user="root")
        refused(cay.file, "MoveFile", SID, source="empty", destination=path, user="root")
    assert sh(cay, "ls -d /proc/1 /dev/null /dev/shm /dev/pts/ptmx empty | wc -l") == "5\n"
    sh(cay, "rm -rf /dev/shm/* shm memory empty top")


@case
def mounts_follow(cay):
    """a turn puts a new root under the sandbox, and its mounts stay in sight; so after a restart"""
    sh(cay, "echo still > /dev/shm/still")
    cay.turn(SID)
    cay.write(SID, "/workspace/after-turn", b"x")
    cay.turn(SID)
    assert cay.read(SID, "/dev/shm/still") == b"still\n"
    assert b"MemTotal" in cay.read(SID, "/proc/meminfo")
    sh(cay, "rm /dev/shm/still")
    cay.create("fresh-mounts", lazyStart=True)
    assert b"MemTotal" in cay.read("fresh-mounts", "/proc/meminfo")
    cay.destroy("fresh-mounts")


def race(cay, outside, seconds):
    """Verbs on paths that change under them; returns what they read."""
    folder = f"{outside}/box"
    sh(cay, f"rm -rf race; mkdir race; cd race; mkdir a; echo inside > a/secret; ln -s {folder} b;"
            f"mkdir c; echo inside > c/secret; ln -s ../../../../../../../../..{folder} d;"
            f"echo inside > e; ln -s {folder}/secret f; mkdir -p g/a; ln -s {folder} g/b")
    cay.background(SID, "cd race; exec swapper a b c d e f g/a g/b")
    read = []

    def keep(function, *arguments, **more):
        try:
            read.append(str(function(*arguments, **more)))
        except RpcError as error:
            assert error.code not in ("internal", "unknown", "data_loss"), error

    def loop(*functions):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for function in functions:
                for path in ("race/a/secret", "race/c/secret", "race/e", "race/g/a/secret"):
                    keep(function, path)
    def stats(path):
        return cay.file("StatFile", SID, path=path, follow=True)
    def lists(path):
        return cay.file("ListDir", SID, path=os.path.dirname(path), depth=4)
    def makes(path):
        return cay.file("MakeDir", SID, path=f"{path}-dir/x", createParents=True)
    def moves(path):
        keep(cay.file, "MoveFile", SID, source=path, destination=f"{path}.moved")
        return cay.file("MoveFile", SID, source=f"{path}.moved", destination=path)
    def removes(path):
        keep(cay.write, SID, f"{path}.gone", b"x")
        return cay.file("RemoveFile", SID, path=f"{path}.gone", recursive=True)
    def reads(path):
        return cay.read(SID, path)
    def writes(path):
        return cay.write(SID, path, b"inside")
    def appends(path):
        return cay.write(SID, path, b"inside", writeMode="WRITE_MODE_APPEND")
    def tool_reads(path):
        return cay.tool(SID, "read_file", path=path)
    def tool_writes(path):
        return cay.tool(SID, "write_file", path=path, content="inside")
    def tool_edits(path):
        return cay.tool(SID, "edit_file", path=path, old_string="inside", new_string="inside", replace_all=True)
    def tool_searches(path):
        keep(cay.tool, SID, "grep", pattern=".", path="race")
        keep(cay.tool, SID, "glob", pattern="**", path="race")
        return cay.tool(SID, "list_dir", path=os.path.dirname(path), depth=4)
    good(together(lambda: loop(stats, lists), lambda: loop(makes), lambda: loop(moves, removes),
                  lambda: loop(reads, tool_reads), lambda: loop(writes, appends),
                  lambda: loop(tool_writes, tool_edits), lambda: loop(tool_searches)))
    cay.launch(SID, "/bin/killall", "-9", "swapper", user="root")
    return read


@case
def swapping(cay):
    """a process that swaps links under every verb gets no byte from outside, and puts none there"""
    with tempfile.TemporaryDirectory(prefix="caysys-out-") as folder:
        os.chmod(folder, 0o777)
        box = Path(folder) / "box"
        box.mkdir()
        box.chmod(0o777)
        (box / "secret").write_text("0UTSIDE")
        (box / "secret").chmod(0o666)
        before = os.stat(box / "secret")
        read = race(cay, folder, 10 if IS_FULL else 3)
        assert len(read) > 100, len(read)
        assert not any("0UTSIDE" in text or "MFVUU0lERQ" in text for text in read)
        assert os.listdir(box) == ["secret"] and (box / "secret").read_text() == "0UTSIDE"
        after = os.stat(box / "secret")
        assert (after.st_ino, after.st_mtime_ns, after.st_mode) == (before.st_ino, before.st_mtime_ns,
                                                                     before.st_mode)
    assert sh(cay, "echo fine") == "fine\n"


def unpack(cay, path, data, **fields):
    """WriteFile of an archive, in pieces."""
    request = {"sessionId": "arc", "path": path, "archive": "TREE_FORMAT_TAR"} | fields
    pieces = [{"data": b64(data[at:at + 200_000])} for at in range(0, len(data), 200_000)]
    return cay.send_all(FILE + "WriteFile", [{"open": request}, *pieces])


@case
def archives(cay):
    """an archive is unpacked into a directory, for the user, without what only root may give"""
    cay.create("arc")
    data = archive(("./d", None, {"mode": 0o750, "mtime": 1_000_000_000}), ("d/file", b"one", {"mode": 0o4755, "uid": 4242}),
                   ("d/old", b"two", {"mode": 0o640, "mtime": 1_000_000_000}),
                   ("link", b"", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
                   ("hard", b"", {"type": tarfile.LNKTYPE, "linkname": "d/file"}),
                   ("fifo", None, {"type": tarfile.FIFOTYPE, "mode": 0o600}),
                   ("null", None, {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}), ("big", b"x" * 1_000_000))
    answer = unpack(cay, "new/place", data, createParents=True, size=str(len(data)))
    assert answer["created"] and answer["entriesWritten"] == "7" and answer["bytesWritten"] == str(len(data)), answer
    assert answer["info"]["path"] == "/workspace/new/place", answer
    seen = cay.sh("arc", "cd new/place && stat -c '%n %a %u %h %F' d d/file d/old link hard fifo big && stat -c %Y d d/old")
    assert seen == ("d 750 1000 2 directory\nd/file 755 1000 2 regular file\nd/old 640 1000 1 regular file\n"
                    "link 777 1000 1 symbolic link\nhard 755 1000 2 regular file\nfifo 600 1000 1 fifo\n"
                    "big 640 1000 1 regular file\n1000000000\n1000000000\n"), seen
    cay.sh("arc", "cd new/place; chmod 700 d; echo other > d/old; echo mine > d/mine; ! test -e null")
    answer = unpack(cay, "new/place", gzip.compress(archive(("d", None), ("d/old", b"three"), ("link", b"file"))))
    assert not answer.get("created") and answer["entriesWritten"] == "3", answer
    assert cay.sh("arc", "cd new/place; cat d/old d/mine link; stat -c %a d") == "threemine\nfile700\n"
    assert "root:x:0" in cay.read("arc", "/etc/passwd").decode()
    unpack(cay, "/root/up", archive(("f", b"x")), user="root", createParents=True)
    unpack(cay, "/root/up", archive(("g", b"x")), asRoot=True)
    assert cay.sh("arc", "stat -c '%u %n' /root/up/f /root/up/g", user="root") == "0 /root/up/f\n1000 /root/up/g\n"


@case
def hostile_archives(cay):
    """what would lead out of the directory is refused, and so is what is no archive or too much"""
    cay.create("arc")
    cay.sh("arc", "mkdir -p h; ln -s /etc h/way; ln -s . h/here")
    soft, hard = {"type": tarfile.SYMTYPE}, {"type": tarfile.LNKTYPE}
    for members in ([("../out", b"x")], [("a/../../out", b"x")], [("/abs", b"x")], [("way/out", b"x")], [("here/in", b"x")],
                    [("l", b"", soft | {"linkname": "/etc"}), ("l/out", b"x")],
                    [("l2", b"", soft | {"linkname": ".."}), ("l2/out", b"x")],
                    [("h1", b"", hard | {"linkname": "../../etc/passwd"})], [("h2", b"", hard | {"linkname": "/etc/passwd"})],
                    [("h3", b"", hard | {"linkname": "way/passwd"})], [("way", None)]):
        fails("invalid_argument", unpack, cay, "h", archive(*members))
    assert cay.sh("arc", "ls /etc/out /workspace/out /out /abs h/in h/h1 h/h2 h/h3 2>/dev/null | wc -l").strip() == "0"
    huge = bytearray(archive(("huge", b"")))
    huge[124:136] = b"\x80" + bytes(3) + (200 << 30).to_bytes(8, "big")
    huge[148:156] = b"        "
    huge[148:156] = f"{sum(huge[:512]):06o}\0 ".encode()
    fails("resource_exhausted", unpack, cay, "h", bytes(huge))
    for bad in (b"no archive at all" * 100, gzip.compress(gzip.compress(archive(("a", b"x")))), archive(("a", b"x" * 5000))[:3000]):
        fails("invalid_argument", unpack, cay, "h", bad)
    fails("data_loss", unpack, cay, "h", archive(("a", b"x")), size="5")
    fails("permission_denied", unpack, cay, "/etc", archive(("passwd", b"x")))
    fails("permission_denied", unpack, cay, "/root", archive(("x", b"x")))
    fails("already_exists", unpack, cay, "/etc/passwd", archive(("x", b"x")))
    fails("not_found", unpack, cay, "/nowhere/at/all", archive(("x", b"x")))
    for path in ("/proc", "/dev", "/proc/self"):
        try:
            unpack(cay, path, archive(("x", b"x")), user="root")
        except RpcError as error:
            assert error.code not in ("internal", "unknown"), error
        else:
            raise AssertionError(f"it was unpacked into {path}")
    fails("invalid_argument", unpack, cay, "h", archive(("proc", b"x")), writeMode="WRITE_MODE_APPEND")
    with Stream(cay, FILE + "WriteFile") as stream:
        stream.send({"open": {"sessionId": "arc", "path": "gone", "archive": "TREE_FORMAT_TAR"}})
        stream.send({"data": b64(archive(("a", b"x")))})
    fails("not_found", cay.file, "StatFile", "arc", path="gone")
    assert cay.sh("arc", "echo well") == "well\n"


if __name__ == "__main__":
    run_with_cayd(session=SID, swapper=sys.argv[3])
