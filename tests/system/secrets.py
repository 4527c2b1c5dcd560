#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Secrets: values that sandboxes use and never see."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

from daemon import KEY, SANDBOX, Client, case, eventually, fails
from session_stream import export, import_
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
    """Files of the daemon that have the text: trees, database, journals, records, sockets' folders, log."""
    found, looked_at = [], set()
    for path in cay.folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink():
                looked_at.add(path)
                found += [path] if text.encode() in path.read_bytes() else []
    assert {cay.data / "cay.db", cay.log_path} <= looked_at
    return found


def memory_with(pid, text):
    """Places in a process's memory that have the text."""
    found = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            bounds, rights, *_ = line.split()
            start, end = (int(part, 16) for part in bounds.split("-"))
            if not rights.startswith("rw") or end - start > 1 << 30:  # a sanitizer's own is terabytes
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


# --- sessions that use them ---

BOUND = {"variable": "OPENAI_API_KEY", "secret": "openai", "host": "api.openai.com"}
PLACEHOLDER = re.compile(r"cay-secret-[0-9a-f]{32}")
FILTERED = {"mode": "NETWORK_MODE_FILTERED"}
TRUSTED = "/dev/cay-certificates.pem"


def using(cay, session_id, *bindings, **fields):
    return cay.create(session_id, network=FILTERED, secrets=list(bindings), **fields)


def env_of(cay, session_id, name="OPENAI_API_KEY"):
    return cay.sh(session_id, f"echo ${name}").strip()


def update(cay, session_id, **fields):
    return cay.call(SANDBOX + "UpdateSession", {"sessionId": session_id} | fields)["session"]


@case
def bound(cay):
    """a binding is written in one way, shown, changed and removed; a wrong one is refused and says why"""
    session = using(cay, "s", BOUND | {"host": "API.OpenAI.com."}, BOUND | {"variable": "_B2", "header": "X-Api-Key"},
                    lazyStart=True)
    whole = BOUND | {"header": "authorization"}
    assert session["secrets"] == [whole, BOUND | {"variable": "_B2", "header": "x-api-key"}], session["secrets"]
    assert "OPENAI_API_KEY=openai@api.openai.com:authorization" in cli(cay, "show", "s")
    assert update(cay, "s", setSecrets=[BOUND | {"host": "other.example"}], removeSecrets=["_B2", "no"])["secrets"] \
        == [whole | {"host": "other.example"}]
    for wrong, words in (({"variable": "1X"}, "variable"), ({"variable": "A=B"}, "variable"), ({"secret": "../x"}, "secret"),
                         ({"host": "*.openai.com"}, "host"), ({"host": "192.0.2.1"}, "host"), ({"host": ""}, "host"),
                         ({"host": "a.b:443"}, "host"), ({"header": "content-length"}, "header"),
                         ({"header": "a b"}, "header")):
        error = fails("invalid_argument", update, cay, "s", setSecrets=[BOUND | wrong])
        assert words in error.message, (wrong, error)
    many = [BOUND | {"variable": f"V{n}"} for n in range(64)]
    fails("invalid_argument", update, cay, "s", setSecrets=many)
    assert len(update(cay, "s", setSecrets=many, removeSecrets=["OPENAI_API_KEY"])["secrets"]) == 64
    for mode in ("NONE", "OPEN"):
        for call in (lambda network: update(cay, "s", network=network), lambda network: cay.fork("s", network=network),
                     lambda network: cay.create("t", network=network, secrets=[BOUND])):
            error = fails("failed_precondition", call, {"mode": f"NETWORK_MODE_{mode}"})
            assert "--network filtered" in error.message, error
    fails("failed_precondition", cay.create, "t", secrets=[BOUND])
    assert "secrets" not in update(cay, "s", network={"mode": "NETWORK_MODE_NONE"}, removeSecrets=[b["variable"] for b in many])


@case
def placeholders(cay):
    """every command has a placeholder in its environment, never the value; what runs changes nothing"""
    set_secret(cay, "openai")
    using(cay, "s", BOUND, env={"OPENAI_API_KEY": "of the session"})
    placeholder = env_of(cay, "s")
    assert PLACEHOLDER.fullmatch(placeholder), placeholder
    tool = cay.bash("s", "echo $OPENAI_API_KEY")
    assert placeholder in str(tool), tool
    assert cay.sh("s", "echo $OPENAI_API_KEY", env={"OPENAI_API_KEY": "mine"}) == "mine\n"
    cay.background("s", "echo ready; sleep 1000")
    inside = [pid for pid in cay.processes() if placeholder.encode() in Path(f"/proc/{pid}/environ").read_bytes()]
    assert inside
    assert not [pid for pid in inside if VALUE.encode() in Path(f"/proc/{pid}/environ").read_bytes() or memory_with(pid, VALUE)]
    done = subprocess.run([CAY, "exec", "s", "--", "sh", "-c", "echo $OPENAI_API_KEY"], capture_output=True, text=True, timeout=60,
                          check=True, env={"CAY_URL": f"unix:{cay.run_dir}/cayd.sock"})
    assert done.stdout.strip() == placeholder
    using(cay, "other", BOUND)
    assert env_of(cay, "other") != placeholder and PLACEHOLDER.fullmatch(env_of(cay, "other"))
    cay.restart()
    assert env_of(cay, "s") == placeholder
    update(cay, "s", setSecrets=[BOUND | {"variable": "SECOND"}])
    assert PLACEHOLDER.fullmatch(env_of(cay, "s", "SECOND")) and env_of(cay, "s", "SECOND") != placeholder
    update(cay, "s", removeSecrets=["OPENAI_API_KEY"])
    assert env_of(cay, "s") == "of the session"
    assert not files_with(cay, VALUE)
    forget_all(cay)


@case
def trusted(cay):
    """programs find the certificates of the base and the host's own, in a file that no difference shows"""
    using(cay, "s", BOUND)
    own = Path("/etc/ssl/certs/ca-certificates.crt").read_bytes()[:4000]
    assert cay.sh("s", f"cat {TRUSTED}").count("BEGIN CERTIFICATE") == 1
    for name in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"):
        assert env_of(cay, "s", name) == TRUSTED
    cay.turn("s")
    cay.sh("s", "mkdir -p /etc/ssl/certs", user="root")
    cay.write("s", "/etc/ssl/certs/ca-certificates.crt", own, user="root")
    cay.turn("s")
    for points in ({"toSnapshot": "turn-0001"}, {"fromSnapshot": "turn-0001", "toSnapshot": "turn-0002"}):
        assert not [path for path in cay.diff("s", **points)[0] if "cay-" in path]
    update(cay, "s", setSecrets=[BOUND | {"variable": "SECOND"}])
    text = cay.sh("s", f"cat {TRUSTED}")
    assert text.startswith(own.decode()) and text.count("BEGIN CERTIFICATE") == own.count(b"BEGIN CERTIFICATE") + 1
    assert "PRIVATE" not in text
    cay.rollback("s", "turn-0001")
    assert "BEGIN CERTIFICATE" in cay.sh("s", f"cat {TRUSTED}")
    cay.create("without", network=FILTERED)
    assert env_of(cay, "without", "SSL_CERT_FILE") == ""
    assert cay.sh("without", f"test -e {TRUSTED} || echo none") == "none\n"
    update(cay, "without", setSecrets=[BOUND])
    assert "BEGIN CERTIFICATE" in cay.sh("without", f"cat {TRUSTED}")


@case
def kept_by_forks(cay):
    """forks have the bindings with placeholders of their own; exports name them, and imports leave them out"""
    set_secret(cay, "openai")
    using(cay, "s", BOUND)
    cay.turn("s")
    [fork] = cay.fork("s", snapshot="turn-0001", newSessionId="f")
    assert (fork.get("session") or fork)["secrets"] == [BOUND | {"header": "authorization"}], fork
    assert env_of(cay, "f") != env_of(cay, "s") and PLACEHOLDER.fullmatch(env_of(cay, "f"))
    _, data = export(cay, "s")
    plain = subprocess.run(["zstd", "-dc"], input=data, capture_output=True, check=True).stdout
    assert b"api.openai.com" in plain and VALUE.encode() not in plain
    imported = import_(cay, data, sessionId="i")
    assert "secrets" not in cay.get("i"), imported
    assert env_of(cay, "i") == ""
    forget_all(cay)


@case
def reached(cay):
    """the network of a session with a binding reaches its host at port 443, unless a rule denies it"""
    using(cay, "s", BOUND, lazyStart=True)

    def verdict(*destinations):
        found = cay.call(SANDBOX + "CheckNetwork", {"sessionId": "s", "destinations": list(destinations)})["verdicts"]
        return [(one.get("allowed", False), one.get("rule", "")) for one in found]
    assert verdict("https://api.openai.com/x", "api.openai.com:80", "openai.com:443") \
        == [(True, "api.openai.com:443"), (False, "api.openai.com:443"), (False, "")]
    update(cay, "s", network=FILTERED | {"deny": ["*.openai.com"]})
    assert verdict("api.openai.com:443") == [(False, "*.openai.com")]
    # Rules of requests say what the value may be used for, and the binding opens no more.
    for rule in ("GET https://api.openai.com/v1/*", "GET https://*.openai.com/v1/*"):
        update(cay, "s", network=FILTERED | {"allow": [rule]})
        assert verdict("GET https://api.openai.com/v1/models", "POST https://api.openai.com/v1/models",
                       "GET https://api.openai.com/v2") == [(True, rule), (False, rule), (False, rule)], rule
    update(cay, "s", network=FILTERED | {"deny": ["POST https://api.openai.com/*"]})
    assert [one for one, _ in verdict("GET https://api.openai.com/", "POST https://api.openai.com/")] == [True, False]


@case
def by_flags(cay):
    """cay create, run and update take --secret, which asks for a filtered network by itself"""
    flag = "OPENAI_API_KEY=openai@api.openai.com"
    cli(cay, "create", "--name", "s", "--base", "small", "--lazy", "--secret", flag, "--secret", "B=two@b.example:x-key")
    session = cay.get("s")
    assert session["network"]["mode"] == "NETWORK_MODE_FILTERED"
    assert [(one["variable"], one["header"]) for one in session["secrets"]] == [("OPENAI_API_KEY", "authorization"), ("B", "x-key")]
    cli(cay, "update", "s", "--unbind", "B", "--secret", "C=two@b.example")
    assert [one["variable"] for one in cay.get("s")["secrets"]] == ["OPENAI_API_KEY", "C"]
    assert PLACEHOLDER.fullmatch(cli(cay, "run", "--base", "small", "--secret", flag, "--", "sh", "-c", "echo $OPENAI_API_KEY").strip())
    for wrong in ("X", "X=y", "=y@z", "X=@z", "X=y@", "X=y@:h"):
        assert "VARIABLE=SECRET@HOST" in cli(cay, "update", "s", "--secret", wrong, status=125), wrong


@case
def for_keys_only(cay):
    """whoever holds a session's token, like a program inside, binds nothing and sees no list of secrets"""
    alice = owner_of(cay, "alice")
    set_secret(alice, "openai")
    using(alice, "s", lazyStart=True)
    token = Client(cay, alice.call(SANDBOX + "GetSession", {"sessionId": "s", "includeTokens": True})["tokens"]["accessToken"])
    fails("permission_denied", update, token, "s", setSecrets=[BOUND | {"host": "evil.example"}])
    fails("permission_denied", secrets_of, token)
    fails("permission_denied", set_secret, token, "openai")
    alice.destroy("s")
    forget_all(alice)


if __name__ == "__main__":
    run_with_cayd("--default-base", "small")
