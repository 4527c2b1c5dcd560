# SPDX-License-Identifier: Apache-2.0
"""A daemon of our own for the tests of the command line, and `cay` to call it with: PROGRAM CAYD CAY."""

import json
import os
import pty
import select
import subprocess
import sys

from daemon import Cayd

CAY = os.path.abspath(sys.argv[2])
PATIENCE_S = 60  # a machine under load is slow, not wrong


class Result:
    """How a run of cay ended: status, out and err as bytes."""

    def __init__(self, status, out, err):
        self.status = status
        self.out = out
        self.err = err

    @property
    def text(self):
        return self.out.decode()

    @property
    def note(self):
        return self.err.decode()

    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"status {self.status}, out {self.out[-2000:]!r}, err {self.err[-2000:]!r}"


class Cli(Cayd):
    """The daemon, and cay talking to it over its Unix socket."""

    @property
    def tcp(self):
        return f"http://{self.host}:{self.port}"

    def client_environment(self, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CAY_")}
        return kept | {"CAY_URL": f"unix:{self.socket_path}", "TERM": "xterm"} | more

    def begin(self, *arguments):
        """cay, running, with pipes."""
        return subprocess.Popen([CAY, *arguments], env=self.client_environment(), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def cay(self, *arguments, stdin=b"", env=None, cwd=None):
        """Run cay to its end."""
        done = subprocess.run([CAY, *arguments], input=stdin, capture_output=True, cwd=cwd,
                              env=self.client_environment(**(env or {})), timeout=PATIENCE_S, check=False)
        return Result(done.returncode, done.stdout, done.stderr)

    def ok(self, *arguments, **more):
        """The same; it must end well. Returns its output as text."""
        result = self.cay(*arguments, **more)
        assert result.status == 0, f"cay {arguments}: {result}"
        return result.text

    def fails(self, status, words, *arguments, **more):
        """It must end with this status and say these words on standard error."""
        result = self.cay(*arguments, **more)
        assert result.status == status and words in result.note, f"cay {arguments}: {result}"
        return result

    def on_terminal(self, *arguments, keys=b"", after=b""):
        """What cay prints to a terminal; keys are pressed once it has printed `after`."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen([CAY, *arguments], env=self.client_environment(),
                                   stdin=theirs if keys else subprocess.DEVNULL, stdout=theirs, stderr=theirs)
        os.close(theirs)
        found = b""
        while select.select([ours], [], [], PATIENCE_S)[0]:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            found += piece
            if keys and found.count(after) > 1:
                os.write(ours, keys)
                keys = b""
        os.close(ours)
        assert process.wait(PATIENCE_S) == 0, found
        return found.decode().replace("\r\n", "\n")

    def sessions(self):
        return self.ok("ls", "-q").split()
