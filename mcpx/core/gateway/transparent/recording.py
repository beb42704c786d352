"""Records of the requests at a transparent endpoint: entries of the audit log, and spans.

A traced request gets `traceparent` in its `_meta`, and else passes as it came. Methods that are not known,
and those of a connection's opening, are not traced, so that nothing is added to them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from mcp_types import CLIENT_INFO_META_KEY
from msgspec.structs import replace

from mcpx.core.config import Transport as ServerTransport
from mcpx.core.events.records import Kind, Record, Records
from mcpx.core.gateway.tracing import client_attributes
from mcpx.core.gateway.transparent.subjects import Subject
from mcpx.core.policy.tokens import NamedToken
from mcpx.core.protocol.call_trace import CallTrace
from mcpx.core.protocol.context import Origin, Transport, client_text, this_user
from mcpx.core.protocol.requests import Passed
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.passthrough.messages import NOTHING, members_of, result_of, value_of
from mcpx.core.telemetry.tracing import Tracing, target_in
from mcpx.errors import CallError, Code
from supervisors import Reply

_KINDS: Final[dict[str, Kind]] = {
    "tools/call": "tool",
    "resources/read": "resource",
    "resources/subscribe": "resource",
    "prompts/get": "prompt",
    "completion/complete": "completion",
    "tasks/result": "task",
    "tasks/update": "task",
    "tasks/cancel": "task",
}
_ANSWERS: Final = frozenset({"inputResponses", "requestState"})
"""The members by which a client comes back with answers."""
AUDITED: Final = frozenset(_KINDS)
"""The methods whose requests are written. How often a client asks for a task is nobody's matter."""


def begin(
    records: Records, server: str, method: str, subject: Subject, origin: Origin, *, trace: CallTrace | None
) -> Record:
    """Record that a request begins.

    Raises:
        CallError: `overloaded`: it has to be in the audit log, and cannot.
    """
    names = subject.tool, subject.resource, subject.prompt, subject.template, subject.task
    name = next((each for each in names if each is not None), "")
    if not _ANSWERS.isdisjoint(subject.members):
        records.goes_on(_KINDS[method], server, name, origin)
    arguments = subject.members.get("arguments", NOTHING)
    trace_id = None if trace is None else trace.trace_id
    return records.begin(_KINDS[method], server, name, arguments, origin, trace_id=trace_id)


def observe(record: Record, reply: Reply[msgspec.Raw], server: str) -> None:
    """Have the record note how a request ends whose reply is a whole answer."""

    def settled(answered: Reply[msgspec.Raw]) -> None:
        noted: Reply[Any] = Reply()
        noted.observer = record
        if answered.error is not None:
            noted.reject(answered.error)
        elif (result := result_of(answered.value or NOTHING)) is not None:
            noted.resolve(result)
        else:
            noted.reject(CallError(Code.UPSTREAM_ERROR, "the server answered with an error", server=server))

    reply.observe(settled)


def origin_of(
    transport: Transport, client: bytes, params: msgspec.Raw | bytes, token: NamedToken | None
) -> Origin:
    """Return who is behind a request. `client` is what it said of itself in its handshake, if any."""
    about = msgspec.Raw(client)
    if CLIENT_INFO_META_KEY.encode() in bytes(params):
        about = members_of(members_of(params).get("_meta", NOTHING)).get(CLIENT_INFO_META_KEY, NOTHING)
    info = value_of(about) if about else None
    name, version = (info.get("name"), info.get("version")) if isinstance(info, dict) else (None, None)
    name = name if isinstance(name, str) else None
    return Origin(
        transport=transport,
        client=client_text(name, version if isinstance(version, str) else None),
        name=name,
        user=this_user(),
        profile=None if token is None else token.profile,
        token=None if token is None else token.name,
    )


TRACED: Final = AUDITED | {"prompts/list", "resources/list", "resources/templates/list", "tools/list"}


def traced(
    tracing: Tracing,
    request: Passed,
    reply: RawReply,
    *,
    server: str,
    transport: ServerTransport | None,
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
