#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that take their time: each hits its limit, is told so, and bothers nobody."""

import concurrent.futures
import json
import time

from wire import Closed, case, envelope, eventually, post, run_with_echod

HEAD_MS, BODY_MS, IDLE_MS = 400, 500, 1500
SWEEP_MS = 1000  # how often the server looks
CONNECT_JSON = "application/connect+json"


def within(started, least_ms, most_ms):
    took_ms = (time.monotonic() - started) * 1000
    assert least_ms <= took_ms <= most_ms + SWEEP_MS + 2000, f"after {took_ms:.0f} ms"


def drip(raw, data):
    """Send byte by byte, a byte in 50 ms, until an answer comes; return it."""
    raw.sock.settimeout(0.05)
    for at in range(len(data)):
        raw.send(data[at:at + 1])
        try:
            if raw.more():
                break
        except TimeoutError:
            pass
    raw.sock.settimeout(10)
    return raw.answer()


def together(check, *inputs):
    """Check all inputs at the same time."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(check, inputs))


@case
def slow_head(daemon):
    """a head that drips in is answered with 408"""
    def check(data):
        with daemon.raw() as raw:
            started = time.monotonic()
            answer = drip(raw, data + b"x" * 200)
            within(started, HEAD_MS - 20, HEAD_MS)
            assert answer.status == 408 and answer.code() == "deadline_exceeded", answer
            assert raw.rest() == b""

    together(check, post("Unary", x="y" * 1000), b"\r\n", b"G")


@case
def slow_next_head(daemon):
    """the head of a later request that takes too long is cut, too"""
    with daemon.raw() as raw:
        raw.send(post("Unary") + b"POST /x HTT")
        assert raw.answer().status == 200
        assert raw.answer().status == 408


@case
def stuck_preface(daemon):
    """a connection that may become HTTP/2 but does not say is cut"""
    def check(data):
        with daemon.raw() as raw:
            started = time.monotonic()
            raw.send(data)
            rest = raw.rest()
            within(started, HEAD_MS - 20, IDLE_MS)
            assert rest == b"" or rest[3] in (4, 7), rest

    together(check, b"P", b"PR", b"PRI * HTTP/2.0\r\n\r\nSM")


@case
def idle(daemon):
    """a connection without a request is closed after the idle time, before and after a request"""
    with daemon.raw() as fresh, daemon.raw() as used:
        used.send(post("Unary"))
        assert used.answer().status == 200
        started = time.monotonic()
        assert used.is_closed() and fresh.is_closed()
        within(started, IDLE_MS - 200, IDLE_MS)


@case
def slow_body(daemon):
    """a body that drips in is answered with 408"""
    def check(fields):
        with daemon.raw() as raw:
            raw.send(post("Unary", b"", **fields))
            started = time.monotonic()
            answer = drip(raw, b"3E8\r\n{" + b" " * 300)
            within(started, BODY_MS - 20, BODY_MS)
            assert answer.status == 408 and answer.code() == "deadline_exceeded", answer

    together(check, {"content_length": 1000},
             {"content_length": None, "transfer_encoding": "chunked"})


@case
def slow_but_steady_body(daemon):
    """a long body that comes at a fair pace is not cut"""
    body = json.dumps({"text": "x" * 200_000}).encode()
    with daemon.raw() as raw:
        raw.send(post("Unary", b"", content_length=len(body)))
        for at in range(0, len(body), 10_000):
            raw.send(body[at:at + 10_000])
            time.sleep(0.1)  # the pace is what is tested
        assert raw.answer().status == 200


@case
def quiet_streams(daemon):
    """a stream may be quiet for longer than any limit"""
    with daemon.raw() as server, daemon.raw() as client:
        server.send(post("ServerStream", envelope(json.dumps(
            {"count": 1, "delayMs": IDLE_MS + SWEEP_MS + 500})), CONNECT_JSON))
        client.send(post("ClientStream", b"", CONNECT_JSON, content_length=100))
        client.send(envelope("{}"))
        assert server.answer().status == 200
        client.sock.settimeout(0.1)
        try:
            client.exactly(1)
            raise AssertionError("an answer without a reason")
        except TimeoutError:
            pass
    eventually(lambda: daemon.stats()["liveCalls"] == 0, "both calls ended")


@case
def late_answer_to_dead_peer(daemon):
    """an answer that nobody takes any more is dropped"""
    raw = daemon.raw()
    raw.send(post("Slow", '{"delayMs":100,"ignoresCancel":true}'))
    eventually(lambda: daemon.stats()["liveCalls"] == 1, "the call runs")
    raw.sock.close()
    eventually(lambda: daemon.stats()["liveCalls"] == 0, "the call ends")


@case
def others(daemon):
    """a hundred dripping clients do not slow down another one"""
    slow = [daemon.raw() for _ in range(100)]
    for raw in slow:
        raw.send(b"POST /x HTTP/1.1\r\nHo")
    started = time.monotonic()
    for _ in range(50):
        assert daemon.call("Unary").status == 200
    assert time.monotonic() - started < 5
    for raw in slow:
        try:
            assert raw.answer().status == 408
        except Closed:
            raise AssertionError("cut without a word") from None
        raw.sock.close()


if __name__ == "__main__":
    run_with_echod("--head-timeout-ms", str(HEAD_MS), "--body-timeout-ms", str(BODY_MS),
                   "--idle-timeout-ms", str(IDLE_MS))
