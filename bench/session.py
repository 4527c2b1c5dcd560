# SPDX-License-Identifier: Apache-2.0
"""Sessions through the API: create, exec, turns, rollback, fork, destroy, one call at a time.

Each figure is the median of a few calls, as the client sees them. "one cpu" lines have daemon,
client and sandboxes on one CPU: nothing but work. The others let the kernel place them, and the
price of waking another CPU is in them.

Budgets are times of an idle machine. What they are worth here is told by how long it takes to run
a static program, measured beside each sample; the figure printed is the budget made longer or
shorter by that. crun is judged as it is.

Sandboxes are started when they are needed here; reserve.py has those that wait.
"""

import contextlib
import itertools
import json
import os
import shutil
import socket
import struct

import daemon
import harness
import peers
import timing
from harness import Bench
from timing import PROCESS, SANDBOX, call

CALLS = 12  # of one kind in one sample
FILES = 8  # that change in a turn
SPAWN_MS = 0.073  # to run a static `true` on the idle machine that the budgets are from
names = (f"s{number}" for number in itertools.count())


def make_base(world, directory, file_count):
    """A static `true`, a file of 4 kB, a workspace, and files of 4 kB in directories of 100."""
    for name in ("bin", "dev", "proc", "tmp", "etc", "workspace"):
        (directory / name).mkdir(parents=True)
    os.chown(directory / "workspace", 1000, 1000)
    shutil.copy(world.program("bench/bench_true"), directory / "bin/true")
    content = (b"x" * 63 + b"\n") * 64
    (directory / "four-kb").write_bytes(content)
    for number in range(file_count):
        parent = directory / f"d{number // 100}"
        parent.mkdir(exist_ok=True)
        (parent / f"f{number % 100}").write_bytes(content)


def stream(server, path, message):
    """The bytes that answer a call with a stream in either direction, of which one message is sent."""
    data = json.dumps(message).encode()
    body = b"\0" + struct.pack(">I", len(data)) + data
    head = (f"POST {path} HTTP/1.1\r\nhost: localhost\r\n"
            f"content-type: application/connect+json\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n")
    answer = b""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server.socket)
        connection.sendall(head.encode() + body)
        while more := connection.recv(65536):
            answer += more
    if not answer.startswith(b"HTTP/1.1 200 ") or b'"error"' in answer:
        raise ConnectionError(answer.decode(errors="replace"))
    return answer


def import_base(server, name, directory):
    """ImportBase is a client stream: its one message says where the directory is."""
    stream(server, "/cay.v1.BaseService/ImportBase",
           {"options": {"name": name, "hostPath": str(directory)}})


@contextlib.contextmanager
def bases(world):
    directories = {"small": world.tmp / "base-small", "files": world.tmp / "base-files"}
    make_base(world, directories["small"], 0)
    make_base(world, directories["files"], 10_000)
    yield directories


@contextlib.contextmanager
def host_of(world, cpus, *flags):
    if os.geteuid() != 0:
        raise harness.Skip("sandboxes need root")
    with daemon.fresh_cayd(world, "--destroy-on-exit", *flags, cpus=cpus) as server:
        for name, directory in world.get(bases).items():
            import_base(server, name, directory)
        timing.calls(world, server, [call("-", SANDBOX + "CreateSession",
                                          {"sessionId": "kept", "base": "small"})], cpus)
        yield server


@contextlib.contextmanager
def free(world):
    with host_of(world, timing.all_cpus(), "--reserve", "0") as server:
        yield server


@contextlib.contextmanager
def pinned(world):
    with host_of(world, harness.server_cpu(), "--reserve", "0") as server:
        yield server


def cpus_of(where):
    return harness.server_cpu() if where is pinned else timing.all_cpus()


def create(name, base, lazy=False, label="-"):
    return call(label, SANDBOX + "CreateSession",
                {"sessionId": name, "base": base, "lazyStart": lazy})


def destroy(name, label="-"):
    return call(label, SANDBOX + "DestroySession", {"sessionId": name})


def write(session, number, text):
    return call("-", SANDBOX + "ExecuteTool", {"sessionId": session, "call": {
        "toolName": "write_file",
        "params": {"path": f"/workspace/f{number}", "content": f"{text}\n" * 100}}}, "bytes")


def turn(session, label="-"):
    return call(label, SANDBOX + "TurnComplete", {"sessionId": session})


def create_script(base):
    made = [next(names) for _ in range(CALLS)]
    return [create(name, base, label="x") for name in made] + [destroy(name) for name in made]


def create_spaced_script(base):
    """As in real life: the kernel has other things to do between two creates, and its RCU is
    asleep."""
    made = [next(names) for _ in range(CALLS)]
    creates = [[timing.sleep(60), create(name, base, label="x")] for name in made]
    return sum(creates, []) + [destroy(name) for name in made]


def destroy_script():
    made = [next(names) for _ in range(CALLS)]
    return [create(name, "small") for name in made] + [destroy(name, "x") for name in made]


def exec_script():
    return [call("x", PROCESS + "LaunchProcess",
                 {"sessionId": "kept", "spec": {"argv": ["/bin/true"]}, "wait": "10s"},
                 '"exitCode":0')] * (4 * CALLS)


def turn_script():
    """A session with a live sandbox, in which no command runs."""
    name = next(names)
    script = [create(name, "files")]
    for number in range(CALLS):
        script += [write(name, file, f"{number}.{file}") for file in range(FILES)]
        script.append(turn(name, "x"))
    return script + [destroy(name)]


def unchanged_script():
    name = next(names)
    return [create(name, "files"), *[turn(name, "x")] * (2 * CALLS), destroy(name)]


def rollback_script():
    name = next(names)
    script = [create(name, "files")]
    for number in range(1, CALLS + 1):
        script += [write(name, file, f"{number}.{file}") for file in range(FILES)]
        script += [turn(name), write(name, 0, "unsaved"), call(
            "x", SANDBOX + "RollbackSession",
            {"sessionId": name, "snapshot": f"turn-{number:04}"})]
    return script + [destroy(name)]


def fork_script():
    name = next(names)
    forks = [next(names) for _ in range(CALLS)]
    script = [create(name, "files"), *[write(name, file, "1") for file in range(FILES)],
              turn(name)]
    script += [call("x", SANDBOX + "ForkSession",
                    {"sessionId": name, "snapshot": "turn-0001", "newSessionId": fork,
                     "lazyStart": True}) for fork in forks]
    return script + [destroy(fork) for fork in [*forks, name]]


def life_script():
    """What bwrap and its like do: a sandbox from nothing, one command, and away with it."""
    script = []
    for name in (next(names) for _ in range(CALLS)):
        script += [create(name, "small", label="create"),
                   call("exec", PROCESS + "LaunchProcess",
                        {"sessionId": name, "spec": {"argv": ["/bin/true"]}, "wait": "10s"},
                        '"exitCode":0'), destroy(name, "destroy")]
    return script


def ours(where, script):
    """Milliseconds of the calls that the script labels x."""
    return lambda world: timing.calls(world, world.get(where), script(),
                                      cpus_of(where))["x"].p50_us / 1000


def life(world):
    times = timing.calls(world, world.get(free), life_script(), timing.all_cpus())
    return sum(times[label].p50_us for label in ("create", "exec", "destroy")) / 1000


def peer_create(tool, where):
    return lambda world: world.get(tool).time_create(world, cpus_of(where)) / 1000


def peer_exec(tool, where):
    return lambda world: world.get(tool).time_exec(world, cpus_of(where)) / 1000


def spawn(where):
    """The floor of exec: start the program and wait for its end."""
    return lambda world: timing.command(world, 4 * CALLS, [world.program("bench/bench_true")],
                                        cpus_of(where)).p50_us / 1000


def scaled(where, budget_ms):
    """A time that is in reach on a machine that needs SPAWN_MS to run a program, as it would be on
    this one now."""
    return lambda world: budget_ms * spawn(where)(world) / SPAWN_MS


def within(name, script, budget_ms):
    """Both placements against a scaled time."""
    return [Bench(name + suffix, "ms", ours(where, script), scaled(where, budget_ms), "budget",
                  at_most=1) for suffix, where in (("", free), (" one cpu", pinned))]


BENCHES = [
    Bench("create, 10k files", "ms", ours(free, lambda: create_script("files")),
          peer_create(peers.crun, free), "crun", at_most=round(1 / 3.5, 3), needs=("crun",)),
    Bench("create, 10k files one cpu", "ms", ours(pinned, lambda: create_script("files")),
          peer_create(peers.crun, pinned), "crun", at_most=round(1 / 3.5, 3), needs=("crun",)),
    *within("create, 10k files", lambda: create_script("files"), 3.5),
    *within("create, small base", lambda: create_script("small"), 3.5),
    Bench("create, 60 ms apart", "ms", ours(free, lambda: create_spaced_script("small")),
          scaled(free, 3.5), "budget"),
    Bench("create, small base", "ms", ours(free, lambda: create_script("small")),
          peer_create(peers.runc, free), "runc", needs=("runc",)),
    Bench("create, small base", "ms", ours(free, lambda: create_script("small")),
          lambda world: peers.time_podman(world, timing.all_cpus()) / 1000, "podman",
          needs=("podman",)),
    Bench("create+exec+destroy", "ms", life,
          lambda world: peers.time_bwrap(world, timing.all_cpus()) / 1000, "bwrap",
          needs=("bwrap",)),
    Bench("exec true", "ms", ours(free, exec_script), peer_exec(peers.crun, free), "crun",
          at_most=0.1, needs=("crun",)),
    Bench("exec true one cpu", "ms", ours(pinned, exec_script), peer_exec(peers.crun, pinned),
          "crun", at_most=0.1, needs=("crun",)),
    *within("exec true", exec_script, 0.35),
    Bench("exec true", "ms", ours(free, exec_script), spawn(free), "spawn"),
    Bench("exec true one cpu", "ms", ours(pinned, exec_script), spawn(pinned), "spawn"),
    *within("turn, 8 files", turn_script, 1),
    *within("turn, unchanged", unchanged_script, 0.3),
    *within("rollback", rollback_script, 2),
    *within("fork, lazy", fork_script, 1.7),
    *within("destroy", destroy_script, 1),
]
