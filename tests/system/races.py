#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Links to the host in the place of names, at full speed, under every verb that writes into a tree.

The prize is a file and a directory of the host. Whatever a verb does to either, its ctime tells.
"""

import contextlib
import http.client
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path

from building import archive, build_sessions, step
from daemon import BASE, FILE, SANDBOX, Client, RpcError, b64, case, eventually, fails, good, together
from session_stream import export, import_
from small_base import run_with_cayd

SECONDS = 10
SECRET = "0UTSIDE"
ENVD_PORT = "49983"
CAY = sys.argv[4] if len(sys.argv) > 4 else None


class Prize:
    """A file and a directory of the host, which nothing may happen to."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="caysys-prize-")
        root = Path(self.folder.name)
        os.chmod(root, 0o755)
        self.file, self.dir = root / "file", root / "dir"
        self.file.write_text(SECRET)
        self.file.chmod(0o600)
        self.dir.mkdir(mode=0o700)
        (self.dir / "inner").write_text(SECRET)
        self.before = self.look()

    def look(self):
        def facts(path):
            info = os.lstat(path)
            return {name: getattr(info, f"st_{name}") for name in ("mode", "uid", "gid", "size", "ino", "nlink", "mtime_ns",
                                                                   "ctime_ns")}
        return {str(path): facts(path) for path in (self.file, self.dir, self.dir / "inner")} | {
            "names": sorted(os.listdir(self.dir)), "beside": sorted(os.listdir(self.folder.name))}

    def check(self):
        now = self.look()
        assert now == self.before, {name: (self.before[name], facts) for name, facts in now.items() if facts != self.before[name]}

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.check()
        finally:
            self.folder.cleanup()


def tar_of(*members):
    return archive(*members)


def fifos(name, count):
    return [(name, None, {"type": tarfile.FIFOTYPE, "mode": 0o777})] * count


def start_racer(cay, session_id, prize, *names):
    cay.background(session_id, f"exec racer {prize.file} {prize.dir} {' '.join(names)}", user="root")


def build(client, context, *steps):
    request = {"name": "raced", "fromBase": "small", "context": b64(context), "steps": list(steps)}
    return client.stream(BASE + "BuildBase", request)


def tolerated(function, *arguments, **more):
    """What comes of it when names change under it is not told; only that the daemon is not to blame."""
    try:
        return function(*arguments, **more)
    except RpcError as error:
        assert error.code not in ("internal", "unknown"), error
        return error


@case
def steps_of_builds(cay):
    """nobody gets into the session of a build; a COPY in which names change reaches nothing outside"""
    owner = Client(cay, cay.call("cay.v1.KeyService/CreateKey", {"owner": "racer"})["secret"])
    context = tar_of(*fifos("tree/fifo", 12000), ("tree/dir", None), ("tree/deep/file", b"x"))
    with Prize() as prize:
        refusals = []

        def attack():
            def there():
                found = build_sessions(owner)
                return found and owner.get(found[0])["state"] == "SESSION_STATE_ACTIVE" and found
            (session_id, *_) = eventually(there, "the session of the build is there")
            for reach in (lambda: start_racer(owner, session_id, prize, "/r/fifo"),
                          lambda: owner.write(session_id, "/r/x", b"x", user="root"),
                          lambda: owner.bash(session_id, "true"), lambda: owner.turn(session_id),
                          lambda: owner.fork(session_id),
                          lambda: owner.file("MakeSymlink", session_id, path="/r/l", target="/", user="root")):
                try:
                    reach()
                except RpcError as error:
                    refusals.append(error)
        attacker = threading.Thread(target=attack)
        attacker.start()
        outcome = tolerated(build, owner, context, step("RUN", "mkdir /r; sleep 3"), step("COPY", "tree", "/r/"))
        attacker.join()
        prize.check()
        assert [error.reason for error in refusals] == ["invalid_state"] * 6, refusals
        assert "belongs to a build" in refusals[0].message, refusals[0]
        assert not isinstance(outcome, RpcError), outcome
    owner.call(BASE + "RemoveBase", {"name": "raced"})
    eventually(lambda: not build_sessions(cay), "the session of the build is gone")


@case
def bases_with_links(cay):
    """a base whose directories are links to the host is made without touching it"""
    owner = Client(cay, cay.call("cay.v1.KeyService/CreateKey", {"owner": "importer"})["secret"])

    def link(name, target):
        return (name, None, {"type": tarfile.SYMTYPE, "linkname": str(target)})
    with Prize() as prize:
        for number, name in enumerate(("home", "workspace", "tmp", "etc", "dev")):
            for target in (prize.dir, "../" * 20 + str(prize.dir)[1:]):
                data = tar_of(link(name, target), ("bin", None), ("bin/sh", b"#!"))
                options = {"name": f"linked-{number}", "format": "BASE_FORMAT_TAR"}
                tolerated(owner.send_all, BASE + "ImportBase", [{"options": options}, {"data": b64(data)}])
                prize.check()
                with contextlib.suppress(RpcError):
                    owner.call(BASE + "RemoveBase", {"name": f"linked-{number}"})
        request = {"name": "linked", "fromBase": "small",
                   "steps": [step("RUN", f"rm -rf /home; ln -s {prize.dir} /home")]}
        tolerated(owner.stream, BASE + "BuildBase", request)
        prize.check()
        for base in owner.call(BASE + "ListBases").get("bases", []):
            if base["name"].startswith("linked"):
                tolerated(owner.call, BASE + "RemoveBase", {"name": base["name"]})


class E2b:
    """A sandbox of the other door: its files are uploaded by HTTP."""

    def __init__(self, cay):
        self.cay = cay
        key = cay.call("cay.v1.KeyService/CreateKey", {"owner": "e2b"})["secret"]
        answer = self.exchange("POST", "/sandboxes", json.dumps({"templateID": "small", "timeout": 300, "secure": True}),
                               {"X-API-Key": key, "Content-Type": "application/json"})
        self.id, self.token = answer["sandboxID"], answer["envdAccessToken"]

    def exchange(self, method, path, body, headers):
        connection = http.client.HTTPConnection(self.cay.host, self.cay.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
            assert answer.status < 500 or answer.status == 507, (answer.status, data)
            return json.loads(data) if data else None

    def upload(self, path, data):
        body = (f'--b\r\ncontent-disposition: form-data; name="file"; filename="{path}"\r\n'
                f"content-type: application/octet-stream\r\n\r\n{data}\r\n--b--\r\n")
        return self.exchange("POST", f"/files?path={path}&username=root", body, {
            "E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": ENVD_PORT, "X-Access-Token": self.token,
            "Content-Type": "multipart/form-data; boundary=b"})


NAMES = [f"/race/{name}" for name in
         ("fwrite", "fplace", "dmake", "dmake/dsub", "fmove", "dmove", "flink", "dgone", "dgone/dsub", "fedit", "dupload",
          "fupload", "dtree", "dtree/ffifo", "dtree/ffile", "dtree/dsub")]


def writers(cay, sid, e2b):
    """By name: what is done again and again, each in a thread of its own."""
    def root(verb, **fields):
        return tolerated(cay.file, verb, sid, user="root", **fields)

    def write(path, **fields):
        return tolerated(cay.write, sid, path, b"inside", user="root", **fields)

    def moves():
        root("MoveFile", source="/race/fmove", destination="/race/dmove/fmove", createParents=True)
        root("MoveFile", source="/race/dmove/fmove", destination="/race/fmove", createParents=True)
        root("MoveFile", source="/race/dmove", destination="/race/dmove2")
        root("MoveFile", source="/race/dmove2", destination="/race/dmove")
        write("/race/fmove")

    def removes():
        write("/race/dgone/dsub/x", createParents=True)
        root("RemoveFile", path="/race/dgone", recursive=True)

    def edits():
        tolerated(cay.tool, sid, "write_file", path="/race/fedit", content="inside")
        tolerated(cay.tool, sid, "edit_file", path="/race/fedit", old_string="inside", new_string="inside two")

    def extracts():
        data = tar_of(("dtree", None), ("dtree/ffifo", None, {"type": tarfile.FIFOTYPE, "mode": 0o777}),
                      ("dtree/ffile", b"inside"), ("dtree/dsub", None))
        def messages():
            yield {"open": {"sessionId": sid, "path": "/race", "user": "root", "archive": "TREE_FORMAT_TAR"}}
            yield {"data": b64(data)}
        tolerated(cay.send_all, FILE + "WriteFile", messages())

    def restores():
        tolerated(cay.call, SANDBOX + "RestorePaths", {"sessionId": sid, "snapshot": "whole", "paths": ["/race/dtree"]})

    def uploads():
        e2b.upload("/race/dupload/x", "inside")
        e2b.upload("/race/fupload", "inside")
    return {
        "write": lambda: [write("/race/fwrite"), write("/race/fwrite", mode=0o777),
                          write("/race/fwrite", writeMode="WRITE_MODE_APPEND"),
                          write("/race/fplace", writeMode="WRITE_MODE_TRUNCATE", mode=0o777)],
        "mkdir": lambda: [root("MakeDir", path="/race/dmake/dsub/x", createParents=True, mode=0o777),
                          root("RemoveFile", path="/race/dmake", recursive=True)],
        "move": moves,
        "symlink": lambda: root("MakeSymlink", path="/race/flink", target="nowhere", replace=True),
        "remove": removes,
        "edit": edits,
        "extract": extracts,
        "restore": restores,
        "upload": uploads,
    }


@case
def trees_that_change(cay):
    """write, place, mkdir, move, symlink, remove, edit, extract, restore and upload reach nothing outside"""
    with Prize() as prize:
        e2b = E2b(cay)
        sid = e2b.id
        cay.sh(sid, "mkdir -p /race/dtree/dsub; cd /race/dtree; mkfifo ffifo; chmod 777 ffifo; echo inside > ffile;"
                    "mkdir -p ../dmove ../dupload; echo inside > ../fmove", user="root")
        cay.snapshot(sid, "whole")
        start_racer(cay, sid, prize, *NAMES)
        until = time.monotonic() + SECONDS
        counts = {}

        def loop(name, function):
            while time.monotonic() < until:
                function()
                counts[name] = counts.get(name, 0) + 1
        good(together(*(lambda item=item: loop(*item) for item in writers(cay, sid, e2b).items())))
        cay.launch(sid, "/bin/killall", "-9", "racer", user="root")
        prize.check()
        assert len(counts) == 9 and min(counts.values()) > 3, counts
        # It can be carried away as it is, and comes back without leading anywhere.
        _, data = export(cay, sid)
        import_(cay, data, sessionId="carried")
        prize.check()
        cay.destroy("carried")
        cay.destroy(sid)


@case
def copied_out(cay):
    """cay cp out of a tree that changes writes nowhere but into its target"""
    if not CAY:
        return
    with Prize() as prize, tempfile.TemporaryDirectory(prefix="caysys-cp-") as folder:
        cay.create("out")
        cay.sh("out", "mkdir -p /race/dtree/dsub; cd /race; echo inside | tee dtree/fone dtree/dsub/ftwo > top", user="root")
        start_racer(cay, "out", prize, "/race/dtree", "/race/dtree/fone", "/race/dtree/dsub", "/race/dtree/dsub/ftwo")
        environment = dict(os.environ, CAY_URL=f"unix:{cay.socket_path}")
        until = time.monotonic() + SECONDS / 2
        while time.monotonic() < until:
            # Onto what the last one left there: links to the prize among it.
            done = subprocess.run([CAY, "cp", "out:/race", folder], env=environment, capture_output=True, text=True, check=False)
            assert done.returncode >= 0, done
            prize.check()
        cay.launch("out", "/bin/killall", "-9", "racer", user="root")
        # A link that an earlier copy left does not take the next file out of the target.
        cay.sh("out", f"rm -rf /race; mkdir /race; ln -s {prize.file} /race/x; ln -s {prize.dir} /race/d; mkdir -p /two/d;"
                      "echo inside | tee /two/x /two/d/inner > /dev/null", user="root")
        subprocess.run([CAY, "cp", "out:/race", f"{folder}/links"], env=environment, capture_output=True, check=True)
        assert os.readlink(f"{folder}/links/x") == str(prize.file)
        for name in ("x", "d"):
            done = subprocess.run([CAY, "cp", f"out:/two/{name}", f"{folder}/links"], env=environment, capture_output=True,
                                  text=True, check=False)
            prize.check()
            assert done.returncode > 0 and "symbolic link" in done.stderr, done
        cay.destroy("out")


if __name__ == "__main__":
    run_with_cayd(racer=sys.argv[3])
