#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What would happen to connections, and why: CheckNetwork and `cay net`."""

import json
import os
import subprocess
import sys
import tempfile

from daemon import PATIENCE_S, SANDBOX, case, fails
from small_base import run_with_cayd

CAY = sys.argv[2]
CAYD = sys.argv[1]
FLAGS = ("--network-allow", "10.1.0.0/16", "--network-sets", "corp=git.corp.example:22",
         "--network-sets", "corp=*.corp.example:443")
FILTERED = {"mode": "NETWORK_MODE_FILTERED"}


def check(cay, *destinations, **policy):
    asked = {"sessionId": "s", "destinations": destinations}
    if policy:
        asked["policy"] = FILTERED | policy
    return cay.call(SANDBOX + "CheckNetwork", asked)["verdicts"]


@case
def tried(cay):
    """rules are tried without a change of the session, and the rule that decides is told"""
    cay.create("s", lazyStart=True)
    before = cay.get("s")["network"]
    verdicts = check(cay, "https://A.Example./x?y", "git.corp.example:22", "x.corp.example", "evil.example", "10.1.2.3:5432",
                     "10.2.0.1", "8.8.8.8", allow=["a.example:443", "@corp", "*", "10.1.0.0/16"], deny=["evil.example"])
    assert [(verdict["endpoint"], verdict.get("allowed", False), verdict.get("rule")) for verdict in verdicts] == [
        ("a.example:443", True, "a.example:443"), ("git.corp.example:22", True, "@corp"),
        ("x.corp.example:443", True, "@corp"), ("evil.example:443", False, "evil.example"),
        ("10.1.2.3:5432", True, "10.1.0.0/16"), ("10.2.0.1:443", False, None), ("8.8.8.8:443", False, None)], verdicts
    assert verdicts[3]["why"] == "'evil.example' denies it", verdicts[3]
    assert verdicts[5]["why"] == "it is a private network, and no rule names it", verdicts[5]
    assert verdicts[6]["why"] == "no rule allows it", verdicts[6]
    assert cay.get("s")["network"] == before == {"mode": "NETWORK_MODE_NONE"}


@case
def modes(cay):
    """a session without a network reaches nothing; an open network reaches the internet alone"""
    cay.create("s", lazyStart=True)
    assert check(cay, "a.example")[0]["why"] == "the session has no network"
    tested = {"sessionId": "s", "destinations": ["a.example", "8.8.8.8", "10.1.0.1", "10.2.0.1", "127.0.0.1",
                                                 "[fd00:ec2::254]:80"], "policy": {"mode": "NETWORK_MODE_OPEN"}}
    verdicts = cay.call(SANDBOX + "CheckNetwork", tested)["verdicts"]
    assert [verdict.get("allowed", False) for verdict in verdicts] == [True, True, True, False, False, False], verdicts


@case
def wrong(cay):
    """what is wrong is refused with the rule or the destination, and what to write"""
    cay.create("s", lazyStart=True)
    for rules, told in ((["https://a.example/x"], "write a.example:443"), (["10.1.2.3/16"], "10.1.0.0/16"),
                        (["127.1"], "ends with a number"), (["@nothing"], "@debian"), (["127.0.0.1"], "no rule opens it"),
                        (["a.example"] * 1001, "at most 1000")):
        error = fails("invalid_argument", check, cay, "a.example", allow=rules)
        assert told in error.message, error
    error = fails("permission_denied", check, cay, "a.example", allow=["10.2.0.0/16"])
    assert "network_allow" in error.message, error
    for destination in ("", "*.example", "a.example:1-5", "10.0.0.0/8", "ftp://a.example", "http://", "a b", "2130706433"):
        error = fails("invalid_argument", check, cay, destination)
        assert "destination" in error.message, error
    fails("invalid_argument", check, cay)
    fails("invalid_argument", check, cay, *["a.example"] * 101)
    assert len(check(cay, *["a.example"] * 100)) == 100
    for policy in ({"mode": "NETWORK_MODE_OPEN", "allow": ["a.example"]}, {"allow": ["a.example"]}):
        fails("invalid_argument", cay.call, SANDBOX + "CheckNetwork",
              {"sessionId": "s", "destinations": ["a.example"], "policy": policy})


@case
def command_line(cay):
    """cay net check and cay net show"""
    def cli(*arguments):
        environment = os.environ | {"CAY_URL": f"unix:{cay.socket_path}"}
        return subprocess.run([CAY, "net", *arguments], env=environment, capture_output=True, text=True, check=False,
                              timeout=PATIENCE_S)
    cay.create("s", lazyStart=True)
    done = cli("check", "s", "--allow", "*.example:443", "--allow", "@corp", "--deny", "evil.example", "https://a.example/",
               "evil.example")
    assert done.returncode == 0, done
    assert [line.split(maxsplit=2) for line in done.stdout.splitlines()][-2:] == [
        ["a.example:443", "allowed", "'*.example:443' allows it"],
        ["evil.example:443", "refused", "'evil.example' denies it"]], done
    found = json.loads(cli("check", "s", "a.example", "--json").stdout)
    assert found["verdicts"][0]["why"] == "the session has no network", found
    shown = cli("show", "s")
    assert shown.stdout.split() == ["network", "none", "ports", "exposed"], shown
    assert json.loads(cli("show", "s", "--json").stdout)["mode"] == "NETWORK_MODE_NONE"
    done = cli("check", "s", "--allow", "*bad", "a.example")
    assert done.returncode == 125 and "*.example.org" in done.stderr, done


@case
def sets(_cay):
    """a set of the configuration that is none keeps the daemon from starting"""
    for line, told in (("corp", "corp=git.example.org:443"), ("corp=@npm", "no other sets"), ("corp=a..b", "two dots")):
        with tempfile.TemporaryDirectory() as place:
            refused = subprocess.run([CAYD, "--data", place + "/data", "--run", place + "/run", "--network-sets", line],
                                     capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert refused.returncode != 0 and told in refused.stderr and "network_sets" in refused.stderr, refused


if __name__ == "__main__":
    run_with_cayd(*FLAGS)
