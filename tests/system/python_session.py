# SPDX-License-Identifier: Apache-2.0
"""What share/python/cay.py promises, in an environment and on a control: python_session.py ENVIRONMENT CONTROL BASE

It is run by examples.py, with the installed library. Where a capability is missing, the refusal is looked at instead.
"""

import gc
import sys
import threading
import time
import urllib.request

import cay

ENVIRONMENT, CONTROL, BASE = sys.argv[1:4]


def fails(reason, function, *arguments, **more):
    try:
        function(*arguments, **more)
    except cay.Error as error:
        assert error.reason == reason, error
        assert error.text and error.code > 0 and reason in str(error), error
        return error
    raise AssertionError(f"wanted {reason}")


def session(**options):
    return cay.Session(ENVIRONMENT, base=BASE or None, **options)


def results():
    with session() as s:
        assert s.state == "active"
        assert s.write("dir/ä.txt", 'a "quoted" line\n')
        assert 'a "quoted" line' in s.read("dir/ä.txt")
        done = s.run("cat dir/ä.txt; echo $NAME; exit 3", env={"NAME": "a value"})
        assert done.exit_code == 3 and not done and "a value" in done.text, done
        assert done.raw and done.duration_us > 0 and not done.is_cached, done
        missing = s.tool("read_file", path="nowhere")
        assert missing.is_error and missing.reason and missing.exit_code is None, missing
        fails("tool_not_found", s.tool, "there-is-no-such-tool")
        fails("deadline_exceeded", s.run, "sleep 30", timeout_s=0.3)


def progress():
    pieces = []
    with session() as s:
        s.run("echo one; sleep 0.1; echo two >&2", progress=lambda stream, data: pieces.append((stream, data)))
        assert b"".join(data for stream, data in pieces if stream == 1) == b"one\n", pieces
        assert b"".join(data for stream, data in pieces if stream == 2) == b"two\n", pieces

        def raises(_, __):
            raise KeyError("mine")
        try:
            s.run("echo one", progress=raises)
            raise AssertionError("an exception of a callback is lost")
        except KeyError:
            pass


def past():
    with session() as s:
        can = s.capabilities
        s.write("a.txt", "one\n")
        if not can.turn:
            fails("capability_not_supported", s.turn)
            fails("capability_not_supported", s.fork, 2)
            return
        good = s.turn("it works")
        assert good.id and good.name and good.created_ms > 0, good
        s.write("a.txt", "two\n")
        s.write("b.txt", "new\n")
        diff = s.diff(good)
        assert {(change.kind, change.path.rpartition("/")[2]) for change in diff.changes} == \
            {("modified", "a.txt"), ("added", "b.txt")}, diff
        assert "-one\n+two\n" in diff.patch, diff
        s.restore(good, ["a.txt"])
        assert s.run("cat a.txt b.txt").text.split() == ["one", "new"]
        s.rollback(good)
        assert s.run("cat b.txt").exit_code != 0
        fails("snapshot_not_found", s.rollback, "nowhere")
        named = s.snapshot("named")
        assert named.name == "named", named
        forks(s)


def forks(s):
    three = s.fork(3)
    assert len({fork.id for fork in three} | {s.id}) == 4
    for number, fork in enumerate(three):
        with fork:
            fork.write("a.txt", f"{number}\n")
            assert fork.run("cat a.txt").text.strip() == str(number)
    assert s.run("cat a.txt").text.strip() == "one"


def ends():
    with session() as s:
        s.destroy()
        assert s.state == "destroyed"
        fails("not_active", s.run, "true")
        s.destroy()
    error = fails("invalid_argument", cay.Session, "nowhere:x")
    assert error.fact("nothing") is None
    fails("invalid_argument", cay.Session, "")
    try:
        session(session_id="a\0b")
        raise AssertionError("a NUL is taken")
    except ValueError:
        pass
    gc.collect()


def threads():
    with session() as s:
        texts = [""] * 16

        def one(number):
            texts[number] = s.run(f"echo {number}").text.strip()
        running = [threading.Thread(target=one, args=(number,)) for number in range(16)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert texts == [str(number) for number in range(16)], texts


def control():
    with cay.Control(CONTROL, timeout_s=60) as c:
        can = c.capabilities
        box = c.create(labels={"app": "python"}, template=BASE or None, memory_bytes=128 << 20)
        assert box.state == "active" and box.labels == {"app": "python"} and box.address, box
        assert [found.id for found in c.list({"app": "python"})] == [box.id]
        assert c.list({"app": "another"}) == []
        process = c.launch(box.id, "sh", "-c", "exit $CODE", env={"CODE": "9"})
        while process.state != "exited":
            time.sleep(0.02)
            process = c.status(box.id, process.id)
        assert process.exit_code == 9 and process.signal == 0, process
        if can.expose_port:
            served(c, box.id)
        if can.pause:
            c.pause(box.id)
            assert c.list({"app": "python"})[0].state == "paused"
            c.resume(box.id)
        fails("process_not_found", c.kill, box.id, "p-nothing")
        c.destroy(box.id)
        c.destroy(box.id)
        fails("session_not_found", c.pause, box.id)
    fails("invalid_argument", cay.Control, "nowhere:x")


def served(c, sandbox_id):
    script = "mkdir w; echo hello > w/index.html; exec busybox httpd -f -p 127.0.0.1:8080 -h w"
    server = c.launch(sandbox_id, "sh", "-c", script, expose_port=8080)
    for _ in range(1000):
        if c.status(sandbox_id, server.id).is_listening:
            break
        time.sleep(0.02)
    with urllib.request.urlopen(cay.address_to_url(server.address) + "/index.html", timeout=30) as page:
        assert page.read() == b"hello\n"
    c.kill(sandbox_id, server.id)


def the_rest():
    assert cay.version()[0].isdigit()
    assert cay.is_file_op("read_file") and not cay.is_file_op("bash")
    assert cay.address_to_url("::1:80", is_tls=True) == "https://[::1]:80"
    fails("invalid_argument", cay.address_to_url, "nothing")


if __name__ == "__main__":
    for part in (the_rest, results, progress, past, ends, threads, *((control,) if CONTROL else ())):
        part()
        print(f"# {part.__name__}", flush=True)
