#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the test runner itself: a runner that counts wrongly hides every other failure."""

import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import checks  # noqa: E402

sys.path.insert(0, str(checks.ROOT / "tools"))
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


if __name__ == "__main__":
    checks.run([
        ("every kind of output is counted right", miscounted),
        ("skips keep their reasons", lost_reasons),
        ("leftovers are found and removed", unseen_leftovers),
    ])
