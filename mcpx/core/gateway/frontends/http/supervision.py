"""The HTTP side of a daemon, under a supervisor of its own: what goes wrong with it costs the others nothing.

A port that is taken, or lost later, and a token that cannot be used are tried again with growing pauses, for
as long as the daemon runs; status and log say so. `mcpx serve --transport http` is nothing without its port,
so there a failure ends the process (`mcpx.app`).
"""

from __future__ import annotations

import socket
from typing import Final

import anyio
import msgspec
import structlog
from starlette.types import ASGIApp

from mcpx.core.config import Config
from mcpx.core.daemon.leaving import Use
from mcpx.core.daemon.ports import OpenForwarder
from mcpx.core.daemon.status import HttpStatus
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http.frontend import BindError, HttpFrontend, http_shutdown, listen
from mcpx.core.policy.tokens import load_token
from mcpx.core.telemetry.contained import contain
from mcpx.errors import MCPXError
from supervisors import (
    Backoff,
    Cause,
    ChildFailed,
    ChildReady,
    ChildSpec,
    Event,
    Incarnation,
    Policy,
    Supervisor,
)

log = structlog.get_logger()
BACKOFF: Final = Backoff(initial=1.0, cap=30.0)
CHILD: Final = "http"


class SupervisedHttp:
    """Serves HTTP as `config` says whenever its address can be listened on.

    `open_forwarder` is for one of several replicas.
    """

    def __init__(
        self, config: Config, *, backoff: Backoff = BACKOFF, open_forwarder: OpenForwarder | None = None
    ) -> None:
        self._open_forwarder = open_forwarder
        self._config = config
        self._supervisor = Supervisor(observe=self._on_event)
        self._backoff = backoff
        self._logged: str | None = None  # the cause of the last warning
        self._error: str | None = None  # before the first attempt under the supervisor
        self._listener: socket.socket | None = None
        self.frontend: HttpFrontend | None = None
        """The frontend that serves now, if any."""
        try:
            self._listener = self._listen()  # so that whoever finds the daemon's socket finds this one, too
        except BindError as error:
            self._error = str(error)

    def serve(self, endpoints: Endpoints, page: ASGIApp | None = None) -> ChildSpec:
        """Return the child that serves clients, and the daemon's page. To be called once."""
        grace = http_shutdown(self._config)

        async def run(incarnation: Incarnation) -> None:
            await self._serve(endpoints, page, incarnation)

        policy = Policy(backoff=self._backoff)
        self._supervisor.add(ChildSpec(name=CHILD, run=run, policy=policy, shutdown=grace, classify=_cause))
        return ChildSpec(name=CHILD, run=self._supervisor.run_as_child, shutdown=grace)

    def close(self) -> None:
        """Close the socket, if nobody has served on it."""
        if self._listener is not None:
            self._listener.close()

    def status(self) -> HttpStatus:
        """Return the URL at which clients connect, or why they cannot."""
        if self.frontend is not None:
            tokens = self.frontend.named_tokens or msgspec.UNSET
            return HttpStatus(url=self.frontend.url, named_tokens=tokens)
        state = self._supervisor.state(CHILD)
        at = state.next_attempt_at
        return HttpStatus(
            error=self._error if state.cause is None else state.cause.text,
            next_attempt_in_s=None if at is None else round(max(0.0, at - anyio.current_time()), 3),
        )

    def use(self) -> Use:
        """Return the use of the frontend; while there is none, nobody uses it."""
        return Use(has_clients=False, so_far=0) if self.frontend is None else self.frontend.use()

    def _listen(self) -> socket.socket:
        return listen(self._config.http.host, self._config.http.port, configured=True)

    async def _serve(self, endpoints: Endpoints, page: ASGIApp | None, incarnation: Incarnation) -> None:
        listener, self._listener = self._listener or self._listen(), None
        with listener:
            token = load_token()
            self.frontend = HttpFrontend(
                endpoints,
                listener,
                self._config.http,
                token=token,
                limit=self._config.max_message_bytes,
                page=page,
                open_forwarder=self._open_forwarder,
            )
            try:
                await self.frontend.run(incarnation)
            finally:
                self.frontend = None

    def _on_event(self, event: Event) -> None:
        if isinstance(event, ChildReady):
            self._logged = self._error = None
        elif isinstance(event, ChildFailed) and event.cause.text != self._logged:
            self._logged = event.cause.text
            log.warning("http.unavailable", cause=event.cause.text, retry_in_s=round(event.retry_in, 2))


def _cause(error: Exception) -> Cause:
    """Say why HTTP is not served. An error that is not MCPX's own is a fault of MCPX, and logged."""
    if isinstance(error, MCPXError):
        return Cause(str(error), error=error)
    contain(error, "http")
    return Cause(f"MCPX failed ({type(error).__name__}); its log says more", error=error)
