"""Control of the daemon over its socket: one line of JSON in, one out.

A connection that begins with `{"mcpx"` asks one thing and gets one answer:

    {"mcpx": "status"}                                     the state of the daemon and its servers
    {"mcpx": "stats"}                                      the tokens that clients have spent and saved
    {"mcpx": "reload"}                                     read the configuration again
    {"mcpx": "restart", "server": NAME}                    end a server and start it again
    {"mcpx": "stop"}                                       end the daemon; answered before it does
    {"mcpx": "inspect", "server"?, "tool"?, "query"?}      {"servers": [...]} without any of them
    {"mcpx": "exec", "server", "tool", "arguments"?, "words"?}
    {"mcpx": "resources", "server"?, "uri"?}               {"resources": {server: [...]}} without a URI
    {"mcpx": "environment"}                                what it was started with: PATH, for its servers
    {"mcpx": "attach", "expose"?, "server"?, "only"?, "profile"?}
                                                           from now on this is an MCP client at that door
                                                           (`mcpx.door`), which knows that the daemon lives:
                                                           nothing is sent to a dying one

With "profile" or "only", inspect, exec and resources see what is shown at such a door, and nothing else.

The "tool" of inspect is a name or several. "words" are the arguments of a command line as text: they are
tried where "arguments", in which each of them is JSON if it can be, does not fit.

The three tools answer `{"shaped": {content, structuredContent, isError}}`. Where no daemon runs, the command
line has a hub of its own perform them, with the same response (`perform`).

A failure is `{"error": TEXT, "usage": BOOL}`, plus `code` and `outcome` of a call. Nothing that a caller
sends ends the daemon, unless it asks for that. A caller that goes away cancels what it asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import anyio
import msgspec

from mcpx.catalog.model import JSON
from mcpx.core.calls import ExecutionResult
from mcpx.core.hub import Hub
from mcpx.core.hub_view import HubView
from mcpx.core.profiles import check_door
from mcpx.core.stats import report
from mcpx.core.status import snapshot
from mcpx.daemon.paths import DaemonPaths
from mcpx.daemon.protocol import LIMIT_KEY
from mcpx.door import Door, Expose
from mcpx.errors import CallError, Code, ConfigError, MCPXError
from mcpx.observe.contained import contain
from mcpx.rendering.results import ToolResult
from mcpx.upstream.context import ClientId
from mcpx.validation.arguments import unreadable
from mcpx.validation.errors import unreadable_arguments
from mcpx.version import __version__
from mcpx.wire.mending import shallow

STARTUP_TIMEOUT_S: Final = 60.0  # that an inspect, exec or read waits for servers that are starting
OPERATIONS: Final = ("inspect", "exec", "resources")
LOOKS: Final = frozenset({"status", "stats", "environment"})
"""Requests that look at the daemon, and use nothing of it."""


class ControlRequest(msgspec.Struct, frozen=True):
    """One request. `mcpx` names the operation; which other fields count depends on it."""

    mcpx: str
    server: str | None = None
    tool: str | list[str] | None = None
    query: str = ""
    uri: str | None = None
    arguments: Any = None
    words: dict[str, str] | None = None
    expose: Expose | None = None
    only: tuple[str, ...] | None = None
    profile: str | None = None

    @property
    def door(self) -> Door:
        """The door that it names: for `attach` as it is, for others to look through."""
        server = self.server if self.mcpx == "attach" else None
        return Door(self.expose, server, self.only, self.profile)


class Control:
    """Answers control requests. `clients` counts the MCP clients; `paths` are the files of the daemon."""

    def __init__(self, hub: Hub, clients: Callable[[], int], paths: DaemonPaths | None = None) -> None:
        self._hub = hub
        self._clients = clients
        self._paths = paths
        self._started = anyio.current_time()

    async def answer(self, line: bytes) -> tuple[bytes, ControlRequest | None]:
        """The response line to a request line, and the request; None where it is unreadable, or has failed.

        Never raises, unless cancelled. `stop` and `attach` are for the frontend to carry out.
        """
        try:
            request = msgspec.json.decode(line, type=ControlRequest)
        except (msgspec.DecodeError, RecursionError) as error:
            return _line(_unreadable(line, error)), None
        response = await self._response(request)
        return _line(response), None if "error" in response else request

    async def _response(self, request: ControlRequest) -> JSON:
        try:
            return await self._handle(request)
        except CallError as error:
            return error.to_dict()
        except MCPXError as error:
            return {"error": str(error), "usage": isinstance(error, ConfigError)}
        except Exception as error:  # noqa: BLE001 - the boundary: one request must not end the connection or the daemon
            contain(error, "control")
            return {"error": f"MCPX failed ({type(error).__name__}); its log says more"}

    async def _handle(self, request: ControlRequest) -> JSON:
        match request.mcpx:
            case "status":
                status = snapshot(self._hub, clients=self._clients(), started=self._started)
                shown: JSON = msgspec.to_builtins(status)
                shown["daemon"] |= self._files()
                return shown
            case "stats":
                return report(self._hub.meter.all_time(), self._hub.meter.since_start())
            case "reload":
                plan: JSON = msgspec.to_builtins(await self._hub.file.reload())
                return plan
            case "restart":
                info = await self._hub.restart(request.server or "")
                return {"restarted": info.name, "state": info.describe_state()}
            case "stop":
                return {"stopping": os.getpid()}
            case "environment":
                return {"path": os.environ.get("PATH", "")}
            case "attach":
                if request.server is not None:
                    self._hub.registry.upstream(request.server)  # else an error, with the nearest
                check_door(request.door, self._hub.config)
                limit = self._hub.config.max_message_bytes
                return {"attached": os.getpid(), "version": __version__, LIMIT_KEY: limit}
            case method if method in OPERATIONS:
                await self._hub.listed(STARTUP_TIMEOUT_S)
                return await perform(self._hub, request)
        return {"error": f"no such control request: {request.mcpx}", "usage": True}

    def _files(self) -> dict[str, str]:
        """`folder` and `log` of `DaemonStatus`. Whoever asks may have other folders in its environment."""
        if self._paths is None:
            return {}
        files = {"folder": str(self._paths.folder)}
        with suppress(OSError):  # there is no log, or it was removed
            if os.path.samestat(os.fstat(2), self._paths.log.stat()):
                files["log"] = str(self._paths.log)
        return files


class _Named(msgspec.Struct, frozen=True):
    """What a request names, without its arguments."""

    mcpx: str
    server: str = ""
    tool: str = ""


def _unreadable(line: bytes, error: Exception) -> JSON:
    """The response to a line that cannot be read: that of a call, where only its arguments cannot."""
    try:
        named = msgspec.json.decode(shallow(line) or b"", type=_Named)
    except msgspec.DecodeError:
        return {"error": f"not a control request: {error}", "usage": True}
    if named.mcpx != "exec":
        return {"error": f"not a control request: {error}", "usage": True}
    return unreadable_arguments(named.server, named.tool, unreadable(error)).to_dict()


def _line(response: JSON) -> bytes:
    return msgspec.json.encode(response) + b"\n"


# --- the three tools


async def perform(hub: Hub, request: ControlRequest) -> JSON:
    """The response to `inspect`, `exec` or `resources`. The command line is a client for as long as it waits.

    Raises:
        CallError: As the tool of that name.
        DoorError: The request names a profile or servers that there are not.
    """
    check_door(request.door, hub.config)
    client = ClientId()
    try:
        return await _perform(HubView(hub, request.door), request, client)
    finally:
        hub.client_left(client)


async def _perform(hub: HubView, request: ControlRequest, client: ClientId) -> JSON:
    match request:
        case ControlRequest(mcpx="inspect", server=None, tool=None, query=""):
            # "described" is the state as a person reads it
            return {"servers": [_server(hub, name) for name in hub.upstreams]}
        case ControlRequest(mcpx="inspect"):
            return _shaped(await hub.calls.inspect(request.server or "", request.tool, query=request.query))
        case ControlRequest(mcpx="exec"):
            return _shaped((await _exec(hub, request, client)).shaped)
        case ControlRequest(mcpx="resources", server=str(server), uri=str(uri)):
            return _shaped(await hub.calls.read(server, uri, client=client))
        case _:
            return {"resources": _resources(hub, request.server)}


async def _exec(hub: HubView, request: ControlRequest, client: ClientId) -> ExecutionResult:
    """Run a tool; with the words as they are, where they do not fit as JSON."""
    names = request.server or "", request.tool if isinstance(request.tool, str) else ""
    try:
        return await hub.calls.exec(*names, request.arguments, client=client)
    except CallError as error:
        if error.code is not Code.INVALID_ARGUMENTS or not request.words:
            raise
        try:
            return await hub.calls.exec(*names, request.words, client=client)
        except CallError as second:
            raise (error if second.code is Code.INVALID_ARGUMENTS else second) from None


def _server(hub: HubView, name: str) -> JSON:
    info = hub.upstreams[name].info()
    described = info.describe_state() + ("; from last time" if info.from_last_time() else "")
    return {**info.to_dict(), "described": described}


def _resources(hub: HubView, server: str | None) -> JSON:
    found = hub.registry.list_all_resources()
    if server is not None:
        hub.registry.upstream(server)  # an unknown name is an error, with the nearest ones
        found = {server: hub.registry.list_resources(server)}
    return {name: [item.to_dict() for item in items] for name, items in found.items()}


def _shaped(shaped: ToolResult) -> JSON:
    shown = {
        "content": shaped.content,
        "structuredContent": shaped.structured_content,
        "isError": shaped.is_error,
    }
    return {"shaped": shown}
