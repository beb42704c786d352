"""ASGI applications, as the page is one, behind connections of MCPX's own: so rare that a task pays.

`AppSite` and `serve_app` give an application the requests of a connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from mcpx.core.gateway.clients.identity import Bearer
from mcpx.core.gateway.frontends.http.exchange import Refusal
from mcpx.core.gateway.frontends.http.http_exchange import HttpExchange
from mcpx.core.telemetry.contained import contain

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope

TAKEN: Final = "mcpx.taken"
"""In the scope of a request: a coroutine function that waits while the client leaves too much unread."""
NOTED: Final = "mcpx.noted"
"""In the scope of a request: a dictionary for what is found out once for the whole connection."""
_LENGTH: Final = b"content-length"
_UNFRAMED: Final = frozenset({_LENGTH, b"connection", b"transfer-encoding", b"date"})


async def cancel_when_gone(receive: Receive, cancel: Callable[[], object]) -> None:
    """Cancel what is done for a request, whose body has been read, once its client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    cancel()


class AppSite:
    """All addresses of a server, for one application, which lets in whom it wants."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._tasks: set[asyncio.Task[None]] = set()

    def look(self, _exchange: HttpExchange) -> Refusal | None:
        """Refuse nothing."""
        return None

    def is_valid(self, _bearer: Bearer) -> bool:
        """Return True: it asks for no token."""
        return True

    def serve(self, exchange: HttpExchange) -> None:
        """Have the application respond."""
        serve_app(self._app, exchange, self._tasks)


def serve_app(app: ASGIApp, exchange: HttpExchange, tasks: set[asyncio.Task[None]]) -> None:
    """Have an application respond to a request, in a task that is among `tasks`."""
    task = asyncio.get_running_loop().create_task(_Served(exchange).run(app))
    tasks.add(task)
    task.add_done_callback(partial(task_ended, tasks))


def task_ended(tasks: set[asyncio.Task[None]], task: asyncio.Task[None]) -> None:
    """Forget a task of a request that has ended, and note what it has failed with."""
    tasks.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        contain(error, "http")


class _Served:
    """A request, as an application is given it, and its response."""

    def __init__(self, exchange: HttpExchange) -> None:
        self._exchange = exchange
        self._begun: Message | None = None  # the head of the response, which goes with the first part
        self._is_given = False
        self._left = asyncio.Event()

    async def run(self, app: ASGIApp) -> None:
        exchange = self._exchange
        exchange.on_gone(self._left.set)
        try:
            await app(self._scope(), self._receive, self._send)
        finally:
            if not exchange.is_over:
                exchange.fail()

    def _scope(self) -> Scope:
        exchange = self._exchange
        client, server = exchange.carrier.ends
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": exchange.method,
            "scheme": "http",
            "path": exchange.path,
            "raw_path": exchange.head.target,
            "query_string": exchange.head.query,
            "root_path": "",
            "headers": exchange.pairs,
            "client": client,
            "server": server,
            "state": {},
            TAKEN: exchange.carrier.wait_taken,
            NOTED: exchange.carrier.noted,
        }
        return scope

    async def _receive(self) -> Message:
        if not self._is_given:
            self._is_given = True
            return {"type": "http.request", "body": self._exchange.body, "more_body": False}
        if not self._exchange.is_over:
            await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        exchange = self._exchange
        if message["type"] == "http.response.start":
            self._begun = message
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if (begun := self._begun) is not None:
            self._begun = None
            given = [(name.lower(), value) for name, value in begun.get("headers", ())]
            headers = tuple(pair for pair in given if pair[0] not in _UNFRAMED)
            if (b"connection", b"close") in given:
                exchange.keep_alive = False
            if more:
                length = dict(given).get(_LENGTH)
                exchange.begin(begun["status"], headers, None if length is None else int(length))
                exchange.put(body)
            else:
                exchange.respond(begun["status"], headers, [body])
        elif more:
            exchange.put(body)
        else:
            exchange.finish(body)
        if not more:
            self._left.set()
