#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes that are not HTTP/1.1, or that two parsers could read in two ways, are refused."""

import os

from wire import SERVICE, Closed, case, post, request, run_with_echod

LINE = f"POST {SERVICE}Unary HTTP/1.1\r\n".encode()
HOST = b"Host: test\r\n"
TYPE = b"Content-Type: application/json\r\n"
# What a smuggler hopes to have answered as a request of its own.
HIDDEN = request(f"GET {SERVICE}Stats?connect=v1&encoding=json&message=%7B%7D")


def refused(daemon, data, *statuses, hidden=HIDDEN):
    """One error that says why, then the end of the connection: nothing behind it is looked at."""
    with daemon.raw() as raw:
        raw.send(data + hidden)
        try:
            answer = raw.answer()
        except Closed as closed:
            raise AssertionError(f"no answer to {data[:120]!r}: {closed}") from None
        assert answer.status in statuses, f"{data[:120]!r}: {answer}"
        assert answer.code() and answer.header("connection") == "close", answer
        assert raw.rest() == b"", f"something was answered behind {data[:120]!r}"


@case
def framing(daemon):
    """two lengths for one body are refused"""
    for fields in (
            b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
            b"Content-Length: 2\r\nContent-Length: 2\r\n",
            b"Content-Length: 2\r\nContent-Length: 9\r\n",
            b"Content-Length: 2\r\ncontent-length: 2\r\n",
            b"Content-Length: 2, 2\r\n",
            b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"):
        refused(daemon, LINE + HOST + TYPE + fields + b"\r\n{}", 400)


@case
def lengths(daemon):
    """a Content-Length that is not a plain number is refused"""
    for value in (b"+2", b"-2", b"0x2", b"2 2", b"2;", b"2.0", b"", b"two", b"\xb2", b"1e1",
                  b"99999999999999999999", b"18446744073709551618"):
        refused(daemon, LINE + HOST + TYPE + b"Content-Length: " + value + b"\r\n\r\n{}", 400)


@case
def codings(daemon):
    """a Transfer-Encoding other than chunked is refused"""
    for value in (b"identity", b"gzip, chunked", b"chunked, identity", b"xchunked", b"chunkedx",
                  b"chunked;q=1", b"\"chunked\"", b"chunked, chunked", b"\x0bchunked", b""):
        refused(daemon, LINE + HOST + TYPE + b"Transfer-Encoding: " + value +
                b"\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400, 501)
    refused(daemon, LINE.replace(b"1.1", b"1.0") + HOST + TYPE +
            b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400)


@case
def hidden_fields(daemon):
    """a line that hides a field from another parser is refused"""
    for field in (
            b"X: a\rTransfer-Encoding: chunked\r\n",
            b"X: a\r\rTransfer-Encoding: chunked\r\n",
            b"X: a\nTransfer-Encoding: chunked\r\n",
            b"X: a\x00Transfer-Encoding: chunked\r\n",
            b"Content-Length : 2\r\n",
            b"Content-Length\t: 2\r\n",
            b" Content-Length: 2\r\n",
            b"X: a\r\n folded\r\n",
            b"X: a\r\n\tTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding:\r\n chunked\r\n",
            b"Content Length: 2\r\n",
            b"X\x00: a\r\n",
            b"X\x80: a\r\n",
            b"X(: a\r\n",
            b": a\r\n",
            b"no colon\r\n",
            b"X: \x7f\r\n",
            b"X: \x01\r\n"):
        refused(daemon, LINE + HOST + TYPE + field + b"\r\n{}", 400, 501)


@case
def hosts(daemon):
    """a request needs exactly one Host"""
    refused(daemon, LINE + TYPE + b"\r\n", 400)
    refused(daemon, LINE + HOST + HOST + TYPE + b"\r\n", 400)
    refused(daemon, LINE + HOST + b"HOST: other\r\n" + TYPE + b"\r\n", 400)
    refused(daemon, LINE + b"Host : test\r\n" + TYPE + b"\r\n", 400)


@case
def line_ends(daemon):
    """lines end in CRLF and in nothing else"""
    good = LINE + HOST + TYPE + b"Content-Length: 2\r\n\r\n{}"
    refused(daemon, good.replace(b"\r\n", b"\n"), 400)
    refused(daemon, good.replace(b"1.1\r\n", b"1.1\n", 1), 400)
    refused(daemon, good.replace(b"test\r\n", b"test\n", 1), 400)
    refused(daemon, good.replace(b"1.1\r\n", b"1.1\r", 1), 400)
    refused(daemon, good.replace(b"test\r\n", b"test\r\r\n", 1), 400)
    refused(daemon, b"\r\n\r\n\r\n" + good, 400)


@case
def request_lines(daemon):
    """a request line is METHOD TARGET HTTP/1.1"""
    rest = HOST + TYPE + b"\r\n"
    for line, *statuses in (
            (b"GET /x", 400), (b"GET", 400), (b"", 400), (b"GET  /x HTTP/1.1", 400),
            (b"GET /x  HTTP/1.1", 400), (b"GET /x HTTP/1.1 ", 400, 505), (b" GET /x HTTP/1.1", 400),
            (b"GET\t/x\tHTTP/1.1", 400), (b"GET /a b HTTP/1.1", 400), (b"GET x HTTP/1.1", 400),
            (b"GET * HTTP/1.1", 400), (b"GET ftp://a/x HTTP/1.1", 400),
            (b"CONNECT a:443 HTTP/1.1", 400, 405, 501), (b"G<T /x HTTP/1.1", 400),
            (b"G\x00T /x HTTP/1.1", 400), (b"GET /\x80 HTTP/1.1", 400),
            (b"GET /\x00 HTTP/1.1", 400), (b"GET /#a HTTP/1.1", 400),
            (b"A" * 100 + b" /x HTTP/1.1", 400, 501), (b"GET /x http/1.1", 400),
            (b"GET /x HTTP/1.1x", 400, 505), (b"GET /x HTTP/11", 400, 505),
            (b"GET /x HTTP/0.9", 400, 505), (b"GET /x HTTP/1.2", 505),
            (b"GET /x HTTP/2.0", 400, 505), (b"GET /x HTTP/1.10", 400, 505),
            (b"GET /x HTTQ/1.1", 400)):
        refused(daemon, line + b"\r\n" + rest, *statuses)


@case
def http09(daemon):
    """HTTP/0.9 is refused at once, whatever follows"""
    refused(daemon, b"GET /x\r\n", 400, hidden=b"")
    refused(daemon, b"GET /x\nHost: test\r\n\r\n", 400)
    refused(daemon, b"GET /x\n", 400, hidden=b"")


@case
def oversized(daemon):
    """a head that is too large in any way is refused, before it is complete too"""
    refused(daemon, request("GET /" + "x" * 9000), 414)
    refused(daemon, request("GET /x", x="y" * 40000), 431)
    refused(daemon, request("GET /x", **{f"x{n}": "y" for n in range(100)}), 431)
    refused(daemon, request("GET /x", **{f"x{n}": "y" * 900 for n in range(40)}), 431)
    refused(daemon, b"GET /" + b"x" * 70000, 414, 431, hidden=b"")
    refused(daemon, LINE + b"X: " + b"y" * 70000, 431, hidden=b"")
    assert daemon.ask(request("GET /x", connection="close",
                              **{f"x{n}": "y" for n in range(90)})).status == 404
    assert daemon.ask(request("GET /x", connection="close", x="y" * 30000)).status == 404


def chunked(body):
    return LINE + HOST + TYPE + b"Transfer-Encoding: chunked\r\n\r\n" + body


@case
def good_chunks(daemon):
    """chunks may have extensions, trailers, capital digits and leading zeros"""
    with daemon.raw() as raw:
        for body in (b"2\r\n{}\r\n0\r\n\r\n", b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
                     b"2;a=b;c=\"d\"\r\n{}\r\n0;e\r\n\r\n", b"002\r\n{}\r\n000\r\n\r\n",
                     b"2\r\n{}\r\n0\r\nA: b\r\nC: d\r\n\r\n", b"0\r\n\r\n",
                     b"E\r\n{\"text\":\"abc\"}\r\n0\r\n\r\n"):
            for split in (False, True):
                if split:
                    data = chunked(body)
                    for at in range(len(data)):
                        raw.send(data[at:at + 1])
                else:
                    raw.send(chunked(body))
                answer = raw.answer()
                assert answer.status == 200, f"{body!r}: {answer}"


@case
def bad_chunks(daemon):
    """a chunk that two parsers could read in two ways is refused"""
    for body in (
            b"g\r\n", b"-2\r\n{}\r\n", b"+2\r\n{}\r\n", b"0x2\r\n{}\r\n", b" 2\r\n{}\r\n",
            b"2 \r\n{}\r\n", b"\r\n{}\r\n", b";a\r\n{}\r\n", b"2\n{}\r\n", b"2\r{}\r\n",
            b"2\r\n{}\n0\r\n\r\n", b"2\r\n{}X\r\n", b"2\r\n{}\rX", b"2\r\n{}0\r\n\r\n",
            b"2;a\nb\r\n{}\r\n", b"2;a\rb\r\n{}\r\n", b"2;\x00\r\n{}\r\n",
            b"2;" + b"a" * 20000 + b"\r\n{}\r\n", b"FFFFFFFFFFFFFFFF\r\n{}",
            b"10000000000000002\r\n{}", b"2\r\n{}\r\n0\r\nA: b\n\r\n",
            b"2\r\n{}\r\n0\r\nA: \x00\r\n\r\n", b"2\r\n{}\r\n0\r\n" + b"A: b\r\n" * 20000 + b"\r\n",
            b"2\r\n{}\r\n0\r\n\rX", b"2\r\n{}\r\n0\r\n\n"):
        refused(daemon, chunked(body), 400)


@case
def garbage(daemon):
    """what is no HTTP at all is refused or cut"""
    hello = bytes.fromhex("16030100c8010000c40303") + os.urandom(120)
    for data in (hello, os.urandom(4000) + b"\r\n\r\n", b"\x00" * 70000, b"\n" * 50,
                 b"HTTP/1.1 200 OK\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"EHLO me\r\n",
                 b"PRIX * HTTP/2.0\r\n\r\n", b"PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n"):
        with daemon.raw(timeout_s=3) as raw:
            raw.send(data)
            raw.sock.shutdown(1)
            rest = raw.rest()
            assert rest == b"" or rest.startswith(b"HTTP/1.1 4") or rest[3:4] == b"\x04", rest[:80]


@case
def still_serves(daemon):
    """the next request on a good connection is answered as ever"""
    with daemon.raw() as raw:
        for _ in range(3):
            raw.send(post("Unary", '{"text":"well"}'))
            assert raw.answer().json()["text"] == "well"


if __name__ == "__main__":
    run_with_echod("--head-timeout-ms", "2000")
