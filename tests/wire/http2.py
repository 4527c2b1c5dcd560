#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 by rules that hold, and by rules that are broken."""

import json
import socket
import struct

from http2_frames import (ACK, CANCEL, COMPRESSION_ERROR, CONTINUATION, DATA, END_HEADERS,
                          END_STREAM, ENHANCE_YOUR_CALM, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR,
                          GOAWAY, HEADERS, NO_ERROR, PADDED, PING, PREFACE, PRIORITY,
                          PROTOCOL_ERROR, PUSH_PROMISE, REFUSED_STREAM, RST_STREAM, SETTINGS,
                          STREAM_CLOSED, WINDOW_UPDATE, Gone, Http2, Reply)
from wire import (MIB, SERVICE, case, envelope, envelopes, eventually, run_with_echod)

CONNECT_JSON = "application/connect+json"
GRPC = "application/grpc+proto"


def h2(daemon, **options):
    return Http2(daemon.socket(), **options)


def ends(daemon, *codes, data=b"", hello=True):
    """What was sent ends the connection, with one of these codes if it says why."""
    with h2(daemon, hello=hello) as conn:
        conn.send(data)
        try:
            code = conn.end(5)
        except TimeoutError:
            raise AssertionError(f"{data[:80]!r}: lives on") from None
        assert code in codes, f"{data[:80]!r}: GOAWAY {code}"


@case
def calls(daemon):
    """calls of all protocols share a connection"""
    with h2(daemon) as conn:
        reply = conn.call("Unary", b'{"text":"hi"}')
        assert reply.status == 200 and json.loads(reply.body)["text"] == "hi", reply
        reply = conn.call("Unary", envelope(b"\x12\x02hi"), GRPC)
        assert reply.status == 200 and reply.grpc_status == 0 and not reply.reset, reply
        assert reply.body[5:].startswith(b"\x12\x02hi")
        reply = conn.call("ServerStream", envelope('{"count":3}'), CONNECT_JSON)
        assert [flags for flags, _ in envelopes(reply.body)] == [0, 0, 0, 2]
        reply = conn.call("Unary", envelope(b""), "application/grpc-web+proto")
        assert [flags for flags, _ in envelopes(reply.body)] == [0, 0x80]
        reply = conn.call("Fail", envelope(b"\x0a\x08no_space"), GRPC)
        assert reply.status == 200 and reply.grpc_status == 8, reply
        assert dict(reply.trailers or reply.headers)["grpc-status-details-bin"]
        reply = conn.call("Nope", envelope(b""), GRPC)
        assert reply.grpc_status == 12, reply
        assert conn.call("Nope").status == 404
        assert conn.call("Unary", b"{").status == 400
        assert conn.call("Unary", b"", "text/plain").status == 415


@case
def grpc_input(daemon):
    """broken gRPC input has its status"""
    with h2(daemon) as conn:
        for body, status in ((b"", 12), (envelope(b""), 0), (envelope(b"") * 2, 12),
                             (envelope(b"\xff"), 3), (b"\x00\x00", 3), (envelope(b"", 1), 3),
                             (envelope(b"", 0x80), 3), (envelope(b"abc")[:-1], 3)):
            reply = conn.call("Unary", body, GRPC)
            assert reply.status == 200 and reply.grpc_status == status, f"{body}: {reply}"
        for value in ("1x", "123456789S", "", "S", "1.5S"):
            assert conn.call("Unary", envelope(b""), GRPC, grpc_timeout=value).grpc_status == 3
        assert conn.call("Unary", envelope(b""), GRPC, grpc_encoding="br").grpc_status == 12
        reply = conn.call("Slow", envelope(b"\x08\xff\xff\x7f"), GRPC, grpc_timeout="30m")
        assert reply.grpc_status == 4


@case
def bidi(daemon):
    """a bidirectional call answers each message as it comes"""
    with h2(daemon) as conn:
        stream = conn.open(conn.head("Bidi", CONNECT_JSON))
        reply = conn.replies[stream]
        for number in range(20):
            message = envelope('{"payload":"%s"}' % ("QUJD" * number)) if number else envelope("{}")
            got = len(reply.body)
            conn.data(stream, message, is_last=False)
            while len(reply.body) < got + len(message):
                conn.step()
            assert reply.body[got:] == message
        conn.data(stream, b"")
        assert conn.reply(stream).body.endswith(envelope("{}", 2))


@case
def interleaved(daemon):
    """a hundred streams at once are all answered"""
    with h2(daemon) as conn:
        streams = [conn.open(conn.head("Slow")) for _ in range(100)]
        for number, stream in enumerate(streams):
            conn.data(stream, b'{"delayMs":%d}' % (1 + number % 30))
        assert all(conn.reply(stream).status == 200 for stream in streams)


@case
def too_many_streams(daemon):
    """a hundred and twenty-eight streams at once are taken, and no more"""
    with h2(daemon) as conn:
        assert conn.is_alive()
        streams = [conn.open(conn.head("Slow")) for _ in range(128)]
        for stream in streams:
            conn.data(stream, b'{"delayMs":600000}')
        assert conn.is_alive() and daemon.stats()["liveCalls"] == 128
        # The client has acknowledged the limit: one more may be taken for an attack.
        try:
            assert conn.reply(conn.open(conn.head("Slow"), is_last=True)).reset == REFUSED_STREAM
        except Gone as gone:
            assert gone.args[0] == PROTOCOL_ERROR, gone
    eventually(lambda: daemon.stats()["liveCalls"] == 0, "all calls end")


@case
def prefaces(daemon):
    """a wrong preface is cut"""
    for data in (b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX",
                 b"PRI * HTTP/2.0\n\nSM\n\n", b"PRI / HTTP/2.0\r\n\r\nSM\r\n\r\n"):
        ends(daemon, None, PROTOCOL_ERROR, data=data, hello=False)
    # The first frame must be SETTINGS.
    ends(daemon, PROTOCOL_ERROR, data=PREFACE + Http2.pack(PING, payload=bytes(8)), hello=False)


@case
def unknown_frames(daemon):
    """frames and settings of unknown kinds are ignored"""
    with h2(daemon) as conn:
        for kind in (0x0a, 0x10, 0x42, 0xff):
            conn.frame(kind, 0xff, 0, b"whatever")
            conn.frame(kind, 0, 1, b"")
        conn.frame(SETTINGS, payload=b"\x77\x77\x00\x00\x00\x01")
        conn.frame(PRIORITY, stream=3, payload=b"\x00\x00\x00\x01\x10")
        assert conn.call("Unary").status == 200


@case
def bad_frames(daemon):
    """frames that break the protocol end the connection with the right code"""
    pack = Http2.pack
    headers = Http2(daemon.socket(), hello=False)
    block = headers.encoder.encode(headers.head("Unary"))
    headers.sock.close()
    for data, *codes in (
            (pack(DATA, 0, 1, b"x"), PROTOCOL_ERROR, STREAM_CLOSED),
            (pack(DATA, 0, 0, b"x"), PROTOCOL_ERROR),
            (pack(HEADERS, END_HEADERS, 0, block), PROTOCOL_ERROR),
            (pack(HEADERS, END_HEADERS, 2, block), PROTOCOL_ERROR),
            (pack(HEADERS, END_HEADERS | PADDED, 1, b"\xff" + block), PROTOCOL_ERROR),
            (pack(CONTINUATION, END_HEADERS, 1, block), PROTOCOL_ERROR),
            (pack(HEADERS, 0, 1, block) + pack(PING, payload=bytes(8)), PROTOCOL_ERROR),
            (pack(HEADERS, 0, 1, block) + pack(CONTINUATION, END_HEADERS, 3), PROTOCOL_ERROR),
            (pack(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"), COMPRESSION_ERROR),
            (pack(HEADERS, END_HEADERS, 1, b"\x3f\xff\xff\xff\xff\x0f"), COMPRESSION_ERROR),
            (pack(HEADERS, END_HEADERS, 1, b"\xff\x80\x80\x80\x80\x80\x80\x00"), COMPRESSION_ERROR),
            (pack(PUSH_PROMISE, END_HEADERS, 1, b"\x00\x00\x00\x02" + block), PROTOCOL_ERROR),
            (pack(PING, payload=b"short"), FRAME_SIZE_ERROR),
            (pack(PING, stream=1, payload=bytes(8)), PROTOCOL_ERROR),
            (pack(RST_STREAM, stream=1, payload=bytes(4)), PROTOCOL_ERROR),
            (pack(RST_STREAM, stream=0, payload=bytes(4)), PROTOCOL_ERROR),
            (pack(RST_STREAM, stream=1, payload=b"x"), FRAME_SIZE_ERROR),
            (pack(SETTINGS, payload=b"x"), FRAME_SIZE_ERROR),
            (pack(SETTINGS, ACK, payload=bytes(6)), FRAME_SIZE_ERROR),
            (pack(SETTINGS, stream=1), PROTOCOL_ERROR),
            (pack(SETTINGS, payload=b"\x00\x04\x80\x00\x00\x00"), FLOW_CONTROL_ERROR),
            (pack(SETTINGS, payload=b"\x00\x05\x00\x00\x00\x01"), PROTOCOL_ERROR),
            (pack(SETTINGS, payload=b"\x00\x02\x00\x00\x00\x02"), PROTOCOL_ERROR),
            (pack(WINDOW_UPDATE, payload=bytes(4)), PROTOCOL_ERROR),
            (pack(WINDOW_UPDATE, payload=b"\x7f\xff\xff\xff"), FLOW_CONTROL_ERROR),
            (pack(WINDOW_UPDATE, stream=7, payload=b"\x00\x00\x00\x01"), PROTOCOL_ERROR),
            (pack(DATA, 0, 1, b"", length=16385), FRAME_SIZE_ERROR),
            (pack(0x42, 0, 1, b"", length=0xffffff), FRAME_SIZE_ERROR),
            (pack(GOAWAY, payload=b"x"), FRAME_SIZE_ERROR)):
        ends(daemon, *codes, data=data)


@case
def bad_heads(daemon):
    """a head that is no request resets its stream, and only that"""
    good = dict(Http2.head(None, "Unary"))

    def with_fields(*fields, without=()):
        return [f for f in good.items() if f[0] not in without] + list(fields)

    with h2(daemon) as conn:
        for fields in (
                with_fields(without=[":method"]), with_fields(without=[":path"]),
                with_fields(without=[":scheme"]), with_fields((":method", "POST")),
                with_fields((":status", "200")), with_fields((":weird", "x")),
                with_fields(("Upper", "x")), with_fields(("connection", "close")),
                with_fields(("transfer-encoding", "chunked")), with_fields(("te", "gzip")),
                with_fields(("bad name", "x")), with_fields(("x", "a\r\nb: c")),
                with_fields(("x", "a\0b")), with_fields(("", "x")),
                with_fields(("content-length", "x")), with_fields(("content-length", "-1")),
                with_fields(("content-length", "1"), ("content-length", "2")),
                with_fields((":path", ""), without=[":path"]),
                with_fields((":path", "nowhere"), without=[":path"])):
            stream = conn.open(fields, is_last=True)
            reply = conn.reply(stream)
            assert reply.reset == PROTOCOL_ERROR or reply.status in (400, 404), f"{fields}: {reply}"
        # Told by the body.
        for length, body in (("5", b"{}"), ("1", b"{}"), ("0", b"{}")):
            reply = conn.call("Unary", body, content_length=length)
            assert reply.reset == PROTOCOL_ERROR, reply
        assert conn.call("Unary", b"{}", content_length="2").status == 200


@case
def odd_methods(daemon):
    """methods other than GET and POST are refused, CONNECT too"""
    with h2(daemon) as conn:
        for fields in ([(":method", "CONNECT"), (":authority", "a:1")],
                       [(":method", "OPTIONS"), (":scheme", "http"), (":path", "*"),
                        (":authority", "a")],
                       [(":method", "HEAD"), (":scheme", "http"), (":path", SERVICE + "Stats"),
                        (":authority", "a")],
                       [(":method", "DELETE"), (":scheme", "http"), (":path", SERVICE + "Stats")]):
            reply = conn.reply(conn.open(fields, is_last=True))
            assert reply.status in (404, 405) or reply.reset == PROTOCOL_ERROR, f"{fields}: {reply}"
            assert not (fields[0][1] == "HEAD" and reply.body)
        reply = conn.reply(conn.open(
            [(":method", "GET"), (":scheme", "http"), (":authority", "a"),
             (":path", SERVICE + "Stats?connect=v1&encoding=json&message=%7B%7D")], is_last=True))
        assert reply.status == 200 and json.loads(reply.body)["fds"], reply


@case
def huge_heads(daemon):
    """a head that is too large is 431, one without end is the end"""
    with h2(daemon) as conn:
        for extra in ({"x": "y" * 40_000}, {f"x{n}": "y" for n in range(110)}):
            fields = conn.head("Unary", **extra)
            block = conn.encoder.encode(fields)
            stream, conn.next_stream = conn.next_stream, conn.next_stream + 2
            conn.replies[stream] = Reply()
            conn.frame(HEADERS, END_STREAM, stream, block[:16000])
            rest = block[16000:]
            parts = [rest[at:at + 16000] for at in range(0, len(rest), 16000)] or [b""]
            for part in parts[:-1]:
                conn.frame(CONTINUATION, 0, stream, part)
            conn.frame(CONTINUATION, END_HEADERS, stream, parts[-1])
            reply = conn.reply(stream)
            assert reply.status == 431 or reply.reset is not None, reply
        assert conn.call("Unary").status == 200
    before = daemon.stats()["rssBytes"]
    with h2(daemon) as conn:
        conn.frame(HEADERS, 0, 1, conn.encoder.encode(conn.head("Unary")))
        for _ in range(3000):  # 48 MB of head
            conn.frame(CONTINUATION, 0, 1, b"\x00\x01x\x7f\x81\x7d" + b"y" * 16000)
        assert conn.end() in (None, PROTOCOL_ERROR, COMPRESSION_ERROR, ENHANCE_YOUR_CALM, 2)
    with h2(daemon) as conn:  # one small entry, named again and again
        block = b"\x40\x01x\x7f\x81\x1e" + b"y" * 4000 + b"\xbe" * 12000
        conn.frame(HEADERS, 0, 1, conn.encoder.encode(conn.head("Unary")))
        for _ in range(100):
            conn.frame(CONTINUATION, 0, 1, block)
        conn.frame(CONTINUATION, END_HEADERS, 1, b"")
        conn.is_alive()
    assert daemon.stats()["rssBytes"] - before < daemon.rss_room(8)


@case
def floods(daemon):
    """floods of cheap frames cost the server little"""
    pack = Http2.pack
    before = daemon.stats()["rssBytes"]
    for unit in (pack(PING, payload=bytes(8)), pack(SETTINGS), pack(SETTINGS, payload=bytes(6) * 40),
                 pack(0x42), pack(PRIORITY, stream=99, payload=bytes(3) + b"\x01\x10"),
                 pack(WINDOW_UPDATE, payload=b"\x00\x00\x00\x01")):
        with h2(daemon) as conn:
            conn.sock.settimeout(5)
            # Answers are not read, so that the server cannot get rid of them.
            try:
                for _ in range(100):
                    conn.sock.sendall(unit * 1000)
            except (TimeoutError, ConnectionError):
                pass
            growth = daemon.stats()["rssBytes"] - before
            assert growth < daemon.rss_room(16), f"{unit[3]}: memory grew by {growth} bytes"
    with h2(daemon) as conn:  # empty DATA
        stream = conn.open(conn.head("ClientStream", CONNECT_JSON))
        conn.send(pack(DATA, 0, stream) * 100_000)
        conn.data(stream, b"")
        try:
            assert conn.reply(stream).status == 200
        except Gone as gone:
            assert gone.args[0] in (ENHANCE_YOUR_CALM, PROTOCOL_ERROR), gone


@case
def rapid_reset(daemon):
    """streams that are opened and reset at once leave nothing behind"""
    before = daemon.settled()
    with h2(daemon) as conn:
        first_block = conn.encoder.encode(conn.head("Slow"))
        block = conn.encoder.encode(conn.head("Slow"))
        conn.sock.settimeout(5)
        conn.frame(SETTINGS, ACK)
        body = b'{"delayMs":600000}'
        try:
            for first in range(1, 60_001, 200):
                conn.sock.sendall(b"".join(
                    conn.pack(HEADERS, END_HEADERS, stream, block if stream > 1 else first_block) +
                    conn.pack(DATA, END_STREAM, stream, body) +
                    conn.pack(RST_STREAM, stream=stream, payload=CANCEL.to_bytes(4, "big"))
                    for stream in range(first, first + 200, 2)))
        except (TimeoutError, ConnectionError):
            pass
        eventually(lambda: daemon.stats()["liveCalls"] == before["liveCalls"], "no call lives")
        assert daemon.stats()["rssBytes"] - before["rssBytes"] < daemon.rss_room(16)
    eventually(lambda: daemon.stats()["openConnections"] == before["openConnections"], "it is gone")
    assert daemon.stats()["cancelledCalls"] > before["cancelledCalls"] + 1000


@case
def cancelled(daemon):
    """RST_STREAM and a lost connection cancel calls"""
    before = daemon.stats()["cancelledCalls"]
    conn = h2(daemon)
    streams = [conn.open(conn.head("Slow")) for _ in range(10)]
    for stream in streams:
        conn.data(stream, b'{"delayMs":600000}')
    assert conn.is_alive()
    eventually(lambda: daemon.stats()["liveCalls"] == 10, "they run")
    for stream in streams[:4]:
        conn.frame(RST_STREAM, stream=stream, payload=CANCEL.to_bytes(4, "big"))
    eventually(lambda: daemon.stats()["liveCalls"] == 6, "four are cancelled")
    conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    conn.sock.close()
    eventually(lambda: daemon.stats()["liveCalls"] == 0, "all are cancelled")
    assert daemon.stats()["cancelledCalls"] == before + 10


@case
def upload_window(daemon):
    """a verb that does not read closes its stream's window, and no other"""
    before = daemon.stats()
    with h2(daemon) as conn:
        assert conn.is_alive()
        stuck = conn.open(conn.head("Sink", CONNECT_JSON))
        conn.data(stuck, bytes(65535), is_last=False)  # the window before any SETTINGS
        assert conn.call("Unary", b'{"text":"still"}').status == 200
        assert conn.is_alive()
        assert daemon.stats()["rssBytes"] - before["rssBytes"] < daemon.rss_room(4)
        # More than the window ever allowed: that is a fault of the client.
        conn.data(stuck, bytes(2 * MIB), is_last=False)
        try:
            reply = conn.reply(stuck)
            assert reply.reset == FLOW_CONTROL_ERROR, reply
        except Gone as gone:
            assert gone.args[0] == FLOW_CONTROL_ERROR, gone


@case
def uploads(daemon):
    """bodies larger than all windows arrive whole, padded or not"""
    with h2(daemon) as conn:
        for padded in (False, True):
            stream = conn.open(conn.head("ClientStream", CONNECT_JSON))
            message = envelope(b'{"payload":"' + b"QUJD" * 1000 + b'"}')
            for _ in range(1000):
                if padded:
                    conn.send_in_window(stream, b"\xff" + message + bytes(255), PADDED)
                else:
                    conn.send_in_window(stream, message)
            conn.data(stream, b"")
            parts = envelopes(conn.reply(stream).body)
            assert json.loads(parts[0][1]) == {"messages": "1000", "bytes": "3000000"}, parts


@case
def stalled_reader(daemon):
    """a stream whose window stays shut bounds the server, and its neighbours go on"""
    before = daemon.stats()
    with h2(daemon, window=20_000) as conn:
        conn.opens_windows = False
        conn.frame(WINDOW_UPDATE, payload=b"\x10\x00\x00\x00")
        stalled = [conn.open(conn.head("ServerStream", CONNECT_JSON)) for _ in range(20)]
        for stream in stalled:
            conn.data(stream, envelope('{"count":4000000000,"sizeBytes":65536}'))
        while any(len(conn.replies[stream].body) < 20_000 for stream in stalled):
            conn.step()
        assert conn.is_alive()
        made = daemon.stats()["messagesSent"] - before["messagesSent"]
        assert made < 20 * 20, f"{made} messages"
        growth = daemon.stats()["rssBytes"] - before["rssBytes"]
        assert growth < daemon.rss_room(40), f"memory grew by {growth} bytes"
        assert json.loads(conn.call("Unary", b'{"text":"a neighbour"}').body)["text"]
        # And it goes on when it may.
        conn.frame(WINDOW_UPDATE, stream=stalled[0], payload=b"\x00\x10\x00\x00")
        while len(conn.replies[stalled[0]].body) < MIB:
            conn.step()
    eventually(lambda: daemon.stats()["liveCalls"] == 0, "all calls end")


@case
def early_errors(daemon):
    """an answer before the end of the request is complete, and the rest is dropped"""
    with h2(daemon) as conn:
        for is_ended in (True, False):
            stream = conn.open(conn.head("Nope"))
            conn.frame(DATA, 0, stream, b"x" * 1000)
            reply = conn.reply(stream)
            assert reply.status == 404 and b"unimplemented" in reply.body and reply.reset is None
            for _ in range(100):  # more than a window
                conn.send_in_window(stream, b"x" * 16384, is_late=True)
            if is_ended:
                conn.frame(DATA, END_STREAM, stream, b"and more")
            else:  # a client that goes on for ever is told to stop
                while reply.reset is None:
                    conn.step()
                assert reply.reset == NO_ERROR
        assert conn.call("Unary").status == 200


@case
def trailers_of_requests(daemon):
    """trailers of a request are taken and mean nothing"""
    with h2(daemon) as conn:
        stream = conn.open(conn.head("Unary"))
        conn.frame(DATA, 0, stream, b'{"text":"t"}')
        conn.frame(HEADERS, END_HEADERS | END_STREAM, stream,
                   conn.encoder.encode([("x-checksum", "abc")]))
        assert json.loads(conn.reply(stream).body)["text"] == "t"


@case
def split_frames(daemon):
    """frames that come byte by byte are understood"""
    with h2(daemon, hello=False) as conn:
        data = (PREFACE + conn.pack(SETTINGS) +
                conn.pack(HEADERS, END_HEADERS, 1, conn.encoder.encode(conn.head("Unary"))) +
                conn.pack(DATA, END_STREAM, 1, b'{"text":"slow"}'))
        conn.replies[1] = Reply()
        for at in range(len(data)):
            conn.send(data[at:at + 1])
        assert json.loads(conn.reply(1).body)["text"] == "slow"


@case
def cycles(daemon):
    """hundreds of connections leave nothing behind, however they end"""
    before = daemon.settled()
    for number in range(300):
        conn = h2(daemon)
        if number % 3:
            stream = conn.open(conn.head("Slow"))
            conn.data(stream, b'{"delayMs":600000}')
        if number % 2:
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        conn.sock.close()

    def is_back():
        now = daemon.stats()
        return all(now[name] == before[name] for name in ("fds", "openConnections", "liveCalls"))

    eventually(is_back, "nothing is left")


if __name__ == "__main__":
    run_with_echod(rss_growth_mib=12)
