"""The spans of the requests at a transparent endpoint.

A traced request gets `traceparent` in its `_meta`, and else passes as it came. Methods that are not known,
and those of a connection's opening, are not traced, so that nothing is added to them.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from mcpx.core.config import Transport
from mcpx.core.gateway.tracing import client_attributes
from mcpx.core.gateway.transparent.auditing import AUDITED
from mcpx.core.protocol.call_trace import CallTrace
from mcpx.core.protocol.context import Origin
from mcpx.core.protocol.requests import Passed
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.passthrough.messages import NOTHING, members_of, value_of
from mcpx.core.telemetry.tracing import Tracing, target_in
from supervisors import Reply

TRACED: Final = AUDITED | {"prompts/list", "resources/list", "resources/templates/list", "tools/list"}


def traced(
    tracing: Tracing,
    request: Passed,
    reply: RawReply,
    *,
    server: str,
    transport: Transport | None,
    origin: Origin,
) -> Passed:
    """The request with its spans, which end when it is settled."""
    if request.method not in TRACED:
        return request
    members = members_of(request.raw)
    carrier = {key: value_of(raw) for key, raw in members_of(members.get("_meta", NOTHING)).items()}
    target = target_in({key: value_of(members[key]) for key in ("name", "uri") if key in members})
    about = client_attributes(origin, request.id, None)
    served = tracing.serve(request.method, target, carrier, about)
    trace = CallTrace(
        tracing,
        served,
        method=request.method,
        target=target,
        server=server,
        transport=transport,
        is_whole=True,
    )

    def settled(answered: Reply[Any]) -> None:
        trace.settled(answered)
        served.end()

    reply.observe(settled)
    return replace(request, context=replace(request.context, trace=trace))
