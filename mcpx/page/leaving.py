"""Requests that take their time: what is done for one ends when its browser has left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from starlette.requests import Request
from starlette.types import Receive

from mcpx.core.catalog.model import JSON
from mcpx.errors import MCPXError


async def unless_gone(request: Request, work: Callable[[], Awaitable[JSON]]) -> JSON:
    """What `work` gives; nothing, which nobody reads, where its browser leaves first and it is cancelled.

    The body of the request has been read.

    Raises:
        MCPXError: From `work`.
    """
    done: JSON = {}
    failure: MCPXError | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(until_gone, request.receive, tasks.cancel_scope)
        try:
            done = await work()
        except MCPXError as error:
            failure = error  # raised outside of the task group, which would wrap it
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return done


async def until_gone(receive: Receive, work: anyio.CancelScope) -> None:
    """Cancel what is done for a request once its browser has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    work.cancel()
