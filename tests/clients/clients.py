# SPDX-License-Identifier: Apache-2.0
"""What the Python programs of this folder share. Arguments of every program: echod, its descriptor
set, cayd, the contract's descriptor set."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/echo"))
from daemon import *  # noqa: E402,F401,F403 pylint: disable=wildcard-import
from daemon import Daemon as BareDaemon  # noqa: E402
from daemon import Skip, folder  # noqa: E402

ECHOD, ECHO_SET, CAYD, CONTRACT_SET = sys.argv[1:5]
REMOTE = os.environ.get("TEST_REMOTE")


def make_key(socket_path, **fields):
    made = subprocess.run(
        ["curl", "-sS", "--fail-with-body", "--unix-socket", socket_path, "-H", "content-type: application/json",
         "-d", json.dumps(fields), "http://localhost/cay.v1.KeyService/CreateKey"],
        check=True, capture_output=True)
    return json.loads(made.stdout)["secret"]


class RemoteDaemon(BareDaemon):
    """A daemon with a cay-remote before it, to whose address clients go."""

    def __init__(self, binary, *flags, name="echod", listen="127.0.0.1:0", **more):
        self.folder = contextlib.ExitStack()
        path = self.folder.enter_context(folder())
        if name == "echod":
            where, own = f"unix:{path}/behind", ("--echo", *flags)
            self.behind = BareDaemon(binary, *flags, name=name, listen=where, **more)
            key = "gateway"
        else:
            given = dict(zip(flags, flags[1:]))
            where = f"unix:{given['--run']}/cayd.sock"
            self.behind = BareDaemon(binary, *flags, name=name, **more)
            key = make_key(where.removeprefix("unix:"), owner="gateway", role="KEY_ROLE_ADMIN", mayVouch=True)
            own = [part for flag in ("--e2b-template", "--default-base") if flag in given
                   for part in (flag, given[flag])]
        os.environ["CAY_API_KEY"] = key
        try:
            super().__init__(REMOTE, "--behind", where, *own, name="cay-remote", listen=listen)
        finally:
            del os.environ["CAY_API_KEY"]

    def stop(self):
        status = super().stop()
        behind = self.behind.stop()
        self.folder.close()
        return status or behind


Daemon = RemoteDaemon if REMOTE else BareDaemon


@contextlib.contextmanager
def cayd(*flags, home=None):
    """A cayd of our own, with an administrator's key as `.key` and its Unix socket as
    `.socket_path`. Its directories are below `home`, or gone afterwards."""
    if not Path(CAYD).exists():
        raise Skip("cayd is not built")
    with contextlib.ExitStack() as stack:
        path = home or stack.enter_context(folder())
        daemon = stack.enter_context(Daemon(CAYD, "--data", f"{path}/data", "--run", f"{path}/run",
                                            *flags, name="cayd"))
        daemon.socket_path = f"{path}/run/cayd.sock"
        daemon.key = make_key(daemon.socket_path, owner="tester", role="KEY_ROLE_ADMIN")
        yield daemon


def methods(set_path, package):
    """The methods of a descriptor set: (path, descriptor)."""
    from google.protobuf import descriptor_pb2  # pylint: disable=import-outside-toplevel
    files = descriptor_pb2.FileDescriptorSet.FromString(Path(set_path).read_bytes())
    return [(f"/{package}.{service.name}/{method.name}", method)
            for file in files.file if file.package == package
            for service in file.service for method in service.method]
