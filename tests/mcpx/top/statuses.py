"""Statuses for the tests of `mcpx top`, without a daemon."""

from __future__ import annotations

from mcpx.core.daemon.status import Cost, DaemonStatus, Latency, ServerStatus, Status, Tokens


def tokens(direct, spent, **more):
    cost = Cost(direct=direct, spent=spent, **more)
    return Tokens(since_start=cost, all_time=cost)


def server(name="files", state="ready", **fields):
    given = {
        "pid": 812,
        "transport": "stdio",
        "protocol_version": "2025-06-18",
        "uptime_s": 60.0,
        "restarts": 0,
        "failures": 0,
        "next_attempt_in_s": None,
        "last_error": None,
        "tools": 3,
        "resources": 0,
        "templates": 0,
        "prompts": 0,
        "in_flight": 0,
        "queued": 0,
        "calls": 0,
        "errors": 0,
        "latency_ms": Latency(p50=1.25, p95=12.5, p99=40.0),
    }
    return ServerStatus(name=name, state=state, **{**given, **fields})


def status(*servers, **fields):
    given = {"pid": 1, "version": "9.9", "uptime_s": 3 * 3600 + 300, "clients": 2}
    return Status(daemon=DaemonStatus(**{**given, **fields}), servers=list(servers))
