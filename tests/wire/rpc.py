#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Bad and unusual RPC requests: each gets its status, its code and a sentence."""

import base64
import gzip
import json
import sys
import urllib.parse
import zlib

from wire import (MIB, SERVICE, Daemon, case, end_of_stream, envelope, envelopes,
                  eventually, post, request, run_with_echod, stream_code)

CONNECT_JSON = "application/connect+json"
CONNECT_PROTO = "application/connect+proto"
MESSAGE_MAX = 16 * MIB


def varint(number):
    data = b""
    while number > 127:
        data += bytes([number & 127 | 128])
        number >>= 7
    return data + bytes([number])


def field(number, data):
    """A length-delimited protobuf field."""
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def refused(daemon, data, status, code):
    answer = daemon.ask(data)
    assert answer.status == status and answer.code() == code, f"{data[:200]!r}: {answer}"
    return answer.json()["message"]


def get(method, **query):
    return request(f"GET {SERVICE}{method}?{urllib.parse.urlencode(query)}", connection="close")


@case
def content_types(daemon):
    """a content type that does not fit the method is 415, with those that do"""
    for kind in ("text/plain", "", "application/", "application/jso", "application/json, x",
                 "application/json; charset=latin1", "application/x-www-form-urlencoded",
                 "application/connect+json", "application/connect+proto", "application/grpc-webx",
                 "application/grpc-web-text", "multipart/form-data; boundary=x"):
        answer = daemon.ask(post("Unary", "{}", kind))
        assert answer.status == 415, f"{kind}: {answer}"
        assert "application/json" in answer.header("accept-post") and answer.code()
    assert daemon.ask(post("Unary", content_type=None)).status == 415
    for kind in ("application/json", "application/proto"):
        answer = daemon.ask(post("ServerStream", envelope("{}"), kind))
        assert answer.status == 415 and "application/connect+json" in answer.header("accept-post")
    for kind in ("application/json; charset=utf-8", "Application/JSON", "application/json;charset=UTF-8"):
        assert daemon.ask(post("Unary", "{}", kind)).status == 200, kind


@case
def grpc_needs_http2(daemon):
    """gRPC over HTTP/1.1 is refused with a sentence"""
    answer = daemon.ask(post("Unary", envelope(b""), "application/grpc"))
    assert answer.status in (415, 505) and answer.code()


@case
def paths(daemon):
    """paths are exact: unknown ones are 404"""
    for path in ("/", "/cay.test.v1.EchoService", SERVICE, SERVICE + "unary", SERVICE + "Unary/",
                 "/cay.test.v1.echoservice/Unary", "/cay.test.v1.EchoService//Unary",
                 "//cay.test.v1.EchoService/Unary", SERVICE + "Unar%79", SERVICE + "Unary%00",
                 "/cay.v1.KeyService/ListKeys", SERVICE + "x" * 5000):
        refused(daemon, request(f"POST {path}", b"{}", content_length=2,
                                **{"content-type": "application/json"}), 404, "unimplemented")


@case
def methods(daemon):
    """a wrong HTTP method is 405, with the right ones"""
    for verb, target, allowed in (
            ("GET", "Unary", "POST"), ("PUT", "Unary", "POST"), ("DELETE", "Stats", "GET, POST"),
            ("OPTIONS", "Unary", "POST"), ("PATCH", "ServerStream", "POST"), ("get", "Stats", "GET, POST"),
            ("GET", "ServerStream", "POST"), ("BREW", "Unary", "POST")):
        answer = daemon.ask(request(f"{verb} {SERVICE}{target}", connection="close"))
        assert answer.status == 405 and answer.header("allow") == allowed, f"{verb}: {answer}"
        assert answer.code()


@case
def unimplemented(daemon):
    """a method that nothing implements is unimplemented"""
    refused(daemon, post("Unimplemented"), 501, "unimplemented")


@case
def good_json(daemon):
    """JSON input is taken in all the forms that proto3 allows"""
    for text, expected in (
            ('{"number":"9007199254740993"}', ("number", "9007199254740993")),
            ('{"number":-9223372036854775808}', ("number", "-9223372036854775808")),
            ('{"number":1e3}', ("number", "1000")),
            ('{"payload":"_-8"}', ("payload", "/+8=")),
            ('{"payload":"/+8="}', ("payload", "/+8=")),
            ('{"values":[1,"2.5","NaN","Infinity","-Infinity"]}',
             ("values", [1, 2.5, "NaN", "Infinity", "-Infinity"])),
            ('{"when":"2024-02-29T12:00:00.5+01:00"}', ("when", "2024-02-29T11:00:00.500Z")),
            ('{"flag":false}', ("flag", False)), ('{"flag":null}', ("flag", None)),
            ('{"text":null,"number":null}', ("text", None)),
            ('{"text":"\\u00fc\\ud83d\\ude00\\u0000"}', ("text", "\u00fc\U0001f600\0")),
            ('{"labels":{"a":"b","":""}}', ("labels", {"a": "b", "": ""})),
            (' \t\r\n{ } \n', ("text", None)), ("", ("text", None))):
        answer = daemon.ask(post("Unary", text))
        assert answer.status == 200, f"{text}: {answer}"
        assert answer.json().get(expected[0]) == expected[1], f"{text}: {answer}"


@case
def unknown_fields(daemon):
    """a JSON field that is not there is refused with the one meant, unless the client asks not to"""
    for text, sentence, nearest in (
            ('{"txet":"t"}', "there is no field 'txet'; did you mean 'text'?", "text"),
            ('{"payLoda":"t"}', "there is no field 'payLoda'; did you mean 'payload'?", "payload"),
            ('{"unknown":{"deep":[1,{"x":null}]},"text":"t"}', "there is no field 'unknown'", None)):
        answer = daemon.ask(post("Unary", text))
        assert answer.status == 400 and answer.code() == "invalid_argument", answer
        assert answer.json()["message"].endswith(": " + sentence), answer
        debug = answer.json()["details"][0]["debug"]
        assert debug["reason"] == "invalid_argument", debug
        assert debug.get("metadata") == ({"nearest": nearest} if nearest else None), debug
        if nearest:
            value = answer.json()["details"][0]["value"]
            decoded = base64.b64decode(value + "=" * (-len(value) % 4))
            assert decoded == (field(1, b"invalid_argument")
                               + field(2, field(1, b"nearest") + field(2, nearest.encode()))), decoded
        answer = daemon.ask(post("Unary", text, cay_unknown_fields="ignore"))
        assert answer.status == 200, f"{text}: {answer}"
    refused(daemon, post("Unary", "{}", cay_unknown_fields="maybe"), 400, "invalid_argument")
    end = envelopes(daemon.ask(post("ServerStream", envelope('{"cuont":1}'), CONNECT_JSON)).body)
    assert "did you mean 'count'?" in end[0][1].decode(), end


@case
def bad_json(daemon):
    """malformed JSON, and JSON of the wrong shape, is invalid_argument"""
    for text in (
            "{", "}", "[]", '"x"', "1", "null", "tru", "{} x", "{}{}", '{"text":}', '{"text"}',
            '{"text":"a",}', "{'text':'a'}", '{text:"a"}', '{"text":1}', '{"text":{}}',
            '{"text":["a"]}', '{"number":"x"}', '{"number":1.5}', '{"number":true}',
            '{"number":9223372036854775808}', '{"number":1e999}', '{"number":01}', '{"number":+1}',
            '{"number":"1 "}', '{"number":NaN}', '{"payload":"?"}', '{"payload":"A"}',
            '{"payload":7}', '{"values":1}', '{"values":[null]}', '{"values":["x"]}',
            '{"labels":[]}', '{"labels":{"a":1}}', '{"labels":{"a":null}}', '{"when":"now"}',
            '{"when":"2024-13-01T00:00:00Z"}', '{"when":5}', '{"flag":1}', '{"flag":"true"}',
            '{"text":"a\nb"}', '{"text":"\\x"}', '{"text":"\\ud800"}', '{"text":"\\udc00\\ud800"}',
            '{"text":"abc', "/* */{}", '{"text":"a"}\0', "\ufeff{}", '{"text":"a","text":"b"}'):
        message = refused(daemon, post("Unary", text), 400, "invalid_argument")
        assert "cay.test.v1.UnaryRequest" in message, message
    for raw in (b'{"text":"\xff"}', b'{"text":"\xc0\xaf"}', b'{"text":"\xed\xa0\x80"}',
                b'{"text":"\xf4\x90\x80\x80"}', b'{"text":"\xe2\x82"}', b'{"\xff":1}',
                b'\xff\xfe{\x00}\x00', b"\x00"):
        refused(daemon, post("Unary", raw), 400, "invalid_argument")


@case
def deep_json(daemon):
    """JSON that nests without end is refused, also where it is not looked at"""
    for text in ("[" * 100_000, '{"unknown":' + "[" * 100_000 + "]" * 100_000 + "}",
                 '{"unknown":' * 20_000 + "1" + "}" * 20_000):
        refused(daemon, post("Unary", text), 400, "invalid_argument")


@case
def bad_proto(daemon):
    """malformed protobuf is invalid_argument"""
    for data in (
            b"\x0a", b"\x0a\x05abc", b"\x0a\xff\xff\xff\xff\x0f", b"\x80", b"\x00\x01", b"\x07",
            b"\x18" + b"\xff" * 10 + b"\x01", b"\x18\x80", b"\x12\x01\xff", b"\x12\x02\xc0\x80",
            b"\x12\x03\xed\xa0\x80", b"\x0b\x0c", b"\x0c", b"\x22\x05\x0a\x03ab", b"\x29\x00",
            b"\x2a\x03abc", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01",
            b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", b"\x9a\x03\x04" + b"\x0b" * 4):
        answer = daemon.ask(post("Unary", data, "application/proto", connection="close"))
        if data == b"\x9a\x03\x04" + b"\x0b" * 4:  # an unknown field may hold anything
            assert answer.status == 200, answer
        else:
            assert answer.status == 400 and answer.code() == "invalid_argument", f"{data}: {answer}"


@case
def bad_envelopes(daemon):
    """envelopes that lie are refused"""
    def ask(body, kind=CONNECT_JSON, method="ServerStream"):
        return daemon.ask(post(method, body, kind, connection="close"))

    good = envelope('{"count":1}')
    for method in ("ServerStream", "ClientStream", "Bidi"):
        for body in (good[:3], good[:5], good[:-1], envelope("{}", 0xff), envelope("{}", 2),
                     envelope("{}", 4), envelope("{}", 0x80), envelope("x"), envelope(b"\xff"),
                     envelope("{}", 1)):
            assert stream_code(ask(body, method=method)) == "invalid_argument", (method, body)
    assert stream_code(ask(b"")) == "unimplemented"
    assert stream_code(ask(good + good)) == "unimplemented"
    assert stream_code(ask(b"", method="ClientStream")) is None
    assert stream_code(ask(b"", method="Bidi")) is None
    assert stream_code(ask(good)) is None
    assert stream_code(ask(envelope(b"\xff"), CONNECT_PROTO)) == "invalid_argument"


@case
def announced_sizes(daemon):
    """an envelope that announces too much is refused before it is sent"""
    for method in ("ServerStream", "ClientStream", "Bidi"):
        for size in (MESSAGE_MAX + 1, 2**31, 2**32 - 1):
            with daemon.raw() as raw:
                raw.send(post(method, b"", CONNECT_JSON, content_length=2**40) +
                         b"\x00" + size.to_bytes(4, "big"))
                if method == "ServerStream":
                    continue  # one message is read whole before it is opened
                assert stream_code(raw.answer()) == "resource_exhausted"


@case
def oversized(daemon):
    """a message over 16 MiB is resource_exhausted, one of just 16 MiB is taken"""
    big = field(1, b"x" * (MESSAGE_MAX - 5))
    assert len(big) == MESSAGE_MAX
    answer = daemon.ask(post("ClientStream", envelope(big) * 2, CONNECT_PROTO, connection="close"))
    end, messages = end_of_stream(answer)
    assert end == {} and len(messages) == 1, answer
    refused(daemon, post("Unary", big + b"\x18\x00", "application/proto"), 429, "resource_exhausted")
    text = b'{"text":"' + b"x" * MESSAGE_MAX + b'"}'
    refused(daemon, post("Unary", text), 429, "resource_exhausted")
    for method in ("ServerStream", "ClientStream", "Bidi"):
        body = envelope(field(1, b"x" * MESSAGE_MAX))
        assert stream_code(daemon.ask(post(method, body, CONNECT_PROTO))) == "resource_exhausted"
    # The answer of just too much: the server must not promise what it cannot send.
    refused(daemon, post("Unary", big, "application/proto"), 429, "resource_exhausted")
    answer = daemon.ask(post("ServerStream", envelope(json.dumps(
        {"count": 3, "sizeBytes": MESSAGE_MAX})), CONNECT_JSON, connection="close"))
    assert stream_code(answer) == "resource_exhausted"
    answer = daemon.ask(post("ServerStream", envelope(json.dumps(
        {"count": 3, "sizeBytes": MESSAGE_MAX, "delayMs": 1})), CONNECT_JSON, connection="close"))
    assert stream_code(answer) == "resource_exhausted"


@case
def largest_answers(daemon):
    """the largest messages of an answer arrive whole, packed or not"""
    for encoding in (None, "gzip"):
        for size in (MESSAGE_MAX - 4096, MESSAGE_MAX - 16, MESSAGE_MAX):
            question = b"\x08\x02\x10" + varint(size)  # two messages of that size
            answer = daemon.ask(post("ServerStream", envelope(question), CONNECT_PROTO,
                                     connect_accept_encoding=encoding, connection="close"))
            if size == MESSAGE_MAX:
                assert stream_code(answer) == "resource_exhausted", answer
                continue
            parts = [gzip.decompress(p) if flags & 1 else p for flags, p in envelopes(answer.body)]
            assert len(parts) == 3 and all(b"x" * size in part for part in parts[:2])


@case
def amplification(daemon):
    """a small message that decodes to very much is refused, not swallowed"""
    body = b"\x2a\x00" * (4 * MIB)  # empty packed lists: nothing
    assert daemon.ask(post("Unary", body, "application/proto", connection="close")).status == 200
    body = b"\x22\x00" * (8 * MIB - 8)  # one map entry of two bytes each
    answer = daemon.ask(post("Unary", body, "application/proto", connection="close"))
    assert answer.status in (200, 429), answer
    body = b"[" + b"0," * (8 * MIB - 100) + b"0]"
    answer = daemon.ask(post("Unary", b'{"values":' + body + b"}", connection="close"))
    assert answer.status == 429, answer


@case
def compressed(daemon):
    """gzip is taken and given, in unary calls and per message"""
    text = "squeeze " * 1000
    body = json.dumps({"text": text}).encode()
    answer = daemon.ask(post("Unary", gzip.compress(body), connection="close",
                             **{"content-encoding": "gzip", "accept-encoding": "br, gzip"}))
    assert answer.status == 200 and answer.header("content-encoding") == "gzip", answer
    assert json.loads(gzip.decompress(answer.body))["text"] == text
    answer = daemon.ask(post("Unary", body, connection="close"))
    assert answer.header("content-encoding") is None and answer.json()["text"] == text
    answer = daemon.ask(post("Unary", body, connection="close", accept_encoding="br, identity"))
    assert answer.header("content-encoding") is None
    answer = daemon.ask(post("Unary", b"", content_encoding="gzip", connection="close"))
    assert answer.status == 200, answer
    sent = (envelope(gzip.compress(b'{"payload":"%s"}' % (b"QUJD" * 1000)), 1) +
            envelope('{"payload":"QUJD"}') + envelope(b"", 1))
    answer = daemon.ask(post("Bidi", sent, CONNECT_JSON, connection="close",
                             connect_content_encoding="gzip", connect_accept_encoding="gzip"))
    assert answer.header("connect-content-encoding") == "gzip"
    parts = envelopes(answer.body)
    assert len(parts) == 4, parts
    payloads = [json.loads(gzip.decompress(p) if flags & 1 else p).get("payload", "")
                for flags, p in parts[:-1]]
    assert payloads == ["QUJD" * 1000, "QUJD", ""] and parts[0][0] & 1


@case
def compressed_errors(daemon):
    """an error is readable for a client that takes gzip"""
    answer = daemon.ask(post("Fail", '{"reason":"not_found"}', accept_encoding="gzip"))
    assert answer.status == 404
    body = gzip.decompress(answer.body) if answer.header("content-encoding") else answer.body
    assert json.loads(body)["code"] == "not_found"


@case
def bad_compression(daemon):
    """broken, unknown or endless compression is refused"""
    good = gzip.compress(b"{}")
    for body in (b"{}", good[:-1], good[:10], good + b"x", good + good, good[:-8] + bytes(8),
                 zlib.compress(b"{}"), b"\x1f\x8b"):
        message = refused(daemon, post("Unary", body, content_encoding="gzip"), 400,
                          "invalid_argument")
        assert "gzip" in message
    for name in ("br", "zstd", "deflate", "gzip, gzip", "x"):
        message = refused(daemon, post("Unary", good, content_encoding=name), 501, "unimplemented")
        assert "gzip" in message and "identity" in message
    answer = daemon.ask(post("ServerStream", envelope("{}"), CONNECT_JSON,
                             connect_content_encoding="br"))
    assert stream_code(answer) == "unimplemented"


@case
def bombs(daemon):
    """a small message that unpacks to more than 16 MiB is resource_exhausted and costs little"""
    before = daemon.stats()["rssBytes"]
    bomb = gzip.compress(b" " * (100 * MIB), 6)
    assert len(bomb) < MIB
    refused(daemon, post("Unary", bomb, content_encoding="gzip"), 429, "resource_exhausted")
    for method in ("ServerStream", "ClientStream", "Bidi"):
        answer = daemon.ask(post(method, envelope(bomb, 1), CONNECT_JSON,
                                 connect_content_encoding="gzip"))
        assert stream_code(answer) == "resource_exhausted"
    fits = gzip.compress(b"{" + b" " * (MESSAGE_MAX - 2) + b"}")
    answer = daemon.ask(post("Unary", fits, content_encoding="gzip", connection="close"))
    assert answer.status == 200, answer
    assert daemon.stats()["rssBytes"] - before < daemon.rss_room(80)


@case
def timeouts(daemon):
    """a timeout is a number of at most ten digits"""
    for value in ("abc", "-1", "+1", "1.5", "99999999999", "", "1 2", "0x10", "1s"):
        refused(daemon, post("Unary", connect_timeout_ms=value), 400, "invalid_argument")
    answer = daemon.ask(post("Unary", connect_timeout_ms="9999999999", connection="close"))
    assert 9999990000 <= int(answer.json()["deadlineMs"]) <= 9999999999
    assert "deadlineMs" not in daemon.call("Unary").json()
    answer = daemon.ask(post("ServerStream", envelope("{}"), CONNECT_JSON, connect_timeout_ms="x"))
    assert stream_code(answer) == "invalid_argument"


@case
def deadlines(daemon):
    """a call that takes too long is deadline_exceeded, and is told so"""
    before = daemon.stats()["cancelledCalls"]
    refused(daemon, post("Slow", '{"delayMs":600000}', connect_timeout_ms="50"), 504,
            "deadline_exceeded")
    answer = daemon.ask(post("ServerStream", envelope('{"count":1000,"delayMs":20}'), CONNECT_JSON,
                             connect_timeout_ms="100", connection="close"))
    assert stream_code(answer) == "deadline_exceeded"
    assert len(end_of_stream(answer)[1]) >= 1
    eventually(lambda: daemon.stats()["cancelledCalls"] == before + 2, "both calls were told")
    # Also while the request itself is still on its way.
    answer = daemon.ask(post("Unary", b"", content_length=100, connect_timeout_ms="50"))
    assert answer.status == 504 and answer.code() == "deadline_exceeded"
    answer = daemon.ask(post("ClientStream", b"", CONNECT_JSON, content_length=100,
                             connect_timeout_ms="50"))
    assert stream_code(answer) == "deadline_exceeded"


@case
def ignored_cancel(daemon):
    """a verb that goes on after its caller left disturbs nobody"""
    refused(daemon, post("Slow", '{"delayMs":200,"ignoresCancel":true}', connect_timeout_ms="20"),
            504, "deadline_exceeded")
    with daemon.raw() as raw:
        raw.send(post("Slow", '{"delayMs":200,"ignoresCancel":true}'))
        eventually(lambda: daemon.stats()["liveCalls"] >= 1, "the call runs")
    eventually(lambda: daemon.stats()["liveCalls"] == 0, "the call ends")


@case
def protocol_versions(daemon):
    """connect-protocol-version is 1 or absent"""
    assert daemon.ask(post("Unary", connect_protocol_version="1")).status == 200
    for value in ("2", "", "v1", "01"):
        refused(daemon, post("Unary", connect_protocol_version=value), 400, "invalid_argument")


@case
def get_calls(daemon):
    """GET carries the message in the query, in any order and form"""
    text = '{"text":"a&b=c d+ü"}'
    packed = base64.urlsafe_b64encode(text.encode()).decode()
    zipped = base64.urlsafe_b64encode(gzip.compress(text.encode())).decode().rstrip("=")
    for query in (
            {"connect": "v1", "encoding": "json", "message": text},
            {"message": text, "x": "y", "encoding": "json", "connect": "v1"},
            {"connect": "v1", "encoding": "json", "base64": "1", "message": packed},
            {"connect": "v1", "encoding": "json", "base64": "1", "message": packed.rstrip("=")},
            {"connect": "v1", "encoding": "json", "base64": "1", "message": zipped,
             "compression": "gzip"},
            {"connect": "v1", "encoding": "json", "message": text, "compression": "identity"}):
        answer = daemon.ask(get("IdempotentUnary", **query))
        assert answer.status == 200 and answer.json()["text"] == "a&b=c d+ü", f"{query}: {answer}"
    proto = base64.urlsafe_b64encode(field(2, b"hi")).decode()
    answer = daemon.ask(get("IdempotentUnary", connect="v1", encoding="proto", base64="1",
                            message=proto))
    assert answer.status == 200 and answer.header("content-type") == "application/proto"
    assert answer.body.startswith(field(2, b"hi"))
    assert daemon.ask(get("IdempotentUnary", connect="v1", encoding="json",
                          message="")).status == 200


@case
def bad_get_calls(daemon):
    """a GET that cannot be decoded is refused"""
    for query, status in (
            ({"connect": "v1", "encoding": "json"}, 400),
            ({"connect": "v2", "encoding": "json", "message": "{}"}, 400),
            ({"connect": "v1", "encoding": "json", "message": "{"}, 400),
            ({"connect": "v1", "encoding": "json", "base64": "1", "message": "?"}, 400),
            ({"connect": "v1", "encoding": "proto", "message": "\xff"}, 400),
            ({"connect": "v1", "encoding": "json", "message": "{}", "compression": "br"}, 501),
            ({"connect": "v1", "encoding": "json", "message": "{}", "compression": "gzip"}, 400),
            ({"connect": "v1", "encoding": "xml", "message": "{}"}, 415),
            ({"connect": "v1", "message": "{}"}, 415)):
        answer = daemon.ask(get("IdempotentUnary", **query))
        assert answer.status == status and answer.code(), f"{query}: {answer}"
    for message in ("%", "%zz", "%7", "%7B%7"):
        answer = daemon.ask(request(
            f"GET {SERVICE}IdempotentUnary?connect=v1&encoding=json&message={message}"))
        assert answer.status == 400 and answer.code() == "invalid_argument", answer


@case
def errors(daemon):
    """an error has the status and code of the table, the sentence, and its reason as a detail"""
    for reason, code, status in (
            ("session_not_found", "not_found", 404), ("session_paused", "failed_precondition", 400),
            ("session_exists", "already_exists", 409), ("permission_denied", "permission_denied", 403),
            ("no_space", "resource_exhausted", 429), ("unavailable", "unavailable", 503),
            ("data_loss", "data_loss", 500), ("canceled", "canceled", 499),
            ("out_of_range", "out_of_range", 400), ("internal", "internal", 500),
            ("snapshots_not_available", "unimplemented", 501)):
        answer = daemon.call("Fail", {"reason": reason, "text": 'say "ü" \\ 100%\n'})
        error = answer.json()
        assert answer.status == status and error["code"] == code, answer
        assert error["message"] == 'say "ü" \\ 100%\n'
        detail = error["details"][0]
        assert detail["type"] == "cay.v1.ErrorInfo" and detail["debug"]["reason"] == reason
        value = base64.b64decode(detail["value"] + "==")
        assert value == field(1, reason.encode()) and not detail["value"].endswith("=")
    answer = daemon.ask(post("ServerStream", envelope('{"count":2,"failReason":"no_space"}'),
                             CONNECT_JSON, connection="close"))
    end, messages = end_of_stream(answer)
    assert end["error"]["code"] == "resource_exhausted" and len(messages) == 2
    assert end["error"]["details"][0]["debug"]["reason"] == "no_space"


@case
def grpc_web(daemon):
    """gRPC-Web over HTTP/1.1 ends in a trailer envelope"""
    kind = "application/grpc-web+proto"
    for ask_kind in (kind, "application/grpc-web"):
        answer = daemon.ask(post("Unary", envelope(field(2, b"hi")), ask_kind, connection="close"))
        parts = envelopes(answer.body)
        assert answer.status == 200 and [flags for flags, _ in parts] == [0, 0x80], answer
        assert parts[0][1].startswith(field(2, b"hi")) and parts[1][1] == b"grpc-status: 0\r\n"
    answer = daemon.ask(post("Fail", envelope(field(1, b"no_space") + field(2, "100% ü\n".encode())),
                             kind, connection="close"))
    (flags, trailer), = envelopes(answer.body)
    assert flags == 0x80 and b"grpc-status: 8\r\n" in trailer
    assert b"grpc-message: 100%25 %C3%BC%0A\r\n" in trailer
    assert b"grpc-status-details-bin: " in trailer
    for body, status in ((b"", 12), (envelope(b""), None), (envelope(b"") * 2, 12),
                         (envelope(b"\xff"), 3), (b"\x00\x00", 3), (envelope(b"", 1), 3)):
        answer = daemon.ask(post("Unary", body, kind, connection="close"))
        trailer = envelopes(answer.body)[-1][1]
        assert b"grpc-status: %d\r\n" % (status or 0) in trailer, f"{body}: {answer}"
    for value, status in (("1x", 3), ("123456789S", 3), ("S", 3), ("", 3), ("-1S", 3), ("1H", 0),
                          ("99999999H", 0), ("1000000u", 0), ("99999999n", 0)):
        answer = daemon.ask(post("Unary", envelope(b""), kind, grpc_timeout=value, connection="close"))
        trailer = envelopes(answer.body)[-1][1]
        assert b"grpc-status: %d\r\n" % status in trailer, f"{value}: {answer}"
    answer = daemon.ask(post("Slow", envelope(b"\x08\xff\xff\x7f"), kind, grpc_timeout="50m"))
    assert b"grpc-status: 4\r\n" in envelopes(answer.body)[-1][1]


@case
def keys(_):
    """without the right key every door is closed"""
    with Daemon(sys.argv[1], "--key", "s3cret") as daemon:
        def status(method="Unary", body="{}", kind="application/json", **headers):
            return daemon.ask(post(method, body, kind, **headers))

        watch_answer = status(authorization="Bearer s3cret")
        assert watch_answer.status == 200 and watch_answer.json()["owner"] == "tester"
        assert watch_answer.json()["keyId"] == "key-1"
        assert status(authorization="bearer s3cret").status == 200
        assert status(x_api_key="s3cret").status == 200
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer "},
                        {"authorization": "s3cret"}, {"authorization": "Basic czNjcmV0"},
                        {"authorization": ""}, {"x_api_key": "s3cre"}, {"x_api_key": "s3crets"},
                        {"x_api_key": ""}, {"authorization": "Bearer" + "x" * 20000},
                        {"authorization": "Basic x", "x_api_key": "s3cret"}):
            answer = status(**headers)
            assert answer.status == 401 and answer.code() == "unauthenticated", (headers, answer)
        assert stream_code(status("ServerStream", envelope("{}"), CONNECT_JSON)) == "unauthenticated"
        answer = status("Unary", envelope(b""), "application/grpc-web")
        assert b"grpc-status: 16\r\n" in envelopes(answer.body)[-1][1]
        answer = daemon.ask(get("IdempotentUnary", connect="v1", encoding="json", message="{}"))
        assert answer.status == 401


@case
def metadata(daemon):
    """metadata of any kind is let through"""
    fields = {f"x-thing-{n}": "v" * 100 for n in range(50)}
    fields |= {"x-data-bin": "!!!not base64", "user-agent": "\xfc\xe4", "te": "trailers"}
    data = post("Unary", connection="close", **fields)
    assert daemon.ask(data).status == 200


if __name__ == "__main__":
    run_with_echod(rss_growth_mib=12)
