"""Why a server's process could not be started, or was lost, in words that say what to do. Pure.

Two of the explanations of `mcpx.core.servers.errors`: each takes a leaf of the failure, and gives None for
what is not its own.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Final

from mcpx.core.config import PeerConfig, ServerConfig, Stdio
from mcpx.core.running import in_force
from mcpx.core.servers.transport.loss import ConnectionLost
from mcpx.core.text import cut
from mcpx.paths import config_hint
from supervisors import Cause

_VARYING: Final = re.compile(r"\w*\d\w*")  # times, ports and pids, which differ in the same complaint
MAX_PATH_CHARS: Final = 600  # of a PATH that was searched


def lost(leaf: BaseException, config: ServerConfig) -> Cause | None:
    """The connection has ended: how, and the last words of the process."""
    if not isinstance(leaf, ConnectionLost):
        return None
    text, transport = str(leaf), config.transport
    space = transport.limits.address_space if isinstance(transport, Stdio) else None
    if leaf.lacks_command and isinstance(transport, Stdio) and space is None:
        text += f": a command was not found on {_path(transport)}"
        if isinstance(config, PeerConfig) or config.peer is not None:
            text += ", or there: ssh finds few programs, so give the whole path of mcpx on the other machine"
    if space is not None:  # a process that lacks memory ends in any way that it likes, and may not say why
        text += f"; its limits.address_space is {space:,} bytes"
    if leaf.stderr:
        text += f"; its last words: {leaf.stderr}"
    return Cause(
        text, retryable=leaf.retryable, held=leaf.held, last_words=_VARYING.sub("#", leaf.stderr), error=leaf
    )


def not_started(leaf: BaseException, config: ServerConfig) -> Cause | None:
    """The system has not started the command."""
    if not isinstance(leaf, OSError) or not isinstance(config.transport, Stdio):
        return None
    command, cwd = config.transport.command, config.transport.cwd
    if cwd is not None and leaf.filename == cwd:
        return Cause(f"the working folder {cwd} cannot be used: {leaf.strerror}", retryable=False, error=leaf)
    if isinstance(leaf, FileNotFoundError):
        text = f"command not found: {command}{_where_it_was_sought(config.transport, config)}"
        return Cause(text, retryable=False, error=leaf)
    if isinstance(leaf, PermissionError):
        return Cause(f"no permission to run {command}", retryable=False, error=leaf)
    if leaf.strerror:
        return Cause(f"cannot run {command}: {leaf.strerror}", error=leaf)
    return None


def _where_it_was_sought(stdio: Stdio, config: ServerConfig) -> str:
    """The PATH that was searched for a command, and what to do; of a path, whether it is there."""
    environment = in_force()
    if " " in stdio.command.strip():
        return '; if it is a whole command line, the words behind the first belong into "args"'
    if os.sep in stdio.command:
        is_there = environment.find(stdio.command, folder=stdio.cwd) is not None
        return "; it is there, but the interpreter in its first line is not" if is_there else ""
    option = config_hint(config.source, {}) if config.source else ""  # who reads it has another environment
    return (
        f". Searched: {_path(stdio)}. Give the whole path of the command, or add its folder to the PATH that"
        f" your login shell sets; then run: mcpx restart {shlex.quote(config.name)}{option}"
    )


def _path(stdio: Stdio) -> str:
    """The PATH of a server, and where it came from."""
    environment, given = in_force(), stdio.env.get("PATH")
    path, source = (environment.path, environment.source) if given is None else (given, "its own env")
    return f"{cut(path, MAX_PATH_CHARS)} (PATH of {source})"
