#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that programs built with earlier headers of libcay go on working: abi.py, or abi.py --record to write what there is now.

src/lib/libcay.abi has what programs were built with: functions as they are declared, where the fields of structs are, and the
numbers of enums. Nothing of it may change. What is new is recorded together with the change that brings it.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import checks  # noqa: E402

RECORD = checks.ROOT / "src/lib/libcay.abi"
HEAD = "# What programs rely on, on machines with 64 bits: tests/check/abi.py --record writes it.\n"
# Of these a program has its own and the library writes into them, without being told their size: they never grow.
FIXED = {"cay_error", "cay_pair", "cay_text"}

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FUNCTION = re.compile(r"^CAY_API ([^;{]*?\b(cay_\w+)\([^;]*\));", re.MULTILINE)
STRUCT = re.compile(r"^struct (cay_\w+) \{(.*?)^\};", re.MULTILINE | re.DOTALL)
ENUM = re.compile(r"^enum cay_\w+ \{(.*?)^\};", re.MULTILINE | re.DOTALL)


def fields_of(body):
    found = []
    for declaration in re.findall(r"[^;]*;", body):
        pointer = re.search(r"\(\*(\w+)\)\(", declaration)
        found += [pointer[1]] if pointer else re.findall(r"(\w+)(?:\[\w+\])?\s*[;,]", declaration)
    return found


def read_headers(texts):
    """Return functions {name: declaration}, structs {name: fields} and constants of enums."""
    text = COMMENT.sub("", "\n".join(texts))
    functions = {name: " ".join(declaration.split()) for declaration, name in FUNCTION.findall(text)}
    structs = {name: fields_of(body) for name, body in STRUCT.findall(text)}
    constants = [name for body in ENUM.findall(text) for name in re.findall(r"\b(CAY_\w+)\b", body)]
    return functions, structs, constants


def measure(structs, constants):
    """Ask the compiler: lines `struct NAME SIZE`, `field NAME.FIELD OFFSET SIZE`, `enum NAME NUMBER`."""
    prints = []
    for name, fields in structs.items():
        prints.append(f'printf("struct {name} %zu\\n", sizeof(struct {name}));')
        prints += [f'printf("field {name}.{field} %zu %zu\\n", offsetof(struct {name}, {field}), '
                   f"sizeof(((struct {name} *)0)->{field}));" for field in fields]
    prints += [f'printf("enum {name} %d\\n", (int){name});' for name in constants]
    source = "#include <cay/cay.h>\n#include <stdio.h>\nint main(void) { " + "\n".join(prints) + " return 0; }\n"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "measure"
        subprocess.run(["cc", "-std=c11", "-I", checks.ROOT / "include", "-x", "c", "-o", program, "-"], input=source, text=True,
                       check=True)
        return subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()


def current():
    texts = [path.read_text() for path in sorted((checks.ROOT / "include/cay").glob("*.h"))]
    functions, structs, constants = read_headers(texts)
    return [f"function {declaration}" for _, declaration in sorted(functions.items())] + measure(structs, constants)


def table(lines):
    """{kind and name: the rest}."""
    found = {}
    for line in lines:
        kind, rest = line.split(" ", 1)
        name = re.search(r"\b(cay_\w+)\(", rest)[1] if kind == "function" else rest.split()[0]
        found[kind, name] = rest
    return found


def numbers(rest):
    return [int(word) for word in rest.split()[1:]]


def faults(recorded, now):
    """What programs would notice, and what nobody has recorded."""
    before, after = table(recorded), table(now)
    found = []
    for (kind, name), rest in before.items():
        there = after.get((kind, name))
        if there is None:
            found.append(f"{kind} {name} is gone: programs need it")
        elif kind == "struct" and name not in FIXED and numbers(there) > numbers(rest):
            found.append(f"struct {name} has grown: record it (--record)")
        elif there != rest:
            found.append(f"{kind} {name} is another one: '{rest}' before, '{there}' now")
    for (kind, name), rest in after.items():
        if (kind, name) in before:
            continue
        found.append(f"{kind} {name} is new: record it (--record)")
        owner = before.get(("struct", name.split(".")[0])) if kind == "field" else None
        if owner and numbers(rest)[0] < numbers(owner)[0]:
            found.append(f"field {name} stands where older programs have something else, or nothing that is set")
    return found


def wrong_change_is_caught():
    recorded = ["function bool cay_do(int a)", "function int cay_gone(void)", "struct cay_pair 16", "struct cay_kept 12",
                "field cay_kept.size 0 8", "enum CAY_ONE 1"]
    now = ["function bool cay_do(long a)", "function int cay_new(void)", "struct cay_pair 24", "struct cay_kept 16",
           "field cay_kept.size 0 8", "field cay_kept.late 8 4", "field cay_kept.later 12 4", "enum CAY_ONE 2"]
    expected = ["function cay_do is another one: 'bool cay_do(int a)' before, 'bool cay_do(long a)' now",
                "function cay_gone is gone: programs need it",
                "struct cay_pair is another one: 'cay_pair 16' before, 'cay_pair 24' now",
                "struct cay_kept has grown: record it (--record)",
                "enum CAY_ONE is another one: 'CAY_ONE 1' before, 'CAY_ONE 2' now",
                "function cay_new is new: record it (--record)",
                "field cay_kept.late is new: record it (--record)",
                "field cay_kept.late stands where older programs have something else, or nothing that is set",
                "field cay_kept.later is new: record it (--record)"]
    found = faults(recorded, now)
    return [] if found == expected else found or ["nothing was found"]


def headers_are_read():
    text = """CAY_API bool cay_do(struct cay_one *one, /* what */
                            int two);
struct cay_one {
    size_t size;
    const char *const *names; /* not; this */
    void (*call)(void *state, int number); /* may be NULL */
    char text[20], other;
};
enum cay_way {
    CAY_WAY_ONE = 1, /* CAY_NOT */
    CAY_WAY_TWO = 2
};
"""
    expected = ({"cay_do": "bool cay_do(struct cay_one *one, int two)"},
                {"cay_one": ["size", "names", "call", "text", "other"]}, ["CAY_WAY_ONE", "CAY_WAY_TWO"])
    found = read_headers([text])
    return [] if found == expected else [str(found)]


def compare():
    if sys.maxsize < 2 ** 32:
        return "the record is of machines with 64 bits"
    return faults([line for line in RECORD.read_text().splitlines() if not line.startswith("#")], current())


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        RECORD.write_text(HEAD + "\n".join(current()) + "\n")
        sys.exit()
    checks.run([
        ("headers are read as they are meant", headers_are_read),
        ("a change that breaks programs is caught", wrong_change_is_caught),
        ("programs built with earlier headers go on working", compare),
    ])
