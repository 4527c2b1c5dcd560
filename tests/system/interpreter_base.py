#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The recipe code-interpreter, on a base with Python: interpreter_base.py CAYD"""

import http.client
import json

from daemon import BASE, PROCESS, Cayd, Skip, case, fails, run


def build(cay, **fields):
    request = {"name": "code-interpreter", "recipe": "code-interpreter", "fromBase": "host"} | fields
    return cay.stream(BASE + "BuildBase", request, timeout_s=200)


def execute(port, code):
    connection = http.client.HTTPConnection(port["bindAddress"], port["hostPort"], timeout=60)
    connection.request("POST", "/execute", json.dumps({"code": code}))
    messages = [json.loads(line) for line in connection.getresponse()]
    connection.close()
    return messages


@case
def runs_code(cay):
    """code runs in a session of it through an exposed port, and is remembered"""
    if not cay.has_host_base:
        raise Skip("the host's own base would have to be copied here")
    base = build(cay)[-1]["base"]
    assert base["aliases"] == ["code-interpreter-v1"] and base["origin"] == "BASE_ORIGIN_BUILT", base
    session = cay.create("code", base="code-interpreter-v1")
    assert session["startCommand"][0] == "python3", session
    port = cay.call(PROCESS + "ExposePort", {"sessionId": "code", "port": {"port": 49999}})["port"]
    execute(port, "x = 6")
    said = execute(port, "print(x * 7)")
    assert [message["text"] for message in said if message["type"] == "stdout"] == ["42\n"], said
    cay.destroy("code")


@case
def mistakes(cay):
    """what the recipe cannot do is refused"""
    fails("invalid_argument", build, cay, params={"packages": "jq"})
    fails("invalid_argument", build, cay, steps=[{"kind": "BUILD_STEP_KIND_RUN", "args": ["true"]}])
    fails("invalid_argument", build, cay, recipe="unknown")
    fails("invalid_argument", build, cay, recipe="", fromBase="")


with Cayd() as daemon:
    run(daemon)
