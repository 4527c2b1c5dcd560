#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check what libcay shows and what it needs: library.py ROOT LIBCAY.so LIBCAY.a

What its headers declare, its map names and the library exports are the same. Headers stand alone, in C11 and C++. Nothing
that a library must not do to its caller's process is called.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import checks  # noqa: E402

ROOT, SHARED, STATIC = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
HEADERS = sorted((ROOT / "include/cay").glob("*.h"))
DECLARED = re.compile(r"^CAY_API [^;]*?\b(cay_\w+)\(", re.MULTILINE)

# What ends, prints, or changes the process of whoever calls.
BANNED = {"_exit", "_Exit", "exit", "quick_exit", "atexit", "printf", "puts", "putchar", "fputs", "fprintf", "vprintf", "perror",
          "__printf_chk", "__fprintf_chk", "__vfprintf_chk", "signal", "sigaction", "raise", "setenv", "unsetenv", "putenv",
          "setlocale", "chdir", "fchdir", "umask", "fork", "vfork", "system", "syslog", "err", "errx", "warn", "error"}
# These remain: abort where a thread cannot be given back who it was, which only a daemon's ever are not, and assert of what only
# we can get wrong.
TOLERATED = {"abort", "__assert_fail"}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def declared():
    found = set()
    for path in HEADERS:
        found |= set(DECLARED.findall(path.read_text()))
    return found


def mapped():
    text = (ROOT / "src/lib/libcay.map").read_text()
    return set(re.findall(r"^    (cay_\w+);$", text, re.MULTILINE))


def symbols(path, *flags):
    """Return {name: kind}, without versions."""
    lines = [line.split() for line in run("nm", *flags, path).splitlines()]
    found = {words[-1].split("@")[0]: words[-2] for words in lines if len(words) >= 2 and len(words[-2]) == 1}
    return {name: kind for name, kind in found.items() if not name.startswith("__odr_asan")}


def differences(one, one_name, other, other_name):
    return [f"{name} is in {one_name} and not in {other_name}" for name in sorted(one - other)] + \
           [f"{name} is in {other_name} and not in {one_name}" for name in sorted(other - one)]


def shown():
    exported = {name for name, kind in symbols(SHARED, "-D", "--defined-only").items() if kind in "TDBR"}
    visible = {name for name, kind in symbols(STATIC, "--defined-only", "--extern-only").items() if kind in "TDBR"}
    return (differences(declared(), "the headers", mapped(), "libcay.map")
            + differences(mapped(), "libcay.map", exported, "the shared library")
            + differences(mapped(), "libcay.map", visible, "the static library"))


def versioned():
    lines = run("nm", "-D", "--defined-only", SHARED).splitlines()
    wrong = [line for line in lines if " T " in line and "@@LIBCAY_" not in line]
    soname = re.search(r"SONAME.*\[(.*)\]", run("readelf", "-d", SHARED))
    return wrong + ([] if soname and soname[1] == "libcay.so.1" else [f"the soname is {soname}"])


def needed():
    """Of either library: what it wants of others."""
    wrong = []
    for path, flags in ((SHARED, ["-D"]), (STATIC, [])):
        names = set(symbols(path, *flags, "--undefined-only"))
        wrong += [f"{Path(path).name} calls {name}" for name in sorted(names & BANNED)]
        wrong += [f"{Path(path).name} has not {name}" for name in sorted(names) if name.startswith("cay_")]
    return wrong


def tolerated():
    """A list that can only become shorter."""
    names = set(symbols(SHARED, "-D", "--undefined-only"))
    return [f"{name} is not called any more: strike it off the list" for name in sorted(TOLERATED - names)]


def memory():
    """Nothing that ends the process when there is no memory is in the shared library, called or not."""
    names = set(symbols(SHARED))
    if any(name.startswith(("__asan_", "__tsan_")) for name in names):
        return "what is not used stays in a library that is sanitized"
    return [f"{name} is in the library" for name in sorted(names & {"cay_alloc", "cay_realloc_array", "cay_strndup", "out_of_memory"})]


def alone():
    """Each header compiles by itself, as C11 and as C++, also inside of what is pedantic."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for path in HEADERS:
            for compiler, standard, suffix in (("cc", "c11", "c"), ("c++", "c++11", "cc")):
                source = Path(folder) / f"use.{suffix}"
                source.write_text(f"#include <cay/{path.name}>\nint main(void) {{ return 0; }}\n")
                done = subprocess.run([compiler, f"-std={standard}", "-Wall", "-Wextra", "-pedantic-errors", "-Werror",
                                       "-I", ROOT / "include", "-fsyntax-only", source],
                                      capture_output=True, text=True, check=False)
                if done.returncode:
                    wrong.append(f"{path.name} as {standard}: {done.stderr.splitlines()[0]}")
    return wrong


if __name__ == "__main__":
    checks.run([
        ("headers, map and libraries show the same", shown),
        ("all symbols have a version, and the library its name", versioned),
        ("nothing is called that a library must not do", needed),
        ("what is tolerated is still needed", tolerated),
        ("no memory is an error", memory),
        ("headers stand alone in C11 and C++", alone),
    ])
