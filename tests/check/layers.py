#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check src/LAYERS: who includes whom, and that every room is listed and explains itself."""

import re
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import checks  # noqa: E402

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
SOURCES = {".c", ".h", ".def"}
ANY = "~"


def read_layers(path):
    """Return {room: rooms it may include}. `~` is any room, `a/~` is a and all below it."""
    layers = {}
    for line in path.read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            layers[words[0]] = set(words[1:])
    return layers


def may_include(allowed, room):
    return (ANY in allowed or room in allowed
            or any(a.endswith("/~") and f"{room}/".startswith(a[:-1]) for a in allowed))


def sources(src):
    return [path for path in sorted(src.rglob("*")) if path.suffix in SOURCES]


def room_of(path, src):
    return str(path.parent.relative_to(src))


def forbidden_includes(src):
    layers = read_layers(src / "LAYERS")
    complaints = []
    for path in sources(src):
        room = room_of(path, src)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            include = INCLUDE.match(line)
            if not include:
                continue
            target = str(Path(include[1]).parent)
            where = f"src/{path.relative_to(src)}:{number}"
            if target == "." or target.startswith(".."):
                complaints.append(f'{where}: write "{include[1]}" from src/, with its room')
            elif target != room and not may_include(layers.get(room, set()), target):
                complaints.append(f"{where}: {room} may not include from {target} (src/LAYERS)")
    return complaints


def unlisted_rooms(src):
    layers = read_layers(src / "LAYERS")
    rooms = sorted({room_of(path, src) for path in sources(src)})
    return [f"src/{room}: not in src/LAYERS" for room in rooms if room not in layers]


def silent_rooms(src):
    rooms = sorted({room_of(path, src) for path in sources(src)})
    return [f"src/{room}: has no README.md" for room in rooms
            if not (src / room / "README.md").is_file()]


# What is still in circles, and why. A room that is not here has none; one that mends some lowers
# its number.
IN_CIRCLES = {
    "base": (2, "a log and its lines know each other"),
    "cli": (5, "commands, their arguments, help and completion are one table"),
    "client/rpc": (2, "a client keeps its connections, which know the address and the key"),
    "front": (3, "the router counts what metrics tell, and pages are one of its doors"),
    "front/connect": (2, "the door and its calls are one object in two files"),
    "front/e2b": (3, "the door, what it knows of sandboxes and its gate are one object"),
    "front/e2b/control": (5, "routes and what they answer name each other"),
    "front/e2b/envd": (6, "envd's routes and their streams are one object"),
    "front/http": (3, "a server, its connections and their exchanges own each other"),
    "front/rest": (2, "a request and its calls are one object in two files"),
    "host/process": (6, "a process, its record, its readers and its events are one object"),
    "host/runtime": (2, "the registry names what the wrappers look up"),
    "host/store": (9, "wrappers, bases and archives use each other"),
    "io": (3, "the loop owns its streams and workers"),
    "tool": (3, "a tool that is a command is run as one"),
    "tool/tree": (3, "a tree, its paths and their owners"),
}
PRIVATE = re.compile(r"_(internal|ops)$")


def unit_of(path):
    """A source and its headers: a.c, a.h, a_internal.h and a_ops.h are one unit."""
    return PRIVATE.sub("", path.rsplit(".", 1)[0])


def units(src):
    """Return {unit: units of the same room that it includes}."""
    found = {}
    for path in sources(src):
        unit = unit_of(str(path.relative_to(src)))
        includes = found.setdefault(unit, set())
        for line in path.read_text(errors="replace").splitlines():
            include = INCLUDE.match(line)
            if include and Path(include[1]).parent == Path(unit).parent:
                includes.add(unit_of(include[1]))
        includes.discard(unit)
    return found


def reached(graph, start):
    seen, todo = set(), [start]
    while todo:
        more = graph.get(todo.pop(), set()) - seen
        seen |= more
        todo.extend(more)
    return seen


def units_in_circles(src, known):
    """Files of one room that reach themselves through what they include."""
    graph = units(src)
    circling = {}
    for unit in sorted(graph):
        if unit in reached(graph, unit):
            circling.setdefault(str(Path(unit).parent), []).append(Path(unit).name)
    complaints = []
    for room in sorted(set(circling) | set(known)):
        names, allowed = circling.get(room, []), known.get(room, (0, ""))[0]
        if len(names) > allowed:
            complaints.append(f"src/{room}: files include each other in circles: {' '.join(names)}")
        elif len(names) < allowed:
            complaints.append(f"src/{room}: {len(names)} in circles; lower {allowed} in IN_CIRCLES")
    return complaints


def circles(src):
    """Rooms that reach themselves through what LAYERS allows: then nothing is below anything."""
    layers = read_layers(src / "LAYERS")

    def reaches(start):
        seen, todo = set(), [start]
        while todo:
            for room in layers:
                if room not in seen and may_include(layers[todo[0]] - {ANY}, room):
                    seen.add(room)
                    todo.append(room)
            todo.pop(0)
        return seen

    return [f"src/LAYERS: {room} reaches itself" for room in layers if room in reaches(room)]


BAD_TREE = {
    "LAYERS": "base\nio base\nfront io api/~\napi/deep\nloop1 loop2\nloop2 loop1\nbin ~\n",
    "base/README.md": "",
    "base/d.c": '#include "base/e.h"\n',
    "base/e.h": '#include "base/f.h"\n',
    "base/f_internal.h": '#include "base/d.h"\n#include "base/f.h"\n',
    "base/a.c": '#include "base/a.h"\n#include <stdio.h>\n#  include "io/up.h"\n',
    "io/b.c": '#include "base/a.h"\n#include "b.h"\n#include "../base/a.h"\n',
    "front/c.h": '#include "io/b.h"\n#include "base/a.h"\n#include "api/deep/d.h"\n',
    "bin/main.c": '#include "front/c.h"\n#include "hidden/e.h"\n',
    "hidden/e.h": '#include "base/a.h"\n',
}


def bad_tree_is_caught():
    """The checks must find every fault of a small wrong tree, and nothing else in it."""
    with tempfile.TemporaryDirectory() as folder:
        src = Path(folder)
        for name, text in BAD_TREE.items():
            (src / name).parent.mkdir(exist_ok=True, parents=True)
            (src / name).write_text(text)
        found = [c.split(": ")[0] for c in forbidden_includes(src)]
        expected = ["src/base/a.c:3", "src/front/c.h:2", "src/hidden/e.h:1", "src/io/b.c:2",
                    "src/io/b.c:3"]
        wrong = [] if found == expected else [f"includes: {found}, expected {expected}"]
        for check, count in ((unlisted_rooms, 1), (silent_rooms, 4), (circles, 2)):
            if len(check(src)) != count:
                wrong.append(f"{check.__name__}: {check(src)}, expected {count}")
        for known, count in (({}, 1), ({"base": (3, "")}, 0), ({"base": (4, "")}, 1),
                             ({"base": (3, ""), "io": (1, "")}, 1)):
            if len(units_in_circles(src, known)) != count:
                wrong.append(f"circles of {known}: {units_in_circles(src, known)}, expected {count}")
        return wrong


if __name__ == "__main__":
    SRC = checks.ROOT / "src"
    checks.run([
        ("the check catches a wrong tree", bad_tree_is_caught),
        ("no file includes from a room that LAYERS forbids", lambda: forbidden_includes(SRC)),
        ("every room is in LAYERS", lambda: unlisted_rooms(SRC)),
        ("every room has a README.md", lambda: silent_rooms(SRC)),
        ("no room reaches itself", lambda: circles(SRC)),
        ("no file includes itself by way of others of its room",
         lambda: units_in_circles(SRC, IN_CIRCLES)),
    ])
