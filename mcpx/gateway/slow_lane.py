"""One request for the SDK's server: the client tied to it, its progress and log messages told in order.

The fast lane does the same for streams without the SDK; what the two answer is the same.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import anyio
import msgspec
from mcp.server.context import ServerRequestContext
from msgspec.structs import replace

from mcpx.catalog.model import JSON
from mcpx.content import InputRequired, Shaped, read_result, shape_resource
from mcpx.errors import CallError
from mcpx.gateway import inputs
from mcpx.gateway.askable import Delivery, Outbox, RequestCaller
from mcpx.gateway.caller import caller
from mcpx.hub import Hub
from mcpx.router import Exec, Read
from mcpx.upstream.caller import InputAnswers

Context = ServerRequestContext[Any, Any]
M = TypeVar("M", bound=msgspec.Struct)
R = TypeVar("R")


async def run(hub: Hub, ctx: Context, message: Exec | Read) -> Shaped | JSON:
    """The shaped result; or the questions to the client, as the result that they are. Raises CallError."""
    server = message.server_name
    message = replace(message, client=caller(ctx.session, hub))
    return await ask(
        hub, ctx, message, server=server, send=hub.router.raw, shape=lambda raw: _shaped(hub, message, raw)
    )


async def ask(
    hub: Hub,
    ctx: Context,
    request: M,
    *,
    server: str,
    send: Callable[[M], Awaitable[msgspec.Raw]],
    shape: Callable[[msgspec.Raw], R],
) -> R | JSON:
    """What `server` answers to `request`, shaped; or questions to the client (`resultType` says so).

    `request` has `caller`, `answers` and `on_progress`, which are filled in here. Raises CallError.
    """
    telling = _Telling()
    behind = RequestCaller(ctx, hub, telling.put)
    if behind.modern:
        hub.audience.pass_by(behind.log_level)
    request = replace(request, caller=behind, answers=_answers(ctx))
    if isinstance(request, Exec) and ctx.meta and ctx.meta.get("progress_token") is not None:
        request = replace(request, on_progress=_to_client(ctx, telling.put))
    failure: CallError | None = None
    result: R | JSON = {}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(telling.run)
        try:
            result = await _settled(hub, behind, request, server=server, send=send, shape=shape)
        except CallError as error:  # carried out of the task group, which would wrap it
            failure = error
        finally:
            telling.close()
    if failure is not None:
        raise failure
    return result


async def _settled(
    hub: Hub,
    behind: RequestCaller,
    request: M,
    *,
    server: str,
    send: Callable[[M], Awaitable[msgspec.Raw]],
    shape: Callable[[msgspec.Raw], R],
) -> R | JSON:
    try:
        return shape(await send(request))
    except InputRequired as need:
        if behind.modern:
            return inputs.as_result(need, behind)
        seconds = hub.upstreams[server].config.limits.call_timeout
        return await inputs.settle(need, behind, request, send=send, shape=shape, seconds=seconds)


def _shaped(hub: Hub, message: Exec | Read, raw: msgspec.Raw) -> Shaped:
    server = message.server_name
    if isinstance(message, Exec):
        return hub.executor.shape(server, message.tool_name, raw).shaped
    return shape_resource(read_result(raw, server=server), uri=message.uri, server=server)


def _answers(ctx: Context) -> InputAnswers | None:
    """What a request brings that repeats an earlier one."""
    params = ctx.params or {}
    responses, state = params.get("inputResponses"), params.get("requestState")
    if responses is None and state is None:
        return None
    return InputAnswers(msgspec.json.encode(responses) if responses is not None else b"", state)


def _to_client(ctx: Context, put: Outbox) -> Callable[[float, float | None, str | None], None]:
    return lambda *told: put(partial(ctx.session.report_progress, *told))


class _Telling:
    """What is told to the client during its request, in order."""

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[Delivery](math.inf)

    def put(self, delivery: Delivery) -> None:
        """To be told soon; after the request it is dropped."""
        try:
            self._send.send_nowait(delivery)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return

    def close(self) -> None:
        """Nothing more will come."""
        self._send.close()

    async def run(self) -> None:
        """Tell, until it is closed and all is told."""
        async with self._receive:
            async for deliver in self._receive:
                with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                    await deliver()
