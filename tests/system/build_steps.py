#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Bases built by steps on other bases."""

import gzip
import tarfile
import threading

from building import archive, build_sessions, listed, nothing_left, step
from daemon import BASE, Client, RpcError, Stream, b64, case, eventually, fails
from small_base import run_with_cayd


def build(cay, *steps, name="built", **fields):
    request = {"name": name, "fromBase": "small", "steps": list(steps)} | fields
    return cay.stream(BASE + "BuildBase", request, timeout_s=120)


def lines(frames):
    return [(frame["log"].get("step", 0), frame["log"]["message"]) for frame in frames if "log" in frame]


def remove(cay, name="built"):
    cay.call(BASE + "RemoveBase", {"name": name})


@case
def steps(cay):
    """steps run in order with what earlier ones set, and their lines are told"""
    frames = build(cay, step("ENV", "A", "one", "B", "two"), step("RUN", "echo $A $B $(id -u) $(pwd)"),
                   step("WORKDIR", "/srv/app"), step("RUN", "pwd; echo made > file; printf unfinished"),
                   step("USER", "user"), step("RUN", "id -u >&2"), step("RUN", "id -u", "root"),
                   step("ENV", "A", "three"), step("WORKDIR", "deep"), aliases=["me/built:1"],
                   labels={"made": "by steps"},
                   settings={"env": {"C": "four"}, "startCommand": ["/bin/sleep", "1000"]})
    said = [line for line in lines(frames) if not line[1].split()[0] in ("RUN", "ENV", "WORKDIR", "USER")]
    assert said == [(2, "one two 0 /"), (4, "/srv/app"), (4, "unfinished"), (6, "1000"), (7, "0")], said
    base = frames[-1]["base"]
    assert base["origin"] == "BASE_ORIGIN_BUILT" and base["source"] == "small", base
    assert base["digest"].startswith("sha256:") and base["aliases"] == ["me/built:1"], base
    fractions = [frame["progress"]["fraction"] for frame in frames if "progress" in frame]
    assert fractions == sorted(fractions) and fractions[-1] > 0.9, fractions
    nothing_left(cay, ("small", "built"))
    session = cay.create("s", base="me/built:1")
    assert session["env"] == {"A": "three", "B": "two", "C": "four"}, session
    assert session["defaultCwd"] == "/srv/app/deep" and session["defaultUser"] == "user", session
    assert session["startCommand"] == ["/bin/sleep", "1000"], session
    assert cay.sh("s", "pwd; cat /srv/app/file; echo $A") == "/srv/app/deep\nmade\nthree\n"
    cay.destroy("s")
    frames = build(cay, step("RUN", "echo $A; pwd"), name="again", fromBase="built")
    assert lines(frames)[1:] == [(1, "three"), (1, "/srv/app/deep")], lines(frames)
    assert listed(cay)["again"]["settings"]["startCommand"] == ["/bin/sleep", "1000"]
    remove(cay)
    remove(cay, "again")


@case
def copies(cay):
    """files of the context go where a step says, to whom it says"""
    context = archive(("app", None), ("app/one", b"1"), ("app/sub", None), ("app/sub/two", b"2"),
                      ("app/link", b"", {"type": tarfile.SYMTYPE, "linkname": "one"}),
                      ("app/hard", b"", {"type": tarfile.LNKTYPE, "linkname": "app/one"}),
                      ("top", b"top", {"mode": 0o4755, "uid": 777}))
    build(cay, step("WORKDIR", "/srv"), step("COPY", "app", "here"), step("COPY", "top", "/opt/renamed"),
          step("COPY", "top", "/opt/into/", "user", "0700"), step("COPY", "./app/sub/", "/tmp"),
          step("COPY", ".", "/all", "1000:7"), step("RUN", "ln -s /opt /srv/inside && ls -R /srv"),
          step("COPY", "top", "inside/by-link"), context=b64(gzip.compress(context)))
    cay.create("s", base="built")
    shown = cay.sh("s", "cd /srv/here && cat one link hard sub/two && test one -ef hard && echo same && readlink link; "
                        "stat -c '%a %u %g' /opt/renamed /opt/into/top /all/top /srv/here/one; "
                        "cat /tmp/two /opt/by-link", user="root")
    assert shown == "1112" + "same\none\n" + "755 0 0\n700 1000 1000\n755 1000 7\n640 0 0\n" + "2top", shown
    cay.destroy("s")
    remove(cay)


@case
def hostile(cay):
    """a context cannot reach outside of the build"""
    def copy(*members, reason="build_step_failed", source=".", to="/x", args=()):
        fails("failed_precondition", build, cay, step("COPY", source, to, *args), reason=reason,
              context=b64(archive(*members)))
        nothing_left(cay)
    copy(("../../../../tmp/out", b"x"))
    copy(("a", b"", {"type": tarfile.LNKTYPE, "linkname": "../../etc/passwd"}))
    copy(("a", b"x"), source="nothing")
    copy(("a", b"x"), to="/../../../..")
    copy(("a", b"x"), args=("nobody-knows",))
    copy(("a", b"x"), args=("root", "rwx"))
    fails("failed_precondition", build, cay, step("COPY", ".", "/"), context=b64(b"no archive at all"))
    fails("invalid_argument", build, cay, step("COPY", "a", "/b"))
    build(cay, step("COPY", ".", "/dev-test"), context=b64(archive(
        ("null", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}), ("file", b"x"))))
    cay.create("s", base="built")
    assert cay.sh("s", "ls /dev-test") == "file\n"
    cay.destroy("s")
    remove(cay)


@case
def failures(cay):
    """a step that fails is named, and nothing is made"""
    try:
        build(cay, step("RUN", "true"), step("RUN", "echo so it goes; sleep 1000 & exit 7"), step("RUN", "true"))
    except RpcError as error:
        assert "build_step_failed" in str(error) and "step 2 of 3" in str(error), error
        assert "status 7: so it goes" in str(error), error
    else:
        raise AssertionError("it was built")
    nothing_left(cay)
    fails("failed_precondition", build, cay, step("RUN", "true", "nobody-knows"), reason="build_step_failed")
    fails("failed_precondition", build, cay, step("ENV", "A=B", "x"), reason="build_step_failed")
    fails("invalid_argument", build, cay, step("ENV", "A"))
    fails("invalid_argument", build, cay, step("RUN"))
    fails("invalid_argument", build, cay, {"kind": "BUILD_STEP_KIND_UNSPECIFIED", "args": ["x"]})
    fails("invalid_argument", build, cay, name="a/b")
    fails("already_exists", build, cay, name="small", reason="base_exists")
    fails("not_found", build, cay, fromBase="nothing", reason="base_not_found")
    fails("deadline_exceeded", build, cay, step("RUN", "sleep 1000"), timeout="1s")
    fails("invalid_argument", cay.create, "x", labels={"cay.build": "1"})
    guest = Client(cay, cay.call("cay.v1.KeyService/CreateKey", {"owner": "guest"})["secret"])
    fails("permission_denied", build, guest, recipe="debian", fromBase="")
    nothing_left(cay)
    assert not cay.leftovers(), cay.leftovers()


@case
def replaced(cay):
    """a base takes another's place; the steps' session is not listed"""
    build(cay, step("RUN", "echo old > /file"))
    fails("already_exists", build, cay, step("RUN", "true"))
    seen = []

    def second():
        build(cay, step("RUN", "echo new > /file; sleep 2"), replace=True)
    thread = threading.Thread(target=second)
    thread.start()
    eventually(lambda: seen.extend(build_sessions(cay)) or seen, "the session of the build is there")
    assert cay.ids() == [], cay.ids()
    eventually(lambda: cay.get(seen[0])["state"] == "SESSION_STATE_ACTIVE", "it is made")
    fails("failed_precondition", cay.write, seen[0], "/file", b"", user="root", reason="invalid_state")
    fails("failed_precondition", cay.bash, seen[0], "true", reason="invalid_state")
    fails("failed_precondition", cay.launch, seen[0], "/bin/true", reason="invalid_state")
    thread.join()
    cay.create("s", base="built")
    assert cay.sh("s", "cat /file") == "new\n"
    cay.destroy("s")
    remove(cay)


@case
def left(cay):
    """clients that leave and daemons that are killed leave nothing of a build"""
    def begin():
        stream = Stream(cay, BASE + "BuildBase")
        stream.send({"name": "built", "fromBase": "small",
                     "steps": [step("RUN", "echo running; exec sleep 1000")]})
        stream.end()
        while "running" not in str(stream.next()):
            pass
        return stream
    begin().close()
    nothing_left(cay)
    eventually(lambda: not cay.leftovers(), "what ran is gone")
    stream = begin()
    cay.kill()
    cay.start()
    stream.close()
    nothing_left(cay)
    assert not cay.leftovers(), cay.leftovers()
    build(cay, step("RUN", "true"))
    remove(cay)


if __name__ == "__main__":
    run_with_cayd("--default-base", "small")
