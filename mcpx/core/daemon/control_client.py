"""Requests of the command line to the daemon over its socket (`mcpx.core.gateway.frontends.control`)."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from typing import Any, Final

from mcpx.core.store.paths import DaemonPaths, connect
from mcpx.core.system.endpoint import PROGRESS_PREFIX
from mcpx.core.system.input import readable
from mcpx.errors import ConfigError, MCPXError
from mcpx.paths import config_hint

REQUEST_TIMEOUT_S: Final = 10.0  # for what the daemon can answer at once
PROGRESS_INTERVAL_S: Final = 1.0  # between calls of `on_progress`


class RefusedError(MCPXError):
    """The daemon could not carry out a request; `response` is its whole response."""

    def __init__(self, response: dict[str, Any]) -> None:
        super().__init__(str(response["error"]))
        self.response = response


def request(
    paths: DaemonPaths,
    message: dict[str, Any],
    *,
    within: float | None = REQUEST_TIMEOUT_S,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any] | None:
    """Send a control request; the response, or None if no daemon runs. `within` None: no timeout.

    `on_progress` is called with what comes before the response, and at least every second with an empty
    object; what it raises ends the request.

    Raises:
        ConfigError: The daemon cannot use its configuration.
        RefusedError: It could not carry out the request.
        MCPXError: It does not respond.
    """
    connection = connect(paths)
    if connection is None:
        return None
    with connection:
        connection.settimeout(within)
        try:
            connection.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")
            line = _response(connection, on_progress)
        except TimeoutError:
            text = f"the daemon does not answer within {within:g} s (log: {paths.log}); to start it anew"
            raise MCPXError(f"{text}: mcpx daemon restart{config_hint(paths.config)}") from None
        except OSError as error:
            raise MCPXError(f"the daemon went away: {error.strerror}; {_why(paths)}") from None
    if not line.endswith(b"\n"):
        raise MCPXError(f"the daemon went away before it answered; {_why(paths)}")
    response: dict[str, Any] = json.loads(line)
    if response.get("usage"):
        where, _, problem = str(response["error"]).partition(": ")
        raise ConfigError(where, problem)
    if "error" in response:
        raise RefusedError(response)
    return response


def _why(paths: DaemonPaths) -> str:
    return f"its log: mcpx daemon logs{config_hint(paths.config)}"


def request_or_fail(
    paths: DaemonPaths, message: dict[str, Any], *, within: float | None = REQUEST_TIMEOUT_S
) -> dict[str, Any]:
    """Send a control request as `request` does, to a daemon that has to run.

    Raises:
        MCPXError: As `request`, or no daemon runs.
    """
    response = request(paths, message, within=within)
    if response is None:
        option = config_hint(paths.config)
        then = f"; start one with: mcpx daemon start{option}"
        if not os.path.exists(paths.config):
            then = f", and there is no such file; to begin: mcpx setup{option}"
        raise MCPXError(f"no daemon serves {paths.config}{then}")
    return response


def _response(
    connection: socket.socket, on_progress: Callable[[dict[str, Any]], None] | None = None
) -> bytes:
    """The response line, behind those that report progress."""
    received = bytearray()
    while not received.endswith(b"\n"):
        while on_progress and not readable([connection], PROGRESS_INTERVAL_S):
            on_progress({})
        if not (chunk := connection.recv(1 << 16)):
            break
        received += chunk
        while received.startswith(PROGRESS_PREFIX) and (end := received.find(b"\n") + 1):
            if on_progress:
                on_progress(json.loads(received[:end]))
            del received[:end]
    return bytes(received)
