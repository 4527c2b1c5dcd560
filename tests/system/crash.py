#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon is killed at random moments while several clients make sessions, write, take turns, go
back, fork and destroy. Each client knows what was acknowledged to it: after every start that must
be there, and the call that was under way is done in full or not at all.

CAY_TEST_SEED repeats the choices of a run (its timing cannot be repeated)."""

import copy
import os
import random
import threading
import time

from daemon import IS_FULL, Closed, case
from oracle import NO_HOST_BASE, log_of, settled
from small_base import run_with_cayd

CLIENTS = 4
SESSIONS_MAX = 3  # of one client
KILLS = 200 if IS_FULL else 15
SEED = int(os.environ.get("CAY_TEST_SEED") or random.randrange(1 << 32))
LIST = 'for f in f*; do [ -e "$f" ] && echo "$f $(cat "$f")"; done; true'


class Model:
    """What a session is: its files, and those of its snapshots."""

    def __init__(self, files=None):
        self.files = files or {}
        self.snapshots = {}  # name: (files, kind, parent)
        self.head = ""
        self.turns = 0
        self.branch = None  # files that a rollback under way may have kept

    def take(self, name, kind):
        self.snapshots[name] = (dict(self.files), kind, self.head)
        self.head = name

    def drop_after(self, target):
        def descends(name):
            while name:
                name = self.snapshots[name][2]
                if name == target:
                    return True
            return False
        gone = [name for name in self.snapshots if descends(name)]
        for name in gone:
            del self.snapshots[name]

    def log(self):
        return [(name, kind, parent) for name, (_, kind, parent) in self.snapshots.items()]


def files_of(cay, session_id):
    return dict(line.split(" ", 1) for line in cay.sh(session_id, LIST).splitlines())


class User(threading.Thread):
    """One client, with sessions of its own. Stops when the daemon is gone."""

    def __init__(self, cay, name, seed):
        super().__init__()
        self.cay, self.prefix, self.dice = cay, name, random.Random(seed)
        self.models = {}
        self.under_way = None  # what the last call was about: {session: model or None} if it was done
        self.count = 0
        self.failure = None
        self.acknowledged = 0

    def again(self):
        """The same client, after a restart."""
        other = User(self.cay, self.prefix, self.dice.random())
        other.models, other.count, other.acknowledged = self.models, self.count, self.acknowledged
        return other

    def run(self):
        try:
            while True:
                self.step()
                self.acknowledged += 1
        except (Closed, OSError):
            pass
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error

    def call(self, outcome, verb, *arguments, **fields):
        """A call, and what is the case when it is acknowledged."""
        self.under_way = outcome
        answer = verb(*arguments, **fields)
        self.under_way = None
        for session_id, model in outcome.items():
            if model is None:
                del self.models[session_id]
            else:
                model.branch = None
                self.models[session_id] = model
        return answer

    def fresh_id(self):
        self.count += 1
        return f"{self.prefix}-{self.count}"

    def step(self):
        verbs = ["write"] * 4 + ["turn"] * 3 + ["named", "rollback", "rollback", "discard", "fork",
                                                "fork_snapshot", "destroy"]
        if len(self.models) < SESSIONS_MAX:
            verbs += ["create"] * 2
        verb = self.dice.choice(verbs) if self.models else "create"
        session_id = self.dice.choice(sorted(self.models)) if self.models else None
        model = copy.deepcopy(self.models[session_id]) if session_id else None
        getattr(self, verb)(session_id, model)

    def create(self, *_):
        session_id = self.fresh_id()
        self.call({session_id: Model()}, self.cay.create, session_id)

    def write(self, session_id, model):
        name, text = f"f{self.dice.randrange(6)}", f"{self.dice.randrange(1 << 30)}"
        model.files[name] = text
        self.call({session_id: model}, self.cay.tool, session_id, "write_file", path=name,
                  content=text)

    def turn(self, session_id, model):
        model.turns += 1
        model.take(f"turn-{model.turns:04}", "TURN")
        self.call({session_id: model}, self.cay.turn, session_id)

    def named(self, session_id, model):
        self.count += 1
        name = f"named-{self.count}"
        model.take(name, "NAMED")
        self.call({session_id: model}, self.cay.snapshot, session_id, name)

    def _rollback(self, session_id, model, is_discard):
        if not model.snapshots:
            return
        target = self.dice.choice(sorted(model.snapshots))
        before, parent = dict(model.files), model.head
        model.branch = None if is_discard else before
        if is_discard:
            model.drop_after(target)
        model.files, model.head = dict(model.snapshots[target][0]), target
        model.branch_parent = parent
        answer = self.call({session_id: model}, self.cay.rollback, session_id, target,
                           discard=is_discard)
        if answer.get("branch"):
            self.models[session_id].snapshots[answer["branch"]] = (before, "BRANCH", parent)

    def rollback(self, session_id, model):
        self._rollback(session_id, model, False)

    def discard(self, session_id, model):
        snapshots = self.forked_from(session_id)
        self._rollback(session_id, model, not snapshots)

    def forked_from(self, session_id):
        return [other for other in self.models.values()
                if getattr(other, "origin", None) == session_id]

    def fork(self, session_id, model, **fields):
        room = SESSIONS_MAX + 2 - len(self.models)
        if room < 1:
            self.destroy(session_id, model)
            return
        count = self.dice.randint(1, room)
        name = self.fresh_id()
        files = model.snapshots[fields["snapshot"]][0] if fields else model.files
        outcome = {}
        for number in range(1, count + 1):
            fork = Model(dict(files))
            fork.origin = session_id
            outcome[name if count == 1 else f"{name}-{number}"] = fork
        self.call(outcome, self.cay.fork, session_id, newSessionId=name, count=count, **fields)

    def fork_snapshot(self, session_id, model):
        if model.snapshots:
            self.fork(session_id, model, snapshot=self.dice.choice(sorted(model.snapshots)))

    def destroy(self, session_id, _):
        self.call({session_id: None}, self.cay.destroy, session_id)

    # After a restart.

    def resolve(self, ids):
        """Was the call under way done? All of it, or nothing."""
        outcome, self.under_way = self.under_way, None
        for session_id, model in (outcome or {}).items():
            is_there = session_id in ids
            was_there = session_id in self.models
            if model is None and not is_there:
                del self.models[session_id]
            elif model is not None and not was_there and is_there:
                self.models[session_id] = model
            elif model is not None and was_there:
                self.models[session_id] = self.which(session_id, self.models[session_id], model)
        new = [name for name, model in (outcome or {}).items() if model and name in ids]
        if outcome and len(outcome) > 1:
            assert len(new) in (0, len(outcome)), f"{new} of {sorted(outcome)} came to be"

    def which(self, session_id, before, after):
        log, files = log_of(self.cay, session_id), files_of(self.cay, session_id)
        head = self.cay.get(session_id).get("head", "")
        extra = [entry for entry in log if entry[0] not in after.snapshots]
        if after.branch is not None and len(extra) == 1 and extra[0][1] == "BRANCH":
            after.snapshots[extra[0][0]] = (after.branch, "BRANCH", after.branch_parent)
        for model in (after, before):
            if (model.log(), model.files, model.head) == (log, files, head):
                model.branch = None
                return model
        raise AssertionError(f"{session_id} is half done: found {log}, {files}, head {head}\n"
                             f"before {before.log()}, {before.files}, {before.head}\n"
                             f"after {after.log()}, {after.files}, {after.head}")

    def check(self, is_last):
        for session_id, model in self.models.items():
            session = self.cay.get(session_id)
            assert session["state"] == "SESSION_STATE_ACTIVE", session
            found = (log_of(self.cay, session_id), files_of(self.cay, session_id),
                     session.get("head", ""), int(session.get("turnCount", 0)))
            wanted = (model.log(), model.files, model.head, model.turns)
            assert found == wanted, f"{session_id}: found {found}\nwanted {wanted}"
            names = sorted(model.snapshots)
            for name in names if is_last else self.dice.sample(names, min(2, len(names))):
                fork = self.cay.fork(session_id, snapshot=name)[0]["id"]
                files = files_of(self.cay, fork)
                self.cay.destroy(fork)
                assert files == model.snapshots[name][0], (session_id, name, files, model.snapshots[name])


@case
def kills(cay):
    """killed at random moments, the daemon loses nothing and leaves nothing half done"""
    print(f"# CAY_TEST_SEED={SEED}")
    dice = random.Random(SEED)
    users = [User(cay, f"u{number}", dice.random()) for number in range(CLIENTS)]
    for kill in range(KILLS):
        for user in users:
            user.start()
        time.sleep(dice.uniform(0.01, 0.4))
        cay.kill()
        for user in users:
            user.join()
            assert user.failure is None, (user.prefix, user.failure)
        cay.start()
        settled(cay)
        ids = set(cay.ids())
        for user in users:
            user.resolve(ids)
        known = {name for user in users for name in user.models}
        assert ids == known, f"too many: {ids - known}, missing: {known - ids}"
        for user in users:
            user.check(kill == KILLS - 1)
        users = [user.again() for user in users]
    done = sum(user.acknowledged for user in users)
    print(f"# {done} calls were acknowledged between {KILLS} kills")
    assert done > KILLS, "hardly anything happened"


if __name__ == "__main__":
    run_with_cayd(*NO_HOST_BASE)
