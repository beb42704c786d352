"""Questions of a server (sampling, elicitation, roots), answered by the client whose call is in flight.

Serves one session. A question is taken to belong to the call that its stream names (HTTP), or else to the
client whose calls alone are in flight; between calls, to the only client there is. Everything else is
refused with the reason, and so is what that client did not declare. A question lives no longer than its
call: when the call ends, however it ends, the client is told to forget it. A client has `call_timeout` to
answer, and the call's own timeout starts anew with each question and each answer. At most `MOST_OPEN` are
open at a time; any more are refused at once, on a stream before a task is spent on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import anyio
import msgspec
from mcp import MCPError
from mcp.shared.dispatcher import DispatchContext, coerce_request_id
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_TIMEOUT

from mcpx.upstream.context import ELICITATION, JSON, QUESTIONS, Caller, OnStep
from mcpx.upstream.relay.attribution import Unknown, Whose, whose
from mcpx.upstream.relay.clients import Audience
from mcpx.upstream.relay.suspended import Holds, Running
from mcpx.upstream.requests import Request
from mcpx.wire import envelope
from mcpx.wire.dispatcher import WireDispatcher
from mcpx.wire.envelope import RequestId

COMPLETED: Final = "notifications/elicitation/complete"
MOST_OPEN: Final = 32  # questions of one server
REMEMBERED: Final = 256  # elicitations in url mode whose completion may still be told


class Work(Protocol):
    """The calls of the session."""

    def running(self) -> list[Running]: ...

    def renew(self, call: Running) -> None: ...


class _NoWork:
    def running(self) -> list[Running]:
        return []

    def renew(self, call: Running) -> None:
        """There is none."""


class Asking:
    """Finds the client for each question, asks it, and gives the answer back."""

    def __init__(
        self, server: str, audience: Audience, holds: Holds, *, client: object | None = None
    ) -> None:
        self.work: Work = _NoWork()
        self._server = server
        self._client = client  # the session is its own
        self._audience = audience
        self._holds = holds
        self._noted: dict[RequestId, Whose | Unknown] = {}
        self._open = 0  # questions that wait for a client's answer
        self._elicited: dict[str, object] = {}  # elicitation id -> client

    # --- whose it is

    def watch(self, wire: WireDispatcher) -> None:
        """Judge each question of a stream when its line comes, before the lines behind it change things."""
        wire.receiver.fast = self._note

    def _note(self, wire: WireDispatcher, request_id: RequestId, method: str, _raw: msgspec.Raw) -> bool:
        if method not in QUESTIONS:
            return False
        if self._open + len(self._noted) >= MOST_OPEN:
            if not wire.channel.congested:  # a server that does not even read is not told
                wire.channel.write(*envelope.failure(request_id, _TOO_MANY))
            return True
        self._noted[coerce_request_id(request_id)] = self.whose(None)
        return False

    def whose(self, named: Request | None) -> Whose | Unknown:
        """Whose a thing is that the server says now."""
        return whose(self.work.running(), named, server=self._server)

    # --- asking

    async def answer(
        self, context: DispatchContext[Any], method: str, params: JSON, named: Request | None
    ) -> JSON:
        """The client's answer to a question. Raises MCPError: the client's own, or the reason why not."""
        noted = self._noted.pop(coerce_request_id(context.request_id or 0), None)
        if self._open >= MOST_OPEN:
            raise MCPError(INTERNAL_ERROR, _TOO_MANY_TEXT)
        self._open += 1
        try:
            return await self._answer(context, method, params, noted, named)
        finally:
            self._open -= 1

    async def _answer(
        self,
        context: DispatchContext[Any],
        method: str,
        params: JSON,
        noted: Whose | Unknown | None,
        named: Request | None,
    ) -> JSON:
        found = noted if noted is not None else self.whose(named)
        if isinstance(found, Unknown):
            found = self._sole(found, method)
        if refusal := found.caller.capabilities.refusal(method, params):
            raise MCPError(refusal.code, f"{refusal.message}; MCPX cannot pass {self._server}'s request on")
        self._remember(method, params, found.caller)
        plain, on_progress = _without_token(params, context)
        if not found.caller.modern:
            return await self._bounded(found, method, found.caller.ask, plain, on_progress)
        if len(found.calls) != 1:
            raise self._refused(method, "several calls of the client are in flight, and it must repeat one")
        held = self._holds.hold(found.calls[0])
        return await self._bounded(found, method, lambda *asked: held.ask(*asked[:2]), plain, on_progress)

    def _sole(self, unknown: Unknown, method: str) -> Whose:
        """Between calls, the client whose own session it is, or the only one there is."""
        sole = self._audience.sole(self._client) if unknown.idle else None
        if sole is None:
            raise self._refused(method, unknown.why)
        return Whose(sole, ())

    def _refused(self, method: str, why: str) -> MCPError:
        return MCPError(METHOD_NOT_FOUND, f"MCPX cannot pass {method} of {self._server} to a client: {why}")

    async def _bounded(
        self, found: Whose, method: str, ask: Callable[..., Any], params: JSON, on_progress: OnStep | None
    ) -> JSON:
        """Ask, for as long as one of the calls lives that the question may belong to."""
        alive = set(map(id, found.calls))
        scope = anyio.CancelScope(deadline=anyio.current_time() + self._holds.seconds)

        def over(call: Running) -> None:
            alive.discard(id(call))
            if not alive:
                scope.cancel()

        for call in found.calls:
            call.endings.append(lambda call=call: over(call))  # type: ignore[misc]
            self.work.renew(call)
        with scope:
            answer: JSON = await ask(method, params, on_progress)
            for call in found.calls:
                self.work.renew(call)
            return answer
        why = "the call is over" if found.calls and not alive else f"no answer in {self._holds.seconds:g} s"
        raise MCPError(REQUEST_TIMEOUT, f"The client did not answer {method}: {why}")

    # --- url mode

    def _remember(self, method: str, params: JSON, caller: Caller) -> None:
        if method == ELICITATION and isinstance(named := params.get("elicitationId"), str):
            if len(self._elicited) >= REMEMBERED:
                del self._elicited[next(iter(self._elicited))]
            self._elicited[named] = caller.client

    def completed(self, params: JSON) -> None:
        """The server says that an elicitation in url mode is done: tell the client that was asked."""
        client = self._elicited.pop(str(params.get("elicitationId")), None)
        member = self._audience.members.get(client) if client is not None else None
        if member is not None:
            member.tell(COMPLETED, params)


_TOO_MANY_TEXT: Final = f"{MOST_OPEN} questions of this server are open; ask again when one is answered"
_TOO_MANY: Final = envelope.encode({"code": INTERNAL_ERROR, "message": _TOO_MANY_TEXT})


def as_object(params: Mapping[str, Any] | None) -> JSON:
    """The parameters of a message as a plain object. Raises MCPError where they are something else."""
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise MCPError(INVALID_PARAMS, "The parameters must be an object")
    return dict(params)


def _without_token(params: JSON, context: DispatchContext[Any]) -> tuple[JSON, OnStep | None]:
    """The parameters without the server's progress token, which means nothing to the client."""
    meta = params.get("_meta")
    if not isinstance(meta, Mapping) or "progressToken" not in meta:
        return params, None
    rest = {key: value for key, value in meta.items() if key != "progressToken"}
    plain = {key: value for key, value in params.items() if key != "_meta"}
    return (plain | {"_meta": rest} if rest else plain), context.progress
