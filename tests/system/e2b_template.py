#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the templates of E2B clients are on this host: which base `base` stands for, and the list."""

import json

from access_world import Owner
from daemon import BASE, KEY, case, run
from small_base import import_small, small_cayd


def owner_of(daemon, name):
    return Owner(daemon, daemon.call(KEY + "CreateKey", {"owner": name})["secret"])


def ask(owner, verb, path, body=None, code=200):
    got = owner.http(verb, path, {}, body)
    assert got.code == code, (verb, path, got)
    return json.loads(got.text) if got.text else None


def base_of(daemon, owner, **body):
    """The base that a sandbox made with this stands on, as the host calls it."""
    sandbox = ask(owner, "POST", "/sandboxes", body | {"timeout": 60}, 201)["sandboxID"]
    base = daemon.get(sandbox)["base"]
    daemon.destroy(sandbox)
    return base


@case
def meaning():
    """the template base is the base of that name, or the default; e2b_template says otherwise"""
    with small_cayd("--default-base", "small") as daemon:
        alice = owner_of(daemon, "alice")
        assert base_of(daemon, alice, templateID="base") == "small"
        assert base_of(daemon, alice) == "small"
        import_small(daemon, "base")
        assert base_of(daemon, alice, templateID="base") == "base"
        assert base_of(daemon, alice) == "base"
        assert base_of(daemon, alice, templateID="small") == "small"
        assert ask(alice, "GET", "/templates/aliases/base") == {"templateID": "base", "public": True}
    with small_cayd("--default-base", "small", "--e2b-template", "other") as daemon:
        alice = owner_of(daemon, "alice")
        for name in ("base", "other"):
            import_small(daemon, name)
        assert base_of(daemon, alice, templateID="base") == "other"
        assert base_of(daemon, alice) == "other"


@case
def listed():
    """GET /templates has what SDKs expect of each, the builds of one template together"""
    with small_cayd("--default-base", "small") as daemon:
        alice, bob = owner_of(daemon, "alice"), owner_of(daemon, "bob")
        for number in (1, 2):
            build = {"name": f"build-{number}", "aliases": [f"alice/app:v{number}"], "fromBase": "small",
                     "labels": {"cay.e2b/template": "app"}, "settings": {"limits": {"memoryBytes": "268435456"}}}
            alice.stream(BASE + "BuildBase", build)
        found = {item["templateID"]: item for item in ask(alice, "GET", "/templates")}
        assert set(found) == {"app", "small"}, found
        app, small = found["app"], found["small"]
        assert app["buildCount"] == 2 and app["buildID"] == "build-2" and app["memoryMB"] == 256, app
        assert not app["public"] and small["public"] and small["buildCount"] == 1, found
        assert "alice/app:v2" in app["names"] and app["buildStatus"] == "ready", app
        for item in found.values():
            for key, kind in (("aliases", list), ("cpuCount", int), ("diskSizeMB", int), ("envdVersion", str),
                              ("createdAt", str), ("updatedAt", str), ("spawnCount", int)):
                assert isinstance(item[key], kind), (key, item)
            assert item["lastSpawnedAt"] is None and item["createdBy"] is None, item
        assert [item["templateID"] for item in ask(bob, "GET", "/templates")] == ["small"]


if __name__ == "__main__":
    run()
