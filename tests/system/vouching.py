#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Calls on behalf of others: only who was trusted to vouch for callers is believed."""

import hashlib
import json

from daemon import SANDBOX, Client, b64, case, eventually, fails
from small_base import run_with_cayd

KEYS = "cay.v1.KeyService/"
BEHALF = "cay-on-behalf-of"


def key(cay, **fields):
    return cay.call(KEYS + "CreateKey", fields)


def on_behalf(cay, secret, text):
    """A client that says it calls for somebody else; without a secret on the Unix socket."""
    client = Client(cay, secret)
    client.auth += f"{BEHALF}: {text}\r\n"
    return client


def owners(client):
    return {each["owner"] for each in client.call(KEYS + "ListKeys").get("keys", [])}


def tokens(client, session_id):
    return client.call(SANDBOX + "GetSession", {"sessionId": session_id, "includeTokens": True})["tokens"]


@case
def refused(cay):
    """a user, an admin, root at the socket and a session's token are not believed"""
    cay.create("mine", owner="carol")
    secrets = {
        "user": key(cay, owner="carol")["secret"],
        "admin": key(cay, owner="carol", role="KEY_ROLE_ADMIN")["secret"],
        "root": None,
        "token": tokens(cay, "mine")["accessToken"],
    }
    for name, secret in secrets.items():
        for text in ("role=user; owner=alice", "role=admin; owner=local; door", "nonsense"):
            client = on_behalf(cay, secret, text)
            error = fails("permission_denied", client.call, SANDBOX + "HealthCheck", reason="permission_denied")
            assert BEHALF in error.message and "--vouch" in error.message, (name, error)
    fails("unauthenticated", on_behalf(cay, "cay_wrong", "role=user; owner=alice").call, SANDBOX + "HealthCheck")


@case
def twice(cay):
    """a header that is there twice is refused: a client could have sent the first of them"""
    secret = key(cay, owner="gateway", mayVouch=True, role="KEY_ROLE_ADMIN")["secret"]
    client = on_behalf(cay, secret, "role=admin; owner=evil")
    client.auth += f"{BEHALF}: role=user; owner=alice\r\n"
    error = fails("invalid_argument", client.call, SANDBOX + "ListSessions")
    assert "more than once" in error.message, error


@case
def a_key_twice(cay):
    """a credential that is there twice is refused: somebody in between may have looked at the other one"""
    secret = key(cay, owner="alice")["secret"]
    for first, second in (("authorization: Bearer ", "authorization: Bearer "), ("x-api-key: ", "x-api-key: ")):
        client = Client(cay, secret)
        client.auth = f"{first}{secret}\r\n{second}{secret}\r\n"
        error = fails("unauthenticated", client.call, SANDBOX + "ListSessions")
        assert "more than once" in error.message, error


def status_at_port(cay, secret, text, session_id, port=8000):
    """What the port of a session says to a gateway that calls for somebody else."""
    with Client(cay, secret).socket(10) as raw:
        raw.sendall((f"GET / HTTP/1.1\r\nhost: test\r\nx-api-key: {secret}\r\n{BEHALF}: {text}\r\n"
                     f"e2b-sandbox-id: {session_id}\r\ne2b-sandbox-port: {port}\r\nconnection: close\r\n\r\n").encode())
        answer = b""
        while piece := raw.recv(65536):
            answer += piece
    return answer.split(b"\r\n\r\n", 1)


@case
def at_ports(cay):
    """at the ports of sandboxes, too, a gateway is whom it calls for, and nothing of that is passed on"""
    cay.create("hers", owner="alice")
    gateway = key(cay, owner="gateway", mayVouch=True, role="KEY_ROLE_ADMIN")["secret"]
    plain = key(cay, owner="alice")["secret"]
    _, known = status_at_port(cay, gateway, "role=user; owner=alice", "hers")
    _, unknown = status_at_port(cay, gateway, "role=user; owner=alice", "nowhere")
    assert known.replace(b"hers", b"nowhere") != unknown, known  # who may know of it is told another thing
    for secret, text in ((gateway, "role=user; owner=bob"), (gateway, "nonsense"), (plain, "role=admin; owner=root")):
        head, body = status_at_port(cay, secret, text, "hers")
        nobody, no_body = status_at_port(cay, secret, text, "nowhere")
        assert head.split(b"\r\n")[0] == nobody.split(b"\r\n")[0], (text, head, nobody)
        assert body.replace(b"hers", b"nowhere") == no_body, (text, body, no_body)


@case
def believed(cay):
    """who is trusted to vouch for users acts as each of them, and for no admin"""
    key(cay, owner="alice")
    made = key(cay, owner="gateway", mayVouch=True)
    assert made["key"]["mayVouch"] and made["key"]["role"] == "KEY_ROLE_USER", made
    secret = made["secret"]
    assert owners(on_behalf(cay, secret, "role=user; owner=alice")) == {"alice"}
    assert owners(Client(cay, secret)) == {"gateway"}
    fails("permission_denied", on_behalf(cay, secret, "role=user; owner=alice").call, KEYS + "CreateKey", {})
    for text in ("role=admin; owner=alice", "role=user; owner=alice; door"):
        error = fails("permission_denied", on_behalf(cay, secret, text).call, SANDBOX + "HealthCheck")
        assert "users only" in error.message, error
    for text in ("alice", "role=user", "role=user; owner=../x", "role=user; owner=alice; owner=bob"):
        fails("invalid_argument", on_behalf(cay, secret, text).call, SANDBOX + "HealthCheck")
    # Whoever was vouched for is not trusted to vouch in turn, and a revoked key vouches for nobody.
    fails("permission_denied", on_behalf(cay, secret, "role=user; owner=gateway").call,
          KEYS + "FindCaller", {"secret": secret})
    cay.call(KEYS + "RevokeKey", {"keyId": made["key"]["id"]})
    fails("unauthenticated", on_behalf(cay, secret, "role=user; owner=alice").call, SANDBOX + "HealthCheck")


@case
def an_admin_that_vouches(cay):
    """an admin that is trusted to vouch does so for anybody, also for one session only"""
    secret = key(cay, owner="gateway", role="KEY_ROLE_ADMIN", mayVouch=True)["secret"]
    made = key(on_behalf(cay, secret, "role=admin; owner=root"), owner="by-root")
    assert made["key"]["owner"] == "by-root"
    cay.create("one", owner="alice")
    cay.create("two", owner="alice")
    token = on_behalf(cay, secret, "role=user; owner=alice; key=session-token; session=one")
    assert token.get("one")["id"] == "one"
    fails("not_found", token.get, "two")
    fails("permission_denied", token.call, KEYS + "ListKeys")
    # Local to the gateway is not local to the host, unless it came by the host's own socket.
    client = on_behalf(cay, secret, "role=admin; owner=root; local")
    options = [{"options": {"name": "x", "format": "BASE_FORMAT_DIRECTORY", "hostPath": "/nowhere"}}]
    error = fails("permission_denied", client.send_all, "cay.v1.BaseService/ImportBase", options)
    assert "Unix socket" in error.message, error


@case
def told(cay):
    """the access log, events and the audit log say who vouched for whom"""
    made = key(cay, owner="gateway", mayVouch=True)
    voucher = made["key"]["id"]
    client = on_behalf(cay, made["secret"], "role=user; owner=alice; key=key-of-alice")
    client.create("seen")
    client.destroy("seen")

    def lines():
        found = [json.loads(line) for line in (cay.data / "audit.log").read_text().splitlines()]
        return [line for line in found if line.get("sessionId") == "seen"]
    eventually(lambda: len(lines()) == 2, "it is audited")
    assert all(line["actor"] == "key-of-alice" and line["voucher"] == voucher for line in lines()), lines()
    assert f'key="key-of-alice by {voucher}"' in cay.log_path.read_text(), cay.log_tail()
    keyless = on_behalf(cay, made["secret"], "role=user; owner=alice")
    keyless.create("seen")
    keyless.destroy("seen")
    eventually(lambda: len(lines()) == 4, "it is audited, too")
    assert all(line["actor"] == "alice" and line["voucher"] == voucher for line in lines()[2:]), lines()
    frames = cay.stream(SANDBOX + "WatchEvents", {"noFollow": True, "sessionIds": ["seen"]})
    events = [frame["event"] for frame in frames if "event" in frame]
    assert events and all(event["voucher"] == voucher for event in events), events


@case
def asked(cay):
    """who is trusted to vouch may ask who holds a secret, and whose token signed something"""
    user = key(cay, owner="alice")
    admin = key(cay, owner="root", role="KEY_ROLE_ADMIN")["secret"]
    secret = key(cay, owner="gateway", mayVouch=True)["secret"]
    gateway = Client(cay, secret)
    cay.create("signed", owner="alice")
    token = tokens(cay, "signed")["accessToken"]
    find = {"before": b64(b"/file:read:"), "after": b64(b":7"),
            "sha256": b64(hashlib.sha256(b"/file:read:" + token.encode() + b":7").digest())}
    for other in (user["secret"], admin, None):
        for verb, message in (("FindCaller", {"secret": user["secret"]}), ("FindToken", find)):
            fails("permission_denied", Client(cay, other).call, KEYS + verb, message)
    caller = gateway.call(KEYS + "FindCaller", {"secret": user["secret"]})["caller"]
    assert caller == {"owner": "alice", "role": "KEY_ROLE_USER", "keyId": user["key"]["id"]}, caller
    caller = gateway.call(KEYS + "FindCaller", {"secret": token})["caller"]
    assert caller["owner"] == "alice" and caller["sessionId"] == "signed", caller
    assert gateway.call(KEYS + "FindCaller", {"secret": secret})["caller"]["mayVouch"]
    assert gateway.call(KEYS + "FindCaller", {"secret": "cay_wrong"}) == {}
    assert gateway.call(KEYS + "FindToken", find)["sessionId"] == "signed"
    missing = gateway.call(KEYS + "FindToken", find | {"after": b64(b":8")})
    assert "sessionId" not in missing and int(missing["tried"]) >= 1, missing
    for wrong in ({"sha256": b64(b"short")}, {"before": b64(b"x" * 8193)}, {"after": b64(b"x" * 1025)}):
        fails("invalid_argument", gateway.call, KEYS + "FindToken", find | wrong)


if __name__ == "__main__":
    run_with_cayd("--access-log")
