#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check what ARCHITECTURE.md and the rooms' pages say of files: that they exist, and that none is left out."""

import fnmatch
import re
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import checks  # noqa: E402
import layers  # noqa: E402

QUOTED = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[a-z0-9_./-]+\.(?:c|h|def|proto|py)")
GENERATED = {"cay_v1.h", "google_protobuf.h"}
STEP = re.compile(r"([\w./-]+\.c):(\w+)")
FILES_MAX = 30
LINES_MAX = 5000
WHY = "This room is large because "


def pages(root):
    """ARCHITECTURE.md and the page of each room."""
    return [root / "ARCHITECTURE.md"] + sorted((root / "src").rglob("README.md"))


def quoted(path):
    """(number of the line, what stands between backticks), outside of blocks."""
    is_block = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("```"):
            is_block = not is_block
        elif not is_block:
            for text in QUOTED.findall(line):
                yield number, text


def defines(path, function):
    """Functions begin in the first column, their braces on a line of their own; some are made by a macro."""
    lines = path.read_text().splitlines()
    start = re.compile(rf"^[a-z].*\b{function}\(")
    return any(start.match(line) and not line.endswith(";") for line in lines)


def lost_files(root):
    """A file is named from src/, from the repository, or beside the page."""
    lost = []
    for page in pages(root):
        for number, text in quoted(page):
            path = text.split(":")[0]
            places = (root / "src" / path, root / path, page.parent / path)
            is_ours = FILE.fullmatch(path) and Path(path).name not in GENERATED
            if is_ours and not any(place.is_file() for place in places):
                lost.append(f"{page.relative_to(root)}:{number}: {path} does not exist")
    return lost


def lost_functions(root):
    lost = []
    for page in pages(root):
        for number, text in quoted(page):
            step = STEP.fullmatch(text)
            path = root / "src" / step[1] if step else None
            if path and path.is_file() and not defines(path, step[2]):
                lost.append(f"{page.relative_to(root)}:{number}: {step[1]} has no function {step[2]}")
    return lost


def rooms_of(root):
    """Return {room: its sources}."""
    rooms = {}
    for path in layers.sources(root / "src"):
        rooms.setdefault(path.parent, []).append(path)
    return rooms


def units_of(paths):
    return sorted({layers.unit_of(path.name) for path in paths})


def named_units(page):
    """The words of a page that may stand for a source or several: `a`, `a.c`, `a*`."""
    for _, text in quoted(page):
        for word in re.split(r"[\s,]+", text):
            yield layers.unit_of(word) if FILE.fullmatch(word.replace("*", "_")) else word


def silent_units(root):
    """Sources that the page of their room does not name."""
    silent = []
    for room, paths in rooms_of(root).items():
        words = set(named_units(room / "README.md")) - {"*"}
        silent += [f"{room.relative_to(root)}/README.md: does not say what {unit} is" for unit in units_of(paths)
                   if not any(fnmatch.fnmatchcase(unit, word) for word in words)]
    return silent


def lost_units(root):
    """Rows of tables of files whose first cell names no source of the room, and no room in it."""
    lost = []
    for room, paths in rooms_of(root).items():
        page = room / "README.md"
        units, is_table = units_of(paths), False
        for number, line in enumerate(page.read_text().splitlines(), 1):
            is_table = line.startswith(("| file |", "| header |")) or (is_table and line.startswith("|"))
            for text in QUOTED.findall(line.split("|")[1]) if is_table else []:
                word = layers.unit_of(text) if "." in text else text
                is_room = (room / text).is_dir()
                if not fnmatch.filter(units, word) and not is_room and text not in GENERATED:
                    lost.append(f"{page.relative_to(root)}:{number}: {text} is no file of the room")
    return lost


def large_rooms(root):
    """Rooms that nobody can overlook, and whose page does not say why."""
    large = []
    for room, paths in rooms_of(root).items():
        lines = sum(len(path.read_text(errors="replace").splitlines()) for path in paths)
        has_reason = re.search(rf"^{WHY}", (room / "README.md").read_text(), re.M)
        name = room.relative_to(root)
        if (len(paths) > FILES_MAX or lines > LINES_MAX) and not has_reason:
            large.append(f"{name}: {len(paths)} files, {lines} lines: split it, or say in its README.md: '{WHY}...'")
        elif has_reason and len(paths) <= FILES_MAX and lines <= LINES_MAX:
            large.append(f"{name}/README.md: says why the room is large, and it is not")
    return large


def rooms_off_the_map(root):
    text = (root / "ARCHITECTURE.md").read_text()
    return [f"ARCHITECTURE.md: has no line for `{room}`" for room in layers.read_layers(root / "src/LAYERS")
            if f"`{room}`" not in text]


def upward_on_the_map(root):
    """Rooms that use one that is drawn above them. The hallway is in the middle, and used from both sides."""
    text = (root / "ARCHITECTURE.md").read_text()
    rows = text.split("```")[1].splitlines() if "```" in text else []
    allowed = layers.read_layers(root / "src/LAYERS")
    place = {}
    for room in allowed:
        drawn = re.compile(rf"(?<![\w/]){room}(?![\w/])")
        place |= {room: number for number, row in enumerate(rows) if drawn.search(row)}
    return [f"ARCHITECTURE.md: {room} uses {other}, which is drawn above it" for room, others in allowed.items()
            for other in sorted(others - {"api"}) if place.get(other, len(rows)) < place.get(room, 0)]


BAD_TREE = {
    "ARCHITECTURE.md": "`a`, `a/one.c:run`, `a/one.c:walk`, `a/one.c:call`, `a/none.c:run`, `x.py`, `one.h`\n```\n`a/no.c`\n| b |\n| a a/x api |\n```\n",
    "src/LAYERS": "a b\nb\n",
    "src/a/README.md": "| file | what |\n|---|---|\n| `one` | |\n| `two*.c`, `gone` | `else` |\n\n`one.c`, `b/long.c`\n",
    "src/a/one.c": "static int run(void)\n{\n    walk();\n    call(\n        1);\n}\nint walk(void);\n",
    "src/a/two_big.c": "\n",
    "src/a/two_internal.h": "\n",
    "src/a/three.h": "\n",
    "src/b/README.md": f"`*`\n{WHY}it is.\n",
    "src/b/long.c": "\n" * (LINES_MAX + 1),
    "src/c/README.md": f"{WHY}it was.\n`short`\n",
    "src/c/short.c": "\n",
    "src/d/README.md": "`n*`\n",
} | {f"src/d/n{number}.c": "\n" for number in range(FILES_MAX + 1)}


def bad_tree_is_caught():
    """The checks must find every fault of a small wrong tree, and nothing else in it."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in BAD_TREE.items():
            (root / name).parent.mkdir(exist_ok=True, parents=True)
            (root / name).write_text(text)
        wrong = []
        for check, expected in (
                (lost_files, ["a/none.c", "x.py", "one.h"]), (lost_functions, ["walk", "call"]),
                (silent_units, ["three", "long"]), (lost_units, ["gone"]),
                (large_rooms, ["src/c", "src/d"]), (rooms_off_the_map, ["`b`"]), (upward_on_the_map, ["a uses b"])):
            found = check(root)
            if len(found) != len(expected) or not all(word in line for word, line in zip(expected, found)):
                wrong.append(f"{check.__name__}: {found}, expected {expected}")
        return wrong


if __name__ == "__main__":
    checks.run([
        ("the check catches a wrong tree", bad_tree_is_caught),
        ("files that pages name exist", lambda: lost_files(checks.ROOT)),
        ("functions that pages name are in their files", lambda: lost_functions(checks.ROOT)),
        ("the page of a room names every file of it", lambda: silent_units(checks.ROOT)),
        ("tables of files name no others", lambda: lost_units(checks.ROOT)),
        ("a room is small, or says why not", lambda: large_rooms(checks.ROOT)),
        ("ARCHITECTURE.md names every room", lambda: rooms_off_the_map(checks.ROOT)),
        ("rooms use what is drawn beside and below them", lambda: upward_on_the_map(checks.ROOT)),
    ])
