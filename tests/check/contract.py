#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that the contract is kept: what a client may say is read, what an answer promises is set.

Every member of the generated structs is marked deprecated in a copy of their header, and clang
names each place that touches one, with its type known. A place that assigns is a write, any other
a read. So with the daemon's settings: each must be read. A field that is for later says so in the
.proto file, in a comment that begins with "Reserved:". It may be looked at, to be refused, but no
answer may have it.
"""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import checks  # noqa: E402

# Who answers the contract; its clients, and doors that translate for others, do not count.
ROOMS = ("src/api/", "src/tool/", "src/host/", "src/front/connect/", "src/wire/", "src/base/")
# The table of the configuration: it fills settings and reads none.
ROWS = ("{OWN(", "{HOST(", "{E2B(", "{SERVER(")
# Comes with every error; src/wire writes its bytes, which tests/wire/rpc.py reads.
BY_HAND = "ErrorInfo"
MARKED = re.compile(r"^(.+?):(\d+):(\d+): warning: .* is deprecated: (\S+) \[")
STRUCT = re.compile(r"^struct (cay_v1_\w+) \{$")
MEMBER = re.compile(r"^( +[^;{}]*?[ *])(\w+);$")
ASSIGNED = re.compile(r"\s*(=(?!=)|\+=|-=|\|=|\+\+|--)")
STEP = re.compile(r"\s*(\.(items|count|value|key|len)\b|\[[^][]*\])")
TYPE = re.compile(r"^\s*(?:repeated |optional )?(?:map<\w+, *([\w.]+)>|([\w.]+)) (\w+) = \d+")
RPC = re.compile(r"^\s*rpc \w+\((?:stream )?(\w+)\) returns \((?:stream )?(\w+)\)")


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class Contract:
    """Messages with their fields, and what requests and answers are made of."""

    def __init__(self, folder):
        self.fields = {}  # message -> {field: type}
        self.reserved = set()  # message.field
        inputs, outputs = set(), set()
        for path in sorted(set(folder.rglob("*.proto")) - set(folder.glob("cay/meta/**/*.proto"))):  # facts about verbs
            self.read(path.read_text().splitlines(), inputs, outputs)
        self.asked = self.reach(inputs)
        self.answered = self.reach(outputs)

    def read(self, lines, inputs, outputs):
        message, comment = None, ""
        for line in lines:
            text = line.strip()
            if text.startswith("//"):
                comment += text[2:]
                continue
            if rpc := RPC.match(line):
                inputs.add(rpc[1])
                outputs.add(rpc[2])
            elif text.startswith("message "):
                message = text.split()[1]
                self.fields[message] = {}
            elif line.startswith("}"):
                message = None
            elif message and (field := TYPE.match(line)):
                self.fields[message][field[3]] = field[1] or field[2]
                if comment.strip().startswith("Reserved:"):
                    self.reserved.add(f"{message}.{field[3]}")
            comment = ""

    def reach(self, roots):
        seen, todo = set(), list(roots)
        while todo:
            message = todo.pop()
            if message in self.fields and message not in seen:
                seen.add(message)
                todo += self.fields[message].values()
        return seen


def mark(text, names):
    """The header with every member of the structs `names` knows deprecated as Struct.member."""
    out, struct = [], None
    for line in text.splitlines():
        if found := STRUCT.match(line) or re.match(r"^struct (\w+) \{$", line):
            struct = names.get(found[1])
        elif line == "};":
            struct = None
        elif struct and (member := MEMBER.match(line.split("/*")[0].rstrip())):
            line = f'{member[1]}{member[2]} __attribute__((deprecated("{struct}.{member[2]}")));'
        out.append(line)
    return "\n".join(out) + "\n"


def is_write(line, column):
    """Does the member that begins at `column` (from 1) stand on the left of an assignment?"""
    rest = line[column - 1:]
    rest = rest[re.match(r"\w*", rest).end():]
    while step := STEP.match(rest):
        rest = rest[step.end():]
    return bool(ASSIGNED.match(rest))


def is_address(line, column):
    """&it->member: who gets that may read and write. Filled through a pointer counts as both."""
    return bool(re.search(r"&\(?[\w.>\-\[\]()]*$", line[:column - 1]))


def touched(sources, includes, folder):
    """(reads, writes): sets of Struct.member, by asking clang about every source."""
    def ask(path):
        command = ["clang", "-fsyntax-only", "-std=gnu2x", "-D_GNU_SOURCE",
                   "-Wno-everything", "-Wdeprecated-declarations", "-fno-caret-diagnostics",
                   "-DCAY_VERSION=\"\"", "-DCAY_LIBEXECDIR=\"\"", "-DCAY_DATADIR=\"\"",
                   *[f"-iquote{i}" for i in [folder, *includes]], str(path)]
        return subprocess.run(command, capture_output=True, text=True).stderr

    reads, writes, broken = set(), set(), []
    texts = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, said in zip(sources, pool.map(ask, sources)):
            if "error:" in said:
                broken.append(f"{path}: {next(l for l in said.splitlines() if 'error:' in l)}")
            for line in said.splitlines():
                if not (found := MARKED.match(line)):
                    continue
                lines = texts.setdefault(found[1], Path(found[1]).read_text().splitlines())
                text, column = lines[int(found[2]) - 1], int(found[3])
                if text.lstrip().startswith(ROWS):
                    continue
                # An assignment may begin on the next line.
                text += " " + (lines[int(found[2])] if int(found[2]) < len(lines) else "")
                if is_write(text, column):
                    writes.add(found[4])
                else:
                    reads.add(found[4])
                    if is_address(text, column):
                        writes.add(found[4])
    return reads, writes, broken


def self_evident(contract, kind):
    """A message without fields says nothing but that it is there."""
    return not contract.fields.get(kind, True)


def unkept(contract, reads, writes):
    complaints = []
    for message, fields in contract.fields.items():
        for field in fields:
            name = f"{message}.{field}"
            asked, answered = message in contract.asked, message in contract.answered
            if message == BY_HAND:
                continue
            if name in contract.reserved:
                if name in writes:
                    complaints.append(f"{name}: is said to be reserved, and set all the same")
            elif self_evident(contract, fields[field]):
                continue
            elif asked and name not in reads:
                complaints.append(f"{name}: a request may set it, nobody reads it")
            # What goes both ways is stored and answered as a whole.
            elif answered and not asked and name not in writes:
                complaints.append(f"{name}: an answer promises it, nobody sets it")
            elif not asked and not answered:
                complaints.append(f"{name}: belongs to no request and no answer")
    return complaints


SELF = {
    "x.proto": """
service S {
  rpc A(ARequest) returns (stream AResponse) {
}
message ARequest {
  // Read.
  string name = 1;
  // Not read: only another message has a member of this name that is.
  optional int32 size = 2;
  // Reserved: for later.
  string later = 3;
  // Reserved: but used.
  string broken = 5;
  repeated Inner inner = 4;
}
message Inner {
  map<string, Deep> deep = 1;
}
message Deep {
  bool is_set = 1;
}
message AResponse {
  oneof frame {
    int32 size = 1;
    string never = 2;
  }
}
""",
    "cay_v1.h": """
struct cay_v1_deep {
    _Bool is_set;
};
struct cay_v1_inner_deep_entry_array {
    struct cay_v1_deep *items;
};
struct cay_v1_inner {
    struct cay_v1_inner_deep_entry_array deep;
};
struct cay_v1_a_request {
    char *name;
    int size;
    char *later;
    char *broken;
    struct cay_v1_inner *inner;
};
struct cay_v1_a_response {
    int which_frame;
    union {
        int size;
        char *never;
    } frame;
};
""",
    "a.c": """
#include "cay_v1.h"
int f(struct cay_v1_a_request *in, struct cay_v1_a_response *out);
int f(struct cay_v1_a_request *in, struct cay_v1_a_response *out)
{
    *out = (struct cay_v1_a_response){.frame.size = in->inner->deep.items[0].is_set};
    in->broken = in->later;
    return out->frame.size == 1 && in->name && out->frame.never;
}
"""}


def wrong_contract_is_caught():
    if not shutil.which("clang"):
        return "there is no clang (tools/packages/test)"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in SELF.items():
            (folder / file).write_text(text)
        contract = Contract(folder)
        names = {f"cay_v1_{snake(m)}": m for m in contract.fields}
        (folder / "cay_v1.h").write_text(mark(SELF["cay_v1.h"], names))
        reads, writes, broken = touched([folder / "a.c"], [folder], folder)
        found = sorted(c.split(":")[0] for c in unkept(contract, reads, writes))
        expected = ["ARequest.broken", "ARequest.size", "AResponse.never"]
        return broken + ([] if found == expected else [f"found {found}, expected {expected}"])


def look(build):
    """Everything touched in the product, marked headers in front of the real ones."""
    contract = Contract(checks.ROOT / "proto")
    names = {f"cay_v1_{snake(m)}": m for m in contract.fields}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = {"src/bin/cayd_conf.h": "cayd_conf",
                    "src/host/session/settings.h": "cay_host_settings",
                    "src/front/http/server.h": "cay_server_options",
                    "src/front/e2b/e2b.h": "cay_e2b_options",
                    "src/host/service/service.h": "cay_host_options"}
        for path, text, known in [
                ("api/cay_v1.h", (build / "src/api/cay_v1.h").read_text(), names),
                *[(p.removeprefix("src/"), (checks.ROOT / p).read_text(), {s: s})
                  for p, s in settings.items()]]:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(mark(text, known))
        commands = json.loads((build / "compile_commands.json").read_text())
        sources = sorted({Path(c["directory"]) / c["file"] for c in commands}, key=str)
        sources = [Path(os.path.normpath(s)) for s in sources]
        ours = [s for s in sources if s.is_relative_to(checks.ROOT)
                and str(s.relative_to(checks.ROOT)).startswith((*ROOMS, "src/bin/cayd"))]
        includes = [checks.ROOT / "src", checks.ROOT / "include", build / "src"]
        reads, writes, broken = touched(ours, includes, folder)
        doors = [s for s in sources if s.is_relative_to(checks.ROOT / "src/front")]
        reads |= {r for r in touched(doors, includes, folder)[0]
                  if r.split(".")[0] in settings.values()}
    members = {s: re.findall(rf'deprecated\("{s}\.(\w+)"\)',
                             mark((checks.ROOT / p).read_text(), {s: s}))
               for p, s in settings.items()}
    return contract, reads, writes, broken, members


def settings_without_use(members, reads):
    return [f"{struct}.{member}: a setting that nobody reads"
            for struct, names in members.items() for member in names
            if f"{struct}.{member}" not in reads]


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else checks.ROOT / "build").resolve()
    cases = [("the check catches a wrong contract", wrong_contract_is_caught)]
    if not shutil.which("clang"):
        checks.run(cases)
    contract, reads, writes, broken, members = look(build)
    checks.run(cases + [
        ("every source was understood", lambda: broken),
        ("there are messages, fields and settings to look at",
         lambda: [] if len(contract.fields) > 100 and len(reads) > 300 and len(writes) > 300
         and all(len(m) > 5 for m in members.values()) else ["nearly nothing was found"]),
        ("every field is read or set where the contract says so",
         lambda: unkept(contract, reads, writes)),
        ("every setting is used", lambda: settings_without_use(members, reads)),
    ])


if __name__ == "__main__":
    main()
