# SPDX-License-Identifier: Apache-2.0
"""What a test run left behind on the machine: processes, mounts, loop devices, cgroups, files.

The run's id is in the environment of each of its processes, in the names of its cgroups and network
namespaces, and it is the name of the directory that all its temporary files and mounts are under.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PROC = Path("/proc")
NETNS = Path("/run/netns")


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def processes(run_id, tmp):
    """Processes of the run: our children, those with its id, those that see one of its mounts."""
    found = []
    for entry in PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        stat = read(entry / "stat").rpartition(b")")[2].split()
        if not stat or stat[0] == b"Z":
            continue
        environ = read(entry / "environ").split(b"\0")
        ours = f"CAY_TEST_RUN={run_id}".encode() in environ
        child = int(stat[1]) == os.getpid()
        inside = f"{tmp}/".encode() in read(entry / "mountinfo")
        if ours or child or (inside and not same_mounts(entry)):
            found.append((int(entry.name), entry, environ))
    return found


def same_mounts(entry):
    """Whether a process shares our mount namespace, where mounts() looks already."""
    try:
        return os.readlink(entry / "ns/mnt") == os.readlink("/proc/self/ns/mnt")
    except OSError:
        return True


def mounts(tmp):
    points = [line.split(b" ")[4].decode("unicode_escape")
              for line in read(Path("/proc/self/mountinfo")).splitlines()]
    return [point for point in points if point.startswith(f"{tmp}/")]


def loops(tmp):
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        if read(backing).decode(errors="replace").startswith(f"{tmp}/"):
            found.append(f"/dev/{backing.parent.parent.name}")
    return found


def cgroups(run_id):
    found = []
    for folder, names, _ in os.walk(CGROUPS):
        found += [os.path.join(folder, name) for name in names if name.startswith(run_id)]
    return found


def netns(run_id):
    return [str(path) for path in NETNS.glob(f"{run_id}*")]


def files(tmp):
    return [str(path) for folder in tmp.iterdir() if folder.name != "log" and folder.is_dir()
            for path in folder.iterdir()]


def describe(pid, entry, environ):
    command = read(entry / "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    test = next((v[14:].decode() for v in environ if v.startswith(b"CAY_TEST_NAME=")), "?")
    return f"process {pid} of {test}: {command[:120]}"


def find(run_id, tmp, grace_s, reap):
    """Return one line for each leftover. Processes get GRACE_S seconds to finish their exit."""
    until = time.monotonic() + grace_s
    while True:
        reap()
        left = processes(run_id, tmp)
        if not left or time.monotonic() > until:
            break
        time.sleep(0.02)
    lines = [describe(*process) for process in left]
    lines += [f"mount {point}" for point in mounts(tmp)]
    lines += [f"loop device {device}" for device in loops(tmp)]
    lines += [f"cgroup {path}" for path in cgroups(run_id)]
    lines += [f"network namespace {path}" for path in netns(run_id)]
    lines += [f"file {path}" for path in files(tmp)]
    return lines


def remove(run_id, tmp, reap):
    """Remove what find() found, so that one bad test does not spoil the machine."""
    for _ in range(100):
        left = processes(run_id, tmp)
        if not left:
            break
        for pid, _, _ in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        reap()
        time.sleep(0.02)
    for point in reversed(mounts(tmp)):
        subprocess.run(["umount", "-l", point], check=False)
    for device in loops(tmp):
        subprocess.run(["losetup", "-d", device], check=False)
    for path in cgroups(run_id):
        for folder, _, _ in os.walk(path, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                pass
    for path in netns(run_id):
        subprocess.run(["ip", "netns", "del", os.path.basename(path)], check=False)
    # Never delete through a mount that would not go.
    if not mounts(tmp):
        shutil.rmtree(tmp, ignore_errors=True)
