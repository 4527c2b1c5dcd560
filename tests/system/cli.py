#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The command line against a real daemon with real sandboxes: cli.py CAYD CAY."""

import base64
import datetime
import hashlib
import http.server
import json
import os
import re
import signal
import stat
import struct
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from cli_daemon import CAY, PATIENCE_S, Cli
from daemon import SANDBOX, Skip, case, eventually, good, together
from small_base import run_on


def status_of(process):
    process.wait(PATIENCE_S)
    process.stdout.close()
    process.stderr.close()
    return process.returncode


def is_running(cayd, session, words):
    """Does the sandbox have a process with these words in its command line?"""
    script = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null"
    listing = cayd.ok("exec", session, "--", "sh", "-c", script)
    return any(line.strip() == words for line in listing.splitlines())


@case
def run_once(cayd):
    """run prints what the command prints, ends with its status and leaves no session"""
    assert cayd.ok("run", "--", "sh", "-c", "echo $((6*7))") == "42\n"
    result = cayd.cay("run", "--env", "A=b", "--user", "root", "--cwd", "/tmp", "--", "sh", "-c",
                      "echo $A; id -u; pwd; echo no >&2; exit 7")
    assert (result.status, result.text) == (7, "b\n0\n/tmp\n"), result
    assert result.note == "no\n", result
    assert cayd.sessions() == []
    kept = cayd.cay("run", "--keep", "--", "true")
    assert kept.status == 0 and re.fullmatch(r"cay: kept as session run-\w{16}\n", kept.note), kept
    assert cayd.sessions() == [kept.note.split()[-1]]
    cayd.ok("rm", kept.note.split()[-1])
    cayd.fails(125, "no base", "run", "--base", "nosuch", "--", "true")
    cayd.fails(125, "before '--'", "run", "demo", "--", "true")
    assert cayd.sessions() == []


@case
def run_interrupted(cayd):
    """run destroys its session when it is interrupted, and when nobody reads any more"""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process = cayd.begin("run", "--", "sh", "-c", "echo on; sleep 1000")
        assert process.stdout.readline() == b"on\n"
        assert len(cayd.sessions()) == 1
        started = time.monotonic()
        process.send_signal(number)
        assert status_of(process) == 128 + number
        assert time.monotonic() - started < 10
        assert cayd.sessions() == []
    process = cayd.begin("run", "--", "yes")
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""
    process.stderr.close()
    assert cayd.sessions() == []


@case
def sessions(cayd):
    """create, ls, show and rm agree with each other"""
    assert cayd.ok("create", "--name", "one", "--label", "job=1", "--label", "kind=a", "--env",
                   "WHO=me", "--memory", "64M", "--pids", "50", "--cpus", "0.5") == "one\n"
    generated = cayd.ok("create", "--lazy", "-l", "job=2").strip()
    assert cayd.sessions() == [generated, "one"]
    assert cayd.ok("ls", "-q", "--label", "job=1").split() == ["one"]
    assert cayd.ok("ls", "-q", "-l", "job=1", "-l", "kind=b").split() == []
    assert cayd.ok("ls", "-q", "--state", "active", "--state", "failed").split() == [generated, "one"]
    assert cayd.ok("ls", "-q", "--state", "paused").split() == []
    cayd.fails(125, "did you mean 'active'", "ls", "--state", "activ")
    table = cayd.ok("ls").splitlines()
    assert table[0].split()[:3] == ["ID", "STATE", "BASE"] and "job=1 kind=a" in table[2], table
    shown = cayd.cay("show", "one", "--json").json()["session"]
    assert shown["limits"] == {"cpus": 0.5, "memoryBytes": str(64 << 20), "pids": "50"}, shown
    assert "0.5 cpus, 64MiB memory, 50 processes" in cayd.ok("show", "one")
    cayd.ok("create", "--name", "walled", "--runtime", "namespaces", "--lazy")
    assert cayd.cay("show", "walled", "--json").json()["session"]["runtime"] == "namespaces"
    assert re.search(r"^ *runtime +namespaces$", cayd.ok("show", "walled"), re.M), cayd.ok("show", "walled")
    cayd.fails(125, "offers namespaces", "create", "--runtime", "none")
    cayd.ok("rm", "walled")
    cayd.ok("create", "--name", "rules", "--idle-after", "10m", "--on-idle", "stop", "--expire-in", "2h",
            "--auto-resume", "--max-snapshots", "7", "--lazy")
    told = cayd.ok("show", "rules")
    for fact in ("paused without its processes after 10m", "is then", "by the next call", "of at most 7"):
        assert fact in told, (fact, told)
    assert "by 'cay resume' only" in cayd.ok("show", "one") and "never" in cayd.ok("show", "one")
    cayd.ok("rm", "rules")
    # Whose they are is told when it is not clear.
    assert cayd.ok("ls", "--wide").splitlines()[0].split()[:2] == ["OWNER", "ID"]
    key = json.loads(cayd.ok("key", "create", "--owner", "ann", "--json"))["secret"]
    assert cayd.cay("create", "--lazy", "--name", "anns", env={"CAY_URL": cayd.tcp, "CAY_API_KEY": key}).status == 0
    assert cayd.ok("ls").splitlines()[0].split()[:2] == ["OWNER", "ID"]
    cayd.ok("rm", "anns")
    assert cayd.ok("exec", "one", "--", "sh", "-c", "echo $WHO") == "me\n"
    # The same again finds it; another one of that name is refused.
    cayd.fails(125, "taken", "create", "--name", "one")
    cayd.fails(125, "NAME=VALUE", "create", "--label", "x")
    cayd.fails(125, "512M", "create", "--memory", "lots")
    cayd.fails(125, "session_id", "create", "--name", "a/b")
    # One that is not there does not keep the others.
    cayd.fails(125, "no session 'nosuch'", "rm", "nosuch", generated, "one")
    assert cayd.sessions() == []
    cayd.ok("rm", "--missing-ok", "nosuch")
    assert cayd.cay("rm", "--missing-ok", "nosuch", "--json").json() == {"removed": []}
    error = cayd.cay("show", "one", "--json")
    assert error.status == 125 and error.json()["error"]["reason"] == "session_not_found", error


@case
def top(cayd):
    """top shows what sessions use: once without a terminal, on one again and again until q is pressed"""
    cayd.ok("create", "--name", "busy")
    cayd.ok("exec", "busy", "--", "true")
    text = cayd.ok("top")
    assert "CPU%" in text and "busy" in text and "1 sessions, 1 running" in text, text
    used, = [entry for entry in cayd.cay("top", "--json").json()["sessions"] if entry["sessionId"] == "busy"]
    assert int(used["usage"]["memoryBytes"]) > 0 and used["usage"]["cpuTime"], used
    cayd.fails(125, "100ms", "top", "--interval", "1ms")
    shown = cayd.on_terminal("top", "--interval", "100ms", keys=b"q", after=b"CPU%")
    assert shown.count("busy") > 1 and "\x1b[H" in shown, shown
    cayd.ok("rm", "busy")


@case
def exec_status(cayd):
    """exec ends as the command does, and says on standard error what is not its own doing"""
    cayd.ok("create", "--name", "demo", "--memory", "64M")

    def ends(status, note, *arguments, out=""):
        result = cayd.cay("exec", "demo", *arguments)
        assert (result.status, result.text) == (status, out), result
        assert note in result.note and bool(note) == bool(result.note), result

    ends(0, "", "--", "true")
    ends(3, "", "--", "sh", "-c", "exit 3")
    ends(124, "timed out", "--timeout", "300ms", "--", "sh", "-c", "echo a; sleep 1000", out="a\n")
    ends(124, "silent", "--quiet-timeout", "300ms", "--", "sh", "-c", "echo a; sleep 1000", out="a\n")
    ends(139, "signal 11 (SEGV)", "--", "sh", "-c", "kill -SEGV $$")
    ends(137, "signal 9 (KILL)", "--", "sh", "-c", "kill -KILL $$")
    ends(137, "memory limit", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=500M", "count=1")
    ends(137, "its memory limit", "--memory", "16M", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=40M", "count=1")
    hungry = cayd.ok("exec", "demo", "--background", "--memory", "16M", "--", "dd", "if=/dev/zero", "of=/dev/null",
                     "bs=40M", "count=1").strip()
    cayd.fails(137, "its memory limit", "attach", "demo", hungry)
    ends(127, "'nosuch': the program cannot be run: No such file", "--", "nosuch")
    ends(125, "--wait-port goes with --port", "--wait-port", "1s", "--", "true")
    ends(125, "goes with --port", "--background", "--wait-port", "1s", "--", "true")
    ends(125, "cannot be entered", "--cwd", "/nosuch", "--", "true")
    cayd.fails(125, "no session 'nosuch'", "exec", "nosuch", "--", "true")
    cayd.fails(125, "not in the sandbox", "exec", "demo", "--user", "stranger", "--", "true")
    cayd.fails(125, "not a duration", "exec", "demo", "--timeout", "soon", "--", "true")
    cayd.fails(125, "one SESSION", "exec", "demo", "sh", "--", "true")
    assert cayd.ok("exec", "demo", "echo", "words") == "words\n"


@case
def exec_streams(cayd):
    """standard output and standard error stay apart, byte for byte, and come as they are made"""
    cayd.create("demo")
    noise = bytes(range(256)) * 2000
    cayd.ok("cp", "-", "demo:noise", stdin=noise)
    cayd.ok("cp", "-", "demo:esion", stdin=noise[::-1])
    result = cayd.cay("exec", "demo", "--", "sh", "-c", "cat noise; cat esion >&2; rm noise esion")
    assert result.status == 0 and result.out == noise and result.err == noise[::-1]
    process = cayd.begin("exec", "demo", "--", "sh", "-c",
                         "echo first; until [ -e go ]; do sleep 0.05; done; echo second >&2")
    assert process.stdout.readline() == b"first\n"
    cayd.ok("cp", "-", "demo:go", stdin=b"x")
    assert process.stderr.readline() == b"second\n"
    assert status_of(process) == 0
    cayd.ok("exec", "demo", "--", "rm", "go")


@case
def exec_slow_reader(cayd):
    """a reader that takes its time gets all the same everything: the command waits for it"""
    cayd.create("demo")
    size = 64 << 20
    process = cayd.begin("exec", "demo", "--", "sh", "-c", f"yes | head -c {size}")
    assert process.stdout.read(2) == b"y\n"

    def written():
        return [entry.get("outputEnd") for entry in cayd.cay("ps", "demo", "--json").json().get("processes", [])
                if entry["argv"][-1].startswith("yes")]
    eventually(lambda: written() == written(), "it stands still, or has ended")
    found = process.stdout.read()
    assert found == b"y\n" * (size // 2 - 1), len(found)
    assert process.stderr.read() == b""
    assert status_of(process) == 0


@case
def tags(cayd):
    """a process is found by its tag; what the ring dropped of it is told; `ps` shows what was given to run"""
    cayd.create("demo")
    process_id = cayd.ok("exec", "demo", "--background", "--tag", "srv", "--", "sh", "-c",
                         "head -c 5000000 /dev/zero; echo up; exec sleep 1000").strip()
    eventually(lambda: cayd.cay("logs", "demo", "srv").out.endswith(b"up\n"), "it has printed")
    result = cayd.cay("logs", "demo", "srv")
    kept = len(result.out)
    assert result.status == 0 and f"{5000003 - kept} bytes of its output were dropped here" in result.note, result.note
    assert cayd.cay("logs", "demo", "srv", "--tail", "1").out == result.out
    cayd.fails(125, "there is no process 'other'", "logs", "demo", "other")
    shell = cayd.begin("shell", "demo")
    tool = cayd.begin("tool", "demo", "bash", "cmd=sleep 1001; true")

    def commands():
        return [line.split("  ")[-1].strip() for line in cayd.ok("ps", "demo").splitlines()[1:]]
    eventually(lambda: "sleep 1001; true" in commands(), "the tool runs, and has for a while")
    assert commands()[0].startswith("sh -c head"), commands()
    eventually(lambda: "login shell" in cayd.ok("ps", "-a", "demo"), "the shell is there, or was")
    cayd.ok("kill", "demo", "--tree", "--wait", "srv", *cayd.ok("ps", "-q", "demo").split())
    assert cayd.ok("ps", "-q", "demo") == ""
    for process in (shell, tool):
        process.communicate()
    assert process_id in cayd.ok("ps", "-aq", "demo")


@case
def closed_descriptors(cayd):
    """a standard descriptor that is closed is an empty input, or an output that fails; never a connection of ours"""
    cayd.create("demo")
    def shell(script):
        done = subprocess.run(["/bin/sh", "-c", script, CAY], env=cayd.client_environment(), capture_output=True,
                              timeout=PATIENCE_S, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    status, text, _ = shell('"$0" exec -i demo -- wc -c <&-')
    assert (status, text.strip()) == (0, "0"), (status, text)
    for command in ("exec demo -- echo hi", "ls", "ls --json", "cp demo:/etc/passwd -"):
        status, text, note = shell(f'"$0" {command} >&-')
        assert (status, text) == (125, "") and "cay: " in note, (command, status, text, note)
    assert shell('"$0" exec demo -- sh -c "echo hi; exit 3" 2>&-') == (3, "hi\n", "")


@case
def exec_input(cayd):
    """-i gives the command our standard input, however much it is"""
    cayd.create("demo")
    assert cayd.ok("exec", "-i", "demo", "--", "cat", stdin=b"hello") == "hello"
    assert cayd.ok("exec", "demo", "--", "cat", stdin=b"not for it") == ""
    assert cayd.ok("exec", "-i", "demo", "--", "wc", "-c", stdin=b"x" * 65536).strip() == "65536"
    assert cayd.ok("exec", "-i", "demo", "--", "wc", "-c", stdin=b"x" * 3000000).strip() == "3000000"


@case
def exec_interrupted(cayd):
    """the command dies with cay, with all it started"""
    cayd.create("demo")
    for number in (signal.SIGINT, signal.SIGKILL):
        process = cayd.begin("exec", "demo", "--", "sh", "-c", "sleep 98765 & echo on; wait")
        assert process.stdout.readline() == b"on\n"
        eventually(lambda: is_running(cayd, "demo", "sleep 98765"), "what it started runs")
        process.send_signal(number)
        assert status_of(process) == (128 + number if number == signal.SIGINT else -number)
        eventually(lambda: not is_running(cayd, "demo", "sleep 98765"), "the command is dead")


@case
def exec_leftovers(cayd):
    """what a command leaves behind is told, or killed"""
    cayd.create("demo")
    result = cayd.cay("exec", "demo", "--", "sh", "-c", "sleep 43210 & echo done")
    assert (result.status, result.text) == (0, "done\n"), result
    assert "1 process that the command started still runs" in result.note, result
    eventually(lambda: is_running(cayd, "demo", "sleep 43210"), "it runs")
    cayd.ok("exec", "demo", "--kill-leftovers", "--", "sh", "-c", "sleep 54321 & echo done")
    eventually(lambda: not is_running(cayd, "demo", "sleep 54321"), "what was left is dead")


@case
def exec_json(cayd):
    """with --json exec prints a line per piece, and still ends as the command does"""
    cayd.create("demo")
    result = cayd.cay("exec", "--json", "demo", "--", "sh", "-c", "echo out; exit 5")
    frames = [json.loads(line) for line in result.text.splitlines()]
    assert result.status == 5 and result.err == b"", result
    assert [next(iter(frame)) for frame in frames] == ["attached", "output", "exited"], frames
    assert base64.b64decode(frames[1]["output"]["data"]) == b"out\n"
    assert frames[2]["exited"]["result"]["exitCode"] == 5, frames
    late = cayd.cay("exec", "--json", "demo", "--timeout", "200ms", "--", "sleep", "1000")
    assert late.status == 124 and late.err == b"", late


@case
def tools(cayd):
    """tool reads values as the tool's schema says, and ends with 1 when the tool failed"""
    cayd.create("demo")
    listing = cayd.ok("tools")
    assert "edit_file (edit) path= old_string= new_string= [replace_all=]" in listing, listing
    assert cayd.ok("tool", "demo", "--list") == listing
    names = [tool["name"] for tool in cayd.cay("tools", "--json").json()["tools"]]
    assert "bash" in names and "grep" in names, names
    cayd.ok("tool", "demo", "write_file", "path=t/a.txt", "content=one=1\ntwo\n")
    assert "one=1" in cayd.ok("tool", "demo", "read", "path=t/a.txt", "limit=1")
    assert "two" not in cayd.ok("tool", "demo", "read", "path=t/a.txt", "limit=1")
    cayd.ok("tool", "demo", "edit", "path=t/a.txt", "old_string=o", "new_string=0",
            "replace_all=true")
    assert cayd.ok("exec", "demo", "--", "cat", "t/a.txt") == "0ne=1\ntw0\n"
    result = cayd.cay("tool", "demo", "read_file", "path=nosuch")
    assert result.status == 1 and "no such file" in result.text, result
    assert cayd.cay("tool", "demo", "bash", "--params", "-", "--json",
                    stdin=b'{"cmd":"exit 4"}').json()["result"]["exec"]["exitCode"] == 4
    assert cayd.ok("tool", "demo", "bash", "cmd=id -u", "--user", "root") == "0\n"
    cayd.fails(125, "did you mean 'pattern'", "tool", "demo", "grep", "patern=x")
    cayd.fails(125, "not a number", "tool", "demo", "grep", "pattern=x", "max_results=many")
    cayd.fails(125, "true nor false", "tool", "demo", "grep", "pattern=x", "literal=perhaps")
    cayd.fails(125, "did you mean", "tool", "demo", "reed", "path=x")
    cayd.fails(125, "NAME=VALUE", "tool", "demo", "read", "x")
    cayd.fails(125, "JSON object", "tool", "demo", "read", "--params", "[]")
    cayd.fails(125, "TOOL is missing", "tool", "demo")


def tree_of(folder):
    """Path, kind, mode and content of everything below a folder."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        info = path.lstat()
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("dir", stat.S_IMODE(info.st_mode))
        else:
            found[name] = ("file", stat.S_IMODE(info.st_mode), path.read_bytes())
    return found


@case
def copies(cayd):
    """cp takes a tree there and back: names, modes, content"""
    cayd.create("demo")
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        source = here / "tree"
        (source / "sub" / "deep").mkdir(parents=True)
        (source / "empty").mkdir(mode=0o750)
        (source / "a.txt").write_bytes(b"hello\n")
        (source / "run.sh").write_bytes(b"#!/bin/sh\necho it runs\n")
        (source / "run.sh").chmod(0o755)
        (source / "secret").write_bytes(b"")
        (source / "secret").chmod(0o600)
        (source / "späce \u2603\n").write_bytes(b"odd name")
        Path(os.fsdecode(os.fsencode(source) + b"/not\xff utf8")).write_bytes(b"x")
        (source / "sub" / "deep" / "big").write_bytes(os.urandom(3 << 20))
        summary = cayd.cay("cp", source, "demo:/workspace/new", "--json")
        assert summary.status == 0 and summary.json()["files"] == 6, summary
        assert cayd.ok("exec", "demo", "--", "new/run.sh") == "it runs\n"
        assert cayd.ok("exec", "demo", "--", "stat", "-c", "%U %a", "new/secret") == "user 600\n"
        cayd.ok("cp", "demo:new", here / "back")
        assert tree_of(here / "back") == tree_of(source)
        # Into a directory that exists, under its own name; with /. its content.
        cayd.ok("cp", source, "demo:new")
        assert cayd.ok("exec", "demo", "--", "cat", "new/tree/a.txt") == "hello\n"
        cayd.ok("cp", f"{source}/.", "demo:/workspace/content")
        assert cayd.ok("exec", "demo", "--", "cat", "content/a.txt") == "hello\n"
        # More than a page of a listing.
        cayd.ok("exec", "demo", "--", "sh", "-c", "mkdir many; cd many; seq 1003 | xargs touch")
        cayd.ok("cp", "demo:many", here)
        assert len(list((here / "many").iterdir())) == 1003
        cayd.ok("cp", "demo:new/a.txt", here)
        assert (here / "a.txt").read_bytes() == b"hello\n"
        cayd.ok("exec", "demo", "--", "rm", "-rf", "new", "content", "many")


@case
def copies_streams(cayd):
    """cp knows '-' on either side, and replaces what is there"""
    cayd.create("demo")
    data = os.urandom(5 << 20)
    cayd.ok("cp", "-", "demo:made/on/the/way", stdin=data)
    assert cayd.cay("cp", "demo:made/on/the/way", "-").out == data
    cayd.ok("cp", "-", "demo:made/on/the/way", stdin=b"short")
    assert cayd.cay("cp", "demo:made/on/the/way", "-").out == b"short"
    cayd.fails(125, "is a directory", "cp", "demo:made", "-")
    cayd.fails(125, "no 'nosuch'", "cp", "demo:nosuch", "-")
    cayd.fails(125, "neither 'a' nor 'b' is in a session; write exactly one as SESSION:PATH", "cp", "a", "b")
    cayd.fails(125, "both 'demo:a' and 'demo:b' are in a session", "cp", "demo:a", "demo:b")
    cayd.fails(125, "open 'nosuch'", "cp", "nosuch", "demo:")
    cayd.fails(125, "may not", "cp", "/etc/hostname", "demo:/usr/hostname")
    cayd.ok("cp", "--user", "root", "/etc/hostname", "demo:/usr/hostname")


@case
def looks_back(cayd):
    """cp and ls take a file or directory from a snapshot"""
    cayd.ok("create", "--name", "then")
    cayd.ok("cp", "-", "then:made/here", stdin=b"short")
    cayd.ok("turn", "then")
    cayd.ok("cp", "-", "then:made/here", stdin=b"later")
    assert cayd.cay("cp", "then@turn-0001:made/here", "-").out == b"short"
    with tempfile.TemporaryDirectory() as folder:
        cayd.ok("cp", "then@turn-0001:made", folder)
        assert (Path(folder) / "made/here").read_bytes() == b"short"
    cayd.ok("exec", "then", "--", "rm", "made/here")
    assert cayd.ok("ls", "-q", "then:made") == ""
    assert cayd.ok("ls", "-q", "then@turn-0001:made") == "here\n"
    table = cayd.ok("ls", "then@turn-0001:made")
    assert re.search(r"^-0644 +user +5\S* .* here$", table, re.M), table
    entries = json.loads(cayd.ok("ls", "--json", "then@turn-0001:made"))["entries"]
    assert [entry["path"] for entry in entries] == ["/workspace/made/here"], entries
    cayd.fails(125, "does not change", "cp", "-", "then@turn-0001:x", stdin=b"")
    cayd.fails(125, "no snapshot 'nosuch'", "ls", "then@nosuch:")
    cayd.fails(125, "write it as SESSION:PATH", "ls", "then")
    cayd.ok("rm", "then")


@case
def copies_holes(cayd):
    """cp gives a file with holes no more disk here than it had there"""
    cayd.create("demo")
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        cayd.ok("exec", "demo", "--", "sh", "-c", "truncate -s 48M holes; echo middle | dd of=holes bs=1M seek=20 conv=notrunc; "
                "truncate -s 64M holes; head -c 70000 /dev/urandom > dense")
        (here / "holes").write_bytes(b"what was there before" * 1000)
        for target in (here / "holes", here / "fresh"):
            cayd.ok("cp", "demo:holes", target)
            assert target.stat().st_size == 64 << 20 and target.stat().st_blocks * 512 <= 1 << 20, target.stat()
            data = target.read_bytes()
            assert data[20 << 20:].startswith(b"middle\n") and data.count(0) == len(data) - len("middle\n")
        cayd.ok("cp", "demo:dense", here)
        assert (here / "dense").read_bytes() == cayd.cay("cp", "demo:dense", "-").out
        assert cayd.cay("cp", "demo:holes", "-").out == data


@case
def copies_hostile(cayd):
    """nothing that is copied out of a sandbox leads anywhere else here"""
    cayd.create("demo")
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        outside = here / "outside"
        outside.mkdir()
        cayd.ok("exec", "demo", "--", "sh", "-c",
                "mkdir -p h/dir; echo bad > h/dir/file; echo bad > h/file; mkfifo h/fifo; "
                f"ln -s {outside} h/link; ln -s nowhere h/dangling")
        result = cayd.cay("cp", "demo:h", here / "out")
        assert result.status == 0 and "skipped h/fifo" in result.note, result
        assert tree_of(here / "out")["link"] == ("link", str(outside))
        assert tree_of(here / "out")["dangling"] == ("link", "nowhere")
        # Links that stand where files and directories are to go are not followed.
        trap = here / "trap"
        trap.mkdir()
        (trap / "dir").symlink_to(outside)
        (trap / "file").symlink_to(outside / "file")
        result = cayd.cay("cp", "demo:h/.", trap)
        assert result.status == 1 and result.note.count("skipped") == 3, result
        assert not any(outside.iterdir()), list(outside.iterdir())
        # What the user may not read is told and counted.
        cayd.ok("exec", "demo", "--", "sh", "-c", "chmod 0 h/file")
        result = cayd.cay("cp", "demo:h", here / "again")
        assert result.status == 1 and "skipped h/file" in result.note, result
        # Links go in as they are, also over what is there; what is neither file nor link is told.
        (here / "in").mkdir()
        (here / "in" / "link").symlink_to("/etc/passwd")
        (here / "in" / os.fsdecode(b"odd\xff")).symlink_to(os.fsdecode(b"nowhere\xfe"))
        os.mkfifo(here / "in" / "fifo")
        for _ in range(2):
            result = cayd.cay("cp", f"{here / 'in'}/.", "demo:in")
            assert result.status == 0 and "skipped in/fifo" in result.note, result
        cayd.ok("cp", "demo:in", here / "back")
        assert tree_of(here / "back") == {"link": ("link", "/etc/passwd"),
                                          os.fsdecode(b"odd\xff"): ("link", os.fsdecode(b"nowhere\xfe"))}
    cayd.ok("exec", "demo", "--", "sh", "-c", "chmod 600 h/file; rm -rf h in made t")


@case
def history(cayd):
    """turn, diff, rollback, log and fork tell one story"""
    shell = lambda script, *flags: cayd.ok("exec", "past", *flags, "--", "sh", "-c", script)  # noqa: E731
    cayd.ok("create", "--name", "past")
    assert cayd.ok("log", "past") == ""
    shell("printf 'one\\ntwo\\n' > a.txt; mkdir d; echo x > d/x; ln -s a.txt l; printf '\\0' > bin")
    assert cayd.ok("diff", "past", "base").splitlines() == [
        "A\t/workspace/a.txt", "A\t/workspace/bin", "A\t/workspace/d/", "A\t/workspace/d/x",
        "A\t/workspace/l"]
    assert cayd.ok("turn", "past", "-m", "first files") == "turn-0001\n"
    assert cayd.ok("diff", "past") == ""
    shell("printf 'one\\n2\\n' > a.txt; chmod 600 d/x; rm l; mkdir l; printf '\\1' > bin; echo n > new")
    names = "M\t/workspace/a.txt\nM\t/workspace/bin\nm\t/workspace/d/x (0600, was 0644)\n" \
            "T\t/workspace/l/\nA\t/workspace/new\n"
    assert cayd.ok("diff", "past") == names
    assert cayd.ok("diff", "past", "turn-0001") == names
    assert cayd.ok("diff", "past", "--", "a.txt", "/nosuch") == "M\t/workspace/a.txt\n"
    assert "/workspace/new" not in cayd.ok("diff", "past", "--", "./d")
    patch = cayd.ok("diff", "past", "-p", "--", "a.txt")
    assert "\n-two\n+2\n" in patch and patch.startswith("diff --git a/workspace/a.txt "), patch
    stat_lines = cayd.ok("diff", "past", "--stat").splitlines()
    assert stat_lines[0] == "M\t/workspace/a.txt | 2 +-", stat_lines
    assert stat_lines[-1].startswith("1 added, 2 modified, 1 of another type"), stat_lines
    assert cayd.ok("turn", "past", "--durable") == "turn-0002\n"
    assert cayd.ok("snapshot", "past", "mine", "-m", "a name") == "mine\n"
    cayd.fails(125, "has a snapshot 'mine'", "snapshot", "past", "mine")
    cayd.fails(125, "reserved for Cay", "snapshot", "past", "turn-7")
    assert cayd.ok("diff", "past", "turn-0001", "turn-0002") == names

    shell("rm -rf /usr /workspace/*", "--user", "root")
    assert cayd.cay("exec", "past", "--", "ls").status == 127
    assert "D\t/usr/" in cayd.ok("diff", "past").splitlines()
    assert cayd.ok("rollback", "past", "turn-0001") == \
        "back at turn-0001\nwhat was not saved is kept as branch-0001\n"
    assert shell("cat a.txt; ls") == "one\ntwo\na.txt\nbin\nd\nl\n"
    tree = [line.split("  ")[0] for line in cayd.ok("log", "past").splitlines()[1:]]
    assert tree == ["● turn-0001", "├─● turn-0002", "│ ● mine", "│ ● branch-0001"], tree
    cayd.fails(125, "no snapshot 'nosuch'", "rollback", "past", "nosuch")
    cayd.fails(125, "--discard keeps nothing", "rollback", "past", "mine", "--discard", "--branch", "b")
    shell("echo other > a.txt")
    assert cayd.ok("turn", "past", "-m", "another way") == "turn-0003\n"
    lines = [re.sub(r"  +", "  ", line) for line in cayd.ok("log", "past").splitlines()[1:]]
    tree = [line.split("  ")[0] for line in lines]
    assert tree == ["● turn-0001", "├─● turn-0002", "│ ● mine", "│ ● branch-0001", "● turn-0003"], tree
    assert lines[4].endswith("another way  ← live") and "first files" in lines[0], lines

    assert cayd.ok("fork", "past", "turn-0002", "--name", "f") == "f\n"
    assert cayd.ok("exec", "f", "--", "cat", "new") == "n\n"
    forks = cayd.ok("fork", "past", "--count", "3").split()
    assert len(set(forks)) == 3, forks
    for name in forks:
        assert cayd.ok("exec", name, "--", "cat", "a.txt") == "other\n"
    cayd.fails(125, "1 to 100", "fork", "past", "--count", "101")
    cayd.ok("rm", "f", *forks)
    shown = cayd.ok("rollback", "past", "turn-0001", "--discard")
    assert shown == "back at turn-0001\ndiscarded turn-0002, mine, branch-0001, turn-0003\n", shown
    assert [line.split()[1] for line in cayd.ok("log", "past").splitlines()[1:]] == ["turn-0001"]
    cayd.ok("rm", "past")


@case
def forks_hide_nothing(cayd):
    """what was changed before a fork is still in the next turn, and kept by a rollback"""
    change = lambda text: cayd.ok("exec", "twig", "--", "sh", "-c", f"echo {text} > a")  # noqa: E731
    cayd.ok("create", "--name", "twig")
    change(1)
    cayd.ok("turn", "twig")
    change(2)
    cayd.ok("fork", "twig", "--name", "leaf")
    taken = cayd.cay("turn", "twig", "--json").json()["snapshot"]
    assert taken["parent"] == "turn-0001" and "unchanged" not in taken, taken
    assert cayd.cay("turn", "twig", "--json").json()["snapshot"]["unchanged"]
    change(3)
    cayd.ok("fork", "twig", "--name", "bud")
    assert "kept as branch-0001" in cayd.ok("rollback", "twig", "turn-0001")
    cayd.ok("rollback", "twig", "branch-0001")
    assert cayd.ok("exec", "twig", "--", "cat", "a") == "3\n"
    cayd.ok("rm", "twig", "leaf", "bud")


@case
def rollback_and_processes(cayd):
    """a rollback kills what runs, or refuses, as it is told"""
    cayd.ok("create", "--name", "busy")
    cayd.ok("turn", "busy")
    process = cayd.begin("exec", "busy", "--", "sh", "-c", "echo on; sleep 1000")
    assert process.stdout.readline() == b"on\n"
    cayd.fails(125, "commands run", "rollback", "busy", "turn-0001", "--refuse-processes")
    assert process.poll() is None
    cayd.ok("rollback", "busy", "turn-0001")
    assert status_of(process) != 0
    cayd.ok("rm", "busy")


@case
def pasts(cayd):
    """`restore`, `prune`, `hold` and `release`: what they do, and what they say"""
    cayd.ok("create", "--name", "past", "--max-snapshots", "3", "--expire-in", "1h")
    for number in range(1, 4):
        cayd.ok("exec", "past", "--", "sh", "-c", f"echo {number} > file; echo {number} > n{number}")
        cayd.ok("turn", "past")
    assert cayd.ok("restore", "past", "turn-0001", "-n", "--", "file").split() == ["M", "/workspace/file"]
    cayd.ok("restore", "past", "turn-0001", "--", "file", "n3")
    assert cayd.ok("exec", "past", "--", "sh", "-c", "cat file; ls").split() == ["1", "file", "n1", "n2"]
    assert "nothing to restore" in cayd.ok("restore", "past", "turn-0001", "--", "file")
    cayd.ok("hold", "past", "turn-0001")
    assert cayd.cay("prune", "past", "turn-0001").status == 125
    assert "deleted turn-0002" in cayd.ok("prune", "past", "--keep-turns", "1")
    assert "(held)" in cayd.ok("log", "past")
    cayd.ok("release", "past", "turn-0001")
    assert json.loads(cayd.ok("--json", "prune", "past", "turn-0001"))["deleted"] == ["turn-0001"]
    assert cayd.cay("prune", "past").status == 125, "say what"
    cayd.ok("rollback", "past", "turn-0003")
    assert "deleted branch-0001" in cayd.ok("prune", "past", "--branches-older", "0s")
    cayd.ok("rm", "past")


@case
def pauses(cayd):
    """`pause`, `resume` and `update`"""
    cayd.ok("create", "--name", "sleepy", "--label", "a=1")
    cayd.ok("pause", "sleepy")
    assert cayd.ok("ls", "-q", "--state", "paused").split() == ["sleepy"]
    assert cayd.cay("exec", "sleepy", "--", "true").status == 125
    cayd.ok("resume", "sleepy", "--expire-in", "1h")
    assert cayd.cay("resume", "sleepy").status == 125
    process = cayd.begin("tool", "sleepy", "bash", "cmd=sleep 1000")
    eventually(lambda: cayd.ok("ps", "-q", "sleepy"), "a tool runs, and has for a while")
    started = time.monotonic()
    cayd.fails(125, "tool", "pause", "sleepy", "--drain", "0s")
    assert time.monotonic() - started < 10, "it did not wait"
    cayd.ok("kill", "sleepy", "--tree", *cayd.ok("ps", "-q", "sleepy").split())
    assert status_of(process) == 1
    stubborn = cayd.ok("exec", "sleepy", "--background", "--", "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done").strip()
    cayd.ok("kill", "sleepy", stubborn, "--kill-after", "0s", "--wait")
    cayd.ok("resume", "sleepy", "--active-ok")
    cayd.ok("update", "sleepy", "--label", "b=2", "--unlabel", "a", "--memory", "64M", "--env", "X=1")
    session = json.loads(cayd.ok("--json", "show", "sleepy"))["session"]
    assert session["labels"] == {"b": "2"} and int(session["limits"]["memoryBytes"]) == 64 << 20
    assert cayd.ok("exec", "sleepy", "--", "sh", "-c", "echo $X").strip() == "1"
    assert cayd.cay("update", "sleepy", "--on-expiry", "never").status == 125

    def seconds(text):
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    cayd.ok("update", "sleepy", "--expire-in", "2h", "--on-expiry", "stop")
    before = json.loads(cayd.ok("--json", "show", "sleepy"))["session"]
    cayd.ok("update", "sleepy", "--idle-after", "10m")
    after = json.loads(cayd.ok("--json", "show", "sleepy"))["session"]
    assert abs(seconds(after["deadline"]) - seconds(before["deadline"])) < 2, "the deadline stays"
    assert after["lifecycle"] == before["lifecycle"] | {"idleTimeout": "600s"}, after
    cayd.ok("rm", "sleepy")


@case
def transfer(cayd):
    """a session goes out to a file and comes back, also through pipes"""
    cayd.ok("create", "--name", "moving", "--lazy")
    cayd.cay("cp", "-", "moving:note", stdin=b"packed\n")
    cayd.ok("turn", "moving", "-m", "one")
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        assert "moving.tar.zst" in cayd.ok("export", "moving", cwd=here)
        assert [path.name for path in here.iterdir()] == ["moving.tar.zst"]
        told = cayd.cay("export", "moving", "--json", cwd=here).json()
        file = here / told["file"]
        assert told["bytes"] == file.stat().st_size, told
        assert told["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest(), told
        assert cayd.ok("import", "moving.tar.zst", "--name", "moved", cwd=here) == "moved\n"
        data = cayd.cay("export", "moving", "-o", "-").out
        assert data[:4] == b"\x28\xb5\x2f\xfd", data[:16]
        back = cayd.cay("import", "-", "--json", stdin=data).json()
        assert back["session"]["id"] != "moving" and back["snapshotCount"] == "1", back
        cayd.ok("rm", back["session"]["id"])
        cayd.fails(125, "damaged", "import", "-", stdin=data[:-1])
        cayd.fails(125, "snapshot", "export", "moving", "--since", "nothing", "-o", here / "x")
        assert not (here / "x").exists() and not (here / "x.part").exists()
        # No file takes the place of what is none.
        os.mkfifo(here / "fifo")
        with subprocess.Popen(["cat", here / "fifo"], stdout=subprocess.PIPE) as reader:
            cayd.ok("export", "moving", "-o", here / "fifo")
            assert reader.stdout.read(4) == data[:4]
        assert (here / "fifo").is_fifo() and not (here / "fifo.part").exists()
        cayd.fails(125, "Is a directory", "export", "moving", "-o", here)
    assert cayd.cay("cp", "moved:note", "-").out == b"packed\n"
    assert "one" in cayd.ok("log", "moved")
    # Who reads no more takes the export along, and nothing else.
    cayd.ok("cp", "-", "moving:noise", stdin=os.urandom(40 << 20))
    before = cayd.process.pid
    for _ in range(3):
        process = cayd.begin("export", "moving", "-o", "-")
        assert len(process.stdout.read(1000)) == 1000
        process.stdout.close()
        assert status_of(process) == 125
    cayd.ok("rm", "--wait", "moving", "moved")
    assert cayd.process.pid == before and cayd.process.poll() is None


STEPS = """# What an agent of ours needs.
FROM small

ENV GREETING="hello world" \\
    # in between
    OTHER=x
env OLD the old way
RUN echo "$GREETING, $OTHER, $OLD" \\
    && id -u
WORKDIR /srv/app
COPY --chown=user --chmod=0700 one two ./in/
COPY . .
USER user
CMD ["/bin/sh", "-c", "echo up; exec sleep 1000"]
HEALTHCHECK CMD test -e /srv/app/one
"""


@case
def built(cayd):
    """base build does the steps of a file and shows what they print; snapshot --publish makes a base"""
    with tempfile.TemporaryDirectory(prefix="caysys-cli-") as folder:
        here = Path(folder)
        for name in ("one", "two", "sub/three"):
            (here / name).parent.mkdir(exist_ok=True)
            (here / name).write_text(name + "\n")
        (here / "Steps").write_text(STEPS)
        result = cayd.cay("base", "build", "--name", "app", "-f", here / "Steps", "--context", here,
                          "--alias", "me/app:1")
        assert result.status == 0 and result.out == b"app\n", result
        assert b"hello world, x, the old way\n0\n" in result.err, result
        assert cayd.ok("create", "--base", "me/app:1", "--name", "of-app") == "of-app\n"
        shown = cayd.ok("exec", "of-app", "--", "sh", "-c",
                        "pwd; id -un; cat one sub/three in/two; stat -c %a,%U in/one; ls /srv/app")
        assert shown.startswith("/srv/app\nuser\none\nsub/three\ntwo\n700,user\n"), shown
        assert "Steps" in shown and "sleep 1000" in cayd.ok("ps", "of-app"), shown
        cayd.ok("exec", "of-app", "--user", "root", "--", "sh", "-c", "echo 1 > /published")
        name = cayd.ok("snapshot", "of-app", "--publish", "ready")
        assert name.startswith("snapshot") and "ready" in cayd.ok("base", "ls"), name
        cayd.ok("rm", "of-app")
        assert cayd.ok("run", "--base", "ready", "--", "cat", "/published") == "1\n"
        frames = [json.loads(line) for line in cayd.ok(
            "base", "build", "--json", "--from", "ready", "--name", "more", "--start", "exec sleep 999",
            "--runtime", "namespaces").splitlines()]
        settings = frames[-1]["base"]["settings"]
        assert (settings["startCommand"][2], settings["runtime"]) == ("exec sleep 999", "namespaces"), frames[-1]
        cayd.fails(125, "offers namespaces", "base", "build", "--name", "bad", "--from", "small", "--runtime", "gvisor")
        for told, text in (("line 2: 'ADD'", "FROM small\nADD a b\n"), ("line 1: a quote", "ENV A='b\n"),
                           ("line 3: FROM stands first", "RUN true\n\nFROM x"), ("line 1: COPY", "COPY x"),
                           ("line 1: something is missing", "RUN "), ("name a recipe", "RUN true")):
            (here / "Steps").write_text(text)
            cayd.fails(125, told, "base", "build", "--name", "bad", "-f", here / "Steps")
        (here / "Steps").write_text("RUN echo so; exit 3\n")
        cayd.fails(125, "step 1 of 1", "base", "build", "--name", "bad", "--from", "small", "-f", here / "Steps")
        cayd.fails(125, "--name", "base", "build", "--from", "small")
        for base in ("app", "ready", "more"):
            cayd.ok("base", "rm", base)


@case
def bases(cayd):
    """a base comes from a directory, an archive or standard input, and goes again"""
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        (here / "root" / "etc").mkdir(parents=True)
        (here / "root" / "etc" / "motd").write_text("hi\n")
        archive = here / "root.tar.gz"
        subprocess.run(["tar", "-C", here / "root", "-czf", archive, "."], check=True)
        assert "files and directories" in cayd.ok("base", "import", "b1", here / "root")
        cayd.ok("base", "import", "b2", archive)
        made = cayd.cay("base", "import", "b3", "-", "--json", stdin=archive.read_bytes())
        assert made.json()["base"]["name"] == "b3", made
        cayd.ok("base", "import", "b4", "root", cwd=here)  # a relative path is ours
        listing = cayd.ok("base", "ls")
        assert all(f"b{number}" in listing for number in range(1, 5)), listing
        assert re.search(r"^small .* yes$", listing, re.M), listing
        names = [line.split()[0] for line in listing.splitlines()[1:]]
        assert names == ["b1", "b2", "b3", "b4", "small"], names
        cayd.fails(125, "there is a base 'b1' already", "base", "import", "b1", archive)
        cayd.fails(125, "open", "base", "import", "b5", here / "nosuch")
        key = cayd.ok("key", "create", "--admin").strip()
        cayd.fails(125, "tar -C", "base", "import", "b5", here / "root",
                   env={"CAY_URL": cayd.tcp, "CAY_API_KEY": key})
    cayd.ok("create", "--name", "based", "--base", "b1", "--lazy")
    assert cayd.cay("cp", "based:/etc/motd", "-").out == b"hi\n"
    cayd.fails(125, "1 session stands on the base; remove that session first", "base", "rm", "b1")
    cayd.ok("base", "alias", "me/app:1", "b1")
    cayd.ok("base", "alias", "latest", "b1")
    assert re.search(r"^b1 +(latest, me/app:1|me/app:1, latest) ", cayd.ok("base", "ls"), re.M)
    cayd.ok("create", "--name", "aliased", "--base", "me/app:1", "--lazy")
    assert cayd.cay("cp", "aliased:/etc/motd", "-").out == b"hi\n"
    cayd.ok("base", "alias", "latest", "b2")  # it moves
    cayd.fails(125, "there is a base 'b2' already", "base", "alias", "b2", "b1")
    cayd.fails(125, "no base", "base", "alias", "x", "nosuch")
    cayd.fails(125, "letters", "base", "alias", "../x", "b1")
    cayd.ok("base", "rm", "me/app:1")
    assert "me/app:1" not in cayd.ok("base", "ls")
    cayd.ok("base", "rm", "--force", "b1")
    assert cayd.cay("cp", "based:/etc/motd", "-").out == b"hi\n"  # it goes on
    cayd.ok("rm", "based", "aliased")
    for number in range(2, 5):
        cayd.ok("base", "rm", f"b{number}")
    assert "latest" not in cayd.ok("base", "ls")
    cayd.fails(125, "no base 'b1'", "base", "rm", "b1")


@case
def over_tcp(cayd):
    """over TCP with a key all is the same, and one owner does not see another's sessions"""
    key = cayd.ok("key", "create", "--owner", "ann").strip()
    ann = {"CAY_URL": cayd.tcp, "CAY_API_KEY": key}
    assert cayd.ok("run", "--", "echo", "hi", env=ann) == "hi\n"
    cayd.ok("create", "--name", "anns", env=ann)
    assert cayd.ok("ls", "-q", env=ann).split() == ["anns"]
    cayd.fails(125, "no session 'demo'", "exec", "demo", "--", "true", env=ann)
    cayd.fails(125, "set CAY_API_KEY", "ls", env={"CAY_URL": cayd.tcp})
    data = os.urandom(1 << 20)
    cayd.ok("cp", "-", "anns:f", stdin=data, env=ann)
    assert cayd.cay("cp", "anns:f", "-", env=ann).out == data
    cayd.ok("rm", "anns", env=ann)


@case
def tokens(cayd):
    """the token of a session opens this session until it is revoked; then the new one does"""
    cayd.create("demo")
    cayd.ok("create", "--name", "other")
    old = cayd.ok("token", "show", "demo").split()
    assert old[::2] == ["access", "traffic"], old
    assert cayd.ok("exec", "demo", "--", "echo", "hi", env={"CAY_URL": cayd.tcp, "CAY_API_KEY": old[1]}) == "hi\n"
    cayd.fails(125, "no session 'other'", "exec", "other", "--", "true", env={"CAY_URL": cayd.tcp, "CAY_API_KEY": old[1]})
    new = json.loads(cayd.ok("token", "revoke", "demo", "--json"))
    assert cayd.ok("token", "show", "demo").split()[1::2] == [new["accessToken"], new["trafficToken"]] != old[1::2]
    cayd.fails(125, "unknown, revoked or expired", "show", "demo", env={"CAY_URL": cayd.tcp, "CAY_API_KEY": old[1]})
    assert "demo" in cayd.ok("show", "demo", env={"CAY_URL": cayd.tcp, "CAY_API_KEY": new["accessToken"]})
    cayd.fails(125, "no session 'nobody'", "token", "revoke", "nobody")


@case
def completion(cayd):
    """sessions, snapshots and tools are completed; without a daemon nothing is said"""
    cayd.create("demo")
    offered = lambda *words, **more: [  # noqa: E731
        line.split("\t")[0] for line in cayd.ok("complete", "--", *words, **more).splitlines()]
    cayd.ok("turn", "demo")
    assert offered("exec", "") == ["demo"]
    assert offered("exec", "x") == []
    assert offered("rollback", "demo", "turn") == ["turn-0001"]
    assert offered("cp", "d") == ["demo:"]
    assert offered("tool", "demo", "read") == ["read_file"]
    assert offered("tool", "demo", "grep", "inc") == ["include="]
    assert "rollback" in offered("ro") and "base" in offered("ba")
    started = time.monotonic()
    bases = [base["name"] for base in cayd.cay("base", "ls", "--json").json()["bases"]]
    assert bases and sorted(bases) == sorted(set(offered("create", "--base", "")) & set(bases)), (
        bases, offered("create", "--base", ""))
    assert offered("create", "--runtime", "") == ["namespaces"]
    away = cayd.cay("complete", "--", "exec", "", env={"CAY_URL": "unix:/nonexistent/cayd.sock"})
    assert (away.status, away.out, away.err) == (0, b"", b""), away
    assert time.monotonic() - started < 2


@case
def on_a_terminal(cayd):
    """a terminal gets colours, and nothing of a sandbox that it would obey"""
    cayd.create("demo")
    cayd.turn("demo")
    cayd.ok("tool", "demo", "write_file", "path=evil", "content=a\tb \x1b[31mred\x1b[0m\x07\n")
    shown = cayd.on_terminal("tool", "demo", "read", "path=evil")
    assert "a\tb \\x1b[31mred\\x1b[0m\\x07\n" in shown, shown
    shown = cayd.on_terminal("diff", "demo", "-p")
    assert "\x1b[32m+a\x1b[0m\t\x1b[32mb \\x1b[31mred" in shown, shown
    assert "\x1b[32mA\x1b[0m\t/workspace/evil" in cayd.on_terminal("diff", "demo")
    assert "\x1b[32m● turn-0001" in cayd.on_terminal("log", "demo")
    assert "copied 1 file" in cayd.on_terminal("cp", "/etc/hostname", "demo:")


@case
def doctor(cayd):
    """doctor finds this machine fit, as people and programs read it, and leaves nothing behind"""
    if b"__tsan_init" in Path(CAY).read_bytes():
        raise Skip("ThreadSanitizer has a thread of its own, and threads may not try user namespaces")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        found = cayd.cay("doctor", "--json", "--data", name)
        checks = {check["name"]: check for check in found.json()["checks"]}
        assert found.status == 0 and found.json()["ok"], found
        for part in ("kernel", "user ns", "store", "cgroups", "cay-init", "gvisor", "daemon"):
            assert checks[part]["verdict"] == "ok", checks[part]
        if "20221219" in subprocess.run(["runsc", "--version"], capture_output=True, text=True, check=True).stdout:
            for words in ("20221219", "ptrace", "memory that runs out", "sudo", "docs/gvisor.md"):
                assert words in checks["gvisor"]["text"], checks["gvisor"]
        assert not any(Path(name).iterdir())
        away = cayd.cay("doctor", "--data", f"{name}/not/there",
                        env={"CAY_URL": "unix:/nonexistent/cayd.sock"})
        assert away.status == 0 and "warn  daemon" in away.text, away
        # It is cayd that looks; one that is not there or cannot is told of.
        alone = Path(name) / "alone"
        shutil.copy(CAY, alone)
        for program, variable, words in ((alone, {"PATH": "/nonexistent"}, "cayd cannot be run"),
                                         (CAY, {"CAY_NO_SUCH_KEY": "1"}, "says nothing of this machine")):
            lost = subprocess.run([program, "doctor"], env=variable, capture_output=True, text=True, check=False)
            assert lost.returncode == 1 and "fail  cayd" in lost.stdout and words in lost.stdout, lost
        alone.unlink()
        # In a chroot the kernel refuses user namespaces.
        for part in ("usr", "lib", "lib64", "proc", "sys", "cay"):
            (Path(name) / part).mkdir()
        build = Path(CAY).resolve().parent
        script = "for d in usr lib lib64 proc sys; do [ -e /$d ] && mount --rbind /$d $0/$d; done; " \
                 "mount --bind $1 $0/cay; exec chroot $0 /cay/cay doctor"
        jailed = subprocess.run(["unshare", "-m", "sh", "-c", script, name, build], check=False,
                                capture_output=True, timeout=PATIENCE_S)
        assert jailed.returncode == 1 and b"this is a chroot" in jailed.stdout, jailed


@case
def tail_of_a_log(cayd):
    """logs --tail counts lines, with and without an end of the last one"""
    cayd.ok("create", "--name", "tail")
    for text, wanted in ((r"one\ntwo\nthree\n", "two\nthree\n"), (r"one\ntwo\nthree", "two\nthree")):
        process = cayd.ok("exec", "tail", "--background", "--", "printf", text).strip()
        eventually(lambda: "exited" in cayd.ok("ps", "tail", "--all"), "it has ended")
        assert cayd.ok("logs", "tail", process, "--tail", "2") == wanted
        assert cayd.ok("logs", "-f", "tail", process, "--tail", "99").startswith("one\n")
    cayd.fails(125, "do not go together", "logs", "tail", process, "--tail", "2", "--since", "1")
    cayd.ok("rm", "tail")


@case
def sentences(cayd):
    """usages have flags before '--'; a flag that is meant for the command says where it belongs"""
    assert cayd.ok("help", "exec").startswith("Usage: cay exec [FLAGS] SESSION -- COMMAND...\n")
    cayd.fails(125, "write '--' before the command", "exec", "demo", "ls", "-l")
    cayd.fails(125, "'cay ls' has no flag '-z'", "ls", "-z")
    assert "are not copied in" not in cayd.ok("help", "cp")
    assert "installed on its machine.\n\nA file of steps has" in cayd.ok("help", "base", "build"), "a paragraph"


@case
def one_of_each(cayd):
    """what is one has no plural, the fields of a session stand below each other, and errors say where to look"""
    cayd.ok("create", "--name", "one", "--lazy")
    cayd.ok("turn", "one")
    lines = cayd.ok("show", "one").splitlines()[1:]
    assert "  history    1 turn, 1 snapshot" in lines, lines
    assert all(line[12] == " " and line[13] != " " for line in lines), lines
    cayd.fails(125, "'cay log one' lists its snapshots", "fork", "one", "nosuch")
    cayd.fails(125, "no session is named", "api", "SandboxService/GetSession", "{}")
    cayd.ok("rm", "one")


@case
def few_libraries(_):
    """cay starts with a handful of libraries: TLS and archives are loaded by who needs them"""
    found = subprocess.run(["ldd", CAY], capture_output=True, text=True, check=True).stdout
    for name in ("libcurl", "libarchive", "libicu", "libgnutls", "libldap"):
        assert name not in found, found


@case
def over_tls(cayd):
    """https works with a certificate that is trusted; http to TLS and https to plain HTTP say what to write"""
    folder = cayd.folder
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
    with Cli("--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem")) as other:
        key = json.loads(other.ok("key", "create", "--owner", "tls", "--json"))["secret"]
        url = f"{other.host}:{other.port}"
        assert url.startswith("https://"), url
        trusted = {"CAY_URL": url, "CAY_API_KEY": key, "CAY_CA_FILE": str(folder / "cert.pem")}
        assert other.cay("ls", env=trusted).status == 0
        result = other.cay("ls", env=trusted | {"CAY_CA_FILE": ""})
        assert result.status == 125 and "CAY_CA_FILE" in result.note, result
        result = other.cay("ls", env=trusted | {"CAY_URL": url.replace("https:", "http:")})
        assert result.status == 125 and "write https://" in result.note, result
    result = cayd.cay("ls", env={"CAY_URL": cayd.tcp.replace("http:", "https:"), "CAY_API_KEY": "x"})
    assert result.status == 125 and "write http://" in result.note, result


@case
def several_names(cayd):
    """kill and rm of several names go on after one that is not there, tell each, and fail in the end"""
    cayd.create("demo")
    def start():
        return cayd.ok("exec", "demo", "--background", "--", "sleep", "1000").strip()
    first, second = start(), start()
    result = cayd.fails(125, "no process 'nosuch'", "kill", "demo", "--wait", first, "nosuch", "other", second)
    assert "no process 'other'" in result.note and result.out == b"", result
    assert not {first, second} & set(cayd.ok("ps", "-q", "demo").split())
    third = start()
    result = cayd.cay("kill", "--json", "--wait", "demo", "nosuch", third, "other")
    lines = [json.loads(line) for line in result.text.splitlines()]
    assert result.status == 125 and ["error" in line for line in lines] == [False, True, True], lines
    assert [line["error"]["message"].count(name) for line, name in zip(lines[1:], ("nosuch", "other"))] == [1, 1], lines
    assert cayd.fails(125, "no session 'gone'", "kill", "gone", "a", "b").note.count("cay:") == 1
    for name in ("rm1", "rm2"):
        cayd.ok("create", "--lazy", "--name", name)
    result = cayd.cay("rm", "--json", "rm1", "nosuch", "rm2", "other")
    lines = [json.loads(line) for line in result.text.splitlines()]
    assert result.status == 125 and {"removed": ["rm1", "rm2"]} in lines, lines
    told = [line["error"]["message"] for line in lines if "error" in line]
    assert len(told) == 2 and "'nosuch'" in told[0] and "'other'" in told[1], lines
    assert not {"rm1", "rm2"} & set(cayd.sessions())


@case
def started_again(cayd):
    """exec --background --restart starts a command again when it fails, as often as it may"""
    cayd.create("demo")
    process = cayd.ok("exec", "demo", "--background", "--restart", "on-failure", "--max-restarts", "2",
                      "--restart-delay", "10ms", "--", "sh", "-c", "echo run; exit 3").strip()
    eventually(lambda: cayd.ok("logs", "demo", process) == "run\n" * 3, "it ran three times")

    def ended():
        found, = [entry for entry in cayd.cay("ps", "-a", "--json", "demo").json()["processes"]
                  if entry["id"] == process]
        return found if found["state"] == "PROCESS_STATE_EXITED" else None
    eventually(ended, "it is given up")
    policy = ended()["restart"]
    assert ended()["restartCount"] == 2 and policy["mode"] == "RESTART_MODE_ON_FAILURE", ended()
    assert policy["maxRestarts"] == 2 and policy["delay"] == "0.010s", policy
    background = ("exec", "demo", "--background")
    cayd.fails(125, "write never, on-failure or always", *background, "--restart", "often", "--", "true")
    cayd.fails(125, "--max-restarts goes with --restart", *background, "--max-restarts", "1", "--", "true")
    cayd.fails(125, "--restart goes with --background", "exec", "demo", "--restart", "always", "--", "true")


@case
def tool_snapshots(cayd):
    """create and update say whether each tool call is followed by a snapshot"""
    cayd.ok("create", "--lazy", "--name", "careful", "--tool-snapshots", "on")
    assert "one after each tool call" in cayd.ok("show", "careful")
    cayd.ok("tool", "careful", "write_file", "path=f", "content=1")
    assert len(cayd.cay("log", "--json", "careful").json()["snapshots"]) == 1
    cayd.ok("update", "careful", "--label", "a=b")  # what is not named stays
    assert "one after each tool call" in cayd.ok("show", "careful")
    cayd.ok("update", "careful", "--tool-snapshots", "off")
    cayd.ok("tool", "careful", "write_file", "path=f", "content=2")
    assert len(cayd.cay("log", "--json", "careful").json()["snapshots"]) == 1
    cayd.fails(125, "write on or off", "update", "careful", "--tool-snapshots", "maybe")
    cayd.ok("rm", "careful")


@case
def health_is_of_now(cayd):
    """status looks at the pool when it is asked, not when the daemon last did by itself"""
    def checked_at():
        return cayd.cay("status", "--json").json()["health"]["checkedAt"]
    first = checked_at()
    assert checked_at() > first
    last = cayd.call(SANDBOX + "HealthCheck")["checkedAt"]
    assert cayd.call(SANDBOX + "HealthCheck", {"fresh": True})["checkedAt"] > last
    both = together(*[lambda: cayd.call(SANDBOX + "HealthCheck", {"fresh": True})] * 8)
    assert all(outcome["status"] for outcome in good(both)), both


@case
def tag_of_a_command(cayd):
    """a command that is followed has its tag, too"""
    cayd.create("demo")
    process = cayd.begin("exec", "demo", "--tag", "followed", "--", "sh", "-c", "echo on; sleep 1000")
    assert process.stdout.readline() == b"on\n"
    assert "on" in cayd.ok("logs", "demo", "followed")
    cayd.ok("kill", "demo", "followed")
    assert status_of(process) in (128 + signal.SIGTERM, 137), process.returncode


@case
def port_of_a_remote_daemon(cayd):
    """cay port says that a loopback address of a daemon elsewhere does not lead there from here"""
    cayd.create("demo")
    key = cayd.ok("key", "create", "--admin").strip()
    note = "this address works on the daemon's machine alone"
    # By its address 0.0.0.0 a daemon on this machine is reached, but not known to be here.
    elsewhere = {"CAY_URL": f"http://0.0.0.0:{cayd.port}", "CAY_API_KEY": key}
    result = cayd.cay("port", "demo", "8099", env=elsewhere)
    assert result.status == 0 and note in result.note, result
    assert "'cay forward demo 8099'" in result.note, result
    result = cayd.cay("port", "demo", env=elsewhere)
    assert result.status == 0 and note in result.note and "'cay forward demo 8099'" in result.note, result
    cayd.ok("port", "rm", "demo", "8099")
    result = cayd.cay("port", "demo", "8099", env=elsewhere | {"CAY_URL": cayd.tcp})
    assert result.status == 0 and note not in result.note, result
    cayd.ok("port", "rm", "demo", "8099")


def build_stream(lines, end):
    """The frames of a build as a daemon sends them, and the frame that ends the stream."""
    def field(number, data):
        size = len(data)
        assert size < 1 << 14
        return bytes([number << 3 | 2, size & 127 | 128, size >> 7]) + data

    def frame(data, flags=0):
        return struct.pack(">BI", flags, len(data)) + data
    phase = b"\x19" + struct.pack("<d", 0.4) + field(4, b"Extracting")
    frames = [field(1, field(3, level) + field(4, text)) for level, text in lines]
    frames.insert(1, field(2, phase))
    if end == b"{}":
        frames.append(field(3, field(1, b"made")))
    return b"".join(map(frame, frames)) + frame(end, 2)


@case
def folded_build(cayd):
    """of a recipe base build tells phases and warnings; the rest with --verbose, or when it fails"""
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", self.headers["Content-Type"])
            self.send_header("Content-Length", str(len(self.server.answer)))
            self.end_headers()
            self.wfile.write(self.server.answer)

        def log_message(self, *_):
            pass
    log = [(b"info", b"I: line %d" % number) for number in range(600)] + [(b"warn", b"W: odd")]
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        there = {"CAY_URL": f"http://127.0.0.1:{server.server_port}", "CAY_API_KEY": "none"}
        try:
            server.answer = build_stream(log, b"{}")
            result = cayd.cay("base", "build", "debian", env=there)
            assert (result.status, result.out, result.err) == (0, b"made\n", b"Extracting\nW: odd\n"), result
            result = cayd.cay("base", "build", "debian", "--verbose", env=there)
            assert result.status == 0 and result.note.count("I: line") == 600, result
            assert cayd.ok("base", "build", "debian", "--json", env=there).count("I: line") == 600
            server.answer = build_stream(log, b'{"error":{"code":"failed_precondition","message":"no room"}}')
            result = cayd.fails(125, "no room", "base", "build", "debian", env=there)
            assert result.note.count("I: line") == 600, result
        finally:
            server.shutdown()
            thread.join()


@case
def nobody_there(cayd):
    """without a daemon every command says so and what to do"""
    away = {"CAY_URL": "unix:/nonexistent/cayd.sock"}
    for words in (["ls"], ["run", "--", "true"], ["exec", "demo", "--", "true"],
                  ["cp", "-", "demo:x"], ["base", "ls"], ["turn", "demo"], ["diff", "demo"]):
        cayd.fails(125, "start it with 'cayd'", *words, env=away)


if __name__ == "__main__":
    run_on(lambda: Cli("--default-base", "small", "--destroy-on-exit"))
