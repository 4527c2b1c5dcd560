#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Who may know of what: every verb of the contract, every route of every door, for somebody without a
key, with a foreign key, with the token of a foreign session, and for the owner.

What others own is not there: the answer is that for a thing that does not exist, word for word. The
table of what each may get is in ARCHITECTURE.md. A verb or a route without a decision here fails.
"""

import base64
import contextlib
import hashlib
import re
import sys
from pathlib import Path

from access_world import DOMAIN, ENVD_PORT, MISSING, SERVED, Owner, World, fill, tokens
from daemon import KEY, SANDBOX, RpcError, at_end, b64, case, eventually, list_if_asked, run, unb64
from small_base import small_cayd

CONTRACT_SET = sys.argv[2]
ROOT = Path(__file__).resolve().parent.parent.parent
S = {"sessionId": "{session}"}
P = S | {"processId": "{process}"}
MY_P = {"sessionId": "{mine}", "processId": "{process}"}
FILE = S | {"path": "/workspace/index.html"}
SPEC = {"argv": ["true"]}
CALL = {"toolName": "read_file", "params": {"path": "/etc/passwd"}}

# What a foreign key gets when it names bob's things; it is the same for what does not exist.
GONE, OK, DENIED, BAD = "not_found", "ok", "permission_denied", "invalid_argument"


def gone(*requests):
    return [(GONE, [request]) for request in requests]


def ok(*requests):
    return [(OK, [request]) for request in requests]


# Every verb: what it is asked, and what comes of it. In this order for the owner.
VERBS = {
    "ProcessService": {
        "LaunchProcess": gone(S | {"spec": SPEC}),
        "ListProcesses": gone(S),
        "GetProcessStatus": gone(P, MY_P),
        "WaitProcess": gone(P | {"timeout": "0.01s"}, MY_P),
        "AttachProcess": gone(P, MY_P, S | {"launch": SPEC}),
        "SendInput": gone(P | {"data": b64(b"x")}, MY_P | {"data": b64(b"x")}),
        "CloseInput": gone(P, MY_P),
        "ResizePty": gone(P | {"size": {"rows": 2, "cols": 2}}, MY_P | {"size": {"rows": 2, "cols": 2}}),
        "ExposePort": gone(S | {"port": {"port": 8002}}, MY_P | {"port": {"port": 8002}}),
        "UnexposePort": gone(S | {"port": 8001}),
        "Terminal": gone({"open": S}),
        "ConnectPort": gone({"open": S | {"port": 8000}}),
        "KillProcess": gone(P, MY_P),
    },
    "FileService": {
        "StatFile": gone(FILE),
        "ListDir": gone(S | {"path": "/"}),
        "MakeDir": gone(S | {"path": "/workspace/new"}),
        "MakeSymlink": gone(S | {"path": "/workspace/link", "target": "x"}),
        "MoveFile": gone(S | {"source": "/workspace/new", "destination": "/workspace/old"}),
        "ReadFile": gone(FILE),
        "WriteFile": [(GONE, [{"open": S | {"path": "/workspace/x"}}, {"data": b64(b"x")}])],
        "WatchDir": gone(S | {"path": "/workspace"}),
        "RemoveFile": gone(FILE | {"path": "/workspace/x"}),
    },
    "PoolService": {
        "GetPool": [(DENIED, [{}])],
        "CreatePool": [(DENIED, [{"sizeBytes": "1073741824"}])],
        "GrowPool": [(DENIED, [{"sizeBytes": "1073741824"}])],
    },
    "SandboxService": {
        "CreateSession": gone({"base": "{base}"}, {"base": "{alias}"}, {"base": "{raw}"})
        + [(DENIED, [{"base": "small", "owner": "{owner}"}])],
        "GetSession": gone(S, S | {"includeTokens": True}),
        "ListSessions": ok({}, {"owner": "{owner}"}, {"labels": {"whose": "bob"}}, {"base": "{base}"},
                           {"parentSessionId": "{session}"}),
        "UpdateSession": gone(S | {"setLabels": {"a": "b"}}),
        "ListTools": ok({}),
        "ExecuteTool": gone(S | {"call": CALL}),
        "ExecuteToolStream": gone(S | {"call": CALL}),
        "TurnComplete": gone(S),
        "CreateSnapshot": gone(S | {"name": "another"}),
        "ListSnapshots": gone(S),
        "HoldSnapshot": gone(S | {"snapshot": "{snapshot}"}, {"sessionId": "{mine}", "snapshot": "{snapshot}"}),
        "DiffSnapshots": gone(S | {"fromSnapshot": "{snapshot}"},
                              {"sessionId": "{mine}", "fromSnapshot": "{snapshot}"}),
        "RestorePaths": gone(S | {"snapshot": "{snapshot}", "paths": ["/etc"], "dryRun": True},
                             {"sessionId": "{mine}", "snapshot": "{snapshot}", "paths": ["/etc"]}),
        "ExportSession": gone(S),
        "ForkSession": gone(S, S | {"snapshot": "{snapshot}"}, {"sessionId": "{mine}", "snapshot": "{snapshot}"}),
        "ImportSession": [(GONE, [{"options": {"base": "{base}"}}, {"data": "{export}"}]),
                          (GONE, [{"options": {"base": "{raw}"}}, {"data": "{export}"}]),
                          (GONE, [{"options": {"sessionId": "{session}", "intoExisting": True}},
                                  {"data": "{export}"}])],
        "HealthCheck": ok({}),
        "GetCapabilities": ok({}),
        "GetUsage": gone(S) + ok({}),
        "CheckNetwork": gone(S | {"destinations": ["example.org"]}),
        "ListNetworkQuestions": gone(S),
        "AnswerNetworkQuestion": gone(S | {"questionId": "00000001", "decision": "NETWORK_DECISION_ALLOW_ONCE"}),
        "WatchEvents": ok({"noFollow": True}, {"noFollow": True, "sessionIds": ["{session}"]},
                          {"noFollow": True, "labels": {"whose": "bob"}}),
        "RollbackSession": gone(S | {"snapshot": "{snapshot}", "processes": "PROCESS_POLICY_REFUSE"},
                                {"sessionId": "{mine}", "snapshot": "{snapshot}"}),
        "PauseSession": gone(S),
        "ResumeSession": gone(S),
        "DeleteSnapshot": gone(S | {"snapshots": ["{snapshot}"]}, {"sessionId": "{mine}", "snapshots": ["{snapshot}"]}),
        "RevokeTokens": gone(S),
        "DestroySession": gone(S) + ok(S | {"missingOk": True}),
    },
    "BaseService": {
        "ListBases": ok({}, {"name": "{base}"}, {"name": "{alias}"}, {"name": "{raw}"},
                        {"labels": {"cay.e2b/template": "app"}}),
        "ImportBase": [(DENIED, [{"options": {"name": "x", "existingBase": "{base}"}}])],
        "BuildBase": gone({"name": "mine", "fromBase": "{base}"}, {"name": "mine", "fromBase": "{alias}"},
                          {"name": "mine", "fromBase": "{raw}"})
        + [(DENIED, [{"name": "mine", "fromBase": "small", "aliases": ["{owner}/app:v2"]}])],
        "StartBuild": gone({"build": {"name": "mine", "fromBase": "{base}"}, "buildId": "{build}"}),
        "GetBuild": gone({"buildId": "{build}"}),
        "PutBuildFiles": [(OK, [{"key": "{files}"}, {"data": b64(b"x")}])],
        "GetBuildFiles": ok({"key": "{files}"}),
        "UpdateBase": gone({"name": "{base}"}, {"name": "{alias}"}, {"name": "{raw}", "addAliases": ["alice/x:y"]}),
        "RemoveBase": gone({"name": "{raw}", "force": True}, {"name": "{alias}", "force": True},
                           {"name": "{base}", "force": True}),
    },
    "QuotaService": {
        "GetQuota": gone({"owner": "{owner}"}) + ok({}),
        "SetQuota": [(DENIED, [{"owner": "{owner}", "set": {"sessions": "1"}}])],
    },
    "SecretService": {
        "SetSecret": gone({"owner": "{owner}", "name": "{secret}", "value": "x"}) + [(BAD, [{"name": "mine"}])],
        "ListSecrets": gone({"owner": "{owner}"}) + ok({}),
        "DeleteSecret": gone({"name": "{secret}"}),
    },
    "KeyService": {
        "CreateKey": [(DENIED, [{"owner": "{owner}"}])],
        "ListKeys": ok({}, {"owner": "{owner}", "includeRevoked": True}) + [(BAD, [{"pageToken": "{key}"}])],
        "RevokeKey": gone({"keyId": "{key}"}),
        "FindCaller": [(DENIED, [{"secret": "cay_x"}])],
        "FindToken": [(DENIED, [{"sha256": b64(b"x" * 32)}])],
    },
}


def contract():
    """(service, verb, descriptor) of every verb there is."""
    from google.protobuf import descriptor_pb2  # pylint: disable=import-outside-toplevel
    files = descriptor_pb2.FileDescriptorSet.FromString(Path(CONTRACT_SET).read_bytes())
    found = [(service.name, method.name, method) for file in files.file if file.package == "cay.v1"
             for service in file.service for method in service.method]
    assert len(found) > 50, found
    return found


def decisions():
    """(path of the verb, its descriptor, the expected, its messages), in the order of the table."""
    descriptors = {(service, verb): descriptor for service, verb, descriptor in contract()}
    for service, verbs in VERBS.items():
        for verb, asked in verbs.items():
            for expected, messages in asked:
                yield f"cay.v1.{service}/{verb}", descriptors[service, verb], expected, messages


def messages_of(messages, world):
    return [{"data": world.export} if message.get("data") == "{export}" else message for message in messages]


@case
def every_verb_is_decided(_world):
    """every verb of the contract has its decisions here, and nothing else has"""
    assert {(service, verb) for service, verb, _ in contract()} \
        == {(service, verb) for service, verbs in VERBS.items() for verb in verbs}


@case
def verbs_without_a_key(world):
    """without a key no verb answers"""
    for path, descriptor, _, messages in decisions():
        got = world.both(lambda names, p=path, d=descriptor, m=messages:
                         world.nobody.ask(p, d, messages_of(m, world), names))
        assert got.code == "unauthenticated", (path, got)


@case
def verbs_with_a_foreign_key(world):
    """what another owner has is not there, in the very words for what does not exist"""
    wrong = []
    for path, descriptor, expected, messages in decisions():
        def ask(names):
            return world.alice.ask(path, descriptor, messages_of(messages, world), names,  # pylint: disable=cell-var-from-loop
                                   reads_all=path.endswith("WatchEvents"))  # pylint: disable=cell-var-from-loop
        try:
            got = world.both(ask)
            asked = set(re.findall(r"\{(\w+)\}", str(messages)))
            assert got.code == expected, f"wanted {expected}, got {got}"
            assert expected != OK or not set(world.leaks(got)) - asked, got
        except AssertionError as error:
            wrong.append(f"{path} {messages}: {error}")
    assert not wrong, "\n".join(wrong)


@case
def verbs_with_a_foreign_token(world):
    """the token of one session opens nothing of another, and nothing that is for keys"""
    wrong = []
    for path, descriptor, expected, messages in decisions():
        def ask(names):
            return world.token.ask(path, descriptor, messages_of(messages, world), names)  # pylint: disable=cell-var-from-loop
        try:
            got = world.both(ask)
            may = {GONE, DENIED} | ({OK} if path.endswith("ListTools") else set())
            assert got.code in may and not world.leaks(Blurred(got, messages)), got
        except AssertionError as error:
            wrong.append(f"{path} {messages} {expected}: {error}")
    assert not wrong, "\n".join(wrong)


class Blurred:
    """An answer without the nouns that the question had."""

    def __init__(self, outcome, asked):
        self.text = outcome.text
        for noun in re.findall(r"\{(\w+)\}", str(asked)):
            self.text = self.text.replace(f"<{noun}>", "")


# What is asked of a session from outside; everything else acts in it.
OUTSIDE = {"GetSession", "ListSnapshots", "GetUsage", "CheckNetwork", "DestroySession"}


@contextlib.contextmanager
def bare_session(world):
    """A session of bob's that an administrator made, with a runtime that isolates nothing."""
    world.daemon.create("bobsbare", owner="bob", runtime="none")
    try:
        yield world.names | {"session": "bobsbare"}
    finally:
        world.bob.destroy("bobsbare")


@case
def a_runtime_that_isolates_nothing(world):
    """its sessions are for administrators: their owner's key, token and vouchers may look and destroy"""
    with bare_session(world) as names:
        secret = world.daemon.call(KEY + "CreateKey", {"owner": "gateway", "mayVouch": True})["secret"]
        gateway = Owner(world.daemon, secret, mine="bobsbare")
        gateway.auth += "cay-on-behalf-of: role=user; owner=bob\r\n"
        token = Owner(world.daemon, tokens(world.bob, "bobsbare")["accessToken"], mine="bobsbare")
        wrong, count = [], 0
        for path, descriptor, expected, messages in decisions():
            if expected != GONE or "{session}" not in str(messages) or path.endswith("DestroySession"):
                continue
            verb, count = path.split("/")[1], count + 1
            for who in (world.bob, gateway, token):
                got = who.ask(path, descriptor, messages_of(messages, world), names)
                is_denied = got.code == DENIED and "administrator" in got.text
                is_for_keys = who is token and got.code == DENIED
                if is_denied == (verb in OUTSIDE) and not is_for_keys:
                    wrong.append(f"{path} {messages}: {got}")
        assert count > 40, count
        assert not wrong, "\n".join(wrong)
        mine = {"x-access-token": tokens(world.bob, "bobsbare")["accessToken"]}
        for route, verb, port, extra in (("/files?path=/etc/passwd", "GET", ENVD_PORT, mine),
                                         ("/process.Process/List", "POST", ENVD_PORT, mine),
                                         ("/", "GET", 8000, mine), ("/", "GET", 8000, {"x-api-key": world.bob.key})):
            got = knock(world, "session", port, verb, route, extra)(names)
            assert got.code == 403 and "administrator" in got.text, (route, got)


@at_end
def nothing_happened(world):
    """all that asking changed nothing of bob's"""
    session = world.bob.get("bobs1")
    assert session["state"] == "SESSION_STATE_ACTIVE" and session["labels"] == {"whose": "bob"}, session
    assert [point["name"] for point in world.bob.log("bobs1")] == ["turn-0001", "bobs-point"] \
        or {point["name"] for point in world.bob.log("bobs1")} == {"turn-0001", "bobs-point"}
    assert world.bob.get("bobs2")["state"] == "SESSION_STATE_PAUSED"
    bases = world.bob.call("cay.v1.BaseService/ListBases", {"name": "bob/app:v1"})["bases"]
    assert sorted(bases[0]["aliases"]) == ["bob/app:default", "bob/app:v1"], bases


@case
def names_that_are_taken(world):
    """names of sessions are common to all: that one is taken is all that is told"""
    for path, request, code in (("SandboxService/CreateSession", {"sessionId": "bobs1", "base": "small"}, "already_exists"),
                                ("SandboxService/ForkSession", {"sessionId": "alices1", "newSessionId": "bobs1"},
                                 "already_exists")):
        try:
            world.alice.call(f"cay.v1.{path}", request)
            raise AssertionError(path)
        except RpcError as error:
            assert error.code == code and "bob/" not in error.message and "owner" not in error.message, error


@case
def counts(world):
    """a list of bases counts the caller's own sessions only"""
    def count(owner):
        bases = owner.call("cay.v1.BaseService/ListBases", {"name": "small"})["bases"]
        return int(bases[0].get("sessionCount", 0))
    assert count(world.alice) == 1 and count(world.bob) >= 3 and count(world.daemon) >= 4


@case
def pages(world):
    """/healthz says one word to everybody; /metrics is for keys, and has no names in it"""
    names = world.names | {"alice": "alices1"}
    for who in (world.nobody, world.alice, world.token, world.bob):
        got = who.http("GET", "/healthz", names)
        assert (got.code, got.text) == (200, '{"status":"ok"}\n'), got
    assert world.nobody.http("GET", "/metrics", names).code == 401
    assert world.token.http("GET", "/metrics", names).code == 403
    metrics = world.alice.http("GET", "/metrics", names)
    assert metrics.code == 200 and not world.leaks(metrics), metrics


# --- the control plane of E2B clients ---

SANDBOX_404 = (404, None)
CONTROL = {
    "POST /v2/sandboxes": [(404, {"templateID": "bob/{template}"}), (404, {"templateID": "{base}"}),
                           (404, {"templateID": "{raw}"}), (404, {"templateID": "{template}"})],
    "POST /sandboxes": [(404, {"templateID": "{alias}"}), (404, {"templateID": "{raw}"})],
    "GET /v2/sandboxes": [(200, None)],
    "GET /sandboxes": [(200, None)],
    "GET /sandboxes/{}": [(404, None)],
    "DELETE /sandboxes/{}": [(404, None)],
    "POST /v2/sandboxes/{}/connect": [(404, {"timeout": 10})],
    "POST /sandboxes/{}/connect": [(404, {"timeout": 10})],
    "POST /sandboxes/{}/resume": [(404, {"timeout": 10})],
    "POST /sandboxes/{}/timeout": [(404, {"timeout": 10})],
    "POST /sandboxes/{}/refreshes": [(404, {"duration": 10})],
    "POST /sandboxes/{}/pause": [(404, {})],
    "GET /sandboxes/{}/metrics": [(404, None)],
    "GET /v2/sandboxes/{}/logs": [(404, None)],
    "GET /sandboxes/{}/logs": [(404, None)],
    "PUT /sandboxes/{}/network": [(404, {})],
    "POST /sandboxes/{}/snapshots": [(404, {})],
    "GET /snapshots": [(200, None)],
    "POST /sandboxes/{}/fork": [(404, {})],
    "GET /templates": [(200, None)],
    "GET /templates/aliases/{}": [(404, None)],
    "POST /v3/templates": [(None, None)],  # makes one of the caller's own
    "POST /v2/templates/{}/builds/{}": [(404, {"fromTemplate": "{template}"})],
    "GET /templates/{}/builds/{}/status": [(404, None)],
    "GET /templates/{}/files/{}": [(None, None)],  # an upload of the caller's own
    "POST /templates/tags": [(404, {"target": "bob/{template}:v1", "tags": ["x"]}),
                             (404, {"target": "{template}:v1", "tags": ["x"]})],
    "DELETE /templates/tags": [(404, {"name": "bob/{template}", "tags": ["v1"]}),
                               (404, {"name": "{template}", "tags": ["v1"]})],
    "GET /templates/{}/tags": [(404, None)],
    "DELETE /templates/{}": [(404, None)],
    "PUT /templates/uploads/{}/{}": [(403, None)],  # by its own signature
}


def routes(name):
    """The routes of a table in the source of the door: `METHOD pattern`."""
    text = (ROOT / "src/front/e2b" / name / f"{name}.c").read_text()
    found = re.findall(r'\{"([A-Z]+)",\s+"(/[^"]*)"', text)
    assert len(found) > 15, found
    return [f"{method} {pattern}" for method, pattern in found]


def control_paths(pattern):
    """The pattern with each of bob's things in its place."""
    if "{}" not in pattern:
        return [pattern]
    if pattern.startswith("/templates/uploads"):
        return ["/templates/uploads/{template}/{files}?signature=00&expires=9999999999"]
    if pattern.endswith("/builds/{}") or pattern.endswith("/status"):
        return [pattern.replace("{}", "{template}", 1).replace("{}", "{build}", 1)]
    if "/templates/" in pattern:
        return [pattern.replace("{}", noun, 1).replace("{}", "{files}", 1)
                for noun in ("{template}", "{base}", "{raw}", "{sandbox}")]
    return [pattern.replace("{}", noun, 1) for noun in ("{session}", "{paused}", "{sandbox}", "{guarded}")]


@case
def control(world):
    """the control plane: other people's sandboxes, templates and builds are not there"""
    assert set(routes("control")) == set(CONTROL), set(routes("control")) ^ set(CONTROL)
    wrong = []
    for route, asked in CONTROL.items():
        verb, pattern = route.split(" ")
        for expected, body in asked:
            for path in control_paths(pattern) if expected else ():
                for who, codes in ((world.nobody, {401, 403} if expected == 403 else {401}),
                                   (world.alice, {expected}), (world.token, {403, 404, expected})):
                    try:
                        got = world.both(lambda names, w=who, p=path, b=body, v=verb: w.http(v, p, names, b))
                        assert got.code in codes, f"wanted {codes}, got {got}"
                        assert got.code != 200 or not world.leaks(got), got
                    except AssertionError as error:
                        wrong.append(f"{verb} {path} {body} {who.mine}: {error}")
    assert not wrong, "\n".join(wrong)
    for path in ("/sandboxes/{session}", "/sandboxes/{sandbox}", "/templates/{template}/tags"):
        assert world.bob.http("GET", path, world.names).code == 200, path


# --- inside sandboxes ---

def to(noun, port, names, by_host):
    """Headers or the host name that lead to a port of a sandbox."""
    if by_host:
        return {}, f"{port}-{names[noun]}.{DOMAIN}"
    return {"e2b-sandbox-id": names[noun], "e2b-sandbox-port": str(port)}, None


def strangers(world):
    """Nobody, and those whose credentials are for something else."""
    yield world.nobody, {}
    yield world.alice, {}
    yield world.nobody, {"authorization": f"Bearer {world.alice.key}"}
    yield world.nobody, {"x-access-token": world.alice_token}
    yield world.nobody, {"e2b-traffic-access-token": world.alice_token}
    yield world.nobody, {"authorization": "Bearer somebody-elses", "x-access-token": "wrong"}


def knock(world, noun, port, verb="GET", path="/index.html", extra=None, who=None):
    def ask(names, by_host=False):
        headers, host = to(noun, port, names, by_host)
        return (who or world.nobody).http(verb, path, names, {} if verb == "POST" else None,
                                          headers | (extra or {}), host)
    return ask


@case
def envd(world):
    """envd: of a session that no E2B client made nothing is told; one that was is guarded by its token"""
    signature = "v1_" + "A" * 43
    wrong = []
    for route in routes("envd"):
        verb, path = route.split(" ")
        for query in ("", f"?path=/etc/passwd&signature={signature}"):
            for who, extra in strangers(world):
                for by_host in (False, True):
                    for noun in ("session", "paused"):
                        ask = knock(world, noun, ENVD_PORT, verb, path + query, extra, who)
                        got = world.both(lambda names, a=ask, b=by_host: a(names, b))
                        if got.code != 502:
                            wrong.append((route, noun, extra, got))
                    for noun in ("sandbox", "guarded"):
                        got = knock(world, noun, ENVD_PORT, verb, path + query, extra, who)(world.names, by_host)
                        if got.code != (204 if path == "/health" else 401):
                            wrong.append((route, noun, extra, got))
    assert not wrong, "\n".join(map(str, wrong))
    for noun in ("session", "sandbox"):
        mine = {"x-access-token": tokens(world.bob, world.names[noun])["accessToken"]}
        for by_host in (False, True):
            path = "/files?path=/workspace/index.html"
            got = knock(world, noun, ENVD_PORT, "GET", path, mine)(world.names, by_host)
            assert (got.code, got.text.encode()) == (200, SERVED), got


@case
def ports(world):
    """ports: private, but of sandboxes of E2B clients and those that were exposed; the owner gets through"""
    for by_host in (False, True):
        for who, extra in strangers(world):
            for noun, port in (("session", 8000), ("session", 9999), ("session", 53), ("paused", 8000)):
                ask = knock(world, noun, port, extra=extra, who=who)
                got = world.both(lambda names, a=ask, b=by_host: a(names, b))
                assert got.code == 502 and "not found" in got.text, got
            for noun, port, code in (("session", 8001, 200), ("sandbox", 8000, 200), ("guarded", 8000, 403),
                                     ("sandbox", 9999, 502), ("sandbox", 53, 502)):
                got = knock(world, noun, port, extra=extra, who=who)(world.names, by_host)
                assert got.code == code and (code != 200 or got.text.encode() == SERVED), (noun, port, got)
        mine = tokens(world.bob, "bobs1")
        for extra in ({"x-api-key": world.bob.key}, {"authorization": f"Bearer {world.bob.key}"},
                      {"x-access-token": mine["accessToken"]}, {"e2b-traffic-access-token": mine["trafficToken"]}):
            got = knock(world, "session", 8000, extra=extra)(world.names, by_host)
            assert (got.code, got.text.encode()) == (200, SERVED), (extra, got)
    assert world.bob.get("bobs2")["state"] == "SESSION_STATE_PAUSED", "nobody woke it"
    got = knock(world, "paused", 8000, who=world.bob)(world.names)
    assert got.code == 200, got
    world.bob.call(SANDBOX + "PauseSession", {"sessionId": "bobs2", "mode": "PAUSE_MODE_FREEZE"})


def sign(path, operation, user, token):
    text = f"{path}:{operation}:{user}:{token}"
    return "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


@case
def signed_urls(world):
    """signed URLs: only by the session's own token, for a path of bounded length"""
    def url(token, path="/workspace/index.html"):
        signature = sign(path, "read", "", token).replace("+", "%2B")
        return f"/files?path={path}&signature={signature}"
    own = tokens(world.bob, "bobs1")["accessToken"]
    got = world.nobody.http("GET", url(own), world.names)
    assert (got.code, got.text.encode()) == (200, SERVED), got
    for token in (world.alice_token, "x"):
        ask = knock(world, "session", ENVD_PORT, path=url(token))
        assert world.both(ask).code == 502
    assert world.nobody.http("GET", url("x"), world.names).code == 401
    assert world.nobody.http("GET", url(own, "/workspace/" + "x" * 5000), world.names).code == 401


@case
def wrong_signatures(world):
    """who is wrong without a sandbox is soon told to wait; with the sandbox nobody waits"""
    path = "/workspace/index.html"

    def ask(token, **headers):
        signature = sign(path, "read", "", token).replace("+", "%2B")
        return world.nobody.http("GET", f"/files?path={path}&signature={signature}", world.names,
                                 headers=headers).code
    for _ in range(3):
        world.alice.fork("alices1", count=100, lazyStart=True)
    eventually(lambda: ask("x") == 429, "it is enough")
    own = tokens(world.bob, "bobs1")["accessToken"]
    assert ask(own, **{"e2b-sandbox-id": "bobs1", "e2b-sandbox-port": str(ENVD_PORT)}) == 200
    eventually(lambda: ask(own) == 200, "the next second")


@case
def what_is_gone(world):
    """what became of a session is told to its owner; of a sandbox of an E2B client, to who asks"""
    world.bob.create("bobs3")
    world.bob.destroy("bobs3")
    names = world.names | {"session": "bobs3"}
    real, missing = (knock(world, "session", 8000)(which) for which in (names, names | MISSING))
    assert real == missing and real.code == 502, (real, missing)
    try:
        world.bob.get("bobs3")
        raise AssertionError("it is there")
    except RpcError as error:
        assert "was destroyed" in error.message, error
    made = world.bob.http("POST", "/sandboxes", {}, {"templateID": "small"})
    sandbox = re.search(r'"sandboxID":\s*"(\w+)"', made.text)[1]
    assert world.bob.http("DELETE", f"/sandboxes/{sandbox}", {}).code == 204
    assert "was destroyed" in knock(world, "session", 8000)(world.names | {"session": sandbox}).text


@case
def verbs_of_the_owner(_):
    """what is refused to strangers reaches the owner's own things: the refusals mean something"""
    with new_world() as world:  # not much is left of it afterwards
        asks_as_the_owner(world)


def asks_as_the_owner(world):
    for path, descriptor, expected, messages in decisions():
        asked = str(messages)
        if expected != GONE or "{mine}" in asked or "{raw}" in asked:  # nobody's name for anything
            continue
        got = world.bob.ask(path, descriptor, messages_of(messages, world), world.names)
        assert got.code not in (GONE, DENIED, "unauthenticated"), (path, fill(messages, world.names), got)


@contextlib.contextmanager
def new_world():
    with small_cayd("--e2b-domain", DOMAIN, "--runtimes", "none") as daemon:
        world = World(daemon)
        frames = world.alice.stream(SANDBOX + "ExportSession", {"sessionId": "alices1"})
        world.export = b64(b"".join(unb64(frame.get("data")) for frame in frames))
        yield world


def main():
    """The cases share a world: to ask as a stranger changes nothing, and that is checked at the end."""
    list_if_asked()
    with new_world() as world:
        run(world)


if __name__ == "__main__":
    main()
