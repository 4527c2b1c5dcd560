#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The examples and the Python binding, with the library as it is installed: examples.py CAYD BUILD

`meson install` puts everything into a folder; there is nothing else that the examples are compiled with.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from daemon import CAYD, Skip, case, is_sanitized
from small_base import run_with_cayd

BUILD = Path(sys.argv[2])
ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE_S = 120


class Installed:
    """The library in a folder of its own, and the examples compiled with it; made when it is needed."""

    def __init__(self):
        self.folder = None

    def make(self):
        if self.folder:
            return
        if is_sanitized(CAYD):
            raise Skip("programs that are not sanitized cannot use a library that is")
        self.folder = tempfile.TemporaryDirectory(prefix="cayinst-")
        root = Path(self.folder.name)
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", root], check=True,
                       stdout=subprocess.DEVNULL)
        (package,) = root.rglob("cay.pc")
        (self.python,) = root.rglob("cay.py")
        self.library = package.parent.parent
        environment = dict(os.environ) | {"PKG_CONFIG_PATH": str(package.parent), "PKG_CONFIG_SYSROOT_DIR": str(root)}
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "cay"], env=environment, capture_output=True,
                               text=True, check=True).stdout.split()
        self.compiler = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]
        self.flags = flags
        for source in (ROOT / "examples").glob("*.c"):
            subprocess.run([*self.compiler, source, "-o", root / source.stem, *flags], check=True)

    def run(self, *command, **environment):
        """What a program prints; it must succeed."""
        self.make()
        root = Path(self.folder.name)
        command = [str(root / command[0]), *command[1:]] if (root / command[0]).exists() else command
        environment = dict(os.environ) | {"LD_LIBRARY_PATH": str(self.library), "PYTHONPATH": str(self.python.parent),
                                          "PYTHONDONTWRITEBYTECODE": "1"} | environment
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S,
                              cwd=root, check=False)
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        return done.stdout


installed = Installed()


def native(cay):
    return f"native:unix:{cay.socket_path}"


def local(folder):
    """Where the library has local environments."""
    probe = f"import cay, sys\ntry: cay.Session('local:{folder}').close()\nexcept cay.Error as e: sys.stdout.write(e.text)"
    if said := installed.run(sys.executable, "-c", probe):
        raise Skip(said)
    return f"local:{folder}"


@case
def agent(cay):
    """the agent goes back to where all was good, and keeps the best of three forks"""
    text = installed.run("agent", native(cay), "small")
    for part in ("turn-0001: it works", "M /workspace/slug.sh", "D /workspace/test.sh", "back to turn-0001",
                 "the best is attempt 2", "done"):
        assert part in text, (part, text)
    assert not cay.ids(), cay.ids()


@case
def agent_locally(_):
    """in a directory of this host the agent does without what is not there, and says so"""
    installed.make()
    with tempfile.TemporaryDirectory() as folder:
        text = installed.run("agent", local(folder))
        for part in ("no turns here", "no rollback here", "no forks here", "the best is attempt 2", "done"):
            assert part in text, (part, text)


@case
def orchestrator(cay):
    """the orchestrator reaches a server in each of its sandboxes and removes them"""
    text = installed.run("orchestrator", f"node:unix:{cay.socket_path}", "small")
    for part in ("says: hello from worker-1", "says: hello from worker-3", "2 of 3 is paused",
                 "worker-2: the server ended by signal 15", "done"):
        assert part in text, (part, text)
    assert not cay.ids(), cay.ids()


def printed():
    """What examples/README.md says that each program prints: {name: lines}."""
    text = (ROOT / "examples/README.md").read_text()
    return {name: lines.splitlines() for name, lines in re.findall(r"^```\n\$ \./(\w+) [^\n]*\n(.*?)^```$", text,
                                                                  re.DOTALL | re.MULTILINE)}


@case
def as_printed(cay):
    """the examples print what their page says, but for ports"""
    pages = printed()
    assert set(pages) == {path.stem for path in (ROOT / "examples").glob("*.c")}, pages
    for name, kind in (("agent", "native"), ("orchestrator", "node")):
        here = installed.run(name, f"{kind}:unix:{cay.socket_path}", "small").splitlines()
        ports = re.compile(r"127\.0\.0\.1:\d+")
        assert [ports.sub("PORT", line) for line in here] == [ports.sub("PORT", line) for line in pages[name]], here


# Prints what C must say of each struct of the binding: its size, and where its fields are.
LAYOUTS = """
import ctypes, re, cay
others = {"Progress": "ToolProgress", "Snapshot": "EnvSnapshot", "Change": "EnvChange", "Diff": "EnvDiff"}
print("#include <cay/cay.h>")
for name, kind in vars(cay).items():
    if not (isinstance(kind, type) and issubclass(kind, ctypes.Structure) and hasattr(kind, "_fields_")):
        continue
    name = others.get(name[1:], name[1:])
    struct = "struct cay" + re.sub("([A-Z])", lambda letter: "_" + letter[1].lower(), name)
    print(f'_Static_assert(sizeof({struct}) == {ctypes.sizeof(kind)}, "{struct}");')
    for field, *_ in kind._fields_:
        print(f'_Static_assert(offsetof({struct}, {field}) == {getattr(kind, field).offset}, "{struct}.{field}");')
"""


@case
def layouts(_):
    """structs of the binding are those of the headers, field by field"""
    text = installed.run(sys.executable, "-c", LAYOUTS)
    assert text.count("sizeof") >= 20, text
    subprocess.run([*installed.compiler, "-fsyntax-only", "-x", "c", "-", *installed.flags], input=text, text=True,
                   check=True)


@case
def python(cay):
    """cay.py does in Python what the headers promise"""
    script = Path(__file__).with_name("python_session.py")
    installed.run(sys.executable, str(script), native(cay), f"node:unix:{cay.socket_path}", "small")
    assert not cay.ids(), cay.ids()


@case
def python_locally(_):
    """so it does in a directory of this host"""
    script = Path(__file__).with_name("python_session.py")
    installed.make()
    with tempfile.TemporaryDirectory() as folder:
        installed.run(sys.executable, str(script), local(folder), "", "")


if __name__ == "__main__":
    try:
        run_with_cayd("--default-base", "small")
    finally:
        if installed.folder:
            installed.folder.cleanup()
