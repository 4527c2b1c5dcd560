# SPDX-License-Identifier: Apache-2.0
"""What net_services.py serves: certificates of an authority of the test, packages, repositories, files. In a folder."""

import base64
import hashlib
import json
import os
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

from daemon import MIB
from net_services import NAMES, NOBODY
from own_network import sh

LARGE = 5 * MIB + 1

def make_certificates(folder):
    names = ",".join(f"DNS:{name}.test" for name in NAMES)
    (folder / "extensions").write_text(f"subjectAltName={names}\nbasicConstraints=CA:FALSE\n")
    sh(f"""cd {folder}
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj '/CN=authority of the test' \
        -addext keyUsage=keyCertSign -keyout ca-key.pem -out ca.pem
    openssl req -newkey rsa:2048 -nodes -subj '/CN=web.test' -keyout key.pem -out request.pem
    openssl x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -days 2 -extfile extensions -out cert.pem""")


def make_files(folder):
    (folder / "hello").write_text("hello from web.test\n")
    (folder / "large").write_bytes(os.urandom(LARGE))


def make_deb(folder):
    """A flat repository with one package."""
    package = folder / "tried"
    (package / "DEBIAN").mkdir(parents=True)
    control = "Package: tried\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n"
    (package / "DEBIAN/control").write_text(control)
    (package / "usr/bin").mkdir(parents=True)
    (package / "usr/bin/tried").write_text("#!/bin/sh\necho it works\n")
    (package / "usr/bin/tried").chmod(0o755)
    sh(f"cd {folder}; dpkg-deb --root-owner-group -b tried tried.deb; rm -r tried")
    data = (folder / "tried.deb").read_bytes()
    index = f"{control}Filename: ./tried.deb\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
    (folder / "Packages").write_text(index)
    digest = hashlib.sha256(index.encode()).hexdigest()
    (folder / "Release").write_text(f"Date: {time.strftime('%a, %d %b %Y %H:%M:%S UTC', time.gmtime())}\n"
                                    f"SHA256:\n {digest} {len(index)} Packages\n")


def make_npm(folder):
    tarball = folder / "thing-1.0.0.tgz"
    with tempfile.TemporaryDirectory() as temporary:
        package = {"name": "thing", "version": "1.0.0"}
        (Path(temporary) / "package.json").write_text(json.dumps(package))
        (Path(temporary) / "index.js").write_text("module.exports = 'a thing of npm'\n")
        with tarfile.open(tarball, "w:gz") as tar:
            tar.add(temporary, "package")
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()
    package["dist"] = {"tarball": f"https://npm.test/{tarball.name}", "integrity": integrity}
    (folder / "thing").write_text(json.dumps({"name": "thing", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": package}}))


def make_pypi(folder):
    wheel = "thing-1.0-py3-none-any.whl"
    (folder / "simple/thing").mkdir(parents=True)
    with zipfile.ZipFile(folder / wheel, "w") as file:
        file.writestr("thing.py", "WHAT = 'a thing of pypi'\n")
        file.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        file.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr("thing-1.0.dist-info/RECORD", "thing.py,,\nthing-1.0.dist-info/METADATA,,\nthing-1.0.dist-info/WHEEL,,\n"
                                                    "thing-1.0.dist-info/RECORD,,\n")
    digest = hashlib.sha256((folder / wheel).read_bytes()).hexdigest()
    (folder / "simple/thing/index.html").write_text(f'<a href="/{wheel}#sha256={digest}">{wheel}</a>')


def make_git(folder, home):
    """Its files are those of the user `git` (net_services.py), whom clients know by a key."""
    (home / ".ssh").mkdir(parents=True)
    sh(f"""mkdir -p {folder}/git; cd {folder}/git; git init -q --bare -b main project.git
    git init -q -b main work; cd work; for i in 1 2 3; do echo $i > file; git add file; git -c user.name=a -c user.email=a@b commit -qm $i; done
    head -c 1000000 /dev/urandom > large; git add large; git -c user.name=a -c user.email=a@b commit -qm large
    git push -q ../project.git main; cd ..; rm -r work; chown -R {NOBODY}:{NOBODY} project.git
    ln -s ../www/git.test/git/project.git {home}/project.git
    cd {home}/..; ssh-keygen -q -t ed25519 -N '' -f client_key; cp client_key.pub home/.ssh/authorized_keys
    dropbearkey -t ed25519 -f host_key > said; sed -n 's/^ssh-ed25519/git.test &/p' said > known_hosts
    chmod 700 home/.ssh; chown -R {NOBODY}:{NOBODY} home""")


def make_world(folder):
    folder.chmod(0o755)
    make_certificates(folder)
    sites = {}
    for name in ("apt", "git", "npm", "pypi", "web"):
        sites[name] = folder / f"www/{name}.test"
        sites[name].mkdir(parents=True)
    make_files(sites["web"])
    make_deb(sites["apt"])
    make_npm(sites["npm"])
    make_pypi(sites["pypi"])
    make_git(sites["git"], folder / "home")
