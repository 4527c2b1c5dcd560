#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Networks as the host's administrator has them: the one of sessions that choose none, hosts that cannot filter, and who reaches ports."""

import json
import os
import shutil
import subprocess
import tempfile

from daemon import CAYD, PATIENCE_S, PROCESS, SANDBOX, case, eventually, fails
from filtered_world import CAY, WHO, filtered, main, reaches_by_name, refused
from internet import HOST, WORLD, client, e2b, session, update
from own_network import NONE, OPEN, sh

BY_DEFAULT = ("--network", "filtered", "--network-rules", "world.test:1000", "--network-rules", "@here",
              "--network-sets", "here=*.below.test")


def cli(cay, *words, status=0):
    environment = os.environ | {"CAY_URL": f"unix:{cay.socket_path}"}
    done = subprocess.run([CAY, *words], env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == status, done
    return done.stderr if status else done.stdout


@case
def by_default(cay, _world):
    """a session that chooses no network has the one of the configuration, with its rules"""
    assert cay.create("first")["network"] == {"mode": "NETWORK_MODE_FILTERED", "allow": ["world.test:1000", "@here"]}
    assert reaches_by_name(cay, "first") == HOST[0]
    assert reaches_by_name(cay, "first", "n.below.test") == HOST[0]
    assert refused(cay, "first", "names", "four.test") == "no such name"
    cli(cay, "create", "--base", "small", "--name", "second")
    assert reaches_by_name(cay, "second") == HOST[0]
    with session(cay, "third", network=NONE):
        refused(cay, "third", "try", WORLD[0], WHO)
    for network, reached in ((filtered("four.test"), ("four.test",)), (filtered(), ()), (OPEN, ("world.test", "four.test"))):
        with session(cay, "third", network=network):
            for name in ("world.test", "four.test"):
                assert client(cay, "third", "tcp", name, WHO)[0] == (name in reached), (network, name)
    # What others allow themselves is theirs; what they deny is denied of what there is.
    with session(cay, "third", network={"deny": ["world.test"]}) as made:
        assert made["network"]["allow"] == ["world.test:1000", "@here"], made
        assert refused(cay, "third", "names", "world.test") == "no such name"
        assert reaches_by_name(cay, "third", "n.below.test") == HOST[0]


@case
def clients_of_e2b(cay, _world):
    """so have sandboxes of E2B's clients, which deny more, or choose others"""
    def create(**words):
        status, made = e2b(cay, "POST", "/v2/sandboxes", {"templateID": "small", "timeout": 60} | words)
        assert status == 201, made
        return made["sandboxID"]
    for words in ({}, {"allow_internet_access": True}):
        sandbox = create(**words)
        assert reaches_by_name(cay, sandbox) == HOST[0]
        assert refused(cay, sandbox, "names", "four.test") == "no such name"
    refused(cay, create(allow_internet_access=False), "tcp", WORLD[0], 80)
    sandbox = create(network={"denyOut": ["52.95.113.0/24", "2a05:d018:2::/48"]})
    refused(cay, sandbox, "tcp", "world.test", WHO)
    sandbox = create(network={"allowOut": ["four.test"], "denyOut": ["0.0.0.0/0"]})
    assert reaches_by_name(cay, sandbox, "four.test") == HOST[0]
    assert e2b(cay, "PUT", f"/sandboxes/{sandbox}/network", {})[0] == 204
    assert refused(cay, sandbox, "names", "four.test") == "no such name"
    assert reaches_by_name(cay, sandbox) == HOST[0]


@case
def wrong_rules(_cay, _world):
    """a daemon does not start with rules that cannot be read, or that the host does not open"""
    for rule in ("no name!", "@nobody", "10.1.0.0/16"):
        with tempfile.TemporaryDirectory(prefix="caysys-") as folder:
            done = subprocess.run([CAYD, "--data", f"{folder}/data", "--run", f"{folder}/run", "--network", "filtered", "--network-rules", rule],
                                  capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert done.returncode and "network_rules" in done.stderr, done


@case
def cannot_be_enforced(cay, _world):
    """where a network cannot be filtered, a session that has one does not start, and none is made; nothing is less strict instead"""
    nft = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin:/bin")
    cay.create("first", network=filtered("world.test"))
    cay.call(SANDBOX + "PauseSession", {"sessionId": "first", "mode": "PAUSE_MODE_STOP"})
    sh(f"mount --bind /dev/null {nft}")
    try:
        cay.restart()
        modes = cay.call(SANDBOX + "GetCapabilities")["capabilities"]["networkModes"]
        assert modes == ["none"], modes
        error = fails("unimplemented", cay.create, "second", network=filtered("world.test"))
        assert "filtered" in error.message and "nft" in error.message, error
        fails("unimplemented", cay.create, "second")  # which is what the configuration says
        fails("unimplemented", cay.create, "second", network=OPEN)
        cay.call(SANDBOX + "ResumeSession", {"sessionId": "first"})
        error = fails("unimplemented", cay.sh, "first", "true")
        assert "nft" in error.message, error
        assert cay.get("first")["network"]["allow"] == ["world.test"]
        cay.create("without", network=NONE)
    finally:
        sh(f"umount {nft}")
        cay.restart()
    assert reaches_by_name(cay, "first") == HOST[0]
    assert refused(cay, "first", "names", "four.test") == "no such name"


def expose(cay, session_id, port, address):
    return cay.call(PROCESS + "ExposePort", {"sessionId": session_id, "port": {"port": port, "bindAddress": address}})["port"]


def ports(cay, session_id):
    return [port["port"] for port in cay.get(session_id).get("ports", [])]


@case
def private_ports(cay, _world):
    """who reaches the ports of a session is its own choice, whatever its network is, and stays so when that changes"""
    cli(cay, "create", "--base", "small", "--name", "first", "--allow", "world.test", "--ports", "private", "--mask-host", "local:${PORT}")
    network = cay.get("first")["network"]
    assert network == {"mode": "NETWORK_MODE_FILTERED", "allow": ["world.test"], "privatePorts": True, "maskRequestHost": "local:${PORT}"}, network
    error = fails("permission_denied", expose, cay, "first", 7000, HOST[0])
    assert "private" in error.message, error
    fails("permission_denied", expose, cay, "first", 7000, "0.0.0.0")
    expose(cay, "first", 7000, "127.0.0.1")
    cli(cay, "update", "first", "--allow", "four.test")
    assert cay.get("first")["network"] == network | {"allow": ["four.test"]}
    cli(cay, "net", "allow", "first", "world.test")
    assert cay.get("first")["network"]["privatePorts"]
    cli(cay, "update", "first", "--network", "none")
    assert cay.get("first")["network"] == {"mode": "NETWORK_MODE_NONE", "privatePorts": True, "maskRequestHost": "local:${PORT}"}
    cli(cay, "fork", "first", "--name", "second", "--network", "none")
    assert cay.get("second")["network"]["privatePorts"]
    shown = cli(cay, "net", "show", "first").split()
    assert shown == ["network", "none", "ports", "private", "mask", "host", "local:${PORT}"], shown
    # Opened, and closed again.
    cli(cay, "update", "first", "--ports", "exposed")
    expose(cay, "first", 7001, HOST[0])
    assert ports(cay, "first") == [7000, 7001]
    cli(cay, "update", "first", "--ports", "private")
    eventually(lambda: ports(cay, "first") == [7000], "what others reach is closed")
    cli(cay, "update", "first", "--ports", "public")
    assert json.loads(cli(cay, "--json", "net", "show", "first"))["publicPorts"]
    assert "private, exposed or public" in cli(cay, "update", "first", "--ports", "some", status=125)
    fails("invalid_argument", update, cay, "first", NONE | {"privatePorts": True, "publicPorts": True})


if __name__ == "__main__":
    main(*BY_DEFAULT)
