#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The recipe code-interpreter, on a base with Python: interpreter_base.py CAYD"""

import http.client
import json

import re
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from daemon import BASE, PROCESS, Cayd, case, fails
from small_base import make_root, run_on

LEFT_OUT = shutil.ignore_patterns("__pycache__", "test", "idlelib", "tkinter", "lib2to3", "ensurepip",
                                  "config-*", "dist-packages")


def copy_python(root):
    """The machine's Python with its own library, and the libraries it is linked with."""
    library = sysconfig.get_path("stdlib")
    program = shutil.which("python3", path="/usr/bin")
    shutil.copy(program, root / "usr/bin/python3")
    shutil.copytree(library, root / library.lstrip("/"), ignore=LEFT_OUT, dirs_exist_ok=True)
    linked = [program, *map(str, Path(library).glob("lib-dynload/*.so"))]
    listed = subprocess.run(["ldd", *linked], capture_output=True, text=True, check=True).stdout
    for path in set(re.findall(r"\s(/\S+) \(0x", listed)):
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def import_python(cay):
    with tempfile.TemporaryDirectory(prefix="caysys-root-") as folder:
        root = Path(folder) / "root"
        root.mkdir(mode=0o755)
        make_root(root, {})
        copy_python(root)
        options = {"name": "python", "format": "BASE_FORMAT_DIRECTORY", "hostPath": str(root)}
        cay.send_all(BASE + "ImportBase", [{"options": options}])


def build(cay, **fields):
    request = {"name": "code-interpreter", "recipe": "code-interpreter", "fromBase": "python"} | fields
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
    base = build(cay)[-1]["base"]
    assert base["aliases"] == ["code-interpreter-v1"] and base["origin"] == "BASE_ORIGIN_BUILT", base
    session = cay.create("code", base="code-interpreter-v1")
    assert session["startCommand"][0] == "python3", session
    port = cay.call(PROCESS + "ExposePort", {"sessionId": "code", "port": {"port": 49999}})["port"]
    execute(port, "x = 6")
    said = execute(port, "print(x * 7)")
    assert "".join(message["text"] for message in said if message["type"] == "stdout") == "42\n", said
    cay.destroy("code")


@case
def mistakes(cay):
    """what the recipe cannot do is refused"""
    fails("invalid_argument", build, cay, params={"packages": "jq"})
    fails("invalid_argument", build, cay, steps=[{"kind": "BUILD_STEP_KIND_RUN", "args": ["true"]}])
    fails("invalid_argument", build, cay, recipe="unknown")
    fails("invalid_argument", build, cay, recipe="", fromBase="")


if __name__ == "__main__":
    run_on(lambda: Cayd("--default-base", "python"), import_python)
