# SPDX-License-Identifier: Apache-2.0
"""A session with all kinds of files and a past, and how two of them are compared."""

import contextlib
import itertools
import os
import socket
import stat
import tempfile
import zlib
from pathlib import Path

from daemon import BASE, SANDBOX, unb64
from small_base import make_root

marks = itertools.count()


def import_rich(daemon, name="small"):
    """The small base, and some of what tar finds hard."""
    with tempfile.TemporaryDirectory(prefix="caysys-root-") as folder:
        root = Path(folder) / "root"
        root.mkdir(mode=0o755)
        make_root(root, {})
        rich = root / "srv"
        rich.mkdir()
        with socket.socket(socket.AF_UNIX) as sock:
            here = os.getcwd()
            os.chdir(rich)
            sock.bind("socket")
            os.chdir(here)
        (rich / "one").write_text("linked")
        os.link(rich / "one", rich / "two")
        os.link(rich / "one", rich / "three")
        (rich / "marked").write_text("marked")
        os.setxattr(rich / "marked", "user.colour", b"blue")
        (rich / "dir").mkdir()
        (rich / "dir" / "file").write_text("file")
        options = {"name": name, "format": "BASE_FORMAT_DIRECTORY", "hostPath": str(root)}
        return daemon.send_all(BASE + "ImportBase", [{"options": options}])["base"]


def find_process(mark):
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (entry / "cmdline").read_bytes().split(b"\0"):
                    return entry
    return None


@contextlib.contextmanager
def seen_from_outside(cay, session_id):
    """The session's root, as its own processes have it."""
    mark = f"mark-{os.getpid()}-{next(marks)}"
    argv = ("/bin/sh", "-c", "echo ready; while :; do sleep 60; done", mark)
    with cay.attach(session_id, *argv, user="root") as stream:
        said = b""
        while b"ready" not in said:
            said += unb64(stream.next().get("output", {}).get("data"))
        process = find_process(mark.encode())
        assert process, "the process is not found"
        yield process / "root"
    cay.launch(session_id, "/bin/sh", "-c", f"kill $(ps -o pid,args | grep '{mark}' | grep -v grep"
               " | sed 's/^ *//; s/ .*//')", user="root")


def checksum(path):
    total = 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(128 * 1024):
            total = zlib.crc32(piece, total)
    return total


def look_at(path, top):
    info = os.lstat(path)
    entry = {"kind": stat.S_IFMT(info.st_mode), "mode": info.st_mode & 0o7777,
             "uid": info.st_uid - top.st_uid, "gid": info.st_gid - top.st_gid}
    if stat.S_ISLNK(info.st_mode):
        entry["target"] = os.readlink(path)
    if stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode):
        entry["attributes"] = sorted((key, os.getxattr(path, key)) for key in os.listxattr(path)
                                     if key.startswith("user."))
    if stat.S_ISREG(info.st_mode):
        entry["size"] = info.st_size
        entry["sum"] = checksum(path)
        entry["sparse"] = info.st_size > 1 << 20 and info.st_blocks * 512 < info.st_size / 2
    return entry


def dump(root):
    """Everything an export promises to keep, by path."""
    found, names = {}, {}
    top = os.stat(root)  # not of the link in /proc
    for folder, dirs, files in os.walk(os.fsencode(root)):
        here = [(name, os.lstat(os.path.join(folder, name))) for name in sorted(dirs + files)]
        here = {name: info for name, info in here if info.st_dev == top.st_dev}
        dirs[:] = sorted(name for name in dirs if name in here)
        for name, info in here.items():
            path = os.path.join(folder, name)
            short = os.fsdecode(os.path.relpath(path, os.fsencode(root)))
            found[short] = look_at(path, top)
            if not stat.S_ISDIR(info.st_mode):
                names.setdefault(info.st_ino, []).append(short)
    # A file may have other names in other layers of the store: only those in the tree count.
    for paths in names.values():
        for short in paths:
            found[short]["names"] = paths
    assert "workspace" in found and "usr/bin/busybox" in found, sorted(found)[:20]
    return found


def tree_of(cay, session_id, snapshot=None):
    if snapshot is None:
        with seen_from_outside(cay, session_id) as root:
            return dump(root)
    fork = cay.fork(session_id, snapshot=snapshot)[0]["id"]
    try:
        return tree_of(cay, fork)
    finally:
        cay.destroy(fork)


def same(left, right, what):
    different = {path: (left.get(path), right.get(path)) for path in left.keys() | right.keys()
                 if left.get(path) != right.get(path)}
    assert not different, (what, dict(sorted(different.items())[:5]))


CHANGES = [
    # New things of every kind.
    "mkdir -p d/e && echo 1 > d/e/f && ln d/e/f d/hard && ln -s nowhere d/soft && mkfifo d/fifo &&"
    " chmod 4750 d/e/f && truncate -s 8M d/sparse && echo end >> d/sparse && echo x > '.wh.odd' &&"
    " mkdir '.wh..wh..opq' && mv /srv/socket d/socket && chown -h 1234:4321 d/soft d/e &&"
    " printf 'caf\\351' > \"$(printf 'caf\\351')\"",
    # Away with some, others become something else, links come and go.
    "rm -r d/e && rm /srv/dir/file && rmdir /srv/dir && echo now-a-file > /srv/dir && rm d/soft &&"
    " mkdir d/soft && echo in > d/soft/in && ln /srv/marked marked-too && rm /srv/two",
    # Only attributes; a link that is parted from its file with the same content.
    "chmod 700 d && chown 7:8 d/fifo && cp /srv/three t && rm /srv/three && mv t /srv/three &&"
    " chmod 1777 /var/empty && chmod 711 /srv",
    # A directory is moved, another takes its place.
    "mv d moved && mkdir d && echo other > d/other && mv moved/sparse d/ && rm -rf /usr/share/data/1*",
]


def make_story(cay, session_id):
    """A session with turns, a branch, a named snapshot and unsaved changes."""
    cay.create(session_id, labels={"kind": "story"}, env={"A": "b"})
    for number, script in enumerate(CHANGES, 1):
        cay.sh(session_id, f"cd /workspace && {script}", user="root")
        cay.turn(session_id, message=f"step {number}", metadata={"number": number})
    with seen_from_outside(cay, session_id) as root:
        os.setxattr(root / "workspace/d/other", "user.note", b"\0\xff")
    cay.snapshot(session_id, "kept", message="with an attribute")
    cay.sh(session_id, "echo abandoned > /workspace/abandoned", user="root")
    cay.call(SANDBOX + "HoldSnapshot", {"sessionId": session_id, "snapshot": "turn-0001"})
    cay.rollback(session_id, "turn-0002")
    cay.sh(session_id, "echo on > /workspace/on", user="root")
    cay.turn(session_id)
    cay.turn(session_id)  # unchanged
    cay.sh(session_id, "echo unsaved > /workspace/unsaved; rm /srv/one", user="root")


def compare(cay, left, other, right, points=None):
    """Both sessions have the same past and the same files at every point, or at those named."""
    past = {}
    for key, daemon, session_id in (("left", cay, left), ("right", other, right)):
        past[key] = [{name: entry.get(name) for name in ("name", "kind", "turnNumber", "parent",
                                                         "message", "metadata", "unchanged", "held")}
                     for entry in daemon.log(session_id)]
    assert past["left"] == past["right"], past
    for name in ("head", "turnCount", "snapshotCount", "labels", "defaultUser", "defaultCwd"):
        assert cay.get(left).get(name) == other.get(right).get(name), name
    for name in points or [entry["name"] for entry in past["left"]]:
        same(tree_of(cay, left, name), tree_of(other, right, name), name)
    same(tree_of(cay, left), tree_of(other, right), "the live files")
