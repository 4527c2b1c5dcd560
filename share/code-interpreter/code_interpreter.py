#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A code interpreter for the inside of a sandbox: Python that remembers, over HTTP.

    POST /execute {code, context_id?, language?, env_vars?}   answers lines of JSON as things happen
    POST /contexts {language?, cwd?}      GET /contexts       DELETE /contexts/ID
    POST /contexts/ID/restart             GET /health

A context is a process of its own with its own variables, so that one that crashes, is stopped or
restarted harms no other. The server reads what it says from a pipe; a client that goes away while
its code runs interrupts it. Nothing but Python's own library is needed; what the code can import,
it can show: pandas tables, matplotlib figures, anything with _repr_html_ and the like.
"""

import argparse
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT = 49999
BODY_BYTES_MAX = 16 << 20
CONTEXTS_MAX = 64
LINE_BYTES_MAX = 64 << 20  # of one result
LANGUAGES = ("python", "python3")
PATIENCE_S = 2  # of an interrupted execution, before its process is killed
OUTPUT_BYTES_MAX = 1 << 18  # about, of one message
LINE_REST_S = 0.02  # how long the beginning of a line waits for the rest of it


class Refusal(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Context:
    """A Python process and the pipes to it. `busy` is held while code runs in it."""

    def __init__(self, cwd, language="python"):
        self.id = str(uuid.uuid4())
        self.cwd = cwd
        self.language = language
        self.count = 0
        self.busy = threading.Lock()
        self.is_ending = False
        self.start()

    def start(self):
        says, theirs = os.pipe()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-u", os.path.abspath(__file__), "--context", str(theirs)],
                cwd=self.cwd, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, pass_fds=(theirs,), start_new_session=True)
        except OSError as error:
            os.close(says)
            raise Refusal(400, f"a context cannot start in {self.cwd}: {error.strerror}") from None
        finally:
            os.close(theirs)
        self.says = os.fdopen(says, "rb", buffering=1 << 16)
        self.count = 0

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdin.close()

    def close(self):
        """End it; whoever runs code in it sees that."""
        self.is_ending = True
        self.kill()
        with self.busy:
            self.says.close()

    def restart(self):
        self.is_ending = True
        self.kill()
        with self.busy:
            self.says.close()
            self.start()
            self.is_ending = False

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def execute(self, code, env):
        """Yield what happens, as bytes of JSON lines, until the code is done."""
        self.count += 1
        yield encode({"type": "number_of_executions", "execution_count": self.count})
        request = json.dumps({"code": code, "env": env}).encode() + b"\n"
        if self.is_ending:
            yield self.lost()
            return
        try:
            self.process.stdin.write(request)
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # the read below tells
        while True:
            line = self.says.readline(LINE_BYTES_MAX)
            if not line.endswith(b"\n"):
                yield self.lost()
                return
            if line == b"done\n":
                return
            yield line

    def lost(self):
        if self.is_ending:
            return encode({"type": "error", "name": "ContextEnded", "traceback": "",
                           "value": "the context was restarted or removed"})
        self.kill()
        status = self.process.returncode
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        self.says.close()
        self.start()
        return encode({"type": "error", "name": "ContextEnded", "traceback": "",
                       "value": f"the interpreter ended ({how}); it was restarted and is empty"})

    def describe(self):
        return {"id": self.id, "language": self.language, "cwd": self.cwd}


def encode(message):
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class Contexts:
    """All contexts, by id. The one that calls without a context use is made when first needed."""

    def __init__(self, cwd):
        self.cwd = cwd
        self.lock = threading.Lock()
        self.table = {}
        self.default = None

    def create(self, cwd=None, language=None):
        if (language or "python") not in LANGUAGES:
            raise Refusal(400, f"language {language!r} is not here; there is: python")
        with self.lock:
            if len(self.table) >= CONTEXTS_MAX:
                raise Refusal(429, f"there are {CONTEXTS_MAX} contexts; remove one first")
            context = Context(cwd or self.cwd)
            self.table[context.id] = context
            return context

    def get(self, context_id):
        with self.lock:
            context = self.table.get(context_id)
        if not context:
            raise Refusal(404, f"context {context_id} is not there")
        return context

    def get_default(self):
        if not self.default or self.default.id not in self.table:
            self.default = self.create()
        return self.default

    def remove(self, context_id):
        context = self.get(context_id)
        with self.lock:
            self.table.pop(context_id, None)
        context.close()

    def all(self):
        with self.lock:
            return list(self.table.values())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "cay-code-interpreter"
    sys_version = ""

    def log_message(self, *_):
        pass

    def answer(self, status, body=None):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if body is not None:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def read_chunked(self):
        data = bytearray()
        while True:
            size = int(self.rfile.readline(64).split(b";")[0].strip(), 16)
            if size < 0 or len(data) + size > BODY_BYTES_MAX:
                raise Refusal(413, "the request is too large")
            data += self.rfile.read(size)
            self.rfile.readline(8)
            if not size:
                return bytes(data)

    def read_body(self):
        try:
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                data = self.read_chunked()
            else:
                length = int(self.headers.get("Content-Length") or 0)
                if not 0 <= length <= BODY_BYTES_MAX:
                    raise Refusal(413, "the request is too large")
                data = self.rfile.read(length)
            body = json.loads(data or b"{}")
        except ValueError:
            raise Refusal(400, "the request is not JSON") from None
        if not isinstance(body, dict):
            raise Refusal(400, "the request is not a JSON object")
        return body

    def route(self, routes):
        contexts = self.server.contexts
        parts = tuple(self.path.partition("?")[0].strip("/").split("/"))
        try:
            for pattern, action in routes:
                if len(pattern) == len(parts) and all(p in ("*", q) for p, q in zip(pattern, parts)):
                    action(self, contexts, parts)
                    return
            raise Refusal(404, f"{self.command} {self.path} is not here")
        except Refusal as refusal:
            self.close_connection = refusal.status == 413
            self.answer(refusal.status, {"code": refusal.status, "message": str(refusal)})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def health(self, _contexts, _parts):
        self.answer(200, {"status": "ok"})

    def list_contexts(self, contexts, _parts):
        self.answer(200, [context.describe() for context in contexts.all()])

    def create_context(self, contexts, _parts):
        body = self.read_body()
        context = contexts.create(text(body, "cwd"), text(body, "language"))
        self.answer(200, context.describe())

    def restart_context(self, contexts, parts):
        self.read_body()
        contexts.get(parts[1]).restart()
        self.answer(204)

    def remove_context(self, contexts, parts):
        contexts.remove(parts[1])
        self.answer(204)

    def execute(self, contexts, _parts):
        body = self.read_body()
        code = text(body, "code")
        if code is None:
            raise Refusal(400, "code is missing")
        env = body.get("env_vars") or {}
        if not isinstance(env, dict) or not all(isinstance(v, str) for v in env.values()):
            raise Refusal(400, "env_vars must be an object of strings")
        if (text(body, "language") or "python") not in LANGUAGES:
            raise Refusal(400, f"language {body['language']!r} is not here; there is: python")
        wanted = text(body, "context_id")
        context = contexts.get(wanted) if wanted else contexts.get_default()
        with context.busy:
            self.send_response(200)
            self.send_header("Content-Type", "application/x-ndjson")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.stream(context, context.execute(code, env))

    def stream(self, context, lines):
        """Send the lines; a client that is gone interrupts what runs, whatever it says then."""
        done = threading.Event()
        watcher = threading.Thread(target=watch, args=(self.connection, context, done), daemon=True)
        watcher.start()
        is_gone = False
        for line in lines:
            try:
                if not is_gone:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
            except OSError:
                is_gone = True
        done.set()
        watcher.join()
        if not is_gone:
            self.wfile.write(b"0\r\n\r\n")

    def do_GET(self):
        self.route(((("health",), Handler.health), (("contexts",), Handler.list_contexts)))

    def do_POST(self):
        self.route(((("execute",), Handler.execute), (("contexts",), Handler.create_context),
                    (("contexts", "*", "restart"), Handler.restart_context)))

    def do_DELETE(self):
        self.route(((("contexts", "*"), Handler.remove_context),))


def text(body, name):
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise Refusal(400, f"{name} must be a string")
    return value


def watch(connection, context, done):
    """Interrupt the context when its client hangs up; kill it when that does not help."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    while not done.is_set():
        if not poll.poll(100):
            continue
        context.interrupt()
        if not done.wait(PATIENCE_S):
            context.kill()
        return


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    contexts = None


# What follows runs in the process of a context.


class Teller:
    """Says what happens to the server. Output of programs and of C comes through pipes, whose
    readers are waited for at the end of an execution, so that nothing comes after its `done`."""

    def __init__(self, fd):
        self.out = os.fdopen(fd, "wb", buffering=0)
        self.lock = threading.Lock()
        self.drained = {}
        self.marks = {}
        for name, target in (("stdout", 1), ("stderr", 2)):
            ours, theirs = os.pipe()
            os.dup2(theirs, target)
            os.close(theirs)
            self.marks[name] = uuid.uuid4().hex.encode()
            self.drained[name] = threading.Event()
            threading.Thread(target=self.pump, args=(name, ours), daemon=True).start()

    def raw(self, line):
        with self.lock:
            view = memoryview(line)
            while view:
                view = view[self.out.write(view):]

    def say(self, kind, **fields):
        self.raw(encode({"type": kind, **fields}))

    def say_output(self, name, data):
        if data:
            self.say(name, text=data.decode("utf-8", "replace"))

    def pump(self, name, fd):
        mark = self.marks[name]
        held = b""
        while True:
            held += os.read(fd, 1 << 16)
            # print() writes a line in two pieces; it is told in one.
            while (not held.endswith(b"\n") and len(held) < OUTPUT_BYTES_MAX and mark not in held
                   and select.select([fd], [], [], LINE_REST_S)[0]):
                held += os.read(fd, 1 << 16)
            before, found, after = held.partition(mark)
            if found:
                self.say_output(name, before)
                held = after
                self.drained[name].set()
                continue
            keep = max((n for n in range(1, len(mark)) if held.endswith(mark[:n])), default=0)
            keep = max(keep, cut_in_character(held))
            self.say_output(name, held[:len(held) - keep])
            held = held[len(held) - keep:]

    def drain(self):
        sys.stdout.flush()
        sys.stderr.flush()
        for name, target in (("stdout", 1), ("stderr", 2)):
            self.drained[name].clear()
            os.write(target, self.marks[name])
            self.drained[name].wait()


def cut_in_character(data):
    """How many bytes at the end are the beginning of a character whose rest is to come."""
    for n in range(1, min(4, len(data) + 1)):
        byte = data[-n]
        if byte & 0xC0 != 0x80:
            need = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return n if need > n else 0
    return 0


FORMS = (("html", "_repr_html_"), ("markdown", "_repr_markdown_"), ("svg", "_repr_svg_"),
         ("png", "_repr_png_"), ("jpeg", "_repr_jpeg_"), ("pdf", "_repr_pdf_"),
         ("latex", "_repr_latex_"), ("json", "_repr_json_"), ("javascript", "_repr_javascript_"))


def as_text(form):
    """A form of a value as JSON can carry it: bytes in base64."""
    import base64

    return base64.b64encode(form).decode() if isinstance(form, bytes) else form


def is_form(name, form):
    """Can the client read it? There is no NaN in JSON, and all other forms are text."""
    if name != "json":
        return isinstance(form, (str, bytes))
    try:
        json.dumps(form, allow_nan=False)
        return form is not None
    except (TypeError, ValueError, RecursionError):
        return False


def forms_of(value):
    result = {"text": repr(value)}
    for name, method in FORMS:
        try:
            call = getattr(value, method, None)
            form = call() if call and not isinstance(value, type) else None
            form = form[0] if isinstance(form, tuple) else form
        except Exception:  # a broken form is no reason to lose the others
            continue
        if is_form(name, form):
            result[name] = as_text(form)
    if "json" not in result and isinstance(value, (dict, list)) and is_form("json", value):
        result["json"] = value
    return result


def png_of(figure):
    import io

    data = io.BytesIO()
    figure.savefig(data, format="png", bbox_inches="tight")
    return as_text(data.getvalue())


def show_figures(teller):
    pyplot = sys.modules.get("matplotlib.pyplot")
    if not pyplot:
        return
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        teller.say("result", is_main_result=False, text=repr(figure), png=png_of(figure))
    pyplot.close("all")


def place_of(error):
    """Where the client's code comes into its traceback; none for code that was never run."""
    trace = error.__traceback__
    while trace and not trace.tb_frame.f_code.co_filename.startswith("<cell "):
        trace = trace.tb_next
    return trace


class Interpreter:
    def __init__(self, teller):
        import types

        self.teller = teller
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        self.names = main.__dict__
        self.names["display"] = self.display
        self.count = 0
        self.loop = None  # stays: what one execution began, another may await

    def display(self, *values):
        self.teller.drain()
        for value in values:
            self.teller.say("result", is_main_result=False, **forms_of(value))

    def run(self, code):
        """Like a notebook's cell: what its last expression gives is the result."""
        import ast
        import linecache

        self.count += 1
        name = f"<cell {self.count}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        tree = ast.parse(code, name)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        parts = [compile(tree, name, "exec", flags)]
        if last:
            parts.append(compile(ast.Expression(last.value), name, "eval", flags))
        value = self.evaluate(parts)
        if value is not None and not code.rstrip().endswith(";"):
            self.names["_"] = value
            forms = forms_of(value)
            self.teller.drain()
            self.teller.say("result", is_main_result=True, **forms)

    def evaluate(self, parts):
        """What the last part gives. With an await in any of them, all run in the context's loop."""
        import inspect

        if any(part.co_flags & inspect.CO_COROUTINE for part in parts):
            return self.finish(self.evaluate_async(parts))
        for part in parts:
            value = eval(part, self.names)  # what this program is for
        return value

    async def evaluate_async(self, parts):
        import inspect

        for part in parts:
            value = eval(part, self.names)
            if part.co_flags & inspect.CO_COROUTINE:
                value = await value
        return value

    def finish(self, coroutine):
        import asyncio

        if not self.loop or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(coroutine)
        try:
            return self.loop.run_until_complete(task)
        except BaseException:
            if not task.done():  # interrupted: it must not go on with the next execution
                task.cancel()
                self.loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
            raise

    def execute(self, code, env):
        import traceback

        kept = {name: os.environ.get(name) for name in env}
        os.environ.update(env)
        try:
            self.run(code)
            show_figures(self.teller)
        except BaseException as error:
            lines = traceback.format_exception(type(error), error, place_of(error))
            self.teller.drain()
            self.teller.say("error", name=type(error).__name__, value=str(error),
                            traceback="".join(lines))
        finally:
            for name, value in kept.items():
                os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def serve_context(fd):
    os.environ.setdefault("MPLBACKEND", "Agg")
    requests = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.set_inheritable(fd, False)
    teller = Teller(fd)
    sys.path[0] = ""
    sys.argv = [""]
    interpreter = Interpreter(teller)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in requests:
        request = json.loads(line)
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            interpreter.execute(request["code"], request["env"])
        except KeyboardInterrupt:
            pass  # it came as the code ended
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        teller.drain()
        teller.raw(b"done\n")


def main():
    parser = argparse.ArgumentParser(description="A code interpreter over HTTP.")
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--cwd", default=str(Path.home()))
    parser.add_argument("--context", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.context is not None:
        serve_context(arguments.context)
        return
    server = Server((arguments.host, arguments.port), Handler)
    server.contexts = Contexts(arguments.cwd)
    print(f"code interpreter on port {server.server_address[1]}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.contexts.get_default()
        server.serve_forever()
    finally:
        for context in server.contexts.all():
            context.kill()


if __name__ == "__main__":
    main()
