#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Peers that do not take what they asked for, and verbs that do not take what they are sent: both
hold little memory and come to an end."""

import json
import socket
import struct
import threading
import time

from http2_frames import Http2
from wire import MIB, case, envelope, eventually, post, run_with_echod, steady

SEND_MS = 1500
SWEEP_MS = 1000  # how often the server looks
CONNECT_JSON = "application/connect+json"
ENDLESS = post("ServerStream", envelope('{"count":4000000000,"sizeBytes":65536}'), CONNECT_JSON)


def small_window(daemon):
    """A connection whose receive buffer the kernel will not grow."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
    sock.settimeout(10)
    sock.connect((daemon.host, daemon.port))
    return sock


@case
def stalled_reader(daemon):
    """a reader that stops bounds what the server makes and holds, and is cut in the end"""
    before = daemon.stats()
    with small_window(daemon) as sock:
        sock.sendall(ENDLESS)
        made = steady(lambda: daemon.stats()["messagesSent"]) - before["messagesSent"]
        now = daemon.stats()
        assert made * 65536 < 12 * MIB, f"{made} messages"
        growth = now["rssBytes"] - before["rssBytes"]
        assert growth < daemon.rss_room(3), f"memory grew by {growth} bytes"
        eventually(lambda: daemon.stats()["liveCalls"] == 0, "the call is cut")
    now = daemon.stats()
    assert now["cancelledCalls"] == before["cancelledCalls"] + 1
    assert now["timeouts"] == before["timeouts"] + 1


@case
def stalled_readers(daemon):
    """twenty of them hold twenty times as little"""
    before = daemon.stats()
    socks = [small_window(daemon) for _ in range(20)]
    for sock in socks:
        sock.sendall(ENDLESS)
    steady(lambda: daemon.stats()["messagesSent"])
    growth = daemon.stats()["rssBytes"] - before["rssBytes"]
    assert growth < daemon.rss_room(40), f"memory grew by {growth} bytes"
    answer = daemon.call("Unary", {"text": "others are served"})
    assert answer.json()["text"] == "others are served"
    for sock in socks:
        sock.close()
    eventually(lambda: daemon.stats()["liveCalls"] == 0, "all calls end")


@case
def slow_but_steady_reader(daemon):
    """a reader that is slow but reads is not cut"""
    before = daemon.stats()["cancelledCalls"]
    with small_window(daemon) as sock:
        sock.sendall(ENDLESS)
        until = time.monotonic() + (SEND_MS + SWEEP_MS + 500) / 1000
        while time.monotonic() < until:
            assert sock.recv(65536), "cut"
            time.sleep(0.02)  # the pace is what is tested
        assert daemon.stats()["cancelledCalls"] == before
        sent = daemon.stats()["messagesSent"]
        for _ in range(200):
            assert sock.recv(65536)
        eventually(lambda: daemon.stats()["messagesSent"] > sent, "it goes on")
    eventually(lambda: daemon.stats()["liveCalls"] == 0, "the call ends")


@case
def some_always_waits(daemon):
    """what was taken of a long HTTP/2 stream is let go, though some of it always waits for the window"""
    before = daemon.stats()["rssBytes"]
    with Http2(daemon.socket()) as conn:
        stream = conn.open(conn.head("ServerStream", CONNECT_JSON))
        conn.data(stream, envelope('{"count":4000000000,"sizeBytes":65536}'))
        taken = 0
        while taken < 128 * MIB:
            conn.step()
            taken += len(conn.replies[stream].body)
            conn.replies[stream].body = b""
        growth = daemon.stats()["rssBytes"] - before
        assert growth < daemon.rss_room(4), f"memory grew by {growth} bytes"
    eventually(lambda: daemon.stats()["liveCalls"] == 0, "the call ends")


@case
def nobody_reads_the_request(daemon):
    """a verb that does not read stops its client, and its memory"""
    before = daemon.stats()
    chunk = envelope(json.dumps({"payload": "QUJD" * 10_000}))
    with daemon.raw() as raw:
        raw.send(post("Sink", b"", CONNECT_JSON, content_length=10**12))
        raw.sock.setblocking(False)
        sent = 0

        def is_stuck():
            nonlocal sent
            before_send = sent
            try:
                while sent < 200 * MIB:
                    sent += raw.sock.send(chunk)
            except BlockingIOError:
                pass
            return sent == before_send

        eventually(is_stuck, "the client is stopped")
        now = daemon.stats()
        assert sent < 40 * MIB and now["messagesReceived"] == before["messagesReceived"], sent
        growth = now["rssBytes"] - before["rssBytes"]
        assert growth < daemon.rss_room(3), f"memory grew by {growth} bytes"
        # A reset is noticed; an orderly end would stand behind all that is unread.
        raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    eventually(lambda: daemon.stats()["liveCalls"] == 0, "the call ends")


@case
def echo_back_pressure(daemon):
    """an echo whose reader stalls stops taking, and loses nothing when it goes on"""
    message = envelope('{"payload":"%s"}' % ("QUJD" * 4_000))
    count = 2000
    with daemon.raw() as raw:
        raw.send(post("Bidi", b"", CONNECT_JSON, content_length=count * len(message)))
        writer = threading.Thread(target=lambda: raw.sock.sendall(message * count))
        writer.start()
        steady(lambda: daemon.stats()["messagesReceived"])
        answer = raw.answer()
        writer.join()
    assert answer.body == message * count + envelope("{}", 2)


if __name__ == "__main__":
    run_with_echod("--send-timeout-ms", str(SEND_MS))
