"""Calls that are traced: `ToolCalls` where spans are wanted (`mcpx.core.telemetry.tracing`)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mcpx.core.calls.calls import ToolCalls
from mcpx.core.protocol.call_trace import CallTrace
from mcpx.core.protocol.messages import Exec, Forward, Message, Read, Request
from mcpx.core.protocol.requests import GetPrompt
from mcpx.core.telemetry.tracing import Tracing, served_request
from supervisors import Reply


class TracedToolCalls(ToolCalls):
    """Gives each request to a server its spans, from here to its reply."""

    def __init__(self, tracing: Tracing, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._tracing = tracing

    def call(self, message: Message, reply: Reply[Any]) -> None:
        if isinstance(message, Exec | Read | Forward):
            message = self._traced(message, reply)
        super().call(message, reply)

    def _traced(self, request: Request, reply: Reply[Any]) -> Request:
        upstream = self._upstreams.get(request.server_name)
        method, target = _asked(request)
        trace = CallTrace(
            self._tracing,
            served_request(),
            method=method,
            target=target,
            server=request.server_name,
            transport=None if upstream is None else upstream.config.transport,
        )
        _end_with(trace, reply)
        return replace(request, context=replace(request.context, trace=trace))


def _end_with(trace: CallTrace, reply: Reply[Any]) -> None:
    """End the spans with the reply: before the client is answered, whose own span ends with that."""
    answer = reply.on_settled
    if answer is not None:

        def settled(reply: Reply[Any]) -> None:
            trace.settled(reply)
            answer(reply)

        reply.on_settled = settled
    reply.observe(trace.settled)  # nobody is answered, where the client has left


def _asked(request: Request) -> tuple[str, str | None]:
    """The method of a request at its server, and what it names there."""
    if isinstance(request, Exec):
        return "tools/call", request.tool_name
    if isinstance(request, Read):
        return "resources/read", request.uri
    forwarded = request.request
    return forwarded.method, forwarded.name if isinstance(forwarded, GetPrompt) else None
