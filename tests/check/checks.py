# SPDX-License-Identifier: Apache-2.0
"""What the checks of this folder share: the repository's files, and TAP."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
NOT_OURS = {".git", ".dev", ".cache", "node_modules", "__pycache__"}


def repository_files(root=ROOT):
    """All files of the repository, relative to its root: those git tracks, or would track.

    Without git (or without .git, as in a release archive) everything that is not built or fetched.
    """
    try:
        listing = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others",
             "--exclude-standard"], check=True, capture_output=True).stdout.decode()
        paths = [Path(name) for name in listing.split("\0") if name]
        return sorted(path for path in paths if (root / path).is_file())
    except (OSError, subprocess.CalledProcessError):
        return sorted(walk(root))


def walk(root):
    for folder, folders, names in os.walk(root):
        here = Path(folder).relative_to(root)
        folders[:] = [name for name in folders if name not in NOT_OURS
                      and not (here == Path(".") and name.startswith("build"))]
        yield from (here / name for name in names)


def lines(path, root=ROOT):
    return (root / path).read_text(encoding="utf-8", errors="replace").splitlines()


def chosen(cases):
    """The cases that the runner (tools/run-tests) chose, in its order; it may want their list only."""
    by_word = {"_".join(re.findall(r"[a-z0-9]+", case[0].lower())): case for case in cases}
    if os.environ.get("TEST_LIST"):
        for word, (name, _) in by_word.items():
            print(f"case {word}\t{name}")
        sys.exit(0)
    words = os.environ.get("TEST_CASES", "").split()
    return [by_word[word] for word in words] if words else cases


def run(cases):
    """Run (name, function) cases as TAP. A function returns complaints, or a str: why it skips."""
    cases = chosen(cases)
    print(f"1..{len(cases)}")
    failed = False
    for number, (name, check) in enumerate(cases, 1):
        outcome = check()
        if isinstance(outcome, str):
            print(f"ok {number} - {name} # SKIP {outcome}")
        elif outcome:
            failed = True
            print(f"not ok {number} - {name}")
            for complaint in outcome:
                print(f"# {complaint}")
        else:
            print(f"ok {number} - {name}")
    sys.exit(1 if failed else 0)
