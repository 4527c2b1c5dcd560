#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The store without snapshots: sessions work, and what they cannot do is said."""

from daemon import SANDBOX, case, fails
from small_base import run_with_cayd


@case
def told(cay):
    """capabilities say which store is in use and what it cannot do"""
    can = cay.call(SANDBOX + "GetCapabilities")["capabilities"]
    assert not can.get("snapshots") and not can.get("rollback") and not can.get("fork"), can
    stores = {store["name"]: store for store in can["stores"]}
    assert {"overlay", "btrfs", "zfs", "local-disk"} <= set(stores), stores
    for name, store in stores.items():
        assert bool(store.get("active")) == (name == "local-disk"), store
        assert bool(store.get("available")) != bool(store.get("unavailableReason")), store
    assert stores["overlay"]["snapshots"] and not stores["local-disk"].get("snapshots"), stores
    text = cay.log_path.read_text()
    assert "store.no_snapshots" in text and "cay doctor" in text, text[-2000:]


def two_sessions(cay):
    """Two of the same base, of which one has changed much."""
    cay.create("one")
    cay.create("two")
    cay.sh("one", "echo 1 > file; mkdir -p a/b; rm -rf /usr/share/data", user="root")


@case
def works(cay):
    """sessions are copies of their base, with owners of their own"""
    two_sessions(cay)
    assert cay.sh("one", "cat file; stat -c %U /etc/passwd") == "1\nroot\n"
    fails("not_found", cay.file, "StatFile", "two", path="file")
    assert cay.sh("two", "ls /usr/share/data | wc -l").strip() == "200"


@case
def refuses(cay):
    """turns, snapshots, their list, rollbacks and forks are refused with a reason and a way out"""
    two_sessions(cay)
    calls = (
        lambda: cay.turn("one"),
        lambda: cay.snapshot("one", "named"),
        lambda: cay.log("one"),
        lambda: cay.rollback("one", "turn-0001"),
        lambda: cay.fork("one"),
    )
    for call in calls:
        error = fails("unimplemented", call, reason="snapshots_not_available")
        assert "overlay, btrfs or zfs" in error.message, error.message
    assert cay.sh("one", "cat file") == "1\n"


@case
def survives(cay):
    """a killed daemon's sessions are there again"""
    two_sessions(cay)
    cay.kill()
    cay.start()
    assert cay.ids() == ["one", "two"], cay.ids()
    assert cay.sh("one", "cat file") == "1\n"
    cay.destroy("one")
    assert cay.sh("two", "ls /usr/share/data | wc -l").strip() == "200"


if __name__ == "__main__":
    run_with_cayd("--store", "local-disk", "--default-base", "small")
