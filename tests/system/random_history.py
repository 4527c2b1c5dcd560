#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Random histories: trees are changed in every way, kept, gone back to as a whole or in part, forked,
sent away and taken in again, thrown away, and the daemon is killed in between. A model in Python has the
full tree of every session and snapshot; after whatever restores a tree, the two are compared node by
node.

CAY_TEST_SEED and CAY_TEST_STEPS repeat a run."""

import os
import random
import re
import shlex
import sys
import traceback

from daemon import IS_FULL, MIB, SANDBOX, Cayd, case, fails, list_if_asked, run
from oracle import (ACTOR, ACTOR_INSIDE, IS_PLAIN, NO_HOST_BASE, act, clear, dump, dump_snapshot,
                    has_layers, settled, snapshots_of)
from process_client import Processes
from session_stream import export, import_
from small_base import import_small
from tree_changes import Changes
from tree_model import Tree

# One history that can be repeated; --full takes another each time.
SEED = int(os.environ.get("CAY_TEST_SEED") or (random.randrange(1 << 32) if IS_FULL else 20261))
STEPS = int(os.environ.get("CAY_TEST_STEPS") or (10000 if IS_FULL else 500))
HOME = "/workspace"
FOLDER = f"{HOME}/t"
SESSIONS_MAX, SNAPSHOTS_MAX, DEPTH_MAX = 4, 8, 120
LAST_TOLD = 25


class Snapshot:
    def __init__(self, tree, parent, kind):
        self.tree, self.parent, self.kind = tree, parent, kind


class Session:
    def __init__(self, tree, origin=None):
        self.tree = tree
        self.snapshots = {}  # by name, in the order of their making
        self.head = ""
        self.turns = self.names = 0
        self.depth = 1  # of layers, at most
        self.held = set()
        self.origin = origin  # session and snapshot that it was forked from

    def children(self, name):
        return [child for child, snapshot in self.snapshots.items() if snapshot.parent == name]

    def descendants(self, name):
        found = []
        for child in self.children(name):
            found += [child, *self.descendants(child)]
        return found

    def line(self):
        """What the live files descend from."""
        found, at = set(), self.head
        while at:
            found.add(at)
            at = self.snapshots[at].parent
        return found

    def drop(self, name):
        parent = self.snapshots.pop(name).parent
        for child in self.children(name):
            self.snapshots[child].parent = parent

    def copy(self):
        """What an import makes of it."""
        other = Session(self.tree.copy())
        other.snapshots = {name: Snapshot(past.tree.copy(), past.parent, past.kind)
                           for name, past in self.snapshots.items()}
        other.head, other.turns, other.names = self.head, self.turns, self.names
        other.depth = len(self.snapshots) + 2
        other.held = set(self.held)
        return other


class History:
    """The run. A verb that others add to the daemon gets a method and a weight."""

    weights = {"change": 60, "turn": 12, "tool": 6, "busy_turn": 3, "named": 4, "rollback": 8, "discard": 4,
               "restore": 10, "fork": 4, "fork_snapshot": 3, "delete": 4, "prune": 3, "hold": 3,
               "release": 2, "pause": 2, "create": 3, "transfer": 3, "destroy": 3, "look_back": 5,
               "kill": 2}
    without_snapshots = {"change": 60, "pause": 5, "create": 5, "destroy": 4, "kill": 4}

    def __init__(self, cay, seed):
        self.cay, self.dice = cay, random.Random(seed)
        if not cay.call(SANDBOX + "GetCapabilities")["capabilities"].get("snapshots"):
            self.weights = self.without_snapshots
        self.sessions, self.count, self.kills, self.told = {}, 0, 0, []

    def tell(self, text):
        self.told.append(text)

    def step(self):
        verb = self.dice.choices(list(self.weights), list(self.weights.values()))[0]
        if not self.sessions:
            verb = "create"
        name = self.dice.choice(sorted(self.sessions)) if self.sessions else None
        session = self.sessions.get(name)
        if session and (session.depth > DEPTH_MAX or len(session.snapshots) > 3 * SNAPSHOTS_MAX):
            verb = "destroy"
        self.tell(f"{verb} {name}")
        getattr(self, verb)(name, session)

    def same(self, tree, text, what):
        told = tree.compare(text)
        assert not told, f"{what}: " + "; ".join(told[:10])

    def check(self, name):
        self.same(self.sessions[name].tree, dump(self.cay, name, FOLDER), name)

    def add(self, name, tree, depth, origin=None):
        self.sessions[name] = Session(tree, origin)
        self.sessions[name].depth = depth
        self.check(name)

    def fresh(self):
        self.count += 1
        return f"s{self.count}"

    def create(self, *_):
        if len(self.sessions) < SESSIONS_MAX:
            name = self.fresh()
            self.cay.create(name, defaultUser="root")
            act(self.cay, name, f"mkdir {os.path.relpath(FOLDER, HOME)} 755", folder=HOME)
            self.add(name, Tree(), 1)

    def draw(self, session):
        changes, done = Changes(self.dice, session.tree), []
        while len(done) < self.dice.randint(1, 8):
            operation = changes.draw()
            if operation:
                session.tree.apply(operation)
                done.append(operation)
        self.tell("  " + "; ".join(done))
        return done

    def change(self, name, session):
        act(self.cay, name, *self.draw(session), folder=FOLDER)

    def took(self, session, name, kind):
        session.tree.freeze()
        session.snapshots[name] = Snapshot(session.tree.copy(), session.head, kind)
        session.head = name
        session.depth += 1

    def turn(self, name, session):
        session.turns += 1
        answer = self.cay.turn(name)
        assert answer["name"] == f"turn-{session.turns:04}", (answer, session.turns)
        self.took(session, answer["name"], "turn")

    def tool(self, name, session):
        """A tool call that changes something, or nothing, and is kept."""
        done = self.draw(session) if self.dice.random() < 0.7 else []
        command = shlex.join([ACTOR_INSIDE, "do", os.path.relpath(FOLDER, HOME), *done])
        result = self.cay.bash(name, command, call={"snapshot": True})
        assert not result.get("isError") and result.get("snapshot"), result
        self.took(session, result["snapshot"], "tool")

    def busy_turn(self, name, session):
        processes = Processes(self.cay, name)
        sleeper = processes.sh("exec sleep 1000")
        self.turn(name, session)
        self.check(name)
        processes.end(sleeper)

    def named(self, name, session):
        session.names += 1
        self.cay.snapshot(name, f"n{session.names}")
        self.took(session, f"n{session.names}", "named")

    def back(self, name, session, target, **fields):
        before = session.tree
        answer = self.cay.rollback(name, target, **fields)
        if answer.get("branch"):
            before.freeze()
            session.snapshots[answer["branch"]] = Snapshot(before.copy(), session.head, "branch")
        session.tree = session.snapshots[target].tree.copy()
        session.tree.freeze()
        session.head = target
        session.depth += 1
        self.check(name)

    def rollback(self, name, session):
        if session.snapshots:
            self.back(name, session, self.dice.choice(sorted(session.snapshots)))

    def is_kept(self, name, snapshot):
        """It is held, or a fork of it is there."""
        return snapshot in self.sessions[name].held or any(
            other.origin == (name, snapshot) for other in self.sessions.values())

    def restore(self, name, session):
        """Single paths, of any snapshot."""
        if not session.snapshots:
            return
        snapshot = self.dice.choice(sorted(session.snapshots))
        past, tree, keep_extra = session.snapshots[snapshot].tree, session.tree, self.dice.random() < 0.4
        names = sorted(past.names.keys() | tree.names.keys())
        paths = self.dice.sample(names, min(len(names), self.dice.randint(1, 3)))
        request = {"sessionId": name, "snapshot": snapshot, "keepExtra": keep_extra,
                   "paths": [FOLDER + path[1:] for path in paths]}
        self.tell(f"  {snapshot} {paths}{' keep_extra' if keep_extra else ''}")
        if tree.is_in_the_way(past, paths):
            fails("failed_precondition", self.cay.call, SANDBOX + "RestorePaths", request)
        else:
            self.cay.call(SANDBOX + "RestorePaths", request)
            tree.restore(past, paths, keep_extra)
        self.check(name)

    def discard(self, name, session):
        targets = [target for target in sorted(session.snapshots)
                   if not any(self.is_kept(name, gone) for gone in session.descendants(target))]
        if targets:
            target = self.dice.choice(targets)
            gone = session.descendants(target)
            self.back(name, session, target, discard=True)
            for snapshot in gone:
                del session.snapshots[snapshot]
        self.compare_log(name, session)

    def compare_log(self, name, session):
        found = [(entry["name"], entry.get("parent", ""),
                  entry["kind"].removeprefix("SNAPSHOT_KIND_").lower(), entry.get("held", False))
                 for entry in snapshots_of(self.cay, name)]
        wanted = [(snapshot, past.parent, past.kind, snapshot in session.held)
                  for snapshot, past in session.snapshots.items()]
        assert found == wanted, f"{name}: log {found}, should be {wanted}"

    def fork(self, name, session):
        room = SESSIONS_MAX - len(self.sessions)
        if room < 1:
            return
        count = self.dice.randint(1, min(2, room))
        made = self.cay.fork(name, newSessionId=self.fresh(), count=count)
        session.tree.freeze()
        session.depth += 1
        for fork in made:
            self.add(fork["id"], session.tree.copy(), session.depth + 1)
        self.check(name)

    def fork_snapshot(self, name, session):
        if len(self.sessions) < SESSIONS_MAX and session.snapshots:
            snapshot = self.dice.choice(sorted(session.snapshots))
            made = self.cay.fork(name, newSessionId=self.fresh(), snapshot=snapshot)
            self.add(made[0]["id"], session.snapshots[snapshot].tree.copy(), session.depth + 1,
                     (name, snapshot))

    def delete(self, name, session):
        free = [snapshot for snapshot in sorted(session.snapshots)
                if snapshot != session.head and not self.is_kept(name, snapshot)]
        if free:
            snapshot = self.dice.choice(free)
            self.cay.call(SANDBOX + "DeleteSnapshot", {"sessionId": name, "snapshots": [snapshot]})
            session.drop(snapshot)
            self.compare_log(name, session)

    def prune(self, name, session):
        """By a rule of one, two or three parts."""
        parts = self.dice.sample(["keepTurns", "keepTools", "branchesOlderThan"], self.dice.randint(1, 3))
        rule = {part: self.dice.randrange(5) for part in parts}
        if "branchesOlderThan" in rule:
            rule["branchesOlderThan"] = "0s"
        self.tell(f"  {rule}")
        answer = self.cay.call(SANDBOX + "DeleteSnapshot", {"sessionId": name, "prune": rule})
        seen, line, gone = {"turn": 0, "tool": 0}, session.line(), []
        bounds = {"turn": rule.get("keepTurns"), "tool": rule.get("keepTools")}
        for snapshot, past in reversed(session.snapshots.items()):
            if past.kind in seen:
                seen[past.kind] += 1
            is_old = bounds.get(past.kind) is not None and seen[past.kind] > bounds[past.kind]
            is_abandoned = "branchesOlderThan" in rule and snapshot not in line
            if (is_old or is_abandoned) and past.kind != "named" and snapshot != session.head \
                    and not self.is_kept(name, snapshot):
                gone.append(snapshot)
        assert sorted(answer.get("deleted", [])) == sorted(gone), (answer, gone)
        for snapshot in gone:
            session.drop(snapshot)
        self.compare_log(name, session)

    def hold(self, name, session):
        if session.snapshots:
            snapshot = self.dice.choice(sorted(session.snapshots))
            self.cay.call(SANDBOX + "HoldSnapshot", {"sessionId": name, "snapshot": snapshot})
            session.held.add(snapshot)

    def release(self, name, session):
        if session.held:
            snapshot = self.dice.choice(sorted(session.held))
            self.cay.call(SANDBOX + "HoldSnapshot",
                          {"sessionId": name, "snapshot": snapshot, "release": True})
            session.held.remove(snapshot)
            self.compare_log(name, session)

    def transfer(self, name, session):
        """Out as a stream, and in again as another session with the same past."""
        if len(self.sessions) >= SESSIONS_MAX:
            return
        copy = self.fresh()
        import_(self.cay, export(self.cay, name)[1], sessionId=copy)
        session.tree.freeze()
        session.depth += 1
        self.sessions[copy] = session.copy()
        assert self.cay.get(copy).get("head", "") == session.head, self.cay.get(copy)
        for known in (name, copy):
            self.check(known)
            self.compare_log(known, self.sessions[known])
        self.look_back(copy, self.sessions[copy])

    def pause(self, name, _):
        self.cay.call(SANDBOX + "PauseSession", {"sessionId": name})
        self.cay.call(SANDBOX + "ResumeSession", {"sessionId": name})
        self.check(name)

    def destroy(self, name, _):
        self.cay.destroy(name)
        del self.sessions[name]

    def look_back(self, name, session):
        if session.snapshots:
            snapshot = self.dice.choice(sorted(session.snapshots))
            text = dump_snapshot(self.cay, name, snapshot, FOLDER)
            self.same(session.snapshots[snapshot].tree, text, f"{name}@{snapshot}")

    def kill(self, *_):
        self.kills += 1
        self.cay.restart()
        for name in self.sessions:
            self.check(name)

    def end(self):
        """Everything there is, once more."""
        for name, session in self.sessions.items():
            self.check(name)
            self.compare_log(name, session)
            for snapshot, past in session.snapshots.items():
                self.same(past.tree, dump_snapshot(self.cay, name, snapshot, FOLDER), f"{name}@{snapshot}")


def look_at_file_system(cay):
    """What FUSE may not have, by trying."""
    def can(operation):
        result = cay.launch("probe", ACTOR_INSIDE, "do", f".{HOME}", operation, user="root", cwd="/")[0]
        return result.get("exitCode") == 0

    cay.create("probe", defaultUser="root")
    act(cay, "probe", "write a 0 9 a.", f"write b {4 * MIB} 1 b.", folder=HOME)
    Changes.lacking = [kind for kind, operation in (("punch", "punch a 0 4096"), ("exchange", "exchange a b"))
                       if not can(operation)]
    Tree.tells_holes = not any(int(end) > 4 * MIB for end in re.findall(r"\t0-(\d+)", dump(cay, "probe", HOME)))
    cay.destroy("probe")
    print(f"# it lacks {Changes.lacking}, tells holes: {Tree.tells_holes}")


@case
def histories(cay):
    """what is restored is what was kept, in full"""
    print(f"# CAY_TEST_SEED={SEED} CAY_TEST_STEPS={STEPS}")
    Tree.parts_links = has_layers(cay)
    if IS_PLAIN:
        look_at_file_system(cay)
    history = History(cay, SEED)
    done = 0
    try:
        for done in range(STEPS):
            history.step()
        history.end()
    except Exception:
        told = "\n".join(history.told[-LAST_TOLD:])
        raise AssertionError(f"step {done} of seed {SEED}; the last ones:\n{told}\n"
                             f"{traceback.format_exc()}the daemon's log ends with:\n"
                             f"{cay.log_tail()}") from None
    lost = cay.log_path.read_bytes().count(b"sandbox.lost")
    print(f"# the daemon was killed {history.kills} times, {lost} sandboxes were lost")
    settled(cay)
    clear(cay)
    # A store of datasets keeps that of a base mounted; with the base, nothing at all is left.
    cay.call("cay.v1.BaseService/RemoveBase", {"name": "small"})


if __name__ == "__main__":
    given = [flag for pair in zip(("--store", "--runtime"), sys.argv[3:]) for flag in pair]
    list_if_asked()
    with Cayd(*NO_HOST_BASE, *given) as the_daemon:
        import_small(the_daemon, tree_actor=ACTOR)
        run(the_daemon)
