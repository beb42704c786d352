"""What the audit log says of each request that the router takes."""

from __future__ import annotations

from typing import Final

import msgspec

from mcpx.audit.audit import Audit
from mcpx.audit.entry import Entry, Kind
from mcpx.core.messages import Exec, Read, Request
from mcpx.upstream.requests import Complete, GetPrompt, TaskRequest

_UNWRITTEN: Final = "tasks/get"  # how often a client asks for a task is nobody's matter


def audited(audit: Audit, request: Request) -> Entry | None:
    """The entry of a request that begins; None for one that is not written.

    Raises:
        CallError: As from `Audit.begin`.
    """
    origin, server = request.context.origin, request.server_name
    if isinstance(request, Exec):
        return audit.begin("tool", server, request.tool_name, request.arguments, origin)
    kind, name, arguments = target_of(request)
    return None if kind is None else audit.begin(kind, server, name, arguments, origin)


def target_of(request: Request) -> tuple[Kind | None, str, msgspec.Raw | bytes]:
    """What a request is for: the kind, the name, and the arguments."""
    if isinstance(request, Exec):
        return "tool", request.tool_name, request.arguments
    if isinstance(request, Read):
        return "resource", request.uri, b""
    forwarded = request.request
    match forwarded:
        case GetPrompt():
            return "prompt", forwarded.name, forwarded.arguments
        case Complete():
            return "completion", _completed(forwarded.ref), b""
        case TaskRequest():
            return (None if forwarded.method == _UNWRITTEN else "task"), forwarded.task_id, b""


class _Reference(msgspec.Struct):
    name: str = ""
    uri: str = ""


def _completed(ref: bytes) -> str:
    """The prompt or the template that an argument is completed for."""
    try:
        read = msgspec.json.decode(ref, type=_Reference)
    except (msgspec.DecodeError, RecursionError):
        return ""
    return read.name or read.uri
