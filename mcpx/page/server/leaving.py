"""Requests that take their time: what is done for one ends when its browser has left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from starlette.requests import Request

from mcpx.catalog.model import JSON
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
        tasks.start_soon(_until_gone, request, tasks.cancel_scope)
        try:
            done = await work()
        except MCPXError as error:
            failure = error  # raised outside of the task group, which would wrap it
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return done


async def _until_gone(request: Request, work: anyio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    work.cancel()
