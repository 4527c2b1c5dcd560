# SPDX-License-Identifier: Apache-2.0
"""Read the TAP output of one test program."""

import re
import signal

PLAN = re.compile(r"^1\.\.(\d+)\s*(?:#\s*skip\w*\s*(.*))?$", re.IGNORECASE)
CASE = re.compile(r"^(not )?ok\b\s*(\d*)\s*(?:-\s*)?(.*)$")
SKIP = re.compile(r"^(.*?)\s*#\s*skip\w*:?\s*(.*)$", re.IGNORECASE)
NO_REASON = "no reason given"
SKIPPED_STATUS = 77  # as in Automake: the program cannot run here


class Result:
    def __init__(self):
        self.passed = 0
        self.failures = []  # names of the failed cases
        self.skips = []  # (name, reason)
        self.died = None  # why the program as a whole counts as a failure, besides its cases

    @property
    def failed(self):
        return len(self.failures) + (1 if self.died else 0)


def read(text, status):
    """Count the cases in TEXT, the output of a program that ended with STATUS (-n: signal n)."""
    result = Result()
    planned, seen, group_failed = None, 0, False
    notes = []  # lines since the last case: cmocka has no place for a reason, so it is printed
    for line in text.splitlines():
        if plan := PLAN.match(line):
            planned = (planned or 0) + int(plan[1])
            if int(plan[1]) == 0:
                result.skips.append(("all of it", plan[2] or NO_REASON))
        elif case := CASE.match(line):
            seen += 1
            group_failed = group_failed or case[2] == "0"
            take_case(result, case, notes)
            notes = []
        elif line.strip() and not line.startswith("#"):
            notes.append(line.strip())
    if planned is None and status == SKIPPED_STATUS:
        result.skips.append(("all of it", " ".join(notes) or NO_REASON))
    else:
        result.died = why_dead(result, status, planned, seen, group_failed)
    return result


def take_case(result, case, notes):
    name = case[3]
    if skip := SKIP.match(name):
        if skip[1]:
            result.skips.append((skip[1], skip[2] or NO_REASON))
        else:  # cmocka: `not ok 3 # SKIP name`
            result.skips.append((skip[2], " ".join(notes) or NO_REASON))
    elif case[1]:
        result.failures.append(name)
    else:
        result.passed += 1


def why_dead(result, status, planned, seen, group_failed):
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    if planned is None:
        return f"printed no plan (exit status {status})"
    # When a group's setup fails, cmocka reports case 0 and runs none of the group.
    if seen != planned and not group_failed:
        return f"planned {planned} cases, ran {seen} (exit status {status})"
    if status != 0 and not result.failures:
        return f"exit status {status} without a failed case"
    return None
