# SPDX-License-Identifier: Apache-2.0
"""Processes through the API: a shell's command, streams, pauses, many sandboxes, and what a
neighbour notices of an abuse."""

import contextlib
import shutil
import socket
import struct
import subprocess
import time

import daemon
import harness
import session
import timing
from harness import Bench
from session import cpus_of, free, ours, pinned, scaled
from timing import PROCESS, SANDBOX, call

MIB = 1 << 20
STREAM_MIB = 256
CROWD = 1000  # idle sandboxes
BURST = 100  # creates at once
REST_SECONDS = 4  # after which an init that has nothing to do gives memory back (src/init/main.c)
CALLS = 100  # of a neighbour in one sample
BUSYBOX = shutil.which("busybox")


@contextlib.contextmanager
def shell_base(world):
    """A base with a static busybox."""
    if not BUSYBOX:
        raise harness.Skip("needs busybox (package busybox-static)")
    directory = world.tmp / "base-shell"
    session.make_base(world, directory, 0)
    shutil.copy(BUSYBOX, directory / "bin/busybox")
    for name in ("sh", "cat", "head", "dd", "tail", "yes", "sleep", "rm"):
        (directory / "bin" / name).symlink_to("busybox")
    yield directory


def with_shell(where):
    """A daemon that has the base, and a session on it with a sandbox."""
    @contextlib.contextmanager
    def start(world):
        server = world.get(where)
        session.import_base(server, "shell", world.get(shell_base))
        timing.calls(world, server, [session.create("shell", "shell")], cpus_of(where))
        yield server
    return start


shells = {where: with_shell(where) for where in (free, pinned)}


def launch(name, *argv, label="x", wait="10s", expected='"exitCode":0', policy=None):
    spec = {"argv": list(argv)} | ({"policy": policy} if policy else {})
    body = {"sessionId": name, "spec": spec} | ({"wait": wait} if wait else {})
    return call(label, PROCESS + "LaunchProcess", body, expected)


def echo(where):
    script = [launch("shell", "/bin/sh", "-c", "echo hi")] * 48
    return lambda world: timing.calls(world, world.get(shells[where]), script,
                                      cpus_of(where))["x"].p50_us / 1000


def echo_floor(where):
    return lambda world: timing.command(world, 48, [BUSYBOX, "sh", "-c", "echo hi"],
                                        cpus_of(where)).p50_us / 1000


def pause_script(label):
    labels = {"pause": "-", "resume": "-"} | {label: "x"}
    return [call(labels["pause"], SANDBOX + "PauseSession", {"sessionId": "kept"}),
            call(labels["resume"], SANDBOX + "ResumeSession", {"sessionId": "kept"})] * 24


def field(number, data):
    """One length-delimited field of a protobuf message."""
    length, size = b"", len(data)
    while True:
        length += bytes([size & 127 | (128 if size > 127 else 0)])
        size >>= 7
        if not size:
            return bytes([number << 3 | 2]) + length + data


def stream_request(server, name, *argv):
    """AttachProcess that starts a program, in binary; the program waits for its reader."""
    blocks = b"\x38\x02"  # ExecPolicy.overflow = OUTPUT_OVERFLOW_BLOCK
    spec = b"".join(field(1, word.encode()) for word in argv) + field(8, blocks)
    message = field(1, name.encode()) + field(3, spec)
    body = b"\0" + struct.pack(">I", len(message)) + message
    return (f"POST {PROCESS}AttachProcess HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {server.key}\r\n"
            "content-type: application/connect+proto\r\nconnect-protocol-version: 1\r\nconnection: close\r\n"
            f"content-length: {len(body)}\r\n\r\n").encode() + body


def stream(world):
    return stream_on(world.get(shells[free]), "shell", "/bin/head", "-c", str(STREAM_MIB * MIB), "/dev/zero")


def stream_on(server, name, *argv):
    """MiB a second of output, from the request to the last byte."""
    request = stream_request(server, name, *argv)
    room = bytearray(MIB)
    total = 0
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        started = time.monotonic()
        connection.sendall(request)
        while got := connection.recv_into(room):
            total += got
        took = time.monotonic() - started
    if total < STREAM_MIB * MIB:
        raise ConnectionError(f"only {total} bytes came: {bytes(room[:200])}")
    return STREAM_MIB / took


def pipe(world):
    """The floor: the same program, read from a pipe."""
    room = bytearray(MIB)
    started = time.monotonic()
    with subprocess.Popen([BUSYBOX, "head", "-c", str(STREAM_MIB * MIB), "/dev/zero"],
                          stdout=subprocess.PIPE, bufsize=0) as process:
        while process.stdout.readinto(room):
            pass
    return STREAM_MIB / (time.monotonic() - started)


def stream_memory(world):
    """MiB that the daemon is larger for having streamed, at its largest."""
    server = world.get(shells[free])
    with open(f"/proc/{server.process.pid}/clear_refs", "w", encoding="ascii") as peak:
        peak.write("5")
    before = server.status("VmRSS")
    stream(world)
    return max(1, server.status("VmHWM") - before) / 1024


def all_at_once(server, path, bodies):
    """Sends all requests, each over a connection of its own, and waits for all answers: ms."""
    with contextlib.ExitStack() as exits:
        connections = [exits.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in bodies]
        started = time.monotonic()
        for connection, body in zip(connections, bodies):
            connection.sendall(daemon.request_bytes(path, body, server.key))
        answers = [daemon.read_answer(connection) for connection in connections]
        took = time.monotonic() - started
    bad = [answer for answer in answers if not answer.startswith(b"HTTP/1.1 200 ")]
    if bad:
        raise ConnectionError(bad[0].decode(errors="replace"))
    return took * 1000


def burst_on(server):
    made = [next(session.names) for _ in range(BURST)]
    took = all_at_once(server, SANDBOX + "CreateSession",
                       [f'{{"sessionId":"{name}","base":"small"}}' for name in made])
    all_at_once(server, SANDBOX + "DestroySession", [f'{{"sessionId":"{name}"}}' for name in made])
    return took


def burst(world):
    return burst_on(world.get(free))


def available_mib():
    with open("/proc/meminfo", encoding="ascii") as info:
        return next(int(line.split()[1]) for line in info if line.startswith("MemAvailable")) / 1024


def crowd(world):
    """MiB that the machine has less for a thousand idle sandboxes, daemon and all."""
    server = world.get(free)
    made = [next(session.names) for _ in range(CROWD)]
    timing.calls(world, server, [launch("kept", "/bin/true")], timing.all_cpus())
    before = available_mib()
    timing.calls(world, server, [session.create(name, "small") for name in made], timing.all_cpus())
    time.sleep(REST_SECONDS)
    used = before - available_mib()
    timing.calls(world, server, [session.destroy(name) for name in made], timing.all_cpus())
    return max(1, used)


ABUSES = {
    "fork bomb": "b() { b | b & }; b; sleep 100",
    "memory bomb": "while :; do tail -c 1000000000 /dev/zero; done",
    "flood": "exec cat /dev/zero",
    "disk": "while :; do dd if=/dev/zero of=/workspace/f bs=1M count=64 2> /dev/null; done",
    "busy loops": "for i in 1 2 3 4; do (while :; do :; done) & done; wait",
}


def neighbour_p99(world):
    script = [launch("kept", "/bin/true")] * CALLS
    return timing.calls(world, world.get(shells[free]), script, timing.all_cpus())["x"].p99_us / 1000


def under(abuse):
    """A neighbour's exec while somebody else does that, with limits as people give them."""
    def sample(world):
        server = world.get(shells[free])
        name = next(session.names)
        limits = {"pids": "200", "memoryBytes": str(96 * MIB), "cpus": 1}
        timing.calls(world, server, [
            call("-", SANDBOX + "CreateSession", {"sessionId": name, "base": "shell", "limits": limits}),
            launch(name, "/bin/sh", "-c", ABUSES[abuse], wait=None, expected="", label="-")], timing.all_cpus())
        time.sleep(0.3)  # so that it is at its worst
        try:
            return neighbour_p99(world)
        finally:
            timing.calls(world, server, [session.destroy(name)], timing.all_cpus())
    return sample


BENCHES = [
    *[Bench("sh -c 'echo hi'" + suffix, "ms", echo(where), scaled(where, 1.0), "budget", at_most=1)
      for suffix, where in (("", free), (" one cpu", pinned))],
    Bench("sh -c 'echo hi'", "ms", echo(free), echo_floor(free), "spawn"),
    # 700 MiB/s on a machine whose pipe carries 1232.
    Bench("stream 256 MiB", "MiB/s", stream, pipe, "pipe", at_least=0.57),
    Bench("stream, daemon's memory", "MiB", stream_memory, 16, "budget", at_most=1),
    *session.within("pause", lambda: pause_script("pause"), 0.4),
    *session.within("resume", lambda: pause_script("resume"), 0.4),
    Bench("100 creates at once", "ms", burst, scaled(free, 400), "budget", at_most=1),
    Bench("1000 idle sandboxes", "MiB", crowd, 512, "budget", at_most=1, rounds=1),
    *[Bench(f"exec p99, {abuse} next door", "ms", under(abuse), neighbour_p99, "idle p99", at_most=5, rounds=3)
      for abuse in ABUSES],
]
