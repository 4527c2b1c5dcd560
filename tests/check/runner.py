#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the test runner itself: a runner that counts wrongly hides every other failure."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import checks  # noqa: E402

sys.path.insert(0, str(checks.ROOT / "tools"))
import cases  # noqa: E402
import leftovers  # noqa: E402
import tap  # noqa: E402

CMOCKA = """1..3
ok 1 - a
not ok 2 - b
# 0x1 != 0x2
needs a kernel with btrfs
not ok 3 # SKIP c
# not ok - group
1..1
ok 1 - d
# ok - group
"""

# (output, exit status) -> (passed, failed, skipped)
COUNTS = [
    ((CMOCKA, 1), (2, 1, 1)),
    (("1..2\nok 1 - a\nok 2 - b # SKIP why\n", 0), (1, 0, 1)),
    (("ok 1 - a\nok 2\n1..2\n", 0), (2, 0, 0)),
    (("1..0 # SKIP no loop devices\n", 0), (0, 0, 1)),
    (("1..1\n    ok 1 - a step of a\nok 1 - a\n", 0), (1, 0, 0)),
    (("1..1\nnot ok 1 - a\n", 0), (0, 1, 0)),
    (("1..2\nnot ok 0 - group [  FAILED  ] GROUP SETUP\n", 2), (0, 1, 0)),
    (("", 0), (0, 1, 0)),
    (("hello\nok 1 - a\n", 0), (1, 1, 0)),
    (("1..2\nok 1 - a\n", 0), (1, 1, 0)),
    (("1..1\nok 1 - a\nok 2 - b\n", 0), (2, 1, 0)),
    (("1..1\nok 1 - a\n", 1), (1, 1, 0)),
    (("1..1\nok 1 - a\n", -11), (1, 1, 0)),
]


def miscounted():
    wrong = []
    for (text, status), expected in COUNTS:
        result = tap.read(text, status)
        counted = (result.passed, result.failed, len(result.skips))
        if counted != expected:
            wrong.append(f"{text!r} with status {status}: {counted}, expected {expected}")
    return wrong


def lost_reasons():
    skips = tap.read(CMOCKA, 1).skips + tap.read(COUNTS[1][0][0], 0).skips
    expected = [("c", "needs a kernel with btrfs"), ("b", "why")]
    return [] if skips == expected else [f"{skips}, expected {expected}"]


def unseen_leftovers():
    """A process without its run's environment, and a file, must both be found and removed."""
    with tempfile.TemporaryDirectory() as folder:
        tmp = Path(folder) / "cay-test-self"
        (tmp / "0").mkdir(parents=True)
        if lines := leftovers.find(tmp.name, tmp, 0, lambda: None):
            return [f"found where nothing is: {lines}"]
        (tmp / "0" / "file").touch()
        with subprocess.Popen(["sleep", "600"], env={}) as sleeper:
            lines = leftovers.find(tmp.name, tmp, 0, lambda: None)
            leftovers.remove(tmp.name, tmp, sleeper.poll)
            status = sleeper.wait()
        wrong = [] if len(lines) == 2 else [f"found {lines}, expected a process and a file"]
        return wrong + ([] if status == -9 and not tmp.exists() else ["not removed"])


def wrong_second_runs():
    """What fails once is a failure, unless it was to be run again; then it is named."""
    with tempfile.TemporaryDirectory() as folder:
        tmp = Path(folder)
        seen, tests = tmp / "seen", tmp / "tests.json"
        scripts = {"meson": f"cat {tests}",
                   "once": f"echo 1..1; [ -e {seen} ] && echo ok 1 || {{ touch {seen}; echo not ok 1; }}",
                   "never": "echo 1..1; echo not ok 1"}
        for name, script in scripts.items():
            (tmp / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp / name).chmod(0o755)

        def outcome(*flags, names=("once",)):
            seen.unlink(missing_ok=True)
            tests.write_text(json.dumps([{
                "name": name, "suite": ["cay:x"], "cmd": [str(tmp / name)], "workdir": folder,
                "timeout": 30, "env": {}, "is_parallel": True} for name in names]))
            ran = subprocess.run(
                [checks.ROOT / "tools/run-tests", "--build", folder, *flags], check=False,
                env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
                stdout=subprocess.PIPE, text=True)
            lines = ran.stdout.splitlines()
            return ran.returncode, lines[-1], "  once" in lines
        expected = [
            (outcome(), (1, "1 passed, 1 failed, 0 skipped", False)),
            (outcome("--again"), (0, "2 passed, 0 failed, 0 skipped", True)),
            (outcome("--again", names=("once", "never")), (1, "2 passed, 1 failed, 0 skipped", True)),
        ]
        return [f"{got}, expected {wanted}" for got, wanted in expected if got != wanted]


PROGRAM = """#!/bin/sh
[ -z "$TEST_LIST" ] || { printf 'case one\\tthe first of all\\ncase two\\tcomes after it\\ncase three\\n'; exit; }
set -- ${TEST_CASES:-one two three}
echo 1..$#
for name; do echo "ok - $name: said"; done
"""


def wrong_choices():
    """Cases are chosen by name, pattern or words, and what nobody has is told with what is near it."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        entries = [{"name": name, "suite": ["cay:x"], "cmd": [str(program)], "workdir": folder, "env": {}}
                   for name in ("system-a", "system-a-b", "unit-c")]

        def chosen(*names):
            try:
                return {e["name"]: e.get("cases") for e in cases.choose(entries, names)}
            except cases.Unknown as unknown:
                return str(unknown)

        def order(seed):
            shuffled = cases.choose([dict(entry) for entry in entries], ["unit-c"])
            cases.shuffle(shuffled, seed)
            return shuffled[0]["cases"]
        expected = [
            (chosen(), dict.fromkeys(("system-a", "system-a-b", "unit-c"))),
            (chosen("system"), dict.fromkeys(("system-a", "system-a-b"))),
            (chosen("system-a.two"), {"system-a": ["two"]}),
            (chosen("system.t*"), {"system-a": ["two", "three"], "system-a-b": ["two", "three"]}),
            (chosen("unit-c.first of"), {"unit-c": ["one"]}),
            (chosen("unit-c.two", "unit-c.one", "unit-c.two"), {"unit-c": ["two", "one"]}),
            (chosen("unit-c.two", "unit"), {"unit-c": None}),
            (chosen("unit-c.thre"), {"unit-c": ["three"]}),
            (chosen("unit-c.tow"), "no case of unit-c is called 'tow'; near it: two"),
            (chosen("unit-d"), "no test is called 'unit-d'; near it: unit-c"),
            (order(7), order(7)),
            (sorted(order(7)), ["one", "three", "two"]),
            (len({tuple(order(seed)) for seed in range(50)}), 6),
        ]
        return [f"{got}, expected {wanted}" for got, wanted in expected if got != wanted]


def wrong_orders():
    """Programs run the cases that are chosen, in the order that the seed gives; the seed is told."""
    with tempfile.TemporaryDirectory() as folder:
        tmp = Path(folder)
        entry = {"name": "unit-c", "suite": ["cay:x"], "cmd": [str(tmp / "program")], "workdir": folder,
                 "timeout": 30, "env": {}, "is_parallel": True}
        (tmp / "tests.json").write_text(json.dumps([entry]))
        (tmp / "program").write_text(PROGRAM + f"printf '%s ' \"$@\" > {tmp}/ran\n")
        (tmp / "meson").write_text(f"#!/bin/sh\ncat {tmp}/tests.json\n")
        for name in ("program", "meson"):
            (tmp / name).chmod(0o755)

        def ran(*flags):
            done = subprocess.run([checks.ROOT / "tools/run-tests", "--build", folder, *flags], check=False,
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
                                  stdout=subprocess.PIPE, text=True)
            return done.stdout, (tmp / "ran").read_text().split()
        told, order = ran("--shuffle")
        seed = re.search(r"--seed (\d+)", told)
        outcomes = [
            (ran("unit-c.two")[1], ["two"]),
            (ran()[1], ["one", "two", "three"]),
            (sorted(order), ["one", "three", "two"]),
            (seed and ran("--seed", seed[1])[1], order),
        ]
        return [f"{got}, expected {wanted}" for got, wanted in outcomes if got != wanted]


if __name__ == "__main__":
    checks.run([
        ("every kind of output is counted right", miscounted),
        ("skips keep their reasons", lost_reasons),
        ("leftovers are found and removed", unseen_leftovers),
        ("a second run is counted and told", wrong_second_runs),
        ("cases are chosen by what people call them", wrong_choices),
        ("what is chosen is run, in the order of the seed", wrong_orders),
    ])
