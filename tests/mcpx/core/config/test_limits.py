"""The limits of servers: for all, for one, and how they reach the processes."""

from __future__ import annotations

import json

from mcpx.core.config import parse
from mcpx.core.config.per_server import ProcessLimits


def config(servers, **settings):
    return parse(json.dumps({**settings, "mcpServers": servers}), where="test")


def test_limits_for_all_servers_and_for_one_reach_the_processes():
    servers = {
        "a": {"command": "a"},
        "b": {"command": "b", "limits": {"nice": 5, "calls_per_minute": 10}},
        "c": {"command": "c", "limits": {"open_files": None}},
        "d": {"url": "http://127.0.0.1/", "limits": {"nice": 5, "calls_per_minute": 10}},
    }
    found = config(servers, limits={"open_files": 100})
    limits = {name: found.servers[name].transport.limits for name in "abc"}
    assert limits == {
        "a": ProcessLimits(open_files=100),
        "b": ProcessLimits(open_files=100, nice=5),
        "c": ProcessLimits(),
    }
    assert found.servers["d"].quota.calls_per_minute == 10
    assert [notice for notice in found.notices if "limits" in notice] == [
        "$.mcpServers.d.limits.nice: has no effect on a server that is reached by a URL"
    ]


def test_a_slip_in_limits_disables_the_server():
    found = config({"a": {"command": "a", "limits": {"niec": 5}}})
    assert "niec" in found.servers["a"].disabled
