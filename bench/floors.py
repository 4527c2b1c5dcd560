# SPDX-License-Identifier: Apache-2.0
"""What a store's system calls take without a daemon: the same steps on the same file system, and nothing else.

Times are taken in Python around single calls, which adds some microseconds to milliseconds.
"""

import ctypes
import fcntl
import itertools
import os
import statistics
import struct
import time

SNAP_CREATE_V2 = 0x50009417
SNAP_DESTROY = 0x5000940F
SUBVOL_CREATE = 0x5000940E
SUBVOL_RDONLY = 2
LINES = 100  # of a changed file, as session.write makes it
MNT_DETACH = 2
libc = ctypes.CDLL(None, use_errno=True)
numbers = itertools.count()


def timed_ms(function, *arguments):
    since = time.perf_counter_ns()
    function(*arguments)
    return (time.perf_counter_ns() - since) / 1e6


def write_files(directory, count, text):
    """As the tools do it: a new file that takes the old one's place."""
    for number in range(count):
        new = f"{directory}/.new{number}"
        with open(new, "w", encoding="ascii") as file:
            file.write(f"{text}\n" * LINES)
        os.rename(new, f"{directory}/f{number}")


class Btrfs:
    """Subvolumes in one directory, by ioctl. `base` is made by whoever fills it."""

    def __init__(self, directory):
        os.makedirs(directory, exist_ok=True)
        self.directory = directory
        self.fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)

    def command(self, number, argument):
        fcntl.ioctl(self.fd, number, bytearray(argument))

    def make(self, name):
        self.command(SUBVOL_CREATE, struct.pack("q4088s", 0, name.encode()))

    def clone(self, name, copy, is_sealed):
        source = os.open(f"{self.directory}/{name}", os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.command(SNAP_CREATE_V2, struct.pack(
                "qQQ32s4040s", source, 0, SUBVOL_RDONLY if is_sealed else 0, b"", copy.encode()))
        finally:
            os.close(source)

    def remove(self, name):
        self.command(SNAP_DESTROY, struct.pack("q4088s", 0, name.encode()))

    def time_create(self, calls):
        """Milliseconds of a writable clone of the base."""
        names = [f"c{next(numbers)}" for _ in range(calls)]
        times = [timed_ms(self.clone, "base", name, False) for name in names]
        for name in names:
            self.remove(name)
        return statistics.median(times)

    def time_turn(self, calls, files):
        """Milliseconds of a sealed clone of a tree in which files were changed."""
        name = f"c{next(numbers)}"
        self.clone("base", name, False)
        turns, times = [], []
        for number in range(calls):
            write_files(f"{self.directory}/{name}/workspace", files, number)
            turns.append(f"t{next(numbers)}")
            times.append(timed_ms(self.clone, name, turns[-1], True))
        for gone in (*turns, name):
            self.remove(gone)
        return statistics.median(times)


class Overlay:
    """Directories and mounts. `base` is the lowest layer."""

    options = "redirect_dir=on,index=off,metacopy=off,xino=off,nfs_export=off,volatile"

    def __init__(self, directory):
        os.makedirs(directory, exist_ok=True)
        self.directory = directory
        os.makedirs(f"{directory}/at", exist_ok=True)

    def mount(self, lower, name):
        for kind in ("u", "w"):
            os.mkdir(f"{self.directory}/{kind}{name}")
        data = f"{self.options},lowerdir={lower},upperdir={self.directory}/u{name},workdir={self.directory}/w{name}"
        if libc.mount(b"overlay", f"{self.directory}/at".encode(), b"overlay", 0, data.encode()) < 0:
            raise OSError(ctypes.get_errno(), "mount overlay")

    def unmount(self):
        libc.umount2(f"{self.directory}/at".encode(), MNT_DETACH)

    def time_create(self, calls):
        times = []
        for _ in range(calls):
            times.append(timed_ms(self.mount, f"{self.directory}/base", next(numbers)))
            self.unmount()
        return statistics.median(times)

    def time_turn(self, calls, files):
        """A new upper on the old one, mounted."""
        times = []
        lower = f"{self.directory}/base"
        name = next(numbers)
        self.mount(lower, name)
        for number in range(calls):
            write_files(f"{self.directory}/at/workspace", files, number)
            self.unmount()
            lower = f"{self.directory}/u{name}:{lower}"
            name = next(numbers)
            times.append(timed_ms(self.mount, lower, name))
        self.unmount()
        return statistics.median(times)
