#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Rules of requests: TLS to their names is looked into, every request is judged, and real clients notice no more of it than of any
other HTTP/1.1. In the internet of filtered_clients.py; the session trusts the host's authority, the helper that of the test."""

import hashlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from daemon import SANDBOX, Cayd, case, eventually, fails, list_if_asked, run
from filtered_world import filtered, helpers
from host_programs import create, needs
from internet import World, update
from net_sites import make_world
from own_network import CLONE_NEWNS, enter, has_nft, sh

RULES = ["GET https://web.test/*", "PUT https://web.test/digest", "* https://git.test/git/project.git/*",
         "GET https://world.test/*", "npm.test:443"]
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
CERTIFICATE = "-----END CERTIFICATE-----\n"


def prepare(cay):
    """The authority is made at the first need."""
    create(cay, "a", network=filtered(*RULES))
    cay.sh("a", "curl -sk https://web.test/hello", user="user")
    kept = cay.data / "authority.pem"
    assert kept.stat().st_mode & 0o777 == 0o600
    certificate = kept.read_text().split(CERTIFICATE)[0] + CERTIFICATE
    cay.write("a", "/tmp/ca.pem", certificate.encode())
    cay.sh("a", f"cat /tmp/ca.pem >> {AUTHORITIES}", user="root")


def says(cay, script):
    return cay.sh("a", script, user="user")


@case
def allowed(cay, _):
    """requests that a rule allows pass, and a client that would rather have HTTP/2 gets HTTP/1.1"""
    assert says(cay, "curl -sS -w '%{http_version}' --http2 https://web.test/hello") == "hello from web.test\n1.1"
    for host in ("web.test:443", "web.test:0443"):
        assert says(cay, f"curl -sS -H 'Host: {host}' https://web.test/hello") == "hello from web.test\n", host
    said = says(cay, "curl -sS https://web.test/hello https://web.test/hello -w '%{num_connects} '")
    assert said == "hello from web.test\n1 hello from web.test\n0 ", said


@case
def refused(cay, _):
    """what no rule allows gets a 403 that says why, and so does what only looks allowed"""
    said = says(cay, "curl -sS -X DELETE -w '%{http_code}' https://web.test/hello")
    assert said == ("network: DELETE https://web.test/hello refused: "
                    "'GET https://web.test/*' allows other requests only\n403"), said
    for flags in ("https://git.test/git/project.git/../other.git/info", "https://git.test/git/project.git/%2e%2e/x",
                  "-H 'Host: npm.test' https://web.test/hello", "-X POST https://web.test/digest"):
        assert says(cay, f"curl -sS --path-as-is -o /dev/null -w '%{{http_code}}' {flags}") == "403", flags


@case
def untrusted(cay, _):
    """a server whose certificate is for other names is not asked, and the client is told"""
    said = says(cay, "curl -sS -w '%{http_code}' https://world.test/hello")
    assert "the server's certificate is not good for the name: hostname mismatch\n502" in said, said


@case
def unread(cay, folder):
    """a name of which no rule of requests speaks shows its own certificate"""
    cay.write("a", "/tmp/theirs.pem", (folder / "ca.pem").read_bytes())
    assert says(cay, "curl -sS -o /dev/null -w '%{http_version}' --cacert /tmp/theirs.pem https://npm.test/thing") == "2"


@case
def large(cay, folder):
    """large bodies pass both ways"""
    wanted = hashlib.sha256((folder / "www/web.test/large").read_bytes()).hexdigest()
    assert says(cay, "curl -sS -o /tmp/large https://web.test/large; sha256sum < /tmp/large").split()[0] == wanted
    for flags in ("", "-H 'Transfer-Encoding: chunked'"):
        assert says(cay, f"curl -sS {flags} -T /tmp/large https://web.test/digest") == wanted, flags


@case
def git(cay, _):
    """git clones and fetches"""
    needs("git")
    assert says(cay, "cd /tmp && git clone -q https://git.test/git/project.git p && cd p && git fetch -q && git log --format=%s") == \
        "large\n3\n2\n1\n"


@case
def node(cay, _):
    """fetch of Node, many at once"""
    needs("node")
    program = ("const get = async (u) => (await fetch(u)).text();"
               "console.log((await Promise.all([...Array(20)].map(() => get('https://web.test/hello')))).length);"
               "console.log((await fetch('https://web.test/x', {method: 'POST', body: 'x'})).status)")
    said = says(cay, f"export NODE_EXTRA_CA_CERTS={AUTHORITIES}; node --input-type=module -e \"{program}\"")
    assert said == "20\n403\n", said


@case
def python(cay, _):
    """urllib, and many connections at once"""
    needs("python3")
    program = ("import urllib.request, concurrent.futures\n"
               "def get(_): return urllib.request.urlopen('https://web.test/hello').read()\n"
               "with concurrent.futures.ThreadPoolExecutor(20) as pool:\n  print(len(set(pool.map(get, range(60)))))\n")
    assert says(cay, f"/usr/bin/python3 - <<'END'\n{program}END") == "1\n"


@case
def explained(cay, _):
    """CheckNetwork tells which request is allowed by which rule, and rules that cannot be are refused"""
    def verdict(text):
        return cay.call(SANDBOX + "CheckNetwork", {"sessionId": "a", "destinations": [text]})["verdicts"][0]
    assert verdict("https://web.test/hello?x") == {
        "destination": "https://web.test/hello?x", "endpoint": "web.test:443", "allowed": True,
        "rule": "GET https://web.test/*", "why": "'GET https://web.test/*' allows it"}
    found = verdict("POST https://web.test/hello")
    assert not found.get("allowed") and found["why"] == "'GET https://web.test/*' allows other requests only", found
    assert verdict("web.test")["why"] == "'GET https://web.test/*' allows some requests to it"
    fails("invalid_argument", update, cay, "a", filtered("GET http://web.test/"))


@case
def switched(cay, _):
    """rules of requests that come later hold for connections that are open: these are cut"""
    update(cay, "a", filtered("web.test:443"))
    try:
        cay.background("a", "exec bash -c 'exec 3<>/dev/tcp/web.test/443; echo ready; cat <&3; echo over > /tmp/over'")
    finally:
        update(cay, "a", filtered(*RULES))
    eventually(lambda: says(cay, "cat /tmp/over 2> /dev/null || true") == "over\n", "the connection is cut")
    assert says(cay, "curl -sS https://web.test/hello") == "hello from web.test\n"


@case
def killed(cay, _):
    """the helper and the daemon are killed, in any order, and requests are judged as before"""
    def works():
        assert says(cay, "curl -sS --retry 5 --retry-all-errors https://web.test/hello") == "hello from web.test\n"
        assert says(cay, "curl -sS -o /dev/null -w '%{http_code}' -X POST --retry 5 https://web.test/hello") == "403"
    works()
    (helper,) = helpers()
    os.kill(helper, signal.SIGKILL)
    works()
    (helper,) = helpers()
    cay.restart()
    works()
    assert helpers() == [helper]
    cay.kill()
    os.kill(helper, signal.SIGKILL)
    cay.start()
    works()


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
