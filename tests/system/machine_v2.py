#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions and their limits where there are version 2 control groups only, in an emulated machine.

    machine_v2.py CAYD CAY CAY_INIT KERNEL_TOOL
"""

import json
import random
import shlex
import sys

sys.dont_write_bytecode = True
from daemon import Skip, case, eventually, list_if_asked, run  # noqa: E402
from machine import machine_on  # noqa: E402

# Takes memory until it is killed; a shell that only stores text.
EATS = "x=0123456789abcdef; while :; do x=$x$x; done"
SMALL = {"limits": {"memoryBytes": str(16 << 20)}}
BEATS = "while :; do date +%s%N > /workspace/new && mv /workspace/new /workspace/beat; usleep 20000; done"


class Guest:
    """What a client does, done in the machine."""

    def __init__(self, machine):
        self.machine = machine

    def api(self, method, **request):
        said = self.machine.sh(f"cay api {method} {shlex.quote(json.dumps(request))}")
        return json.loads(said)

    def bash(self, cmd, policy=None, **params):
        call = {"toolName": "bash", "params": {"cmd": cmd} | params, "policy": policy or {}}
        return self.api("SandboxService/ExecuteTool", sessionId="v", call=call)["result"]

    def sh(self, cmd):
        result = self.bash(cmd)
        assert not result.get("isError"), result
        return result["content"][0]["text"] if result.get("content") else ""

    def beat(self):
        return self.sh("cat /workspace/beat")

    def beats(self, what):
        before = self.beat()
        eventually(lambda: self.beat() != before, what)

    def groups(self, name):
        """Lines of the files of that name, with the group, of all groups of sessions."""
        said = self.machine.sh(f"find /sys/fs/cgroup -mindepth 3 -name {name} -exec grep -H '' {{}} +")
        return [line.split(f"/{name}:", 1) for line in said.splitlines()]

    def has(self, name, line):
        found = self.groups(name)
        assert line in [said for _, said in found], (name, line, found)


    def begin(self):
        """Each case has a session `v`, and in it a process by which it is seen whether others live."""
        self.machine.sh("cay create --name v --memory 96M --pids 60 --cpus 1.5")
        self.bash(BEATS, background=True)
        eventually(lambda: "1" in self.sh("cat /workspace/beat || true"), "the neighbour runs")

    def end(self):
        self.machine.sh("cay rm --missing-ok v")


@case
def runs(guest):
    """a session runs its commands, in groups of version 2"""
    kinds = guest.machine.sh("cut -d' ' -f3 /proc/mounts | sort -u").split()
    assert "cgroup2" in kinds and "cgroup" not in kinds, kinds
    assert guest.sh("echo hi; id -u") == "hi\n1000\n"
    guest.has("memory.max", str(96 << 20))
    guest.has("pids.max", "60")
    guest.has("cpu.max", "150000 100000")


@case
def shown(guest):
    """programs see the limits: in /proc, and in the session's own group, which they cannot change"""
    assert guest.sh("grep MemTotal /proc/meminfo").split()[1] == str(96 << 10)
    assert guest.sh("cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/cpu.max") == f"{96 << 20}\n150000 100000\n"
    assert " - cgroup2 " in guest.sh("grep ' /sys/fs/cgroup ' /proc/self/mountinfo")
    assert guest.sh("cat /proc/self/cgroup") == "0::/\n"
    for file in ("memory.max", "cgroup.procs", "cgroup.kill", "cgroup.freeze", "init/cgroup.procs"):
        said = guest.sh(f"(echo 1 > /sys/fs/cgroup/{file}) 2>&1 || echo refused")
        assert said.endswith("refused\n"), (file, said)
    guest.machine.sh("cay update v --memory 128M --cpus 1")
    assert guest.sh("grep MemTotal /proc/meminfo").split()[1] == str(128 << 10)
    assert guest.sh("cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/cpu.max") == f"{128 << 20}\n100000 100000\n"
    assert guest.sh("nproc; grep -c ^processor /proc/cpuinfo; cat /sys/devices/system/cpu/online") == "1\n1\n0\n"


@case
def memory(guest):
    """a call that takes too much memory is killed and told so, and the session's others go on"""
    for _ in range(2):
        result = guest.bash(EATS, SMALL)
        assert result["errorReason"] == "oom" and result["exec"]["cause"] == "END_CAUSE_OOM", result
    result = guest.bash(f"(sh -c '{EATS}') & wait $!; exit 7", SMALL)
    assert result["exec"]["cause"] == "END_CAUSE_OOM", ("a child is of the call, too", result)
    result = guest.bash(f"(sh -c '{EATS}') & wait $!; echo went on", SMALL)
    assert result["exec"]["cause"] == "END_CAUSE_EXITED" and "went on" in str(result["content"]), result
    assert guest.machine.run(f"cay exec v --memory 16M -- sh -c '{EATS}'")[0] == 137
    guest.beats("the neighbour lives")


@case
def processes(guest):
    """a call has no more processes than it may, and the next one as many as it likes"""
    forks = "i=0; while [ $i -lt 20 ]; do sleep 5 & i=$((i+1)); done; echo all"
    kill = {"leftovers": "LEFTOVER_POLICY_KILL"}
    result = guest.bash(forks, {"limits": {"pids": "8"}} | kill)
    assert result.get("isError") and "fork" in str(result), result
    result = guest.bash(forks, kill)
    assert not result.get("isError") and "all" in str(result), result


@case
def processors(guest):
    """a call's share of the processors is its own"""
    process = guest.bash("sleep 1000", {"limits": {"cpus": 0.25}}, background=True)["processId"]
    guest.has("cpu.max", "25000 100000")
    guest.machine.sh(f"cay kill v {process}")


@case
def pause(guest):
    """what is paused stands still, and goes on"""
    guest.machine.sh("cay pause v")
    guest.has("cgroup.events", "frozen 1")
    assert guest.machine.run("cay exec v -- true")[0] == 125
    guest.machine.sh("cay resume v")
    guest.beats("it goes on")


@case
def changed_memory(guest):
    """memory is raised and lowered, and not below what is in use: nobody is killed for it"""
    guest.machine.sh("cay update v --memory 128M")
    guest.has("memory.max", str(128 << 20))
    guest.sh("dd if=/dev/zero of=/dev/shm/held bs=1M count=40 2>/dev/null")
    status, said = guest.machine.run("cay update v --memory 24M")
    assert status == 125 and "MiB of memory now" in said, (status, said)
    guest.has("memory.max", str(128 << 20))
    guest.beats("the neighbour lives")
    guest.sh("rm /dev/shm/held")
    guest.machine.sh("cay update v --memory 96M")
    guest.has("memory.max", str(96 << 20))


@case
def adoption(guest):
    """a killed daemon's successor has the session, its processes and their limits"""
    waiting = guest.bash(f"while [ ! -e /workspace/go ]; do usleep 20000; done; {EATS}", SMALL,
                         background=True)["processId"]
    guest.machine.sh("kill -9 $(cat /tmp/pid); while kill -0 $(cat /tmp/pid) 2>/dev/null; do usleep 20000; done")
    guest.machine.start_cayd()
    guest.beats("the neighbour was adopted")
    guest.sh("touch /workspace/go")
    ended = guest.api("ProcessService/WaitProcess", sessionId="v", processId=waiting)["process"]
    assert ended["result"]["cause"] == "END_CAUSE_OOM", ended
    assert guest.bash("true", {"limits": {"pids": "20"}})["exec"].get("exitCode", 0) == 0


@case
def session_memory(guest):
    """what takes all memory of its session is killed for it, and the session goes on"""
    result = guest.bash(EATS)
    assert result["errorReason"] == "oom", result
    assert guest.sh("echo on") == "on\n"


@case
def nothing_stays(guest):
    """a session that is gone leaves no group"""
    (own,) = [group for group, said in guest.groups("memory.max") if said == str(96 << 20)]
    guest.machine.sh("cay rm v")
    eventually(lambda: not any(group.startswith(own) for group, _ in guest.groups("cgroup.events")),
               "its groups are gone")


def main():
    list_if_asked()
    try:
        with machine_on("ext4", random.Random(1)) as machine:
            machine.boot()
            machine.sh("cay base import small /base")
            guest = Guest(machine)
            run(guest, before_each=guest.begin, after_each=guest.end)
    except Skip as skip:
        print(f"1..0 # SKIP {skip}")


if __name__ == "__main__":
    main()
