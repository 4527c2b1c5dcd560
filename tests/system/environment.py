#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Run a suite of environments (tests/conform/env_world.h) in a world of its own:

    environment.py CAYD native STORE RUNTIME SUITE
    environment.py CAYD local - - SUITE

The world is a cayd, which does what the suite wishes. Results are compared with those of the other kind.
"""

import os
import socket
import subprocess
import sys
import tempfile
import threading

from daemon import CAYD, KEY, Cayd, eventually
from small_base import import_small

KIND, STORE, RUNTIME, SUITE = sys.argv[2:6]


class World:
    """Answers the wishes of a suite. Each is a method; what it returns is the answer."""

    def __init__(self, cay):
        self.cay = cay
        self.keys = {}

    def kill(self):
        self.cay.kill()

    def start(self):
        self.cay.start()

    def start_soon(self):
        """The daemon comes back while the suite goes on."""
        threading.Timer(0.3, self.cay.start).start()

    def await_start(self):
        eventually(lambda: self.cay.process.poll() is None and self.cay.ids() is not None, "it is back")

    def tcp(self):
        """An address that wants a key."""
        return f"native:http://{self.cay.host}:{self.cay.port}"

    def key(self):
        made = self.cay.call(KEY + "CreateKey", {"owner": "team"})
        self.keys[made["secret"]] = made["key"]["id"]
        return made["secret"]

    def revoke(self, secret):
        self.cay.call(KEY + "RevokeKey", {"keyId": self.keys[secret]})

    def destroy(self, session_id):
        self.cay.destroy(session_id)

    def limit(self, count):
        """From now on there may be so many sessions, of which none is there."""
        self.cay.kill()
        self.cay.command += ["--max-sessions", count]
        self.cay.start()

    def unlimit(self):
        at = self.cay.command.index("--max-sessions")
        self.cay.kill()
        del self.cay.command[at:at + 2]
        self.cay.start()

    def sessions(self):
        return str(len(self.cay.ids()))

    def answer(self, line):
        word, *arguments = line.split()
        if not hasattr(self, word):
            return f"no: nobody here can '{word}'"
        return f"ok {getattr(self, word)(*arguments) or ''}".strip()

    def serve(self, sock):
        with sock, sock.makefile("rw") as lines:
            for line in lines:
                try:
                    answer = self.answer(line)
                except Exception as error:  # pylint: disable=broad-except
                    answer = f"failed: {error}".replace("\n", " ")
                lines.write(answer + "\n")
                lines.flush()


def run_suite(address, world, **environment):
    ours, theirs = socket.socketpair()
    if world:
        threading.Thread(target=world.serve, args=(ours,), daemon=True).start()
        environment["CAY_TEST_WORLD"] = str(theirs.fileno())
    done = subprocess.run([*os.environ.get("CAY_TEST_WRAPPER", "").split(), SUITE, address],
                          env=dict(os.environ) | environment, pass_fds=[theirs.fileno()], check=False)
    theirs.close()
    return done.returncode


def flags():
    found = ["--default-base", "small"]
    if STORE != "-":
        found += ["--store", STORE, "--runtime", RUNTIME]
    return found


def main():
    if os.environ.get("TEST_LIST"):
        os.execv(SUITE, [SUITE, "-"])
    with Cayd(*flags()) as cay:
        import_small(cay)
        native = f"native:unix:{cay.socket_path}"
        with tempfile.TemporaryDirectory() as folder:
            local = f"local:{folder}"
            if KIND == "native":
                status = run_suite(native, World(cay), CAY_TEST_REFERENCE=local)
                assert status or not cay.ids(), f"sessions are left: {cay.ids()}"
            else:
                status = run_suite(local, None, CAY_TEST_REFERENCE=native)
    sys.exit(status)


if __name__ == "__main__":
    main()
