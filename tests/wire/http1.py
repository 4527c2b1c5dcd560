#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of HTTP/1.1 between a good or careless client and the server."""

import json
import socket
import struct

from wire import (MIB, SERVICE, Closed, Raw, case, envelope, envelopes, eventually, post, request,
                  run_with_echod)

STATS = f"GET {SERVICE}Stats?connect=v1&encoding=json&message=%7B%7D"


def reset(sock):
    """Close with RST instead of FIN."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@case
def pipelining(daemon):
    """ten requests in one write are answered in order"""
    with daemon.raw() as raw:
        raw.send(b"".join(post("Unary", json.dumps({"number": n})) for n in range(10)))
        assert [raw.answer().json().get("number", "0") for _ in range(10)] == \
            [str(n) for n in range(10)]


@case
def pipelining_late(daemon):
    """requests behind a slow one wait for it"""
    with daemon.raw() as raw:
        raw.send(post("Slow", '{"delayMs":100}') + post("Unary", '{"text":"a"}') +
                 post("Slow", '{"delayMs":50}') + post("Unary", '{"text":"b"}'))
        assert int(raw.answer().json()["waitedMs"]) >= 99
        assert raw.answer().json()["text"] == "a"
        assert int(raw.answer().json()["waitedMs"]) >= 49
        assert raw.answer().json()["text"] == "b"


@case
def pipelining_many(daemon):
    """a thousand pipelined requests behind a slow one are all answered"""
    with daemon.raw() as raw:
        raw.send(post("Slow", '{"delayMs":100}') +
                 b"".join(post("Unary", json.dumps({"number": n})) for n in range(1, 1000)))
        raw.answer()
        for n in range(1, 1000):
            assert raw.answer().json()["number"] == str(n)


@case
def pipelining_errors(daemon):
    """an error about a complete request leaves the connection usable, any other does not"""
    with daemon.raw() as raw:
        raw.send(post("Unary", "{") + request("GET /nowhere") + post("Fail", '{"reason":"no"}') +
                 request(f"PUT {SERVICE}Unary") + post("Fail", '{"reason":"internal"}') +
                 b"BAD\r\n\r\n" + post("Unary"))
        assert [raw.answer().status for _ in range(6)] == [400, 404, 400, 405, 500, 400]
        assert raw.rest() == b""


@case
def byte_by_byte(daemon):
    """a request that comes byte by byte is understood"""
    with daemon.raw() as raw:
        for _ in range(2):
            data = b"\r\n" + post("Unary", '{"text":"slowly"}')
            for at in range(len(data)):
                raw.send(data[at:at + 1])
            assert raw.answer().json()["text"] == "slowly"


@case
def expect(daemon):
    """Expect: 100-continue is met, unless the answer is no anyway"""
    whole = post("Unary", '{"text":"x"}', expect="100-continue")
    head, body = whole[:-12], whole[-12:]
    with daemon.raw() as raw:
        raw.send(head)
        assert raw.answer().status == 100
        raw.send(body)
        assert raw.answer().json()["text"] == "x"
        raw.send(post("Unary", '{"text":"x"}'))
        assert raw.answer().status == 200
    with daemon.raw() as raw:
        raw.send(post("Nope", b"", expect="100-continue", content_length=1000))
        answer = raw.answer()
        assert answer.status == 404 and answer.header("connection") == "close"
        assert raw.rest() == b""
    assert daemon.ask(post("Unary", expect="a miracle")).status == 417


@case
def head_method(daemon):
    """HEAD is answered without a body"""
    with daemon.raw() as raw:
        for target in (f"HEAD {SERVICE}Unary", "HEAD /nowhere", f"HEAD {SERVICE}Stats"):
            raw.send(request(target))
            answer = raw.answer(is_head=True)
            assert answer.status in (404, 405) and int(answer.header("content-length")) > 0
        raw.send(post("Unary"))
        assert raw.answer().status == 200


@case
def version_1_0(daemon):
    """HTTP/1.0 closes by default, keeps alive when asked, and needs no Host"""
    def old(data):
        return data.replace(b"HTTP/1.1", b"HTTP/1.0", 1)

    with daemon.raw() as raw:
        raw.send(old(post("Unary", host=None)))
        answer = raw.answer()
        assert answer.status == 200 and answer.header("connection") == "close"
        assert raw.rest() == b""
    with daemon.raw() as raw:
        for _ in range(2):
            raw.send(old(post("Unary", connection="keep-alive")))
            answer = raw.answer()
            assert answer.status == 200 and answer.header("connection") == "keep-alive"
    with daemon.raw() as raw:
        raw.send(old(post("ServerStream", envelope('{"count":3,"sizeBytes":5}'),
                          "application/connect+json", connection="keep-alive")))
        answer = raw.answer()
        assert answer.header("transfer-encoding") is None
        assert [flags for flags, _ in envelopes(answer.body)] == [0, 0, 0, 2]


@case
def connection_close(daemon):
    """Connection: close is honoured, in a list and in any case"""
    for value in ("close", "Close", "x, CLOSE", "keep-alive, close"):
        with daemon.raw() as raw:
            raw.send(post("Unary", connection=value) + post("Unary"))
            assert raw.answer().header("connection") == "close"
            assert raw.rest() == b""


@case
def absolute_form(daemon):
    """the target may be an absolute URL"""
    with daemon.raw() as raw:
        raw.send(request("POST http://elsewhere:1" + SERVICE + "Unary", b"{}", content_length=2,
                         **{"content-type": "application/json"}))
        assert raw.answer().status == 200
        raw.send(request("GET http://elsewhere"))
        assert raw.answer().status == 400


@case
def early_error(daemon):
    """an error is readable although the body is still being sent, and then the connection ends"""
    for path, status in (("Nope", 404), ("Unary", 415)):
        with daemon.raw() as raw:
            raw.send(post(path, b"", "text/plain", content_length=10 * MIB))
            raw.send(b"x" * MIB)
            answer = raw.answer()
            assert answer.status == status and answer.header("connection") == "close"
    with daemon.raw() as raw:
        raw.send(post("Unary", b"x" * (20 * MIB), "application/proto"))
        answer = raw.answer()
        assert answer.status == 429 and answer.code() == "resource_exhausted", answer


@case
def half_closed(daemon):
    """a client that sent its request and its end still gets the answer"""
    with daemon.raw() as raw:
        raw.send(post("Unary", '{"text":"bye"}'))
        raw.sock.shutdown(socket.SHUT_WR)
        assert raw.answer().json()["text"] == "bye"
        assert raw.rest() == b""
    with daemon.raw() as raw:
        raw.send(b"".join(post("Unary") for _ in range(10)))
        raw.sock.shutdown(socket.SHUT_WR)
        assert all(raw.answer().status == 200 for _ in range(10))


@case
def truncated(daemon):
    """a request that ends in the middle is dropped"""
    for data in (b"P", b"POST ", post("Unary")[:-1], post("Unary", b"", content_length=100),
                 request(f"POST {SERVICE}Unary", b"5\r\n{", transfer_encoding="chunked")):
        with daemon.raw() as raw:
            raw.send(data)
            raw.sock.shutdown(socket.SHUT_WR)
            rest = raw.rest()
            assert rest == b"" or rest.startswith(b"HTTP/1.1 4"), rest


@case
def cancel(daemon):
    """a client that goes away cancels its call"""
    for close in (lambda sock: sock.close(), reset):
        before = daemon.stats()["cancelledCalls"]
        raw = daemon.raw()
        raw.send(post("Slow", '{"delayMs":600000}'))
        eventually(lambda: daemon.stats()["liveCalls"] == 1, "the call runs")
        close(raw.sock)
        eventually(lambda: daemon.stats()["liveCalls"] == 0, "the call ends")
        assert daemon.stats()["cancelledCalls"] == before + 1


@case
def reset_mid_stream(daemon):
    """a reset in the middle of a stream ends it, in either direction"""
    for method, body, extra in (
            ("ServerStream", envelope('{"count":1000000,"sizeBytes":10000}'), b""),
            ("ClientStream", b"", b"5\r\n" + envelope("{}")[:5] + b"\r\n"),
            ("Bidi", b"", b"7\r\n" + envelope("{}") + b"\r\n")):
        with daemon.raw() as raw:
            fields = {"content_length": None, "transfer_encoding": "chunked"} if extra else {}
            raw.send(post(method, body, "application/connect+json", **fields) + extra)
            if method != "ClientStream":
                assert raw.more()
            eventually(lambda: daemon.stats()["liveCalls"] == 1, "the call runs")
            reset(raw.sock)
        eventually(lambda: daemon.stats()["liveCalls"] == 0, "the call ends")


@case
def big_messages(daemon):
    """messages of many megabytes pass unharmed, with length and in chunks"""
    text = "0123456789abcdef" * (MIB // 2)
    body = json.dumps({"text": text}).encode()
    with daemon.raw() as raw:
        raw.send(post("Unary", body))
        assert raw.answer().json()["text"] == text
        raw.send(post("Unary", b"", content_length=None, transfer_encoding="chunked"))
        for at in range(0, len(body), 100_000):
            part = body[at:at + 100_000]
            raw.send(b"%x\r\n" % len(part) + part + b"\r\n")
        raw.send(b"0\r\n\r\n")
        assert raw.answer().json()["text"] == text


@case
def half_duplex_bidi(daemon):
    """over HTTP/1.1 a bidirectional call works when the client sends first"""
    body = b"".join(envelope(json.dumps({"payload": "QUJD"})) for _ in range(500))
    answer = daemon.ask(post("Bidi", body, "application/connect+json", connection="close"))
    parts = envelopes(answer.body)
    assert len(parts) == 501 and all(json.loads(p) == {"payload": "QUJD"} for _, p in parts[:-1])
    assert parts[-1] == (2, b"{}")


@case
def idle_connections(daemon):
    """many idle connections do not disturb a busy one"""
    idle = [daemon.socket() for _ in range(200)]
    with Raw(daemon.socket()) as raw:
        for _ in range(50):
            raw.send(post("Unary"))
            assert raw.answer().status == 200
    assert daemon.stats()["openConnections"] >= 200
    for sock in idle:
        sock.close()


@case
def cycles(daemon):
    """a thousand connections leave nothing behind, however they end"""
    before = daemon.settled()
    for n in range(1000):
        sock = daemon.socket()
        if n % 4 == 1:
            sock.sendall(b"POST /x HT")
        elif n % 4 == 2:
            sock.sendall(post("Slow", '{"delayMs":600000}'))
        elif n % 4 == 3:
            sock.sendall(post("Unary"))
        if n % 3:
            sock.close()
        else:
            reset(sock)

    def is_back():
        now = daemon.stats()
        return all(now[name] == before[name] for name in ("fds", "openConnections", "liveCalls"))

    eventually(is_back, "no descriptor, connection or call is left", patience_s=5)


@case
def no_answer_twice(daemon):
    """nothing is answered that was not asked"""
    with daemon.raw(timeout_s=0.2) as raw:
        raw.send(request(STATS))
        raw.answer()
        try:
            raw.exactly(1)
            raise AssertionError("there is more")
        except (TimeoutError, Closed):
            pass


if __name__ == "__main__":
    run_with_echod(rss_growth_mib=12)
