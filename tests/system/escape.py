#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cay selftest --escape`, as a user runs it: nothing gets out of a sandbox, and every probe gets somewhere without one.

Takes the programs cayd and cay.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from daemon import CAYD, case, eventually, is_sanitized, list_if_asked, run

CAY = sys.argv[2]
SECONDS_MAX = 60
# What the kernels of machines for tests may lack. Another name here is a probe that has nothing to reach any more: a mistake, most likely.
MAY_LACK = set("""node_of_disk node_of_memory sysrq modprobe_path binfmt uevent_helper kcore sched_debug scsi acpi device_memory device_mapper
    device_kvm device_fuse device_tun device_loop device_console device_kmsg oom_score init_module finit_module delete_module kexec kexec_file iopl ioperm
    calls_of_32_bits calls_of_x32 hard_limit vsock alg bluetooth tipc rds can x25 xdp smc kcm pfkey pppox netfilter_socket audit_socket xfrm_socket
    diag_socket host_loopback6 host_address memory_secret listmount release_agent cgroup_procs cgroup_limits power firmware debugfs securityfs
    page_flags timer_list slabinfo vmallocinfo kallsyms neighbour_address shared_memory perf bpf userfaultfd io_uring irq mount_cgroup""".split())


def selftest(*flags, **options):
    return subprocess.run([CAY, "selftest", "--escape", *flags], capture_output=True, text=True, check=False, **options)


def running(directory):
    """Processes that have the directory in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(directory).encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def nothing_left(directory):
    assert os.listdir(directory) == [], os.listdir(directory)
    assert str(directory) not in Path("/proc/self/mounts").read_text()
    assert not running(directory), running(directory)


@case
def nothing_is_reached(_):
    """no probe reaches anything from a sandbox, each does without one, and it takes less than a minute; nothing is left"""
    with tempfile.TemporaryDirectory(prefix="cayesc-") as directory:
        done = selftest("--json", env={**os.environ, "TMPDIR": directory})
        assert done.stdout, done.stderr
        told = json.loads(done.stdout)
        bad = [(probe["name"], name, cell) for probe in told["probes"] for name, cell in probe["runtimes"].items()
               if cell["verdict"] not in ("denied", "absent")]
        broken = [(probe["name"], probe["control"]) for probe in told["probes"] if probe["control"]["verdict"] not in ("reached", "absent")]
        lacking = {probe["name"] for probe in told["probes"] if probe["control"]["verdict"] == "absent"} - MAY_LACK
        assert not bad and not broken and not lacking, (bad, broken, lacking)
        assert done.returncode == 0 and told["ok"], (done.returncode, done.stderr)
        judged = [runtime["name"] for runtime in told["runtimes"] if runtime["judged"]]
        assert "namespaces" in judged and "none" not in judged, told["runtimes"]
        assert len(told["probes"]) > 180 and all(probe["title"] for probe in told["probes"])
        print(f"# {len(told['probes'])} probes, {judged}, {told['duration_ms']} ms", file=sys.stderr)
        assert told["duration_ms"] < SECONDS_MAX * 1000 or is_sanitized(CAYD), told["duration_ms"]
        nothing_left(directory)


@case
def is_refused(_):
    """without root, or without a word of what to test, it says so and does nothing"""
    bare = subprocess.run([CAY, "selftest"], capture_output=True, text=True, check=False)
    assert bare.returncode == 125 and "--escape" in bare.stderr, bare
    poor = selftest(user=65534, group=65534)
    assert poor.returncode == 125 and "root" in poor.stderr, poor


@case
def interrupted(_):
    """Ctrl-C ends all of it: daemon, sandboxes, files"""
    with tempfile.TemporaryDirectory(prefix="cayesc-") as directory:
        with subprocess.Popen([CAY, "selftest", "--escape"], env={**os.environ, "TMPDIR": directory}, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as process:
            eventually(lambda: len(list(Path(directory).glob("cay-*/run/**/*"))) > 3, "sandboxes are there")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 125 and "interrupted" in process.stderr.read()
        nothing_left(directory)


if __name__ == "__main__":
    list_if_asked()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(0)
    run(None)
