"""The error of a call that a pin has stopped, and the command that helps. Pure."""

from __future__ import annotations

import shlex

from mcpx.core.config import ServerConfig
from mcpx.errors import CallError, Code
from mcpx.paths import config_hint


def approve_command(config: ServerConfig, *tool: str) -> str:
    """The command that approves what waits of the server, or of one tool."""
    words = map(shlex.quote, ("mcpx", "approve", config.name, *tool))
    return " ".join(words) + (config_hint(config.source) if config.source else "")


def refused(config: ServerConfig, name: str, why: str, *, whole: bool) -> CallError:
    """Nothing was sent because of a tool, or of the `whole` server."""
    server, command = config.name, approve_command(config, *([] if whole else [name]))
    text = f"{server}.{name} is not run: {why}; nothing was sent. Tell the user: {command} shows the change"
    details = {"rule": f"pin: {config.pin}", "approve": command}
    return CallError(Code.NOT_APPROVED, text, server=server, tool=name, details=details)
