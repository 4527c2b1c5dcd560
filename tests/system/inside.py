#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a sandbox is shown of the machine: its own limits, wherever programs look for them. What it can open in itself,
and what not; and that it shares nothing with its neighbours that could be held or watched."""

import os
import subprocess
import sys

from daemon import KEY, MIB, SANDBOX, Client, case, eventually, fails, init_of
from small_base import run_with_cayd

CPUS = len(os.sched_getaffinity(0))
MEMORY = {"memoryBytes": str(300 * MIB)}
ONE = {"cpus": 0.5} | MEMORY


def meminfo(cay, session_id, name="MemTotal"):
    """In bytes."""
    line = cay.sh(session_id, f"grep ^{name}: /proc/meminfo").split()
    assert line[2] == "kB", line
    return int(line[1]) * 1024


def shown_cpus(cay, session_id):
    """As many as each of the places says where programs look."""
    said = cay.sh(session_id, "nproc; grep -c ^processor /proc/cpuinfo; grep -c '^cpu[0-9]' /proc/stat;"
                              "ls -d /sys/devices/system/cpu/cpu[0-9]* | wc -l; cat /sys/devices/system/cpu/online")
    *counts, online = said.split()
    assert all(int(count) == int(counts[0]) for count in counts), said
    assert online == ("0" if counts[0] == "1" else f"0-{int(counts[0]) - 1}"), said
    return int(counts[0])


def update(cay, session_id, **limits):
    cay.call(SANDBOX + "UpdateSession", {"sessionId": session_id, "limits": limits})


@case
def memory(cay):
    """memory is the session's: in /proc/meminfo, by sysinfo, and in what free says"""
    cay.create("s", limits=MEMORY)
    assert meminfo(cay, "s") == 300 * MIB
    assert 200 * MIB < meminfo(cay, "s", "MemAvailable") <= 300 * MIB
    assert meminfo(cay, "s", "SwapTotal") == 0
    for user in ("root", "user"):
        assert int(cay.sh("s", "free -b | awk '/^Mem/ {print $2}'", user=user)) == 300 * MIB


@case
def processors(cay):
    """processors are the session's: half of one is one, more than there are is all there are"""
    cay.create("one", limits=ONE)
    assert shown_cpus(cay, "one") == 1
    cay.create("all", limits={"cpus": CPUS + 0.5} | MEMORY)
    assert shown_cpus(cay, "all") == CPUS
    cay.create("free")
    assert shown_cpus(cay, "free") == CPUS


@case
def changed(cay):
    """a changed limit is what the next command sees, and soon what runs already"""
    cay.create("s", limits=ONE)
    looks = "while :; do nproc > new; awk 'NR == 1 {print $2}' /proc/meminfo >> new; mv new seen; usleep 50000; done"
    cay.background("s", f"echo ready; {looks}")
    update(cay, "s", cpus=CPUS, memoryBytes=str(400 * MIB))
    assert shown_cpus(cay, "s") == CPUS and meminfo(cay, "s") == 400 * MIB
    seen = lambda: cay.sh("s", "cat seen").split()  # noqa: E731
    eventually(lambda: seen() == [str(CPUS), str(400 * 1024)], "what runs sees it")
    update(cay, "s", cpus=1, memoryBytes=str(200 * MIB))
    assert shown_cpus(cay, "s") == 1 and meminfo(cay, "s") == 200 * MIB
    eventually(lambda: seen() == ["1", str(200 * 1024)], "what runs sees it")


@case
def kept(cay):
    """it stays so over a turn, a rollback, a pause and the end of the daemon"""
    cay.create("s", limits=ONE)
    cay.turn("s")
    assert shown_cpus(cay, "s") == 1 and meminfo(cay, "s") == 300 * MIB
    cay.sh("s", "echo changed > a")
    cay.rollback("s", "turn-0001")
    assert shown_cpus(cay, "s") == 1 and meminfo(cay, "s") == 300 * MIB
    cay.call(SANDBOX + "PauseSession", {"sessionId": "s"})
    cay.call(SANDBOX + "ResumeSession", {"sessionId": "s"})
    assert shown_cpus(cay, "s") == 1 and meminfo(cay, "s") == 300 * MIB
    cay.restart()
    assert shown_cpus(cay, "s") == 1 and meminfo(cay, "s") == 300 * MIB
    update(cay, "s", memoryBytes=str(200 * MIB))
    assert meminfo(cay, "s") == 200 * MIB
    fork = cay.fork("s")[0]["id"]
    assert shown_cpus(cay, fork) == 1 and meminfo(cay, fork) == 200 * MIB


@case
def used(cay):
    """memory and time that are in use are told, while the one who asks goes on"""
    cay.create("s", limits=ONE | {"memoryBytes": str(600 * MIB)})
    before = meminfo(cay, "s", "MemAvailable")
    script = ("echo ready; x=$(head -c 50000000 /dev/zero | tr '\\0' x); "
              "while :; do grep ^MemAvailable /proc/meminfo > m; head -1 /proc/stat > t; mv m mem; mv t time; done")
    cay.background("s", script)
    eventually(lambda: before - meminfo(cay, "s", "MemAvailable") > 30 * MIB, "it is used")
    eventually(lambda: cay.bash("s", "test -e time")["exec"].get("exitCode", 0) == 0, "it looks")
    eventually(lambda: int(cay.sh("s", "awk '{print $2}' mem")) * 1024 < before - 30 * MIB,
               "the process itself sees it")
    ticks = lambda: sum(int(word) for word in cay.sh("s", "cat time").split()[1:4])  # noqa: E731
    first = ticks()
    eventually(lambda: ticks() > first, "its time counts")
    fields = cay.sh("s", "cat /proc/loadavg").split()
    assert len(fields) == 5 and float(fields[0]) <= 2, fields


@case
def affinity(cay):
    """a process that chose its processors itself is told these, and others theirs by number"""
    cay.create("s", limits={"cpus": 1} | MEMORY)
    said = cay.sh("s", "taskset -p $$")
    assert said.split()[-1] == "1", said
    last = 1 << (CPUS - 1)
    said = cay.sh("s", f"taskset -p {last:x} $$ > /dev/null; taskset -p $$; nproc").split()
    assert said[-2:] == [f"{last:x}", "1"], said


@case
def groups(cay):
    """the control groups are told in /sys/fs/cgroup, and nothing there can be changed"""
    cay.create("s", limits=ONE)
    if os.path.isdir("/sys/fs/cgroup/memory"):
        assert int(cay.sh("s", "cat /sys/fs/cgroup/memory/memory.limit_in_bytes")) == 300 * MIB
        assert cay.sh("s", "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us") == "50000\n100000\n"
    else:
        assert int(cay.sh("s", "cat /sys/fs/cgroup/memory.max")) == 300 * MIB
        assert cay.sh("s", "cat /sys/fs/cgroup/cpu.max") == "50000 100000\n"
    for user in ("root", "user"):
        for path in ("/sys/new", "/sys/devices/system/cpu/online", "/proc/meminfo", "/proc/stat",
                     "/dev/.sys/new", "/dev/.sys/devices/system/cpu/online"):
            said = cay.sh("s", f"(echo x > {path}) 2>&1 || echo refused", user=user)
            assert said.endswith("refused\n"), (user, path, said)
        assert cay.sh("s", "(rm -r /dev/.sys /sys/devices) 2>/dev/null; cat /sys/devices/system/cpu/online",
                      user=user) == "0\n"


@case
def tools(cay):
    """tools that read files see what commands see"""
    cay.create("s", limits=ONE)
    cay.sh("s", "true")
    for path in ("/proc/meminfo", "/sys/devices/system/cpu/online"):
        seen = cay.read("s", path).decode()
        assert seen.split()[:2] == cay.sh("s", f"cat {path}").split()[:2], seen


@case
def rests(cay):
    """an init that has had nothing to do for a while keeps no sources open; what it shows is as fresh as ever when it is needed"""
    cay.create("s", limits=ONE)
    cay.sh("s", "touch /tmp/rests")
    init = init_of(cay, "tmp/rests")

    def sources():
        """Those that it has open for reading, not just found."""
        fds = [fd for fd in os.listdir(f"/proc/{init}/fd")
               if os.readlink(f"/proc/{init}/fd/{fd}").endswith(("/memory.stat", "/cpu.stat", "/proc/meminfo"))]
        flags = [int(next(line for line in open(f"/proc/{init}/fdinfo/{fd}", encoding="ascii")
                          if line.startswith("flags:")).split()[1], 8) for fd in fds]
        assert fds
        return sum(not flag & os.O_PATH for flag in flags)

    assert sources() > 0, "it has just run something"
    eventually(lambda: not sources(), "it rests", 20)
    assert b"MemTotal" in cay.read("s", "/proc/meminfo") and cay.read("s", "/sys/devices/system/cpu/possible") == b"0\n"
    update(cay, "s", cpus=CPUS, memoryBytes=str(400 * MIB))
    assert shown_cpus(cay, "s") == CPUS and meminfo(cay, "s") == 400 * MIB
    assert int(cay.sh("s", "free -b | awk '/^Mem/ {print $2}'")) == 400 * MIB


KINDS = ("--user", "--mount", "--net", "--pid", "--ipc", "--uts")


@case
def closed(cay):
    """namespaces and mounts are refused, to root and user, by the filter and by the kernel's own count"""
    cay.create("s")
    for user in ("root", "user"):
        for kind in KINDS:
            said = cay.sh("s", f"unshare {kind} true 2>&1 || echo refused", user=user)
            assert "not permitted" in said and said.endswith("refused\n"), (user, kind, said)
        said = cay.sh("s", "mkdir -p /tmp/m; mount -t tmpfs none /tmp/m 2>&1 || echo refused", user=user)
        assert said.endswith("refused\n"), said
    assert not cay.get("s").get("nesting")
    cay.sh("s", "touch /tmp/here")
    command = ["nsenter", "--user", "--target", str(init_of(cay, "tmp/here")), "cat", "/proc/sys/user/max_user_namespaces"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1\n", "that of commands"


@case
def nesting(cay):
    """with nesting a user makes namespaces, mounts an overlay and a /proc in them, and stays in the sandbox"""
    assert cay.create("n", nesting=True, limits=ONE)["nesting"]
    inner = ("set -e; mkdir -p /tmp/o; mount -t tmpfs none /tmp/o; cd /tmp/o; mkdir low up work all;"
             "echo low > low/a; mount -t overlay -o lowerdir=low,upperdir=up,workdir=work,userxattr none all;"
             "echo up > all/b; cat all/a up/b; mount -t proc none /proc; ls -d /proc/[0-9]* | wc -l; id -u")
    command = f"unshare --user --map-root-user --mount --net --pid --fork sh -c '{inner}'"
    for _ in range(2):
        lines = cay.sh("n", command).split()
        assert lines[:2] == ["low", "up"] and int(lines[2]) <= 4 and lines[3] == "0", lines
        assert cay.sh("n", "ls /tmp/o; nproc") == "1\n", "what was mounted is gone with its namespace"
        cay.turn("n")
    for user in ("root", "user"):
        for refused in ("mount -t tmpfs none /mnt", "mount -t proc none /proc", "umount /proc/meminfo", "ls /dev/.nesting",
                        "echo x > /dev/.nesting/x", "mount -o remount,rw /sys", "unshare --user --map-root-user "
                        "--mount umount /proc/meminfo"):
            said = cay.sh("n", f"({refused}) > /dev/null 2>&1 && echo done || echo refused", user=user)
            assert said == "refused\n", (user, refused, said)
    cay.restart()
    assert cay.get("n")["nesting"] and cay.sh("n", command).split()[:2] == ["low", "up"]
    assert cay.fork("n", newSessionId="f")[0]["nesting"]
    assert cay.sh("f", command).split()[:2] == ["low", "up"]


@case
def who_nests(cay):
    """nesting is an administrator's to choose, unless the configuration says otherwise"""
    user = Client(cay, cay.call(KEY + "CreateKey", {"owner": "team"})["secret"])
    fails("permission_denied", user.create, "u", nesting=True, lazyStart=True, reason="permission_denied")
    cay.create("a", nesting=True, lazyStart=True, owner="team")
    fails("permission_denied", user.fork, "a", newSessionId="b", reason="permission_denied")
    for setting, refused in (("nobody", (user, cay)), ("everybody", ())):
        cay.kill()
        cay.command += ["--nesting", setting]
        cay.start()
        for number, client in enumerate((user, cay)):
            if client in refused:
                fails("permission_denied", client.create, f"s{number}", nesting=True, lazyStart=True)
            else:
                assert client.create(f"s{number}", nesting=True, lazyStart=True)["nesting"]
        del cay.command[-2:]
    cay.restart()


@case
def apart(cay):
    """locks, leases and watches on a file of the base hold and tell nothing of another sandbox"""
    for session_id in ("one", "two"):
        cay.create(session_id)
    cay.background("one", "holder hold /etc/group > said & while ! grep -q ready said; do usleep 10000; done; echo ready;"
                          "wait", user="root")
    assert cay.sh("two", "holder try /etc/group", user="root") == "free\n"
    assert cay.sh("two", "echo x >> /etc/group; tail -1 /etc/group", user="root") == "x\n"
    assert cay.sh("one", "cat said", user="root") == "ready\n", "nothing was heard of the other one"
    assert cay.sh("one", "holder try /etc/group", user="root").split() == ["locked", "leased", "free"]
    eventually(lambda: "heard" in cay.sh("one", "cat said", user="root"), "it is heard in its own sandbox")


if __name__ == "__main__":
    run_with_cayd(holder=sys.argv[2])
