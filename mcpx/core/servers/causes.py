"""Causes of failed sessions: why an incarnation of a server ended, and if trying again can help. Pure.

Failures arrive wrapped in exception groups, so their leaves are examined: exceptions of the SDK, the
transports and the system are translated here, at the boundary, and nothing matches on error texts.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Final

from msgspec.structs import replace

from mcpx.core.config import Era, Http, PeerConfig, ServerConfig, Sse, Stdio, redactor_of
from mcpx.core.running import in_force
from mcpx.core.servers.call_errors import NotMCP, error_of_mcpx
from mcpx.core.servers.transport.exchange import ClientRefused, HttpFailure, NotAuthorized, NoTokenNow
from mcpx.core.servers.transport.link import ConnectionLost
from mcpx.core.telemetry.contained import contain
from mcpx.core.text import cut, paragraphs
from mcpx.core.wire.envelope import CONNECTION_CLOSED, MCPError
from mcpx.core.wire.outgoing import MalformedMessage, ResponseTooLarge
from mcpx.core.wire.unreachable import unreachable
from mcpx.errors import leaves
from mcpx.paths import config_hint
from supervisors import Cause

CONNECTION_CLOSED_TEXT: Final = "Connection closed"  # the SDK's
MAX_CAUSE_CHARS: Final = 1400  # a reason, and 1,000 of standard error
MAX_PATH_CHARS: Final = 600  # of a PATH that was searched
_VARYING: Final = re.compile(r"\w*\d\w*")  # times, ports and pids, which differ in the same complaint


class NoAnswer(Exception):
    """The server did not finish its handshake and first listing in time.

    `worked_s` is how long it was given because it worked, where that was longer than `connect_timeout`.
    """

    def __init__(self, stderr: str = "", *, worked_s: float | None = None) -> None:
        super().__init__(stderr)
        self.worked_s = worked_s


class EraRefused(Exception):
    """The server does not agree to the only era of the protocol that it was asked in, as `error` says."""

    def __init__(self, era: Era, error: Exception) -> None:
        super().__init__(f"the server does not speak the {era} era")
        self.era = era
        self.error = error


class BadListing(Exception):
    """The server's lists cannot be used."""


class Unhealthy(Exception):
    """The server is there, but does not answer MCP."""


def cause_of(error: Exception, config: ServerConfig) -> Cause:
    """Explain why an incarnation of a server ended: a bounded and clean text without its configured secrets.

    Never raises: the supervisor calls it.
    """
    try:
        cause = _explained(error, config)
        text = cut(redactor_of(config)(cause.text), MAX_CAUSE_CHARS)
        is_away = isinstance(config.transport, Http | Sse) and config.transport.program is None
        is_passing = cause.retryable and not cause.held and is_away
        return replace(cause, text=paragraphs(text), passing=is_passing)  # it may quote the server
    except Exception as odd:  # noqa: BLE001 - what a server made the SDK raise may be as odd as the server
        contain(odd, "cause", server=config.name)
        return Cause(type(error).__name__, error=error)


def _explained(error: Exception, config: ServerConfig) -> Cause:
    found = list(leaves(error))
    for explain in (
        _of_mcpx,
        _of_other_era,
        _lost,
        _without_response,
        _not_started,
        _no_answer,
        _refused,
        _not_mcp,
    ):
        for leaf in found:
            if (cause := explain(leaf, config)) is not None:
                return cause
    leaf = found[0]
    return Cause(f"{type(leaf).__name__}: {leaf}", error=error)


def _of_mcpx(leaf: BaseException, config: ServerConfig) -> Cause | None:
    """Quote another MCPX on the server behind it."""
    said = leaf.error if isinstance(leaf, EraRefused) else leaf
    if not config.is_remote_mcpx or not isinstance(said, MCPError):
        return None
    error = error_of_mcpx(said, server=config.name, tool=None, redact=redactor_of(config))
    return None if error is None else Cause(f"{config.peer or 'its node'}: {error}", error=said)


def _of_other_era(leaf: BaseException, config: ServerConfig) -> Cause | None:
    if not isinstance(leaf, EraRefused):
        return None
    cause = _explained(leaf.error, config)
    own_choice = isinstance(config, PeerConfig) or config.is_remote_mcpx  # and no MCPX lacks an era
    if cause.held or (own_choice and isinstance(cause.error, ConnectionLost)):
        return cause
    pinned = "" if config.era == "auto" else ', and its setting "era" allows no other'
    return Cause(f"{leaf}{pinned}: {cause.text}", error=leaf)


def _without_response(leaf: BaseException, config: ServerConfig) -> Cause | None:
    """The server is not reached over HTTP, or not without a token."""
    if not isinstance(config.transport, Http | Sse):
        return None
    if isinstance(leaf, NotAuthorized):
        for_now = isinstance(leaf, NoTokenNow)
        held = not for_now and not isinstance(leaf, ClientRefused)
        return Cause(str(leaf), retryable=for_now, held=held, error=leaf)
    if isinstance(leaf, HttpFailure):
        return Cause(unreachable(config.transport.url, leaf), error=leaf)
    return None


def _no_answer(leaf: BaseException, config: ServerConfig) -> Cause | None:
    if isinstance(leaf, NoAnswer):
        text = f"no answer to the handshake within {config.call_limits.connect_timeout:g} s"
        if leaf.worked_s is not None:
            text = f"no answer to the handshake within {leaf.worked_s:.0f} s, in which it worked at first"
        return Cause(f"{text}; its last words: {leaf}" if str(leaf) else text, error=leaf)
    unusable = isinstance(leaf, BadListing | MalformedMessage | ResponseTooLarge)
    return Cause(str(leaf), error=leaf) if unusable else None


def _refused(leaf: BaseException, _config: ServerConfig) -> Cause | None:
    if not isinstance(leaf, MCPError):
        return None
    if (
        leaf.code == CONNECTION_CLOSED and leaf.message == CONNECTION_CLOSED_TEXT
    ):  # many servers use that code for anything
        return Cause("the connection was closed during the handshake", error=leaf)
    return Cause(f"the server refused the session: {leaf.message} ({leaf.code})", error=leaf)


def _not_mcp(leaf: BaseException, _config: ServerConfig) -> Cause | None:
    return Cause(str(leaf), error=leaf) if isinstance(leaf, NotMCP) else None


# --- of a server's process


def _lost(leaf: BaseException, config: ServerConfig) -> Cause | None:
    """The connection has ended: how, and the last words of the process."""
    if not isinstance(leaf, ConnectionLost):
        return None
    text, program = str(leaf), config.transport.program
    space = program.limits.address_space if program is not None else None
    if leaf.lacks_command and program is not None and space is None:
        text += f": a command was not found on {_path(program)}"
        if isinstance(config, PeerConfig) or config.peer is not None:
            text += ", or there: ssh finds few programs, so give the whole path of mcpx on the other machine"
    if space is not None:  # a process that lacks memory ends in any way that it likes, and may not say why
        text += f"; its limits.address_space is {space:,} bytes"
    if leaf.stderr:
        text += f"; its last words: {leaf.stderr}"
    return Cause(
        text, retryable=leaf.retryable, held=leaf.held, last_words=_VARYING.sub("#", leaf.stderr), error=leaf
    )


def _not_started(leaf: BaseException, config: ServerConfig) -> Cause | None:
    """The system has not started the command."""
    program = config.transport.program
    if not isinstance(leaf, OSError) or program is None:
        return None
    command, cwd = program.command, program.cwd
    if cwd is not None and leaf.filename == cwd:
        return Cause(f"the working folder {cwd} cannot be used: {leaf.strerror}", retryable=False, error=leaf)
    if isinstance(leaf, FileNotFoundError):
        text = f"command not found: {command}{_where_it_was_sought(program, config)}"
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
