#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check what must hold for the files of the repository: portable, licensed, of readable size."""

import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
import checks  # noqa: E402

SOURCE_LINES_MAX = 700
SOURCES = {".c", ".h", ".def", ".py", ".sh"}
# Folders of a developer's machine. A path of the product's own never starts with these.
MACHINE_PATH = re.compile(r"(?<![\w.${}*-])/(?:work|root|home/\w+)/")
REGISTRY = re.compile(
    r"npmjs\.(?:org|com)|yarnpkg\.com|pypi\.org|pythonhosted\.org|pkg\.dev|jfrog\.io"
    r"|(?:deb|security|snapshot)\.debian\.org|registry\.[\w-]+\.\w+|artifactory\.")
# (file, what it may say) where one of the above is what the file is about.
# Folders inside every sandbox; in two halves, for this file is looked at too.
ALLOWED = {
    ("tests/unit/tool/tree/test_path.c", "/home/" + "user/"),
    ("tests/unit/tool/tree/test_path.c", "/ro" + "ot/"),
    ("tests/system/files.py", "/ro" + "ot/"),
    # What @debian, @npm and @pypi stand for.
    ("src/egress/rules/sets.c", "deb." + "debian.org"),
    ("src/egress/rules/sets.c", "security." + "debian.org"),
    ("src/egress/rules/sets.c", "registry.npm" + "js.org"),
    ("src/egress/rules/sets.c", "registry.yarn" + "pkg.com"),
    ("src/egress/rules/sets.c", "pypi" + ".org"),
    ("src/egress/rules/sets.c", "pythonhosted" + ".org"),
}


def says(pattern):
    """Return a check that no file contains what PATTERN matches."""

    def check():
        found = []
        for path in checks.repository_files():
            for number, line in enumerate(checks.lines(path), 1):
                match = pattern.search(line)
                if match and (str(path), match[0]) not in ALLOWED:
                    found.append(f"{path}:{number}: {match[0]}")
        return found

    return check


def long_sources():
    return [f"{path}: {count} lines, at most {SOURCE_LINES_MAX}"
            for path in checks.repository_files()
            if path.parts[0] == "src" and path.suffix in SOURCES
            and (count := len(checks.lines(path))) > SOURCE_LINES_MAX]


def unlicensed():
    def is_source(path):
        text = checks.lines(path)[:1]
        return path.suffix in SOURCES or (text and text[0].startswith("#!"))

    return [f"{path}: no SPDX-License-Identifier in its first lines"
            for path in checks.repository_files() if is_source(path)
            and not any("SPDX-License-Identifier: Apache-2.0" in line
                        for line in checks.lines(path)[:3])]


def locked_addresses():
    return [f"{path}:{number}: {line.strip()}"
            for path in checks.repository_files() if path.name == "package-lock.json"
            for number, line in enumerate(checks.lines(path), 1) if '"resolved"' in line]


def unpinned():
    manifest = Path("tests/clients/package.json")
    return [f"{manifest}:{number}: {line.strip()}"
            for number, line in enumerate(checks.lines(manifest), 1)
            if re.search(r'": "[\^~><*]', line)]


if __name__ == "__main__":
    checks.run([
        ("no file names a folder of a developer's machine", says(MACHINE_PATH)),
        ("no file names a package registry", says(REGISTRY)),
        ("no source file is too long", long_sources),
        ("every source file names its licence", unlicensed),
        ("package-lock.json holds no addresses", locked_addresses),
        ("the test clients are pinned to one version each", unpinned),
    ])
