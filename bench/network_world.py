#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What network.py measures in: network_world.py BUILD FOLDER. An internet in network namespaces of its own, a daemon beside it, a session
with an open network and one with a filtered one. Reads lines `CLIENT VERB COUNT BYTES` (round_trip.c), where CLIENT is loopback, open or
filtered; `create MODE`; and `helper`, the PSS of the filtered session's helper in MB. Answers each with a number.
"""

import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import daemon  # noqa: E402
import harness  # noqa: E402
import session  # noqa: E402
import timing  # noqa: E402
from timing import SANDBOX, call  # noqa: E402

CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
SERVER = "52.95.113.10:7000"
CALLS = 12
FILTERED = {"mode": "NETWORK_MODE_FILTERED", "allow": ["52.95.113.0/24"]}
NETWORKS = {"none": {"mode": "NETWORK_MODE_NONE"}, "open": {"mode": "NETWORK_MODE_OPEN"}, "filtered": FILTERED}


def sh(script):
    subprocess.run(["/bin/sh", "-ec", script], check=True)


def unshare(flags):
    if ctypes.CDLL(None, use_errno=True).unshare(flags):
        raise OSError(ctypes.get_errno(), "unshare")


@contextlib.contextmanager
def internet(world):
    """Whoever is out there, with a server for clients from afar and one for those beside it."""
    program = world.program("bench/bench_round_trip")
    unshare(CLONE_NEWNET | CLONE_NEWNS)
    sh("mount --make-rprivate /; ip link set lo up")
    with subprocess.Popen(["unshare", "-np", "--fork", "--kill-child", "/bin/sh", "-c",
                           f"ip link set lo up; ip addr add 52.95.113.10/32 dev lo; {program} serve 7000 & {program} serve {SERVER}"],
                          stdout=subprocess.PIPE) as process:
        for _ in range(2):
            process.stdout.readline()
        there = f"nsenter -t {process.pid} -n ip"
        sh(f"ip link add wan type veth peer name wan netns {process.pid}; ip addr add 52.94.100.2/24 dev wan;"
           f"{there} addr add 52.94.100.1/24 dev wan; ip link set wan up; {there} link set wan up; ip route add default via 52.94.100.1")
        try:
            yield process.pid
        finally:
            process.kill()


def measure(world, server, internet_pid, client, words):
    verb, *rest = words
    where = "7000" if client == "loopback" else SERVER
    program = ["nsenter", "-t", str(internet_pid), "-n", world.program("bench/bench_round_trip")] if client == "loopback" else \
        [world.program("src/bin/cay"), "--url", f"unix:{server.socket}", "exec", client, "--", "/bin/round_trip"]
    said = subprocess.run([*program, verb, where, *rest], capture_output=True, text=True, check=True).stdout
    return timing.read_times(said)["x"].p50_us if said.startswith("x") else float(said)


def create(world, server, mode):
    made = [next(session.names) for _ in range(CALLS)]
    script = [call("x", SANDBOX + "CreateSession", {"sessionId": name, "base": "small", "network": NETWORKS[mode]}) for name in made]
    script += [session.destroy(name) for name in made]
    return timing.calls(world, server, script, timing.all_cpus())["x"].p50_us


def helpers(server):
    """Children of the daemon, by pid."""
    return [pid for task in Path(f"/proc/{server.process.pid}/task").iterdir() for pid in (task / "children").read_text().split()
            if Path(f"/proc/{pid}/comm").read_text() == "cay-egress\n"]


def helper_mb(server):
    (pid,) = helpers(server)
    pss = next(line for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
    return int(pss.split()[1]) / 1024


def answer(world, server, internet_pid, words):
    if words[0] == "create":
        return create(world, server, words[1])
    if words[0] == "helper":
        return helper_mb(server)
    return measure(world, server, internet_pid, words[0], words[1:])


def main():
    build, folder = map(Path, sys.argv[1:])
    with contextlib.ExitStack() as exits, tempfile.TemporaryDirectory(dir=folder) as tmp:
        world = harness.World(harness.QUICK, build, Path(tmp), exits)
        internet_pid = exits.enter_context(internet(world))
        base = world.tmp / "base-network"
        session.make_base(world, base, 0)
        (base / "bin/round_trip").write_bytes(Path(world.program("bench/bench_round_trip")).read_bytes())
        (base / "bin/round_trip").chmod(0o755)
        server = exits.enter_context(daemon.fresh_cayd(world, "--destroy-on-exit", "--reserve", "0", cpus=timing.all_cpus()))
        session.import_base(server, "small", base)
        script = [call("-", SANDBOX + "CreateSession", {"sessionId": mode, "base": "small", "network": NETWORKS[mode]}) for mode in ("open", "filtered")]
        timing.calls(world, server, script, timing.all_cpus())
        assert not helpers(server), "a helper was started before anybody needed it"
        print("ready", flush=True)
        for line in sys.stdin:
            print(answer(world, server, internet_pid, line.split()), flush=True)


if __name__ == "__main__":
    main()
