#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Dies at every crash point there is (base/crash.h), in every verb that passes it, and looks at what
the next daemon makes of it: what was acknowledged is there, what was not is done in full or not at
all, nothing is left that nobody owns, and the verb can be repeated. A point that is never reached
fails the last case, by name.

The points of a verb are found by letting it run once. Where the next start passes points of its own
(recovery), a second daemon dies there, too, before the third one is looked at."""

import copy
import signal
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import oracle
from daemon import (BASE, CAYD, IS_FULL, MIB, PATIENCE_S, PROCESS, SANDBOX, Cayd, Closed, RpcError, Skip,
                    at_end, case, eventually, is_whole, list_if_asked, run, steps)
from oracle import (ACTOR, NO_HOST_BASE, act, clear, dies_or_settles, dump, settled,
                     tell_difference)
from own_network import NONE, OPEN, devices, enter, has_nft, is_clean, tables
from small_base import import_small

BACKGROUND = ("store.collect_", "store.blank")
# Where unit-store-crash dies: points of other stores, and of histories deeper than those here.
OTHER_STORES = ("trees.", "store.flat")
# An open network changes the host it is on, so this test has one of its own.
HAS_NETWORKS = has_nft()
reached = set()
in_recovery = {}  # points of a start that was died at, by scenario; the short run does each once


def died_twice(scenario):
    return in_recovery.setdefault(type(scenario) if IS_FULL else None, set())


def look(cay):
    """The world, with the networks: as recorded, and what the kernel has for them."""
    seen = oracle.look(cay)
    wired = 0
    for name, of in seen["sessions"].items():
        session = cay.get(name)
        of["network"] = session["network"]["mode"]
        of["ports"] = sorted(port["port"] for port in session.get("ports", []))
        wired += session["network"] == OPEN and session.get("sandboxRunning", False)
    if HAS_NETWORKS and (len(devices()) != wired or len(tables()) != min(wired, 1)):
        for of in seen["sessions"].values():
            of["network"] += f", and {wired} should have one of {devices()} {tables()}"
    return seen


def listed_points():
    return subprocess.run([CAYD, "--list-crash-points"], capture_output=True, text=True,
                          check=True).stdout.split()


class World:
    """A daemon, and the file by which it is told where to die."""

    def __init__(self, *flags):
        self.folder = tempfile.TemporaryDirectory(prefix="caysys-crash-")
        self.order = Path(self.folder.name) / "order"
        self.passed_path = Path(self.folder.name) / "order.passed"
        self.forget()
        self.cay = Cayd(*NO_HOST_BASE, *flags, environment={"CAY_TEST_CRASH": f"@{self.order}"})
        self.fresh = None

    def arm(self, point, nth=1):
        fresh = self.order.with_suffix(".new")
        fresh.write_text(f"{point}:{nth}\n")
        fresh.rename(self.order)

    def disarm(self):
        self.order.write_text("")

    def forget(self):
        self.disarm()
        self.passed_path.write_text("")

    def passed(self):
        return self.passed_path.read_text().split()

    def died(self):
        """Wait for the daemon to die by its own hand."""
        try:
            status = self.cay.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError("the daemon lives on") from None
        self.cay.process.stdout.close()
        assert status == -signal.SIGKILL, f"the daemon ended with {status}: {self.cay.log_tail()}"


# Scenarios: make a world, do one thing in it, and say what the world is then.

class Scenario:
    """`act` is the verb; `after` changes a look at the world before it into one after it."""

    busy = False  # something runs meanwhile
    keeps_processes = False  # and goes on if the verb was not done
    is_long = False  # much the same as another one
    needs_networks = False

    def prepare(self, cay):
        pass

    def act(self, cay):
        raise NotImplementedError

    def after(self, world, seen):
        raise NotImplementedError

    def wrong(self, found):
        """What is wrong with a world after it that `after` cannot say."""


def past(cay, name="w", busy=False):
    """A session with two turns and something unsaved, of all kinds of nodes."""
    cay.create(name, labels={"a": "b"})
    act(cay, name, "mkdir workspace/dir 750", "write workspace/dir/one 0 100 one",
        "link workspace/dir/one workspace/dir/two", "symlink dir/one workspace/link",
        "fifo workspace/fifo 620", "setxattr workspace/dir/one user.mark yes",
        "chown workspace/fifo 1000 1000", "write workspace/sparse 1048576 1 end",
        "rename usr/share/data usr/share/moved")
    cay.turn(name, message="first")
    act(cay, name, "remove workspace/dir", "mkdir workspace/dir 700",
        "write workspace/dir/three 0 3 three", "remove etc/secret", "truncate workspace/sparse 9",
        "chmod . 711")
    cay.turn(name)
    act(cay, name, "write workspace/unsaved 0 10 unsaved", "rename workspace/dir workspace/new",
        "write usr/share/moved/1 0 1 changed")
    if busy:
        cay.background(name, "echo ready; exec sleep 1000")


def entry(seen, name, kind, session="w"):
    """A snapshot of the tree as it is."""
    of = seen["sessions"][session]
    of["log"].append((name, kind, of["head"]))
    of["trees"][name] = of["tree"]
    of["snapshots"] += 1


class Create(Scenario):
    def act(self, cay):
        cay.create("n")

    def after(self, world, seen):
        seen["sessions"]["n"] = world.fresh


class Wake(Scenario):
    """The sandbox of a session that was made without one."""

    def act(self, cay):
        cay.create("n", lazyStart=True)
        dump(cay, "n")

    def after(self, world, seen):
        seen["sessions"]["n"] = world.fresh


class Turn(Scenario):
    def prepare(self, cay):
        past(cay, busy=self.busy)

    def act(self, cay):
        cay.turn("w")

    def after(self, world, seen):
        entry(seen, "turn-0003", "TURN")
        seen["sessions"]["w"] |= {"head": "turn-0003", "turns": 3, "diff": []}


class BusyTurn(Turn):
    busy = True
    keeps_processes = True


class DurableTurn(Turn):
    is_long = True

    def act(self, cay):
        cay.turn("w", durable=True)


class UnchangedTurn(Turn):
    def prepare(self, cay):
        past(cay)
        cay.rollback("w", "turn-0002", discard=True)


class Named(Turn):
    is_long = True

    def act(self, cay):
        cay.snapshot("w", "point")

    def after(self, world, seen):
        entry(seen, "point", "NAMED")
        seen["sessions"]["w"] |= {"head": "point", "diff": []}


class Publish(Named):
    is_long = False

    def act(self, cay):
        cay.snapshot("w", "point", publishBase="other")

    def after(self, world, seen):
        super().after(world, seen)
        seen["bases"] = ["other", "small"]


class Rollback(Turn):
    fields = {}

    def act(self, cay):
        cay.rollback("w", "turn-0001", **self.fields)

    def after(self, world, seen):
        of = seen["sessions"]["w"]
        self.keep(seen, of)
        of |= {"head": "turn-0001", "tree": of["trees"]["turn-0001"], "diff": []}

    def keep(self, seen, of):
        entry(seen, "branch-0001", "BRANCH")


class BusyRollback(Rollback):
    busy = True
    is_long = True


class UnchangedRollback(Rollback):
    is_long = True

    def prepare(self, cay):
        UnchangedTurn.prepare(self, cay)

    def keep(self, seen, of):
        pass


class Discard(Rollback):
    fields = {"discard": True}

    def keep(self, seen, of):
        of["log"] = [entry for entry in of["log"] if entry[0] == "turn-0001"]
        of["trees"] = {"turn-0001": of["trees"]["turn-0001"]}
        of["snapshots"] = 1


class BusyDiscard(Discard):
    busy = True
    is_long = True


class Fork(Turn):
    fields = {"newSessionId": "f"}
    forks = ["f"]

    def act(self, cay):
        cay.fork("w", **self.fields)

    def after(self, world, seen):
        of = seen["sessions"]["w"]
        snapshot = self.fields.get("snapshot")
        for name in self.forks:
            seen["sessions"][name] = {
                "state": of["state"], "head": "", "turns": 0, "snapshots": 0, "parent": "w",
                "labels": of["labels"], "limits": of["limits"], "log": [], "trees": {}, "diff": None,
                "tree": of["trees"][snapshot] if snapshot else of["tree"]}


class BusyFork(Fork):
    busy = True
    is_long = True
    keeps_processes = True


class Forks(Fork):
    fields = {"newSessionId": "f", "count": 3}
    forks = ["f-1", "f-2", "f-3"]


class BusyForks(Forks):
    busy = True
    is_long = True


class SnapshotForks(Forks):
    fields = {"newSessionId": "f", "count": 3, "snapshot": "turn-0001"}


class Delete(Turn):
    def act(self, cay):
        cay.call(SANDBOX + "DeleteSnapshot", {"sessionId": "w", "snapshots": ["turn-0001"]})

    def after(self, world, seen):
        of = seen["sessions"]["w"]
        of |= {"log": [("turn-0002", "TURN", "")], "snapshots": 1}
        del of["trees"]["turn-0001"]


class Restore(Turn):
    paths = ["/etc/secret", "/workspace/unsaved", "/usr/share/moved/1"]

    def act(self, cay):
        request = {"sessionId": "w", "snapshot": "turn-0001", "paths": self.paths}
        cay.call(SANDBOX + "RestorePaths", request)

    def after(self, world, seen):
        self.wanted = self.lines(seen["sessions"]["w"]["trees"]["turn-0001"])
        seen["sessions"]["w"] |= {"tree": None, "diff": None}

    def lines(self, tree):
        return [line for line in tree.splitlines() if f"{line.split(chr(9))[0][1:]}" in self.paths]

    def wrong(self, found):
        lines = self.lines(found["sessions"]["w"]["tree"])
        return lines != self.wanted and f"restored: wanted {self.wanted}, found {lines}"


class Pause(Turn):
    busy = True

    def act(self, cay):
        cay.call(SANDBOX + "PauseSession", {"sessionId": "w"})

    def after(self, world, seen):
        seen["sessions"]["w"]["state"] = "SESSION_STATE_PAUSED"


class Resume(Turn):
    busy = True

    def prepare(self, cay):
        past(cay, busy=True)
        cay.call(SANDBOX + "PauseSession", {"sessionId": "w"})

    def act(self, cay):
        cay.call(SANDBOX + "ResumeSession", {"sessionId": "w"})

    def after(self, world, seen):
        seen["sessions"]["w"]["state"] = "SESSION_STATE_ACTIVE"


class Update(Turn):
    def act(self, cay):
        cay.call(SANDBOX + "UpdateSession",
                 {"sessionId": "w", "setLabels": {"c": "d"}, "limits": {"pids": 100}})

    def after(self, world, seen):
        of = seen["sessions"]["w"]
        of |= {"labels": {"a": "b", "c": "d"}, "limits": of["limits"] | {"pids": "100"}}


class Revoke(Turn):
    """The session's tokens: other ones, or those that it had."""

    def act(self, cay):
        cay.call(SANDBOX + "RevokeTokens", {"sessionId": "w"})

    def after(self, world, seen):
        pass


class Expose(Scenario):
    def prepare(self, cay):
        cay.create("n")

    def act(self, cay):
        cay.call(PROCESS + "ExposePort", {"sessionId": "n", "port": {"port": 8000}})

    def after(self, world, seen):
        seen["sessions"]["n"]["ports"] = [8000]


class Unexpose(Expose):
    def prepare(self, cay):
        super().prepare(cay)
        Expose.act(self, cay)

    def act(self, cay):
        cay.call(PROCESS + "UnexposePort", {"sessionId": "n", "port": 8000})

    def after(self, world, seen):
        seen["sessions"]["n"]["ports"] = []


class Launch(Scenario):
    """A program that has an id is started once, however often that is asked for: a second time it would fail."""

    def prepare(self, cay):
        cay.create("n")

    def act(self, cay):
        request = {"sessionId": "n", "spec": {"argv": ["/bin/mkdir", "ran"]}, "requestId": "l", "wait": "60s"}

        def launched():
            try:
                return cay.call(PROCESS + "LaunchProcess", request)["process"]
            except RpcError as error:
                assert error.reason == "unavailable", error
                return None
        assert eventually(launched, "it is launched")["result"].get("exitCode", 0) == 0

    def after(self, world, seen):
        seen["sessions"]["n"] |= {"tree": None, "diff": None}

    def wrong(self, found):
        return "" if "ran" in str(found["sessions"]["n"]["diff"]) else "it did not run"


class OpenCreate(Scenario):
    needs_networks = True

    def act(self, cay):
        cay.create("n", network=OPEN)

    def after(self, world, seen):
        seen["sessions"]["n"] = world.fresh | {"network": OPEN["mode"]}


class OpenUpdate(Scenario):
    needs_networks = True
    old, new = NONE, OPEN

    def prepare(self, cay):
        cay.create("n", network=self.old)

    def act(self, cay):
        cay.call(SANDBOX + "UpdateSession", {"sessionId": "n", "network": self.new})

    def after(self, world, seen):
        seen["sessions"]["n"]["network"] = self.new["mode"]


class CloseUpdate(OpenUpdate):
    old, new = OPEN, NONE


class OpenDestroy(OpenUpdate):
    old = OPEN

    def act(self, cay):
        cay.destroy("n")

    def after(self, world, seen):
        del seen["sessions"]["n"]


class Destroy(Turn):
    def act(self, cay):
        cay.destroy("w")

    def after(self, world, seen):
        del seen["sessions"]["w"]


class BusyDestroy(Destroy):
    busy = True
    is_long = True


class Import(Scenario):
    def act(self, cay):
        import_small(cay, "other")

    def after(self, world, seen):
        seen["bases"] = ["other", "small"]


class Replace(Scenario):
    """A base takes another's place. Whichever is there, it is whole, and its record is its own."""

    @staticmethod
    def bring(cay, version, **options):
        with tempfile.TemporaryDirectory(prefix="caysys-root-") as folder:
            Path(folder).chmod(0o755)
            (Path(folder) / "etc").mkdir()
            (Path(folder) / "etc/version").write_text(version)
            options |= {"name": "other", "format": "BASE_FORMAT_DIRECTORY", "hostPath": folder,
                        "labels": {"version": version}}
            cay.send_all(BASE + "ImportBase", [{"options": options}])

    def prepare(self, cay):
        self.bring(cay, "1", aliases=["also"])

    def act(self, cay):
        self.bring(cay, "2", replace=True)

    def after(self, world, seen):
        seen["versions"] = {"other": ("2", "2")}


class Build(Import):
    """By steps, in a session that is gone afterwards."""

    def act(self, cay):
        steps = [{"kind": "BUILD_STEP_KIND_RUN", "args": ["echo built > /built"]},
                 {"kind": "BUILD_STEP_KIND_WORKDIR", "args": ["/srv/work"]}]
        cay.stream(BASE + "BuildBase", {"name": "other", "fromBase": "small", "steps": steps})


class RemoveBase(Scenario):
    def prepare(self, cay):
        import_small(cay, "other")

    def act(self, cay):
        cay.call(BASE + "RemoveBase", {"name": "other"})

    def after(self, world, seen):
        seen["bases"] = ["small"]


class RemoveAlias(Scenario):
    """The last one of a base that goes with its aliases."""

    def prepare(self, cay):
        cay.stream(BASE + "BuildBase", {"name": "other", "fromBase": "small", "aliases": ["me/other:1"],
                                        "goesWithAliases": True})

    def act(self, cay):
        def is_gone():
            return "other" not in str(cay.call(BASE + "ListBases"))
        cay.call(BASE + "RemoveBase", {"name": "me/other:1"})
        eventually(is_gone, "the base is gone, too")

    def after(self, world, seen):
        seen["bases"] = ["small"]


def does(scenario, cay):
    """True when the verb was acknowledged."""
    try:
        scenario.act(cay)
    except (Closed, OSError):
        return False
    return True


class Play:
    """One scenario, died in again and again. A world that a death left as it was is used for the
    next one: that the verb can be repeated is shown by its coming further."""

    def __init__(self, world, scenario):
        self.world = world
        self.scenario = scenario
        self.before = self.after = None
        self.failed = []

    def prepare(self):
        cay = self.world.cay
        clear(cay)
        self.scenario.prepare(cay)
        settled(cay)
        self.before = look(cay)
        settled(cay)
        self.after = copy.deepcopy(self.before)
        self.scenario.after(self.world, self.after)

    def rehearse(self):
        """Let it run; the points that it passes, with how often."""
        self.prepare()
        self.world.forget()
        self.scenario.act(self.world.cay)
        settled(self.world.cay)
        passed = Counter(self.world.passed())
        told = self.not_after(look(self.world.cay))
        assert not told, told
        self.before = None
        return passed

    def not_after(self, found):
        return tell_difference(self.after, found) or self.scenario.wrong(found)

    def die_again(self, point):
        """The next start dies, too."""
        cay = self.world.cay
        self.world.arm(point)
        try:
            cay.start()
        except AssertionError:
            pass
        else:
            eventually(lambda: cay.process.poll() is not None, f"it dies at {point}", PATIENCE_S)
        status = cay.process.poll()
        assert status == -signal.SIGKILL, (status, cay.log_tail())
        cay.process.stdout.close()
        self.world.forget()

    def die(self, point, nth, second=None):
        """Die at one point (and at a second one in recovery); what the last start passed."""
        is_fresh = not self.before
        if is_fresh:
            self.prepare()
        self.world.forget()
        self.world.arm(point, nth)
        is_done = does(self.scenario, self.world.cay)
        if is_done and not dies_or_settles(self.world.cay):
            # What a death has left may be less work than the first time, and what is done in the
            # background comes at another moment, or together with something else.
            if is_fresh and point.startswith(BACKGROUND):
                self.renew()
                return None
            assert not is_fresh, "the daemon lives on"
            self.world.forget()
            told = self.not_after(look(self.world.cay))
            assert not told, f"repeated: {told}"
            self.before = None
            return self.die(point, nth, second)
        self.world.died()
        self.world.forget()
        if second:
            self.die_again(second)
        self.world.cay.start()
        settled(self.world.cay)
        passed = set(self.world.passed())
        found = look(self.world.cay)
        no_after, no_before = self.not_after(found), tell_difference(self.before, found)
        assert not no_after or not is_done, f"acknowledged and yet: {no_after}"
        assert not no_after or not no_before, \
            f"half done; done it would be:\n{no_after}\nnot done:\n{no_before}"
        if self.scenario.keeps_processes and no_after:
            assert "sleep 1000" in self.world.cay.sh("w", "ps -o args"), "what ran does not any more"
        if no_before:
            self.before = None
        settled(self.world.cay)
        return passed

    def attempt(self, point, nth, second=None):
        try:
            passed = self.die(point, nth, second)
            if passed is None:
                return set()
            reached.update({point, second} - {None})
            return passed
        except AssertionError as error:
            where = f"{point}:{nth}" + (f", then {second}" if second else "")
            self.failed.append(f"at {where}: {error}")
            self.renew()
            return set()

    def renew(self):
        """Whether the daemon lives or dies this very moment: another one."""
        self.before = None
        self.world.disarm()
        if self.world.cay.process.poll() is None:
            self.world.cay.kill()
        self.world.cay.start()
        self.world.forget()

    def everywhere(self):
        if self.scenario.needs_networks and not HAS_NETWORKS:
            reached.update(name for name in listed_points()
                           if name.startswith("network.") or name == "update.wired")
            raise Skip("needs nft (package nftables)")
        for point, count in self.rehearse().items():
            for nth in range(1, count + 1) if IS_FULL else sorted({1, count}):
                for second in sorted(self.attempt(point, nth) - died_twice(self.scenario)):
                    died_twice(self.scenario).add(second)
                    self.attempt(point, nth, second)
        clear(self.world.cay)
        assert not HAS_NETWORKS or is_clean(), (devices(), tables())
        assert not self.failed, "\n".join(self.failed)


# Pools have a daemon of their own: one is made before there is anything else.

POOL = "cay.v1.PoolService/"
POOL_MIB = 300


def loops(cay):
    listed = subprocess.run(["losetup", "-a"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [line.split(":")[0] for line in listed.splitlines() if str(cay.folder) in line]


def make_pool(cay):
    cay.stream(POOL + "CreatePool", {"sizeBytes": str(POOL_MIB * MIB)})


def grow_pool(cay):
    cay.call(POOL + "GrowPool", {"sizeBytes": str(2 * POOL_MIB * MIB)})


def pool(cay):
    return cay.call(POOL + "GetPool")["pool"]


def dies_at(world, point, verb):
    """Die at the point in that verb, and start again."""
    world.arm(point)
    try:
        verb(world.cay)
    except (Closed, OSError):
        pass
    world.died()
    world.forget()
    world.cay.start()
    reached.add(point)


def with_pool(world, points):
    """Die at each point in a new pool of a new daemon, and in its growing."""
    cay = world.cay
    for point in points["pool."][:1]:
        dies_at(world, point, make_pool)
    if pool(cay)["kind"] != "POOL_KIND_LOOP":
        make_pool(cay)
    assert pool(cay)["state"] == "POOL_STATE_ONLINE" and len(loops(cay)) == 1, (pool(cay), loops(cay))
    import_small(cay, tree_actor=ACTOR)
    past(cay)
    tree, size = dump(cay, "w"), int(pool(cay)["sizeBytes"])
    for point in points["grow."]:
        dies_at(world, point, grow_pool)
        assert int(pool(cay)["sizeBytes"]) >= size and dump(cay, "w") == tree
    if points["grow."]:
        grow_pool(cay)
        assert int(pool(cay)["sizeBytes"]) > 1.5 * size and dump(cay, "w") == tree
    cay.destroy("w")
    assert cay.stop() == 0
    eventually(lambda: not loops(cay), "the device is gone", PATIENCE_S)


@case
def pools(_):
    """pool: dying while one is made or grown, it is there and usable, or can be made again"""
    points = {prefix: [name for name in listed_points() if name.startswith(prefix)]
              for prefix in ("pool.", "grow.")}
    if not Path("/dev/loop-control").exists():
        reached.update(points["pool."] + points["grow."])
        raise Skip("no loop devices here")
    for number, point in enumerate(points["pool."]):
        world = World()
        try:
            with_pool(world, {"pool.": [point], "grow.": [] if number else points["grow."]})
        finally:
            if world.cay.process.poll() is None:
                world.cay.kill()
            for device in loops(world.cay):
                subprocess.run(["losetup", "-d", device], check=False)
            world.cay.sweep()
            world.folder.cleanup()


def made(world):
    """One is made in the place of another: the session has its sandbox then."""
    world.cay.create("r")
    world.died()


def handed_out(world):
    try:
        world.cay.create("r")
    except (Closed, OSError):
        pass
    world.died()


def removed(world):
    """The next daemon dies when it has removed what waited."""
    world.cay.kill()
    try:
        world.cay.start()
    except AssertionError:
        pass
    assert world.cay.process.poll() == -signal.SIGKILL, world.cay.log_tail()
    world.cay.process.stdout.close()


@case
def reserve(_):
    """reserve: dying while one is made, handed out or removed, nothing is left that nobody owns"""
    world = World("--reserve", "1")
    with world.cay as cay:
        import_small(cay, tree_actor=ACTOR)
        for point, dies, ids in (("reserve.started", made, ["r"]), ("create.handed_out", handed_out, []),
                                 ("recovery.reserve_gone", removed, [])):
            cay.reserve_full()
            world.arm(point)
            dies(world)
            reached.add(point)
            world.forget()
            cay.start()
            settled(cay)
            cay.reserve_full()
            assert cay.ids() == ids and len(cay.reserve()) == 1, (point, cay.ids(), cay.reserve())
            assert len(cay.all_processes()) == 1 + len(ids), point
            clear(cay)
            cay.create("r")
            assert cay.sh("r", "hostname") == "r\n"
            clear(cay)
    world.folder.cleanup()


def scenarios(of=Scenario):
    for kind in of.__subclasses__():
        yield kind
        yield from scenarios(kind)


def add_case(kind):
    def dies(world):
        Play(world, kind()).everywhere()
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in kind.__name__)
    dies.__name__ = "dies_in_" + words.strip().replace(" ", "_")
    dies.__doc__ = f"{words.strip()}: dying anywhere, it is done in full or not at all"
    case(dies)


@at_end
def all_are_reached(_):
    """every crash point was died at"""
    if not is_whole():
        raise Skip("not all cases were run")
    listed = listed_points()
    assert len(set(listed)) == len(listed), "a name is used twice"
    missing = sorted(point for point in set(listed) - reached
                     if not point.startswith(OTHER_STORES))
    assert not missing, f"never reached: {missing}"


def main():
    for kind in scenarios():
        if IS_FULL or not kind.is_long:
            add_case(kind)
    list_if_asked()
    enter()
    world = World("--reserve", "0")  # it comes at moments of its own: there is a case for it
    with world.cay as cay:
        import_small(cay, tree_actor=ACTOR)
        cay.create("n")
        world.fresh = look(cay)["sessions"]["n"]
        clear(cay)
        run(world)


if __name__ == "__main__":
    main()
