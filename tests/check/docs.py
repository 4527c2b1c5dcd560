#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the pages that are made from sources, and that links between pages lead somewhere."""

import importlib.machinery
import importlib.util
import re
import sys

sys.dont_write_bytecode = True
import checks  # noqa: E402


def load(name):
    """A program of tools/ as a module."""
    path = str(checks.ROOT / "tools" / name)
    spec = importlib.util.spec_from_loader(
        name, importlib.machinery.SourceFileLoader(name, path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stale_errors():
    tool = load("errors-page")
    if not tool.PAGE.exists() or tool.PAGE.read_text() != tool.page():
        return ["docs/errors.md is out of step with src/base/reasons.def: run tools/errors-page"]
    return []


def stale_verbs():
    tool = load("verbs-page")
    if not tool.PAGE.exists() or tool.PAGE.read_text() != tool.page():
        return ["docs/verbs.md is out of step with proto/cay/v1: run tools/verbs-page"]
    return []


def stale_probes():
    tool = load("security-page")
    if not tool.PAGE.exists() or tool.page_rows(tool.PAGE.read_text()) != tool.probes():
        return ["docs/security.md has other probes than src/probe and src/cli/selftest: run tools/security-page"]
    return []


def broken_links():
    broken = []
    for path in checks.repository_files():
        if path.suffix != ".md":
            continue
        for number, line in enumerate(checks.lines(path), 1):
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", line):
                if "://" not in target and not (checks.ROOT / path.parent / target).exists():
                    broken.append(f"{path}:{number}: {target} does not exist")
    return broken


# What readers stumbled over: words without their noun, or in an order that nobody speaks in.
UNCLEAR = ("that asks for none", "this is too much", "ends such", "is of no kind", "values by turns", "found by whom")


def unclear_sentences():
    """In what users see: the contract, pages, and texts of programs, which may be cut into several strings."""
    found = []
    for path in checks.repository_files():
        if path.parts[0] not in ("docs", "man", "proto", "src") and path.name != "README.md":
            continue
        if path.parts[0] == "tests" or path.suffix not in (".c", ".def", ".in", ".md", ".proto", ".scd"):
            continue
        text = re.sub(r'"\s*"|\s+(//)?', lambda match: "" if '"' in match[0] else " ", "\n".join(checks.lines(path)))
        found += [f"{path}: '{words}'" for words in UNCLEAR if words in re.sub(" +", " ", text)]
    return found


if __name__ == "__main__":
    checks.run([
        ("docs/errors.md is made from the table of reasons", stale_errors),
        ("docs/verbs.md is made from the contract", stale_verbs),
        ("docs/security.md has every probe", stale_probes),
        ("links between pages lead somewhere", broken_links),
        ("sentences that nobody understood do not come back", unclear_sentences),
    ])
