#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""E2B's wire as its Python SDK speaks it, by Python's own library: JSON of the Connect protocol, pollers
instead of watch streams, multipart as httpx writes it. The SDK itself is not here; the agent of
docs/e2b.md runs on what stands in for it."""

import base64
import contextlib
import gzip
import io
import json
import re
import struct
import subprocess
import sys
import types
import urllib.parse
import uuid
from http.client import HTTPConnection

from clients import CAYD, ROOT, Skip, case, cayd, eventually, folder, list_if_asked, run
import debian_base

ENVD_PORT = 49983


class CommandExitException(Exception):
    def __init__(self, exit_code, stdout, stderr):
        super().__init__(f"exit {exit_code}: {stderr}")
        self.exit_code, self.stdout, self.stderr = exit_code, stdout, stderr


class Sandbox:
    """The few calls that are tried here, with the names the SDK gives them."""

    server = None  # the daemon and a key: what the SDK has from the environment
    missing = ""  # why there is none

    def __init__(self, answer):
        self.sandbox_id = answer["sandboxID"]
        self.token = answer["envdAccessToken"]
        self.commands = types.SimpleNamespace(run=self.run)

    @classmethod
    def api(cls, method, path, body=None):
        """The control plane."""
        if cls.missing:
            raise Skip(cls.missing)
        status, _, data = exchange(cls.server, method, path, None if body is None else json.dumps(body).encode(), {
            "X-API-Key": cls.server.e2b_key, "Content-Type": "application/json", "User-Agent": "e2b-python-sdk/2"})
        return status, json.loads(data) if data else None

    @classmethod
    def create(cls, template="base", timeout=300, metadata=None, envs=None):
        status, answer = cls.api("POST", "/sandboxes", {
            "templateID": template, "timeout": timeout, "metadata": metadata or {}, "envVars": envs or {}, "secure": True,
            "autoPause": False, "allow_internet_access": True})
        assert status == 201, answer
        return cls(answer)

    def fork(self, timeout=300, count=1):
        status, answer = self.api("POST", f"/sandboxes/{self.sandbox_id}/fork", {"timeout": timeout, "count": count})
        assert status == 201, answer
        return [Sandbox(each["sandbox"]) for each in answer]

    def kill(self):
        return self.api("DELETE", f"/sandboxes/{self.sandbox_id}")[0] == 204

    def envd(self, method, path, body=None, headers=None):
        return exchange(self.server, method, path, body, {
            "E2b-Sandbox-Id": self.sandbox_id, "E2b-Sandbox-Port": str(ENVD_PORT), "X-Access-Token": self.token,
            "Accept": "*/*", "Accept-Encoding": "gzip, deflate", "User-Agent": "python-httpx/0.28", **(headers or {})})

    def rpc(self, method, message, user=None, **headers):
        """A unary call."""
        status, _, data = self.envd("POST", f"/filesystem.Filesystem/{method}", json.dumps(message).encode(), {
            "Content-Type": "application/json", "Connect-Protocol-Version": "1", "Connect-Timeout-Ms": "60000",
            **as_user(user), **headers})
        return status, json.loads(data)

    def run(self, command, user=None, envs=None, cwd=None):
        """A call with a stream of answers."""
        process = {"cmd": "/bin/bash", "args": ["-l", "-c", command], "envs": envs or {}} | ({"cwd": cwd} if cwd else {})
        message = json.dumps({"process": process, "stdin": False}).encode()
        status, headers, data = self.envd("POST", "/process.Process/Start", b"\0" + struct.pack(">I", len(message)) + message, {
            "Content-Type": "application/connect+json", "Connect-Protocol-Version": "1", "Connect-Timeout-Ms": "60000",
            "Connect-Content-Encoding": "identity", "Connect-Accept-Encoding": "identity",
            "Keepalive-Ping-Interval": "50", **as_user(user)})
        assert (status, headers["content-type"]) == (200, "application/connect+json"), (status, data)
        events = list(envelopes(data))
        assert events[0]["event"]["start"]["pid"] and "event" not in events[-1], events
        if "error" in events[-1]:
            raise RuntimeError(events[-1]["error"]["code"])
        output = {"stdout": b"", "stderr": b""}
        for event in events[1:-2]:
            for name, piece in event["event"].get("data", {}).items():
                output[name] += base64.b64decode(piece)
        result = types.SimpleNamespace(exit_code=events[-2]["event"]["end"].get("exitCode", 0),
                                       **{name: text.decode() for name, text in output.items()})
        if result.exit_code:
            raise CommandExitException(result.exit_code, result.stdout, result.stderr)
        return result


def as_user(user):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:".encode()).decode()} if user else {}


def exchange(server, method, path, body, headers):
    """One request; a body that is no bytes goes in chunks, as httpx sends what it cannot measure."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, names, gzip.decompress(data) if names.get("content-encoding") == "gzip" else data
    finally:
        connection.close()


def envelopes(data):
    while data:
        flags, length = struct.unpack(">BI", data[:5])
        assert flags in (0, 2), flags
        yield json.loads(data[5:5 + length])
        data = data[5 + length:]


def multipart(files):
    """(type, body) of a form as httpx writes it: a boundary of 32 digits, quotes in names escaped."""
    boundary = uuid.uuid4().hex
    body = io.BytesIO()
    for name, kind, data in files:
        quoted = name.replace("\\", "\\\\").replace('"', "%22")
        body.write(f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n'
                   f"Content-Type: {kind}\r\n\r\n".encode() + data + b"\r\n")
    body.write(f"--{boundary}--\r\n".encode())
    return f"multipart/form-data; boundary={boundary}", body.getvalue()


def files_path(**query):
    return "/files?" + urllib.parse.urlencode(query)


@contextlib.contextmanager
def sandbox(**options):
    made = Sandbox.create(**options)
    try:
        yield made
    finally:
        made.kill()


@case
def lives():
    """a sandbox is made, found, extended, listed and killed"""
    made = Sandbox.create(timeout=60, metadata={"agent": "py"}, envs={"FROM": "sandbox"})
    status, info = Sandbox.api("GET", f"/sandboxes/{made.sandbox_id}")
    assert status == 200 and info["state"] == "running" and info["metadata"] == {"agent": "py"}, info
    assert Sandbox.api("POST", f"/sandboxes/{made.sandbox_id}/timeout", {"timeout": 120})[0] == 204
    assert Sandbox.api("POST", f"/sandboxes/{made.sandbox_id}/connect", {"timeout": 60})[0] == 200
    _, listed = Sandbox.api("GET", "/v2/sandboxes?" + urllib.parse.urlencode({"metadata": "agent=py", "state": "running,paused"}))
    assert [entry["sandboxID"] for entry in listed] == [made.sandbox_id], listed
    assert made.envd("GET", "/health")[0] == 204
    assert made.kill() and not made.kill()
    assert made.envd("GET", "/health")[0] == 502


@case
def commands():
    """commands stream in JSON, as any user, with their exit codes"""
    with sandbox(envs={"FROM": "sandbox"}) as box:
        said = box.run("echo $FROM $HERE; pwd; echo ü >&2", envs={"HERE": "call"}, cwd="/tmp")
        assert (said.stdout, said.stderr) == ("sandbox call\n/tmp\n", "ü\n"), said
        assert box.run("id -u", user="root").stdout == "0\n"
        try:
            box.run("echo partly; exit 3")
            raise AssertionError("it went well")
        except CommandExitException as error:
            assert (error.exit_code, error.stdout) == (3, "partly\n")


@case
def forms():
    """files come as forms, one and many, measured and in chunks; packed ones as bytes"""
    with sandbox() as box:
        kind, body = multipart([("ignored.txt", "text/plain", "één".encode())])
        status, _, data = box.envd("POST", files_path(path="sub/one.txt", username="user"), body, {"Content-Type": kind})
        assert status == 200 and [entry["name"] for entry in json.loads(data)] == ["one.txt"], data
        large = bytes(range(256)) * 5000
        names = ["/tmp/two words.bin", "ünï/three.bin", 'quo"te.bin']
        kind, body = multipart([(name, "application/octet-stream", large + name.encode()) for name in names])
        pieces = (body[at:at + 70_000] for at in range(0, len(body), 70_000))
        status, _, data = box.envd("POST", "/files", pieces, {"Content-Type": kind})
        written = [entry["path"] for entry in json.loads(data)]
        assert status == 200 and len(written) == 3 and written[0] == names[0], (status, data)
        for name, path in zip(names, written):
            status, _, data = box.envd("GET", files_path(path=path))
            assert status == 200 and data == large + name.encode(), (name, status, len(data))
        packed = {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
        assert box.envd("POST", files_path(path="packed.bin"), gzip.compress(large), packed)[0] == 200
        status, headers, data = box.envd("GET", files_path(path="packed.bin"), headers={"Accept-Encoding": "gzip"})
        assert (status, data) == (200, large), (status, headers)
        assert box.envd("GET", files_path(path="missing"))[0] == 404


@case
def trees():
    """directories are made, listed, moved and removed by unary calls"""
    with sandbox() as box:
        assert box.rpc("MakeDir", {"path": "d/e"})[0] == 200
        assert box.rpc("MakeDir", {"path": "d/e"})[1]["code"] == "already_exists"
        assert box.rpc("MakeDir", {"path": "r"}, user="root")[1]["entry"]["path"].split("/") == ["", "root", "r"]
        _, answer = box.rpc("ListDir", {"path": "d", "depth": 1})
        entry, = answer["entries"]
        assert entry["type"] == "FILE_TYPE_DIRECTORY" and entry["owner"] == "user" and isinstance(entry["size"], str), entry
        assert box.rpc("Move", {"source": "d/e", "destination": "d/f"})[0] == 200
        assert box.rpc("Stat", {"path": "d/f"})[1]["entry"]["name"] == "f"
        assert box.rpc("Remove", {"path": "d"})[0] == 200
        status, answer = box.rpc("Stat", {"path": "d"})
        assert (status, answer["code"]) == (404, "not_found"), answer


@case
def pollers():
    """a directory is watched by asking for what is new"""
    with sandbox() as box:
        box.rpc("MakeDir", {"path": "w"})
        _, made = box.rpc("CreateWatcher", {"path": "w", "recursive": True})
        watcher = {"watcherId": made["watcherId"]}
        seen = set()

        def saw(*wanted):
            answer = box.rpc("GetWatcherEvents", watcher)[1]
            seen.update((event["name"], event["type"].removeprefix("EVENT_TYPE_")) for event in answer.get("events", []))
            return seen >= set(wanted)

        box.run("mkdir w/deep")
        eventually(lambda: saw(("deep", "CREATE")), "a directory")
        box.run("echo x > w/deep/file && mv w/deep/file w/deep/other")
        eventually(lambda: saw(("deep/file", "CREATE"), ("deep/file", "RENAME"), ("deep/other", "CREATE")), "what is in it")
        assert box.rpc("RemoveWatcher", watcher)[0] == 200
        assert box.rpc("GetWatcherEvents", watcher)[1]["code"] == "not_found"


@case
def agent():
    """the agent in docs/e2b.md prints what stands there"""
    page = (ROOT / "docs/e2b.md").read_text()
    code, = re.findall(r"```python\n(.*?)```", page, re.S)
    printed = re.findall(r"It prints\n\n```\n(.*?)```", page, re.S)[0]  # as the first program in JavaScript does
    stand_in = types.ModuleType("e2b")
    stand_in.Sandbox, stand_in.CommandExitException = Sandbox, CommandExitException
    sys.modules["e2b"] = stand_in
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "docs/e2b.md", "exec"), {})
    assert out.getvalue() == printed, out.getvalue()


def main():
    list_if_asked()
    with folder() as home:
        try:
            kept = debian_base.data_of(CAYD, "debian")
        except debian_base.Missing as reason:
            Sandbox.missing = str(reason)
            run()
        debian_base.link(kept, f"{home}/data")
        with cayd("--e2b-template", "debian", "--default-base", "debian", "--destroy-on-exit",
                  "--log-level", "error", home=home) as server:
            made = subprocess.run(["curl", "-sS", "--fail-with-body", "--unix-socket", server.socket_path, "-H",
                                   "content-type: application/json", "-d", '{"owner":"alice","role":"KEY_ROLE_USER","e2b":true}',
                                   "http://localhost/cay.v1.KeyService/CreateKey"], check=True, capture_output=True)
            server.e2b_key = json.loads(made.stdout)["secret"]
            Sandbox.server = server
            run()


if __name__ == "__main__":
    main()
