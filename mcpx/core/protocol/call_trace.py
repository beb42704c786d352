"""The spans of one request on its way to a server: through checks and queue, and each time that it is sent.

Made where calls begin, when tracing is on, and carried in `RequestContext.trace`. Senders take from it what
they write into `_meta`, so that the server's own spans are below ours; the reply of the request ends it. A
request that is sent again after a lost connection has a span for each time.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind

from mcpx.core.config import Placed, Stdio, Transport
from mcpx.core.rendering.result_reading import InputRequired
from mcpx.core.telemetry.tracing import (
    PARENT,
    STATE,
    ServedRequest,
    Tracing,
    carrier_of,
    end_span,
    ids_of,
    request_attributes,
    short,
    span_name,
)
from mcpx.errors import CallError
from supervisors import Abandoned, Reply

log = structlog.get_logger()
MAX_RESULT_BYTES: Final = 4 << 20  # of a result that is read for `isError`
SENT_AGAIN: Final = "sent_again"
"""The error of a request that was lost with its connection, and is sent once more."""
TOOL_ERROR: Final = "tool_error"
ROUTE: Final = "route"
_REPLACED: Final = frozenset({PARENT, STATE})
_decode_meta: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Result(msgspec.Struct, gc=False):
    is_error: bool | None = msgspec.field(name="isError", default=False)


class _Error(msgspec.Struct, gc=False):
    code: int | None = None


class _Answer(msgspec.Struct, gc=False):
    """A whole answer of the server, as a direct session has it."""

    result: _Result | None = None
    error: _Error | None = None


_decode_result: Final = msgspec.json.Decoder(_Result).decode
_decode_answer: Final = msgspec.json.Decoder(_Answer).decode


class CallTrace:
    """The spans of one request, from the pipeline to its reply."""

    def __init__(
        self,
        tracing: Tracing,
        served: ServedRequest | None,
        *,
        method: str,
        target: str | None,
        server: str,
        transport: Transport | None,
        is_whole: bool = False,
    ) -> None:
        """`served` is what the client asked; without it the request belongs to what is current.

        `is_whole` says that replies are whole answers, with `result` or `error`.
        """
        self._tracing = tracing
        self._served = served
        self._method = method
        self._target = target
        self._is_whole = is_whole
        about = {"mcpx.server": short(server)}
        if target is not None and method == "tools/call":
            about["mcpx.tool"] = short(target)
        if served is not None:
            served.concerns(about)
        parent = None if served is None else served.context
        self._route = tracing.begin(ROUTE, SpanKind.INTERNAL, parent, about)
        self._began = time.monotonic()
        self._sent_attributes = {**about, **_transport_attributes(transport)}
        self._attempt: Span | None = None
        self._attempt_ended_ns: int | None = None
        self._over = False

    @property
    def trace_id(self) -> str:
        """The id of the trace that the request belongs to."""
        return ids_of(self._route)["trace_id"]

    # --- what is sent

    def meta(self, given: bytes, request_id: str) -> bytes:
        """The members of `_meta` for the server, in the place of the `given` ones, in JSON without braces."""
        carrier = self._send(request_id)
        members: dict[str, Any] = {}
        if given:
            members = {
                key: value for key, value in _decode_meta(b"{%b}" % given).items() if key not in _REPLACED
            }
        return msgspec.json.encode(members | carrier)[1:-1]

    def params(self, given: msgspec.Raw | bytes, request_id: str) -> msgspec.Raw | bytes:
        """The whole params for the server, in the place of the `given` ones; the same, if these are odd."""
        carrier = self._send(request_id)
        try:
            members: dict[str, Any] = dict(_decode_meta(given)) if given else {}
            meta: dict[str, Any] = dict(_decode_meta(members["_meta"])) if "_meta" in members else {}
        except (msgspec.DecodeError, RecursionError):
            return given
        kept = {key: value for key, value in meta.items() if key not in _REPLACED}
        members["_meta"] = {**kept, **carrier}
        return msgspec.Raw(msgspec.json.encode(members))

    def _send(self, request_id: str) -> dict[str, str]:
        """Begin the span of a request that is sent, and say how the server is to name it."""
        if self._over:  # its caller has left while it was on its way out
            return carrier_of(self._route)
        self._end_attempt(SENT_AGAIN)
        about = {
            **self._sent_attributes,
            **request_attributes(self._method, self._target),
            "jsonrpc.request.id": short(request_id),
        }
        parent = trace.set_span_in_context(self._route, Context())
        self._attempt = self._tracing.begin(
            span_name(self._method, self._target), SpanKind.CLIENT, parent, about
        )
        self._attempt_ended_ns = None
        return carrier_of(self._attempt)

    # --- its end

    def released(self) -> None:
        """Note that the server has the request no more; how that ended is known when it is settled."""
        self._attempt_ended_ns = time.time_ns()

    def settled(self, reply: Reply[Any]) -> None:
        """End the spans: the request has been answered, or has failed. Called once or more."""
        if self._over:
            return
        self._over = True
        error, status = self._failure(reply)
        about = {} if status is None else {"rpc.response.status_code": str(status)}
        if self._served is not None and error is not None:
            self._served.fail(error)
            if isinstance(reply.error, Abandoned):
                self._served.end()  # nobody waits for an answer
        self._end_attempt(error, **about)
        if isinstance(reply.error, CallError) and error is not None:
            about["mcpx.outcome"] = str(reply.error.outcome)
        end_span(self._route, error, about)
        took_ms = round((time.monotonic() - self._began) * 1000, 3)
        log.debug("call.ended", **self._names(), error=error, ms=took_ms, **ids_of(self._route))

    def _names(self) -> dict[str, str]:
        named = {} if self._target is None else {"name": short(self._target)}
        return {"server": str(self._sent_attributes["mcpx.server"]), "method": short(self._method), **named}

    def _end_attempt(self, error: str | None, **attributes: str) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            end_span(attempt, error, attributes, at_ns=self._attempt_ended_ns)

    def _failure(self, reply: Reply[Any]) -> tuple[str | None, int | None]:
        """The type of the error with which the request ended, and the server's own code, where it has one."""
        error = reply.error
        if error is None:
            return self._failure_in(reply.value)
        if isinstance(error, InputRequired):  # a question, not a failure
            return None, None
        if isinstance(error, CallError):
            said = error.details.get("upstream")
            code = said.get("code") if isinstance(said, dict) else None
            return str(error.code), code if isinstance(code, int) else None
        return "cancelled" if isinstance(error, Abandoned) else type(error).__qualname__, None

    def _failure_in(self, raw: msgspec.Raw | None) -> tuple[str | None, int | None]:
        """The failure that a server's answer reports."""
        if not raw or len(raw) > MAX_RESULT_BYTES:
            return None, None
        try:
            if self._is_whole:
                answer = _decode_answer(b"{%b}" % bytes(raw))
                if answer.error is not None:
                    return "upstream_error", answer.error.code
                result = answer.result
            else:
                result = _decode_result(raw)
        except (msgspec.DecodeError, RecursionError):
            return None, None
        failed = self._method == "tools/call" and result is not None and result.is_error
        return TOOL_ERROR if failed else None, None


def end_with(trace: CallTrace, reply: Reply[Any]) -> None:
    """End the spans with the reply: before the client is answered, whose own span ends with that."""
    answer = reply.on_settled
    if answer is not None:

        def settled(reply: Reply[Any]) -> None:
            trace.settled(reply)
            answer(reply)

        reply.on_settled = settled
    reply.observe(trace.settled)  # nobody is answered, where the client has left


@lru_cache(maxsize=1024)
def _http_attributes(url: str) -> dict[str, str | int]:
    about: dict[str, str | int] = {"network.transport": "tcp", "network.protocol.name": "http"}
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return about
    return {**about, "server.address": short(parts.hostname or ""), "server.port": port}


def _transport_attributes(transport: Transport | None) -> dict[str, str | int]:
    """The attributes that say over what a server is reached."""
    if transport is None:
        return {}
    if isinstance(transport, Placed):
        return {"network.transport": "tcp"}
    return {"network.transport": "pipe"} if isinstance(transport, Stdio) else _http_attributes(transport.url)
