#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Filtered networks against hostile code inside and hostile names outside: what leaves this host is counted.

What one sandbox tries with sockets, routes and options alone is in the escape suite (src/probe/outside.c); what the helper makes of
hostile bytes, in unit-egress and the fuzzers.
"""

import ipaddress

from daemon import case, eventually
from filtered_world import WHO, filtered, helpers, main, packets_out, reaches_by_name, refused
from internet import HOST, WORLD, client, session
from net_world import LIES
from own_network import sh

def to(packets, address):
    """Those that went to an address; they are frames of Ethernet in hexadecimal."""
    wanted = ipaddress.ip_address(address)
    first = 2 * (30 if wanted.version == 4 else 38)
    return [packet for packet in packets if packet[first:].startswith(wanted.packed.hex())]


@case
def lying_names(cay, _world):
    """names that are allowed and lead to private, own, disguised or metadata addresses reach nothing, and no packet goes there"""
    with session(cay, "first", network=filtered("*.test")):
        assert reaches_by_name(cay, "first") == HOST[0]
        for name, addresses in LIES.items():
            if name == "mixed.test":
                continue
            with packets_out() as seen:
                why = refused(cay, "first", "tcp", name, WHO)
                assert why in ("Connection reset by peer", "no answer"), (name, why)
                assert not to(seen(), addresses[0]), name
        # One good address among bad ones is the one that is used.
        assert reaches_by_name(cay, "first", "mixed.test") == HOST[0]


@case
def names_below_wildcards(cay, _world):
    """a question below a wildcard carries nothing out; the name is looked up when somebody connects"""
    with session(cay, "first", network=filtered("*.below.test")):
        refused(cay, "first", "names", "warm-up.other.test")
        with packets_out() as seen:
            for number in range(20):
                assert client(cay, "first", "names", f"stolen-{number}.below.test")[0]
            left = seen()
            assert not left, left


@case
def fronting(cay, _world):
    """who connects to an allowed name cannot mean another one by Host, twice, later, absolute or smuggled"""
    requests = ("GET / HTTP/1.1\\r\\nHost: four.test\\r\\n\\r\\n",
                "GET / HTTP/1.1\\r\\nHost: world.test\\r\\nHost: four.test\\r\\n\\r\\n",
                "GET http://four.test/ HTTP/1.1\\r\\nHost: world.test\\r\\n\\r\\n",
                "GET / HTTP/1.1\\r\\nHost: world.test\\0.four.test\\r\\n\\r\\n",
                "POST / HTTP/1.1\\r\\nHost: world.test\\r\\nContent-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n",
                "CONNECT four.test:443 HTTP/1.1\\r\\nHost: four.test\\r\\n\\r\\n",
                "GET / HTTP/1.0\\r\\n\\r\\n")
    def asks(request, port=80):
        """Whether anything is answered."""
        script = f"exec 3<>/dev/tcp/world.test/{port} && printf '{request}' >&3 && read -t 10 -n 1 -u 3 x; echo $? $x"
        return cay.launch("first", "/bin/bash", "-c", script, user="user")[1].decode().startswith("0 ")
    with session(cay, "first", network=filtered("world.test")):
        # Of the echo server: the other one leaves before it has heard the request.
        assert asks("GET / HTTP/1.1\\r\\nHost: world.test\\r\\n\\r\\n", 7)
        for request in requests:
            with packets_out() as seen:
                assert not asks(request), request
                assert not to(seen(), WORLD[0]), request


@case
def neighbours(cay, _world):
    """a sandbox that floods its helper holds up no other one's"""
    with session(cay, "first", network=filtered("world.test")), session(cay, "second", network=filtered("world.test")):
        cay.sh("first", f"for i in $(seq 8); do (while :; do net_client try world.test {WHO}; net_client names n.other.test; done) > /dev/null 2>&1 & done")
        eventually(lambda: len(helpers()) == 1, "it floods")
        for _ in range(5):
            assert reaches_by_name(cay, "second") == HOST[0]
        assert len(helpers()) == 2


@case
def without_ipv6(cay, _world):
    """on a host without IPv6, names that have addresses of both are reached by IPv4"""
    sh("echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6")
    try:
        with session(cay, "first", network=filtered("world.test")):
            _, addresses = client(cay, "first", "names", "world.test")
            for address in addresses.split():
                assert client(cay, "first", "tcp", address, WHO) == (True, HOST[0]), address
    finally:
        sh(f"echo 0 > /proc/sys/net/ipv6/conf/all/disable_ipv6; ip addr add {HOST[1]}/64 dev wan nodad; ip route add default via 2a05:d018:1::1")


if __name__ == "__main__":
    main()
