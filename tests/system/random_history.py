#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Random histories: trees are changed in every way, kept, gone back to, forked, thrown away, and the
daemon is killed in between. A model in Python has the full tree of every session and snapshot; after
whatever restores a tree, the two are compared node by node.

CAY_TEST_SEED and CAY_TEST_STEPS repeat a run."""

import os
import random
import traceback

from daemon import IS_FULL, MIB, SANDBOX, Cayd, case, run
from oracle import ACTOR, NO_HOST_BASE, act, clear, dump, dump_snapshot, settled
from small_base import import_small
from tree_model import Tree

SEED = int(os.environ.get("CAY_TEST_SEED") or random.randrange(1 << 32))
STEPS = int(os.environ.get("CAY_TEST_STEPS") or (10000 if IS_FULL else 500))
FOLDER = "/workspace/t"
SESSIONS_MAX, SNAPSHOTS_MAX, DEPTH_MAX = 4, 8, 120
FILE_BYTES, SPARSE_BYTES = 20000, 5 * MIB
LAST_TOLD = 25


class Session:
    def __init__(self, tree):
        self.tree = tree
        self.snapshots = {}  # name: (tree, parent)
        self.head = ""
        self.turns = self.names = 0
        self.depth = 1  # of layers, at most
        self.held = set()

    def children(self, name):
        return [child for child, (_, parent) in self.snapshots.items() if parent == name]

    def descendants(self, name):
        found = []
        for child in self.children(name):
            found += [child, *self.descendants(child)]
        return found


class Changes:
    """Draws operations that succeed, and applies them to the model."""

    def __init__(self, dice, tree):
        self.dice, self.tree = dice, tree

    def new(self):
        folder = self.dice.choice([path for path in self.tree.directories() if path.count("/") < 4])
        name = f"{folder}/{self.dice.choice('abcdefgh')}{self.dice.randrange(10)}"
        return None if name in self.tree.names else name

    def pick(self, kinds, free=True):
        found = self.tree.free(kinds) if free else self.tree.paths(kinds)
        return self.dice.choice(found) if found else None

    def text(self):
        return f"{self.dice.randrange(1 << 40):x}."

    def mode(self):
        return f"{self.dice.randrange(0o10000) & 0o1777 | 0o400:o}"

    def draw(self):
        """One operation as a text, or None when the draw made no sense."""
        dice = self.dice
        kind = dice.choice(["file"] * 3 + ["over"] * 3 + [
            "sparse", "truncate", "punch", "map", "mkdir", "mkdir", "fifo", "symlink", "link", "link",
            "rename", "rename_dir", "replace", "exchange", "remove", "chmod", "chown", "xattr",
            "delxattr"])
        return getattr(self, kind)()

    def file(self):
        path = self.new()
        return path and f"write {path} 0 {self.dice.randrange(1, 500)} {self.text()}"

    def over(self):
        path = self.pick("f")
        if path:
            size = min(len(self.tree.at(path).data), FILE_BYTES)
            return f"write {path} {self.dice.randint(0, size)} {self.dice.randrange(1, 50)} {self.text()}"

    def sparse(self):
        path = self.pick("f")
        return path and f"write {path} {self.dice.randrange(4 * MIB, SPARSE_BYTES)} 1 {self.text()}"

    def truncate(self):
        path = self.pick("f")
        return path and f"truncate {path} {self.dice.randrange(FILE_BYTES)}"

    def punch(self):
        path = self.pick("f")
        return path and f"punch {path} {4096 * self.dice.randrange(3)} {4096 * self.dice.randint(1, 3)}"

    def map(self):
        path, text = self.pick("f"), self.text()
        room = len(self.tree.at(path).data) - len(text) if path else 0
        return f"map {path} {self.dice.randrange(room)} {text}" if room > 0 else None

    def mkdir(self):
        path = self.new()
        return path and f"mkdir {path} {self.mode()}"

    def fifo(self):
        path = self.new()
        return path and f"fifo {path} {self.mode()}"

    def symlink(self):
        path = self.new()
        return path and f"symlink {self.dice.choice(['nowhere', '../..', '/etc/passwd', 'a1'])} {path}"

    def link(self):
        old, new = self.pick("f"), self.new()
        return f"link {old} {new}" if old and new else None

    def rename(self):
        old, new = self.pick("flp"), self.new()
        return f"rename {old} {new}" if old and new else None

    def rename_dir(self):
        old, new = self.pick("d"), self.new()
        return f"rename {old} {new}" if old and new and not f"{new}/".startswith(f"{old}/") else None

    def replace(self):
        old, new = self.pick("f"), self.pick("f", free=False)
        tree = self.tree
        return f"rename {old} {new}" if old and new and tree.names[old] != tree.names[new] else None

    def exchange(self):
        left, right = self.pick("fl"), self.pick("fl")
        return f"exchange {left} {right}" if left and left != right else None

    def remove(self):
        path = self.pick("fldp", free=False)
        return path and f"remove {path}"

    def chmod(self):
        path = self.pick("fdp")
        return path and f"chmod {path} {self.mode()}"

    def chown(self):
        path = self.pick("fdlp")
        return path and f"chown {path} {self.dice.choice([0, 33, 1000])} {self.dice.choice([0, 1000])}"

    def xattr(self):
        path = self.pick("fd")
        return path and f"setxattr {path} user.{self.dice.choice('xyz')} {self.text()}"

    def delxattr(self):
        found = [path for path in self.tree.free("fd") if self.tree.at(path).xattrs]
        if found:
            path = self.dice.choice(found)
            return f"delxattr {path} {self.dice.choice(sorted(self.tree.at(path).xattrs))}"


class History:
    """The run. A verb that others add to the daemon gets a method and a weight."""

    weights = {"change": 60, "turn": 14, "busy_turn": 3, "named": 4, "rollback": 8, "discard": 4,
               "fork": 4, "fork_snapshot": 3, "delete": 4, "hold": 2, "pause": 2, "create": 3,
               "destroy": 3, "look_back": 5, "kill": 2}

    def __init__(self, cay, seed):
        self.cay, self.dice = cay, random.Random(seed)
        self.sessions, self.count, self.told = {}, 0, []

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

    def add(self, name, tree, depth):
        self.sessions[name] = Session(tree)
        self.sessions[name].depth = depth
        self.check(name)

    def fresh(self):
        self.count += 1
        return f"s{self.count}"

    def create(self, *_):
        if len(self.sessions) < SESSIONS_MAX:
            name = self.fresh()
            self.cay.create(name)
            act(self.cay, name, f"mkdir {FOLDER} 755")
            self.add(name, Tree(), 1)

    def change(self, name, session):
        changes, done = Changes(self.dice, session.tree), []
        while len(done) < self.dice.randint(1, 8):
            operation = changes.draw()
            if operation:
                session.tree.apply(operation)
                done.append(operation)
        self.tell("  " + "; ".join(done))
        act(self.cay, name, *done, folder=FOLDER)

    def took(self, session, name):
        session.tree.freeze()
        session.snapshots[name] = (session.tree.copy(), session.head)
        session.head = name
        session.depth += 1

    def turn(self, name, session):
        session.turns += 1
        answer = self.cay.turn(name)
        assert answer["name"] == f"turn-{session.turns:04}", (answer, session.turns)
        self.took(session, answer["name"])

    def busy_turn(self, name, session):
        self.cay.background(name, "echo ready; exec sleep 1000")
        self.turn(name, session)
        self.check(name)
        self.cay.launch(name, "/bin/killall", "-9", "sleep", user="root")

    def named(self, name, session):
        session.names += 1
        self.cay.snapshot(name, f"n{session.names}")
        self.took(session, f"n{session.names}")

    def back(self, name, session, target, **fields):
        before = session.tree
        answer = self.cay.rollback(name, target, **fields)
        if answer.get("branch"):
            before.freeze()
            session.snapshots[answer["branch"]] = (before.copy(), session.head)
        session.tree = session.snapshots[target][0].copy()
        session.tree.freeze()
        session.head = target
        session.depth += 1
        self.check(name)

    def rollback(self, name, session):
        if session.snapshots:
            self.back(name, session, self.dice.choice(sorted(session.snapshots)))

    def discard(self, name, session):
        targets = [target for target in sorted(session.snapshots)
                   if not session.held & set(session.descendants(target))]
        if targets:
            target = self.dice.choice(targets)
            gone = session.descendants(target)
            self.back(name, session, target, discard=True)
            for snapshot in gone:
                del session.snapshots[snapshot]
        self.compare_log(name, session)

    def compare_log(self, name, session):
        found = {entry["name"]: entry.get("parent", "") for entry in self.cay.log(name)}
        wanted = {snapshot: parent for snapshot, (_, parent) in session.snapshots.items()}
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
            self.add(made[0]["id"], session.snapshots[snapshot][0].copy(), session.depth + 1)
            # It is kept while a fork of it is there: as if it were held, for this model.
            session.held.add(snapshot)

    def delete(self, name, session):
        free = [snapshot for snapshot in sorted(session.snapshots)
                if snapshot != session.head and snapshot not in session.held]
        if free:
            snapshot = self.dice.choice(free)
            self.cay.call(SANDBOX + "DeleteSnapshot", {"sessionId": name, "snapshots": [snapshot]})
            parent = session.snapshots.pop(snapshot)[1]
            for child in session.children(snapshot):
                session.snapshots[child] = (session.snapshots[child][0], parent)
            self.compare_log(name, session)

    def hold(self, name, session):
        if session.snapshots:
            snapshot = self.dice.choice(sorted(session.snapshots))
            self.cay.call(SANDBOX + "HoldSnapshot", {"sessionId": name, "snapshot": snapshot})
            session.held.add(snapshot)

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
            self.same(session.snapshots[snapshot][0], text, f"{name}@{snapshot}")

    def kill(self, *_):
        self.cay.restart()
        for name in self.sessions:
            self.check(name)

    def end(self):
        """Everything there is, once more."""
        for name, session in self.sessions.items():
            self.check(name)
            self.compare_log(name, session)
            for snapshot, (tree, _) in session.snapshots.items():
                self.same(tree, dump_snapshot(self.cay, name, snapshot, FOLDER), f"{name}@{snapshot}")


@case
def histories(cay):
    """what is restored is what was kept, in full"""
    print(f"# CAY_TEST_SEED={SEED} CAY_TEST_STEPS={STEPS}")
    history = History(cay, SEED)
    done = 0
    try:
        for done in range(STEPS):
            history.step()
        history.end()
    except Exception:
        told = "\n".join(history.told[-LAST_TOLD:])
        raise AssertionError(f"step {done} of seed {SEED}; the last ones:\n{told}\n"
                             f"{traceback.format_exc()}") from None
    settled(cay)
    clear(cay)


if __name__ == "__main__":
    with Cayd(*NO_HOST_BASE) as the_daemon:
        import_small(the_daemon, tree_actor=ACTOR)
        run(the_daemon)
