#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions that move between stores: from layers to whole trees and back. Runs where btrfs is."""

from daemon import SANDBOX, Cayd, case, list_if_asked, run, steps
from session_stream import export, import_
from transfer_story import compare, import_rich, make_story


def store_of(cay):
    stores = cay.call(SANDBOX + "GetCapabilities")["capabilities"]["stores"]
    return next(store["name"] for store in stores if store.get("active"))


def there(daemons):
    """from overlay to btrfs: every point, every kind of file, what is held, and the live files"""
    overlay, btrfs = daemons
    assert [store_of(cay) for cay in daemons] == ["overlay", "btrfs"]
    make_story(overlay, "story")
    _, data = export(overlay, "story")
    import_(btrfs, data)
    compare(overlay, "story", btrfs, "story")
    assert [entry["name"] for entry in btrfs.log("story") if entry.get("held")] == ["turn-0001"]


def and_back(daemons):
    """it goes on there, and comes back with what was added"""
    overlay, btrfs = daemons
    btrfs.sh("story", "cd /workspace && mkdir more && mv on more/ && ln more/on linked && rm -rf d", user="root")
    btrfs.turn("story")
    btrfs.sh("story", "echo later > /workspace/later", user="root")
    _, data = export(btrfs, "story")
    import_(overlay, data, sessionId="back")
    compare(btrfs, "story", overlay, "back")


def survives(daemons):
    """killed daemons have it all again"""
    overlay, btrfs = daemons
    for cay in daemons:
        cay.restart()
    compare(btrfs, "story", overlay, "back", points=["turn-0001"])
    for cay in daemons:
        for session_id in cay.ids():
            cay.destroy(session_id)
        assert not cay.leftovers(), cay.leftovers()


@case
def there_and_back(daemons):
    """a session goes from overlay to btrfs, goes on there, comes back, and outlives both daemons"""
    steps(there, and_back, survives)(daemons)


if __name__ == "__main__":
    list_if_asked()
    with Cayd("--store", "overlay") as first, Cayd("--store", "btrfs") as second:
        for daemon in (first, second):
            import_rich(daemon)
        run((first, second))
