#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Real clients in one session with a filtered network, against servers of net_services.py: what people and agents use works, by names
that rules allow, and is told of others at once.

The session is of the base `host`, so a client that this machine lacks is passed over. All names are served by TLS with an authority
of the test, which the session is given.
"""

import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from daemon import Cayd, Skip, case, list_if_asked, run
from host_programs import create, needs
from internet import World
from net_services import POSTGRES
from net_sites import make_world
from own_network import CLONE_NEWNS, enter, has_nft, sh

RULES = ["apt.test:443", "db.test:5432", "git.test:22,443", "mail.test:25", "npm.test:443", "pypi.test:443", "web.test"]
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


def prepare(cay, folder):
    """The session: it trusts the authority, and has the key for git."""
    create(cay, "a", network={"mode": "NETWORK_MODE_FILTERED", "allow": RULES})
    cay.write("a", "/tmp/ca.pem", (folder / "ca.pem").read_bytes())
    cay.sh("a", f"cat /tmp/ca.pem >> {AUTHORITIES}", user="root")
    for name in ("client_key", "known_hosts"):
        cay.write("a", f"/tmp/{name}", (folder / name).read_bytes())
    cay.sh("a", "chmod 600 /tmp/client_key")


def says(cay, script, user="user"):
    return cay.sh("a", script, user=user)


def refused_at_once(cay, script):
    """A client of a name that no rule allows fails, and does not wait for anything."""
    since = time.monotonic()
    result, out, err = cay.launch("a", "/bin/sh", "-c", script, user="user")
    assert result.get("exitCode"), (script, result, out)
    assert time.monotonic() - since < 10, script
    return (out + err).decode()


# --- clients ---

@case
def curl(cay, _):
    """curl by http, by TLS with HTTP/1.1 and with HTTP/2"""
    needs("curl")
    show = "-sS -w '%{http_version}' "
    for flags, url, version in (("", "http://web.test", "1.1"), ("--http1.1", "https://web.test", "1.1"),
                                ("--http2", "https://web.test", "2"), ("-4", "https://web.test", "2"), ("-6", "https://web.test", "2")):
        assert says(cay, f"curl {show} {flags} {url}/hello") == f"hello from web.test\n{version}", (flags, url)
    # One connection, and several streams on it.
    assert says(cay, "curl -sS --parallel --http2 https://web.test/hello https://web.test/hello https://web.test/hello").count("hello") == 3
    assert "Could not resolve host" in refused_at_once(cay, "curl -sS https://other.test/")


@case
def curl_large(cay, folder):
    """curl brings and takes a large file, by all of these"""
    needs("curl")
    wanted = hashlib.sha256((folder / "www/web.test/large").read_bytes()).hexdigest()
    for flags in ("http://web.test", "--http1.1 https://web.test", "--http2 https://web.test"):
        assert says(cay, f"curl -sS -o /tmp/large {flags}/large; sha256sum < /tmp/large").split()[0] == wanted, flags
        assert says(cay, f"curl -sS -T /tmp/large {flags}/digest") == wanted, flags


@case
def wget(cay, _):
    """wget by http and by TLS"""
    needs("wget")
    for scheme in ("http", "https"):
        assert says(cay, f"wget -qO - {scheme}://web.test/hello") == "hello from web.test\n"
    refused_at_once(cay, "wget --tries=1 -qO - https://other.test/hello")


@case
def openssl(cay, _):
    """openssl s_client sees the certificate of the server itself"""
    needs("openssl")
    said = says(cay, f"openssl s_client -connect web.test:443 -servername web.test -verify_return_error -CAfile {AUTHORITIES} < /dev/null 2>&1")
    assert "Verify return code: 0 (ok)" in said and "authority of the test" in said, said
    refused_at_once(cay, "openssl s_client -connect web.test:443 -servername db.test < /dev/null")


@case
def python(cay, _):
    """requests and urllib of Python, with one connection for several requests"""
    needs("python3")
    if not Path("/usr/lib/python3/dist-packages/requests").exists():
        raise Skip("this machine's Python has no requests, so its base has none")
    program = ("import requests, urllib.request\nwith requests.Session() as s:\n  for _ in range(3): print(s.get('https://web.test/hello').text, end='')\n"
               "print(urllib.request.urlopen('https://web.test/hello').read().decode(), end='')\n"
               "print(urllib.request.urlopen('http://web.test/hello').read().decode(), end='')\n"
               "try: requests.get('https://other.test/')\nexcept requests.ConnectionError as e: print('refused')\n")
    said = says(cay, f"/usr/bin/python3 - <<'END'\n{program}END")
    assert said == "hello from web.test\n" * 5 + "refused\n", said


@case
def node(cay, _):
    """fetch of Node, several at once"""
    needs("node")
    program = ("const get = async (u) => (await fetch(u)).text();"
               "console.log((await Promise.all([...Array(5)].map(() => get('https://web.test/hello')))).join('') + await get('http://web.test/hello'));"
               "await fetch('https://other.test/').catch((e) => console.log(e.cause.code))")
    said = says(cay, f"export NODE_EXTRA_CA_CERTS={AUTHORITIES}; node --input-type=module -e \"{program}\"")
    assert said == "hello from web.test\n" * 6 + "\nENOTFOUND\n", said


@case
def git_https(cay, _):
    """git clones and fetches by TLS"""
    needs("git")
    assert says(cay, "cd /tmp && git clone -q https://git.test/git/project.git by-https && cd by-https && git fetch -q && git log --format=%s") == \
        "large\n3\n2\n1\n"
    refused_at_once(cay, "git clone -q https://other.test/git/project.git /tmp/none")


@case
def git_ssh(cay, _):
    """git clones and pushes by ssh"""
    needs("git", "ssh")
    ssh = "ssh -i /tmp/client_key -o UserKnownHostsFile=/tmp/known_hosts -o StrictHostKeyChecking=yes"
    said = says(cay, f"cd /tmp && export GIT_SSH_COMMAND='{ssh}' && git clone -q git@git.test:project.git by-ssh && cd by-ssh &&"
                     "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m pushed && git push -q origin main:side && git ls-remote origin")
    assert "refs/heads/side" in said and "refs/heads/main" in said, said


@case
def npm(cay, _):
    """npm installs from a registry"""
    needs("npm", "node")
    said = says(cay, f"mkdir -p /tmp/n && cd /tmp/n && export NODE_EXTRA_CA_CERTS={AUTHORITIES} && npm install --silent --no-audit --no-fund "
                     "--no-update-notifier --registry https://npm.test/ thing > /dev/null && node -p 'require(\"thing\")'")
    assert said == "a thing of npm\n", said


@case
def pip(cay, _):
    """pip installs from an index"""
    needs("pip3", "python3")
    said = says(cay, "cd /tmp && /usr/bin/pip3 install -q --disable-pip-version-check --no-cache-dir --index-url https://pypi.test/simple/ "
                     "--target /tmp/p thing && PYTHONPATH=/tmp/p /usr/bin/python3 -c 'import thing; print(thing.WHAT)'")
    assert said == "a thing of pypi\n", said


@case
def apt(cay, _):
    """apt updates and installs from a repository by TLS"""
    needs("apt-get", "dpkg")
    said = says(cay, "mkdir -p /var/lib/apt/lists/partial /var/cache/apt/archives/partial /var/lib/dpkg/info /var/lib/dpkg/updates /etc/apt/apt.conf.d;"
                     "touch -a /var/lib/dpkg/status; rm -rf /etc/apt/sources.list.d; echo 'deb [trusted=yes] https://apt.test/ ./' > /etc/apt/sources.list;"
                     "export DEBIAN_FRONTEND=noninteractive; { apt-get -q update && apt-get -q install -y tried; } > /tmp/said 2>&1 || cat /tmp/said; tried",
                user="root")
    assert said == "it works\n", said


@case
def postgres(cay, _):
    """psql asks a database by TLS, which begins in the middle of its protocol"""
    needs("psql")
    if not POSTGRES:
        raise Skip("this machine has no postgres to ask")
    said = says(cay, f"psql 'host=db.test user=postgres sslmode=verify-full sslrootcert={AUTHORITIES}' -Atc 'select sum(i), count(*) from "
                     "generate_series(1, 100000) i' -c \"select repeat('x', 1000000)\" | cut -c1-20")
    assert said == f"5000050000|100000\n{'x' * 20}\n", said


@case
def mail(cay, _):
    """a protocol in which the server speaks first"""
    needs("python3")
    program = "import smtplib; s = smtplib.SMTP('mail.test', 25, timeout=20); print(s.noop()[0], s.quit()[0])"
    assert says(cay, f"/usr/bin/python3 -c \"{program}\"") == "250 221\n"


@case
def at_once(cay, _):
    """many connections at once, by several names, are all made"""
    needs("curl")
    said = says(cay, "for i in $(seq 40); do curl -sS -o /dev/null -w '%{http_code}\\n' https://web.test/hello & done; wait")
    assert said.split() == ["200"] * 40, said


def main():
    list_if_asked()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(0)
    missing = [name for name in ("dropbear", "node", "git", "nft") if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
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
            with Cayd() as cay:
                if not cay.has_host_base:
                    print("1..0 # SKIP the folder for tests is on another file system than /usr")
                    sys.exit(0)
                try:
                    prepare(cay, folder)
                    cay.keep()
                    run(cay, folder, after_each=cay.reset)
                finally:
                    cay.destroy("a", missingOk=True)
        finally:
            world.close()


if __name__ == "__main__":
    main()
