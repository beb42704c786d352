"""The way of a request of 2026-07-28 to the replica that holds what it brings.

Stands between who may come in and the endpoints: tokens, `Host` and `Origin` were checked before anything is
passed on, and are again by the holder, which gets the client's own headers. What goes out is sealed, what
comes back is opened or passed on, once: the mark on a request that was passed on is signed, says whether the
client was on the machine of the replica that it came to, and is never passed on again.

Where the holder cannot be reached, nothing was sent now. A question of MCPX's own is then asked anew by this
replica, and a server's state goes to the server as it is here, as 2026-07-28 means states; what only the
holder has ends with an error: `unknown` for a call that had been sent to its server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from typing import Final

import anyio
import anyio.abc
import structlog
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from mcpx.cluster.replicas.forwarding import (
    AnswerLostError,
    HolderGoneError,
    Passing,
    altered,
    answer_failure,
    answer_lost,
    error_of,
    holder_gone,
    looping,
)
from mcpx.cluster.replicas.seals import AlteredError, Incoming, Kind, Seals, read, seal
from mcpx.core.daemon.ports import Serve
from mcpx.core.gateway.frontends.http.http_exchange import HttpExchange
from mcpx.core.gateway.http_headers import VERSION
from mcpx.core.wire.incoming import contained
from mcpx.errors import CallError, Code

log = structlog.get_logger()
MARK: Final = b"mcpx-passed-on"
_LOCAL: Final = b"1"
_AFAR: Final = b"0"
_GOES_ON_HERE: Final = frozenset({Kind.APPROVAL, Kind.STATE, Kind.STATELESS})
_HANDSHAKE: Final = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)


class Replica:
    """One replica among several: the port `Forwarder`, for the HTTP frontend."""

    def __init__(self, url: str, secret: str) -> None:
        self.seals = Seals(url, secret)
        self.seal_kept = self.seals.seal_kept
        self._tasks: anyio.abc.TaskGroup | None = None

    def around(self, serve: Serve) -> Serve:
        """Return what serves the requests of this replica by `serve`, and passes others on."""
        return partial(self._serve, serve)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Pass requests on; at the end, those that are under way are left."""
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    def _serve(self, serve: Serve, exchange: HttpExchange) -> None:
        """Serve one HTTP request, or have it passed on."""
        version = exchange.headers.get(VERSION)
        if exchange.method != "POST" or version is None or version in _HANDSHAKE:
            serve(exchange)
            return
        is_marked = self._has_mark(exchange)
        exchange.is_from_afar = is_marked and exchange.headers[MARK].startswith(_AFAR)
        try:
            request = read(exchange.body, self.seals)
        except AlteredError as error:
            answer_failure(exchange, altered(error))
            return
        if request is None or request.holder is None:
            self._serve_here(serve, exchange, request)
        elif is_marked:
            answer_failure(exchange, looping(request))
        elif self._tasks is not None:
            self._tasks.start_soon(contained, self._pass_on, serve, exchange, request)

    def _serve_here(self, serve: Serve, exchange: HttpExchange, request: Incoming | None) -> None:
        """Serve a request here; what its response gives out is sealed."""
        method = ""
        if request is not None:
            exchange.body, method = request.body, request.method
        exchange.rewrite = lambda part: seal(part, method, self.seals)
        serve(exchange)

    # --- elsewhere

    async def _pass_on(self, serve: Serve, exchange: HttpExchange, request: Incoming) -> None:
        failure: CallError | None = None
        passing = Passing(exchange)
        try:
            await self._exchange(exchange, request, passing)
        except HolderGoneError as gone:
            log.warning("replica.gone", holder=request.holder, why=str(gone))
            failure = holder_gone(request)
        except AnswerLostError as lost:
            log.warning("replica.answer_lost", holder=request.holder, why=str(lost))
            failure = answer_lost(request)
        if failure is None or exchange.is_over:
            return
        if failure.code is Code.SERVER_UNAVAILABLE and request.kind in _GOES_ON_HERE:
            self._serve_here(serve, exchange, request)
        elif passing.is_begun:
            exchange.end([error_of(exchange.path, request, failure)])
        else:
            answer_failure(exchange, failure)

    async def _exchange(self, exchange: HttpExchange, request: Incoming, passing: Passing) -> None:
        """Send a request to its holder, and the answer to the client.

        Raises:
            HolderGoneError: The holder has read nothing.
            AnswerLostError: It may have, and the answer is lost.
        """
        holder, local = request.holder or "", _LOCAL if exchange.is_local else _AFAR
        mark = local + self._mark(holder, local, exchange.body)
        passed = [(name, value) for name, value in exchange.pairs if name != MARK]
        await passing.run(holder, [*passed, (MARK, mark)])

    def _mark(self, holder: str, local: bytes, body: bytes) -> bytes:
        parts = b"passed on", holder.encode(), local, sha256(body).digest()
        return self.seals.mac(*parts).hex().encode()

    def _has_mark(self, exchange: HttpExchange) -> bool:
        """Return True if another replica has passed the request on to this one."""
        mark = exchange.headers.get(MARK, b"")
        if mark[:1] not in {_LOCAL, _AFAR}:
            return False
        return compare_digest(mark[1:], self._mark(self.seals.url, mark[:1], exchange.body))
