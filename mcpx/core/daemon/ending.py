"""The end of a MCPX process without another step, when the one in order takes too long or cannot be had."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import NoReturn

import structlog

from mcpx.core.daemon.hub import Hub
from mcpx.core.servers.transport.spawning import EARLY

log = structlog.get_logger()


def end_at_once(hub: Hub, why: str, code: int) -> NoReturn:
    """Kill every child's process group and leave. May be called in any thread."""
    upstreams = hub.fleet.children()
    stuck = [upstream.name for upstream in upstreams if upstream.pid is not None]
    log.error("mcpx.killed", reason=why, stuck=stuck)
    for upstream in upstreams:
        if upstream.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(upstream.pid, signal.SIGKILL)
    EARLY.end()
    os._exit(code)
