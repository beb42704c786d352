"""The record of requests that never come to the pipeline, which records all others by itself.

`noting_refusals` is for blocks in which names are looked up and arguments are read. The requests at a
transparent endpoint are those of `mcpx.core.gateway.transparent.requests`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from mcpx.core.events.records import Kind, Records
from mcpx.core.protocol.context import Origin
from mcpx.core.protocol.messages import Exec, Read, Request
from mcpx.core.protocol.requests import Complete, GetPrompt
from mcpx.core.servers.admission import reference_in
from mcpx.core.wire.envelope import MCPError
from mcpx.errors import CallError, MCPXError

_NOT_WRITTEN: Final = "tasks/get"  # a client asks for a task again and again until it has ended
_UNKNOWN: Final[dict[Kind, str]] = {
    "tool": "unknown_tool",
    "resource": "unknown_resource",
    "prompt": "unknown_prompt",
    "completion": "unknown_prompt",
}
"""The codes of what the protocol answers with an error of its own, where there is no such thing."""


Target = tuple[Kind, str, msgspec.Raw | bytes]
"""What is asked for, its name, and the arguments."""


def target_of(request: Request) -> Target | None:
    """Return what a request is for; None for one that is not recorded."""
    if isinstance(request, Exec):
        return "tool", request.tool_name, request.arguments
    if isinstance(request, Read):
        return "resource", request.uri, b""
    forwarded = request.request
    if isinstance(forwarded, GetPrompt):
        return "prompt", forwarded.name, forwarded.arguments
    if isinstance(forwarded, Complete):
        about = reference_in(forwarded.ref)
        return "completion", (about.name or about.uri or "") if about else "", b""
    return None if forwarded.method == _NOT_WRITTEN else ("task", forwarded.task_id, b"")


def note_refused(records: Records, request: Request, error: CallError) -> None:
    """Note a request that was refused on its way to the pipeline."""
    if (target := target_of(request)) is not None:
        kind, name, _ = target
        origin = request.context.origin
        records.refused(kind, request.server_name, name, error.code, origin=origin, rule=error.rule)


def note_question(records: Records, request: Request, *, is_answered: bool) -> None:
    """Note that a refusal does not end its call: a person is asked, or has done what it takes."""
    if (target := target_of(request)) is not None:
        kind, name, _ = target
        about = kind, request.server_name, name, request.context.origin
        records.asked(*about)
        if is_answered:
            records.goes_on(*about)


@contextmanager
def noting_refusals(
    records: Records,
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
        records.refused(kind, server, name, error.code, origin=origin, rule=error.rule or rule_against())
        raise
    except (MCPError, MCPXError) as error:
        code, rule = _UNKNOWN.get(kind, "invalid_arguments"), getattr(error, "rule", None) or rule_against()
        records.refused(kind, server, name, code, origin=origin, rule=rule)
        raise
