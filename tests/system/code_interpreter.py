#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The code interpreter that sandboxes carry, spoken to directly: code_interpreter.py PROGRAM"""

import http.client
import json
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "echo"))
from daemon import case, list_if_asked, run  # noqa: E402

SHAPES = """
class Shape:
    def __repr__(self): return 'a shape'
    def _repr_html_(self): return '<b>shape</b>'
    def _repr_png_(self): return b'\\x89PNG'
    def _repr_svg_(self): raise ValueError('broken')
Shape()
"""


class Interpreter:
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, sys.argv[1], "--host", "127.0.0.1", "--port", "0",
                                         "--cwd", "/"], stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline().split()[-1])

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, None if body is None else json.dumps(body))
        return connection, connection.getresponse()

    def call(self, method, path, body=None):
        connection, response = self.request(method, path, body)
        data = response.read()
        connection.close()
        return response.status, json.loads(data) if data else None

    def run(self, code, **more):
        connection, response = self.request("POST", "/execute", {"code": code, **more})
        assert response.status == 200, response.read()
        messages = [json.loads(line) for line in response]
        connection.close()
        return messages

    def of(self, kind, code, **more):
        return [message for message in self.run(code, **more) if message["type"] == kind]


def read_until(response, text):
    """Reads output, in whatever pieces, up to that text."""
    seen = ""
    while seen != text:
        message = json.loads(response.readline())
        assert message["type"] in ("stdout", "number_of_executions"), message
        seen += message.get("text", "")
        assert text.startswith(seen), seen


def text_of(messages):
    return "".join(message["text"] for message in messages)


@case
def variables_stay(interpreter):
    """variables stay from one execution to the next"""
    interpreter.run("x = 41")
    result, = interpreter.of("result", "x + 1")
    assert result["text"] == "42" and result["is_main_result"], result
    assert not interpreter.of("result", "x + 1;")
    assert not interpreter.of("result", "None")
    assert not interpreter.run("")[1:]


@case
def executions_are_counted(interpreter):
    """executions are counted"""
    first, = interpreter.of("number_of_executions", "1")
    second, = interpreter.of("number_of_executions", "1")
    assert second["execution_count"] == first["execution_count"] + 1


@case
def output_comes_in_order_and_whole(interpreter):
    """output comes in order, whole, and before the result"""
    code = "import os, subprocess\nprint('a')\nos.system('echo b')\nprint('ü' * 50000)\n'end'"
    messages = interpreter.run(code)
    assert text_of(m for m in messages if m["type"] == "stdout") == "a\nb\n" + "ü" * 50000 + "\n"
    assert messages[-1]["type"] == "result" and messages[-1]["text"] == "'end'"
    assert text_of(interpreter.of("stderr", "import sys; sys.stderr.write('e')")) == "e"


@case
def output_comes_while_the_code_runs(interpreter):
    """output comes while the code runs; a client that leaves interrupts it"""
    connection, response = interpreter.request("POST", "/execute", {
        "code": "import os\nprint('now')\nr, w = os.pipe()\nos.read(r, 1)"})
    read_until(response, "now\n")
    connection.sock.close()
    connection.close()
    assert interpreter.of("result", "6 * 7")[0]["text"] == "42"  # the one that hung was interrupted


@case
def errors_have_name_value_and_place(interpreter):
    """errors have a name, a value and a place"""
    error, = interpreter.of("error", "def f():\n    return 1 / 0\nf()")
    assert error["name"] == "ZeroDivisionError" and error["value"] == "division by zero", error
    assert "return 1 / 0" in error["traceback"] and "code_interpreter" not in error["traceback"], error
    error, = interpreter.of("error", "x ==")
    assert error["name"] == "SyntaxError" and "x ==" in error["traceback"] and "ast.py" not in error["traceback"], error
    error, = interpreter.of("error", "import asyncio\nawait asyncio.sleep(0)\n1 / 0")
    assert error["name"] == "ZeroDivisionError" and "1 / 0" in error["traceback"], error
    assert "asyncio/" not in error["traceback"] and "code_interpreter" not in error["traceback"], error


@case
def values_show_themselves(interpreter):
    """values show themselves in the forms they have"""
    shape, = interpreter.of("result", SHAPES)
    assert shape["html"] == "<b>shape</b>" and shape["png"] == "iVBORw==" and "svg" not in shape, shape
    table, = interpreter.of("result", "{'a': [1, 2]}")
    assert table["json"] == {"a": [1, 2]}, table
    # What JSON has no words for, and what is no text, costs its form only.
    for form in ("_repr_json_(self): return {'a': float('nan')}", "_repr_json_(self): return object()", "_repr_html_(self): return 5"):
        odd, = interpreter.of("result", f"class Odd:\n    def __repr__(self): return 'odd'\n    def {form}\nOdd()")
        assert odd["text"] == "odd" and "json" not in odd and "html" not in odd, (form, odd)
    shown, main = interpreter.of("result", "display(1)\n2")
    assert (shown["is_main_result"], main["is_main_result"]) == (False, True)


@case
def the_environment_is_for_one_execution(interpreter):
    """environment variables are for one execution"""
    code = "import os; os.environ.get('CAY_X')"
    assert interpreter.of("result", code, env_vars={"CAY_X": "here"})[0]["text"] == "'here'"
    assert not interpreter.of("result", code)


@case
def await_works_at_the_top(interpreter):
    """await works at the top"""
    assert interpreter.of("result", "import asyncio\nawait asyncio.sleep(0, 'slept')")[0]["text"] == "'slept'"
    # All of an execution, and all executions of a context, have the same loop.
    task = "task = asyncio.create_task(asyncio.sleep(0, 'done'))\n"
    assert interpreter.of("result", task + "await task")[0]["text"] == "'done'"
    assert not interpreter.of("error", "event = asyncio.Event()\nwaiter = asyncio.create_task(event.wait())\nawait asyncio.sleep(0)")
    assert interpreter.of("result", "event.set()\nawait waiter")[0]["text"] == "True"
    assert interpreter.of("result", "asyncio.run(asyncio.sleep(0, 'run'))")[0]["text"] == "'run'"
    assert interpreter.of("result", "await asyncio.sleep(0, 'again')")[0]["text"] == "'again'"


@case
def contexts_are_apart(interpreter):
    """contexts are apart"""
    status, context = interpreter.call("POST", "/contexts", {"cwd": "/usr"})
    assert status == 200 and context["cwd"] == "/usr" and context["language"] == "python", context
    place = f"/contexts/{context['id']}"
    interpreter.run("y = 1")
    assert interpreter.of("error", "y", context_id=context["id"])[0]["name"] == "NameError"
    assert interpreter.of("result", "import os; os.getcwd()", context_id=context["id"])[0]["text"] == "'/usr'"
    assert context in interpreter.call("GET", "/contexts")[1]
    interpreter.run("z = 1", context_id=context["id"])
    assert interpreter.call("POST", place + "/restart")[0] == 204
    assert interpreter.of("error", "z", context_id=context["id"])[0]["name"] == "NameError"
    assert interpreter.call("DELETE", place)[0] == 204
    assert interpreter.call("DELETE", place)[0] == 404


@case
def a_restart_ends_what_runs(interpreter):
    """a restart ends what runs"""
    _, context = interpreter.call("POST", "/contexts", {})
    place = f"/contexts/{context['id']}"
    connection, response = interpreter.request("POST", "/execute", {
        "code": "print('on')\nwhile True: pass", "context_id": context["id"]})
    read_until(response, "on\n")
    assert interpreter.call("POST", place + "/restart")[0] == 204
    assert json.loads(response.readline())["name"] == "ContextEnded"
    connection.close()
    assert interpreter.of("result", "1", context_id=context["id"])
    assert interpreter.call("DELETE", place)[0] == 204


@case
def a_crash_is_told_and_survived(interpreter):
    """a crash is told and survived"""
    error, = interpreter.of("error", "import os; os.kill(os.getpid(), 9)")
    assert error["name"] == "ContextEnded" and "SIGKILL" in error["value"], error
    assert interpreter.of("error", "raise SystemExit(3)")[0]["name"] == "SystemExit"
    assert interpreter.of("result", "1 + 1")[0]["text"] == "2"


@case
def executions_of_one_context_wait_for_each_other(interpreter):
    """executions of one context wait for each other"""
    interpreter.run("n = 0")
    def add():
        interpreter.run("m = n\nimport time\ntime.sleep(0.01)\nn = m + 1")
    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert interpreter.of("result", "n")[0]["text"] == "8"


@case
def bad_requests_are_refused(interpreter):
    """bad requests are refused"""
    for method, path, body, status in (
            ("POST", "/execute", {}, 400), ("POST", "/execute", {"code": 1}, 400),
            ("POST", "/execute", {"code": "1", "language": "r"}, 400),
            ("POST", "/execute", {"code": "1", "context_id": "none"}, 404),
            ("POST", "/execute", {"code": "1", "env_vars": {"A": 1}}, 400),
            ("POST", "/execute", [1], 400), ("POST", "/contexts", {"cwd": "/not/there"}, 400),
            ("GET", "/elsewhere", None, 404)):
        got, answer = interpreter.call(method, path, body)
        assert got == status == answer["code"] and answer["message"], (method, path, body, got)


if __name__ == "__main__":
    list_if_asked()
    served = Interpreter()
    try:
        run(served)
    finally:
        served.close()
