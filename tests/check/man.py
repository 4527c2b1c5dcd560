#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that the man pages and the programs say the same: man.py CAY CAYD, with the paths of the programs.

What a program has and what a page describes are both sets of facts, compared both ways:
("command", name, arguments), ("flag", command, name, value), ("variable", name). A page states them
so: `## cay NAME ARGUMENTS` begins a command; a line `*--name* _VALUE_` with indented text below it
is a flag of the command above it, or of all before the first command; `*NAME*` with indented text
below it, in the section ENVIRONMENT, is a variable.

Another program needs a function that gives its facts, and a line in main.
"""

import json
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import checks  # noqa: E402


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def flag_facts(command, flags):
    for flag in flags:
        yield ("flag", command, f"--{flag['name']}", flag.get("value", ""))
        if "letter" in flag:
            yield ("flag", command, f"-{flag['letter']}", flag.get("value", ""))


def cay_facts(program):
    """What `cay` has, by its hidden listing."""
    listing = json.loads(output(program, "help", "--list"))
    facts = set(flag_facts("", listing["flags"]))
    for command in listing["commands"]:
        facts.add(("command", command["name"], command["arguments"]))
        facts.update(flag_facts(command["name"], command["flags"]))
    facts.update(("variable", variable["name"]) for variable in listing["environment"])
    return facts


def plain(text):
    """Text without scdoc's marks."""
    return re.sub(r"\\(.)", r"\1", re.sub(r"(?<!\\)[_*]", "", text)).strip()


def entries(lines):
    """Yield (names, rest) of each `*name*, *name* rest` that has indented text below it."""
    for line, below in zip(lines, lines[1:]):
        if not line.startswith("*") or not below.startswith("\t"):
            continue
        names, rest = [], line
        while match := re.match(r"(?:, )?\*([^*]+)\*", rest):
            names.append(match[1])
            rest = rest[match.end():]
        yield [name.replace("\\", "") for name in names], plain(rest)


def sections(text):
    """Yield (title, command, lines): a command's own section has its name and arguments."""
    title, command, lines = "", None, []
    for line in text.splitlines():
        if line.startswith("#"):
            yield title, command, lines
            lines = []
            if line.startswith("## "):
                command = plain(line[3:])
            else:
                title, command = line[2:], None
        else:
            lines.append(line)
    yield title, command, lines


def page_facts(text, program, commands):
    """What a page says. Of COMMANDS it needs the names, to tell them from their arguments."""
    facts = set()
    for title, heading, lines in sections(text):
        owner = ""
        if heading is not None:
            words = heading.removeprefix(f"{program} ")
            fitting = [name for name in commands if f"{words} ".startswith(f"{name} ")]
            owner = max(fitting, key=len, default=words)
            facts.add(("command", owner, words[len(owner):].strip()))
        for names, rest in entries(lines):
            for name in names:
                if name.startswith("-"):
                    facts.add(("flag", owner, name, rest))
                elif title == "ENVIRONMENT":
                    facts.add(("variable", name))
    return facts


def show(fact):
    return " ".join(part for part in fact if part)


def differences(has, says, page):
    return ([f"{page} lacks: {show(fact)}" for fact in sorted(has - says)]
            + [f"{page} describes what there is not: {show(fact)}" for fact in sorted(says - has)])


def in_step(facts, program, page):
    """Return a check of a page below man/ against FACTS, those of the program."""

    def check():
        has = facts()
        commands = {fact[1] for fact in has if fact[0] == "command"}
        text = (checks.ROOT / "man" / page).read_text()
        return differences(has, page_facts(text, program, commands), page)

    return check


def marked_headings():
    """scdoc shows marks in headings as they are."""
    return [f"{page.name}:{number}: marks in a heading: {line}" for page in sorted((checks.ROOT / "man").glob("*.scd*"))
            for number, line in enumerate(page.read_text().splitlines(), 1)
            if line.startswith("#") and re.search(r"(?<![\\\w])[_*]\S", line)]


def unhelpful(program):
    """Help for people must show what the listing has."""
    has, wrong = cay_facts(program), []
    overview = output(program, "--help")
    for fact in sorted(has):
        text = overview
        if fact[0] == "flag" and fact[1]:
            text = output(program, "help", *fact[1].split())
        shown = " ".join(part for part in fact[1 + (fact[0] == "flag"):] if part)
        if fact[0] == "flag" and not fact[2].startswith("--"):
            shown = f"{fact[2]}, --"  # the value stands behind the long form
        if shown not in text:
            wrong.append(f"help does not show: {show(fact)}")
    return wrong


WIDTH = 80


def too_wide(cay, cayd):
    """Help must fit a terminal."""
    names = [[]] + [command["name"].split() for command in json.loads(output(cay, "help", "--list"))["commands"]]
    nouns = sorted({name[0] for name in names if len(name) == 2})
    pages = {f"cay help {' '.join(name)}": output(cay, "help", *name) for name in names + [[noun] for noun in nouns]}
    pages["cayd --help"] = output(cayd, "--help")
    return [f"{page}: {len(line)} columns: {line.strip()}"
            for page, text in pages.items() for line in text.splitlines() if len(line) > WIDTH]


WRONG_PAGE = """# OPTIONS
*--url* _URL_
\tRight.
*--gone* _X_
\tNot there any more.
*--json*, as in passing

# COMMANDS
## cay key create _ID_
*--owner* _WHO_
\tAnother value.
## cay fly
# ENVIRONMENT
*CAY\\_URL*, *NO_SUCH*
\tOne of two.
"""
WRONG_PAGE_FACTS = {
    ("flag", "", "--url", "URL"), ("flag", "", "--json", ""), ("command", "key create", ""),
    ("flag", "key create", "--owner", "OWNER"), ("variable", "CAY_URL"),
}


def wrong_page_is_caught():
    says = page_facts(WRONG_PAGE, "cay", {"key create"})
    found = {complaint.split(": ")[1] for complaint in differences(WRONG_PAGE_FACTS, says, "p")}
    expected = {"command key create", "command key create ID", "command fly", "flag --gone X",
                "flag --json", "flag key create --owner OWNER", "flag key create --owner WHO",
                "variable NO_SUCH"}
    return [f"{sorted(found ^ expected)} found or missed"] if found != expected else []


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: man.py CAY CAYD")
    cay, cayd = sys.argv[1:]
    checks.run([
        ("the check catches a wrong page", wrong_page_is_caught),
        ("cay(1) and cay are in step", in_step(lambda: cay_facts(cay), "cay", "cay.1.scd")),
        ("headings are plain", marked_headings),
        ("cay's help shows what its listing has", lambda: unhelpful(cay)),
        ("all help fits a terminal of 80 columns", lambda: too_wide(cay, cayd)),
    ])


if __name__ == "__main__":
    main()
