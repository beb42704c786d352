"""The relay of one session: messages that its server sends of its own accord, on their way to clients.

A log message that is attributed to a client goes to that client only, if it wants its level. One that comes
while no call is in flight goes to every client that has set a level, except those that came with a token of
a name. While calls of several clients are in flight on one session it goes to none of them, but into the
server's own log file. `logger` is prefixed with the server's name.

Requests of the server (sampling, elicitation, roots) go to the client whose call is in flight. A request
belongs to the call that its stream names (HTTP), else to the client whose calls alone are in flight; between
calls, to the only client there is. Everything else is refused with the reason, and so is what that client did
not declare. A request lives no longer than its call: when the call ends, the client's request is cancelled. A
client has `call_timeout` to answer, and the call's own timeout starts again with each request and each
answer. A form or link says which server it is of (`mcpx.core.policy.server_questions`). At most
`MAX_OPEN_REQUESTS` are open at a time; more are refused at once, on a stream before a task is spent on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec
import structlog

from mcpx.core.catalog.model import JSON
from mcpx.core.config.redaction import OwnMessages
from mcpx.core.config.server_config import ServerConfig
from mcpx.core.policy.changed_calls import without_secrets
from mcpx.core.policy.server_questions import presented
from mcpx.core.protocol.context import ELICITATION, LEVELS, QUESTIONS, Caller, OnStep, wants
from mcpx.core.protocol.requests import CallTool, Request
from mcpx.core.servers.in_flight import InFlight
from mcpx.core.servers.relay.clients import (
    LOG,
    Attributed,
    Attribution,
    CallsInFlight,
    ConnectedClients,
    Unattributed,
)
from mcpx.core.servers.relay.suspended import SuspendedCalls
from mcpx.core.telemetry.log_files import ServerLog
from mcpx.core.wire import envelope
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.core.wire.envelope import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REQUEST_TIMEOUT,
    MCPError,
    RequestId,
    coerce_request_id,
)

if TYPE_CHECKING:
    from mcp.shared.dispatcher import DispatchContext

log = structlog.get_logger()

ELICITATION_COMPLETE: Final = "notifications/elicitation/complete"
MAX_OPEN_REQUESTS: Final = 32  # of one server
MAX_URL_ELICITATIONS: Final = 256  # remembered until the server says that they are completed
_TOO_MANY_TEXT: Final = (
    f"{MAX_OPEN_REQUESTS} questions of this server are open; ask again when one is answered"
)
_TOO_MANY: Final = envelope.encode({"code": INTERNAL_ERROR, "message": _TOO_MANY_TEXT})


class SessionRelay:
    """The relay of one session, to the clients behind its `calls`."""

    def __init__(
        self,
        server: str,
        calls: CallsInFlight,
        clients: ConnectedClients,
        suspended: SuspendedCalls,
        log_file: ServerLog,
        *,
        client: object | None = None,
        from_mcpx: bool = False,
        on_question: Callable[[], None] = lambda: None,
        entry: Callable[[], ServerConfig],
    ) -> None:
        """`client` is the one whose own session it is, if any. `from_mcpx`: the server is at another MCPX.

        `on_question` is called with each question; it must not raise. `entry` is the server's, as it is now.
        """
        self.clients = clients
        self._server = server
        self._client = client
        self._from_mcpx = from_mcpx
        self._on_question = on_question
        self._own_messages = OwnMessages(entry)
        self._suspended = suspended
        self._attribution = Attribution(server, calls)
        self._attributed: dict[RequestId, Attributed | Unattributed] = {}
        self._open = 0  # requests that wait for a client's answer
        self._url_elicitations: dict[str, object] = {}  # elicitation id -> client
        self._log_file = log_file
        self._announced = False

    # --- attribution

    def watch(self, wire: WireDispatcher) -> None:
        """Attribute each request when it comes, before later messages change things."""
        wire.receiver.fast = self._attribute

    def _attribute(self, wire: WireDispatcher, request_id: RequestId, method: str, _raw: msgspec.Raw) -> bool:
        if wire.channel.congested and wire.channel.is_ignored:  # no answer is read, of pings, too
            return True
        if method not in QUESTIONS:
            return False
        if self._open + len(self._attributed) >= MAX_OPEN_REQUESTS:
            if not wire.channel.congested:  # a server that does not read gets no refusal
                wire.channel.write(*envelope.failure(request_id, _TOO_MANY))
            return True
        found = self._attribution.attribute(wire.receiver.about)
        self._attributed[coerce_request_id(request_id)] = found
        return False

    # --- asking

    async def answer(
        self, context: DispatchContext[Any], method: str, params: Mapping[str, Any] | None
    ) -> JSON:
        """The client's answer to a request.

        Raises:
            MCPError: The client's own error, or the reason why no client is asked.
        """
        attributed = self._attributed.pop(coerce_request_id(context.request_id or 0), None)
        given = _as_object(params)
        self._on_question()
        if self._open >= MAX_OPEN_REQUESTS:
            raise MCPError(INTERNAL_ERROR, _TOO_MANY_TEXT)
        self._open += 1
        try:
            return await self._answer(context, method, given, attributed)
        finally:
            self._open -= 1

    async def _answer(
        self,
        context: DispatchContext[Any],
        method: str,
        params: JSON,
        attributed: Attributed | Unattributed | None,
    ) -> JSON:
        found = attributed if attributed is not None else self._attribution.attribute(None)
        if isinstance(found, Unattributed):
            found = self._only_client(found, method)
        if refusal := found.caller.capabilities.refusal(method, params):
            raise MCPError(refusal.code, f"{refusal.message}; MCPX cannot pass {self._server}'s request on")
        params = self._without_secrets(params, found)
        if method == ELICITATION:
            asking = None if found.caller.is_peer else self._server
            params = presented(params, asking, from_mcpx=self._from_mcpx)
        self._remember(method, params, found.caller)
        plain, on_progress = _without_token(params, context)
        if not found.caller.modern:
            return await self._bounded(found, method, found.caller.ask, plain, on_progress)
        suspended = self._suspended.suspend(found.calls)
        return await self._bounded(found, method, lambda *args: suspended.ask(*args[:2]), plain, on_progress)

    def _only_client(self, unattributed: Unattributed, method: str) -> Attributed:
        """Between calls, the client whose own session it is, or the only one there is."""
        handle = self.clients.only_client(self._server, self._client) if unattributed.idle else None
        if handle is None:
            raise self._refused(method, unattributed.reason)
        return Attributed(handle.caller(), ())

    def _refused(self, method: str, why: str) -> MCPError:
        return MCPError(METHOD_NOT_FOUND, f"MCPX cannot pass {method} of {self._server} to a client: {why}")

    async def _bounded(
        self,
        found: Attributed,
        method: str,
        ask: Callable[..., Any],
        params: JSON,
        on_progress: OnStep | None,
    ) -> JSON:
        """Ask, for as long as one of the calls lives that the request may belong to."""
        alive = set(map(id, found.calls))
        scope = anyio.CancelScope(deadline=anyio.current_time() + self._suspended.timeout)

        def ended(call: InFlight) -> None:
            alive.discard(id(call))
            if not alive:
                scope.cancel()

        for call in found.calls:
            call.endings.append(lambda call=call: ended(call))  # type: ignore[misc]
            self._attribution.renew(call)
        with scope:
            answer: JSON = await ask(method, params, on_progress)
            for call in found.calls:
                self._attribution.renew(call)
            return answer
        why = (
            "the call is over" if found.calls and not alive else f"no answer in {self._suspended.timeout:g} s"
        )
        raise MCPError(REQUEST_TIMEOUT, f"The client did not answer {method}: {why}")

    # --- url mode

    def _remember(self, method: str, params: JSON, caller: Caller) -> None:
        if method == ELICITATION and isinstance(named := params.get("elicitationId"), str):
            if len(self._url_elicitations) >= MAX_URL_ELICITATIONS:
                del self._url_elicitations[next(iter(self._url_elicitations))]
            self._url_elicitations[named] = caller.client

    def _completed(self, params: JSON) -> None:
        """Tell the client that was asked that an elicitation in url mode is completed."""
        client = self._url_elicitations.pop(str(params.get("elicitationId")), None)
        handle = self.clients.handles.get(client) if client is not None else None
        if handle is not None:
            handle.notify(ELICITATION_COMPLETE, params)

    def _without_secrets(self, said: JSON, found: Attributed | Unattributed) -> JSON:
        """A message without the secrets that the server was given by its entry and in the calls that run."""
        calls = found.calls if isinstance(found, Attributed) else ()
        changes = [each.request.change for each in calls if isinstance(each.request, CallTool)]
        fixed = [each.fixed for each in changes if each is not None]
        shown = self._own_messages.redact.data(said)
        return without_secrets(shown if isinstance(shown, dict) else {}, fixed)

    # --- notifications

    def handle_notification(
        self, method: str, params: JSON, named: Request | None, *, logs_on_request: bool
    ) -> None:
        """Pass on a notification that concerns clients; ignore any other.

        `named` is the request on whose stream it came, if that is known. `logs_on_request` says that the
        server sends log messages only for requests that asked for them (2026-07-28).
        """
        if method == LOG:
            self._forward_log(params, named, on_request=logs_on_request)
        elif method == ELICITATION_COMPLETE:
            self._completed(params)

    def _forward_log(self, params: JSON, named: Request | None, *, on_request: bool) -> None:
        level = params.get("level")
        if level not in LEVELS:
            return
        name = params.get("logger")
        shown = {**params, "logger": f"{self._server}/{name}" if name else self._server}
        found = self._attribution.attribute(named, want_logs=on_request)
        shown = self._without_secrets(shown, found)
        if isinstance(found, Attributed):
            if wants(found.caller.log_level, level):
                found.caller.log(shown)
        elif not found.idle:
            self._keep_log(shown, found.reason)
        elif not on_request:
            self.clients.broadcast_log(self._server, shown, self._client)

    def _keep_log(self, params: JSON, reason: str) -> None:
        if not self._announced:
            self._announced = True
            kept = "in the server's log file"
            log.info("upstream.log_kept", server=self._server, reason=reason, kept=kept)
        self._log_file.write(msgspec.json.encode(params))


def _as_object(params: Mapping[str, Any] | None) -> JSON:
    """The parameters of a message as a plain object."""
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise MCPError(INVALID_PARAMS, "The parameters must be an object")
    return dict(params)


def _without_token(params: JSON, context: DispatchContext[Any]) -> tuple[JSON, OnStep | None]:
    """The parameters without the server's progress token, and what reports progress for it."""
    meta = params.get("_meta")
    if not isinstance(meta, Mapping) or "progressToken" not in meta:
        return params, None
    rest = {key: value for key, value in meta.items() if key != "progressToken"}
    plain = {key: value for key, value in params.items() if key != "_meta"}
    return (plain | {"_meta": rest} if rest else plain), context.progress
