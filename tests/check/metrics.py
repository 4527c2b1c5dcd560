#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: metrics.py CAYD   Check that docs/metrics.md and a running daemon's /metrics agree."""

import contextlib
import http.client
import os
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import checks  # noqa: E402

PAGE = Path("docs/metrics.md")


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


@contextlib.contextmanager
def running(cayd):
    """A daemon with its own directories; gives the path of its socket."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("CAY_")}
    with tempfile.TemporaryDirectory(prefix="m-") as home:
        Path(home, "conf").touch()
        command = [cayd, "--config", f"{home}/conf", "--data", f"{home}/data", "--run",
                   f"{home}/run", "--listen", "127.0.0.1:0", "--log-level", "warn"]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as process:
            try:
                if not process.stdout.readline():
                    raise ChildProcessError("cayd did not start")
                yield f"{home}/run/cayd.sock"
            finally:
                process.terminate()


def scrape(cayd):
    """The page after one call that worked and one that did not."""
    with running(cayd) as path, contextlib.closing(UnixConnection(path)) as connection:
        for body in ("{}", "no JSON"):
            connection.request("POST", "/cay.v1.SandboxService/HealthCheck", body,
                               {"content-type": "application/json"})
            connection.getresponse().read()
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()


def served(text):
    """{name: (type, labels, help)} of a page in Prometheus' format."""
    found = {}
    for name, meaning in re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE):
        kind = re.search(rf"^# TYPE {name} (\w+)$", text, re.MULTILINE)[1]
        suffix = "(?:_bucket|_sum|_count)" if kind == "histogram" else ""
        samples = re.findall(rf"^{name}{suffix}(?:{{(.*)}})? \S+$", text, re.MULTILINE)
        labels = {label for sample in samples for label in re.findall(r'(\w+)="', sample)} - {"le"}
        found[name] = (kind, labels, meaning)
        if not samples:
            found[name] = (kind, {"no sample"}, meaning)
    return found


def documented():
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*)\| (.*) \|$", "\n".join(checks.lines(PAGE)),
                      re.MULTILINE)
    return {name: (kind, set(re.findall(r"`(\w+)`", labels)), meaning)
            for name, kind, labels, meaning in rows}


def disagreements(text):
    live, page = served(text), documented()
    wrong = [f"{PAGE}: {name} is not served" for name in page.keys() - live.keys()]
    wrong += [f"{PAGE}: {name} is missing" for name in live.keys() - page.keys()]
    wrong += [f"{PAGE}: {name}: {page[name]}, served as {live[name]}"
              for name in page.keys() & live.keys() if page[name] != live[name]]
    return sorted(wrong)


def strays(text):
    """Samples of a metric that has no HELP and TYPE."""
    names = {re.match(r"\w+", line)[0] for line in text.splitlines()
             if line and not line.startswith("#")}
    known = set()
    for name, (kind, _, _) in served(text).items():
        known |= {name + end for end in ("_bucket", "_sum", "_count")} if kind == "histogram" \
            else {name}
    return sorted(names - known)


if __name__ == "__main__":
    TEXT = scrape(sys.argv[1])
    checks.run([
        ("docs/metrics.md lists what /metrics serves", lambda: disagreements(TEXT)),
        ("every sample has its HELP and TYPE", lambda: strays(TEXT)),
    ])
