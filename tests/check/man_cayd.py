#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: man_cayd.py CAYD PAGE...   Check cayd(8) and cayd.conf(5) against `cayd --help`.

A PAGE is a source for scdoc; together they must name every flag, and no other.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import checks  # noqa: E402

CAYD, PAGES = sys.argv[1], [Path(name) for name in sys.argv[2:]]


def output(*command, text=None):
    return subprocess.run(command, check=True, capture_output=True, text=True, input=text).stdout


def flags_of_help():
    """--data, --access-log (shown as --[no-]access-log), -c ..."""
    found = set()
    for line in output(CAYD, "--help").splitlines():
        match = re.match(r" {2}(?:(-\w), | {4})(--\S+)", line)
        if match:
            found |= {match[2].replace("[no-]", "")} | ({match[1]} if match[1] else set())
    return found


def flags_of_pages():
    """Flags are set in bold: *--data*. A pattern such as *--no-*_key_ is none."""
    text = "".join(page.read_text() for page in PAGES)
    return set(re.findall(r"\*(?:cayd )?(--?[a-zA-Z][\w-]*\w|-\w)\*", text))


def untold():
    return [f"{flag} is in cayd --help, but not in the man pages"
            for flag in sorted(flags_of_help() - flags_of_pages())]


def invented():
    return [f"{flag} is in the man pages, but not in cayd --help"
            for flag in sorted(flags_of_pages() - flags_of_help())]


def unrendered():
    wrong = []
    for page in PAGES:
        done = subprocess.run(["scdoc"], input=page.read_text(), capture_output=True, text=True,
                              check=False)
        name = page.name.removesuffix(".scd").rsplit(".", 1)
        if done.returncode or done.stderr:
            wrong.append(f"{page}: {done.stderr.strip() or 'scdoc failed'}")
        elif f'.TH "{name[0]}" "{name[1]}"' not in done.stdout:
            wrong.append(f"{page}: is not the page {name[0]}({name[1]})")
    return wrong


def unknown_keys():
    """Keys in the example of cayd.conf(5): the daemon itself says whether it takes them."""
    page = next(page for page in PAGES if page.name.startswith("cayd.conf"))
    example = re.search(r"# EXAMPLE\n+```\n(.*?)```", page.read_text(), re.DOTALL)[1]
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
        conf.write(example)
        conf.flush()
        done = subprocess.run([CAYD, "--config", conf.name, "--print-config"], env={},
                              capture_output=True, text=True, check=False)
    return [done.stderr.strip()] if done.returncode else []


if __name__ == "__main__":
    checks.run([
        ("every flag of cayd --help stands in a man page", untold),
        ("every flag in the man pages stands in cayd --help", invented),
        ("scdoc renders the pages", unrendered),
        ("cayd takes the example of cayd.conf(5)", unknown_keys),
    ])
