#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Secrets: values that sandboxes use and never see."""

import json
import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

from daemon import KEY, Client, case, eventually, fails
from small_base import run_with_cayd

CAY = sys.argv[2]
SECRET = "cay.v1.SecretService/"
VALUE = "sk-value-that-nobody-may-find"


def secrets_of(client, **fields):
    return client.call(SECRET + "ListSecrets", fields).get("secrets", [])


def set_secret(client, name, value=VALUE, **fields):
    return client.call(SECRET + "SetSecret", {"name": name, "value": value} | fields)["secret"]


def forget_all(client, owner=""):
    for secret in secrets_of(client, owner=owner):
        client.call(SECRET + "DeleteSecret", {"name": secret["name"], "owner": owner})


def owner_of(cay, name):
    return Client(cay, cay.call(KEY + "CreateKey", {"owner": name})["secret"])


def cli(cay, *arguments, value=None, status=0):
    done = subprocess.run([CAY, *arguments], input=value, capture_output=True, text=True, timeout=60, check=False,
                          env={"CAY_URL": f"unix:{cay.run_dir}/cayd.sock", "PATH": os.environ["PATH"]})
    assert done.returncode == status, done
    return done.stdout if status == 0 else done.stderr


def files_with(cay, text):
    """Files of the daemon that have the text: data, database, journals, records, log. Trees are left out."""
    found = [path for path in cay.folder.rglob("*")
             if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 26]
    assert cay.data / "cay.db" in found and cay.log_path in found, found
    return [path for path in found if text.encode() in path.read_bytes()]


def memory_with(pid, text):
    """Places in a process's memory that have the text."""
    found = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            bounds, rights, *_ = line.split()
            start, end = (int(part, 16) for part in bounds.split("-"))
            if not rights.startswith("rw"):
                continue
            try:
                memory.seek(start)
                bytes_there = memory.read(end - start)
            except OSError:
                continue
            found += [(line, bytes_there[max(match.start() - 40, 0):match.end() + 20]) for match in re.finditer(re.escape(text.encode()), bytes_there)]
    return found


@case
def kept(cay):
    """a secret is set, listed without its value, replaced and removed; each owner has its own"""
    alice, bob = owner_of(cay, "alice"), owner_of(cay, "bob")
    made = set_secret(alice, "openai")
    assert set(made) == {"owner", "name", "createdAt", "changedAt"} and made["owner"] == "alice", made
    again = set_secret(alice, "openai", "another")
    assert again["createdAt"] == made["createdAt"] and again["changedAt"] > made["changedAt"], (made, again)
    set_secret(alice, "github")
    set_secret(bob, "openai")
    assert [secret["name"] for secret in secrets_of(alice)] == ["github", "openai"]
    assert [secret["owner"] for secret in secrets_of(bob)] == ["bob"]
    assert secrets_of(cay) == [] and len(secrets_of(cay, owner="alice")) == 2
    set_secret(cay, "third", owner="alice")
    assert len(secrets_of(alice)) == 3
    fails("not_found", set_secret, alice, "x", owner="bob")
    fails("not_found", secrets_of, alice, owner="bob")
    fails("not_found", alice.call, SECRET + "DeleteSecret", {"name": "openai", "owner": "bob"})
    alice.call(SECRET + "DeleteSecret", {"name": "openai"})
    fails("not_found", alice.call, SECRET + "DeleteSecret", {"name": "openai"}, reason="secret_not_found")
    assert [secret["name"] for secret in secrets_of(bob)] == ["openai"]
    forget_all(alice)
    forget_all(bob)


@case
def refused(cay):
    """what no header can carry is no value, and the error does not repeat it"""
    for value in ("", "a\nb", "a\rb", " a", "a ", "\x00", "x" * 4097):
        error = fails("invalid_argument", set_secret, cay, "x", value)
        assert "value: 1 to 4096 bytes" in error.message, error
    for name in ("", "../x", "a/b", "x" * 129):
        error = fails("invalid_argument", set_secret, cay, name)
        assert VALUE not in str(error), error
    assert secrets_of(cay) == []


@case
def restarts(cay):
    """secrets survive the daemon, whose files and log have no value in the clear, nor has its memory once it is set"""
    set_secret(cay, "openai")
    set_secret(cay, "second")
    fails("invalid_argument", set_secret, cay, "third", VALUE + " ")
    found = memory_with(cay.process.pid, VALUE)
    assert not found, found
    cay.restart()
    assert [secret["name"] for secret in secrets_of(cay)] == ["openai", "second"]
    key = cay.data / "secrets.key"
    assert key.stat().st_mode & 0o7777 == 0o600 and key.stat().st_size == 32, key.stat()
    assert not files_with(cay, VALUE)
    forget_all(cay)


@case
def by_cay(cay):
    """cay secret: the value comes from standard input or a terminal without echo, and is not shown"""
    assert cli(cay, "secret", "set", "openai", value=VALUE + "\n") == "set openai\n"
    assert json.loads(cli(cay, "--json", "secret", "set", "openai", value=VALUE))["secret"]["name"] == "openai"
    table = cli(cay, "secret", "ls")
    assert "openai" in table and "never" in table and VALUE not in table, table
    assert VALUE not in cli(cay, "--json", "secret", "ls")
    assert "empty" in cli(cay, "secret", "set", "openai", value="\n", status=125)
    assert "4096" in cli(cay, "secret", "set", "openai", value="x" * 5000, status=125)
    leader, follower = pty.openpty()
    with subprocess.Popen([CAY, "secret", "set", "typed"], stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={"CAY_URL": f"unix:{cay.run_dir}/cayd.sock"}) as process:
        prompt = b""
        while b"): " not in prompt:
            prompt += os.read(process.stderr.fileno(), 100)
        eventually(lambda: not termios.tcgetattr(follower)[3] & termios.ECHO, "the terminal does not echo")
        os.write(leader, VALUE.encode() + b"\n")
        assert process.wait(60) == 0, process.stderr.read()
        assert process.stdout.read() == b"set typed\n"
        assert termios.tcgetattr(follower)[3] & termios.ECHO
    os.set_blocking(leader, False)
    try:
        assert VALUE.encode() not in os.read(leader, 10_000)
    except BlockingIOError:
        pass
    os.close(leader)
    os.close(follower)
    assert cli(cay, "secret", "rm", "typed") == "removed typed\n"
    assert "there is no secret" in cli(cay, "secret", "rm", "typed", status=125)
    forget_all(cay)


if __name__ == "__main__":
    run_with_cayd()
