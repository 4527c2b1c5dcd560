# SPDX-License-Identifier: Apache-2.0
"""What the programs of this folder share: the helpers of tests/echo, and one daemon for all cases."""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "echo"))
from daemon import *  # noqa: E402,F401,F403 pylint: disable=wildcard-import
from daemon import Daemon, Watch, at_end, list_if_asked, run  # noqa: E402


def run_with_echod(*flags, rss_growth_mib=12):
    """Run all cases against one echod, the binary of the command line. It must hold no more at the
    end than at the start."""
    list_if_asked()
    with Daemon(sys.argv[1], *flags) as daemon:
        daemon.call("Unary", {"text": "warm up"})
        watch = Watch(daemon, rss_growth_mib)

        @at_end
        def everything_is_back(_):
            """descriptors, connections, calls and memory are back to where they were"""
            watch.check()

        @at_end
        def ends_well(_):
            """the daemon ends with status 0 when told to"""
            assert daemon.stop() == 0

        run(daemon)
