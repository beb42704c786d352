"""Questions that a server of 2026-07-28 puts in the place of a result (`InputRequiredResult`).

A client of that revision gets them as the result of its own request, if it declared that it can be asked
such things, and repeats the request with the answers. A client of an older one is asked by requests to it,
and MCPX repeats the call with what it says, as the SDK's own client would.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import anyio
import msgspec
from mcp import MCPError
from msgspec.structs import replace

from mcpx.core.router import Exec, Forward, Read
from mcpx.errors import CallError, Code
from mcpx.rendering.results import InputRequired
from mcpx.text import kind_of
from mcpx.upstream.context import JSON, QUESTIONS, Caller, InputAnswers
from mcpx.upstream.relay.eras import for_handshake
from mcpx.upstream.relay.server_requests import MOST_OPEN

SHOWN: Final = 64  # characters of a method that there is not
ROUNDS: Final = 10  # as the SDKs have it
AGAIN_S: Final = (0.05, 0.1, 0.25)  # pauses where the server only wants to be asked again
R = TypeVar("R")
Message = Exec | Read | Forward


def check(need: InputRequired, caller: Caller) -> dict[str, JSON]:
    """The questions by their keys, if the client can be asked them.

    Raises:
        CallError: One of them is none, or the client did not declare it.
    """
    asked = need.result.get("inputRequests") or {}
    if isinstance(asked, dict) and len(asked) > MOST_OPEN:
        text = f"{need.server} asks {len(asked)} questions in one result; {MOST_OPEN} are passed on at most"
        raise CallError(Code.PROTOCOL_ERROR, text, server=need.server)
    for each in asked.values() if isinstance(asked, dict) else [{}]:
        method = each.get("method") if isinstance(each, dict) else None
        if not isinstance(each, dict) or not isinstance(method, str) or method not in QUESTIONS:
            text = f"{need.server} does not keep to the protocol: it asks for {_named(method)} in a result"
            raise CallError(Code.PROTOCOL_ERROR, text, server=need.server)
        params = each.get("params") or {}
        if not isinstance(params, dict):
            text = f"{need.server} does not keep to the protocol: the parameters of {method} are no object"
            raise CallError(Code.PROTOCOL_ERROR, text, server=need.server)
        if refusal := caller.capabilities.refusal(method, params):
            raise _refused(need, refusal)
    return asked if isinstance(asked, dict) else {}


def _named(method: Any) -> str:
    return repr(method[:SHOWN]) if isinstance(method, str) else kind_of(method)


def as_result(need: InputRequired, caller: Caller) -> JSON:
    """The questions as the result of the client's own request. Raises CallError as `check` does."""
    check(need, caller)
    return dict(need.result)


async def settle(
    need: InputRequired,
    caller: Caller | None,
    message: Message,
    *,
    send: Callable[[Message], Awaitable[msgspec.Raw]],
    shape: Callable[[msgspec.Raw], R],
    seconds: float,
) -> R:
    """Ask the client, repeat the call, and so on until there is a result; that, shaped.

    Raises:
        CallError: The client cannot be asked, says no, or takes longer than `seconds` for a round; the
            server never stops asking; or what befell the call.
    """
    if caller is None:
        raise need
    for round_number in range(ROUNDS):
        answers = await _ask_all(need, caller, seconds, round_number)
        raw = await send(replace(message, origin=replace(message.origin, answers=answers)))
        try:
            return shape(raw)
        except InputRequired as more:
            need = more
    text = f"{need.server} asked for input {ROUNDS} times without a result; it may have taken effect"
    raise CallError(Code.UPSTREAM_ERROR, text, server=need.server)


async def _ask_all(need: InputRequired, caller: Caller, seconds: float, round_number: int) -> InputAnswers:
    asked = check(need, caller)
    state = need.result.get("requestState")
    if not asked:
        await anyio.sleep(AGAIN_S[min(round_number, len(AGAIN_S) - 1)])
        return InputAnswers(state=state)
    responses: JSON = {}
    refused: MCPError | None = None

    async def ask(key: str, question: JSON) -> None:
        nonlocal refused
        try:
            method = question["method"]
            params = for_handshake(method, question.get("params") or {})
            responses[key] = await caller.ask(method, params, None)
        except MCPError as error:
            refused = error
            tasks.cancel_scope.cancel()

    with anyio.move_on_after(seconds) as scope:
        async with anyio.create_task_group() as tasks:
            for key, question in asked.items():
                tasks.start_soon(ask, key, question)
    if scope.cancelled_caught:
        text = f"The client did not answer what {need.server} asked within {seconds:g} s"
        raise CallError(Code.TIMEOUT, text, server=need.server)
    if refused is not None:
        raise _refused(need, refused)
    return InputAnswers(msgspec.json.encode(responses), state)


def _refused(need: InputRequired, error: MCPError) -> CallError:
    text = f"{need.server} wants input before it goes on, and did not get it: {error.message}"
    said: dict[str, Any] = {"code": error.code, "message": error.message}
    return CallError(Code.UPSTREAM_ERROR, text, server=need.server, details={"client": said})
