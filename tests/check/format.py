#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that the C sources are laid out as .clang-format says."""

import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import checks  # noqa: E402

# Other versions lay a few things out differently; Debian 12 has this one.
VERSION = "14"
COMPLAINTS_MAX = 40


def formatter():
    """Return the command, or None and why there is none."""
    for name in (f"clang-format-{VERSION}", "clang-format"):
        if shutil.which(name):
            said = subprocess.run([name, "--version"], check=True, capture_output=True, text=True)
            if re.search(rf"version {VERSION}\.", said.stdout):
                return name, None
    return None, f"clang-format {VERSION} is not installed"


def badly_formatted():
    command, reason = formatter()
    if not command:
        return reason
    files = [str(path) for path in checks.repository_files() if path.suffix in (".c", ".h")]
    checked = subprocess.run([command, "--dry-run", "-Werror", "--style=file", *files],
                             cwd=checks.ROOT, check=False, capture_output=True, text=True)
    if checked.returncode == 0:
        return []
    complaints = [line for line in checked.stderr.splitlines() if ": error:" in line]
    return complaints[:COMPLAINTS_MAX] + ["./dev fmt puts it right"]


if __name__ == "__main__":
    checks.run([("all C files are formatted", badly_formatted)])
