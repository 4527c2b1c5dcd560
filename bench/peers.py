# SPDX-License-Identifier: Apache-2.0
"""Other programs that isolate a command: crun, runc, runsc, bwrap, podman. All run the same static `true`
on a directory that has nothing else."""

import contextlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import harness
import timing

RUNS = 6  # of a command in one sample
UNIFIED = "/sys/fs/cgroup/unified"  # of a host that has control groups of both versions


@contextlib.contextmanager
def rootfs(world):
    root = world.tmp / "peers-rootfs"
    (root / "bin").mkdir(parents=True)
    for name in ("dev", "proc", "sys", "tmp"):
        (root / name).mkdir()
    shutil.copy(world.program("bench/bench_true"), root / "bin/true")
    yield root


@dataclass
class Oci:
    """A runtime of OCI bundles, with one container that runs."""

    tool: str
    bundle: Path
    before: tuple  # what the tool has to be run below

    def words(self, *words):
        return [self.tool, "--root", f"{self.bundle}/state", *words]

    def run_detached(self, name):
        return self.words("run", "-d", "--bundle", str(self.bundle), name)

    def quietly(self, *words):
        subprocess.run([*self.before, *self.words(*words)], check=False, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def time_create(self, world, cpus):
        name = f"cay-bench-{os.getpid()}-%"
        try:
            return timing.command(world, RUNS, self.run_detached(name), cpus, self.before).p50_us
        finally:
            for number in range(RUNS):
                self.quietly("delete", "--force", name.replace("%", str(number)))

    def time_exec(self, world, cpus):
        words = self.words("exec", f"cay-bench-{os.getpid()}", "/bin/true")
        return timing.command(world, RUNS, words, cpus, self.before).p50_us


class Runsc(Oci):
    """gVisor's own command. What ours has beside it, a network and control groups, it may leave out."""

    def words(self, *words):
        return [self.tool, "--root", f"{self.bundle}/state", "--network=none", "--ignore-cgroups", *words]

    def run_detached(self, name):
        return self.words("run", "--detach", "--bundle", str(self.bundle), name)


def write_bundle(tool, bundle, root):
    """The tool's own specification, with limits as our sessions have them."""
    subprocess.run([tool, "spec"], cwd=bundle, check=True)
    config = json.loads((bundle / "config.json").read_text())
    config["process"].update(terminal=False, args=["/bin/true", "wait"])
    config["root"] = {"path": str(root), "readonly": False}
    config["linux"]["resources"] = {"memory": {"limit": 2 << 30}, "pids": {"limit": 1024},
                                    "devices": [{"allow": False, "access": "rwm"}]}
    (bundle / "config.json").write_text(json.dumps(config))


@contextlib.contextmanager
def oci(world, tool, before, kind=Oci):
    bundle = world.tmp / f"peers-{tool}"
    bundle.mkdir()
    write_bundle(tool, bundle, world.get(rootfs))
    peer = kind(tool, bundle, before)
    name = f"cay-bench-{os.getpid()}"
    try:
        timing.command(world, 1, peer.run_detached(name), timing.all_cpus(), before)
    except ChildProcessError as error:
        raise harness.Skip(f"{tool} does not run here: {error}") from error
    try:
        yield peer
    finally:
        peer.quietly("delete", "--force", name)


@contextlib.contextmanager
def crun(world):
    """crun refuses a host with both versions of control groups: it gets one that has only v1."""
    before = ()
    if os.path.ismount(UNIFIED):
        before = ("unshare", "-m", "sh", "-c", f'umount {UNIFIED} && exec "$@"', "sh")
    with oci(world, "crun", before) as peer:
        yield peer


@contextlib.contextmanager
def runc(world):
    with oci(world, "runc", ()) as peer:
        yield peer


@contextlib.contextmanager
def runsc(world):
    with oci(world, "runsc", (), Runsc) as peer:
        yield peer


def time_bwrap(world, cpus):
    """A sandbox from its start to its end; it has neither limits nor a tree of its own."""
    words = ["bwrap", "--unshare-all", "--bind", str(world.get(rootfs)), "/", "--proc", "/proc",
             "--dev", "/dev", "/bin/true"]
    return timing.command(world, RUNS, words, cpus).p50_us


def time_podman(world, cpus):
    name = f"cay-bench-{os.getpid()}-%"
    words = ["podman", "run", "-d", "--name", name, "--network", "none",
             "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024",
             "--rootfs", str(world.get(rootfs)), "/bin/true", "wait"]
    try:
        return timing.command(world, RUNS, words, cpus).p50_us
    except ChildProcessError as error:
        raise harness.Skip(f"podman does not run here: {error}") from error
    finally:
        for number in range(RUNS):
            subprocess.run(["podman", "rm", "-f", name.replace("%", str(number))], check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
