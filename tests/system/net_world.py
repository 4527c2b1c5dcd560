# SPDX-License-Identifier: Apache-2.0
"""A small internet for one test: runs in a network namespace of its own and serves on all its
addresses. TCP 80 and 1000 say who is calling, TCP 7 sends back, UDP 9 prints who sent what, 53 knows names.

Prints `ready`, then a line per datagram on UDP 9, and one per question: its type, class and kind.
"""

import ipaddress
import socket
import struct
import subprocess
import threading

NAMES = {"world.test": ("52.95.113.10", "2a05:d018:2::10"), "four.test": ("52.95.113.10", None)}
# Whose answers lead where a name must not lead.
LIES = {"private.test": ("10.1.2.3",), "metadata.test": ("169.254.169.254",), "own.test": ("52.94.100.2",), "loopback.test": ("127.0.0.1",),
        "nat64.test": ("64:ff9b::a01:203",), "sixtofour.test": ("2002:a01:203::9",), "mapped.test": ("::ffff:10.1.2.3",),
        "mixed.test": ("10.1.2.3", "52.95.113.10", "fd12::9")}
EVERYBODY = ".below.test"  # has the addresses of world.test at any name
LONG = "long.test"  # only by TCP: the answer is too long for a datagram
A, TXT, AAAA = 1, 16, 28
IP_FREEBIND = 15


def answer(query, is_tcp):
    """The answer to a query with one question."""
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode())
        at += 1 + query[at]
    question = query[12:at + 5]
    kind, group = struct.unpack(">HH", query[at + 1:at + 5])
    print("asked", kind, group, query[2] >> 3 & 15, flush=True)
    name = ".".join(labels).lower()
    records, flags = [], 0x8180
    if name == LONG:
        if is_tcp:
            records = [(TXT, b"\xff" + bytes(255))] * 20
        else:
            flags |= 0x0200
    elif name in NAMES or name.endswith(EVERYBODY):
        four, six = NAMES.get(name, NAMES["world.test"])
        if kind == A:
            records = [(A, ipaddress.ip_address(four).packed)]
        elif kind == AAAA and six:
            records = [(AAAA, ipaddress.ip_address(six).packed)]
    elif name in LIES:
        addresses = [ipaddress.ip_address(text) for text in LIES[name]]
        records = [(kind, a.packed) for a in addresses if kind == (A if a.version == 4 else AAAA)]
    else:
        flags |= 3
    body = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", k, 1, 60, len(d)) + d for k, d in records)
    return query[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + question + body


def exactly(sock, count):
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def dns_tcp(sock):
    while True:
        query = exactly(sock, struct.unpack(">H", exactly(sock, 2))[0])
        data = answer(query, True)
        sock.sendall(struct.pack(">H", len(data)) + data)


def who(sock):
    sock.sendall(sock.getpeername()[0].removeprefix("::ffff:").encode())


def echo(sock):
    while data := sock.recv(65536):
        sock.sendall(data)


def one(serve, sock):
    with sock:
        try:
            serve(sock)
        except (EOFError, OSError):
            pass


def tcp(port, serve):
    listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64)
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=one, args=(serve, sock), daemon=True).start()


def udp(address, port, take):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_IP, IP_FREEBIND, 1)  # its addresses come later
    sock.bind((address, port))
    while True:
        data, peer = sock.recvfrom(65536)
        take(sock, data, peer)


def tell(_sock, data, peer):
    print(peer[0], data.decode(), flush=True)


def dns_udp(sock, data, peer):
    sock.sendto(answer(data, False), peer)


def main():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for function, *arguments in ((tcp, 80, who), (tcp, 1000, who), (tcp, 7, echo), (tcp, 53, dns_tcp),
                                 (udp, "0.0.0.0", 9, tell), (udp, "52.95.113.53", 53, dns_udp)):
        threading.Thread(target=function, args=arguments, daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
