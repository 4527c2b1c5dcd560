# SPDX-License-Identifier: Apache-2.0
"""Which cases of which test programs are to be run, and in which order.

Programs print their cases when they find TEST_LIST in their environment, and run those that
TEST_CASES names. Those of the suite `fuzz` and some others have none: they are run as a whole.
"""

import difflib
import fnmatch
import os
import random
import re
import subprocess

LIST_S = 60
NEAR_MAX = 5


class Unknown(Exception):
    """Nothing has such a name; says what has a near one."""


def environment():
    """Ours, without what programs take for something that we tell them."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith("CAY_") and name not in ("TEST_CASES", "TEST_LIST")}


def of(entry):
    """The cases of a program: {short name: what is promised}, in its own order."""
    if any(suite.endswith(":fuzz") for suite in entry["suite"]):
        return {}
    said = subprocess.run(entry["cmd"], cwd=entry["workdir"], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, timeout=LIST_S, check=False,
                          env={**environment(), **entry["env"], "TEST_LIST": "1"}).stdout
    found = {}
    for line in said.splitlines():
        if line.startswith("case "):
            name, _, promise = line.removeprefix("case ").partition("\t")
            found[name] = promise
    return found


def words(text):
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def matching(found, wanted):
    """The short names among the found cases that somebody may mean by this."""
    if wanted in found:
        return [wanted]
    by_pattern = fnmatch.filter(found, wanted)
    if by_pattern or not words(wanted):
        return by_pattern
    return [name for name, promise in found.items() if words(wanted) in words(f"{name} {promise}")]


def choose(entries, names):
    """The programs that the names mean, each once; with `cases` where only some are meant."""
    if not names:
        if not entries:
            raise Unknown("there is no test")
        return entries
    wanted = {}  # by the program's name: its short names, or None for all
    for name in names:
        program, dot, case = name.partition(".")
        meant = [entry for entry in entries if program in entry["name"]]
        if dot:  # a case of just this program, if there is one of that name
            meant = [entry for entry in meant if entry["name"] == program] or meant
        if not meant:
            raise Unknown(unknown("test", program, [entry["name"] for entry in entries]))
        for key, found in choose_cases(meant, program, case).items() if dot else (
                (entry["name"], None) for entry in meant):
            before = wanted.get(key, [])
            wanted[key] = None if found is None or before is None else before + [
                each for each in found if each not in before]
    return [entry if wanted[entry["name"]] is None else {**entry, "cases": wanted[entry["name"]]}
            for entry in entries if entry["name"] in wanted]


def choose_cases(entries, program, wanted):
    known = {entry["name"]: of(entry) for entry in entries}
    found = {name: matching(cases, wanted) for name, cases in known.items()}
    found = {name: cases for name, cases in found.items() if cases}
    if not found:
        there = [name for cases in known.values() for name in cases]
        raise Unknown(unknown(f"case of {program}", wanted, there))
    return found


def unknown(what, wanted, there):
    near = difflib.get_close_matches(wanted, dict.fromkeys(there), NEAR_MAX, 0.4)
    near += [name for name in dict.fromkeys(there)
             if name not in near and any(part in name for part in re.split(r"[^a-z0-9]", wanted) if part)]
    said = f"no {what} is called '{wanted}'"
    return f"{said}; near it: {', '.join(near[:NEAR_MAX])}" if near else f"{said}; --list prints the names"


def lines(entries, with_cases):
    """The list for a person: programs, or also their cases."""
    for entry in entries:
        yield entry["name"]
        for name, promise in of(entry).items() if with_cases else ():
            if name in entry.get("cases", [name]):
                yield f"  .{name:32} {promise}".rstrip()


def shuffle(entries, seed):
    """Put the cases of each program into an order that depends on the seed and the program only."""
    for entry in entries:
        order = entry.get("cases") or list(of(entry))
        random.Random(f"{seed} {entry['name']}").shuffle(order)
        if order:
            entry["cases"] = order
