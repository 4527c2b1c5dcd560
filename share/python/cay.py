# SPDX-License-Identifier: Apache-2.0
"""Sandboxes for agents, by libcay. One file, no build step: it needs libcay.so.1 and Python 3.9.

    import cay

    with cay.Session("native:unix:/run/cay/cayd.sock") as s:
        s.write("answer.py", "print(6 * 7)")
        print(s.run("python3 answer.py").text)
        good = s.turn("it works")
        s.run("rm answer.py")
        print(s.diff(good).patch)
        s.rollback(good)
        for attempt in s.fork(3):
            with attempt:
                attempt.run("make")

    with cay.Control("node:unix:/run/cay/cayd.sock") as control:
        box = control.create(labels={"app": "hello"}, memory_bytes=256 << 20)
        server = control.launch(box.id, "python3", "-m", "http.server", "8080", expose_port=8080)
        print(cay.address_to_url(server.address))
        control.destroy(box.id)

What fails raises cay.Error, which has a reason (a word for programs), a code and a text. Objects may
be used by several threads at once. The environment variable LIBCAY names another library.
"""

from __future__ import annotations

import ctypes
import json
import os
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from typing import Any, Callable, Iterable, List, Mapping, Optional, Union

__all__ = ["Change", "Control", "Diff", "Error", "Process", "Result", "Sandbox", "Session", "Snapshot",
           "address_to_url", "is_file_op", "version"]


# --- what include/cay says, in the same order ---

class _Error(ctypes.Structure):
    _fields_ = [("reason", ctypes.c_uint), ("sys_errno", c_int), ("text", c_char * 232), ("facts", c_char * 272)]


class _Pair(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class _Text(ctypes.Structure):
    _fields_ = [("data", c_char_p), ("len", c_size_t)]


class _Sized(ctypes.Structure):
    """A struct that begins with its size, which tells the library how much of it there is."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(size=ctypes.sizeof(self), **fields)


class _CallOptions(_Sized):
    _fields_ = [("size", c_size_t), ("timeout_ms", c_int64), ("cancel", c_void_p), ("codec", c_int)]


class _EnvOptions(_Sized):
    _fields_ = [("size", c_size_t), ("key", c_char_p), ("ca_file", c_char_p), ("store", c_char_p),
                ("runtime", c_char_p), ("timeout_ms", c_int64)]


class _EnvCapabilities(ctypes.Structure):
    _fields_ = [("snapshots", c_bool), ("rollback", c_bool), ("pause", c_bool), ("streaming_progress", c_bool),
                ("tier_routing", c_bool), ("max_session_duration_ms", c_int64), ("concurrent_sessions", c_int64),
                ("turn", c_bool), ("fork", c_bool), ("diff", c_bool), ("restore", c_bool), ("isolates", c_bool)]


class _EnvConfig(_Sized):
    _fields_ = [("size", c_size_t), ("base", c_char_p), ("session_id", c_char_p), ("labels", POINTER(_Pair)),
                ("label_count", c_size_t), ("environment", POINTER(_Pair)), ("environment_count", c_size_t),
                ("memory_bytes", c_int64), ("cpus", c_double), ("disk_bytes", c_int64), ("process_count", c_int64),
                ("network", c_char_p), ("runtime", c_char_p)]


class _Progress(ctypes.Structure):
    _fields_ = [("stream", c_int), ("data", c_void_p), ("len", c_size_t), ("offset", c_int64),
                ("dropped_bytes", c_int64)]


_ProgressFunction = ctypes.CFUNCTYPE(None, c_void_p, POINTER(_Progress))


class _ToolRequest(_Sized):
    _fields_ = [("size", c_size_t), ("tool_name", c_char_p), ("params", c_char_p), ("tool_call_id", c_char_p),
                ("cwd", c_char_p), ("user", c_char_p), ("environment", POINTER(_Pair)),
                ("environment_count", c_size_t), ("tool_timeout_ms", c_int64), ("result_bytes_max", c_int64),
                ("progress", _ProgressFunction), ("state", c_void_p)]


class _ToolResponse(ctypes.Structure):
    _fields_ = [("is_error", c_bool), ("reason", c_char_p), ("text", c_void_p), ("text_len", c_size_t),
                ("has_exit_code", c_bool), ("exit_code", c_int), ("process_id", c_char_p), ("duration_us", c_int64),
                ("is_cached", c_bool), ("json", c_void_p), ("json_len", c_size_t)]


class _Snapshot(ctypes.Structure):
    _fields_ = [("id", c_char_p), ("name", c_char_p), ("created_ms", c_int64), ("space_used_bytes", c_int64)]


class _Change(ctypes.Structure):
    _fields_ = [("kind", c_int), ("path", c_char_p), ("old_path", c_char_p), ("is_binary", c_bool),
                ("is_patch_cut", c_bool)]


class _Diff(ctypes.Structure):
    _fields_ = [("changes", POINTER(POINTER(_Change))), ("change_count", c_size_t), ("patch", c_void_p),
                ("patch_len", c_size_t)]


class _ControlOptions(_Sized):
    _fields_ = [("size", c_size_t), ("key", c_char_p), ("ca_file", c_char_p), ("timeout_ms", c_int64)]


class _ControlCapabilities(ctypes.Structure):
    _fields_ = [("snapshots", c_bool), ("rollback", c_bool), ("pause", c_bool), ("launch_process", c_bool),
                ("deep_pause", c_bool), ("concurrent_sandboxes", c_int64), ("max_sandbox_duration_ms", c_int64),
                ("expose_port", c_bool)]


class _SandboxRequest(_Sized):
    _fields_ = [("size", c_size_t), ("sandbox_id", c_char_p), ("labels", POINTER(_Pair)), ("label_count", c_size_t),
                ("template_name", c_char_p), ("cpus", c_double), ("memory_bytes", c_int64), ("disk_bytes", c_int64),
                ("process_count", c_int64), ("network", c_char_p), ("runtime", c_char_p)]


class _SandboxInfo(ctypes.Structure):
    _fields_ = [("sandbox_id", c_char_p), ("address", c_char_p), ("state", c_char_p), ("template_name", c_char_p),
                ("labels", POINTER(_Pair)), ("label_count", c_size_t), ("created_ms", c_int64)]


class _SandboxList(ctypes.Structure):
    _fields_ = [("items", POINTER(POINTER(_SandboxInfo))), ("count", c_size_t)]


class _ProcessRequest(_Sized):
    _fields_ = [("size", c_size_t), ("sandbox_id", c_char_p), ("binary", c_char_p), ("args", POINTER(c_char_p)),
                ("arg_count", c_size_t), ("environment", POINTER(_Pair)), ("environment_count", c_size_t),
                ("cwd", c_char_p), ("user", c_char_p), ("expose_port", c_int), ("has_input", c_bool), ("rows", c_int),
                ("columns", c_int)]


class _ProcessStatus(ctypes.Structure):
    _fields_ = [("process_id", c_char_p), ("address", c_char_p), ("state", c_int), ("has_exit_code", c_bool),
                ("exit_code", c_int), ("signal", c_int), ("is_listening", c_bool)]


_lib = ctypes.CDLL(os.environ.get("LIBCAY", "libcay.so.1"))


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(_lib, name)
    function.restype = result
    function.argtypes = arguments
    return function


_OBJECT = c_void_p
_PLACE = POINTER(c_void_p)
_CALL = POINTER(_CallOptions)
_version = _function("cay_version", c_char_p)
_error_reason = _function("cay_error_reason", c_char_p, POINTER(_Error))
_error_code = _function("cay_error_code", c_int, POINTER(_Error))
_error_get = _function("cay_error_get", c_char_p, POINTER(_Error), c_char_p)
_text_free = _function("cay_text_free", None, POINTER(_Text))


def _call_of(name: str, *arguments: Any) -> Callable[..., None]:
    """A function that fails: its last argument, the error, becomes an exception."""
    function = _function(name, c_bool, *arguments, POINTER(_Error))

    def call(*values: Any) -> None:
        error = _Error()
        if not function(*values, byref(error)):
            raise Error(error)
    return call


_env_open = _call_of("cay_env_open", c_char_p, POINTER(_EnvOptions), _PLACE)
_env_close = _function("cay_env_close", None, _OBJECT)
_env_capabilities = _call_of("cay_env_capabilities", _OBJECT, _CALL, POINTER(POINTER(_EnvCapabilities)))
_env_state = _function("cay_env_state", c_int, _OBJECT)
_env_state_name = _function("cay_env_state_name", c_char_p, c_int)
_env_create = _call_of("cay_env_create", _OBJECT, POINTER(_EnvConfig), _CALL)
_env_attach = _call_of("cay_env_attach", _OBJECT, c_char_p, _CALL)
_env_session_id = _function("cay_env_session_id", c_char_p, _OBJECT)
_env_pause = _call_of("cay_env_pause", _OBJECT, _CALL)
_env_resume = _call_of("cay_env_resume", _OBJECT, _CALL)
_env_destroy = _call_of("cay_env_destroy", _OBJECT, _CALL)
_env_execute_tool = _call_of("cay_env_execute_tool", _OBJECT, POINTER(_ToolRequest), _CALL,
                             POINTER(POINTER(_ToolResponse)))
_tool_response_free = _function("cay_tool_response_free", None, POINTER(_ToolResponse))
_is_file_op = _function("cay_is_file_op", c_bool, c_char_p)
_env_create_snapshot = _call_of("cay_env_create_snapshot", _OBJECT, c_char_p, _CALL, POINTER(POINTER(_Snapshot)))
_env_turn = _call_of("cay_env_turn", _OBJECT, c_char_p, _CALL, POINTER(POINTER(_Snapshot)))
_env_snapshot_free = _function("cay_env_snapshot_free", None, POINTER(_Snapshot))
_env_rollback = _call_of("cay_env_rollback", _OBJECT, c_char_p, _CALL)
_env_fork = _call_of("cay_env_fork", _OBJECT, c_char_p, c_char_p, _CALL, _PLACE)
_env_diff = _call_of("cay_env_diff", _OBJECT, c_char_p, c_char_p, _CALL, POINTER(POINTER(_Diff)))
_env_diff_free = _function("cay_env_diff_free", None, POINTER(_Diff))
_env_restore = _call_of("cay_env_restore", _OBJECT, c_char_p, POINTER(c_char_p), c_size_t, _CALL)
_control_open = _call_of("cay_control_open", c_char_p, POINTER(_ControlOptions), _PLACE)
_control_close = _function("cay_control_close", None, _OBJECT)
_control_capabilities = _call_of("cay_control_capabilities", _OBJECT, _CALL, POINTER(POINTER(_ControlCapabilities)))
_control_create = _call_of("cay_control_create", _OBJECT, POINTER(_SandboxRequest), _CALL,
                           POINTER(POINTER(_SandboxInfo)))
_control_destroy = _call_of("cay_control_destroy", _OBJECT, c_char_p, _CALL)
_control_list = _call_of("cay_control_list", _OBJECT, POINTER(_Pair), c_size_t, _CALL,
                         POINTER(POINTER(_SandboxList)))
_control_pause = _call_of("cay_control_pause", _OBJECT, c_char_p, _CALL)
_control_resume = _call_of("cay_control_resume", _OBJECT, c_char_p, _CALL)
_control_launch = _call_of("cay_control_launch", _OBJECT, POINTER(_ProcessRequest), _CALL,
                           POINTER(POINTER(_ProcessStatus)))
_control_kill = _call_of("cay_control_kill", _OBJECT, c_char_p, c_char_p, c_int, _CALL)
_control_status = _call_of("cay_control_status", _OBJECT, c_char_p, c_char_p, _CALL,
                           POINTER(POINTER(_ProcessStatus)))
_sandbox_info_free = _function("cay_sandbox_info_free", None, POINTER(_SandboxInfo))
_sandbox_list_free = _function("cay_sandbox_list_free", None, POINTER(_SandboxList))
_process_status_free = _function("cay_process_status_free", None, POINTER(_ProcessStatus))
_address_to_url = _call_of("cay_address_to_url", c_char_p, c_bool, POINTER(_Text))


# --- text and numbers, there and back ---

def _to_c(text: Optional[str]) -> Optional[bytes]:
    if text is not None and "\0" in text:
        raise ValueError("a text for libcay cannot hold a NUL")
    return None if text is None else text.encode()


def _from_c(data: Optional[bytes]) -> str:
    return (data or b"").decode(errors="replace")


def _text_at(address: Optional[int], length: int) -> str:
    return _from_c(ctypes.string_at(address, length)) if address else ""


def _pairs(values: Optional[Mapping[str, str]]) -> ctypes.Array[_Pair]:
    items = list((values or {}).items())
    return (_Pair * len(items))(*(_Pair(_to_c(name), _to_c(value)) for name, value in items))


def _within(timeout_s: Optional[float]) -> Any:
    """How a call is made; None: as the object says."""
    return None if timeout_s is None else byref(_CallOptions(timeout_ms=max(1, int(timeout_s * 1000))))


def _ms(seconds: Optional[float]) -> int:
    return int((seconds or 0) * 1000)


class Error(Exception):
    """Why something failed: a reason for programs, a code of RPCs, and a sentence for people."""

    def __init__(self, error: _Error) -> None:
        self.reason: str = _from_c(_error_reason(byref(error)))
        self.code: int = _error_code(byref(error))
        self.text: str = _from_c(error.text)
        self._error = error
        super().__init__(f"{self.text} ({self.reason})")

    def fact(self, name: str) -> Optional[str]:
        """What came with it, such as "nearest"; None when there is nothing of that name."""
        value = _error_get(byref(self._error), name.encode())
        return None if value is None else _from_c(value)


# --- environments ---

@dataclass(frozen=True)
class Capabilities:
    """What an environment can."""
    snapshots: bool
    rollback: bool
    pause: bool
    streaming_progress: bool
    tier_routing: bool
    max_session_duration_ms: int  # 0: unlimited
    concurrent_sessions: int  # 0: unlimited
    turn: bool
    fork: bool
    diff: bool
    restore: bool
    isolates: bool


@dataclass(frozen=True)
class Result:
    """What came of a tool. One that failed at its task is a result all the same."""
    text: str
    is_error: bool
    reason: str  # why it failed, as a word; "" if it did not
    exit_code: Optional[int]  # of a command that ended by itself
    process_id: str  # of a command in the background
    duration_us: int
    is_cached: bool
    raw: Mapping[str, Any]  # the contract's ToolResult

    def __bool__(self) -> bool:
        return not self.is_error and not self.exit_code


@dataclass(frozen=True)
class Snapshot:
    """A point to go back to."""
    id: str
    name: str
    created_ms: int
    space_used_bytes: int


@dataclass(frozen=True)
class Change:
    """A path that differs between two points."""
    kind: str  # "added", "modified", "deleted", "renamed"
    path: str
    old_path: str


@dataclass(frozen=True)
class Diff:
    """What differs between two points."""
    changes: tuple[Change, ...]
    patch: str


Point = Union[Snapshot, str, None]
_KINDS = ("", "added", "modified", "deleted", "renamed")


def _point(point: Point) -> Optional[bytes]:
    return _to_c(point.id if isinstance(point, Snapshot) else point)


class Session:
    """An environment with a session in it. Leaving `with` destroys the session, unless it was only attached to."""

    def __init__(self, address: str, *, base: Optional[str] = None, session_id: Optional[str] = None,
                 attach: bool = False, key: Optional[str] = None, ca_file: Optional[str] = None,
                 store: Optional[str] = None, labels: Optional[Mapping[str, str]] = None,
                 env: Optional[Mapping[str, str]] = None, memory_bytes: int = 0, cpus: float = 0,
                 disk_bytes: int = 0, process_count: int = 0, network: Optional[str] = None,
                 runtime: Optional[str] = None, timeout_s: Optional[float] = None) -> None:
        self._env: Optional[int] = None
        self._is_own = not attach
        place = c_void_p()
        _env_open(_to_c(address), byref(_EnvOptions(
            key=_to_c(key), ca_file=_to_c(ca_file), store=_to_c(store), runtime=_to_c(runtime),
            timeout_ms=_ms(timeout_s))), byref(place))
        self._env = place.value
        try:
            if attach:
                _env_attach(self._env, _to_c(session_id or ""), None)
            else:
                label_pairs, env_pairs = _pairs(labels), _pairs(env)
                _env_create(self._env, byref(_EnvConfig(
                    base=_to_c(base), session_id=_to_c(session_id), labels=label_pairs,
                    label_count=len(label_pairs), environment=env_pairs, environment_count=len(env_pairs),
                    memory_bytes=memory_bytes, cpus=cpus, disk_bytes=disk_bytes, process_count=process_count,
                    network=_to_c(network), runtime=_to_c(runtime))), None)
        except BaseException:
            self.close()
            raise

    @classmethod
    def _of(cls, env: Optional[int]) -> Session:
        session = cls.__new__(cls)
        session._env = env
        session._is_own = True
        return session

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._is_own and self._env:
                self.destroy()
        finally:
            self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the environment. A session of a daemon stays as it is."""
        env, self._env = getattr(self, "_env", None), None
        if env:
            _env_close(env)

    @property
    def id(self) -> str:
        """The id of the session."""
        return _from_c(_env_session_id(self._env))

    @property
    def state(self) -> str:
        """Where it is in its life, as a word: "active"."""
        return _from_c(_env_state_name(_env_state(self._env)))

    @property
    def capabilities(self) -> Capabilities:
        """What the environment can, which does not change."""
        place = POINTER(_EnvCapabilities)()
        _env_capabilities(self._env, None, byref(place))
        return Capabilities(**{name: getattr(place[0], name) for name, _ in _EnvCapabilities._fields_})

    def tool(self, name: str, *, progress: Optional[Callable[[int, bytes], None]] = None,
             tool_call_id: Optional[str] = None, cwd: Optional[str] = None, user: Optional[str] = None,
             env: Optional[Mapping[str, str]] = None, tool_timeout_s: Optional[float] = None,
             timeout_s: Optional[float] = None, **params: Any) -> Result:
        """Calls a tool. `progress` gets what it prints, as it comes: 1 or 2 for the stream, and bytes."""
        raised: list[BaseException] = []

        def on_progress(_: Any, told: Any) -> None:
            try:
                if progress and not raised:
                    progress(told[0].stream, ctypes.string_at(told[0].data, told[0].len))
            except BaseException as error:  # pylint: disable=broad-except
                raised.append(error)  # C cannot carry it; it is raised when the call is over

        pairs = _pairs(env)
        callback = _ProgressFunction(on_progress) if progress else _ProgressFunction()
        request = _ToolRequest(
            tool_name=_to_c(name), params=json.dumps(params).encode(), tool_call_id=_to_c(tool_call_id),
            cwd=_to_c(cwd), user=_to_c(user), environment=pairs, environment_count=len(pairs),
            tool_timeout_ms=_ms(tool_timeout_s), progress=callback)
        place = POINTER(_ToolResponse)()
        _env_execute_tool(self._env, byref(request), _within(timeout_s), byref(place))
        try:
            told = place[0]
            result = Result(
                text=_text_at(told.text, told.text_len), is_error=told.is_error, reason=_from_c(told.reason),
                exit_code=told.exit_code if told.has_exit_code else None, process_id=_from_c(told.process_id),
                duration_us=told.duration_us, is_cached=told.is_cached,
                raw=json.loads(_text_at(told.json, told.json_len) or "{}"))
        finally:
            _tool_response_free(place)
        if raised:
            raise raised[0]
        return result

    def run(self, command: str, **options: Any) -> Result:
        """Runs a command line; the options are those of `tool`."""
        return self.tool("bash", cmd=command, **options)

    def read(self, path: str) -> str:
        """The text of a file, as read_file tells it."""
        return self.tool("read_file", path=path).text

    def write(self, path: str, content: str) -> Result:
        """Makes a file, or replaces what is in it."""
        return self.tool("write_file", path=path, content=content)

    def _snapshot(self, call: Callable[..., None], text: Optional[str], timeout_s: Optional[float]) -> Snapshot:
        place = POINTER(_Snapshot)()
        call(self._env, _to_c(text), _within(timeout_s), byref(place))
        try:
            told = place[0]
            return Snapshot(_from_c(told.id), _from_c(told.name), told.created_ms, told.space_used_bytes)
        finally:
            _env_snapshot_free(place)

    def turn(self, message: Optional[str] = None, *, timeout_s: Optional[float] = None) -> Snapshot:
        """Ends a turn: a point to go back to."""
        return self._snapshot(_env_turn, message, timeout_s)

    def snapshot(self, name: str, *, timeout_s: Optional[float] = None) -> Snapshot:
        """Takes a snapshot with a name."""
        return self._snapshot(_env_create_snapshot, name, timeout_s)

    def rollback(self, to: Union[Snapshot, str], *, timeout_s: Optional[float] = None) -> None:
        """Takes the files back to a snapshot."""
        _env_rollback(self._env, _point(to), _within(timeout_s))

    def diff(self, since: Point = None, to: Point = None, *, timeout_s: Optional[float] = None) -> Diff:
        """What changed since a point (None: the base) until another (None: now)."""
        place = POINTER(_Diff)()
        _env_diff(self._env, _point(since), _point(to), _within(timeout_s), byref(place))
        try:
            told = place[0]
            changes = (told.changes[i][0] for i in range(told.change_count))
            return Diff(tuple(Change(_KINDS[change.kind] if change.kind < len(_KINDS) else "unknown",
                                     _from_c(change.path), _from_c(change.old_path)) for change in changes),
                        _text_at(told.patch, told.patch_len))
        finally:
            _env_diff_free(place)

    def restore(self, at: Union[Snapshot, str], paths: Iterable[str], *, timeout_s: Optional[float] = None) -> None:
        """Brings paths back as they were at a snapshot."""
        names = [_to_c(path) for path in paths]
        _env_restore(self._env, _point(at), (c_char_p * len(names))(*names), len(names), _within(timeout_s))

    def fork(self, count: int = 1, *, at: Point = None, timeout_s: Optional[float] = None) -> list[Session]:
        """Other sessions that begin where this one was (None: where it is). They are the caller's, to be used by `with`."""
        forks: list[Session] = []
        try:
            for _ in range(count):
                place = c_void_p()
                _env_fork(self._env, _point(at), None, _within(timeout_s), byref(place))
                forks.append(Session._of(place.value))
        except BaseException:
            for fork in forks:  # all or nothing
                fork.__exit__()
            raise
        return forks

    def pause(self, *, timeout_s: Optional[float] = None) -> None:
        """What runs stands still until `resume`."""
        _env_pause(self._env, _within(timeout_s))

    def resume(self, *, timeout_s: Optional[float] = None) -> None:
        """What stood still goes on."""
        _env_resume(self._env, _within(timeout_s))

    def destroy(self, *, timeout_s: Optional[float] = None) -> None:
        """Removes the session with its files and its past. Again is no failure."""
        _env_destroy(self._env, _within(timeout_s))


# --- controls ---

@dataclass(frozen=True)
class ControlCapabilities:
    """What a control can."""
    snapshots: bool
    rollback: bool
    pause: bool
    launch_process: bool
    deep_pause: bool
    concurrent_sandboxes: int  # 0: unlimited
    max_sandbox_duration_ms: int  # 0: unlimited
    expose_port: bool


@dataclass(frozen=True)
class Sandbox:
    """A sandbox as its host tells of it."""
    id: str
    address: str
    state: str
    template: str
    labels: Mapping[str, str]
    created_ms: int


@dataclass(frozen=True)
class Process:
    """A launched process."""
    id: str
    address: str  # host:port of its port, reached from here
    state: str  # "starting", "running", "exited"
    exit_code: Optional[int]
    signal: int  # that ended it; 0: none did
    is_listening: bool


_STATES = ("", "starting", "running", "exited")


def _sandbox(told: _SandboxInfo) -> Sandbox:
    labels = {_from_c(told.labels[i].name): _from_c(told.labels[i].value) for i in range(told.label_count)}
    return Sandbox(_from_c(told.sandbox_id), _from_c(told.address), _from_c(told.state),
                   _from_c(told.template_name), labels, told.created_ms)


class Control:
    """What an orchestrator holds. Leaving `with` closes it; sandboxes stay."""

    def __init__(self, address: str, *, key: Optional[str] = None, ca_file: Optional[str] = None,
                 timeout_s: Optional[float] = None) -> None:
        self._control: Optional[int] = None
        place = c_void_p()
        _control_open(_to_c(address), byref(_ControlOptions(
            key=_to_c(key), ca_file=_to_c(ca_file), timeout_ms=_ms(timeout_s))), byref(place))
        self._control = place.value

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Sandboxes stay."""
        control, self._control = getattr(self, "_control", None), None
        if control:
            _control_close(control)

    @property
    def capabilities(self) -> ControlCapabilities:
        """What the host can, which does not change."""
        place = POINTER(_ControlCapabilities)()
        _control_capabilities(self._control, None, byref(place))
        return ControlCapabilities(**{name: getattr(place[0], name) for name, _ in _ControlCapabilities._fields_})

    def create(self, *, sandbox_id: Optional[str] = None, labels: Optional[Mapping[str, str]] = None,
               template: Optional[str] = None, cpus: float = 0, memory_bytes: int = 0, disk_bytes: int = 0,
               process_count: int = 0, network: Optional[str] = None, runtime: Optional[str] = None,
               timeout_s: Optional[float] = None) -> Sandbox:
        """Makes a sandbox. Limits are enforced, or it is not made."""
        pairs = _pairs(labels)
        request = _SandboxRequest(
            sandbox_id=_to_c(sandbox_id), labels=pairs, label_count=len(pairs), template_name=_to_c(template),
            cpus=cpus, memory_bytes=memory_bytes, disk_bytes=disk_bytes, process_count=process_count,
            network=_to_c(network), runtime=_to_c(runtime))
        place = POINTER(_SandboxInfo)()
        _control_create(self._control, byref(request), _within(timeout_s), byref(place))
        try:
            return _sandbox(place[0])
        finally:
            _sandbox_info_free(place)

    def destroy(self, sandbox_id: str, *, timeout_s: Optional[float] = None) -> None:
        """Removes a sandbox. One that is gone already is no failure."""
        _control_destroy(self._control, _to_c(sandbox_id), _within(timeout_s))

    def list(self, labels: Optional[Mapping[str, str]] = None, *, timeout_s: Optional[float] = None) -> List[Sandbox]:
        """All sandboxes that have these labels."""
        pairs = _pairs(labels)
        place = POINTER(_SandboxList)()
        _control_list(self._control, pairs, len(pairs), _within(timeout_s), byref(place))
        try:
            return [_sandbox(place[0].items[i][0]) for i in range(place[0].count)]
        finally:
            _sandbox_list_free(place)

    def pause(self, sandbox_id: str, *, timeout_s: Optional[float] = None) -> None:
        """What runs in it stands still until `resume`."""
        _control_pause(self._control, _to_c(sandbox_id), _within(timeout_s))

    def resume(self, sandbox_id: str, *, timeout_s: Optional[float] = None) -> None:
        """What stood still goes on."""
        _control_resume(self._control, _to_c(sandbox_id), _within(timeout_s))

    def _process(self, call: Callable[..., None], *values: Any) -> Process:
        place = POINTER(_ProcessStatus)()
        call(self._control, *values, byref(place))
        try:
            told = place[0]
            return Process(_from_c(told.process_id), _from_c(told.address),
                           _STATES[told.state] if told.state < len(_STATES) else "unknown",
                           told.exit_code if told.has_exit_code else None, told.signal, told.is_listening)
        finally:
            _process_status_free(place)

    def launch(self, sandbox_id: str, binary: str, *args: str, env: Optional[Mapping[str, str]] = None,
               cwd: Optional[str] = None, user: Optional[str] = None, expose_port: int = 0,
               timeout_s: Optional[float] = None) -> Process:
        """Starts a program, and makes the port reachable that it will listen on."""
        pairs = _pairs(env)
        words = (c_char_p * len(args))(*(_to_c(word) for word in args))
        request = _ProcessRequest(
            sandbox_id=_to_c(sandbox_id), binary=_to_c(binary), args=words, arg_count=len(words), environment=pairs,
            environment_count=len(pairs), cwd=_to_c(cwd), user=_to_c(user), expose_port=expose_port)
        return self._process(_control_launch, byref(request), _within(timeout_s))

    def kill(self, sandbox_id: str, process_id: str, signal: int = 0, *, timeout_s: Optional[float] = None) -> None:
        """Sends a signal (0: SIGTERM) to a process and all that it started."""
        _control_kill(self._control, _to_c(sandbox_id), _to_c(process_id), signal, _within(timeout_s))

    def status(self, sandbox_id: str, process_id: str, *, timeout_s: Optional[float] = None) -> Process:
        """How a process is, or how it ended."""
        return self._process(_control_status, _to_c(sandbox_id), _to_c(process_id), _within(timeout_s))


# --- the rest ---

def version() -> str:
    """The version of the library that is there."""
    return _from_c(_version())


def is_file_op(tool_name: str) -> bool:
    """Whether a tool works on files, or runs a command."""
    return _is_file_op(_to_c(tool_name))


def address_to_url(address: str, *, is_tls: bool = False) -> str:
    """ "host:port" as a URL."""
    text = _Text()
    _address_to_url(_to_c(address), is_tls, byref(text))
    try:
        return _from_c(text.data)
    finally:
        _text_free(byref(text))
