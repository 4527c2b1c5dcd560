# SPDX-License-Identifier: Apache-2.0
"""A machine of our own, emulated by qemu: Debian's kernel, version 2 control groups only, cayd and what it needs.
For programs with the arguments CAYD CAY CAY_INIT KERNEL_TOOL.

Commands are sent to a shell on its first serial line; the kernel talks on the second. Its root is an image that
nobody writes to; what must survive is on another disk.
"""

import contextlib
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from daemon import Skip
from power_disk import PowerDisk
from small_base import busybox as find_busybox, make_root as make_base

CAYD, CAY, CAY_INIT, KERNEL_TOOL = sys.argv[1:5]
DISK_MIB = 160
ROOT_MIB = 160
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "btrfs": ["mkfs.btrfs", "-q", "-f"]}

MODULES = ("virtio_pci", "virtio_blk", "overlay")
MODULES_OF = {"ext4": (), "btrfs": ("crc32c_generic", "btrfs")}
MEMORY_MIB = 768
BOOT_S = 240  # emulated, on a machine that does other things too
ANSWER_S = 180

FIRST = """#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
for module in $(/bin/busybox cat /modules/order); do /bin/busybox insmod /modules/$module; done
/bin/busybox mount -t ext4 -o ro /dev/vda /new
/bin/busybox umount /proc
/bin/busybox mount --move /dev /new/dev
exec /bin/busybox switch_root /new /guest
"""
GUEST = """#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
export PATH=/build/src/bin:/applets HOME=/tmp NO_COLOR=1 TERM=dumb
mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t cgroup2 cgroup /sys/fs/cgroup
ip link set lo up
# What is written reaches the disk soon, in any order: the more there is to be lost on the way.
echo 20 >/proc/sys/vm/dirty_writeback_centisecs
echo 50 >/proc/sys/vm/dirty_expire_centisecs
mount -t $(sed 's/.*disk=\\([a-z0-9]*\\).*/\\1/' /proc/cmdline) /dev/vdb /data
stty -F /dev/ttyS0 raw -echo
exec </dev/ttyS0 >/dev/ttyS0 2>&1
echo "@ready@"
while read -r line; do
    eval "$line"
    echo "@$?@"
done
"""


def newc(name, mode, data=b"", numbers=(0, 0)):
    """One entry of an initial RAM disk."""
    fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, *numbers, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def modules_of(kernel, names):
    """The modules' files, each after those it needs."""
    files = {path.stem.replace("-", "_"): path for path in (kernel / "lib").rglob("*.ko")}
    order = []

    def add(name):
        path = files.get(name)
        if not path or path in order:
            return
        for needed in re.search(rb"\0depends=([^\0]*)\0", path.read_bytes())[1].decode().split(","):
            add(needed.replace("-", "_"))
        order.append(path)
    for name in names:
        add(name)
    return order


def make_initrd(kernel, busybox, filesystem, target):
    order = modules_of(kernel, MODULES + MODULES_OF[filesystem])
    with open(target, "wb") as file:
        for name in ("bin", "dev", "proc", "new", "modules"):
            file.write(newc(name, 0o40755))
        file.write(newc("dev/console", 0o20600, numbers=(5, 1)))
        file.write(newc("init", 0o100755, FIRST.encode()))
        file.write(newc("bin/busybox", 0o100755, Path(busybox).read_bytes()))
        for path in order:
            file.write(newc(f"modules/{path.name}", 0o100644, path.read_bytes()))
        file.write(newc("modules/order", 0o100644, " ".join(path.name for path in order).encode()))
        file.write(newc("TRAILER!!!", 0))


def copy_program(root, program):
    """A program with its libraries, below root, where it was."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    for path in re.findall(r"(/\S+)", listed):
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def make_root(root, busybox, programs, base):
    """`programs` go to /build as they are in the build directory; `base` is a tree to import."""
    for name in ("bin", "applets", "dev", "proc", "sys", "tmp", "run", "data", "build", "etc"):
        (root / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(busybox, root / "bin/busybox")
    (root / "bin/sh").symlink_to("busybox")
    (root / "guest").write_text(GUEST)
    (root / "guest").chmod(0o755)
    (root / "etc/passwd").write_text("root:x:0:0:root:/tmp:/bin/sh\n")
    for name, path in programs.items():
        target = root / "build" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
        copy_program(root, path)
    subprocess.run(["cp", "-a", str(base), str(root / "base")], check=True)  # with its owners
    # Links to programs of the guest's own need a place that can be written to before anything is.
    for name in subprocess.run([busybox, "--list"], capture_output=True, text=True,
                               check=True).stdout.split():
        (root / "applets" / name).symlink_to("/bin/busybox")


def make_image(root, target, mebibytes):
    with open(target, "wb") as file:
        file.truncate(mebibytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-d", str(root), str(target)], check=True)


class Machine:
    """Start, talk to it, cut its power, start again."""

    def __init__(self, folder, kernel, disk, filesystem):
        self.folder = Path(folder)
        self.kernel = next((kernel / "boot").glob("vmlinuz-*"))
        self.disk = disk
        self.filesystem = filesystem
        self.process = None
        self.line = None
        self.heard = b""

    def console(self):
        return (self.folder / "console").read_text(errors="replace")[-3000:]

    def start(self):
        self.disk.start()
        serial = self.folder / "serial"
        serial.unlink(missing_ok=True)
        drive = "if=virtio,format=raw"
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", str(MEMORY_MIB),
             "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-kernel", str(self.kernel),
             "-initrd", str(self.folder / "initrd"),
             "-append", f"console=ttyS1 panic=-1 quiet mitigations=off disk={self.filesystem}",
             "-drive", f"{drive},file={self.folder}/root.img,readonly=on",
             "-drive", f"{drive},file=nbd+unix:///?socket={self.disk.address},cache=writeback",
             "-serial", f"unix:{serial},server=on,wait=off", "-serial", f"file:{self.folder}/console"],
            stdin=subprocess.DEVNULL)
        self.line = socket.socket(socket.AF_UNIX)
        until = time.monotonic() + BOOT_S
        while self.line.connect_ex(str(serial)):
            assert self.process.poll() is None and time.monotonic() < until, "qemu does not start"
            time.sleep(0.02)
        self.heard = b""
        self.until(rb"@ready@", BOOT_S)

    def until(self, pattern, seconds):
        """What the machine says up to there, and the match."""
        until = time.monotonic() + seconds
        while not (match := re.search(pattern, self.heard)):
            left = until - time.monotonic()
            assert left > 0, f"no {pattern} after {seconds} s; heard {self.heard[-2000:]}; {self.console()}"
            if select.select([self.line], [], [], left)[0]:
                more = self.line.recv(65536)
                assert more, f"the machine is gone; heard {self.heard[-2000:]}; {self.console()}"
                self.heard += more
        said = self.heard[:match.start()]
        self.heard = self.heard[match.end():]
        return said.decode(errors="replace"), match

    def send(self, command):
        """Not waited for."""
        self.line.sendall(command.encode() + b"\n")

    def answer(self, seconds=ANSWER_S):
        said, match = self.until(rb"@(\d+)@\r?\n", seconds)
        return int(match[1]), said.replace("\r\n", "\n")

    def run(self, command):
        """Status and output of a command."""
        self.send(command)
        return self.answer()

    def sh(self, command):
        status, said = self.run(command)
        assert status == 0, f"{command}: {status}: {said}"
        return said

    def boot(self):
        """Up, with a daemon that serves."""
        self.start()
        self.sh("mkdir -p /data/cay && chmod 700 /data/cay")
        self.start_cayd()

    def start_cayd(self):
        self.sh("cayd --data /data/cay --run /run/cay --listen 127.0.0.1:0 --default-base small"
                " --no-access-log </dev/null >/tmp/said 2>>/tmp/log & echo $! >/tmp/pid; "
                "until grep -q ready /tmp/said; do kill -0 $! || { cat /tmp/log; break; }; usleep 50000; done; "
                "grep -q ready /tmp/said")

    def cut(self):
        """No goodbye for anybody."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None
            self.line.close()
        return self.disk.cut()


def find_kernel():
    if not shutil.which("qemu-system-x86_64"):
        raise Skip("needs qemu-system-x86_64 (package qemu-system-x86)")
    folder = Path("guest-kernel").absolute()
    done = subprocess.run([KERNEL_TOOL, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skip(done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "no kernel to emulate")
    return folder


@contextlib.contextmanager
def machine_on(filesystem, chance):
    """A machine with an empty disk; what it runs is the build under test."""
    kernel = find_kernel()
    busybox = find_busybox()
    with tempfile.TemporaryDirectory(prefix="caysys-machine-") as name:
        folder = Path(name)
        base = folder / "base"
        base.mkdir()
        make_base(base, {})
        make_root(folder / "root", busybox,
                  {"src/bin/cayd": CAYD, "src/bin/cay": CAY, "src/init/cay-init": CAY_INIT}, base)
        make_image(folder / "root", folder / "root.img", ROOT_MIB)
        shutil.rmtree(folder / "root")
        make_initrd(kernel, busybox, filesystem, folder / "initrd")
        with open(folder / "disk", "wb") as disk:
            disk.truncate(DISK_MIB << 20)
        subprocess.run([*MAKE[filesystem], str(folder / "disk")], check=True)
        machine = Machine(folder, kernel, PowerDisk(folder / "disk", folder / "nbd", chance), filesystem)
        try:
            yield machine
        finally:
            machine.cut()
