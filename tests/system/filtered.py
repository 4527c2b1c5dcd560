#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Filtered networks: what a sandbox reaches by its rules, what it never does, who may die meanwhile,
and that nothing stays behind.

The same world as that of open networks (network.py); what is counted there are the packets that come
out of this host.
"""

import json
import os
import signal
import subprocess
from pathlib import Path

from daemon import PATIENCE_S, SANDBOX, Skip, also_by_nft, also_in_gvisor, case, eventually, fails, init_of
from filtered_world import CAY, FOR_NAMES, WHO, filtered, helpers, main, packets_out, reaches_by_name, refused
from internet import HOST, PRIVATE, WORLD, assert_closed, assert_open, client, session, update
from own_network import NONE, OPEN, is_clean, sh

HERE = ("--network-sets", "here=world.test:1000")


@case
@also_by_nft
@also_in_gvisor
def names(cay, _world):
    """a name that a rule allows is reached, and no other exists"""
    with session(cay, "first", network=filtered("world.test", "*.below.test")):
        assert cay.get("first")["network"]["allow"] == ["world.test", "*.below.test"]
        assert reaches_by_name(cay, "first") == HOST[0]
        assert refused(cay, "first", "names", "four.test") == "no such name"
        good, addresses = client(cay, "first", "names", "world.test")
        assert good and all(a.startswith(("198.18.", "fd00:e900:")) for a in addresses.split()), addresses


def way_inside(cay, session_id):
    cay.sh(session_id, "touch /tmp/steered")
    tables = sh(f"nsenter --net=/proc/{init_of(cay, '/tmp/steered')}/ns/net nft list tables")
    return "nft" if "cay_redirect" in tables else "bpf"


@case
@also_by_nft
def steered(cay, _world):
    """connections are led the way that is configured, and doctor says which"""
    with session(cay, "first", network=filtered("world.test")):
        reaches_by_name(cay, "first")
        said = subprocess.run([CAY, "doctor", "--json", "--data", cay.data], capture_output=True, text=True, check=False).stdout
        text = next(check["text"] for check in json.loads(said)["checks"] if check["name"] == "network")
        wanted = os.environ.get("CAY_NETWORK_STEERING", "auto")
        way = text.rsplit(" ", 1)[1]
        assert way in (wanted, *(("bpf", "nft") if wanted == "auto" else ())), text
        assert way_inside(cay, "first") == way, text


@case
@also_by_nft
def steered_anew(cay, _world):
    """another way is configured: a sandbox keeps its own as long as its sockets live, and then gets the new one"""
    before = cay.environment
    try:
        cay.environment = before | {"CAY_NETWORK_STEERING": "bpf"}
        cay.restart()
        if "filtered" not in cay.call(SANDBOX + "GetCapabilities")["capabilities"]["networkModes"]:
            raise Skip("this kernel takes no sk_lookup program")
        with session(cay, "first", network=filtered("world.test")):
            for way, other in (("bpf", "nft"), ("nft", "bpf")):
                reaches_by_name(cay, "first")
                cay.environment = before | {"CAY_NETWORK_STEERING": other}
                cay.restart()
                reaches_by_name(cay, "first")
                os.kill(helpers()[0], signal.SIGKILL)
                reaches_by_name(cay, "first")
                assert way_inside(cay, "first") == way
                # Daemon and helper hold the sockets.
                cay.kill()
                os.kill(helpers()[0], signal.SIGKILL)
                cay.start()
                reaches_by_name(cay, "first")
                assert way_inside(cay, "first") == other
    finally:
        cay.environment = before
        cay.restart()


@case
@also_by_nft
def nothing_leaves(cay, _world):
    """what is denied puts no packet on the way out"""
    with session(cay, "first", network=filtered("world.test:443", deny=["four.test"])):
        # So that there is a helper.
        refused(cay, "first", "names", "four.test")
        with packets_out() as seen:
            for address in (*WORLD, *PRIVATE, *HOST):
                why = refused(cay, "first", "try", address, 80)
                # To an address of those for names the helper answers, which knows of no name for it.
                known = ["Connection reset by peer"] if address == FOR_NAMES else []
                assert why in ("Permission denied", "Network is unreachable", "no answer", *known), (address, why)
                assert refused(cay, "first", "udp", address, 443, "quic") == "Permission denied", address
            for name in ("four.test", "secret-data.evil.test", "x.world.test"):
                assert refused(cay, "first", "names", name) == "no such name"
            refused(cay, "first", "tcp", "world.test", 80)  # on another port
            refused(cay, "first", "raw")
            left = seen()
            assert not left, left


@case
@also_by_nft
@also_in_gvisor
def ranges(cay, _world):
    """ranges are reached by number, by IPv4 and IPv6, and a rule that denies beats those that allow"""
    with session(cay, "first", network=filtered("52.95.113.0/24", "[2a05:d018:2::]/48")):
        for address, own in zip(WORLD, HOST):
            assert client(cay, "first", "tcp", address, 80) == (True, own), address
    with session(cay, "second", network=filtered("0.0.0.0/0", "*", deny=["52.95.113.0/24"])):
        refused(cay, "second", "tcp", WORLD[0], 80)
        for address in PRIVATE:
            if ":" not in address:
                refused(cay, "second", "tcp", address, 80)
        for address in ("192.168.77.1", "52.94.100.2"):  # the host itself
            refused(cay, "second", "tcp", address, 80)


@case
def invalid(cay, _world):
    """rules that cannot be read or that the host does not open are refused, and leave nothing"""
    fails("invalid_argument", cay.create, "bad", network=filtered("no name!"))
    fails("permission_denied", cay.create, "bad", network=filtered("10.1.0.0/16"))
    fails("unimplemented", cay.create, "bad", network=OPEN | {"allow": ["world.test"]})
    assert "filtered" in cay.call(SANDBOX + "GetCapabilities")["capabilities"]["networkModes"]
    assert cay.ids() == []


def holding(cay, session_id, name):
    """Somebody who goes on talking to the echo server, and how far it is."""
    cay.sh(session_id, f"net_client hold {name} 7 /tmp/count >/dev/null 2>&1 &")

    def count():
        return int(cay.sh(session_id, "cat /tmp/count 2>/dev/null || echo 0") or 0)
    eventually(lambda: count() > 2, "it talks")
    return count


def goes_on(count):
    now = count()
    eventually(lambda: count() > now + 2, "it goes on")


@case
@also_by_nft
@also_in_gvisor
def changed(cay, _world):
    """rules change while it runs: what is not allowed any more is cut, the rest goes on"""
    with session(cay, "first", network=filtered("world.test")):
        count = holding(cay, "first", "world.test")
        update(cay, "first", filtered("*.test"))
        goes_on(count)
        update(cay, "first", filtered("four.test"))
        eventually(lambda: cay.sh("first", "pidof net_client || true") == "", "it is cut")
        assert refused(cay, "first", "names", "world.test") == "no such name"


@case
@also_by_nft
def modes(cay, _world):
    """a running sandbox goes from each mode to each other"""
    with session(cay, "first", network=NONE):
        for network in (filtered("world.test"), OPEN, filtered("world.test"), NONE, OPEN, NONE):
            update(cay, "first", network)
            if network == NONE:
                assert_closed(cay, "first")
            elif network == OPEN:
                assert_open(cay, "first")
            else:
                reaches_by_name(cay, "first")
                refused(cay, "first", "names", "four.test")


@case
@also_by_nft
@also_in_gvisor
def daemon_killed(cay, _world):
    """the daemon dies: connections go on, and the next one rules"""
    with session(cay, "first", network=filtered("world.test")):
        count = holding(cay, "first", "world.test")
        (helper,) = helpers()
        cay.restart()
        assert helpers() == [helper]
        goes_on(count)
        reaches_by_name(cay, "first")
        update(cay, "first", filtered("four.test"))
        eventually(lambda: cay.sh("first", "pidof net_client || true") == "", "it is cut")


@case
@also_by_nft
@also_in_gvisor
def helper_killed(cay, _world):
    """the helper dies: the next one knows the addresses that were given out"""
    with session(cay, "first", network=filtered("world.test")):
        _, addresses = client(cay, "first", "names", "world.test")
        four = next(a for a in addresses.split() if "." in a)
        (helper,) = helpers()
        os.kill(helper, signal.SIGKILL)
        assert client(cay, "first", "tcp", four, WHO) == (True, HOST[0])
        assert helper not in helpers()


@case
def helper_stopped(cay, _world):
    """a helper that does not answer is replaced; whoever connects meanwhile waits for the next one"""
    with session(cay, "first", network=filtered("world.test")):
        reaches_by_name(cay, "first")
        _, addresses = client(cay, "first", "names", "world.test")
        four = next(a for a in addresses.split() if "." in a)
        (helper,) = helpers()
        os.kill(helper, signal.SIGSTOP)
        assert "network.helper_stuck" not in cay.log_path.read_text()
        assert client(cay, "first", "tcp", four, WHO) == (True, HOST[0])
        assert helper not in helpers()
        assert "network.helper_stuck" in cay.log_path.read_text()


def connecting(cay, session_id, names, told):
    """A program inside that connects again and again; what it was told so far, a line each, read from outside."""
    script = f"n=0; while n=$((n + 1)); do for name in {names}; do net_client tcp $name 1000 >> {told}; done; done"
    cay.sh(session_id, f"touch {told}; (eval '{script}') > /dev/null 2>&1 &")
    path = Path(f"/proc/{init_of(cay, told)}/root{told}")
    return lambda: path.read_text(encoding="ascii").splitlines()


@case
def kills(cay, _world):
    """whoever dies, in whatever order: no connection by a name is refused that a rule allows, and the daemon is not needed for
    those of names that were connected to before"""
    with session(cay, "first", network=filtered("world.test:1000", "*.below.test:1000")):
        known = connecting(cay, "first", "world.test", "/tmp/known")
        new = connecting(cay, "first", "n$n.below.test", "/tmp/new")

        def both_go_on():
            for told in (known, new):
                now = len(told())
                eventually(lambda told=told, now=now: len(told()) > now + 2, "connections are made", PATIENCE_S)
        both_go_on()
        cay.kill()
        now = len(known())
        eventually(lambda: len(known()) > now + 2, "connections are made without a daemon")
        cay.start()
        both_go_on()
        (helper,) = helpers()
        os.kill(helper, signal.SIGKILL)
        both_go_on()
        (helper,) = helpers()
        cay.kill()
        os.kill(helper, signal.SIGSTOP)
        cay.start()
        both_go_on()
        assert helper not in helpers()
        # The one that was being made when its helper was killed is lost.
        for told in (known(), new()):
            lost = [line for line in told if line != f"ok {HOST[0]}"]
            assert len(lost) <= 2, lost


@case
@also_by_nft
def both_killed(cay, _world):
    """both die, in either order: nothing leaves meanwhile, and all is back with the next daemon"""
    with session(cay, "first", network=filtered("world.test")):
        for daemon_first in (True, False):
            _, addresses = client(cay, "first", "names", "world.test")
            four = next(a for a in addresses.split() if "." in a)
            (helper,) = helpers()
            if daemon_first:
                cay.kill()
                os.kill(helper, signal.SIGKILL)
            else:
                os.kill(helper, signal.SIGKILL)
                cay.kill()
            cay.start()
            assert client(cay, "first", "tcp", four, WHO) == (True, HOST[0])


@case
def forked(cay, _world):
    """a fork knows the addresses that its origin was given, and has rules of its own"""
    with session(cay, "first", network=filtered("world.test")):
        _, addresses = client(cay, "first", "names", "world.test")
        four = next(a for a in addresses.split() if "." in a)
        (fork,) = cay.fork("first")
        assert client(cay, fork["id"], "tcp", four, WHO) == (True, HOST[0])
        update(cay, fork["id"], filtered("four.test"))
        refused(cay, fork["id"], "tcp", four, WHO)
        assert reaches_by_name(cay, "first") == HOST[0]
        cay.destroy(fork["id"])


@case
@also_by_nft
def leaves_nothing(cay, _world):
    """destroyed, it leaves no process, device, rule, door or file of names"""
    with session(cay, "first", network=filtered("world.test")):
        reaches_by_name(cay, "first")
        assert len(helpers()) == 1
    eventually(lambda: not helpers(), "its helper ends")
    eventually(is_clean, "devices and rules go")
    assert not list((Path(cay.run_dir) / "egress").iterdir())
    assert not list((Path(cay.data) / "egress").iterdir())


@case
def command_line(cay, _world):
    """cay run, create and net give a session rules and change them; sets of the configuration hold"""
    def cli(*arguments):
        environment = os.environ | {"CAY_URL": f"unix:{cay.socket_path}"}
        return subprocess.run([CAY, *arguments], env=environment, capture_output=True, text=True, check=False,
                              timeout=PATIENCE_S)
    ran = cli("run", "--base", "small", "--allow", "@here", "--", "net_client", "tcp", "world.test", "1000")
    assert ran.stdout.startswith("ok "), (ran.stdout, ran.stderr)
    assert cli("create", "--base", "small", "--name", "ruled", "--network", "filtered", "--deny", "four.test").returncode == 0
    refused(cay, "ruled", "names", "world.test")
    assert cli("net", "allow", "ruled", "world.test", "four.test").returncode == 0
    assert reaches_by_name(cay, "ruled") == HOST[0]
    refused(cay, "ruled", "names", "four.test")
    shown = cli("net", "show", "ruled").stdout
    assert shown.split() == ["network", "filtered", "allow", "world.test", "four.test", "deny", "four.test", "ports", "exposed"], shown
    assert "'four.test' denies it" in cli("net", "check", "ruled", "four.test").stdout
    assert cli("net", "allow", "ruled", "--rm", "world.test").returncode == 0
    refused(cay, "ruled", "tcp", "world.test", WHO)
    assert cli("update", "ruled", "--network", "none").returncode == 0
    done = cli("net", "allow", "ruled", "a.test")
    assert done.returncode == 125 and "--network filtered" in done.stderr, done
    assert cli("create", "--network", "open", "--allow", "a.test").returncode == 125
    cay.destroy("ruled")


if __name__ == "__main__":
    main(*HERE)
