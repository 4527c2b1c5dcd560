# SPDX-License-Identifier: Apache-2.0
"""What tests of builds share."""

import io
import tarfile

from daemon import BASE, SANDBOX, eventually

KIND = "BUILD_STEP_KIND_"


def step(kind, *args):
    return {"kind": KIND + kind, "args": list(args)}


def archive(*members):
    """(name, content or None for a directory, changes of the entry)"""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content, *changes in members:
            member = tarfile.TarInfo(name)
            member.mode = 0o640
            if content is None:
                member.type = tarfile.DIRTYPE
                member.mode = 0o755
            else:
                member.size = len(content)
            for change in changes:
                for key, value in change.items():
                    setattr(member, key, value)
            tar.addfile(member, io.BytesIO(content) if content else None)
    return out.getvalue()


def listed(cay):
    return {base["name"]: base for base in cay.call(BASE + "ListBases").get("bases", [])}


def build_sessions(cay):
    answer = cay.call(SANDBOX + "ListSessions", {"labels": {"cay.build": "1"}})
    return [session["id"] for session in answer.get("sessions", [])]


def nothing_left(cay, bases=("small",)):
    eventually(lambda: not build_sessions(cay), "the session of the build is gone")
    eventually(lambda: sorted(listed(cay)) == sorted(bases), "bases that lost their last name are gone")
