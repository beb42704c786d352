"""The review of a server: for the person who is to approve it, for programs and for models. Pure.

What is agreed to are the forms that were shown, by their digests: what has changed meanwhile goes on waiting.
A model is given the difference only where the change is in force: the words of what is blocked are kept from
it, and shown to programs alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON, present
from mcpx.core.policy.pin_changes import Change, changes_of
from mcpx.core.policy.pin_record import Edit, approved
from mcpx.core.policy.pins import ServerPins
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.text import cut, one_line, shown_server
from mcpx.core.text.nearest import nearest
from mcpx.errors import MCPXError


class Agreed(msgspec.Struct, frozen=True):
    """One thing that a person has agreed to: an entry of what was shown."""

    server: str
    kind: str
    tool: str | None = None
    digest: str | None = None


class NothingToApproveError(MCPXError):
    """There is no such tool, or it cannot be approved alone."""


def review(pins: ServerPins, policy: ServerPolicy, tool: str | None = None) -> list[Change]:
    """List what waits of a server, or of one tool, with whole values.

    A tool that is named and as it was approved is to run without asking from now on; so is one that waits, if
    the policy asks about it.

    Raises:
        NothingToApproveError: The tool is not known, or the server has to be approved as a whole.
    """
    blocks = pins.is_active and pins.blocks
    found = changes_of(pins.record, pins.problem, blocks=blocks, holds_all=pins.holds_all, whole=True)
    found = [each for each in found if each.tool is None or policy.admits_pinned(each.tool)]
    if not pins.is_active:
        found = []
    if tool is None:
        return found
    if pins.problem is not None and pins.is_active:
        raise NothingToApproveError(f"{pins.problem}; approve the server as a whole: {pins.command()}")
    digest = pins.current_digest(tool)
    if digest is None or not policy.admits_pinned(tool):
        raise NothingToApproveError(
            f"{pins.name} has no tool {tool!r}{_nearest(tool, filter(policy.admits_pinned, pins.names()))}"
        )
    named = [change for change in found if change.tool == tool]
    pin = pins.record.waiting.get(tool)
    now = None if pin is None else pin.to_tool(pins.name)
    if pins.is_skill(tool):
        return named
    if not named or (now is not None and policy.asks(now) is not None):
        named.append(Change(kind="always", tool=tool, digest=digest))
    return named


def edit_of(agreed: Iterable[Agreed]) -> Edit:
    """Make the edit of a server's record out of what was agreed to of it."""
    agreed = list(agreed)
    return partial(
        approved,
        forms={each.tool: each.digest for each in agreed if each.tool and each.digest},
        about=next((each.digest for each in agreed if each.kind == "server"), None),
        always=[each.tool for each in agreed if each.kind == "always" and each.tool and each.digest],
    )


def agreed_to(agreed: Iterable[Agreed]) -> dict[str, Any]:
    """`{approved: [{server, kind, tool?}]}`."""
    return {"approved": [present(server=each.server, kind=each.kind, tool=each.tool) for each in agreed]}


def reviewed(pins: ServerPins, changes: Iterable[Change]) -> dict[str, Any]:
    """`{server, started_by, changes}` as plain JSON."""
    shown = [change.to_dict() for change in changes]
    return {"server": pins.name, "started_by": pins.record.started_by, "changes": shown}


def _nearest(name: str, known: Iterable[str]) -> str:
    near = nearest(name, list(known))
    return f"; did you mean {near[0]}?" if near else ""


# --- what inspect says

MAX_SHOWN: Final = 20  # changes for a model
MAX_FOR_PROGRAMS: Final = 200
_MAX_CHARS: Final = 400  # of one change for a model


def said_of(policy: ServerPolicy, tool: str | None = None) -> tuple[JSON, JSON]:
    """Tell a model, and programs, what waits of a server or of one tool; both empty if nothing does.

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
