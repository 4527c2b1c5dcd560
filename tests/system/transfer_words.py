#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What clients said of snapshots goes with an exported session, however much it is."""

import json
import tarfile

from daemon import case, fails
from session_stream import changed, export, import_
from small_base import run_with_cayd

COUNT = 50
HEAD_BYTES_MAX = 16 << 20  # CAY_EXPORT_MANIFEST_BYTES_MAX
METADATA = "\1" * 60_000  # six times as long in JSON
SAID = ("name", "message", "metadata", "turnNumber", "parent")


def said(cay, session_id):
    return sorted(({key: point.get(key) for key in SAID} for point in cay.log(session_id)), key=str)


def make(cay, session_id, count, **fields):
    cay.create(session_id)
    for number in range(count):
        cay.turn(session_id, message=f"turn {number}", **fields)
    cay.snapshot(session_id, "silent")


@case
def more_than_a_head(cay):
    """words that together are larger than a head may be come back, also after a restart"""
    assert COUNT * len(json.dumps(METADATA)) > HEAD_BYTES_MAX
    make(cay, "much", COUNT, metadata={"said": METADATA})
    _, data = export(cay, "much")
    import_(cay, data, sessionId="copy")
    assert said(cay, "copy") == said(cay, "much") and len(said(cay, "copy")) == COUNT + 1
    cay.restart()
    assert said(cay, "copy") == said(cay, "much")
    cay.destroy("copy")
    cay.destroy("much")


def words_into_head(members):
    """As version 1 has it."""
    head = json.loads(members[0][1])
    head["version"] = 1
    rest = []
    for member, content in members[1:]:
        parts = member.name.split("/")
        if parts[-1] == "words.json":
            head["points"][int(parts[1]) - 1]["snapshot"] |= json.loads(content)
        else:
            rest.append((member, content))
    assert len(rest) < len(members) - 1
    return [(members[0][0], json.dumps(head).encode()), *rest]


@case
def older(cay):
    """a stream of the first version, with the words in its head, is read as before; so is one that goes on"""
    make(cay, "old", 2, metadata={"a": ["b", 1]})
    _, data = export(cay, "old", until="turn-0001")
    import_(cay, changed(data, words_into_head), sessionId="copy")
    assert said(cay, "copy") == [point for point in said(cay, "old") if point["name"] == "turn-0001"]
    _, data = export(cay, "old", since="turn-0001")
    import_(cay, data, sessionId="copy", intoExisting=True)
    assert said(cay, "copy") == said(cay, "old")
    cay.destroy("copy")


@case
def hostile(cay):
    """words that are not where they belong, twice there, too large or none are refused, and nothing is left"""
    make(cay, "old", 2, metadata={"a": ["b", 1]})
    _, data = export(cay, "old")
    before = (cay.ids(), cay.store()["s"], cay.store()["p"])

    def words(content, name="points/000001/words.json", at=1, **fields):
        def change(members):
            member = tarfile.TarInfo(name)
            for key, value in fields.items():
                setattr(member, key, value)
            members = [one for one in members if one[0].name != name]
            return [*members[:at], (member, None if fields else content), *members[at:]]
        return change

    def twice(members):
        return [*members[:2], *members[1:]]

    def late(members):
        return [members[0], members[2], members[1], *members[3:]]
    for change in (twice, late, words(b"{"), words(b"[]"), words(b'{"message": 1}'), words(b""),
                   words(json.dumps({"message": "x" * 5000}).encode()),
                   words(json.dumps({"metadata": {"a": "x" * 70_000}}).encode()),
                   words(b" " * ((1 << 20) + 1) + b"{}"),
                   words(b"{}", "live/words.json", -1), words(b"{}", "base/words.json"),
                   words(b"{}", "points/000001/words.json/x"), words(b"{}", "points/000009/words.json"),
                   words(None, type=tarfile.SYMTYPE, linkname="/etc/passwd")):
        fails("invalid_argument", import_, cay, changed(data, change), sessionId="evil")
    assert before == (cay.ids(), cay.store()["s"], cay.store()["p"])
    cay.destroy("old")


if __name__ == "__main__":
    run_with_cayd()
