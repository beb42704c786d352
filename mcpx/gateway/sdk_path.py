"""One request to an upstream for the SDK's server: its client hears of progress and log messages, in order.

The fast lane does the same for streams without the SDK; what the two answer is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import anyio
import msgspec
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp_types import INVALID_PARAMS
from msgspec.structs import replace

from mcpx.catalog.model import JSON
from mcpx.core.hub import Hub
from mcpx.core.router import Exec, Forward, Read
from mcpx.errors import CallError, Outcome, internal_error
from mcpx.gateway import input_required as inputs
from mcpx.gateway.clients.backlog import Backlog
from mcpx.gateway.clients.handles import Delivery, Outbox, RequestCaller
from mcpx.observe.contained import contain
from mcpx.rendering.results import InputRequired
from mcpx.text import kind_of
from mcpx.upstream.context import InputAnswers
from mcpx.upstream.requests import Origin

Context = ServerRequestContext[Any, Any]
Message = Exec | Read | Forward
R = TypeVar("R")


async def run(hub: Hub, ctx: Context, message: Message, shape: Callable[[msgspec.Raw], R]) -> R | JSON:
    """The shaped result; or the questions to the client, as the result that they are.

    Raises:
        CallError: The request failed, or `shape` says that it did.
    """
    telling = _Telling(hub)
    caller = RequestCaller(ctx, hub, telling.put)
    if caller.modern:
        hub.audience.pass_by(caller.log_level)
    wants_progress = bool(ctx.meta and ctx.meta.get("progress_token") is not None)
    origin = Origin(
        client=caller.session_of,
        caller=caller,
        answers=_answers(ctx),
        on_progress=_to_client(ctx, telling.put) if wants_progress else None,
    )
    message = replace(message, origin=origin)
    failure: CallError | MCPError | None = None
    result: R | JSON = {}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(telling.run)
        try:
            result = await _run(hub, caller, message, shape)
        except (CallError, MCPError) as error:  # carried out of the task group, which would wrap it
            failure = error
        except Exception as error:  # noqa: BLE001 - the boundary: whatever one answer makes us raise is told
            contain(error, "answer", server=message.server_name)
            tool = message.tool_name if isinstance(message, Exec) else None
            failure = internal_error(error, server=message.server_name, tool=tool, outcome=Outcome.UNKNOWN)
        finally:
            telling.close()
    if failure is not None:
        raise failure
    return result


async def _run(
    hub: Hub, caller: RequestCaller, message: Message, shape: Callable[[msgspec.Raw], R]
) -> R | JSON:
    try:
        return shape(await hub.router.raw(message))
    except InputRequired as need:
        if caller.modern:
            return inputs.as_result(need, caller)
        seconds = hub.registry.upstream(message.server_name).config.limits.call_timeout
        return await inputs.settle(need, caller, message, send=hub.router.raw, shape=shape, seconds=seconds)


def _answers(ctx: Context) -> InputAnswers | None:
    """What a request brings that repeats an earlier one."""
    params = ctx.params or {}
    responses, state = params.get("inputResponses"), params.get("requestState")
    if responses is None and state is None:
        return None
    if state is not None and not isinstance(state, str):
        raise MCPError(
            INVALID_PARAMS, f"requestState must be a string, got {kind_of(state)}; nothing was sent"
        )
    return InputAnswers(msgspec.json.encode(responses) if responses is not None else b"", state)


def _to_client(ctx: Context, put: Outbox) -> Callable[[float, float | None, str | None], None]:
    return lambda *told: put(partial(ctx.session.report_progress, *told), len(told[2] or ""))


class _Telling:
    """What is told to the client during its request, in order; one that does not take it goes without."""

    def __init__(self, hub: Hub) -> None:
        self._audience = hub.audience
        self._waiting: Backlog[Delivery] = Backlog()
        self._news = anyio.Event()
        self._closed = False

    def put(self, delivery: Delivery, size: int) -> None:
        """To be told soon; after the request it is dropped."""
        if self._closed:
            return
        if self._waiting.put(delivery, size):
            self._news.set()
        else:
            self._audience.dropped += 1

    def close(self) -> None:
        """Nothing more will come."""
        self._closed = True
        self._news.set()

    async def run(self) -> None:
        """Tell, until it is closed and all is told."""
        while len(self._waiting) or not self._closed:
            if not len(self._waiting):
                self._news = anyio.Event()
                await self._news.wait()
                continue
            deliver = self._waiting.take()
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await deliver()
