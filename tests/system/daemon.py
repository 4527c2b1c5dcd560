# SPDX-License-Identifier: Apache-2.0
"""A cayd of our own: started, called, killed and started again on the same directories.

The binary comes from the command line. Calls are Connect in JSON over the Unix socket (as the
administrator) or, with a key, over TCP. What a daemon holds of the machine is counted from outside.
"""

import base64
import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

sys.dont_write_bytecode = True
_ECHO = Path(__file__).resolve().parent.parent / "echo" / "daemon.py"
_spec = importlib.util.spec_from_file_location("echo_daemon", _ECHO)
_echo = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_echo)

MIB = _echo.MIB
Closed = _echo.Closed
Raw = _echo.Raw
Skip = _echo.Skip
also_by_nft = _echo.also_by_nft
also_in_gvisor = _echo.also_in_gvisor
at_end = _echo.at_end
case = _echo.case
eventually = _echo.eventually
is_chosen = _echo.is_chosen
is_sanitized = _echo.is_sanitized
is_whole = _echo.is_whole
list_if_asked = _echo.list_if_asked
little_kept = _echo.little_kept
run = _echo.run
steady = _echo.steady
steps = _echo.steps

CAYD = sys.argv[1]
PATIENCE_S = 60  # for any answer: a machine under load is slow, not wrong
IS_FULL = bool(os.environ.get("CAY_TEST_FULL"))
IN_GVISOR = os.environ.get("CAY_RUNTIME") == "gvisor"  # sessions are in it unless they say otherwise
CGROUPS = Path("/sys/fs/cgroup")
SANDBOX = "cay.v1.SandboxService/"
PROCESS = "cay.v1.ProcessService/"
FILE = "cay.v1.FileService/"
BASE = "cay.v1.BaseService/"
KEY = "cay.v1.KeyService/"


def b64(data):
    return base64.b64encode(data).decode()


def unb64(text):
    return base64.b64decode(text or "")


class RpcError(Exception):
    """An error as the API tells it: code, reason and a sentence, all three there."""

    def __init__(self, error):
        self.code = error["code"]
        self.message = error["message"]
        self.reason = None
        self.metadata = {}
        for detail in error.get("details", []):
            if detail["type"] == "cay.v1.ErrorInfo":
                self.reason, self.metadata = _error_info(detail)
        super().__init__(f"{self.code} ({self.reason}): {self.message}")


def _error_info(detail):
    if "debug" in detail:
        return detail["debug"].get("reason"), detail["debug"].get("metadata", {})
    data = unb64(detail["value"] + "=" * (-len(detail["value"]) % 4))
    # Field 1, a string shorter than 128 bytes, comes first.
    return (data[2:2 + data[1]].decode() if data[:1] == b"\x0a" else None), {}


def fails(code, function, *arguments, reason=None, **more):
    """The call fails with this code (and reason); returns the error."""
    try:
        answer = function(*arguments, **more)
    except RpcError as error:
        assert error.code == code, f"wanted {code}, got {error}"
        assert reason is None or error.reason == reason, f"wanted {reason}, got {error}"
        assert error.message, error
        return error
    raise AssertionError(f"wanted {code}, got {str(answer)[:300]}")


def _chunk(data):
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


class Stream:
    """A call with a stream in either direction, read as it comes."""

    def __init__(self, client, method, timeout_s=PATIENCE_S):
        self.raw = Raw(client.socket(timeout_s))
        self.buffer = bytearray()
        self.has_head = False
        self.is_over = False
        head = (f"POST /{method} HTTP/1.1\r\nhost: test\r\ncontent-type: application/connect+json\r\n"
                f"connect-protocol-version: 1\r\ntransfer-encoding: chunked\r\n{client.auth}\r\n")
        self.raw.send(head.encode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.raw.sock.close()

    def send(self, message):
        data = json.dumps(message).encode()
        self.raw.send(_chunk(b"\0" + len(data).to_bytes(4, "big") + data))

    def end(self):
        self.raw.send(b"0\r\n\r\n")

    def _head(self):
        self.has_head = True
        lines = self.raw.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        fields = dict(line.lower().split(": ", 1) for line in lines[1:])
        if status != 200:
            raise RpcError(json.loads(self.raw.exactly(int(fields["content-length"]))))
        assert fields.get("transfer-encoding") == "chunked", fields

    def _more(self):
        size = int(self.raw.until(b"\r\n"), 16)
        self.buffer += self.raw.exactly(size)
        assert self.raw.exactly(2) == b"\r\n"
        if size == 0:
            raise Closed("the stream ended without its last envelope")

    def _take(self, count):
        while len(self.buffer) < count:
            self._more()
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def next(self):
        """The next message; None at the good end; an error at the bad one."""
        if self.is_over:
            return None
        if not self.has_head:
            self._head()
        head = self._take(5)
        message = json.loads(self._take(int.from_bytes(head[1:], "big")))
        if not head[0] & 2:
            return message
        self.is_over = True
        if "error" in message:
            raise RpcError(message["error"])
        return None

    def __iter__(self):
        while (message := self.next()) is not None:
            yield message


class Client:
    """Makes calls; every call has a connection of its own, so threads may share a client."""

    def __init__(self, daemon, key=None):
        self.daemon = daemon
        self.key = key
        self.auth = f"authorization: Bearer {key}\r\n" if key else ""

    def socket(self, timeout_s):
        if self.key:
            sock = socket.create_connection((self.daemon.host, self.daemon.port))
        else:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(str(self.daemon.socket_path))
        sock.settimeout(timeout_s)
        return sock

    def post(self, method, message=None, timeout_s=PATIENCE_S):
        """A unary call whose answer is not read: its connection. To close it is to leave the call."""
        body = json.dumps(message or {}).encode()
        head = (f"POST /{method} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n"
                f"content-type: application/json\r\ncontent-length: {len(body)}\r\n{self.auth}\r\n")
        raw = Raw(self.socket(timeout_s))
        raw.send(head.encode() + body)
        return raw

    def call(self, method, message=None, timeout_s=PATIENCE_S):
        with self.post(method, message, timeout_s) as raw:
            answer = raw.answer()
        if answer.status != 200:
            raise RpcError(answer.json())
        return answer.json()

    def open(self, method, message, timeout_s=PATIENCE_S):
        """A server stream, to be read by the caller."""
        stream = Stream(self, method, timeout_s)
        stream.send(message)
        stream.end()
        return stream

    def stream(self, method, message, timeout_s=PATIENCE_S):
        """All messages of a server stream."""
        with self.open(method, message, timeout_s) as stream:
            return list(stream)

    def send_all(self, method, messages, timeout_s=PATIENCE_S):
        """A client stream: its one answer."""
        with Stream(self, method, timeout_s) as stream:
            for message in messages:
                stream.send(message)
            stream.end()
            answers = list(stream)
        assert len(answers) == 1, answers
        return answers[0]

    # The verbs that every test needs.

    def create(self, session_id=None, **fields):
        if session_id:
            fields["sessionId"] = session_id
        fields.setdefault("base", "small")
        return self.call(SANDBOX + "CreateSession", fields)["session"]

    def get(self, session_id):
        return self.call(SANDBOX + "GetSession", {"sessionId": session_id})["session"]

    def ids(self):
        found = self.call(SANDBOX + "ListSessions", {"pageSize": 1000}).get("sessions", [])
        return sorted(session["id"] for session in found)

    def destroy(self, session_id, **fields):
        return self.call(SANDBOX + "DestroySession", {"sessionId": session_id} | fields)

    def turn(self, session_id, **fields):
        return self.call(SANDBOX + "TurnComplete", {"sessionId": session_id} | fields)["snapshot"]

    def snapshot(self, session_id, name, **fields):
        request = {"sessionId": session_id, "name": name} | fields
        return self.call(SANDBOX + "CreateSnapshot", request)["snapshot"]

    def log(self, session_id):
        found, token = [], ""
        while True:
            request = {"sessionId": session_id, "pageSize": 1000, "pageToken": token}
            answer = self.call(SANDBOX + "ListSnapshots", request)
            found += answer.get("snapshots", [])
            token = answer.get("nextPageToken")
            if not token:
                return found

    def rollback(self, session_id, snapshot, **fields):
        request = {"sessionId": session_id, "snapshot": snapshot} | fields
        return self.call(SANDBOX + "RollbackSession", request)

    def fork(self, session_id, **fields):
        answer = self.call(SANDBOX + "ForkSession", {"sessionId": session_id} | fields)
        return [fork["session"] for fork in answer["forks"]]

    def diff(self, session_id, **fields):
        """The entries by path, and the statistics."""
        frames = self.stream(SANDBOX + "DiffSnapshots", {"sessionId": session_id} | fields)
        assert "stats" in frames[-1] and all("entry" in frame for frame in frames[:-1]), frames[:3]
        entries = [frame["entry"] for frame in frames[:-1]]
        paths = [entry["path"] for entry in entries]
        assert len(set(paths)) == len(paths), paths
        return {entry["path"]: entry for entry in entries}, frames[-1]["stats"]

    def tool(self, session_id, tool_name, call=None, **params):
        request = {"sessionId": session_id,
                   "call": {"toolName": tool_name, "params": params} | (call or {})}
        return self.call(SANDBOX + "ExecuteTool", request)["result"]

    def bash(self, session_id, cmd, call=None):
        return self.tool(session_id, "bash", call, cmd=cmd)

    def launch(self, session_id, *argv, wait="60s", **spec):
        """Run to the end; (result, stdout, stderr)."""
        extra = {name: spec.pop(name) for name in ("maxOutputBytes",) if name in spec}
        request = {"sessionId": session_id, "wait": wait, "spec": {"argv": list(argv)} | spec}
        answer = self.call(PROCESS + "LaunchProcess", request | extra, timeout_s=2 * PATIENCE_S)
        output = {"OUTPUT_STREAM_STDOUT": b"", "OUTPUT_STREAM_STDERR": b""}
        for chunk in answer.get("output", []):
            output[chunk["stream"]] += unb64(chunk["data"])
        return answer["process"]["result"], *output.values()

    def sh(self, session_id, script, user="user", **spec):
        """Run a script that must succeed; its standard output as text."""
        result, out, err = self.launch(session_id, "/bin/sh", "-c", script, user=user, **spec)
        assert result.get("exitCode") == 0, (script, result, out[-500:], err[-500:])
        return out.decode()

    def attach(self, session_id, *argv, **spec):
        """A command with live output, as a stream."""
        request = {"sessionId": session_id, "launch": {"argv": list(argv)} | spec}
        return self.open(PROCESS + "AttachProcess", request)

    def background(self, session_id, script, user="user"):
        """Start a script that outlives this call: its client leaves when it has said `ready`."""
        with self.attach(session_id, "/bin/sh", "-c", script, user=user) as stream:
            said = b""
            while b"ready" not in said:
                said += unb64(stream.next().get("output", {}).get("data"))

    def read(self, session_id, path, **fields):
        request = {"sessionId": session_id, "path": path} | fields
        frames = self.stream(FILE + "ReadFile", request)
        return b"".join(unb64(frame.get("data")) for frame in frames[1:])

    def write(self, session_id, path, data, piece_bytes=MIB, **fields):
        def messages():
            yield {"open": {"sessionId": session_id, "path": path} | fields}
            for at in range(0, len(data), piece_bytes):
                yield {"data": b64(data[at:at + piece_bytes])}
        return self.send_all(FILE + "WriteFile", messages())

    def file(self, verb, session_id, **fields):
        return self.call(FILE + verb, {"sessionId": session_id} | fields)


class Cayd(Client):
    """The daemon, with directories and a control group of its own."""

    def __init__(self, *flags, binary=CAYD, environment=None, run_dir=None):
        super().__init__(self)
        if os.geteuid() != 0:
            print("1..0 # SKIP needs root")
            sys.exit(0)
        self.folder = Path(tempfile.mkdtemp(prefix="caysys-"))
        self.data = self.folder / "data"
        self.run_dir = run_dir or self.folder / "run"
        self.socket_path = self.run_dir / "cayd.sock"
        self.cgroup = f"{os.environ.get('CAY_TEST_RUN', 'caytest')}-{uuid.uuid4().hex[:8]}"
        # The built-in base is linked from /usr where that is possible; elsewhere it is copied, all of it.
        self.has_host_base = os.stat(self.folder).st_dev == os.stat("/usr").st_dev
        if not self.has_host_base:
            flags = ("--default-base", "small", *flags)
        self.command = [binary, "--data", str(self.data), "--run", str(self.run_dir),
                        "--listen", "127.0.0.1:0", "--cgroup-parent", self.cgroup,
                        "--no-access-log", *flags]
        self.environment = environment or {}
        self.is_sanitized = is_sanitized(binary)
        self.log_path = self.folder / "log"
        self.process = None
        self.host = self.port = None
        self.start()

    def start(self):
        environment = little_kept(dict(os.environ) | self.environment)
        environment.setdefault("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=log,
                                            stdin=subprocess.DEVNULL, env=environment)
        line = self.process.stdout.readline().decode()
        if not line.startswith("cayd ready on "):
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"cayd said {line!r}; its log ends with {self.log_tail()}")
        self.host, _, port = line.split()[-1].removeprefix("http://").rpartition(":")
        self.port = int(port)

    def log_tail(self, size=3000):
        return self.log_path.read_bytes()[-size:].decode(errors="replace")

    def power_off(self):
        """As far as a host can without going: the daemon and all that runs in sandboxes end at once."""
        self.kill()
        for pid in self.all_processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: not self.all_processes(), "nothing runs")

    def kill(self):
        """As the kernel does it: no goodbye."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def restart(self):
        self.kill()
        self.start()

    def stop(self):
        status = self.process.poll()
        if status is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                status = self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                status = self.process.wait()
        self.process.stdout.close()
        return status

    def keep(self):
        """What is there now stays when reset() takes the rest away."""
        self.kept_keys, self.kept_bases, self.kept_sessions = self.key_ids(), self.bases(), set(self.ids())

    def reset(self):
        """Take away what a case made, so that no other can come to depend on it."""
        status = self.process.poll()
        if status is not None:
            tail = self.log_tail()
            self.start()
            raise AssertionError(f"the case left no daemon; it ended with {status}: {tail}")
        for session_id in set(self.ids()) - self.kept_sessions:
            self.destroy(session_id)
        for key_id in self.key_ids() - self.kept_keys:
            self.call(KEY + "RevokeKey", {"keyId": key_id})
        bases = self.bases()
        assert self.kept_bases.keys() <= bases.keys(), f"the case left no {self.kept_bases.keys() - bases.keys()}"
        for name, settings in bases.items():
            if name not in self.kept_bases:
                self.call(BASE + "RemoveBase", {"name": name, "force": True})
            elif settings != self.kept_bases[name]:
                options = {"name": name, "existingBase": name, "settings": self.kept_bases[name]}
                self.send_all(BASE + "ImportBase", [{"options": options}])

    def key_ids(self):
        keys = self.call(KEY + "ListKeys", {"pageSize": 1000}).get("keys", [])
        return {key["id"] for key in keys}

    def bases(self):
        """The settings of bases that somebody made; that of the host the daemon makes by itself."""
        bases = self.call(BASE + "ListBases", {"pageSize": 1000}).get("bases", [])
        return {base["name"]: base.get("settings", {}) for base in bases
                if base.get("origin") != "BASE_ORIGIN_HOST"}

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            with contextlib.suppress(Exception):
                for session_id in self.ids():
                    self.destroy(session_id)
        status = self.stop()
        left = self.leftovers() if kind is None else None  # else sessions are still there
        self.sweep()
        if kind is None:
            assert status == 0, f"the daemon ended with {status}: {self.log_tail()}"
            assert not left, left

    # What it holds of the machine.

    def reserve(self):
        """Ids of sandboxes that wait for sessions to come: nobody's, and not left over. Their sockets
        are there before them and go after them, so ask when you have looked at the rest. A daemon that
        ended well has none."""
        if self.process.returncode == 0:
            return set()
        return {path.stem for path in (self.run_dir / "sandboxes").glob("*.wait")}

    def reserve_full(self, count=1):
        """Wait until so many sandboxes wait."""
        def waiting():
            return int(self.call(SANDBOX + "HealthCheck").get("reserve", {}).get("waiting", 0))
        eventually(lambda: waiting() >= count, f"{count} sandboxes wait", PATIENCE_S)

    def cgroups(self):
        """Control groups below ours, in all hierarchies, but for the reserve's."""
        roots = [root for root in (CGROUPS, *CGROUPS.glob("*")) if (root / self.cgroup).is_dir()]
        found = [path for root in roots for path in (root / self.cgroup).rglob("*/")
                 if path != root / self.cgroup]
        waiting = self.reserve()
        return [path for path in found if not waiting.intersection(path.parts)]

    def group_of(self, pid):
        """The control groups of a process, as /proc tells them; empty when it is gone."""
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
        return ""

    def all_processes(self):
        """Processes in our control groups, zombies too, by pid; with their groups."""
        groups = {int(entry.name): self.group_of(entry.name) for entry in Path("/proc").iterdir()
                  if entry.name.isdigit()}
        return {pid: group for pid, group in groups.items() if f"/{self.cgroup}/" in group}

    def processes(self):
        """The same, but for the reserve's."""
        found = self.all_processes()
        waiting = self.reserve()
        return [pid for pid, group in found.items() if not any(name in group for name in waiting)]

    def lasting(self):
        """The same, but for those in which gVisor lets processes run that it alone knows: they come and go."""
        found = []
        for pid in self.processes():
            with contextlib.suppress(OSError):
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                found += [pid] if "TracerPid:\t0" in lines else []
        return found

    def children(self):
        """Of the daemon itself, but for the reserve's."""
        found = []
        for path in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += path.read_text().split()
        groups = {pid: self.group_of(pid) for pid in found}
        waiting = self.reserve()
        return [pid for pid in found if not any(name in groups[pid] for name in waiting)]

    def namespaces(self):
        """Namespaces other than ours that one of our processes is in."""
        own = {os.readlink(f"/proc/self/ns/{kind}") for kind in os.listdir("/proc/self/ns")}
        found = set()
        for pid in self.processes():
            with contextlib.suppress(OSError):
                for kind in os.listdir(f"/proc/{pid}/ns"):
                    found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
        return found - own

    def mounts(self):
        """Mounts of ours in the namespace of the daemon and of the machine."""
        found = []
        for pid in ("self", self.process.pid):
            with contextlib.suppress(OSError):
                lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
                found += [line for line in lines if str(self.folder) in line]
        return found

    def fds(self):
        found = []
        for path in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.append(os.readlink(path))
        return sorted(found)

    def fd_count(self):
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def rss_bytes(self):
        text = Path(f"/proc/{self.process.pid}/statm").read_text()
        return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def rss_room(self, mebibytes):
        return mebibytes * MIB * (5 if self.is_sanitized else 1)

    def sockets(self):
        """What is in the directory of sandboxes, but for the reserve's."""
        found = sorted((self.run_dir / "sandboxes").iterdir())
        waiting = self.reserve()
        return [path.name for path in found if path.stem not in waiting]

    def store(self):
        """What the store has on disk, by kind: sessions, snapshots, layers, rubbish. Blank layers
        made in advance are not counted."""
        found = {}
        for kind in "slpt":
            path = self.data / "store" / kind
            found[kind] = sorted(os.listdir(path)) if path.is_dir() else []
        return found

    def leftovers(self):
        """What of the sandboxes is still there; empty when all is gone. Waits for what goes."""
        until = time.monotonic() + PATIENCE_S
        while True:
            found = {"processes": self.processes(), "cgroups": [str(p) for p in self.cgroups()],
                     "mounts": self.mounts(), "sockets": self.sockets()}
            found = {name: items for name, items in found.items() if items}
            if not found or time.monotonic() > until:
                return found
            time.sleep(0.05)

    def sweep(self):
        """Away with everything, however the test ended."""
        for pid in self.all_processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + 10
        while self.all_processes() and time.monotonic() < until:
            time.sleep(0.02)
        for root in (CGROUPS, *CGROUPS.glob("*")):
            for path in sorted((root / self.cgroup).rglob("*/"), reverse=True):
                with contextlib.suppress(OSError):
                    path.rmdir()
            with contextlib.suppress(OSError):
                (root / self.cgroup).rmdir()
        # Not by shutil: a host base has hundreds of thousands of names.
        # Snapshots on btrfs are read-only: on_store removes them with their file system.
        subprocess.run(["rm", "-rf", str(self.folder)], check=False, stderr=subprocess.DEVNULL)


def init_of(cay, path):
    """The host's pid of the first process of the sandbox that has this path."""
    for pid in cay.processes():
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        inner = next(line.split()[-1] for line in lines if line.startswith("NSpid:"))
        if inner == "1" and os.path.exists(f"/proc/{pid}/root/{path}"):
            return pid
    if kernel := kernel_of(cay, path):
        return kernel
    raise AssertionError("there is no such sandbox")


def kernel_of(cay, path):
    """The same in gVisor, whose kernel is a process of the host and opens files by another one."""
    groups = {}
    for pid in cay.processes():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            group = groups.setdefault(Path(f"/proc/{pid}/cgroup").read_text(), {})
            if b"boot" in words:
                group["kernel"] = pid
            elif b"gofer" in words and os.path.exists(f"/proc/{pid}/root/s/tree/{path}"):
                group["has_it"] = True
    return next((group.get("kernel") for group in groups.values() if "has_it" in group), None)


def together(*functions):
    """Run functions at the same time; the list of what each returned or raised."""
    outcomes = [None] * len(functions)
    gate = threading.Barrier(len(functions))

    def work(index, function):
        gate.wait()
        try:
            outcomes[index] = function()
        except Exception as error:  # pylint: disable=broad-except
            outcomes[index] = error
    threads = [threading.Thread(target=work, args=item) for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def good(outcomes):
    """None of the outcomes is an error."""
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return outcomes


@contextlib.contextmanager
def at_the_same_time(function):
    """Run a function again and again in the background while the block runs."""
    is_over = threading.Event()
    failed = []

    def work():
        while not is_over.is_set():
            try:
                function()
            except Exception as error:  # pylint: disable=broad-except
                failed.append(error)
                return
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    if failed:
        raise failed[0]
