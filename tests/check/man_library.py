#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the pages of libcay, in section 3, against its headers: man_library.py LIBCAY.so

A page shows the functions of a header by @FUNCTIONS name.h@ (tools/header-page). Its text names each of them, as
*name*(), and none that there is not. Its example is a program that compiles and links.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import checks  # noqa: E402

LIBRARY = Path(sys.argv[1]).resolve()
PAGES = sorted((checks.ROOT / "man").glob("*.3.scd.in"))
DECLARED = re.compile(r"^CAY_API [^;]*?\b(cay_\w+)\(", re.MULTILINE)


def headers():
    """What each header declares."""
    return {path.name: set(DECLARED.findall(path.read_text())) for path in sorted((checks.ROOT / "include/cay").glob("*.h"))}


def faults(pages, declared):
    """PAGES and DECLARED: text, and functions, by name."""
    found = []
    everything = set().union(*declared.values())
    named = set()
    for name, text in pages.items():
        here = set(re.findall(r"\*(cay_\w+)\*\(\)", text.replace("\\", "")))
        named |= here
        found += [f"{name} names {function}, which no header has" for function in sorted(here - everything)]
    shown = {header for text in pages.values() for header in re.findall(r"@FUNCTIONS (\S+)@", text)}
    found += [f"no page says what {function} does" for function in sorted(everything - named)]
    found += [f"no page shows the functions of {header}" for header, its in sorted(declared.items()) if its and header not in shown]
    return found + [f"a page shows {header}, which there is not" for header in sorted(shown - set(declared))]


def wrong_page_is_caught():
    pages = {"p": "@FUNCTIONS a.h@ @FUNCTIONS c.h@ *cay_one*() *cay\\_gone*() cay_two() *cay_two*"}
    found = faults(pages, {"a.h": {"cay_one", "cay_two"}, "b.h": {"cay_one"}, "cay.h": set()})
    expected = ["p names cay_gone, which no header has", "no page says what cay_two does",
                "no page shows the functions of b.h", "a page shows c.h, which there is not"]
    return [] if found == expected else found or ["nothing was found"]


def examples():
    """The program of each page, as a reader copies it."""
    for page in PAGES:
        blocks = re.findall(r"^```\n(.*?)^```$", page.read_text().partition("# EXAMPLE")[2], re.DOTALL | re.MULTILINE)
        yield page.name, "".join(re.sub(r"\\(.)", r"\1", block) for block in blocks)


def broken_examples():
    broken = []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in examples():
            source = Path(folder) / "example.c"
            source.write_text(text)
            done = subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-pedantic-errors", "-Werror", "-I", checks.ROOT / "include",
                                   "-o", Path(folder) / "example", source, LIBRARY, "-Wl,--allow-shlib-undefined"],
                                  capture_output=True, text=True, check=False)
            if done.returncode or "main(" not in text:
                broken.append(f"{name}: {done.stderr or 'there is no program'}")
    return broken


if __name__ == "__main__":
    checks.run([
        ("the check catches a wrong page", wrong_page_is_caught),
        ("the pages of section 3 and the headers are in step",
         lambda: faults({page.name: page.read_text() for page in PAGES}, headers())),
        ("the examples of section 3 compile", broken_examples),
    ])
