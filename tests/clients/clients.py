# SPDX-License-Identifier: Apache-2.0
"""What the Python programs of this folder share. Arguments of every program: echod, its descriptor
set, cayd, the contract's descriptor set."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/echo"))
from daemon import *  # noqa: E402,F401,F403 pylint: disable=wildcard-import
from daemon import Daemon, Skip, folder  # noqa: E402

ECHOD, ECHO_SET, CAYD, CONTRACT_SET = sys.argv[1:5]


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
        made = subprocess.run(
            ["curl", "-sS", "--fail-with-body", "--unix-socket", daemon.socket_path,
             "-H", "content-type: application/json",
             "-d", '{"owner":"tester","role":"KEY_ROLE_ADMIN"}',
             "http://localhost/cay.v1.KeyService/CreateKey"],
            check=True, capture_output=True)
        daemon.key = json.loads(made.stdout)["secret"]
        yield daemon


def methods(set_path, package):
    """The methods of a descriptor set: (path, descriptor)."""
    from google.protobuf import descriptor_pb2  # pylint: disable=import-outside-toplevel
    files = descriptor_pb2.FileDescriptorSet.FromString(Path(set_path).read_bytes())
    return [(f"/{package}.{service.name}/{method.name}", method)
            for file in files.file if file.package == package
            for service in file.service for method in service.method]
