"""Calls that a meter is told of, and nobody makes."""

from __future__ import annotations

from mcpx.core.events.records import Record
from mcpx.core.events.stats import INSPECT, RESOURCES
from mcpx.core.protocol.context import Origin

ENDS = {
    "ok": ("ok", None),
    "failed": ("tool_error", None),
    "refused": ("not_sent", "unknown_tool"),
    "cancelled": ("unknown", "cancelled"),
}


def begun(meter, *, client="c", server="git", tool="log"):
    """A call that runs."""
    kind = "resource" if tool == RESOURCES else "tool"
    target = Origin(transport="socket", client=client, name=client), server, kind, tool
    entry = Record(1, target, b"", lambda _entry: None)
    meter.begun(entry)
    return entry


def ended(meter, entry, end="ok"):
    """The call has ended so."""
    entry.ending = *ENDS[end], 0
    meter.ended(entry)


def called(meter, *, client="c", server="git", tool="log", end="ok"):
    """A call that has ended; a search is none."""
    if tool != INSPECT:
        ended(meter, begun(meter, client=client, server=server, tool=tool), end)
