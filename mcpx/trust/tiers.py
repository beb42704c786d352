"""Which tools the query tool runs, and what one that it does not run is refused with. Pure."""

from __future__ import annotations

from mcpx.catalog.model import ToolInfo
from mcpx.errors import CallError, Code
from mcpx.text import shown_name


def is_read_only(tool: ToolInfo) -> bool:
    """Whether the tool, in the form shown, says that it changes nothing."""
    hints = tool.annotations or {}
    return hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True


def not_read_only(tool: ToolInfo) -> CallError:
    """The error for a call of a tool by the query tool, which does not run it."""
    name = f"{shown_name(tool.name)} of {shown_name(tool.server_name)}"
    text = (
        f"{name} is not read-only, and query runs no other; nothing was sent."
        " Call it with exec(server_name, tool_name, arguments)"
    )
    return CallError(Code.INVALID_ARGUMENTS, text, server=tool.server_name, tool=tool.name)
