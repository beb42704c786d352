"""What inspect says of what waits for approval. Pure.

A model is given the difference only where the change is in force: the words of what is blocked are kept from
it, and shown to programs alone.
"""

from __future__ import annotations

from typing import Final

from mcpx.core.catalog.model import JSON
from mcpx.core.policy.pin_changes import Change
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.text import cut, one_line, shown_server

MAX_SHOWN: Final = 20  # changes for a model
MAX_FOR_PROGRAMS: Final = 200
_MAX_CHARS: Final = 400  # of one change for a model


def said_of(policy: ServerPolicy, tool: str | None = None) -> tuple[JSON, JSON]:
    """What waits of a server, or of one tool: for a model, and for programs; both empty if nothing does.

    `{changed: [...]}`, the last line with the command that approves it, and `{changes: [{kind, tool?,
    difference, blocked, digest?}]}`.
    """
    changes = [each for each in policy.changes() if tool in {None, each.tool}]
    if not changes or policy.pins is None:
        return {}, {}
    lines = [_line(each) for each in changes[:MAX_SHOWN]]
    more = f"{len(changes) - MAX_SHOWN} more changes; " if len(changes) > MAX_SHOWN else ""
    command = policy.pins.command(*([tool] if tool else []))
    model = {"changed": [*lines, f"{more}tell the user: {command} shows and approves that"]}
    return model, {"changes": [each.to_dict() for each in changes[:MAX_FOR_PROGRAMS]]}


def note_on(policy: ServerPolicy) -> str:
    """The sentence about a server of which something waits."""
    if policy.pins is None:
        return ""
    name, command = shown_server(policy.pins.name), policy.pins.command()
    return f"{name} has changed since it was approved: {command} says how"


def _line(change: Change) -> str:
    if change.blocked or change.kind == "pins":
        return f"{change.summary()}; not in force until the user approves it"
    return cut(f"{change.summary()}: {one_line('; '.join(change.difference))}", _MAX_CHARS)
