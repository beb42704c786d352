"""What the audit log says of each request of a client: of those that the router takes, and of all others.

`audited` and `audited_direct` make the entry that is to be the observer of a request's reply. What is refused
before there is a request is noted by `noting_refusals`, in whose block names are looked up and arguments are
read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from mcp import MCPError

from mcpx.audit.audit import Audit
from mcpx.audit.chain_files import UNREADABLE
from mcpx.audit.entry import Entry, Kind
from mcpx.audit.origin import Origin
from mcpx.core.messages import Exec, Forward, Message, Read, Request
from mcpx.errors import CallError, MCPXError
from mcpx.upstream.requests import Complete, GetPrompt, Passed

_NOT_WRITTEN: Final = "tasks/get"  # a client asks for a task again and again until it has ended
_UNKNOWN: Final[dict[Kind, str]] = {
    "tool": "unknown_tool",
    "resource": "unknown_resource",
    "prompt": "unknown_prompt",
    "completion": "unknown_prompt",
}
"""The codes of what the protocol answers with an error of its own, where there is no such thing."""


def audited(audit: Audit, request: Request) -> Entry | None:
    """The entry of a request that begins; None for one that is not written.

    Raises:
        CallError: As from `Audit.begin`.
    """
    if isinstance(request, Exec):
        origin = request.context.origin
        return audit.begin("tool", request.server_name, request.tool_name, request.arguments, origin)
    if (target := target_of(request)) is None:
        return None
    kind, name, arguments = target
    return audit.begin(kind, request.server_name, name, arguments, request.context.origin)


Target = tuple[Kind, str, msgspec.Raw | bytes]
"""What is asked for, its name, and the arguments."""


def target_of(request: Request) -> Target | None:
    """What a request is for; None for one that is not written."""
    if isinstance(request, Exec):
        return "tool", request.tool_name, request.arguments
    if isinstance(request, Read):
        return "resource", request.uri, b""
    forwarded = request.request
    if isinstance(forwarded, GetPrompt):
        return "prompt", forwarded.name, forwarded.arguments
    if isinstance(forwarded, Complete):
        return "completion", _read(forwarded.ref).target, b""
    return None if forwarded.method == _NOT_WRITTEN else ("task", forwarded.task_id, b"")


class _Params(msgspec.Struct):
    """What names the target of a request in its params."""

    name: str = ""
    uri: str = ""
    task: str = msgspec.field(name="taskId", default="")
    arguments: msgspec.Raw = msgspec.Raw()
    ref: _Params | None = None

    @property
    def target(self) -> str:
        return self.name or self.uri or self.task


def _read(params: msgspec.Raw | bytes) -> _Params:
    try:
        return msgspec.json.decode(params, type=_Params)
    except UNREADABLE:
        return _Params()


_DIRECT: Final[dict[str, Kind]] = {
    "tools/call": "tool",
    "resources/read": "resource",
    "prompts/get": "prompt",
    "completion/complete": "completion",
    "tasks/update": "task",
    "tasks/cancel": "task",
}


def audited_direct(audit: Audit, server: str, request: Passed, origin: Origin) -> Entry | None:
    """The entry of a request in a direct session; None for one that is not written, such as a listing.

    Raises:
        CallError: As from `Audit.begin`.
    """
    kind = _DIRECT.get(request.method)
    if kind is None or not audit.enabled:
        return None
    params = _read(request.raw)
    name = params.ref.target if params.ref is not None else params.target
    entry = audit.begin(kind, server, name, params.arguments, origin)
    entry.is_response = True
    return entry


def note_refused(audit: Audit, message: Message, error: CallError) -> None:
    """Note a request that never came to the router."""
    if isinstance(message, Exec | Read | Forward) and (target := target_of(message)) is not None:
        kind, name, _ = target
        origin = message.context.origin
        audit.refused(kind, message.server_name, name, error.code, origin=origin, rule=error.rule)


@contextmanager
def noting_refusals(
    audit: Audit,
    kind: Kind,
    server: str,
    name: str,
    origin: Origin | None,
    *,
    rule_against: Callable[[], str | None] = lambda: None,
) -> Iterator[None]:
    """Note what the block refuses; `rule_against` finds the rule where the error does not say it."""
    try:
        yield
    except CallError as error:
        audit.refused(kind, server, name, error.code, origin=origin, rule=error.rule or rule_against())
        raise
    except (MCPError, MCPXError) as error:
        code, rule = _UNKNOWN.get(kind, "invalid_arguments"), getattr(error, "rule", None) or rule_against()
        audit.refused(kind, server, name, code, origin=origin, rule=rule)
        raise
