#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""curl, as people use it, and h2load."""

import json
import re
import subprocess
import urllib.parse

from clients import ECHOD, Daemon, at_end, case, cayd, eventually, folder, list_if_asked, run

SERVICE = "/cay.test.v1.EchoService/"
JSON = ("-H", "content-type: application/json")
VERSIONS = ("--http1.1", "--http2-prior-knowledge")


class Page:
    def __init__(self, text):
        body, _, tail = text.rpartition("\n")
        self.body = body
        self.status, self.version, self.kind = tail.split(" ", 2)
        self.status = int(self.status)

    def json(self):
        return json.loads(self.body)


def curl(url, *flags):
    done = subprocess.run(
        ["curl", "-sS", "--max-time", "20", "-w", "\n%{http_code} %{http_version} %{content_type}",
         *flags, url], check=True, capture_output=True, text=True)
    return Page(done.stdout)


@case
def posts(daemon):
    """a JSON POST is answered"""
    for version in VERSIONS:
        page = curl(daemon.url + SERVICE + "Unary", version, *JSON, "-d", '{"text":"grüß"}')
        assert page.status == 200 and page.json()["text"] == "grüß", page.body
        assert page.version == ("2" if "http2" in version else "1.1")
    page = curl(daemon.url + SERVICE + "Unary", "--json", '{"text":"short"}')
    assert page.json()["text"] == "short"
    page = curl(daemon.url + SERVICE + "Unary", "--compressed", *JSON, "-d",
                json.dumps({"text": "squeeze " * 1000}))
    assert page.json()["text"] == "squeeze " * 1000
    large = json.dumps({"text": "x" * 3_000_000})
    done = subprocess.run(["curl", "-sS", *JSON, "-d", "@-", daemon.url + SERVICE + "Unary"],
                          input=large, check=True, capture_output=True, text=True)
    assert len(json.loads(done.stdout)["text"]) == 3_000_000  # with Expect: 100-continue


@case
def gets(daemon):
    """a method without side effects is answered by GET"""
    query = urllib.parse.urlencode({"connect": "v1", "encoding": "json",
                                    "message": '{"text":"a&b"}'})
    for version in VERSIONS:
        page = curl(f"{daemon.url}{SERVICE}IdempotentUnary?{query}", version)
        assert page.status == 200 and page.json()["text"] == "a&b", page.body
    page = curl(daemon.url + SERVICE + "IdempotentUnary", "-G", "-d", "connect=v1", "-d",
                "encoding=json", "--data-urlencode", 'message={"text":"+ %"}')
    assert page.json()["text"] == "+ %"


@case
def refusals(daemon):
    """what is wrong is said with status and sentence, in JSON"""
    for flags, path, status, code in (
            (("-X", "PUT"), SERVICE + "Unary", 405, None),
            ((), SERVICE + "Unary", 405, None),
            (("-H", "content-type: text/plain", "-d", "{}"), SERVICE + "Unary", 415, None),
            (("-d", "a=b"), SERVICE + "Unary", 415, None),
            ((*JSON, "-d", "{}"), SERVICE + "Nope", 404, "unimplemented"),
            ((), "/", 404, None),
            ((*JSON, "-d", "{"), SERVICE + "Unary", 400, "invalid_argument"),
            ((*JSON, "-d", '{"reason":"session_paused"}'), SERVICE + "Fail", 400,
             "failed_precondition"),
            ((*JSON, "-H", "connect-timeout-ms: 20", "-d", '{"delayMs":9999}'), SERVICE + "Slow",
             504, "deadline_exceeded")):
        for version in VERSIONS:
            page = curl(daemon.url + path, version, *flags)
            assert page.status == status and page.kind == "application/json", (flags, vars(page))
            assert page.json()["message"] and code in (None, page.json()["code"]), page.body


@case
def heads(daemon):
    """HEAD has no body"""
    for version in VERSIONS:
        page = curl(daemon.url + SERVICE + "Stats", version, "-I")
        assert page.status == 405, page.body


@case
def keys(_):
    """a key is needed where one is set"""
    with Daemon(ECHOD, "--key", "s3cret") as guarded:
        for version in VERSIONS:
            page = curl(guarded.url + SERVICE + "Unary", version, *JSON, "-d", "{}")
            assert page.status == 401 and page.json()["code"] == "unauthenticated"
            assert "key" in page.json()["message"]
            for header in ("Authorization: Bearer s3cret", "X-API-Key: s3cret"):
                page = curl(guarded.url + SERVICE + "Unary", version, "-H", header, *JSON, "-d", "{}")
                assert page.status == 200 and page.json()["owner"] == "tester"


@case
def upgrades(daemon):
    """an offer to upgrade to h2c is passed over"""
    page = curl(daemon.url + SERVICE + "Unary", "--http2", *JSON, "-d", "{}")
    assert page.status == 200 and page.version == "1.1"


@case
def unix_sockets(_):
    """a Unix socket needs no key"""
    with folder() as path, Daemon(ECHOD, "--key", "s3cret", listen=f"unix:{path}/s"):
        page = curl("http://localhost" + SERVICE + "Unary", "--unix-socket", f"{path}/s", *JSON,
                    "-d", "{}")
        assert page.status == 200 and page.json()["owner"] == "local"


def h2load(daemon, *flags):
    with folder() as path:
        (path / "body").write_text('{"text":"hi"}')
        done = subprocess.run(
            ["h2load", *flags, "-H", "content-type: application/json", "-d", path / "body",
             daemon.url + SERVICE + "Unary"], check=True, capture_output=True, text=True, timeout=30)
    found = re.search(r"(\d+) total, .* (\d+) succeeded, (\d+) failed", done.stdout)
    codes = re.search(r"status codes: (\d+) 2xx", done.stdout)
    assert found and codes, done.stdout
    return int(found[2]), int(found[3]), int(codes[1])


@case
def load(daemon):
    """h2load has all its requests answered, by both versions"""
    before = daemon.settled()
    assert h2load(daemon, "-n", "20000", "-c", "10", "-m", "20") == (20000, 0, 20000)
    assert h2load(daemon, "--h1", "-n", "20000", "-c", "10", "-m", "5") == (20000, 0, 20000)
    eventually(lambda: daemon.stats()["fds"] == before["fds"], "all connections end")


@at_end
def ends_well(daemon):
    """the daemon ends with status 0"""
    assert daemon.stop() == 0


@case
def with_cayd(_):
    """cayd: health, keys and refusals, as the documentation shows them"""
    with cayd() as daemon:
        bearer = ("-H", f"Authorization: Bearer {daemon.key}")
        for version in VERSIONS:
            assert curl(daemon.url + "/healthz", version).status == 200
            page = curl(daemon.url + "/cay.v1.SandboxService/HealthCheck", version, *bearer, *JSON,
                        "-d", "{}")
            assert page.status == 200 and page.json()["status"].startswith("HEALTH_"), page.body
            page = curl(daemon.url + "/cay.v1.KeyService/ListKeys", version, *JSON, "-d", "{}")
            assert page.status == 401 and page.json()["code"] == "unauthenticated"
            page = curl(daemon.url + "/cay.v1.KeyService/ListKeys", version, "-H",
                        "Authorization: Bearer cay_0000", *JSON, "-d", "{}")
            assert page.status == 401, page.body
            assert curl(daemon.url + "/nowhere", version, *bearer).status == 404
        page = curl(daemon.url + "/cay.v1.SandboxService/HealthCheck", "-G", *bearer, "-d",
                    "connect=v1", "-d", "encoding=json", "--data-urlencode", "message={}")
        assert page.status == 200, page.body
        page = curl(daemon.url + "/metrics", *bearer)
        assert page.status in (200, 401, 403), page.body
        page = curl("http://localhost/cay.v1.KeyService/CreateKey", "--unix-socket",
                    daemon.socket_path, *JSON, "-d", '{"owner":"user","role":"KEY_ROLE_USER"}')
        user = ("-H", "X-API-Key: " + page.json()["secret"])
        page = curl(daemon.url + "/cay.v1.KeyService/CreateKey", *user, *JSON, "-d", "{}")
        assert page.status == 403 and page.json()["code"] == "permission_denied", page.body
        assert curl(daemon.url + "/cay.v1.KeyService/ListKeys", *user, *JSON, "-d",
                    "{}").status == 200


if __name__ == "__main__":
    list_if_asked()
    run(Daemon(ECHOD))
