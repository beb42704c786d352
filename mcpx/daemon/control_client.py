"""Requests to the daemon over its socket, for the command line (see `mcpx.gateway.frontends.control`)."""

from __future__ import annotations

import json
import socket
from typing import Any, Final

from mcpx.daemon.paths import Meeting, connect
from mcpx.errors import ConfigError, MCPXError

QUICK_S: Final = 10.0  # for an answer that the daemon has at hand


class RefusedError(MCPXError):
    """The daemon could not do what it was asked; `told` is its whole answer."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(str(told["error"]))
        self.told = told


def ask(place: Meeting, asked: dict[str, Any], *, within: float | None = QUICK_S) -> dict[str, Any] | None:
    """The daemon's answer, or None where no daemon runs. `within` None is as long as it takes.

    Raises:
        ConfigError: The daemon found its configuration wanting.
        RefusedError: It could not do it.
        MCPXError: It does not answer.
    """
    joined = connect(place)
    if joined is None:
        return None
    with joined:
        joined.settimeout(within)
        try:
            joined.sendall(json.dumps(asked, separators=(",", ":")).encode() + b"\n")
            line = _line(joined)
        except TimeoutError:
            raise MCPXError(f"the daemon does not answer within {within:g} s; see {place.log}") from None
        except OSError as error:
            raise MCPXError(f"the daemon went away: {error.strerror}; see {place.log}") from None
    if not line.endswith(b"\n"):
        raise MCPXError(f"the daemon went away before it answered; see {place.log}")
    told: dict[str, Any] = json.loads(line)
    if told.get("usage"):
        where, _, problem = str(told["error"]).partition(": ")
        raise ConfigError(where, problem)
    if "error" in told:
        raise RefusedError(told)
    return told


def must_ask(place: Meeting, asked: dict[str, Any], *, within: float | None = QUICK_S) -> dict[str, Any]:
    """As `ask`; that no daemon runs is an error too."""
    told = ask(place, asked, within=within)
    if told is None:
        raise MCPXError(f"no daemon serves {place.config}; start one with: mcpx daemon start")
    return told


def _line(joined: socket.socket) -> bytes:
    parts: list[bytes] = []
    while chunk := joined.recv(1 << 16):
        parts.append(chunk)
        if chunk.endswith(b"\n"):
            break
    return b"".join(parts)
