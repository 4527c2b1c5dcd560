#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Secrets in use: real clients send a placeholder, the server that it is bound to gets the value, and the value is nowhere else: it is
searched for. In the internet of filtered_clients.py, whose web.test says the SHA-256 of a header."""

import base64
import contextlib
import hashlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from daemon import Cayd, SANDBOX, case, eventually, list_if_asked, run
from filtered_world import filtered, helpers
from host_programs import create, needs
from internet import World
from net_sites import make_world
from own_network import CLONE_NEWNS, enter, has_nft, sh
from session_stream import export

SECRET = "cay.v1.SecretService/"
VALUE = "sk-the-value-that-is-searched-for"
BOUND = [{"variable": "API_KEY", "secret": "api", "host": "web.test"},
         {"variable": "X_KEY", "secret": "other", "host": "web.test", "header": "x-key"}]
OTHER = "sk-another-value"


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def set_secret(cay, value, name="api"):
    cay.call(SECRET + "SetSecret", {"name": name, "value": value})


def says(cay, script):
    return cay.sh("a", script, user="user")


def seen(cay, header="authorization", flags='-H "Authorization: Bearer $API_KEY"'):
    """The SHA-256 of what the server found in the header."""
    return says(cay, f"curl -sS --retry 5 --retry-connrefused https://web.test/header/{header} {flags}")


def prepare(cay):
    set_secret(cay, VALUE)
    set_secret(cay, OTHER, "other")
    create(cay, "a", network=filtered("npm.test:443"), secrets=BOUND)


@case
def arrives(cay, _):
    """the server gets the value, in the header that it is bound to, from clients that are told nothing of it"""
    assert seen(cay) == digest(f"Bearer {VALUE}")
    assert seen(cay, "x-key", '-H "X-Key: $X_KEY"') == digest(OTHER)
    basic = base64.b64encode(f"user:{VALUE}".encode()).decode()
    assert seen(cay, flags='-u "user:$API_KEY"') == digest(f"Basic {basic}")


@case
def python(cay, _):
    """urllib of Python trusts the host, and its header gets the value"""
    needs("python3")
    program = ("import os, urllib.request\n"
               "request = urllib.request.Request('https://web.test/header/authorization',"
               " headers={'Authorization': 'Bearer ' + os.environ['API_KEY']})\n"
               "print(urllib.request.urlopen(request).read().decode())\n")
    assert says(cay, f"/usr/bin/python3 - <<'END'\n{program}END").strip() == digest(f"Bearer {VALUE}")


@case
def node(cay, _):
    """fetch of Node does the same"""
    needs("node")
    program = ("const r = await fetch('https://web.test/header/authorization',"
               " {headers: {authorization: 'Bearer ' + process.env.API_KEY}}); console.log(await r.text())")
    assert says(cay, f'node --input-type=module -e "{program}"').strip() == digest(f"Bearer {VALUE}")


@case
def nowhere_else(cay, folder):
    """a placeholder in another header, in the query or bound to another name is refused; a body keeps it as it is"""
    for flags in ('-H "X-Key: $API_KEY"', '-H "A: $API_KEY"', '-G -d "key=$API_KEY"', '-H "Authorization: Bearer $X_KEY"'):
        said = says(cay, f"curl -sS -w ' %{{http_code}}' https://web.test/header/authorization {flags}")
        assert "placeholder of a secret" in said and said.endswith(" 403"), (flags, said)
    placeholder = says(cay, "printf %s $API_KEY")
    assert says(cay, 'curl -sS -d "$API_KEY" https://web.test/digest') == digest(placeholder)
    cay.write("a", "/tmp/theirs.pem", (folder / "ca.pem").read_bytes())
    assert says(cay, 'curl -sS --cacert /tmp/theirs.pem https://npm.test/header/authorization -H "Authorization: $API_KEY"') == \
        digest(placeholder)


@case
def rotated(cay, _):
    """a new value is used at once by the session that runs; a secret that is gone is put in nowhere"""
    try:
        set_secret(cay, VALUE + "-2")
        eventually(lambda: seen(cay) == digest(f"Bearer {VALUE}-2"), "the new value is used")
        cay.call(SECRET + "DeleteSecret", {"name": "api"})
        eventually(lambda: VALUE not in seen(cay) and seen(cay) != digest(f"Bearer {VALUE}-2"), "the value is gone")
    finally:
        set_secret(cay, VALUE)
    eventually(lambda: seen(cay) == digest(f"Bearer {VALUE}"), "it is back")


@case
def last_use(cay, _):
    """the list says when a secret was used"""
    def used():
        return {secret["name"]: "lastUsedAt" in secret for secret in cay.call(SECRET + "ListSecrets")["secrets"]}
    seen(cay)
    eventually(lambda: used()["api"], "its use is told")


@case
def killed(cay, _):
    """helper and daemon are killed in any order, and the value arrives as before"""
    (helper,) = helpers()
    os.kill(helper, signal.SIGKILL)
    assert seen(cay) == digest(f"Bearer {VALUE}")
    cay.restart()
    assert seen(cay) == digest(f"Bearer {VALUE}")
    (helper,) = helpers()
    cay.kill()
    os.kill(helper, signal.SIGKILL)
    cay.start()
    assert seen(cay) == digest(f"Bearer {VALUE}")


def has(path):
    with contextlib.suppress(OSError):
        return VALUE.encode() in path.read_bytes()
    return False


def memory_has(pid):
    """Whether a process has the value in memory that it can write to."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if line.split()[1].startswith("rw") and end - start <= 1 << 30:  # a sanitizer's own is terabytes
                with contextlib.suppress(OSError):
                    memory.seek(start)
                    if VALUE.encode() in memory.read(end - start):
                        return True
    return False


@case
def found_nowhere(cay, _):
    """the value is in no memory of the sandbox or the daemon, no argument, no environment, no file, no export"""
    cay.background("a", "echo ready; while :; do curl -sS https://web.test/header/authorization "
                        '-H "Authorization: Bearer $API_KEY" > /tmp/last; sleep 0.05; done')
    eventually(lambda: says(cay, "cat /tmp/last") == digest(f"Bearer {VALUE}"), "a program uses it all the time")
    cay.turn("a")
    for _ in range(5):
        assert not [pid for pid in cay.processes() if memory_has(pid)]
    assert not memory_has(cay.process.pid)
    (helper,) = helpers()
    assert memory_has(helper), "the search finds what is there"
    mine = {str(os.getpid()), "self", "thread-self"}
    for entry in Path("/proc").iterdir():
        if entry.name not in mine:
            assert not has(entry / "cmdline") and not has(entry / "environ"), entry
    # Trees are shared with the base of this machine; what the session has added is below its layers, with links to nothing.
    for root, folders, files in os.walk(cay.folder):
        folders[:] = [name for name in folders if name != "usr"]
        for name in files:
            path = Path(root, name)
            assert path.is_symlink() or not path.is_file() or path.stat().st_size > 1 << 24 or not has(path), path
    assert VALUE not in str(cay.call(SANDBOX + "GetSession", {"sessionId": "a"}))
    info, data = export(cay, "a")
    assert VALUE.encode() not in data and VALUE not in str(info)


def main():
    list_if_asked()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(0)
    missing = [name for name in ("curl", "dropbear", "git", "nft", "node")
               if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if missing or not has_nft():
        print(f"1..0 # SKIP needs {' '.join(missing)}")
        sys.exit(0)
    enter(CLONE_NEWNS)
    sh("mount --make-rprivate /")
    with tempfile.TemporaryDirectory(prefix="caysys-") as temporary:
        folder = Path(temporary)
        make_world(folder)
        world = World("net_services.py", folder)
        try:
            with Cayd("--network-trust", str(folder / "ca.pem")) as cay:
                if not cay.has_host_base:
                    print("1..0 # SKIP the folder for tests is on another file system than /usr")
                    sys.exit(0)
                try:
                    prepare(cay)
                    cay.keep()
                    run(cay, folder, after_each=cay.reset)
                finally:
                    cay.destroy("a", missingOk=True)
        finally:
            world.close()


if __name__ == "__main__":
    main()
