#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that tests/README.md names tests that there are: readme.py BUILD, with the build directory.

In the second column of its tables of what must not happen, a program stands in backquotes (`system-x`, a
pattern, `x.py`, or the end of another name, as in `system-x`, `-btrfs`), and cases of it in asterisks
behind it: functions, or words of a case's name.
"""

import fnmatch
import json
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import checks  # noqa: E402

PROGRAM = re.compile(r"(system|unit|wire|check|clients|conform|fuzz)-[\w*-]+|[\w/]+\.(py|mjs)|-[\w-]+")


def programs(build):
    """The sources of each test program, by its name."""
    listing = subprocess.run(["meson", "introspect", "--tests", build], check=True, capture_output=True).stdout
    return {entry["name"]: [word for word in entry["cmd"] if word.endswith((".py", ".mjs"))]
            for entry in json.loads(listing)}


def claims(text):
    """Yield (program, case or None) of each claim."""
    for line in text.splitlines():
        cells = line.split(" | ")
        if not line.startswith("| ") or len(cells) != 2:
            continue
        program = None
        for match in re.finditer(r"`([^`]+)`|(?<!\w)\*([^*`]+)\*", cells[1]):
            name, case = match.groups()
            if case:
                yield program, case
            elif PROGRAM.fullmatch(name):
                program = program + name if name.startswith("-") and program else name
                yield program, None


def has_case(paths, case):
    words = " ".join(case.strip("…. ").split())
    texts = [" ".join(open(path, encoding="utf-8").read().split()) for path in paths]
    return any(f"def {case}(" in text or re.search(rf"[\"'`]+[^\"'`]*{re.escape(words)}", text) for text in texts)


def wrong_claims(text, by_name, file_of):
    wrong = []
    for program, case in claims(text):
        if program is None:
            wrong.append(f"*{case}* stands behind no program")
            continue
        found = [path for name in by_name if fnmatch.fnmatch(name, program) for path in by_name[name]]
        is_there = any(fnmatch.fnmatch(name, program) for name in by_name)
        if program.endswith((".py", ".mjs")):
            found = file_of(program)
            is_there = bool(found)
        if not is_there:
            wrong.append(f"there is no program {program}")
        elif case and not has_case(found, case):
            wrong.append(f"{program} has no case '{case}'")
    return wrong


def file_of(name):
    return [str(path) for path in (checks.ROOT / "tests").glob(f"*/{name}")]


def check_catches():
    missing = "-".join(("no", "such", "case"))
    text = "\n".join((
        "| it | test |",
        "| good | `check-readme` *check_catches*, *Check that tests/README.md names…*; `readme.py` |",
        f"| bad | *behind nothing*; `check-nothing`; `check-readme` *{missing}*, `-by-night` |"))
    found = wrong_claims(text, {"check-readme": [__file__]}, file_of)
    expected = ["*behind nothing* stands behind no program", "there is no program check-nothing",
                f"check-readme has no case '{missing}'", "there is no program check-readme-by-night"]
    return [] if found == expected else found


def main():
    by_name = programs(sys.argv[1])
    text = (checks.ROOT / "tests/README.md").read_text().split("## What must not happen to a history")[1]
    checks.run([
        ("the check catches wrong names", check_catches),
        ("tests/README.md names tests that there are", lambda: wrong_claims(text, by_name, file_of)),
    ])


if __name__ == "__main__":
    main()
