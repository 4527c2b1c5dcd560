# SPDX-License-Identifier: Apache-2.0
"""A network of the test's own, and what daemons made in it. To be entered before any thread is
started; what is in it goes with the last process that is."""

import ctypes
import json
import subprocess
import sys

CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
OPEN = {"mode": "NETWORK_MODE_OPEN"}
NONE = {"mode": "NETWORK_MODE_NONE"}


def sh(script):
    return subprocess.run(["/bin/sh", "-ec", script], check=True, capture_output=True, text=True).stdout


def enter(more=0):
    """For this process and all that it starts: loopback only, and other namespaces if wanted."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET | more):
        print("1..0 # SKIP namespaces cannot be made here")
        sys.exit(0)
    # The host passes packets on if it ever had an open session, and namespaces are born like it.
    sh("ip link set lo up; echo 0 > /proc/sys/net/ipv4/ip_forward")
    sh("[ ! -e /proc/sys/net/ipv6 ] || echo 0 > /proc/sys/net/ipv6/conf/all/forwarding")


def has_nft():
    return subprocess.run("PATH=$PATH:/usr/sbin:/sbin command -v nft", shell=True, check=False,
                          capture_output=True).returncode == 0


def devices():
    """Of sandboxes with an open network."""
    return sorted(link["ifname"] for link in json.loads(sh("ip -j link")) if link["ifname"].startswith("cy"))


def tables():
    """Of daemons."""
    return sorted(line.split()[-1] for line in sh("nft list tables").splitlines() if " cay_" in line)


def is_clean():
    return not devices() and not tables()
