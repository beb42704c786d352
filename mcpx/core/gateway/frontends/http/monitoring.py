"""Addresses of the HTTP frontend for machines: `/metrics`, `/healthz` and `/readyz`.

Metrics are for those who may see all servers: where there are tokens, the default one, or one with a name and
no profile. The other two are for whoever comes, and say in a few words how MCPX is, without a name in them;
`/healthz` answers for as long as the event loop runs. A request to any of them is no use of the daemon, which
may end because nobody uses it (`mcpx.core.daemon.leaving`). What makes metrics is imported by the first
scrape.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.clients.identity import bearer_in
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http.exchange import Guard
from mcpx.core.telemetry.contained import contain

if TYPE_CHECKING:
    from mcpx.core.daemon.monitoring import Scrapes

METRICS: Final = "/metrics"
HEALTHY: Final = "/healthz"
READY: Final = "/readyz"
_METHODS: Final = ("GET", "HEAD")
_NO_STORE: Final = {"Cache-Control": "no-store"}


class Monitoring:
    """The three addresses. `guard` is for requests of metrics, `guarded` lets in those who have a token.

    `probe_guard` is for the two others: where they can be asked from other hosts, a probe of a cluster names
    whatever address it found.
    """

    def __init__(
        self, endpoints: Endpoints, guard: Guard, guarded: Callable[[ASGIApp], ASGIApp], probe_guard: Guard
    ) -> None:
        self.served = 0
        """The number of requests so far."""
        self._endpoints = endpoints
        self._scraping: tuple[Scrapes, anyio.CapacityLimiter] | None = None
        """State of all scrapes, from the first on: what one knows of those before, and their turns."""
        self.routes: dict[str, ASGIApp] = {
            METRICS: _Counted(self, guarded(_endpoint(guard, self._metrics))),
            HEALTHY: _Counted(self, _endpoint(probe_guard, self._health)),
            READY: _Counted(self, _endpoint(probe_guard, self._readiness)),
        }

    async def _metrics(self, request: Request) -> Response:
        bearer = bearer_in(request.scope)
        if bearer is not None and bearer.token.profile is not None:
            return PlainTextResponse("this token is for a profile; metrics are of all servers\n", 403)
        await anyio.to_thread.run_sync(import_module, "mcpx.core.daemon.monitoring")
        from mcpx.core.daemon import monitoring  # noqa: PLC0415 - for those who scrape: it was imported in a thread

        if self._scraping is None:
            self._scraping = monitoring.Scrapes(), anyio.CapacityLimiter(1)
        scrapes, limiter = self._scraping
        hub, accept = self._endpoints.hub, request.headers.get("accept", "")
        clients = len(self._endpoints.clients.attached.all())
        try:
            reading = monitoring.read(hub, clients=clients)
            body, content_type = await anyio.to_thread.run_sync(
                monitoring.exposition, reading, scrapes, accept, limiter=limiter
            )
        except Exception as error:  # noqa: BLE001 - the boundary: the scraper is told, and the log says what it was
            contain(error, "metrics")
            return PlainTextResponse(
                "the metrics could not be made; the log of MCPX says why\n", 500, _NO_STORE
            )
        return Response(body, headers={"Content-Type": content_type} | _NO_STORE)

    async def _health(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n", headers=_NO_STORE)

    async def _readiness(self, _request: Request) -> Response:
        problem = why_not_ready(self._endpoints.hub)
        if problem is None:
            return PlainTextResponse("ready\n", headers=_NO_STORE)
        return PlainTextResponse(f"not ready: {problem}\n", 503, _NO_STORE)


class _Counted:
    """Counts the requests to one of the addresses."""

    def __init__(self, monitoring: Monitoring, app: ASGIApp) -> None:
        self._monitoring = monitoring
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        try:
            await self._app(scope, receive, send)
        finally:
            self._monitoring.served += 1


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


def _endpoint(guard: Guard, answer: Callable[[Request], Awaitable[Response]]) -> ASGIApp:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method in _METHODS:
            response = await guard(request) or await answer(request)
        else:
            response = PlainTextResponse("Method Not Allowed\n", 405, {"Allow": ", ".join(_METHODS)})
        await response(scope, receive, send)

    return serve
