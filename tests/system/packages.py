#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: what is in them, and how they are used: packages.py CAYD

They are made once for all cases, by `./dev deb`. With --full they are installed, upgraded, used and removed in a fresh
Debian 12 (packages_inside).
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

from daemon import CAYD, IS_FULL, Skip, case, run

ROOT = Path(__file__).resolve().parent.parent.parent
OLDER = "0.0.1"

LIB = "/usr/lib/*"
DOC = "/usr/share/doc"
HOLDS = {
    "cay": f"""/etc/cay/cayd.conf /usr/bin/cay /usr/sbin/cayd /usr/libexec/cay/cay-egress /usr/libexec/cay/cay-egress-tls /usr/libexec/cay/cay-init /usr/libexec/cay/cay-probe /usr/share/cay/code_interpreter.py
        /usr/lib/systemd/system/cayd.service /usr/lib/systemd/system/cayd.socket /usr/lib/sysusers.d/cay.conf
        /usr/lib/tmpfiles.d/cay.conf /usr/share/bash-completion/completions/cay /usr/share/zsh/site-functions/_cay
        /usr/share/fish/vendor_completions.d/cay.fish /usr/share/man/man1/cay.1.gz /usr/share/man/man5/cayd.conf.5.gz
        /usr/share/man/man8/cayd.8.gz /usr/share/lintian/overrides/cay {DOC}/cay/changelog.gz {DOC}/cay/copyright""",
    "libcay1": f"{LIB}/libcay.so.1 {DOC}/libcay1/changelog.gz {DOC}/libcay1/copyright",
    "libcay-dev": f"""/usr/include/cay/api.h /usr/include/cay/cay.h /usr/include/cay/client.h /usr/include/cay/control.h
        /usr/include/cay/env.h /usr/include/cay/error.h /usr/include/cay/stream.h {LIB}/libcay.a {LIB}/libcay.so {LIB}/pkgconfig/cay.pc
        /usr/share/cay/python/cay.py /usr/share/man/man3/libcay.3.gz /usr/share/man/man3/cay_env.3.gz
        /usr/share/man/man3/cay_control.3.gz {DOC}/libcay-dev/examples/agent.c {DOC}/libcay-dev/examples/orchestrator.c
        {DOC}/libcay-dev/examples/README.md {DOC}/libcay-dev/changelog.gz {DOC}/libcay-dev/copyright""",
}


def output(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


class Packages:
    """The packages by their names, unpacked as well; made when they are needed."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.files = {}

    def __getitem__(self, name):
        return self.make()[name]

    def make(self):
        if not shutil.which("dpkg-deb"):
            raise Skip("there is no dpkg-deb")
        if not self.files:
            self.files = by_name(output(ROOT / "dev", "deb"))
            for name, path in self.files.items():
                output("dpkg-deb", "--raw-extract", path, self.folder / name)
        return self.files

    def tree(self, name):
        self.make()
        return self.folder / name

    def field(self, name, field):
        return output("dpkg-deb", "--field", self[name], field).strip()


def by_name(listing):
    return {Path(line).name.split("_")[0]: Path(line) for line in listing.split()}


def paths(tree):
    """Files and links, without what dpkg itself wants; the machine's own directory of libraries as a star."""
    found = {"/" + str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_symlink() or not path.is_dir()}
    return {re.sub(r"^/usr/lib/[^/]*-linux-gnu[^/]*/", "/usr/lib/*/", path) for path in found if not path.startswith("/DEBIAN/")}


@case
def holds(packages):
    """each package has what it should have, and nothing else"""
    assert set(packages.make()) == set(HOLDS), packages.files
    for name, wanted in HOLDS.items():
        assert paths(packages.tree(name)) == set(wanted.split()), sorted(paths(packages.tree(name)) ^ set(wanted.split()))


def maintainer():
    """Whoever says so; otherwise without an address, rather than with one that is nobody's."""
    name, address = os.environ.get("DEBFULLNAME", "The Cay authors"), os.environ.get("DEBEMAIL")
    return f"{name} <{address}>" if address else name


@case
def control(packages):
    """the fields of the packages are right: versions, configuration, scripts"""
    version = re.search(r"version: '(.*)'", (ROOT / "meson.build").read_text())[1]
    for name in HOLDS:
        assert packages.field(name, "Version") == version
        assert packages.field(name, "Description")
        assert packages.field(name, "Maintainer") == maintainer(), packages.field(name, "Maintainer")
        assert "${" not in (packages.tree(name) / "DEBIAN/control").read_text()
        scripts = {path.name for path in (packages.tree(name) / "DEBIAN").glob("p*") if os.access(path, os.X_OK)}
        assert scripts == ({"postinst", "prerm", "postrm"} if name == "cay" else set()), (name, scripts)
    assert (packages.tree("cay") / "DEBIAN/conffiles").read_text() == "/etc/cay/cayd.conf\n"
    assert (packages.tree("libcay1") / "DEBIAN/shlibs").read_text() == f"libcay 1 libcay1 (>= {version})\n"
    assert f"libcay1 (= {version})" in packages.field("libcay-dev", "Depends")
    assert "nftables" in packages.field("cay", "Recommends")


@case
def dependencies(packages):
    """what a program links with and what it opens at run time are dependencies, and no library that a client does not need"""
    def depends(name):
        return {word.split()[0] for word in packages.field(name, "Depends").split(", ")}
    assert depends("libcay1") == {"libc6", "libpcre2-8-0", "libssl3", "zlib1g"}, depends("libcay1")
    assert {"libarchive13", "libssl3", "zlib1g", "libpcre2-8-0", "libsqlite3-0"} <= depends("cay"), depends("cay")
    assert not any("curl" in word for word in depends("cay"))
    assert depends("libcay-dev") == {"libcay1", "libc6-dev"}, depends("libcay-dev")


@case
def no_trace(packages):
    """nothing in the packages names the place where they were made, and programs have no debugging symbols"""
    for name in HOLDS:
        for path in sorted(packages.tree(name).rglob("*")):
            if path.is_symlink() or path.is_dir():
                continue
            data = path.read_bytes()
            for trace in (str(ROOT), "build-release", tempfile.gettempdir() + "/tmp"):
                assert trace.encode() not in data, f"{path.relative_to(packages.folder)} has {trace}"
            assert not data.startswith(b"\x7fELF") or ".debug_info" not in output("readelf", "-SW", path), path
            mode = path.stat().st_mode & 0o7777
            assert mode in (0o644, 0o755), (path, oct(mode))


@case
def same_bytes(packages):
    """packages that are made again have the same bytes"""
    first = {name: hashlib.sha256(path.read_bytes()).digest() for name, path in packages.make().items()}
    with tempfile.TemporaryDirectory() as folder:
        second = by_name(output(ROOT / "tools/deb", ROOT / "build-release", folder))
        assert first == {name: hashlib.sha256(path.read_bytes()).digest() for name, path in second.items()}


@case
def example(packages):
    """the daemon takes the configuration of the package, also with all that is commented out in it"""
    text = (packages.tree("cay") / "etc/cay/cayd.conf").read_text()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cayd.conf"
        path.write_text(text)
        given = output(CAYD, "--config", path, "--print-config")
        assert str(path) not in given.replace(f"config = {path}", ""), "it sets something"
        keys = re.findall(r"^#(\w+ = .*)$", text, re.MULTILINE)
        assert len(keys) > 5
        path.write_text("\n".join(keys) + "\n")
        output(CAYD, "--config", path, "--print-config")
        for key in keys:
            # A value that a reader could take for the default is the default.
            name, _, value = key.partition(" = ")
            assert name.startswith("tls_") or f"{name} = {value} " in f"{given} ".replace("\n", " \n"), (key, given)


@case
def uninstalled(packages):
    """what was installed, twice even, is gone when it was uninstalled; what others put there stays"""
    packages.make()  # with the prefix /usr, so that nothing is made anew for this
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "usr/share/man/man1/other.1"
        other.parent.mkdir(parents=True)
        other.write_text("")
        environment = os.environ | {"DESTDIR": folder}
        for _ in range(2):
            output(ROOT / "dev", "install", "--prefix", "/usr", env=environment)
        assert (Path(folder) / "usr/sbin/cayd").exists()
        output(ROOT / "dev", "uninstall", "--prefix", "/usr", env=environment)
        left = {str(path.relative_to(folder)) for path in Path(folder).rglob("*")}
        assert left == {"usr", "usr/share", "usr/share/man", "usr/share/man/man1", "usr/share/man/man1/other.1"}, left
        done = subprocess.run([ROOT / "dev", "uninstall", "--prefix", "/usr"], env=environment, capture_output=True, check=False)
        assert done.returncode == 1 and b"nothing was installed" in done.stderr, done


@case
def fresh(packages):
    """in a fresh Debian the service answers, programs build, an upgrade keeps sandboxes, removing and purging keep data"""
    if not IS_FULL:
        raise Skip("only with --full")
    if os.geteuid() or not shutil.which("debootstrap"):
        raise Skip("it needs root and debootstrap")
    packages.make()
    # Debian's own check wants somebody to write to, as whoever hands packages on has.
    environment = os.environ | {"DEBEMAIL": "cay@example.org"}
    older, current = packages.folder / "older", packages.folder / "packages"
    output(ROOT / "tools/deb", ROOT / "build-release", older, OLDER, env=environment)
    output(ROOT / "tools/deb", ROOT / "build-release", current, env=environment)
    (older / "version").write_text(OLDER)
    group = f"{os.environ.get('CAY_TEST_RUN', 'caytest')}-{uuid.uuid4().hex[:8]}"
    print(output(ROOT / "tools/fresh-root", "--with", older, "--with", current, "--with", Path(__file__).parent / "packages_inside",
                 "/src/packages_inside", group), end="")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="caydeb-") as place:
        run(Packages(place))
