#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""buf: lint of the contract, its guard against breaking changes, and buf curl over its three protocols.

A change that clients can live with, such as a new field, goes into the guard with
`tools/buf build proto --exclude-source-info -o tests/clients/contract.binpb`."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from clients import (CONTRACT_SET, ECHO_SET, ECHOD, ROOT, Daemon, at_end, case, cayd, list_if_asked, run)

BUF = ROOT / "tools/buf"
PROTOCOLS = ("connect", "grpc", "grpcweb")
# buf's exit status of an RPC error is the code's number times eight.
CODES = {"not_found": 5, "resource_exhausted": 8, "unimplemented": 12, "unauthenticated": 16}


def buf(*arguments, data=None):
    return subprocess.run([BUF, *arguments], capture_output=True, check=False, text=True,
                          input=data, timeout=30, cwd=ROOT)


def curl(daemon, method, data, *flags, schema=ECHO_SET, service="cay.test.v1.EchoService"):
    return buf("curl", "--schema", f"{Path(schema).resolve()}#format=binpb", *flags, "--data", data,
               f"{daemon.url}/{service}/{method}")


def answers(done):
    """The JSON objects of the output, one after the other."""
    assert done.returncode == 0, done
    decoder, text, found = json.JSONDecoder(), done.stdout.strip(), []
    while text:
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:].strip()
    return found


def each_protocol():
    for protocol in PROTOCOLS:
        for version in ((), ("--http2-prior-knowledge",)):
            if protocol != "grpc" or version:
                yield ("--protocol", protocol, *version)


@case
def there(_):
    """the pinned buf is there"""
    done = buf("--version")
    pinned = json.loads((ROOT / "tests/clients/package.json").read_text())
    assert done.stdout.strip() == pinned["dependencies"]["@bufbuild/buf"], done


@case
def lint(_):
    """buf lint finds nothing in the contract"""
    done = buf("lint", "proto")
    assert done.returncode == 0, done.stdout + done.stderr


@case
def unbroken(_):
    """what clients were built with still fits; and the guard sees what would not"""
    against = ("--against", "tests/clients/contract.binpb")
    done = buf("breaking", "proto", *against)
    assert done.returncode == 0, done.stdout + done.stderr
    with tempfile.TemporaryDirectory() as folder:
        broken = Path(folder) / "proto"
        shutil.copytree(ROOT / "proto", broken)
        path = broken / "cay/v1/key.proto"
        text = path.read_text()
        assert "string owner = " in text
        path.write_text(text.replace("string owner = ", "bytes owner = ", 1))
        done = buf("breaking", str(broken), *against)
        assert done.returncode != 0 and "owner" in done.stdout, done


@case
def lint_can_fail(_):
    """buf lint would find something"""
    done = buf("lint", "tests/proto")
    assert done.returncode == 100, done


@case
def unary(daemon):
    """unary calls by all protocols"""
    for flags in each_protocol():
        answer, = answers(curl(daemon, "Unary", '{"text":"grüß","number":"-5"}', *flags))
        assert answer["text"] == "grüß" and answer["number"] == "-5", (flags, answer)


@case
def streams(daemon):
    """streams by all protocols"""
    for flags in each_protocol():
        got = answers(curl(daemon, "ServerStream", '{"count":20,"sizeBytes":100}', *flags))
        assert [message.get("index", 0) for message in got] == list(range(20)), flags
        answer, = answers(curl(daemon, "ClientStream", '{"payload":"QUJD"}{"payload":"QUI="}',
                               *flags))
        assert answer == {"messages": "2", "bytes": "5"}, (flags, answer)
        got = answers(curl(daemon, "Bidi", '{"payload":"QUJD"}{"payload":"QUI="}', *flags)
                      if "--http2-prior-knowledge" in flags else
                      curl(daemon, "ServerStream", '{"count":2}', *flags))
        assert len(got) == 2, (flags, got)


@case
def errors(daemon):
    """errors are known by their exit status, with sentence and reason"""
    for flags in each_protocol():
        for reason, code in (("session_not_found", "not_found"), ("no_space", "resource_exhausted")):
            done = curl(daemon, "Fail", json.dumps({"reason": reason, "text": "say 'why' 100%"}),
                        *flags)
            assert done.returncode == 8 * CODES[code], (flags, done)
            error = json.loads(done.stderr)
            assert error["code"] == code and error["message"] == "say 'why' 100%", error
            assert "ErrorInfo" in error["details"][0]["type"], error
        done = curl(daemon, "Unimplemented", "{}", *flags)
        assert done.returncode == 8 * CODES["unimplemented"], (flags, done)
        done = curl(daemon, "ServerStream", '{"count":2,"failReason":"no_space"}', *flags)
        assert done.returncode == 8 * CODES["resource_exhausted"], (flags, done)


@case
def keys(_):
    """keys in headers"""
    with Daemon(ECHOD, "--key", "s3cret") as guarded:
        for flags in each_protocol():
            done = curl(guarded, "Unary", "{}", *flags)
            assert done.returncode == 8 * CODES["unauthenticated"], (flags, done)
            answer, = answers(curl(guarded, "Unary", "{}", *flags, "-H",
                                   "Authorization: Bearer s3cret"))
            assert answer["owner"] == "tester"


@at_end
def ends_well(daemon):
    """the daemon ends with status 0"""
    assert daemon.stop() == 0


@case
def with_cayd(_):
    """cayd: health and keys by all protocols"""
    def ask(daemon, service, method, data, *flags):
        return curl(daemon, method, data, *flags, "-H", f"Authorization: Bearer {daemon.key}",
                    schema=CONTRACT_SET, service=f"cay.v1.{service}")

    with cayd() as daemon:
        for flags in each_protocol():
            answer, = answers(ask(daemon, "SandboxService", "HealthCheck", "{}", *flags))
            assert answer["status"].startswith("HEALTH_STATUS_"), answer
            made, = answers(ask(daemon, "KeyService", "CreateKey", '{"owner":"somebody"}', *flags))
            listed, = answers(ask(daemon, "KeyService", "ListKeys", "{}", *flags))
            assert made["key"]["id"] in [key["id"] for key in listed["keys"]]
            done = ask(daemon, "KeyService", "RevokeKey", '{"keyId":"nothing"}', *flags)
            assert done.returncode == 8 * CODES["not_found"], done
            done = curl(daemon, "HealthCheck", "{}", *flags, schema=CONTRACT_SET,
                        service="cay.v1.SandboxService")
            assert done.returncode == 8 * CODES["unauthenticated"], done


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    list_if_asked()
    run(Daemon(ECHOD))
