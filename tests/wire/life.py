#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The life of a daemon: start, shutdown under traffic, limits of connections, neighbours."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

from http2_frames import NO_ERROR, Http2
from wire import (Closed, Daemon, Watch, case, envelope, eventually, folder, post, run,
                  stream_code)

ECHOD = sys.argv[1]
CONNECT_JSON = "application/connect+json"


def term(daemon):
    daemon.process.send_signal(signal.SIGTERM)


def refuses(daemon):
    try:
        daemon.socket().close()
        return False
    except ConnectionError:
        return True


@case
def drain():
    """SIGTERM lets calls finish, takes no new ones, and ends with 0"""
    with Daemon(ECHOD) as daemon:
        idle, busy, stream, waiting = (daemon.raw() for _ in range(4))
        idle.send(post("Unary"))
        assert idle.answer().status == 200
        busy.send(post("Slow", '{"delayMs":700}') + post("Unary"))
        stream.send(post("ServerStream", envelope('{"count":5,"delayMs":100}'), CONNECT_JSON))
        eventually(lambda: daemon.stats()["liveCalls"] == 2, "both calls run")
        started = time.monotonic()
        term(daemon)
        eventually(lambda: refuses(daemon), "new connections are refused")
        assert idle.is_closed() and waiting.is_closed()
        answer = busy.answer()
        assert answer.status == 200 and answer.header("connection") == "close", answer
        assert busy.rest() == b""
        assert stream_code(stream.answer()) is None
        for raw in (idle, busy, stream, waiting):
            raw.sock.close()
        assert daemon.process.wait(10) == 0
        assert time.monotonic() - started < 4


@case
def drain_http2():
    """an HTTP/2 client is told by GOAWAY, and its calls finish"""
    with Daemon(ECHOD) as daemon:
        conn, idle = Http2(daemon.socket()), Http2(daemon.socket())
        stream = conn.open(conn.head("Slow"))
        conn.data(stream, b'{"delayMs":500}')
        assert conn.is_alive() and idle.is_alive()
        term(daemon)
        assert idle.end() == NO_ERROR
        assert conn.reply(stream).status == 200
        assert conn.end() == NO_ERROR
        assert daemon.process.wait(10) == 0
        conn.sock.close()
        idle.sock.close()


@case
def drain_cut():
    """what does not finish in time is cut, whether its verb listens or not"""
    with Daemon(ECHOD, "--drain-ms", "500") as daemon:
        raws = [daemon.raw() for _ in range(4)]
        raws[0].send(post("Slow", '{"delayMs":600000}'))
        raws[1].send(post("Slow", '{"delayMs":600000,"ignoresCancel":true}'))
        raws[2].send(post("ServerStream", envelope('{"count":9999999,"sizeBytes":65536}'),
                          CONNECT_JSON))
        raws[3].send(post("Sink", b"", CONNECT_JSON, content_length=10**9))
        conn = Http2(daemon.socket())
        conn.data(conn.open(conn.head("Slow")), b'{"delayMs":600000}')
        eventually(lambda: daemon.stats()["liveCalls"] == 5, "all calls run")
        half = daemon.raw()
        half.send(b"POST /x HT")
        started = time.monotonic()
        term(daemon)
        assert daemon.process.wait(10) == 0
        took_s = time.monotonic() - started
        assert 0.4 < took_s < 4, f"{took_s:.1f} s"
        for raw in (*raws, half):
            raw.sock.close()
        conn.sock.close()


@case
def drain_under_load():
    """no request that was taken is lost when the daemon goes down under load"""
    with Daemon(ECHOD) as daemon:
        answered, lost = [0] * 8, []

        def work(number):
            while True:
                try:
                    raw = daemon.raw()
                except ConnectionError:
                    return
                with raw:
                    while True:
                        try:
                            raw.send(post("Slow", '{"delayMs":3}'))
                            answer = raw.answer()
                        except Closed as closed:
                            # Between two requests the daemon may hang up, inside one it may not.
                            if "bytearray(b'')" not in str(closed):
                                lost.append(str(closed))
                            break
                        except OSError:
                            break
                        if answer.status != 200:
                            lost.append(repr(answer))
                        answered[number] += 1

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        eventually(lambda: all(answered), "everybody is served")
        term(daemon)
        assert daemon.process.wait(10) == 0
        for thread in threads:
            thread.join()
        assert not lost, lost


@case
def second_term():
    """a second SIGTERM changes nothing"""
    with Daemon(ECHOD, "--drain-ms", "3000") as daemon:
        with daemon.raw() as raw:
            raw.send(post("Slow", '{"delayMs":500}'))
            eventually(lambda: daemon.stats()["liveCalls"] == 1, "the call runs")
            term(daemon)
            eventually(lambda: refuses(daemon), "it drains")
            term(daemon)
            assert raw.answer().status == 200
        assert daemon.process.wait(10) == 0


@case
def neighbours():
    """two daemons run side by side; the end of one is nothing to the other"""
    with folder() as path, Daemon(ECHOD) as one, Daemon(ECHOD) as two, \
            Daemon(ECHOD, listen=f"unix:{path}/s") as three:
        assert one.port != two.port
        assert all(d.call("Unary").status == 200 for d in (one, two, three))
        assert one.stop() == 0
        assert refuses(one)
        assert all(d.call("Unary").status == 200 for d in (two, three))
        assert three.call("Unary").json()["owner"] == "local"


@case
def taken_address():
    """an address that is taken is an error with a sentence, and a dead socket file is not taken"""
    with folder() as path, Daemon(ECHOD) as one, Daemon(ECHOD, listen=f"unix:{path}/s"):
        for address in (one.address, f"unix:{path}/s", "256.0.0.1:0", "127.0.0.1", "127.0.0.1:99999",
                        f"unix:{path}/" + "x" * 120, f"unix:{path}/no/such/s", "unix:/dev/null"):
            done = subprocess.run([ECHOD, "--listen", address], capture_output=True, check=False,
                                  timeout=10)
            assert done.returncode == 2 and b"echod: " in done.stderr, (address, done)
        dead = socket.socket(socket.AF_UNIX)
        dead.bind(f"{path}/dead")
        dead.close()
        with Daemon(ECHOD, listen=f"unix:{path}/dead") as three:
            assert three.call("Unary").status == 200
        assert not os.path.exists(f"{path}/dead")


@case
def most_connections():
    """connections over the limit are told so and turned away, and taken again later"""
    with Daemon(ECHOD, "--connections-max", "10") as daemon:
        socks = []
        for _ in range(10):  # idle ones would make way for others from the same address
            socks.append(daemon.raw())
            socks[-1].send(post("Unary"))
            assert socks[-1].answer().status == 200
        with daemon.raw() as extra:
            told = extra.answer()
            assert told.status == 429 and b"max_connections" in told.body and extra.is_closed(), told
        socks.pop().sock.close()
        with daemon.raw() as extra:
            def is_served():
                nonlocal extra
                extra.sock.close()
                extra = daemon.raw()
                try:
                    extra.send(post("Unary"))
                    return extra.answer().status == 200
                except (Closed, OSError):
                    return False
            eventually(is_served, "there is room again")
            extra.sock.close()
        for raw in socks:
            raw.sock.close()


@case
def no_descriptors():
    """without descriptors the daemon turns connections away and recovers"""
    with Daemon(ECHOD, rlimit_fds=40) as daemon:
        watch = Watch(daemon)
        socks = [daemon.raw() for _ in range(80)]
        served = 0
        for raw in socks:
            raw.send(post("Unary"))
        for raw in socks:
            try:
                served += raw.answer().status == 200
            except (Closed, OSError):
                pass
        assert 10 < served < 40, served
        for raw in socks:
            raw.sock.close()

        def is_served():
            try:
                return daemon.call("Unary").status == 200
            except (Closed, OSError):
                return False

        eventually(is_served, "it serves again")
        watch.check()


@case
def cycles():
    """a thousand connects and disconnects leave no descriptor"""
    with Daemon(ECHOD) as daemon:
        watch = Watch(daemon, rss_growth_mib=4)
        for _ in range(1000):
            daemon.socket().close()
        watch.check()
        for _ in range(1000):
            assert daemon.call("Unary").status == 200
        watch.check()


if __name__ == "__main__":
    run()
