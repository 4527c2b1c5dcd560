#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that nothing acts by a name that could have become a link to elsewhere.

The daemon has all rights on the machine, and whoever is in a sandbox can exchange a name of its tree with a link at any
instant. So calls that take a path, or that follow a link, are kept in `sys`, which looks a name up once and then works on
the descriptor (sys/resolve.h, sys/pin.h). Elsewhere only the forms that follow nothing are allowed, with a directory's
descriptor; ALLOWED names the files whose paths are the daemon's own, and why.
"""

import re
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import checks  # noqa: E402

# Of these no form is allowed: sys/pin.h has another for each.
BANNED = """chmod lchmod fchmodat fchmodat2 chown lchown fchownat utime utimes lutimes futimesat utimensat
    setxattr lsetxattr getxattr lgetxattr listxattr llistxattr removexattr lremovexattr inotify_add_watch
    name_to_handle_at open_by_handle_at""".split()

# These take a path from the working directory or the machine's root.
BY_PATH = """open openat2 creat fopen freopen opendir stat lstat stat64 access eaccess euidaccess truncate link symlink
    unlink remove rename mkdir rmdir mknod mkfifo readlink realpath canonicalize_file_name chdir chroot mkdtemp mkstemp
    mkostemp statfs statvfs nftw ftw fts_open scandir glob umount umount2 mount pivot_root swapon acct
    archive_read_open_filename archive_write_open_filename archive_read_disk_open archive_write_disk_new""".split()

# These do not follow the last name, given the word; one name in an open directory is all they are given.
AT = {
    "openat": r'O_NOFOLLOW|"\.\.?"',
    "fstatat": r"AT_SYMLINK_NOFOLLOW",
    "statx": r"AT_SYMLINK_NOFOLLOW",
    "faccessat": r"AT_SYMLINK_NOFOLLOW",
    "linkat": r",\s*0$",
    "execveat": r"AT_EMPTY_PATH",
}
# Nor do these, but on the way to the last name they do: a name has no slash. (Of names that are not written out in the
# call the check sees nothing.)
ONE_NAME = {name: r'^(?![^"]*"[^"]*/)' for name in ("mkdirat", "mknodat", "symlinkat", "unlinkat", "renameat", "readlinkat")}
AT |= ONE_NAME

# By the number of the system call.
RAW = re.compile(r"\bSYS_(" + "|".join(sorted({*BANNED, *BY_PATH, *AT} - {"mount"})) + r")\b")

CALL = re.compile(r"(?<![\w.>])(" + "|".join([*BANNED, *BY_PATH, *AT]) + r")\s*\(")
NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.S)
DEFINITION = re.compile(r"\b(static|void|int|bool|char|ssize_t|FILE|struct \w+|\[\[\w+\]\])\s+\**$")

# Rooms that have no rights which their user has not, or that wait inside the sandbox; and the home of the safe forms.
OUTSIDE = ("sys/", "init/", "probe/", "base/", "client/", "cli/", "bin/")
# Commands of the CLI that write what came from a sandbox.
INSIDE = ("cli/commands/cp", "cli/commands/transfer")
# Rooms that never get a descriptor of a tree: their paths are /proc, /sys and the daemon's own directories.
BLIND = ("front/", "io/", "host/db/", "host/keys/", "host/event/", "host/net/", "host/pool/",
         "host/doctor/")

DATA = "the data directory, which is the daemon's user's alone"
RUN = "the run directory, which is the daemon's user's alone"
PROC = "of the host's /proc, by number"
SYS = "of the host's /sys"
HOST = "files of the host that its packages own"
TOLD = "a path that the user of this command typed"
ALLOWED = {
    "io/listener.c": {"chmod": "the daemon's own socket, just bound in its run directory"},
    "egress/confine.c": {"mount": "in a namespace of its own, before it has heard anybody", "chdir": "the same"},
    "host/live/filtering.c": {"open": "cay-egress, which stands beside the daemon; and " + RUN},
    "host/net/helper.c": {"SYS_execveat": "a descriptor, and no path"},
    "host/net/listeners.c": {"fstatat": PROC},
    "host/runtime/image.c": {"open": "cay-init, from the configuration"},
    "host/runtime/launch.c": {"SYS_execveat": "a descriptor, and no path"},
    "host/runtime/resident_start.c": {"open": PROC, "stat": PROC + "; which file a process runs, and nothing of it"},
    "host/runtime/namespaces/switch.c": {
        "SYS_pivot_root": "of the directory it stands in", "SYS_umount2": "of the directory it stands in", "open": PROC},
    "host/runtime/gvisor/gvisor.c": {"access": "runsc, from the configuration", "open": PROC},
    "host/runtime/gvisor/place.c": {"fchmodat": RUN, "fchownat": RUN},
    "host/runtime/gvisor/tree.c": {"SYS_umount2": "of a directory that is root's, nothing followed", "open": PROC},
    "host/runtime/none/none.c": {
        "mkdir": RUN, "rmdir": RUN, "open": RUN, "umount2": RUN, "statx": "of the descriptor alone"},
    "host/runtime/resident.c": {"mkdir": RUN, "open": PROC},
    "host/runtime/runtime.c": {"fopen": PROC, "open": PROC},
    "host/runtime/runtimes.c": {"open": RUN},
    "host/build/debian.c": {"openat": "the host's own /etc, which has links"},
    "host/build/interpreter.c": {"open": "the program that is installed with the daemon"},
    "host/service/service.c": {"mkdir": DATA, "open": DATA},
    "host/base/verbs_base_import.c": {"open": "host_path: a local administrator's word"},
    "host/build/verbs_build.c": {"open": HOST, "access": HOST},
    "host/store/base_host.c": {"open": HOST},
    "host/store/base_host_cost.c": {"open": HOST},
    "host/store/btrfs/btrfs.c": {"statfs": DATA},
    "host/store/btrfs/space.c": {"open": SYS, "access": SYS},
    "host/store/fake.c": {"mkdir": DATA, "open": DATA},
    "host/store/home.c": {"openat": DATA},
    "host/store/overlay/check.c": {"open": DATA, "mkdtemp": DATA},
    "host/store/pick.c": {"stat": DATA, "open": DATA},
    "host/store/zfs/command.c": {"realpath": DATA, "fopen": PROC},
    "host/store/zfs/dataset.c": {"umount2": "a place in the data directory, nothing followed"},
    "host/store/zfs/zfs.c": {"realpath": DATA},
    "lib/env/local.c": {"open": "the directory that the caller names, with the rights that it has"},
    "tool/local/command.c": {"open": "/dev/null, as the caller"},
    "tool/local/family.c": {"open": PROC, "opendir": PROC},
    "tool/local/keeper_main.c": {"SYS_openat": PROC},
    "tool/local/local.c": {"open": "the directory that the caller names, with the rights that it has; and the root"},
    "cli/commands/cp_download.c": {"open": TOLD, "openat": TOLD},
    "cli/commands/cp_upload.c": {"open": TOLD},
    "cli/commands/transfer.c": {"stat": TOLD, "open": TOLD, "rename": TOLD, "unlink": TOLD},
}


def without_noise(text):
    """The text with comments blanked and strings kept, lines where they were."""
    def blank(found):
        token = found[0]
        return token if token[0] in "\"'" else re.sub(r"[^\n]", " ", token)
    return NOISE.sub(blank, text)


def arguments(text, start):
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if not depth:
            return text[start + 1:at].strip()
    return text[start + 1:]


def in_string(text, at):
    line = text[text.rfind("\n", 0, at) + 1:at]
    return len(re.findall(r'(?<!\\)"', line)) % 2 == 1


def faults_of(name, args):
    if name in BANNED:
        return "use sys/pin.h"
    if name in BY_PATH:
        return "takes a path: use a descriptor (sys/resolve.h), or say here why the path is the daemon's own"
    if not re.search(AT[name], args):
        return "has a path of several names" if name in ONE_NAME else f"may follow a link: needs {AT[name]}"
    return None


def is_checked(name):
    return not name.startswith(OUTSIDE) or name.startswith(INSIDE)


def complaints(src, allowed):
    found, used = [], set()
    for path in sorted(src.rglob("*.c")):
        name = str(path.relative_to(src))
        if not is_checked(name):
            continue
        text = without_noise(path.read_text(errors="replace"))
        calls = [(call.start(), call[1], arguments(text, call.end() - 1)) for call in CALL.finditer(text)
                 if not DEFINITION.search(text[:call.start()]) and not in_string(text, call.start())]
        calls += [(call.start(), call[0], "") for call in RAW.finditer(text)]
        for at, what, args in sorted(calls):
            if name.startswith(BLIND) and what in BY_PATH:
                continue
            fault = "a system call by its number: put it into sys" if what.startswith("SYS_") else faults_of(what, args)
            if not fault:
                continue
            if what in allowed.get(name, {}):
                used.add((name, what))
                continue
            found.append(f"src/{name}:{text[:at].count(chr(10)) + 1}: {what}: {fault}")
    unused = [f"{name}: {what} is allowed and not there" for name, whats in allowed.items() for what in whats
              if (name, what) not in used]
    return found, unused


BAD = """
#include <x.h>
/* chmod(path) in a comment */
static int open(int x)
{
    thing->open(y); log("chmod(1)");
    fchmodat(fd, name, 0, 0);
    fchownat(fd, name, 0, 0,
             AT_SYMLINK_NOFOLLOW);
    openat(fd, name, O_RDONLY);
    openat(fd, ".", O_RDONLY); openat(fd, name, O_RDONLY | O_NOFOLLOW);
    fstatat(fd, name, &st, 0);
    fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW);
    linkat(a, b, c, d, AT_SYMLINK_FOLLOW); linkat(a, b, c, d, 0);
    syscall(SYS_openat2, 1);
    stat("/etc/x", &st);
    mkdirat(fd, "home/user", 0755); mkdirat(fd, name, 0755);
}
"""


def bad_code_is_caught():
    with tempfile.TemporaryDirectory() as folder:
        src = Path(folder)
        for name in ("tool/a.c", "sys/a.c", "cli/commands/cp_a.c"):
            (src / name).parent.mkdir(parents=True, exist_ok=True)
            (src / name).write_text(BAD)
        found, unused = complaints(src, {"cli/commands/cp_a.c": dict.fromkeys(
            ["fchmodat", "fchownat", "openat", "fstatat", "linkat", "SYS_openat2", "stat", "mkdirat", "rename"], "")})
        lines = [int(c.split(":")[1]) for c in found]
        expected = [7, 8, 10, 12, 14, 15, 16, 17]
        return [] if lines == expected and len(unused) == 1 else [f"{found}, {unused}"]


if __name__ == "__main__":
    FOUND, UNUSED = complaints(checks.ROOT / "src", ALLOWED)
    checks.run([
        ("the check catches wrong code", bad_code_is_caught),
        ("nothing outside sys acts by a name that a link could stand at", lambda: FOUND),
        ("what is allowed is there, with a reason",
         lambda: UNUSED + [f"{n}: {w}: no reason" for n, ws in ALLOWED.items() for w, why in ws.items() if not why]),
    ])
