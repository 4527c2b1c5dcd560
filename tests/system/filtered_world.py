# SPDX-License-Identifier: Apache-2.0
"""What tests of filtered networks share: a world around them, and what they ask of it. Takes the programs cayd, net_client and cay."""

import contextlib
import os
import re
import socket
import sys
from pathlib import Path

from daemon import Cayd, list_if_asked, run
from internet import World, client, serve_on_host
from own_network import CLONE_NEWNS, enter, has_nft, sh
from small_base import import_small

NET_CLIENT = sys.argv[2]
CAY = sys.argv[3]
WHO = 1000  # says who is calling; where HTTP is expected, a server that speaks first is heard late
EVERY_PROTOCOL = 3  # ETH_P_ALL
FOR_NAMES = "198.18.0.7"  # in the range that the helper takes addresses for names from


def filtered(*allow, deny=()):
    return {"mode": "NETWORK_MODE_FILTERED", "allow": list(allow), "deny": list(deny)}


def helpers():
    """The pids of our daemon's helpers: who holds a door that was bound in this network namespace."""
    doors = {f"socket:[{line.split()[6]}]" for line in Path("/proc/net/unix").read_text().splitlines()
             if re.search(r" /proc/self/fd/[0-9]+/[0-9a-f]+$", line)}
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text() == "cay-egress\n" and \
                    any(os.readlink(fd) in doors for fd in (entry / "fd").iterdir()):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def refused(cay, session_id, *arguments):
    good, why = client(cay, session_id, *arguments)
    assert not good, (arguments, why)
    return why


def reaches_by_name(cay, session_id, name="world.test"):
    """By a protocol in which the server speaks first; the address it saw."""
    good, rest = client(cay, session_id, "tcp", name, WHO)
    assert good, rest
    return rest


@contextlib.contextmanager
def packets_out():
    """A function that tells of the packets which have left this host towards the internet since."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL)) as tap:
        tap.bind(("wan", EVERY_PROTOCOL))
        tap.setblocking(False)

        def seen():
            found = []
            with contextlib.suppress(BlockingIOError):
                while True:
                    packet, (_, _, kind, *_) = tap.recvfrom(65536)
                    # A new interface greets its neighbours by itself, from :: or fe80:: to ff02::.
                    is_greeting = packet[22:24] in (b"\0\0", b"\xfe\x80") and packet[38:40] == b"\xff\x02"
                    if kind == socket.PACKET_OUTGOING and not is_greeting:
                        found.append(packet.hex())
            return found
        yield seen


def main(*flags):
    """Run the cases in a world with a daemon of these flags."""
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
        with Cayd(*flags) as cay:
            import_small(cay, net_client=NET_CLIENT)
            cay.keep()
            run(cay, world, after_each=cay.reset)
    finally:
        world.close()
