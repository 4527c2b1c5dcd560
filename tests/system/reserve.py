#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that wait for sessions to come: a session that gets one is like one that was started for it, and
whatever happens to the daemon, nothing of them is left."""

import os
import re
import signal
from pathlib import Path

from daemon import MIB, SANDBOX, Cayd, case, eventually, good, together
from oracle import NO_HOST_BASE
from small_base import import_small, run_with_cayd, small_cayd

SIZE = 3
# What a sandbox is, as its programs see it. Numbers that are each sandbox's own are left out.
LOOK = """
hostname; id; umask; pwd; env | sort
cut -d' ' -f2- /proc/self/mountinfo | sed 's/^[0-9]* [0-9:]* //; s/[0-9a-f]\\{16\\}/ID/g; s/uid=[0-9]*/uid=N/; s/gid=[0-9]*/gid=N/g' | sort
ls -lnR /dev | grep -v '^total' | sed 's/ [A-Z][a-z][a-z] .* / /'
grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp|NSpid)' /proc/self/status | grep -v NSpid
sed 's/ [0-9]\\{6,\\} / N /' /proc/self/uid_map /proc/self/gid_map
cat /proc/self/limits /proc/net/dev /proc/sys/net/ipv4/ip_unprivileged_port_start
cat /proc/sys/net/ipv4/ping_group_range | wc -w; cat /proc/self/cgroup | sed 's/[0-9a-f]\\{16\\}/ID/'
nproc; grep -E '^(MemTotal|SwapTotal)' /proc/meminfo; grep -c processor /proc/cpuinfo; cat /sys/devices/system/cpu/online
df /dev/shm | tail -n 1 | awk '{print $2}'; ls -A /; ls -A / /dev /proc/self/fd | wc -l; cat /proc/keys /proc/kcore | wc -c
"""


def figures(cay):
    reserve = cay.call(SANDBOX + "HealthCheck").get("reserve", {})
    return {name: int(reserve.get(name, 0)) for name in ("waiting", "size", "memoryBytes", "handedOut", "started")}


def metric(cay, name):
    with cay.socket(60) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n")
        text = b""
        while data := sock.recv(65536):
            text += data
    return float(re.search(rf"^{re.escape(name)} (\S+)$", text.decode(), re.MULTILINE)[1])


def waiting_pids(cay):
    names = cay.reserve()
    return {pid for pid, group in cay.all_processes().items() if any(name in group for name in names)}


def from_reserve(cay, function, *arguments, count=1, **fields):
    """The call takes so many sandboxes from the reserve, and starts none."""
    cay.reserve_full(count)
    before = figures(cay)
    answer = function(*arguments, **fields)
    after = figures(cay)
    assert (after["handedOut"] - before["handedOut"], after["started"] - before["started"]) == (count, 0), (before, after)
    return answer


@case
def is_used(cay):
    """a session gets a sandbox that waits, and another one takes its place"""
    from_reserve(cay, cay.create, "used")
    assert cay.sh("used", "echo fine; hostname") == "fine\nused\n"
    assert metric(cay, 'cay_sandbox_starts_total{from="reserve"}') == figures(cay)["handedOut"] >= 1
    cay.reserve_full()
    assert metric(cay, "cay_reserve_sandboxes") == figures(cay)["waiting"] >= 1
    memory = figures(cay)["memoryBytes"]
    assert 0 <= memory < figures(cay)["waiting"] * 4 * MIB, memory


@case
def is_the_same(cay):
    """a session from the reserve is as one whose sandbox was started for it, also after a turn and a rollback"""
    limits = {"memoryBytes": str(64 * MIB), "pids": "50", "cpus": 0.5}
    cold = cay.create("cold", lazyStart=True, limits=limits)
    looks = {user: cay.sh("cold", LOOK, user=user) for user in ("user", "root")}
    warm = from_reserve(cay, cay.create, "warm", limits=limits)
    assert warm["limits"] == cold["limits"]

    def check(when):
        for user, look in looks.items():
            seen = cay.sh("warm", LOOK, user=user).replace("warm", "cold")
            assert seen == look, (when, user, seen, look)
    check("at first")
    cay.turn("warm")
    check("after a turn")
    cay.rollback("warm", "turn-0001")
    check("after a rollback")


@case
def limits_hold(cay):
    """limits of a session hold in a sandbox from the reserve"""
    limits = {"memoryBytes": str(32 * MIB), "pids": "12", "cpus": 0.5}
    from_reserve(cay, cay.create, "l", limits=limits)
    result = cay.launch("l", "dd", "if=/dev/zero", "of=/dev/null", "bs=80M", "count=1")[0]
    assert result["cause"] == "END_CAUSE_OOM", result
    assert b"fork" in cay.launch("l", "/bin/sh", "-c", "for i in $(seq 30); do sleep 60 & done")[2]
    quota = [(group / name).read_text() for group in cay.cgroups() for name in ("cpu.cfs_quota_us", "cpu.max")
             if (group / name).exists() and group.parent.name == cay.cgroup]
    assert quota and all(text.startswith("50000") for text in quota), quota


@case
def forks(cay):
    """forks get sandboxes from the reserve"""
    cay.create("origin")
    cay.write("origin", "f", b"content")
    cay.turn("origin")
    for fields in ({}, {"snapshot": "turn-0001"}):
        fork, = from_reserve(cay, cay.fork, "origin", **fields)
        assert cay.sh(fork["id"], "cat f; hostname") == f"content{fork['id']}\n"


@case
def many_at_once(cay):
    """more sessions at once than sandboxes wait: all are made, and then as many wait as may, no more"""
    names = [f"m{number}" for number in range(3 * SIZE)]
    cay.reserve_full()
    good(together(*[lambda name=name: cay.create(name) for name in names]))
    for name in names:
        assert cay.sh(name, "hostname") == f"{name}\n"
    cay.reserve_full(SIZE)
    assert figures(cay)["size"] == SIZE
    eventually(lambda: len(cay.reserve()) == SIZE == figures(cay)["waiting"], "as many wait as may")
    # What waits counts to nobody.
    listed = cay.call(SANDBOX + "HealthCheck")
    assert int(listed["sessionCount"]) == len(names)


@case
def killed_one(cay):
    """a sandbox that was killed while it waited is nobody's trouble"""
    cay.reserve_full()
    for pid in waiting_pids(cay):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not waiting_pids(cay), "they are dead")
    cay.create("after")
    assert cay.sh("after", "echo fine") == "fine\n"
    cay.reserve_full()
    from_reserve(cay, cay.create, "later")
    assert cay.sh("later", "echo fine") == "fine\n"


@case
def daemon_killed(cay):
    """the next daemon removes what a killed one let wait, and takes over sessions that got theirs from there"""
    from_reserve(cay, cay.create, "kept")
    cay.background("kept", "echo ready; exec sleep 1000")
    cay.reserve_full()
    names, pids = cay.reserve(), waiting_pids(cay)
    assert names and pids
    cay.restart()
    assert not pids & set(cay.all_processes()) and not names & cay.reserve(), "the old ones wait on"
    assert not any(names.intersection(path.parts) for path in cay.cgroups())
    assert "sleep 1000" in cay.sh("kept", "ps -o args")
    from_reserve(cay, cay.create, "next")


@case
def side_by_side(cay):
    """daemons side by side have each their own"""
    with Cayd(*NO_HOST_BASE, "--reserve", "1") as other:
        import_small(other)
        for one in (cay, other):
            from_reserve(one, one.create, "same-name")
        for one in (cay, other):
            assert one.sh("same-name", "hostname") == "same-name\n"
        cay.reserve_full()
        mine = waiting_pids(cay)
        other.restart()
        other.reserve_full()
        assert mine & waiting_pids(cay), "the other one ended what waited here"
    assert mine & waiting_pids(cay)
    from_reserve(cay, cay.create, "again")


@case
def ends(_):
    """nothing waits any more when the daemon has ended"""
    with small_cayd(*NO_HOST_BASE, "--reserve", "2") as cay:
        cay.reserve_full()
        assert waiting_pids(cay)
        assert cay.stop() == 0
        assert not cay.all_processes() and not cay.leftovers() and not list(Path(cay.run_dir, "sandboxes").iterdir())
        cay.start()


@case
def none(_):
    """with `reserve = 0` nothing waits"""
    with small_cayd(*NO_HOST_BASE, "--reserve", "0") as cay:
        cay.create("a")
        assert cay.sh("a", "hostname") == "a\n"
        assert "reserve" not in cay.call(SANDBOX + "HealthCheck")
        assert metric(cay, "cay_reserve_sandboxes") == 0
        assert not cay.reserve() and len(cay.all_processes()) == 1


if __name__ == "__main__":
    run_with_cayd(*NO_HOST_BASE, "--reserve", str(SIZE))
