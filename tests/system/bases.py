#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Bases: images and what sessions get of them, names, labels, builds that fail, crashes."""

import contextlib
import gzip
import hashlib
import io
import json
import lzma
import os
import platform
import shutil
import socket
import tarfile
import threading

from daemon import (BASE, IS_FULL, PATIENCE_S, Client, Skip, Stream, b64, case, eventually, fails,
                    together)
from small_base import run_with_cayd

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def tar_of(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o755
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def docker_archive(layers, config):
    """What `docker save` writes, of layers given as files by name."""
    blobs = [tar_of(layer) for layer in layers]
    ids = [hashlib.sha256(blob).hexdigest() for blob in blobs]
    text = json.dumps({"architecture": ARCHITECTURE, "os": "linux", "config": config,
                       "rootfs": {"type": "layers", "diff_ids": [f"sha256:{id}" for id in ids]}}).encode()
    name = hashlib.sha256(text).hexdigest() + ".json"
    files = {f"{id}/layer.tar": blob for id, blob in zip(ids, blobs)}
    manifest = [{"Config": name, "RepoTags": ["me/app:1"], "Layers": list(files)}]
    return tar_of(files | {name: text, "manifest.json": json.dumps(manifest).encode()})


def send(cay, data, piece=100_000, **options):
    def messages():
        yield {"options": options}
        for at in range(0, len(data), piece):
            yield {"data": b64(data[at:at + piece])}
    return cay.send_all(BASE + "ImportBase", messages())


def listed(cay, **fields):
    return {base["name"]: base for base in cay.call(BASE + "ListBases", fields).get("bases", [])}


@case
def image(cay):
    """sessions start as their image says, unless they say otherwise"""
    layers = [{"etc/one": b"1", "etc/two": b"2"}, {"etc/.wh.one": b"", "etc/three": b"3"}]
    config = {"Env": ["FROM=image", "BOTH=image"], "WorkingDir": "/srv/app", "User": "0"}
    data = gzip.compress(docker_archive(layers, config))
    answer = send(cay, data, name="app", labels={"kind": "image"}, aliases=["me/app:1", "app-latest"],
                  sha256=hashlib.sha256(data).hexdigest())
    base = answer["base"]
    assert base["source"] == "me/app:1" and base["architecture"] == ARCHITECTURE, base
    assert base["digest"].startswith("sha256:") and int(answer["bytes"]) == len(data), answer
    assert sorted(listed(cay)["app"]["aliases"]) == ["app-latest", "me/app:1"]
    session = cay.create("img", base="me/app:1", env={"BOTH": "session"}, lazyStart=True)
    assert session["env"] == {"FROM": "image", "BOTH": "session"}, session
    assert session["defaultCwd"] == "/srv/app" and session["defaultUser"] == "root", session
    assert cay.read("img", "/etc/three") == b"3"
    fails("not_found", cay.read, "img", "/etc/one")
    assert listed(cay)["app"]["sessionCount"] == "1"
    fails("failed_precondition", cay.call, BASE + "RemoveBase", {"name": "app"}, reason="base_in_use")
    cay.destroy("img")


@case
def named(cay):
    """errors tell names of bases as their users write them"""
    missing = "no/such:base"
    errors = [
        fails("not_found", cay.create, "s", base=missing),
        fails("not_found", cay.call, BASE + "RemoveBase", {"name": missing}),
        fails("not_found", cay.stream, BASE + "BuildBase",
              {"name": "built", "fromBase": missing, "steps": [{"kind": "BUILD_STEP_KIND_RUN", "args": ["true"]}]}),
    ]
    for error in errors:
        assert "-_" not in error.message, error
    assert sum(missing in error.message for error in errors) >= 2, errors


@case
def damaged(cay):
    """an archive in which a bit was turned on its way is refused, whatever packed it"""
    plain = tar_of({f"etc/{number}": os.urandom(2000) for number in range(20)})
    packed = {
        "gzip": gzip.compress(plain),
        "two in a row": gzip.compress(plain[:10240]) + gzip.compress(plain[10240:]),
        "xz": lzma.compress(plain),
    }
    for what, data in packed.items():
        send(cay, data, name="good")
        assert int(listed(cay)["good"]["entryCount"]) == 20, what
        cay.call(BASE + "RemoveBase", {"name": "good"})
        for at in (len(data) // 8, len(data) // 2, len(data) * 7 // 8, len(data) - 5):
            bad = bytearray(data)
            bad[at] ^= 4
            fails("invalid_argument", send, cay, bytes(bad), name="bad")
        for cut in (1, 4, 9, len(data) // 2):
            fails("invalid_argument", send, cay, data[:-cut], name="bad")
    send(cay, packed["gzip"] + bytes(5000), name="good", piece=1000)  # padded, as tapes are
    cay.call(BASE + "RemoveBase", {"name": "good"})
    twice = gzip.compress(packed["gzip"])
    fails("invalid_argument", send, cay, twice, name="bad")
    fails("invalid_argument", send, cay, gzip.compress(packed["xz"]), name="bad")
    fails("invalid_argument", send, cay, lzma.compress(packed["gzip"]), name="bad")
    assert "bad" not in listed(cay)


@case
def names(cay):
    """labels, pages and names find bases; records outlive the daemon"""
    send(cay, tar_of({"z": b"z"}), name="app", labels={"kind": "image"}, aliases=["me/app:1"])
    send(cay, tar_of({"x": b"x"}), name="plain", settings={"env": {"A": "b"}, "cwd": "/data"})
    cay.restart()
    assert list(listed(cay, labels={"kind": "image"})) == ["app"]
    assert list(listed(cay, name="me/app:1")) == ["app"]
    page = cay.call(BASE + "ListBases", {"pageSize": 1})
    seen = [base["name"] for base in page["bases"]]
    while page.get("nextPageToken"):
        page = cay.call(BASE + "ListBases", {"pageSize": 1, "pageToken": page["nextPageToken"]})
        seen += [base["name"] for base in page["bases"]]
    assert seen == sorted(listed(cay)) and "plain" in seen, seen
    assert cay.create("set", base="plain", lazyStart=True)["env"] == {"A": "b"}
    cay.destroy("set")
    change = {"name": "plain", "existingBase": "plain", "labels": {"new": "yes"}}
    cay.send_all(BASE + "ImportBase", [{"options": change}])
    assert listed(cay)["plain"]["labels"] == {"new": "yes"}
    assert listed(cay)["plain"]["settings"]["cwd"] == "/data"
    for bad in ("", "..", "a/b", "host", "host-1", "a b", "x" * 129):
        fails("invalid_argument", send, cay, tar_of({"x": b"x"}), name=bad)
    fails("already_exists", send, cay, tar_of({"x": b"x"}), name="plain")
    fails("invalid_argument", send, cay, tar_of({"x": b"x"}), name="bad", sha256="0" * 64)
    fails("resource_exhausted", send, cay, tar_of({"x": b"x" * 5000}), name="bad", maxBytes="4000")
    fails("invalid_argument", send, cay, b"nothing of the kind", name="bad")
    fails("invalid_argument", send, cay, b"", name="bad", settings={"readyCommand": ["x"]})
    fails("invalid_argument", send, cay, b"", name="bad", settings={"startCommand": ["x" * 300_000]})
    key = cay.call("cay.v1.KeyService/CreateKey", {"owner": "guest"})["secret"]
    fails("permission_denied", send, Client(cay, key), tar_of({"x": b"x"}), name="bad")
    assert "bad" not in listed(cay)


@case
def replaced(cay):
    """a base takes another's place; sessions on the old one keep it"""
    send(cay, tar_of({"x": b"x"}), name="plain")
    cay.create("old", base="plain", lazyStart=True)
    send(cay, tar_of({"y": b"y"}), name="plain", replace=True)
    cay.create("new", base="plain", lazyStart=True)
    assert cay.read("old", "/x") == b"x" and cay.read("new", "/y") == b"y"
    fails("not_found", cay.read, "new", "/x")
    cay.restart()
    assert cay.read("old", "/x") == b"x"
    for session_id, own in (("old", "/x"), ("new", "/y")):
        cay.write(session_id, "/added", b"1", user="root")
        changes = cay.diff(session_id, fromSnapshot="base")[0]
        assert "/added" in changes and not {"/x", "/y"} & set(changes), (own, changes)
    for session_id in ("old", "new"):
        cay.destroy(session_id)


@case
def left_half(cay):
    """clients that leave and daemons that are killed in the middle leave nothing of an import"""
    before = sorted(listed(cay))
    layers = set(cay.store()["l"])
    data = tar_of({f"file-{number}": os.urandom(20_000) for number in range(100)})
    for is_killed in (False, True):
        with Stream(cay, BASE + "ImportBase") as stream:
            stream.send({"options": {"name": "half"}})
            stream.send({"data": b64(data[:len(data) // 2])})
            eventually(lambda: set(cay.store()["l"]) - layers, "it has begun")
            if is_killed:
                cay.restart()
        assert sorted(listed(cay)) == before
        eventually(lambda: len(cay.store()["l"]) <= len(layers), "its files are gone")
    thread = threading.Thread(target=quiet, args=(send, cay, data), kwargs={"name": "half"})
    thread.start()
    eventually(lambda: set(cay.store()["l"]) - layers or not thread.is_alive(), "it has begun")
    cay.restart()
    thread.join()
    if "half" in listed(cay):  # it was quicker
        cay.call(BASE + "RemoveBase", {"name": "half"})
    assert sorted(listed(cay)) == before


def quiet(function, *arguments, **more):
    with contextlib.suppress(Exception):
        function(*arguments, **more)


def build(cay, **fields):
    request = {"name": "deb", "recipe": "debian"} | fields
    return cay.stream(BASE + "BuildBase", request, timeout_s=1800)


def need_debootstrap():
    if not shutil.which("debootstrap"):
        raise Skip("needs debootstrap")


@case
def build_fails(cay):
    """a build whose mirror has nothing says so in its log and leaves nothing"""
    fails("invalid_argument", build, cay, recipe="", fromBase="")
    fails("invalid_argument", build, cay, recipe="plan9")
    fails("invalid_argument", build, cay, params={"mirror": "file:///etc"})
    fails("invalid_argument", build, cay, params={"suite": "--help"})
    fails("invalid_argument", build, cay, params={"packages": "a;b"})
    fails("invalid_argument", build, cay, params={"other": "x"})
    fails("already_exists", build, cay, name="small")
    need_debootstrap()
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    frames = []
    stream = cay.open(BASE + "BuildBase", {"name": "deb", "recipe": "debian",
                                           "params": {"mirror": f"http://127.0.0.1:{port}/debian"}})
    with stream:
        error = fails("failed_precondition", lambda: frames.extend(stream), reason="build_step_failed")
    assert "debootstrap" in error.message, error
    assert "deb" not in listed(cay)


@case
def build_canceled(cay):
    """a build whose client leaves ends with everything it started, and leaves nothing"""
    need_debootstrap()
    layers = len(cay.store()["l"])
    with socket.create_server(("127.0.0.1", 0)) as mute:  # takes calls and says nothing
        port = mute.getsockname()[1]
        request = {"name": "deb", "recipe": "debian",
                   "params": {"mirror": f"http://127.0.0.1:{port}/debian"}}
        with cay.open(BASE + "BuildBase", request) as stream:
            stream.next()
            called, _ = mute.accept()
            assert cay.children(), "debootstrap does not run"
        with called:
            eventually(lambda: not cay.children(), "debootstrap is gone")
    eventually(lambda: len(cay.store()["l"]) <= layers, "the draft is gone", PATIENCE_S)
    assert "deb" not in listed(cay) and not cay.mounts()


RACERS = 6


@case
def race(cay):
    """of several that make a base of one name at once, one does; it stays, with what is known of it"""
    for number in range(RACERS):
        cay.create(f"racer-{number}", base="small", lazyStart=True)
    for kind in ("import", "publish"):
        for attempt in range(3):
            name = f"{kind}-{attempt}"
            if kind == "import":
                outcomes = together(*[lambda number=number: send(
                    cay, tar_of({"x": b"x"}), name=name, labels={"number": str(number)}) for number in range(RACERS)])
            else:
                outcomes = together(*[lambda number=number: cay.snapshot(
                    f"racer-{number}", f"s-{attempt}", publishBase=name) for number in range(RACERS)])
            done = [number for number, outcome in enumerate(outcomes) if not isinstance(outcome, Exception)]
            assert len(done) == 1, (name, outcomes)
            assert {getattr(outcome, "code", "done") for outcome in outcomes} == {"already_exists", "done"}, outcomes
            check_winner(cay, name, done[0], attempt)
    cay.restart()
    for kind in ("import", "publish"):
        for attempt in range(3):
            assert f"{kind}-{attempt}" in listed(cay), listed(cay)
            cay.call(BASE + "RemoveBase", {"name": f"{kind}-{attempt}"})
    for number in range(RACERS):
        cay.destroy(f"racer-{number}")


def check_winner(cay, name, number, attempt):
    """In the records, too, which a start reads."""
    for _ in range(2):
        base = listed(cay)[name]
        if name.startswith("import"):
            assert base["origin"] == "BASE_ORIGIN_IMPORTED" and base["labels"] == {"number": str(number)}, base
        else:
            assert base["source"] == f"racer-{number}@s-{attempt}", base
        cay.restart()


@case
def build_whole(cay):
    """with CAY_TEST_FULL: a real Debian, with what an agent needs in it"""
    if not IS_FULL:
        raise Skip("takes minutes and a mirror; set CAY_TEST_FULL=1")
    need_debootstrap()
    frames = build(cay)
    assert frames[-1]["base"]["origin"] == "BASE_ORIGIN_BUILT", frames[-1]
    assert any("log" in frame for frame in frames) and any("progress" in frame for frame in frames)
    cay.create("deb", base="deb")
    assert cay.sh("deb", "python -c 'print(6*7)'; git --version; curl --version; sudo -n id -u; id -un")
    cay.destroy("deb")


if __name__ == "__main__":
    run_with_cayd()
