#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""TLS on the port: ALPN, old versions, broken handshakes, and the same bad peers as without."""

import json
import os
import select
import socket
import ssl
import struct
import subprocess
import sys

from http2_frames import Http2
from wire import (MIB, Daemon, Raw, at_end, case, envelope, envelopes, eventually, folder,
                  list_if_asked, post, run)

CONNECT_JSON = "application/connect+json"
HEAD_MS, SEND_MS = 700, 1500


def make_certificate(path, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=test",
                    "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout",
                    f"{path}/{name}.key", "-out", f"{path}/{name}.pem"],
                   check=True, capture_output=True)


class Tls:
    """The daemon under test, and how to reach it."""

    def __init__(self, daemon, cert):
        self.daemon, self.cert = daemon, cert

    def connect(self, *protocols, **options):
        context = ssl.create_default_context(cafile=self.cert)
        for name, value in options.items():
            setattr(context, name, value)
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return context.wrap_socket(self.daemon.socket(), server_hostname="localhost")

    def stats(self):
        with Raw(self.connect("http/1.1")) as raw:
            raw.send(post("Stats", connection="close"))
            answer = raw.answer().json()
        return {"liveCalls": 0, "cancelledCalls": 0, "messagesSent": 0} | {
            name: int(value) for name, value in answer.items()}


@case
def alpn(tls):
    """ALPN chooses what the client likes best of h2 and http/1.1, and does without"""
    with tls.connect("h2", "http/1.1") as sock:
        assert sock.selected_alpn_protocol() == "h2" and sock.version() == "TLSv1.3"
        conn = Http2(sock)
        assert json.loads(conn.call("Unary", b'{"text":"two"}').body)["text"] == "two"
    for protocols in (("http/1.1",), ("http/1.1", "h2"), ()):
        with tls.connect(*protocols) as sock:
            chosen = sock.selected_alpn_protocol()
            raw = Raw(sock)
            for _ in range(3):
                raw.send(post("Unary", '{"text":"one"}'))
                assert raw.answer().json()["text"] == "one"
            assert chosen == ("http/1.1" if protocols else None)


@case
def curl(tls):
    """curl speaks both versions of HTTP to it"""
    for flag, version in (("--http1.1", "1.1"), ("--http2", "2")):
        done = subprocess.run(
            ["curl", "-sS", flag, "--cacert", tls.cert, "-w", "\n%{http_version} %{http_code}",
             "-H", "content-type: application/json", "-d", '{"text":"hi"}',
             f"https://localhost:{tls.daemon.port}/cay.test.v1.EchoService/Unary"],
            check=True, capture_output=True, text=True)
        body, status = done.stdout.rsplit("\n", 1)
        assert status == f"{version} 200" and json.loads(body)["text"] == "hi", done


@case
def versions(tls):
    """TLS 1.2 is spoken, anything older is not"""
    with tls.connect(maximum_version=ssl.TLSVersion.TLSv1_2) as sock:
        assert sock.version() == "TLSv1.2"
    for flag in ("-tls1", "-tls1_1"):
        done = subprocess.run(
            ["openssl", "s_client", flag, "-cipher", "ALL:@SECLEVEL=0", "-connect",
             f"127.0.0.1:{tls.daemon.port}"], stdin=subprocess.DEVNULL, capture_output=True,
            check=False, timeout=10)
        assert done.returncode != 0 and b"BEGIN CERTIFICATE" not in done.stdout, done


@case
def not_tls(tls):
    """plain HTTP and noise on a TLS port are cut"""
    for data in (post("Unary"), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", os.urandom(3000), b"\x16\x03",
                 b"\x16\x03\x01\xff\xff" + bytes(70000)):
        with Raw(tls.daemon.socket()) as raw:
            raw.send(data)
            rest = raw.rest()
            assert not rest.startswith(b"HTTP/1.1 2"), rest


@case
def slow_handshake(tls):
    """a handshake that does not go on is cut"""
    for data in (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"):
        with Raw(tls.daemon.socket()) as raw:
            raw.send(data)
            assert raw.rest() == b""


@case
def big_messages(tls):
    """many megabytes pass both ways unharmed"""
    text = "0123456789abcdef" * (MIB // 4)
    with Raw(tls.connect("http/1.1")) as raw:
        for _ in range(3):
            raw.send(post("Unary", json.dumps({"text": text})))
            assert raw.answer().json()["text"] == text
        raw.send(post("ServerStream", envelope('{"count":500,"sizeBytes":20000}'), CONNECT_JSON))
        parts = envelopes(raw.answer().body)
        assert len(parts) == 501 and all(json.loads(p).get("index", 0) == n
                                         for n, (_, p) in enumerate(parts[:-1]))
    with tls.connect("h2") as sock:
        conn = Http2(sock)
        reply = conn.call("ServerStream", envelope('{"count":500,"sizeBytes":20000}'), CONNECT_JSON)
        assert len(envelopes(reply.body)) == 501


@case
def pipelining(tls):
    """requests that share a TLS record are all answered"""
    with Raw(tls.connect("http/1.1")) as raw:
        raw.send(b"".join(post("Slow" if n % 3 == 0 else "Unary") for n in range(60)))
        assert all(raw.answer().status == 200 for _ in range(60))


@case
def echo(tls):
    """a stream that is slow in one direction and then the other loses nothing"""
    message = envelope('{"payload":"%s"}' % ("QUJD" * 4_000))
    count = 1000
    with Raw(tls.connect("http/1.1")) as raw:
        raw.send(post("Bidi", b"", CONNECT_JSON, content_length=count * len(message)))
        # One thread: an SSL object is not made for two.
        left, sock = memoryview(message * count), raw.sock
        sock.setblocking(False)
        while left:
            try:
                left = left[sock.send(left[:65536]):]
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                select.select([sock], [sock], [], 1)
                try:
                    raw.buffer += sock.recv(1 << 20)
                except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                    pass
        sock.settimeout(10)
        answer = raw.answer()
    assert answer.body == message * count + envelope("{}", 2)


@case
def resets(tls):
    """a reset in the middle of anything is survived"""
    for number in range(60):
        sock = tls.connect("http/1.1") if number % 3 else tls.daemon.socket()
        if number % 3 == 1:
            sock.sendall(post("ServerStream", envelope('{"count":100000,"sizeBytes":65536}'),
                              CONNECT_JSON))
            if number % 2:
                assert sock.recv(1000)
        elif number % 3 == 2:
            sock.sendall(post("Slow", '{"delayMs":600000}'))
        else:
            sock.sendall(b"\x16\x03\x01\x00")
        if number % 4 == 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    eventually(lambda: tls.stats()["liveCalls"] == 0, "all calls end")
    eventually(lambda: tls.stats()["openConnections"] == 1, "all connections end")


@case
def stalled_reader(tls):
    """a reader that stops bounds memory, and is cut in the end"""
    before = tls.stats()
    with tls.connect("http/1.1") as sock:
        sock.sendall(post("ServerStream", envelope('{"count":4000000000,"sizeBytes":65536}'),
                          CONNECT_JSON))
        eventually(lambda: tls.stats()["messagesSent"] > before["messagesSent"] + 8, "it is sent")
        eventually(lambda: tls.stats()["liveCalls"] == 0, "it is cut")
    growth = tls.stats()["rssBytes"] - before["rssBytes"]
    assert growth < tls.daemon.rss_room(8), f"memory grew by {growth} bytes"


@case
def close_notify(tls):
    """an orderly end after the request still gets its answer"""
    with Raw(tls.connect("http/1.1")) as raw:
        raw.send(post("Unary", connection="close"))
        assert raw.answer().status == 200
        assert raw.rest() == b""


@case
def bad_files(tls):
    """a certificate that cannot be used is an error with a sentence"""
    binary, folder_path = sys.argv[1], os.path.dirname(tls.cert)
    make_certificate(folder_path, "other")
    for cert, key in (("no.pem", "test.key"), ("test.pem", "no.key"), ("test.pem", "other.key"),
                      ("test.key", "test.key")):
        done = subprocess.run([binary, "--tls-cert", f"{folder_path}/{cert}", "--tls-key",
                               f"{folder_path}/{key}"], capture_output=True, check=False, timeout=10)
        assert done.returncode == 2 and b"echod: " in done.stderr, (cert, key, done)


def main():
    list_if_asked()
    with folder() as path:
        make_certificate(path, "test")
        with Daemon(sys.argv[1], "--tls-cert", f"{path}/test.pem", "--tls-key", f"{path}/test.key",
                    "--head-timeout-ms", str(HEAD_MS), "--send-timeout-ms", str(SEND_MS)) as daemon:
            tls = Tls(daemon, f"{path}/test.pem")
            start = tls.stats()

            @at_end
            def everything_is_back(_):
                """descriptors and calls are back to where they were, and the end is orderly"""
                def is_back():
                    now = tls.stats()
                    return now["fds"] == start["fds"] and not now["liveCalls"]
                eventually(is_back, "everything is back")
                assert daemon.stop() == 0

            run(tls)


if __name__ == "__main__":
    main()
