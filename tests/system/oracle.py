# SPDX-License-Identifier: Apache-2.0
"""What a daemon's sessions are, in full: records, histories and trees; and what it keeps on disk.

Trees are changed and told by the program tree_actor inside the sandbox; the tree of a snapshot is
that of a fork made of it.
"""

import contextlib
import os
import shutil
import sqlite3
import sys
import tempfile
import time

from daemon import BASE, PATIENCE_S, Closed, RpcError, eventually

NO_HOST_BASE = ("--default-base", "small")  # which would be made in the background
ACTOR = sys.argv[2]
IS_PLAIN = "none" in sys.argv[3:]  # the runtime: commands are the host's, in a directory of the tree
ACTOR_INSIDE = os.path.abspath(ACTOR) if IS_PLAIN else "/usr/bin/tree_actor"
DUMP_BYTES_MAX = 8 << 20
SPARES_MAX = 64  # TREES_SPARES_MAX of the daemon


def act(cay, session_id, *operations, folder="/"):
    """Do operations of tree_actor as the sandbox's root; all must succeed."""
    result, _, err = cay.launch(session_id, ACTOR_INSIDE, "do", f".{folder}", *operations, user="root",
                                cwd="/")
    assert result.get("exitCode", 0) == 0, (operations, result, err[-1000:])


def dump(cay, session_id, folder="/"):
    """A session's tree, a line for each node."""
    result, out, err = cay.launch(session_id, ACTOR_INSIDE, "dump", f".{folder}", user="root", cwd="/",
                                  maxOutputBytes=DUMP_BYTES_MAX)
    assert result.get("exitCode", 0) == 0 and out.startswith(b".\t"), (result, err[-1000:])
    return out.decode()


def dump_snapshot(cay, session_id, snapshot, folder="/"):
    fork = cay.fork(session_id, snapshot=snapshot)[0]["id"]
    try:
        return dump(cay, fork, folder)
    finally:
        cay.destroy(fork)


def differences(left, right, most=12):
    """The lines that only one of two dumps has."""
    old, new = left.splitlines(), right.splitlines()
    told = [f"- {line}" for line in old if line not in set(new)]
    told += [f"+ {line}" for line in new if line not in set(old)]
    return "\n".join(told[:most])


def snapshots_of(cay, session_id):
    """Its snapshots; none on a store that can take none, and says so."""
    try:
        return cay.log(session_id)
    except RpcError as error:
        if error.reason != "snapshots_not_available":
            raise
        return []


def log_of(cay, session_id):
    return [(entry["name"], entry["kind"].removeprefix("SNAPSHOT_KIND_"), entry.get("parent", ""))
            for entry in snapshots_of(cay, session_id)]


def diff_of(cay, session_id):
    return sorted((path, entry["kind"]) for path, entry in cay.diff(session_id)[0].items())


def dump_live(cay, session):
    """In a paused session nothing runs, but in a fork of it."""
    if session["state"] != "SESSION_STATE_PAUSED":
        return dump(cay, session["id"])
    fork = cay.fork(session["id"])[0]["id"]
    try:
        return dump(cay, fork)
    finally:
        cay.destroy(fork)


def look_at(cay, session_id):
    """All there is to see of a session."""
    session = cay.get(session_id)
    log = log_of(cay, session_id)
    return {
        "state": session["state"], "head": session.get("head", ""),
        "turns": int(session.get("turnCount", 0)), "snapshots": int(session.get("snapshotCount", 0)),
        "parent": session.get("parentSessionId", ""), "labels": session.get("labels", {}),
        "limits": session.get("limits", {}),
        "log": log, "tree": dump_live(cay, session), "diff": diff_of(cay, session_id),
        "trees": {name: dump_snapshot(cay, session_id, name) for name, _, _ in log},
    }


def bases(cay):
    return sorted(base["name"] for base in cay.call(BASE + "ListBases").get("bases", []))


def version_in(cay, base):
    cay.create("probe", base=base, lazyStart=True)
    try:
        return cay.read("probe", "/etc/version").decode()
    finally:
        cay.destroy("probe")


def versions(cay):
    """Of bases that are labelled with one: what the record says, and what is in the tree."""
    listed = cay.call(BASE + "ListBases").get("bases", [])
    labels = {base["name"]: base["labels"]["version"] for base in listed if "version" in base.get("labels", {})}
    return {name: (label, version_in(cay, name)) for name, label in labels.items()}


def look(cay):
    sessions = {name: look_at(cay, name) for name in cay.ids()}
    return {"bases": bases(cay), "versions": versions(cay), "sessions": sessions}


def tell_difference(wanted, found):
    """Where two looks differ, in words; empty when they are the same. None is anything."""
    told = []
    for name in sorted(set(wanted["sessions"]) | set(found["sessions"])):
        left, right = wanted["sessions"].get(name), found["sessions"].get(name)
        if left is None or right is None:
            told.append(f"session '{name}' is {'too much' if left is None else 'missing'}")
            continue
        for key, value in left.items():
            if value is None or value == right[key]:
                continue
            if key == "tree":
                told.append(f"{name}: the tree differs:\n{differences(value, right[key])}")
            elif key == "trees" and value.keys() == right[key].keys():
                told += [f"{name}@{snapshot} differs:\n{differences(tree, right[key][snapshot])}"
                         for snapshot, tree in value.items() if tree != right[key][snapshot]]
            elif key != "trees":
                told.append(f"{name}: {key}: wanted {value}, found {right[key]}")
    for key in ("bases", "versions"):
        if wanted[key] != found[key]:
            told.append(f"{key}: wanted {wanted[key]}, found {found[key]}")
    return "\n".join(told)


# What lies on the disk.

def _parent(path):
    try:
        return os.getxattr(path, "trusted.cay.parent").decode()
    except OSError:
        return None


def has_layers(cay):
    """Else the store keeps whole trees."""
    return (cay.data / "store" / "l").is_dir()


def _trees(cay):
    """The trees that some name leads to, and those that are there but for clones made ahead of need."""
    store = cay.data / "store"
    wanted = set()
    for name in os.listdir(store / "s"):
        wanted |= set(name.split(",")[1:4])
    for name in os.listdir(store / "p"):
        wanted |= set(name.split(",")[1:3])
    for name in os.listdir(store / "b"):
        wanted.add(os.readlink(store / "b" / name).split(" ")[1])
    wanted.discard("0" * 16)
    there = set(os.listdir(store / "t"))
    return wanted, there if len(there - wanted) > SPARES_MAX else there & wanted


def layers(cay):
    """The layers that some name leads to, and those that are there."""
    store = cay.data / "store"
    wanted, pending = set(), []
    for name in os.listdir(store / "s"):
        pending += name.split(",")[1:3]
    for name in os.listdir(store / "p"):
        pending.append(name.split(",")[1])
    for name in os.listdir(store / "b"):
        pending.append(os.readlink(store / "b" / name).split(" ")[1])
    while pending:
        layer = pending.pop()
        if layer != "0" * 16 and layer not in wanted:
            wanted.add(layer)
            pending.append(_parent(store / "l" / layer) or "missing")
    return wanted, set(os.listdir(store / "l"))


@contextlib.contextmanager
def _database(cay):
    """For reading. Where the daemon has it for itself, which it does without an index file, a copy of it."""
    with tempfile.TemporaryDirectory(prefix="caysys-db-") as folder:
        place = cay.data
        if not (place / "cay.db-shm").exists():
            for name in ("cay.db", "cay.db-wal"):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copy(place / name, folder)
            place = folder
        with contextlib.closing(sqlite3.connect(f"file:{place}/cay.db?mode={'ro' if place == cay.data else 'rw'}",
                                                uri=True, timeout=PATIENCE_S)) as database:
            yield database


def records(cay):
    """Rows of the database: sessions, snapshots, and what is on its way."""
    with _database(cay) as database:
        one = lambda sql: database.execute(sql).fetchone()[0]
        return {
            "sessions": one("SELECT count(*) FROM sessions"),
            "snapshots": one("SELECT count(*) FROM snapshots"),
            "half": one("SELECT (SELECT count(*) FROM snapshots WHERE is_pending) + (SELECT count(*)"
                        " FROM sessions WHERE pending <> '' OR state NOT IN (2, 3))"),
        }


def _listed(directory):
    """Of a directory that is not on every machine."""
    return os.listdir(directory) if directory.is_dir() else []


def _unowned(cay):
    """What nobody owns; empty when all is well."""
    store = cay.data / "store"
    found = {}
    sessions = cay.ids()
    snapshots = sum(len(snapshots_of(cay, name)) for name in sessions)
    on_disk = {"s": len(sessions), "p": snapshots}
    for kind, count in on_disk.items():
        names = os.listdir(store / kind)
        if len(names) != count:
            found[f"store/{kind}"] = (count, names)
    wanted, there = layers(cay) if has_layers(cay) else _trees(cay)
    if wanted != there:
        found["layers"] = {"missing": sorted(wanted - there), "too many": sorted(there - wanted)}
    if has_layers(cay) and os.listdir(store / "t"):
        found["trash"] = os.listdir(store / "t")
    strange = set(os.listdir(store)) - set("lspbant") - {"anchor", "lock", "format", "dataset"}
    strange |= set(os.listdir(cay.data)) - {"cay.db", "cay.db-wal", "cay.db-shm", "cay.db-spare", "lock", "store",
                                             "audit.log", "events", "events.1", "token.key", "egress"}
    strange |= set(os.listdir(cay.run_dir)) - {"cayd.sock", "sandboxes", "egress"}
    if strange:
        found["files"] = sorted(strange)
    rows = records(cay)
    if rows != {"sessions": len(sessions), "snapshots": snapshots, "half": 0}:
        found["records"] = rows
    ids = {name.split(",")[0] for name in os.listdir(store / "s")}
    for kind, names in (("names of networks", [os.path.splitext(name)[0] for name in _listed(cay.data / "egress")]),
                        ("sockets", [os.path.splitext(name)[0] for name in cay.sockets()]),
                        ("cgroups", [path.name for path in cay.cgroups()
                                     if path.parent.name == cay.cgroup])):
        if left := [name for name in names if name not in ids]:
            found[kind] = left
    return found


def settled(cay):
    """Wait until what was thrown away is gone and nothing is left that nobody owns."""
    try:
        eventually(lambda: not _unowned(cay), "nothing unowned is left", PATIENCE_S)
    except AssertionError as error:
        raise AssertionError(f"{error}: {_unowned(cay)}") from None


def dies_or_settles(cay):
    """Wait for the one or the other; True when the daemon died."""
    until = time.monotonic() + PATIENCE_S
    while cay.process.poll() is None:
        try:
            if not _unowned(cay) and cay.process.poll() is None:
                return False
        except (Closed, OSError):
            pass
        assert time.monotonic() < until, f"neither dead nor settled: {_unowned(cay)}"
        time.sleep(0.005)
    return True


def clear(cay, keep=("small",)):
    """Away with all sessions and all other bases; then nothing of them may be left. Whoever was an
    orphan's parent may take its time to bury it: processes are for the caller to wait for."""
    for name in cay.ids():
        with contextlib.suppress(RpcError):
            cay.destroy(name)
    for name in bases(cay):
        if name not in keep:
            cay.call(BASE + "RemoveBase", {"name": name})
    settled(cay)
