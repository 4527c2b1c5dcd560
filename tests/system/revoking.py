#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A key that is revoked or expires is useless at once, also where calls by it are under way."""

import contextlib
import threading
import time

from access_world import serve, tokens
from daemon import FILE, KEY, PROCESS, SANDBOX, Client, RpcError, Stream, b64, case, fails
from small_base import run_with_cayd

SOON_S = 10  # what does not end at once does not end at all
SID = "work"


def key(cay, owner="team", **fields):
    made = cay.call(KEY + "CreateKey", {"owner": owner} | fields)
    return made["key"]["id"], Client(cay, made["secret"])


def revoke(cay, key_id):
    cay.call(KEY + "RevokeKey", {"keyId": key_id})


def opened(client, method, message, ends_request=True):
    """A stream that has begun: its first answer is there."""
    stream = Stream(client, method, timeout_s=SOON_S)
    stream.send(message)
    if ends_request:
        stream.end()
    assert stream.next(), method
    return stream


def watching(cay, client):
    """A stream of events that is being heard."""
    stream = client.open(SANDBOX + "WatchEvents", {"sessionIds": [SID]}, timeout_s=SOON_S)
    hear(cay, stream)
    return stream


def hear(cay, stream):
    """Something happens, and is heard of."""
    cay.sh(SID, "true")
    while "event" not in stream.next():
        pass


def ends(stream, words="revoked or has expired"):
    """It ends with a reason, whatever was on its way."""
    error = fails("unauthenticated", lambda: list(stream), reason="unauthenticated")
    assert words in error.message, error
    stream.close()


def streams(client):
    """One of each kind that is open in a session."""
    shell = {"argv": ["/bin/sh", "-c", "echo ready; exec sleep 1000"]}
    yield opened(client, PROCESS + "AttachProcess", {"sessionId": SID, "launch": shell})
    yield opened(client, PROCESS + "Terminal", {"open": {"sessionId": SID, "launch": shell}}, False)
    yield opened(client, PROCESS + "ConnectPort", {"open": {"sessionId": SID, "port": 8000}}, False)
    yield opened(client, FILE + "WatchDir", {"sessionId": SID, "path": "/workspace"})
    call = {"toolName": "bash", "params": {"cmd": "echo ready; exec sleep 1000"}}
    yield opened(client, SANDBOX + "ExecuteToolStream", {"sessionId": SID, "call": call})
    yield opened(client, FILE + "ReadFile", {"sessionId": SID, "path": "/workspace/large"})
    upload = Stream(client, FILE + "WriteFile", timeout_s=SOON_S)
    upload.send({"open": {"sessionId": SID, "path": "/workspace/up"}})
    upload.send({"data": b64(b"half")})
    yield upload


def echo(cay):
    """It answers at the private port 8001 of the session."""
    answer = r"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"
    cay.background(SID, f"busybox nc -ll -p 8001 -e sh -c 'printf \"{answer}\"; exec cat' & echo ready; exec sleep 1000")
    cay.call(PROCESS + "ExposePort", {"sessionId": SID, "port": {"port": 8001, "waitListening": "60s"}})
    cay.call(PROCESS + "UnexposePort", {"sessionId": SID, "port": 8001})


@contextlib.contextmanager
def at_port(cay, credential):
    """A connection to the echo."""
    with Client(cay, "none").socket(SOON_S) as raw:
        raw.sendall((f"GET / HTTP/1.1\r\nhost: test\r\n{credential}e2b-sandbox-id: {SID}\r\ne2b-sandbox-port: 8001\r\n"
                     "upgrade: x\r\nconnection: upgrade\r\n\r\n").encode())
        got = b""
        while b"\r\n\r\n" not in got:
            got += raw.recv(4096)
        assert b" 101 " in got, got
        say(raw)
        yield raw


def say(raw):
    raw.sendall(b"echo")
    got = b""
    while not got.endswith(b"echo"):
        piece = raw.recv(4096)
        assert piece, got
        got += piece


def is_cut(raw):
    try:
        return raw.recv(4096) == b""
    except ConnectionResetError:
        return True


def session(cay):
    cay.create(SID, owner="team")
    cay.sh(SID, "truncate -s 1G large")


@case
def every_stream(cay):
    """all streams of a revoked key end with a reason, those of its owner's other keys go on"""
    session(cay)
    serve(cay, SID, 8000)
    key_id, client = key(cay)
    _, other = key(cay)
    mine, theirs = [watching(cay, client), *streams(client)], watching(cay, other)
    revoke(cay, key_id)
    for stream in mine:
        ends(stream)
    fails("unauthenticated", client.get, SID)
    assert fails("not_found", cay.read, SID, "/workspace/up"), "half a file is none"
    hear(cay, theirs)
    theirs.close()


@case
def of_tokens(cay):
    """tokens of a session that are revoked open nothing any more, and what is open by them ends; new ones do, over a restart too"""
    session(cay)
    serve(cay, SID, 8000)
    echo(cay)
    old, by_key = tokens(cay, SID), key(cay)[1]
    holder = Client(cay, old["accessToken"])
    mine, theirs = list(streams(holder)), watching(cay, by_key)
    upload = Stream(by_key, FILE + "WriteFile", timeout_s=SOON_S)  # which others of the session wait for
    upload.send({"open": {"sessionId": SID, "path": "/workspace/theirs"}})
    upload.send({"data": b64(b"half")})
    with (at_port(cay, f"e2b-traffic-access-token: {old['trafficToken']}\r\n") as by_token, at_port(cay, by_key.auth) as other):
        new = cay.call(SANDBOX + "RevokeTokens", {"sessionId": SID})["tokens"]
        assert new == tokens(cay, SID) and not set(new.values()) & set(old.values()), (old, new)
        for stream in mine:
            ends(stream, "token of this call was revoked")
        assert is_cut(by_token)
        say(other)
    upload.send({"data": b64(b"whole")})
    upload.end()
    assert list(upload), "it goes on"
    hear(cay, theirs)
    theirs.close()
    for restarted in (False, True):
        if restarted:
            cay.restart()
        fails("unauthenticated", holder.get, SID)
        assert Client(cay, new["accessToken"]).get(SID)["tokensRevokedAt"]
    fails("permission_denied", Client(cay, new["accessToken"]).call, SANDBOX + "RevokeTokens", {"sessionId": SID})
    assert "tokensRevokedAt" not in cay.fork(SID)[0]
    fails("unauthenticated", holder.get, SID)
    last = cay.call(SANDBOX + "RevokeTokens", {"sessionId": SID})["tokens"]
    assert len({made["accessToken"] for made in (old, new, last)}) == 3


@case
def a_call_that_waits(cay):
    """a call that is not a stream ends, too"""
    session(cay)
    key_id, client = key(cay)
    process = client.call(PROCESS + "LaunchProcess", {"sessionId": SID, "spec": {"argv": ["sleep", "1000"]}})["process"]
    told = []

    def wait():
        try:
            client.call(PROCESS + "WaitProcess",
                        {"sessionId": SID, "processId": process["id"], "timeout": "60s"}, timeout_s=SOON_S)
        except RpcError as error:
            told.append(error.code)
    thread = threading.Thread(target=wait)
    thread.start()
    revoke(cay, key_id)
    thread.join()
    assert told == ["unauthenticated"], told


@case
def by_itself(cay):
    """a key that revokes itself hears that it did, and what else it had open ends"""
    session(cay)
    key_id, client = key(cay)
    stream = watching(cay, client)
    assert client.call(KEY + "RevokeKey", {"keyId": key_id})["key"]["revoked"]
    ends(stream)


@case
def expired(cay):
    """what is open by a key ends when its time has come"""
    session(cay)
    end = int(time.time()) + 2
    _, client = key(cay, expiresAt=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end)))
    stream = watching(cay, client)
    ends(stream)
    assert time.time() >= end, "not before"


@case
def of_a_gateway(cay):
    """what a gateway has open ends with its own key, and with the key of whom it calls for"""
    session(cay)
    key_id, _ = key(cay)
    gateway_id, gateway = key(cay, "gateway", mayVouch=True)
    plain = gateway.auth
    gateway.auth = plain + f"cay-on-behalf-of: role=user; owner=team; key={key_id}\r\n"
    stream = watching(cay, gateway)
    revoke(cay, key_id)
    ends(stream)
    fails("unauthenticated", gateway.get, SID)
    gateway.auth = plain + "cay-on-behalf-of: role=user; owner=team; key=key-of-the-gateways-own\r\n"
    stream = watching(cay, gateway)
    revoke(cay, gateway_id)
    ends(stream, "vouches for this call")


@case
def at_ports(cay):
    """a connection to a private port that a key opened is cut"""
    session(cay)
    echo(cay)
    key_id, client = key(cay)
    with at_port(cay, client.auth) as raw:
        revoke(cay, key_id)
        assert is_cut(raw)


if __name__ == "__main__":
    run_with_cayd()
