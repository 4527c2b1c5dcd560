#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Work with the host's own programs: the tour of README.md, as it is printed, and Python of examples/README.md.

    tour.py CAYD CAY LIBCAY

Every line after `$ ` is run, and what it says must be what stands below it. Only what nobody can know beforehand may differ:
ids, ports, sizes, times and pids.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from daemon import CAYD, IS_FULL, RpcError, Skip, case, eventually, is_sanitized
from small_base import run_with_cayd

CAY = Path(sys.argv[2]).resolve()
ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE_S = 60
UNTIL_CTRL_C = ("cay forward ", "cay logs -f ")
PROCESS_ID = r"p-[a-z0-9]{16}"


def blocks():
    """The commands of each block of the tour, each with what it says."""
    text = (ROOT / "README.md").read_text().partition("## A session")[2].partition("\n## ")[0]
    for block in re.findall(r"^```\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        commands = []
        for line in block.splitlines():
            if line.startswith("$ "):
                commands.append((line[2:], []))
            else:
                commands[-1][1].append(line)
        yield commands


def pattern(line):
    """What a line may be on another day."""
    text = re.escape(line)
    text = re.sub(r"p\\-[a-z0-9]{16}", PROCESS_ID, text)
    text = re.sub(r"127\\\.0\\\.0\\\.1:(?!8000)\d+", r"127\\.0\\.0\\.1:\\d+", text)
    text = re.sub(r"\b[\d\\.]+[KM]?i?B\b", r"[\\d.]+[KM]?i?B", text)
    text = re.sub(r"\bnow\b", r"(now|\\d+s ago)", text)
    text = re.sub(r"(\\ )*(?<=\\ )\d+(\\ )+(?=running)", r"\\s+\\d+\\s+", text)
    return re.sub(r"(\\ ){2,}", r"\\s+", text)


class Tour:
    """Somebody at a terminal, who types what is printed."""

    def __init__(self, cay, folder):
        self.folder = folder
        self.names = {}  # what the page calls a process, and what it is called here
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("CAY_")} | {
            "PATH": f"{CAY.parent}:{os.environ['PATH']}", "CAY_URL": f"unix:{cay.socket_path}"}

    def output(self, command):
        for printed, name in self.names.items():
            command = command.replace(printed, name)
        with subprocess.Popen(["bash", "-c", command], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as process:
            if command.startswith(UNTIL_CTRL_C):
                said = process.stdout.readline()
                os.killpg(process.pid, signal.SIGINT)
                process.communicate(timeout=PATIENCE_S)
                return said
            return process.communicate(timeout=PATIENCE_S)[0]

    def run(self, command, printed):
        if command.startswith("export "):
            names = re.findall(r"(\w+)=", command)
            said = self.output(f"{command} && env")
            for name in names:
                assert re.search(rf"^{name}=.+$", said, re.MULTILINE), (command, said)
            return
        if command.startswith("cay logs -f "):
            # A server that nobody has asked says nothing: somebody asks.
            subprocess.run(["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/" + self.port + "; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"],
                           stdout=subprocess.DEVNULL, timeout=PATIENCE_S, check=True)
        said = self.output(command).splitlines()
        if command.startswith(("cay logs -f ", "cay shell ")):
            assert said, "the server's log, or the shell, says nothing"
            return
        wanted = [pattern(line) for line in printed]
        assert len(said) == len(wanted) and all(map(re.fullmatch, wanted, said)), \
            f"$ {command}\nprinted: {printed}\nhere:    {said}\nwanted:  {wanted}"
        for line, here in zip(printed, said):
            self.names |= dict(zip(re.findall(PROCESS_ID, line), re.findall(PROCESS_ID, here)))
        if command.startswith("cay port "):
            self.port = said[0].rpartition(":")[2]


def has_base(cay):
    try:
        cay.create("first", base="host")
    except RpcError as error:
        assert error.reason == "base_not_ready", error
        return False
    cay.destroy("first")
    return True


def await_base(cay):
    """The daemon would tell whoever waits."""
    if not cay.has_host_base:
        raise Skip("/usr is on another file system and would be copied")
    eventually(lambda: has_base(cay), "the base is made", 2 * PATIENCE_S)


@case
def as_printed(cay):
    """whoever types what README.md prints sees what it prints"""
    await_base(cay)
    every = list(blocks())
    assert len(every) == 6 and sum(map(len, every)) > 25, every
    with tempfile.TemporaryDirectory() as folder:
        tour = Tour(cay, folder)
        for commands in every:
            for command, printed in commands:
                tour.run(command, printed)
        assert tour.output("cay run -- python3 -c 'print(6*7)'") == "42\n"


@case
def host(cay):
    """a session from the host's base runs the host's programs, breaks them and gets them back"""
    await_base(cay)
    cay.create("host", base="host")
    cay.tool("host", "write_file", path="answer.py", content="print(6 * 7)\n")
    assert cay.sh("host", "python3 answer.py") == "42\n"
    cay.turn("host")
    # All of a machine's /usr takes a while.
    broken = "/usr" if IS_FULL else "/usr/bin"
    cay.launch("host", "/bin/rm", "-rf", "/workspace", broken, user="root", wait="600s")
    assert cay.launch("host", "/bin/ls", "/", cwd="/")[0]["exitCode"] == 127
    cay.rollback("host", "turn-0001", discard=True)
    assert cay.sh("host", "python3 answer.py && ls -l /usr/bin/python3 >&2") == "42\n"
    cay.destroy("host")


@case
def python(cay):
    """so does whoever runs the Python of the page of examples"""
    await_base(cay)
    if is_sanitized(CAYD):
        raise Skip("Python is not sanitized and cannot use a library that is")
    (text,) = re.findall(r"^```\n(import cay\n.*?)^```$", (ROOT / "examples/README.md").read_text(), re.DOTALL | re.MULTILINE)
    address = "unix:/run/cay/cayd.sock"
    assert address in text
    environment = dict(os.environ) | {"PYTHONPATH": str(ROOT / "share/python"), "LIBCAY": sys.argv[3], "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", text.replace(address, f"unix:{cay.socket_path}")], env=environment, text=True,
                          capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0 and done.stdout.startswith("42\n") and "-print(6 * 7)" in done.stdout, done
    assert not cay.ids(), cay.ids()


if __name__ == "__main__":
    run_with_cayd()
