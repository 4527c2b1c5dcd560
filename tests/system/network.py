#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Open networks: what a sandbox reaches, what it never does, and that nothing stays behind.

The test and its daemons live in a network namespace of their own; the internet is another one, with
addresses that look public. What is closed to sandboxes is served there too and reached from the
host, so that a refusal is ours.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from daemon import (BASE, PATIENCE_S, SANDBOX, Cayd, RpcError, also_in_gvisor, case,
                    eventually, fails, init_of, list_if_asked, run, steps)
from internet import (HOST, PRIVATE, WORLD, World, assert_closed, assert_open, cannot_reach, client, e2b,
                      reaches, serve_on_host, session, update)
from own_network import CLONE_NEWNS, NONE, OPEN, devices, enter, has_nft, is_clean, sh, tables
from process_client import Processes
from small_base import import_small

NET_CLIENT = sys.argv[2]
CAY = sys.argv[3]


def dial(address):
    with socket.create_connection((address, 80), PATIENCE_S) as sock:
        return sock.recv(100).decode()


def netns_of(cay, session_id):
    """A process in the sandbox's network, for those who enter as the host's root."""
    cay.sh(session_id, f"touch /tmp/is-{session_id}")
    return init_of(cay, f"tmp/is-{session_id}")


def inside(cay, session_id, script):
    """Python as the host's root in the network of a sandbox: what a sandbox that broke out would do."""
    pid = netns_of(cay, session_id)
    return subprocess.run(["nsenter", "-t", str(pid), "-n", sys.executable, "-c", script],
                          check=True, capture_output=True, text=True).stdout


def address_of(cay, session_id, family=4):
    pid = netns_of(cay, session_id)
    links = json.loads(sh(f"nsenter -t {pid} -n ip -j -{family} addr show dev eth0"))
    return [info["local"] for info in links[0]["addr_info"]]


@case
def none(cay, _world):
    """without a network there is nothing to reach, and the host is as it was"""
    forwarding = Path("/proc/sys/net/ipv4/ip_forward")
    before = forwarding.read_text()
    forwarding.write_text("0\n")  # it is on since the first open network
    made = cay.create("none")
    assert made["network"]["mode"] == "NETWORK_MODE_NONE", made["network"]
    assert_closed(cay, "none")
    assert client(cay, "none", "names", "world.test") == (False, "no such name")
    assert is_clean(), (devices(), tables())
    assert forwarding.read_text() == "0\n"
    forwarding.write_text(before)
    cay.destroy("none")


@case
@also_in_gvisor
def out(cay, _world):
    """an open network reaches the internet by address and name, IPv4 and IPv6"""
    with session(cay, "out") as made:
        assert made["network"]["mode"] == "NETWORK_MODE_OPEN", made["network"]
        assert_open(cay, "out")
        assert client(cay, "out", "names", "world.test") == (True, " ".join(reversed(WORLD))) or \
            client(cay, "out", "names", "world.test") == (True, " ".join(WORLD))
        assert client(cay, "out", "names", "four.test") == (True, WORLD[0])
        assert client(cay, "out", "names", "nobody.test") == (False, "no such name")
        assert cay.get("out")["network"] == OPEN
        assert len(devices()) == 1 and len(tables()) == 1
    assert is_clean(), (devices(), tables())


@case
@also_in_gvisor
def closed(cay, _world):
    """the host, private ranges and metadata addresses are closed, at once"""
    with session(cay, "closed"):
        for address in (*PRIVATE, *HOST, "127.0.0.1", "::1"):
            assert dial(address), address  # the host gets an answer there
        for address in (*PRIVATE, *HOST, "127.0.0.1", "::1", "169.254.1.1", "::ffff:10.1.2.3",
                        "64:ff9b::a01:203"):
            why = cannot_reach(cay, "closed", address)
            assert address not in PRIVATE or why != "Operation timed out", (address, why)


@case
def rules_alone(cay, _world):
    """what the routes inside refuse, the rules of the host refuse too"""
    with session(cay, "rules"):
        pid = netns_of(cay, "rules")
        four = sh(f"nsenter -t {pid} -n ip route show type prohibit").split("\n")
        for line in filter(None, four):
            sh(f"nsenter -t {pid} -n ip route del {line.strip()}")
        sh(f"nsenter -t {pid} -n ip -6 route add default via fe80::1 dev eth0 onlink")
        sh(f"nsenter -t {pid} -n ip -6 route del prohibit 2002::/16")
        for address in PRIVATE:
            cannot_reach(cay, "rules", address)
        assert_open(cay, "rules")


@case
def on_the_wire(cay, world):
    """who is on the same wire as the host is closed, public or not, also those who come later"""
    with session(cay, "wire"):
        for address in ("52.94.100.1", "2a05:d018:1::1"):
            assert dial(address)
            cannot_reach(cay, "wire", address)
        assert_open(cay, "wire")  # through the very same router
        world.run("ip", "addr", "add", "52.96.7.9/24", "dev", "wan")
        assert reaches(cay, "wire", "52.96.7.9")[0], "somewhere in the internet"
        sh("ip addr add 52.96.7.2/24 dev wan")
        eventually(lambda: not client(cay, "wire", "try", "52.96.7.9", 80)[0], "a neighbour")
        assert dial("52.96.7.9")
        sh("ip addr del 52.96.7.2/24 dev wan")
        eventually(lambda: reaches(cay, "wire", "52.96.7.9")[0], "no neighbour any more")
    with Cayd("--network-allow", "52.94.100.0/24") as other:
        import_small(other, net_client=NET_CLIENT)
        with session(other, "wire2"):
            assert reaches(other, "wire2", "52.94.100.1")[0]
            cannot_reach(other, "wire2", HOST[0])
            cannot_reach(other, "wire2", "2a05:d018:1::1")


@case
def questions(cay, world):
    """nothing but plain questions for names leaves, by datagram and by TCP"""
    with session(cay, "questions"):
        seen = inside(cay, "questions", """
import socket, struct
def q(kind=1, cls=1, flags=0x0100, counts=(1, 0, 0, 0), tail=b'', name=b'\\5world\\4test\\0'):
    return struct.pack('>HHHHHH', 7, flags, *counts) + name + struct.pack('>HH', kind, cls) + tail
def udp(data):
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.settimeout(10)
    u.sendto(data, ('127.0.0.1', 53)); return u.recv(4096)
def tcp(data):
    s = socket.create_connection(('127.0.0.1', 53), 10)
    s.sendall(struct.pack('>H', len(data)) + data)
    n = struct.unpack('>H', s.recv(2))[0]; got = b''
    while len(got) < n: got += s.recv(n - len(got))
    return got
opt = b'\\0' + struct.pack('>HHIH', 41, 1232, 0, 0)
for ask in (udp, tcp):
    for data in (q(), q(28, counts=(1, 0, 0, 1), tail=opt), q(252), q(251), q(6, flags=0x2800),
                 q(6, flags=0x2000), q(16, 3), q(counts=(2, 0, 0, 0), tail=q()[12:])):
        got = ask(data)
        assert got[:2] == data[:2] and got[2] & 0x80, got
        print(got[3] & 15, end=' ')
s = socket.create_connection(('127.0.0.1', 53), 10)
for data in (q(), q(252), q()):  # one after the other
    s.sendall(struct.pack('>H', len(data)) + data)
for i in range(3):
    n = struct.unpack('>H', s.recv(2, socket.MSG_WAITALL))[0]
    print(s.recv(n, socket.MSG_WAITALL)[3] & 15, end=' ')
s.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n' + bytes(30000))
try:
    while s.recv(100): pass
    print('closed')
except OSError: print('closed')
""")
        assert seen.split() == ["0", "0", "5", "5", "4", "4", "5", "5"] * 2 + ["0", "5", "0", "closed"], seen
        asked = [line for line in world.lines if line.startswith("asked ")]
        assert asked and set(asked) <= {"asked 1 1 0", "asked 28 1 0"}, asked


@case
@also_in_gvisor
def neighbours(cay, world):
    """sandboxes do not reach each other, and nobody outside reaches them"""
    with session(cay, "left"), session(cay, "right"):
        Processes(cay, "left").start("net_client", "serve", "8000")
        eventually(lambda: reaches(cay, "left", "127.0.0.1", 8000) == (True, "inside"), "the server")
        (left,), (left6,) = address_of(cay, "left"), address_of(cay, "left", 6)
        (right,) = address_of(cay, "right")
        assert left != right
        assert reaches(cay, "left", left, 8000)[0]
        for address in (left, left6):
            cannot_reach(cay, "right", address, 8000)
        pid = netns_of(cay, "right")  # not even when the routes inside would let them
        sh(f"nsenter -t {pid} -n ip route del prohibit 100.64.0.0/10")
        cannot_reach(cay, "right", left, 8000)
        script = f"import socket; socket.create_connection(('{left}', 8000), 1)"
        assert world.run(sys.executable, "-c", script).returncode != 0
        with contextlib.suppress(OSError):
            socket.create_connection((left, 8000), 1)
            raise AssertionError("the host reaches it")


@case
def spoofing(cay, world):
    """a source address that is not the sandbox's own goes nowhere"""
    with session(cay, "spoof"):
        is_given, why = client(cay, "spoof", "raw", user="root")
        assert not is_given, why
        (own,) = address_of(cay, "spoof")
        script = f"""
import socket, struct
def send(source, text, target='{WORLD[0]}'):
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    data = text.encode()
    udp = struct.pack('>HHHH', 4000, 9, 8 + len(data), 0) + data
    head = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0,
                       socket.inet_aton(source), socket.inet_aton(target))
    s.sendto(head + udp, (target, 0))
for source in ('52.95.113.77', '{HOST[0]}', '127.0.0.1', '100.96.200.200', '8.8.8.8'):
    send(source, 'spoofed')
send('{own}', 'honest')
"""
        world.lines.clear()
        inside(cay, "spoof", script)

        def heard():
            return [line for line in world.lines if not line.startswith("asked ")]
        eventually(heard, "the honest one")
        assert heard() == [f"{HOST[0]} honest"], world.lines


@case
def advertisements(cay, _world):
    """who speaks as a router or a neighbour from inside changes nothing outside"""
    with session(cay, "router"):
        def state():
            return sh("ip -6 route; ip -6 addr; ip neigh show nud permanent; ip route")
        sh("sysctl -qw net.ipv6.conf.wan.accept_ra=2")
        before = state()
        inside(cay, "router", """
import socket, struct
s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)
s.setsockopt(41, 16, 255); s.setsockopt(41, 18, 255)
s.setsockopt(41, 17, socket.if_nametoindex('eth0'))
prefix = struct.pack('>BBBBIII', 3, 4, 64, 0xC0, 86400, 86400, 0) + socket.inet_pton(10, '2a05:d018:bad::')
ra = struct.pack('>BBHBBHII', 134, 0, 0, 64, 0, 1800, 0, 0) + prefix
na = struct.pack('>BBHI', 136, 0, 0, 0x20000000) + socket.inet_pton(10, '2a05:d018:1::1') + b'\\2\\1' + b'\\2\\0\\0\\0\\0\\7'
for data in (ra, na):
    for target in ('ff02::1', 'fe80::1', '2a05:d018:1::2'):
        try: s.sendto(data, (target, 0, 0, socket.if_nametoindex('eth0')))
        except OSError: pass
""")
        assert_open(cay, "router")
        assert state() == before, (before, state())


@case
def names(cay, _world):
    """names come by TCP too, and too many questions at once are not answered all"""
    with session(cay, "names"):
        asked = inside(cay, "names", """
import socket, struct
q = b'\\0\\7\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0' + b'\\4long\\4test\\0' + struct.pack('>HH', 16, 1)
s = socket.create_connection(('127.0.0.1', 53), 10)
s.sendall(struct.pack('>H', len(q)) + q)
n = struct.unpack('>H', s.recv(2))[0]; data = b''
while len(data) < n: data += s.recv(n - len(data))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.settimeout(10)
u.sendto(q, ('127.0.0.1', 53)); short = u.recv(4096)
print(n, data[:2].hex(), short[:2].hex(), short[2] & 2)
w = b'\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0' + b'\\5world\\4test\\0' + struct.pack('>HH', 1, 1)
for i in range(5000): u.sendto(struct.pack('>H', i) + w, ('127.0.0.1', 53))
for junk in (b'', b'x', bytes(5000), b'\\xff' * 12): u.sendto(junk, ('127.0.0.1', 53))
""")
        n, first, second, is_cut = asked.split()
        assert int(n) > 5000 and first == second == "0007" and is_cut == "2", asked
        assert client(cay, "names", "names", "four.test") == (True, WORLD[0])
        assert cay.fd_count() < 300, cay.fd_count()


@case
@also_in_gvisor
def restart(cay, _world):
    """connections live on while the daemon is killed and starts again, and names are found again"""
    with session(cay, "live"):
        process = Processes(cay, "live").start("net_client", "hold", WORLD[0], "7", "/workspace/count")
        def count():
            try:
                return int(cay.read("live", "/workspace/count") or 0)
            except RpcError as error:  # not made yet
                assert error.reason == "file_not_found", error
                return 0
        eventually(lambda: count() > 3, "bytes to and fro")
        held = devices(), tables()
        cay.restart()
        seen = count()
        eventually(lambda: count() > seen + 3, "bytes to and fro after the restart")
        assert Processes(cay, "live").get(process["id"])["state"] == "PROCESS_STATE_RUNNING"
        assert (devices(), tables()) == held
        assert_open(cay, "live")
    assert is_clean(), (devices(), tables())


@case
def orphans(cay, _world):
    """what no session owns is removed at the start"""
    with session(cay, "known"):
        (known,) = devices()
    sh(f"ip link add {known.split('-')[0]}-3f type veth peer name gone0")
    sh(f"nft add table inet cay_{known.split('-')[0][2:]}")
    cay.restart()
    assert is_clean(), (devices(), tables())


@case
@also_in_gvisor
def changes(cay, _world):
    """pauses, turns, rollbacks and forks keep it; an update opens and closes it while it runs"""
    with session(cay, "changing", network=NONE):
        assert_closed(cay, "changing")
        assert update(cay, "changing", OPEN)["network"] == OPEN
        assert_open(cay, "changing")
        cay.turn("changing")
        cay.sh("changing", "echo x > /workspace/x")
        for mode in ("PAUSE_MODE_FREEZE", "PAUSE_MODE_STOP"):
            cay.call(SANDBOX + "PauseSession", {"sessionId": "changing", "mode": mode})
            cay.call(SANDBOX + "ResumeSession", {"sessionId": "changing"})
            assert_open(cay, "changing")
        cay.rollback("changing", "turn-0001")
        assert_open(cay, "changing")
        (fork,) = cay.fork("changing")
        assert fork["network"] == OPEN
        assert_open(cay, fork["id"])
        (shut,) = cay.fork("changing", network=NONE)
        assert_closed(cay, shut["id"])
        for made in (fork, shut):
            cay.destroy(made["id"])
        Processes(cay, "changing").start("net_client", "hold", WORLD[0], "7", "/workspace/count")
        assert update(cay, "changing", NONE)["network"] == NONE
        assert_closed(cay, "changing")
        assert is_clean(), (devices(), tables())
        cay.restart()
        assert_closed(cay, "changing")
        update(cay, "changing", OPEN)
        assert_open(cay, "changing")
    assert is_clean(), (devices(), tables())


@case
@also_in_gvisor
def lost(cay, _world):
    """a sandbox whose init is killed gets its network again with the next"""
    with session(cay, "lost"):
        os.kill(netns_of(cay, "lost"), 9)
        eventually(lambda: not cay.get("lost").get("sandboxRunning"), "its end")
        assert_open(cay, "lost")
        assert len(devices()) == 1
    assert is_clean(), (devices(), tables())


@case
def flushed(cay, _world):
    """rules that somebody flushes come back"""
    with session(cay, "flushed"):
        (table,) = tables()
        sh("nft flush ruleset")
        eventually(lambda: tables() == [table], "the table")
        assert_open(cay, "flushed")
        cannot_reach(cay, "flushed", HOST[0])


@case
def base_resolver(cay, _world):
    """a base that names servers nobody reaches finds names all the same"""
    with session(cay, "first", network=NONE):
        cay.sh("first", "ln -s ../run/nowhere/resolv.conf /etc/resolv.conf", user="root")
        cay.snapshot("first", "linked")
        (fork,) = cay.fork("first", snapshot="linked", network=OPEN)
        assert cay.sh(fork["id"], "cat /etc/resolv.conf") == "nameserver 127.0.0.1\n"
        assert_open(cay, fork["id"])
        cay.destroy(fork["id"])


@case
def refused(cay, _world):
    """rules that cannot be enforced are refused, and what is refused leaves nothing"""
    for policy in (OPEN | {"allow": ["10.0.0.0/8"]}, OPEN | {"deny": ["52.95.113.0/24"]}):
        fails("unimplemented", cay.create, "refused", network=policy, reason="not_supported")
    cay.create("kept", network=NONE)
    fails("unimplemented", update, cay, "kept", OPEN | {"allow": ["1.1.1.1"]}, reason="not_supported")
    assert cay.get("kept")["network"] == NONE
    cay.destroy("kept")
    program = sh("command -v nft").strip()
    sh(f"mount --bind /dev/null {program}")  # not a program any more
    try:
        fails("unimplemented", cay.create, "refused", network=OPEN, reason="not_supported")
        modes = cay.call(SANDBOX + "GetCapabilities")["capabilities"]["networkModes"]
        assert modes == ["none"], modes
    finally:
        sh(f"umount {program}")
    modes = cay.call(SANDBOX + "GetCapabilities")["capabilities"]["networkModes"]
    assert modes == ["none", "open", "filtered"], modes
    sh("ip route add 100.96.0.0/12 via 52.94.100.1")
    try:
        error = fails("failed_precondition", cay.create, "refused", network=OPEN)
        assert "network_pool" in error.message, error
    finally:
        sh("ip route del 100.96.0.0/12 via 52.94.100.1")
    assert "refused" not in cay.ids()
    assert is_clean(), (devices(), tables())


@case
def side_by_side(cay, _world):
    """another daemon with the same pool and other settings does not get in the way"""
    with session(cay, "first"), Cayd("--network", "open", "--network-allow", "10.1.0.0/16,fd12::/32",
                                     "--destroy-on-exit") as other:
        import_small(other, net_client=NET_CLIENT)
        other.create("second")
        assert len(devices()) == 2 and len(tables()) == 2
        assert address_of(cay, "first") != address_of(other, "second")
        for daemon, name in ((cay, "first"), (other, "second")):
            assert_open(daemon, name)
        for address in ("10.1.2.3", "fd12::9"):
            assert reaches(other, "second", address)[0], address
            cannot_reach(cay, "first", address)
        for address in set(PRIVATE) - {"10.1.2.3", "fd12::9"} | set(HOST):
            cannot_reach(other, "second", address)
        other.stop()
        assert len(devices()) == 1 and len(tables()) == 1
        assert_open(cay, "first")
        other.start()
    assert is_clean(), (devices(), tables())


@case
def clients_of_e2b(cay, _world):
    """clients of E2B get what is configured for them, unless they close or open it"""
    def check(daemon, is_open):
        """`is_open`: what is configured."""
        def create(**words):
            status, made = e2b(daemon, "POST", "/v2/sandboxes", {"templateID": "small", "timeout": 60} | words)
            assert status == 201, made
            return made["sandboxID"]

        def assert_is(session_id, is_open):
            assert e2b(daemon, "GET", f"/sandboxes/{session_id}")[1]["allowInternetAccess"] == is_open
            (assert_open if is_open else assert_closed)(daemon, session_id)

        def update(session_id, **rules):
            return e2b(daemon, "PUT", f"/sandboxes/{session_id}/network", rules)[0]

        sandboxes = [create(), create(allow_internet_access=True), create(allow_internet_access=False)]
        for session_id, wanted in zip(sandboxes, (is_open, is_open, False)):
            assert_is(session_id, wanted)
        first = sandboxes[0]
        for rules, wanted in (({"allow_internet_access": True}, True), ({"allow_internet_access": False}, False),
                              ({"allow_internet_access": True}, True), ({"denyOut": ["0.0.0.0/0"]}, False), ({}, is_open)):
            assert update(first, **rules) == 204, rules
            assert_is(first, wanted)
        for rules in ({"denyOut": ["0.0.0.0/0"], "allowOut": [WORLD[0]]},
                      {"allow_internet_access": False, "allowOut": [WORLD[0]]}):
            assert update(first, **rules) == 204, rules
            assert reaches(daemon, first, WORLD[0])[0]
            cannot_reach(daemon, first, WORLD[1])
        assert update(first) == 204
        assert update(first, allow_internet_access=True, denyOut=["52.95.113.0/24"]) == 204
        told = e2b(daemon, "GET", f"/sandboxes/{first}")[1]
        assert told["allowInternetAccess"] and told["network"]["denyOut"] == ["52.95.113.0/24"], told
        assert told["network"]["allowOut"] == [], told
        cannot_reach(daemon, first, WORLD[0])
        assert update(first, denyOut=["0.0.0.0/0"], allowOut=[WORLD[0]]) == 204
        told = e2b(daemon, "GET", f"/sandboxes/{first}")[1]["network"]
        assert (told["allowOut"], told["denyOut"]) == ([WORLD[0]], ["0.0.0.0/0"]), told
        reaches(daemon, first, WORLD[0])
        assert update(first) == 204
        for rules in ({"allow_internet_access": True, "denyOut": ["52.95.113.0/24"], "allowOut": [WORLD[0]]},
                      {"denyOut": ["0.0.0.0/0"], "allowOut": ["no name!"]}):
            assert update(first, **rules) >= 400, rules
            assert_is(first, is_open)
        for session_id in sandboxes:
            assert e2b(daemon, "DELETE", f"/sandboxes/{session_id}")[0] == 204
    check(cay, False)
    with Cayd("--e2b-network", "open") as other:
        import_small(other, net_client=NET_CLIENT)
        check(other, True)
        other.create("own")
        assert_closed(other, "own")
    with Cayd("--network", "open", "--e2b-network", "none") as other:
        import_small(other, net_client=NET_CLIENT)
        check(other, False)
    assert is_clean(), (devices(), tables())


@case
def command_line(cay, _world):
    """cay run --network open, and what cay show says"""
    def cli(*arguments):
        environment = os.environ | {"CAY_URL": f"unix:{cay.socket_path}"}
        return subprocess.run([CAY, *arguments], env=environment, capture_output=True, text=True,
                              check=False, timeout=PATIENCE_S)
    ran = cli("run", "--base", "small", "--network", "open", "--", "net_client", "tcp", "world.test", "80")
    assert ran.stdout.startswith("ok "), (ran.stdout, ran.stderr)
    cli("create", "--base", "small", "--name", "shown", "--network", "open")
    assert "open" in cli("show", "shown").stdout
    assert cli("update", "shown", "--network", "none").returncode == 0
    assert "open" not in cli("show", "shown").stdout
    assert cli("create", "--network", "most").returncode == 125
    cay.destroy("shown")
    assert is_clean(), (devices(), tables())


@case
def builds(cay, _world):
    """steps of a build reach what the build asks for, and otherwise what sessions do"""
    def said(*flags):
        steps = f"FROM small\nRUN net_client tcp {WORLD[0]} 80; true\n"
        ran = subprocess.run([CAY, "base", "build", "--name", "built", "--replace", "-f", "-", *flags],
                             env=os.environ | {"CAY_URL": f"unix:{cay.socket_path}"}, input=steps,
                             capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert ran.returncode == 0, ran.stderr
        return ran.stderr
    shown = said("--network", "open")
    assert "\nok " in shown, shown
    assert "\nok " not in said()
    assert "\nok " not in said("--network", "none")
    cay.call(BASE + "RemoveBase", {"name": "built"})
    assert is_clean(), (devices(), tables())


def main():
    list_if_asked()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(0)
    if not has_nft():
        print("1..0 # SKIP needs nft (package nftables)")
        sys.exit(0)
    enter(CLONE_NEWNS)
    sh("mount --make-rprivate /")
    serve_on_host()
    world = World()
    try:
        with Cayd() as cay:
            import_small(cay, net_client=NET_CLIENT)
            cay.keep()
            run(cay, world, after_each=cay.reset)
    finally:
        world.close()


if __name__ == "__main__":
    main()
