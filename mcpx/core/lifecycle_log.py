"""The lifecycle of an upstream server in the log: one dotted event each, with the fields that explain it."""

from __future__ import annotations

import structlog

from mcpx.upstream.actor import Upstream
from supervisors import ChildFailed, ChildParked, ChildReady, ChildStarting, ChildStopped, ChildStuck, Event

log = structlog.get_logger()


def log_upstream(event: Event, upstream: Upstream) -> None:
    """Log what the supervisor told of this server."""
    server = upstream.name if upstream.client is None else f"{upstream.name} (of one client)"
    match event:
        case ChildStarting(_, generation):
            log.debug("upstream.starting", server=server, incarnation=generation)
        case ChildReady(_, generation, took):
            known = upstream.catalogue
            log.info(
                "upstream.ready",
                server=server,
                took_s=round(took, 3),
                incarnation=generation,
                tools=len(known.tools) if known else 0,
                resources=len(known.resources) if known else 0,
                protocol=known.protocol_version if known else None,
                pid=upstream.pid,
            )
        case ChildFailed(_, _, cause, failures, retry_in):
            fields = {"cause": cause.text, "failures": failures, "retry_in_s": round(retry_in, 2)}
            log.warning("upstream.failed", server=server, **fields)
        case ChildParked(_, _, cause, failures, probe_in):
            fields = {"cause": cause.text, "failures": failures, "probe_in_s": round(probe_in, 2)}
            log.warning("upstream.parked", server=server, **fields)
        case ChildStopped():
            log.debug("upstream.stopped", server=server)
        case ChildStuck(_, _, waited):
            log.error("upstream.stuck", server=server, waited_s=waited)
