"""Addresses of the HTTP frontend for machines: `/metrics`, `/healthz` and `/readyz`.

Metrics are for those who may see all servers: where there are tokens, the default one, or one with a name and
no profile. The other two are for whoever comes, and say in a few words how MCPX is, without a name in them;
`/healthz` answers for as long as the event loop runs. A request to any of them is no use of the daemon, which
may end because nobody uses it (`mcpx.core.daemon.leaving`). What makes metrics is imported by the first
scrape.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http.exchange import TEXT, HeaderPairs, Refusal
from mcpx.core.gateway.frontends.http.http_exchange import HttpExchange
from mcpx.core.telemetry.contained import contain

if TYPE_CHECKING:
    from mcpx.core.daemon.monitoring import Scrapes

METRICS: Final = "/metrics"
HEALTHY: Final = "/healthz"
READY: Final = "/readyz"
_METHODS: Final = ("GET", "HEAD")
_NO_STORE: Final[HeaderPairs] = ((b"cache-control", b"no-store"),)
_ALLOW: Final[HeaderPairs] = (*TEXT, (b"allow", b"GET, HEAD"))
_PLAIN: Final[HeaderPairs] = (*TEXT, *_NO_STORE)
_HEALTHY: Final = Refusal(200, b"ok\n", _PLAIN)
_READY: Final = Refusal(200, b"ready\n", _PLAIN)
_OTHER_METHOD: Final = Refusal(405, b"Method Not Allowed\n", _ALLOW)
_OF_PROFILE: Final = Refusal(403, b"this token is for a profile; metrics are of all servers\n")
_FAILED: Final = Refusal(500, b"the metrics could not be made; the log of MCPX says why\n", _PLAIN)


class Monitoring:
    """The three addresses; who is let in, the frontend has seen to. `spawn` runs what takes a task."""

    paths: Final = frozenset({METRICS, HEALTHY, READY})

    def __init__(self, endpoints: Endpoints, spawn: Callable[..., Any]) -> None:
        self.served = 0
        """The number of requests so far, also of those that were not let in."""
        self._endpoints = endpoints
        self._spawn = spawn
        self._scraping: tuple[Scrapes, anyio.CapacityLimiter] | None = None
        """State of all scrapes, from the first on: what one knows of those before, and their turns."""

    def serve(self, exchange: HttpExchange) -> None:
        """Serve a request to one of them."""
        if exchange.method not in _METHODS:
            exchange.respond_with(_OTHER_METHOD)
        elif exchange.path == HEALTHY:
            exchange.respond_with(_HEALTHY)
        elif exchange.path == READY:
            problem = why_not_ready(self._endpoints.hub)
            refusal = _READY if problem is None else Refusal(503, f"not ready: {problem}\n".encode(), _PLAIN)
            exchange.respond_with(refusal)
        elif exchange.bearer is not None and exchange.bearer.token.profile is not None:
            exchange.respond_with(_OF_PROFILE)
        else:
            self._spawn(self._metrics, exchange)

    async def _metrics(self, exchange: HttpExchange) -> None:
        await anyio.to_thread.run_sync(import_module, "mcpx.core.daemon.monitoring")
        from mcpx.core.daemon import monitoring  # noqa: PLC0415 - for those who scrape: it was imported in a thread

        if self._scraping is None:
            self._scraping = monitoring.Scrapes(), anyio.CapacityLimiter(1)
        scrapes, limiter = self._scraping
        hub, accept = self._endpoints.hub, exchange.headers.get(b"accept", b"").decode("latin-1")
        clients = len(self._endpoints.clients.attached.all())
        try:
            reading = monitoring.read(hub, clients=clients)
            body, content_type = await anyio.to_thread.run_sync(
                monitoring.exposition, reading, scrapes, accept, limiter=limiter
            )
        except Exception as error:  # noqa: BLE001 - the boundary: the scraper is told, and the log says what it was
            contain(error, "metrics")
            exchange.respond_with(_FAILED)
        else:
            exchange.respond(200, ((b"content-type", content_type.encode()), *_NO_STORE), [body])


def why_not_ready(hub: Hub) -> str | None:
    """Say why MCPX is not ready to serve calls, without a name in it; None if it is.

    It is once each server that is started with it has listed what it offers or has failed once, if one of
    those that are not disabled can be called, or all are disabled, and no call is refused for want of an
    audit log; and until it is asked to leave.
    """
    if hub.leaving.begun:
        return "MCPX is stopping"
    if not hub.fleet.readiness.is_settled:
        return "servers are starting"
    wanted = [upstream for upstream in hub.upstreams.values() if upstream.config.disabled is None]
    if wanted and not any(upstream.info().available for upstream in wanted):
        return "no server can be called"
    if hub.config.audit_required and hub.audit.is_written and hub.audit.problem is not None:
        return "the audit log cannot be written"
    return None
