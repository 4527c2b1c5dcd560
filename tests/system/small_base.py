# SPDX-License-Identifier: Apache-2.0
"""A root file system of a few MiB for sessions: busybox, bash with its libraries, and the probe."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from daemon import BASE, Cayd, at_end, list_if_asked, run

APPLETS = """[ ash awk base64 basename cat chmod chown cmp cp cut date dd df dirname du echo env expr false
find free grep groups head hostname id kill killall ln ls md5sum mkdir mkfifo mknod mktemp mount mv nproc od
printf ps pwd readlink realpath rm rmdir sed seq setsid sh sha256sum sleep sort stat stty sync tail tar taskset tee
test timeout touch tr true truncate tty umount uname unlink unshare usleep wc which whoami yes""".split()


def busybox():
    for path in ("/bin/busybox", "/usr/bin/busybox"):
        if os.access(path, os.X_OK):
            return path
    print("1..0 # SKIP needs a static busybox (package busybox-static)")
    sys.exit(0)


def copy_bash(root):
    """bash and its libraries, where the loader looks for them."""
    bash = os.path.realpath(shutil.which("bash"))
    listed = subprocess.run(["ldd", bash], capture_output=True, text=True, check=True).stdout
    shutil.copy(bash, root / "usr/bin/bash")
    for path in re.findall(r"(/\S+)", listed):
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def make_root(root, programs):
    for name in ("usr/bin", "usr/lib", "usr/share/data", "etc", "dev", "proc", "sys", "root", "home/user",
                 "workspace", "var/empty", "run"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "root").chmod(0o700)
    shutil.copy(busybox(), root / "usr/bin/busybox")
    for name in APPLETS:
        (root / "usr/bin" / name).symlink_to("busybox")
    copy_bash(root)
    for name, path in programs.items():
        shutil.copy(path, root / "usr/bin" / name)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n"
                                     "user:x:1000:1000:user:/home/user:/bin/bash\n")
    (root / "etc/group").write_text("root:x:0:\nuser:x:1000:\n")
    (root / "etc/secret").write_text("only root\n")
    (root / "etc/secret").chmod(0o600)
    for number in range(200):
        (root / f"usr/share/data/{number}").write_text(f"{number}\n")
    for name in ("home/user", "workspace"):
        os.chown(root / name, 1000, 1000)


def import_small(daemon, name="small", **programs):
    with tempfile.TemporaryDirectory(prefix="caysys-root-") as folder:
        root = Path(folder) / "root"
        root.mkdir(mode=0o755)
        make_root(root, programs)
        options = {"name": name, "format": "BASE_FORMAT_DIRECTORY", "hostPath": str(root)}
        return daemon.send_all(BASE + "ImportBase", [{"options": options}])["base"]


@contextlib.contextmanager
def small_cayd(*flags, **programs):
    """A daemon that has the base `small`, with programs added by name."""
    with Cayd(*flags) as daemon:
        import_small(daemon, **programs)
        yield daemon


def run_on(make, prepare=import_small, session=None):
    """Run the cases against one daemon, which must be as empty at the end as at the start. Between
    the cases all is taken away that was not there when prepare() was done. Each begins with a new
    session of the given name, if there is one."""
    list_if_asked()
    with make() as daemon:
        prepare(daemon)
        daemon.keep()

        @at_end
        def nothing_is_left(_):
            """with the sessions gone, nothing of them is left on the machine"""
            assert daemon.process.poll() is None, "the daemon is gone"
            for session_id in daemon.kept_sessions:
                daemon.destroy(session_id)
            assert not daemon.leftovers(), daemon.leftovers()

        @at_end
        def ends_well(_):
            """the daemon ends with status 0 when told to"""
            assert daemon.stop() == 0, daemon.log_tail()

        run(daemon, before_each=lambda: session and daemon.create(session), after_each=daemon.reset)


def run_with_cayd(*flags, session=None, **programs):
    """The same with a cayd of these flags that has the base `small`, with programs added by name."""
    run_on(lambda: Cayd(*flags), lambda daemon: import_small(daemon, **programs), session)
