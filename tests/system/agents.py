#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What agents run, each a small real job, in a session of the base `host` with little memory and one processor."""

import ctypes
import sys

from daemon import MIB, Cayd, Skip, case, list_if_asked, run
from host_programs import create, needs

LIMITS = {"memoryBytes": str(700 * MIB), "cpus": 1, "pids": "300"}


def sh(cay, script, user="user"):
    return cay.sh("a", script, user=user)


@case
def dpkg(cay):
    """a package is built, installed as root, used, and removed"""
    needs("dpkg", "dpkg-deb", "apt-get")
    sh(cay, "mkdir -p p/DEBIAN p/usr/bin; printf '#!/bin/sh\\necho it works\\n' > p/usr/bin/tried; chmod 755 p/usr/bin/tried;"
            "printf 'Package: tried\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@b>\\nDescription: x\\n' > p/DEBIAN/control;"
            "dpkg-deb --root-owner-group -b p tried.deb")
    assert sh(cay, "apt-get --version | head -1 | cut -c1-3; dpkg -i tried.deb > /dev/null && tried && dpkg -r tried > /dev/null;"
                   "test ! -e /usr/bin/tried", user="root") == "apt\nit works\n"


REPOSITORY = """
mkdir -p repo p/DEBIAN p/usr/bin; printf '#!/bin/sh\necho installed\n' > p/usr/bin/from-repo; chmod 755 p/usr/bin/from-repo
printf 'Package: from-repo\nVersion: 1\nArchitecture: all\nDepends: part\nMaintainer: a <a@b>\nDescription: x\n' > p/DEBIAN/control
dpkg-deb --root-owner-group -b p repo/from-repo.deb
sed -i 's/^Package.*/Package: part/; /^Depends/d' p/DEBIAN/control; rm -r p/usr; dpkg-deb --root-owner-group -b p repo/part.deb
cd repo; for deb in *.deb; do
    dpkg-deb -f $deb; echo Filename: $deb; echo Size: $(stat -c %s $deb); echo SHA256: $(sha256sum < $deb | cut -d' ' -f1); echo
done > Packages
"""


@case
def apt(cay):
    """apt fetches a package and what it depends on from a repository, by a program of its own that is nobody, and installs them"""
    needs("dpkg-deb", "apt-get", "sha256sum")
    sh(cay, f"mkdir /tmp/w; cd /tmp/w; {{ {REPOSITORY} }} > /dev/null")
    sh(cay, "echo 'deb [trusted=yes] copy:/tmp/w/repo ./' | sudo -n tee /etc/apt/sources.list.d/own.list;"
            "sudo -n apt-get -qq update && sudo -n DEBIAN_FRONTEND=noninteractive apt-get -qq install -y from-repo > /dev/null")
    assert sh(cay, "from-repo; dpkg-query -W -f '${Package} ${db:Status-Status}\\n' part from-repo") == "installed\nfrom-repo installed\npart installed\n"


BROWSER = "timeout 60 chromium-headless-shell --disable-gpu --user-data-dir=/tmp/profile"
PAGE = "'data:text/html,<p id=x></p><script>x.textContent=6*7</script>'"


@case
def browser(cay):
    """chromium runs a page's script: without its own sandbox, which it cannot have here, and with it where nesting is allowed"""
    needs("chromium-headless-shell")
    assert '<p id="x">42</p>' in sh(cay, f"{BROWSER} --no-sandbox --dump-dom {PAGE} 2> /dev/null")
    said = sh(cay, f"{BROWSER} --dump-dom {PAGE} 2>&1 || echo refused")
    assert "No usable sandbox" in said and said.endswith("refused\n"), said
    cay.destroy("a")
    create(cay, "a", limits=LIMITS, nesting=True)
    assert '<p id="x">42</p>' in sh(cay, f"{BROWSER} --dump-dom {PAGE} 2> /tmp/said || tail -n 5 /tmp/said")


@case
def git(cay):
    """git commits, branches and merges"""
    needs("git")
    said = sh(cay, "git init -q r && cd r && git config user.email a@b && git config user.name a && echo 1 > f && git add f &&"
                   "git commit -qm one && git checkout -qb side && echo 2 > g && git add g && git commit -qm two &&"
                   "git checkout -q - && git merge -q side && git log --format=%s && git gc -q && git fsck")
    assert said.split()[:2] == ["two", "one"], said


@case
def python(cay):
    """python counts the processor it has, and its processes and threads work"""
    needs("python3")
    said = sh(cay, "/usr/bin/python3 -c 'import os, multiprocessing as m, threading;"
                   "print(os.cpu_count(), len(os.sched_getaffinity(0)), os.sysconf(\"SC_PHYS_PAGES\") * 4096);"
                   "p = m.get_context(\"fork\").Pool(3); print(sum(p.map(abs, range(100)))); p.close(); p.join()'")
    assert said == f"1 1 {700 * MIB}\n4950\n", said


@case
def node(cay):
    """node has a heap that fits its memory, and works"""
    needs("node")
    said = sh(cay, "node -e 'const o = require(\"os\"), v = require(\"v8\"); const h = v.getHeapStatistics().heap_size_limit;"
                   "console.log(o.totalmem(), o.cpus().length, h < o.totalmem()); let a = []; for (let i = 0; i < 1e6; i++) a.push({i});"
                   "console.log(a.length)'")
    assert said == f"{700 * MIB} 1 true\n1000000\n", said


@case
def java(cay):
    """java takes a part of the memory it has, and one processor"""
    needs("java")
    said = sh(cay, "java -XX:+PrintFlagsFinal -Xshare:auto -version 2>/dev/null | awk '$2 == \"MaxHeapSize\" {print $4}'")
    assert 0 < int(said) <= 350 * MIB, said


@case
def debuggers(cay):
    """gdb and strace look into a process, as the user and as root"""
    needs("gdb", "strace", "sleep")
    for user in ("user", "root"):
        said = sh(cay, "gdb -q -batch -ex 'break main' -ex 'info inferiors' -ex 'starti' -ex 'info registers rip' -ex kill "
                       "--args /bin/true 2>&1; strace -f -e trace=execve sh -c 'ls / > /dev/null' 2>&1", user=user)
        assert "rip " in said and said.count("execve(") >= 2, (user, said[-1500:])
        said = sh(cay, "sleep 100 & gdb -q -batch -p $! -ex 'info proc' 2>&1; kill $!", user=user)
        assert "cmdline = 'sleep 100'" in said, (user, said[-1500:])


FILTER = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(444, None, 0, 1))
program = struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x15, 0, 1, 63) + struct.pack("HBBI", 6, 0, 0, 0x50000 | 99)
program += struct.pack("HBBI", 6, 0, 0, 0x7fff0000)
code = ctypes.create_string_buffer(program)
head = struct.pack("HxxxxxxQ", 4, ctypes.addressof(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(317, 1, 0, head) == 0, ctypes.get_errno()
try:
    os.uname()
except OSError as error:
    print(error.errno)
"""


@case
def filters(cay):
    """a program filters its own system calls, and those of what it starts; it finds the Landlock that the kernel has"""
    needs("python3")
    landlock = ctypes.CDLL(None).syscall(444, None, 0, 1)
    for user in ("user", "root"):
        assert sh(cay, f"/usr/bin/python3 -c '{FILTER}'", user=user) == f"{landlock}\n99\n"


@case
def sudo(cay):
    """a user of the group sudo becomes root, and somebody else, and nothing is complained of"""
    needs("sudo")
    assert sh(cay, "sudo -n true 2>&1; sudo -n -u nobody true 2>&1") == ""
    assert sh(cay, "sudo -n id -u; sudo -n -u nobody id -un; sudo -n sh -c 'echo x > /etc/by-sudo; stat -c %u /etc/by-sudo'") == "0\nnobody\n0\n"


@case
def redis(cay):
    """redis serves and keeps what it was told"""
    needs("redis-check-rdb", "redis-cli")  # the first is the server, by another name
    serve = "(exec -a redis-server redis-check-rdb --port 0 --unixsocket /tmp/r.sock --dir /tmp --daemonize yes > /dev/null);"
    ask = "redis-cli -s /tmp/r.sock"
    ready = f"until {ask} ping 2> /dev/null | grep -q PONG; do sleep 0.05; done;"
    said = cay.sh("a", f"exec /bin/bash -c \"{serve} {ready} {ask} incr n; {ask} shutdown save; test -s /tmp/dump.rdb; {serve} {ready} {ask} incr n;"
                       f"{ask} shutdown nosave\"", user="user")
    assert said == "1\n2\n", said


@case
def postgres(cay):
    """postgres makes a cluster, serves it, and ends in order"""
    needs("psql")
    found = sh(cay, "ls -d /usr/lib/postgresql/*/bin/initdb 2> /dev/null | head -n 1; true").strip()
    if not found:
        raise Skip("this machine has no postgres, so its base has none")
    programs = found.removesuffix("/initdb")
    said = sh(cay, f"cd /tmp; {programs}/initdb -D pg -A trust -N > /dev/null && {programs}/pg_ctl -D pg -w -l log -o \"-k /tmp -h ''\" start > /dev/null;"
                   "psql -qh /tmp -d postgres -Atc 'create table t (a int); insert into t select generate_series(1, 1000); select sum(a) from t';"
                   f"{programs}/pg_ctl -D pg -w -m fast stop | tail -n 1")
    assert said == "500500\nserver stopped\n", said


PODMAN = "podman --storage-driver vfs --cgroup-manager cgroupfs --events-backend file"


@case
def podman(cay):
    """with nesting podman runs a container of a local image, for root and for a user without ids of its own"""
    needs("podman", "crun", "busybox")
    cay.destroy("a")
    create(cay, "a", limits=LIMITS, nesting=True)
    sh(cay, "mkdir -p /etc/containers; echo '{\"default\": [{\"type\": \"insecureAcceptAnything\"}]}' > /etc/containers/policy.json;"
            "printf '[containers]\\ndefault_sysctls = []\\nkeyring = false\\n' > /etc/containers/containers.conf;"
            "mkdir -p /tmp/image/bin; cp \"$(command -v busybox)\" /tmp/image/bin/busybox; tar -C /tmp/image -cf /tmp/image.tar .", user="root")
    for user in ("root", "user"):
        said = sh(cay, f"cd /tmp; {PODMAN} import -q image.tar localhost/box > /dev/null 2>&1;"
                       f"{PODMAN} run --rm --network none --cgroups disabled localhost/box /bin/busybox sh -c 'echo $$; id -u; ls -A /' 2> /tmp/said-$(id -u)"
                       " || tail -n 5 /tmp/said-$(id -u)", user=user).split()
        assert said[:3] == ["1", "0", "bin"], (user, said)


@case
def tmux(cay):
    """a terminal goes on without anybody"""
    needs("tmux")
    said = sh(cay, "export HOME=/tmp; tmux new-session -d -s s 'echo in tmux > /tmp/seen; sleep 20' &&"
                   "while ! [ -s /tmp/seen ]; do sleep 0.05; done; cat /tmp/seen; tmux list-sessions | cut -d: -f1; tmux kill-server")
    assert said == "in tmux\ns\n", said


if __name__ == "__main__":
    list_if_asked()
    with Cayd() as daemon:
        if not daemon.has_host_base:
            print("1..0 # SKIP the folder for tests is on another file system than /usr")
            sys.exit(0)
        run(daemon, before_each=lambda: create(daemon, "a", limits=LIMITS), after_each=lambda: daemon.destroy("a", missingOk=True))
