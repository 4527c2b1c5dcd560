# SPDX-License-Identifier: Apache-2.0
"""Two owners on one daemon, for tests of who may know of what: bob has one of everything, alice asks.

Whatever alice says about a thing of bob's she also says about a thing that does not exist. The two
answers must be the same, but for the names.
"""

import http.client
import json
import re

from daemon import BASE, KEY, PROCESS, PATIENCE_S, SANDBOX, Client, RpcError, Stream, b64, eventually
from process_client import Processes

DOMAIN = "sandboxes.test"
ENVD_PORT = 49983
SERVED = b"inside\n"

# The nouns, by the names that a caller could use for them; those of the second do not exist.
MISSING = {
    "session": "nosuch1", "paused": "nosuch2", "base": "nosuch-base", "alias": "bob/nosuch:v1",
    "raw": "bob-_snosuch-_cv1", "snapshot": "nosuch-snapshot", "build": "nosuch-build",
    "process": "p00000000000000000000", "key": "k00000000000000000000", "sandbox": "i000000000000000000",
    "guarded": "i000000000000000001", "template": "nosuch", "files": "0" * 64, "owner": "nobody",
    "secret": "nosuch-secret",
}


def fill(value, names):
    """The request with names in the place of {nouns}."""
    if isinstance(value, dict):
        return {key: fill(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill(inner, names) for inner in value]
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda match: names[match[1]], value)
    return value


def blur(text, names):
    """The answer without the names that it may have from the question, and without times."""
    for noun, name in sorted(names.items(), key=lambda item: -len(item[1])):
        text = text.replace(name, f"<{noun}>")
    text = text.replace("bob/", "<owner>/")
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>", text)
    return re.sub(r'"(uptime|cursor|checkedAt|measuredAt|requestId)":\s*"[^"]*"', r'"\1":"<some>"', text)


class Outcome:
    """How a call came out: a code (`ok` when it is good) and the words."""

    def __init__(self, code, text):
        self.code = code
        self.text = text

    def __eq__(self, other):
        return (self.code, self.text) == (other.code, other.text)

    def __repr__(self):
        return f"{self.code} {self.text[:600]}"


class Owner(Client):
    """A key of an owner, or the token of one session."""

    def __init__(self, daemon, secret, mine=None):
        super().__init__(daemon, secret)
        self.mine = mine

    def ask(self, method, descriptor, messages, names, reads_all=False):
        """A call of any kind: its first answer (or all), or its error."""
        messages = fill(messages, names | {"mine": self.mine or names["session"]})
        try:
            if not descriptor.client_streaming and not descriptor.server_streaming:
                text = json.dumps(self.call(method, messages[0]))
            else:
                with Stream(self, method) as stream:
                    for message in messages:
                        stream.send(message)
                    if not (descriptor.client_streaming and descriptor.server_streaming):
                        stream.end()
                    text = json.dumps(list(stream) if reads_all else stream.next())
        except RpcError as error:
            return Outcome(error.code, blur(f"{error.reason}: {error.message}", names))
        return Outcome("ok", blur(text, names))

    def http(self, verb, path, names, body=None, headers=None, host=None):
        """A request as it is; the key is in X-API-Key."""
        connection = http.client.HTTPConnection(self.daemon.host, self.daemon.port, timeout=PATIENCE_S)
        headers = {"host": host or f"{self.daemon.host}:{self.daemon.port}"} | fill(headers or {}, names)
        if self.key:
            headers.setdefault("x-api-key", self.key)
        data = None if body is None else json.dumps(fill(body, names)).encode()
        if data is not None:
            headers.setdefault("content-type", "application/json")
        connection.request(verb, fill(path, names), data, headers)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        connection.close()
        return Outcome(answer.status, blur(text, names))


class Nobody(Owner):
    """Somebody on the network without a key."""

    def __init__(self, daemon):
        super().__init__(daemon, "x")
        self.key, self.auth = None, ""

    def socket(self, timeout_s):
        self.key = "x"  # by TCP all the same
        try:
            return super().socket(timeout_s)
        finally:
            self.key = None


def tokens(owner, session_id):
    return owner.call(SANDBOX + "GetSession", {"sessionId": session_id, "includeTokens": True})["tokens"]


def serve(owner, session_id, *ports):
    """A file server of the sandbox's own on each port."""
    owner.write(session_id, "/workspace/index.html", SERVED)
    for port in ports:
        Processes(owner, session_id).start("/usr/bin/busybox", "httpd", "-f", "-p", f"127.0.0.1:{port}",
                                           "-h", "/workspace")
        owner.call(PROCESS + "ExposePort", {"sessionId": session_id,
                                            "port": {"port": port, "waitListening": f"{PATIENCE_S}s"}})
        owner.call(PROCESS + "UnexposePort", {"sessionId": session_id, "port": port})


class World:
    """Bob's things, and three who are not bob."""

    def __init__(self, daemon):
        def key_of(owner):
            return daemon.call(KEY + "CreateKey", {"owner": owner})
        made = key_of("bob")
        self.daemon = daemon
        self.bob = Owner(daemon, made["secret"], mine="bobs1")
        self.alice = Owner(daemon, key_of("alice")["secret"], mine="alices1")
        self.alice.create("alices1")
        self.alice_token = tokens(self.alice, "alices1")["accessToken"]
        self.token = Owner(daemon, self.alice_token, mine="alices1")
        self.nobody = Nobody(daemon)
        self.names = {"owner": "bob", "key": made["key"]["id"], "secret": "bobs-secret"}
        self.bob.call("cay.v1.SecretService/SetSecret", {"name": "bobs-secret", "value": "bobs-value"})
        self._sessions()
        self._base()
        self._sandboxes()
        assert set(self.names) == set(MISSING), set(self.names) ^ set(MISSING)

    def _sessions(self):
        bob = self.bob
        bob.create("bobs1", labels={"whose": "bob"}, lifecycle={"autoResume": True})
        bob.turn("bobs1")
        bob.snapshot("bobs1", "bobs-point")
        process = Processes(bob, "bobs1").start("sleep", "100000")
        serve(bob, "bobs1", 8000, 8001)
        bob.call(PROCESS + "ExposePort", {"sessionId": "bobs1", "port": {"port": 8001}})
        bob.create("bobs2", lifecycle={"autoResume": True})
        serve(bob, "bobs2", 8000)
        bob.call(SANDBOX + "PauseSession", {"sessionId": "bobs2", "mode": "PAUSE_MODE_FREEZE"})
        self.names |= {"session": "bobs1", "paused": "bobs2", "snapshot": "bobs-point",
                       "process": process["id"]}

    def _base(self):
        bob, files = self.bob, "f" * 64
        build = {"name": "bobs-base", "aliases": ["bob/app:v1", "bob/app:default"], "fromBase": "small",
                 "labels": {"cay.e2b/template": "app"},
                 "steps": [{"kind": "BUILD_STEP_KIND_RUN", "args": ["true"]}]}
        bob.call(BASE + "StartBuild", {"build": build, "buildId": "bobs-build"})
        eventually(lambda: bob.call(BASE + "GetBuild", {"buildId": "bobs-build"})["build"]["state"]
                   == "BUILD_STATE_READY", "bob's base is built", PATIENCE_S)
        bob.send_all(BASE + "PutBuildFiles", [{"key": files}, {"data": b64(b"x")}])
        self.names |= {"base": "bobs-base", "alias": "bob/app:v1", "raw": "bob-_sapp-_cv1",
                       "build": "bobs-build", "files": files, "template": "app"}

    def _sandboxes(self):
        """Made by an E2B client: one whose ports are public, and one whose ports are guarded."""
        for noun, network in (("sandbox", {}), ("guarded", {"allowPublicTraffic": False})):
            made = self.bob.http("POST", "/sandboxes", {}, {"templateID": "small", "network": network,
                                                            "secure": True, "timeout": 3600})
            assert made.code == 201, made
            self.names[noun] = json.loads(made.text)["sandboxID"]
            serve(self.bob, self.names[noun], 8000)
        taken = self.bob.http("POST", "/sandboxes/{sandbox}/snapshots", self.names, {})
        assert taken.code in (200, 201), taken

    def leaks(self, outcome):
        """Names of bob's that are in an answer; `blur` has put nouns in the place of names."""
        return re.findall(r"<(?!time>|some>|owner>)(\w+)>", outcome.text)

    def both(self, ask):
        """The answers about bob's thing and about what does not exist: the same."""
        real, missing = ask(self.names), ask(self.names | MISSING)
        assert real == missing, f"tells them apart:\n{real}\n{missing}"
        return real
