# SPDX-License-Identifier: Apache-2.0
"""Sessions of the base `host`, and the programs in it, which are those of this machine."""

import shutil

from daemon import RpcError, Skip, eventually


def needs(*programs):
    for program in programs:
        if not (shutil.which(program, path="/usr/bin:/usr/sbin:/bin:/sbin")):
            raise Skip(f"this machine has no {program}, so its base has none")


def create(cay, session_id, **fields):
    """The base is made of this machine first, which takes a while once."""
    def is_made():
        try:
            return cay.create(session_id, base="host", **fields)
        except RpcError as error:
            assert error.reason == "base_not_ready", error
            return None
    eventually(is_made, "there is a session", 120)
