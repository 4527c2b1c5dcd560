#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Run a program of the suite for controls on a cayd of its own, as `node:`.

Arguments: cayd, the program, how to reach the daemon (unix or http), then the daemon's flags. The
program prints TAP; what it cannot do itself (restart the daemon, make and revoke a key) it asks for
by a pipe, as tests/conform/control_world.h says. TEST_WRAPPER is a command to run it with, such as
valgrind.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "system"))
from daemon import KEY, Cayd  # noqa: E402
from small_base import import_small  # noqa: E402

PROGRAM, WAY, FLAGS = sys.argv[2], sys.argv[3], sys.argv[4:]


class Helper(threading.Thread):
    """Does what the program wishes, one line at a time, until the program is gone."""

    def __init__(self, daemon, wishes, answers):
        super().__init__(daemon=True)
        self.cay, self.wishes, self.answers = daemon, wishes, answers
        self.key_id = None

    def key(self):
        made = self.cay.call(KEY + "CreateKey", {"owner": "team"})
        self.key_id = made["key"]["id"]
        return made["secret"]

    def revoke(self):
        self.cay.call(KEY + "RevokeKey", {"keyId": self.key_id})
        return "done"

    def restart(self):
        self.cay.restart()
        return "done"

    def run(self):
        with os.fdopen(self.wishes) as wishes, os.fdopen(self.answers, "w") as answers:
            for wish in wishes:
                answers.write(getattr(self, wish.strip())() + "\n")
                answers.flush()


def run_program(cay):
    # A restarted daemon is to be found where it was.
    listen = cay.command.index("--listen") + 1
    cay.command[listen] = f"{cay.host}:{cay.port}"
    address = f"node:unix:{cay.socket_path}" if WAY == "unix" else f"node:http://{cay.host}:{cay.port}"
    read_wishes, write_wishes = os.pipe()
    read_answers, write_answers = os.pipe()
    environment = dict(os.environ) | {"CONTROL_TEMPLATE": "small",
                                      "CONTROL_HELP": f"{read_answers},{write_wishes}"}
    if WAY == "http":
        environment["CONTROL_KEY"] = cay.call(KEY + "CreateKey", {"owner": "team"})["secret"]
    Helper(cay, read_wishes, write_answers).start()
    done = subprocess.run([*os.environ.get("TEST_WRAPPER", "").split(), PROGRAM, address], env=environment, check=False,
                          pass_fds=(read_answers, write_wishes))
    os.close(read_answers)
    os.close(write_wishes)
    return done.returncode


def main():
    if os.environ.get("TEST_LIST"):
        os.execv(PROGRAM, [PROGRAM])
    with Cayd(*FLAGS) as cay:
        import_small(cay)
        status = run_program(cay)
    sys.exit(status)


if __name__ == "__main__":
    main()
