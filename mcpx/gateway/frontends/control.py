"""Control of the daemon over its socket: one line of JSON in, one out.

A connection that begins with `{"mcpx"` asks one thing and gets one answer:

    {"mcpx": "status"}                                     the state of the daemon and its servers
    {"mcpx": "reload"}                                     read the configuration again
    {"mcpx": "restart", "server": NAME}                    end a server and start it again
    {"mcpx": "stop"}                                       end the daemon; answered before it does
    {"mcpx": "inspect" | "exec" | "resources", ...}        see `mcpx.gateway.frontends.operations`
    {"mcpx": "environment"}                                what it was started with: PATH, for its servers
    {"mcpx": "attach"}                                     from now on this is an MCP client, which knows that
                                                           the daemon lives: nothing is sent to a dying one

A failure is `{"error": TEXT, "usage": BOOL}`, plus `code` and `outcome` of a call. Nothing that a caller
sends ends the daemon, unless it asks for that. A caller that goes away cancels what it asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import anyio
import msgspec

from mcpx.catalog.model import JSON
from mcpx.config import load
from mcpx.core.hub import Hub
from mcpx.core.status import snapshot
from mcpx.daemon.protocol import LIMIT_KEY
from mcpx.errors import CallError, ConfigError, MCPXError
from mcpx.gateway.frontends.operations import Asked, perform
from mcpx.observe.contained import contain
from mcpx.validation.arguments import unreadable
from mcpx.validation.errors import unreadable_arguments
from mcpx.version import __version__
from mcpx.wire.shallow import shallow

STARTING_S: Final = 60.0  # that an inspect, exec or read waits at most for servers that are on their way
OPERATIONS: Final = ("inspect", "exec", "resources")


class Control:
    """Answers control requests. `clients` counts the MCP clients; `config` is the file to reload."""

    def __init__(self, hub: Hub, config: str, clients: Callable[[], int]) -> None:
        self._hub = hub
        self._config = config
        self._clients = clients
        self._started = anyio.current_time()

    async def answer(self, line: bytes) -> tuple[bytes, str]:
        """The line that answers a line, and the request that was carried out: "" if none was.

        Never raises, but when cancelled.
        """
        try:
            asked = _read(line)
            return _line(await self._obey(asked)), asked.mcpx
        except (msgspec.DecodeError, RecursionError) as error:
            told: JSON = _not_read(line, error)
        except CallError as error:
            told = error.to_dict()
        except MCPXError as error:
            told = {"error": str(error), "usage": isinstance(error, ConfigError)}
        except Exception as error:  # noqa: BLE001 - the boundary to a caller that is not ours to judge
            contain(error, "control")
            told = {"error": f"MCPX failed ({type(error).__name__}); its log says more"}
        return _line(told), ""

    async def _obey(self, asked: Asked) -> JSON:
        match asked.mcpx:
            case "status":
                status = snapshot(self._hub, clients=self._clients(), started=self._started)
                told: JSON = msgspec.to_builtins(status)
                return told
            case "reload":
                reloaded: JSON = msgspec.to_builtins(await self._hub.reload(load(self._config)))
                return reloaded
            case "restart":
                info = await self._hub.restart(asked.server or "")
                return {"restarted": info.name, "state": info.describe_state()}
            case "stop":
                return {"stopping": os.getpid()}
            case "environment":
                return {"path": os.environ.get("PATH", "")}
            case "attach":
                limit = self._hub.config.max_message_bytes
                return {"attached": os.getpid(), "version": __version__, LIMIT_KEY: limit}
            case method if method in OPERATIONS:
                await self._hub.settled(STARTING_S)
                return await perform(self._hub, asked)
        return {"error": f"no such control request: {asked.mcpx}", "usage": True}


def _read(line: bytes) -> Asked:
    """The request. Raises msgspec.DecodeError, or RecursionError for one that is nested too deeply."""
    return msgspec.json.decode(line, type=Asked)


class _Named(msgspec.Struct, frozen=True):
    """What a request names, without its arguments."""

    mcpx: str
    server: str = ""
    tool: str = ""


def _not_read(line: bytes, error: Exception) -> JSON:
    """The answer to a line that cannot be read: as a call's, where only its arguments cannot."""
    try:
        named = msgspec.json.decode(shallow(line) or b"", type=_Named)
    except msgspec.DecodeError:
        return {"error": f"not a control request: {error}", "usage": True}
    if named.mcpx != "exec":
        return {"error": f"not a control request: {error}", "usage": True}
    return unreadable_arguments(named.server, named.tool, unreadable(error)).to_dict()


def _line(told: JSON) -> bytes:
    return msgspec.json.encode(told) + b"\n"
