"""Control of the daemon over its socket: one line of JSON in, one out.

A connection that begins with `{"mcpx"` asks one thing and gets one answer:

    {"mcpx": "status"}                                     the state of the daemon and its servers
    {"mcpx": "stats"}                                      the tokens that clients have spent and saved
    {"mcpx": "reload"}                                     read the configuration again
    {"mcpx": "restart", "server": NAME}                    end a server and start it again
    {"mcpx": "stop"}                                       end the daemon; answered before it does
    {"mcpx": "inspect", "server"?, "tool"?, "query"?}      {"servers": [...]} without any of them
    {"mcpx": "exec", "server", "tool", "arguments"?, "pairs"?, "progress"?, "unshaped"?}
    {"mcpx": "resources", "server"?, "uri"?}               {"resources": {server: [...]}} without a URI
    {"mcpx": "environment"}                                what servers are started with: PATH, its source
    {"mcpx": "attach", "expose"?, "server"?, "only"?, "profile"?}
                                                           from now on this is an MCP client at that door
                                                           (`mcpx.door`), which knows that the daemon lives:
                                                           nothing is sent to a dying one

With "profile" or "only", inspect, exec and resources see what is shown at such a door, and nothing else.

The "tool" of inspect is a name or several. "pairs" are the `key=value` words of a command line as text: the
schema says what they are (`mcpx.validation.words`), and what "arguments" has of these keys does not count.
With "progress" the response may follow on lines `{"progress", "total", "message"}`; "unshaped" is for the
result as the server gave it.

The three tools answer `{"shaped": {content, structuredContent, isError}}`. Where no daemon runs, the command
line has a hub of its own perform them, with the same response (`perform`).

A failure is `{"error": TEXT, "usage": BOOL}`, plus `code` and `outcome` of a call. Nothing that a caller
sends ends the daemon, unless it asks for that. A caller that goes away cancels what it asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import anyio
import msgspec

from mcpx.catalog.model import JSON
from mcpx.core.hub import Hub
from mcpx.core.hub_view import HubView
from mcpx.core.profiles import check_door
from mcpx.core.stats import report
from mcpx.core.status import snapshot
from mcpx.daemon.protocol import LIMIT_KEY
from mcpx.door import Door, Expose
from mcpx.environment import in_force
from mcpx.errors import CallError, ConfigError, MCPXError
from mcpx.observe.contained import contain
from mcpx.rendering.results import ToolResult
from mcpx.upstream.context import ClientId
from mcpx.validation.arguments import unreadable
from mcpx.validation.errors import invalid_arguments, unreadable_arguments
from mcpx.validation.words import arguments_of, misspelt, top_level
from mcpx.version import __version__
from mcpx.wire.mending import shallow

STARTUP_TIMEOUT_S: Final = 60.0  # that an inspect, exec or read waits for servers that are starting
OPERATIONS: Final = ("inspect", "exec", "resources")
LOOKS: Final = frozenset({"status", "stats", "environment"})
"""Requests that look at the daemon, and use nothing of it."""


WriteLine = Callable[[bytes], None]
"""Takes a line that the caller may be sent; one that it does not read may be dropped. Must not raise."""
ReportStep = Callable[[JSON], None]
"""Takes what a call has done so far: `{"progress", "total", "message"}`. Must not raise."""


class ControlRequest(msgspec.Struct, frozen=True):
    """One request. `mcpx` names the operation; which other fields count depends on it."""

    mcpx: str
    server: str | None = None
    tool: str | list[str] | None = None
    query: str = ""
    uri: str | None = None
    arguments: Any = None
    pairs: list[tuple[str, str]] | None = None
    progress: bool = False
    unshaped: bool = False
    expose: Expose | None = None
    only: tuple[str, ...] | None = None
    profile: str | None = None

    @property
    def door(self) -> Door:
        """The door that it names: for `attach` as it is, for others to look through."""
        server = self.server if self.mcpx == "attach" else None
        return Door(self.expose, server, self.only, self.profile)


class Control:
    """Answers control requests. `clients` counts the MCP clients."""

    def __init__(self, hub: Hub, clients: Callable[[], int]) -> None:
        self._hub = hub
        self._clients = clients
        self._started = anyio.current_time()

    async def answer(
        self, line: bytes, write: WriteLine = lambda _line: None
    ) -> tuple[bytes, ControlRequest | None]:
        """The response line to a request line, and the request; None where it is unreadable, or has failed.

        `write` takes the lines before the response, if the request wants some. Never raises, unless
        cancelled. `stop` and `attach` are for the frontend to carry out.
        """
        try:
            request = msgspec.json.decode(line, type=ControlRequest)
        except (msgspec.DecodeError, RecursionError) as error:
            return _line(_unreadable(line, error)), None
        response = await self._response(request, write)
        return _line(response), None if "error" in response else request

    async def _response(self, request: ControlRequest, write: WriteLine) -> JSON:
        try:
            return await self._handle(request, write)
        except CallError as error:
            return error.to_dict()
        except MCPXError as error:
            return {"error": str(error), "usage": isinstance(error, ConfigError)}
        except Exception as error:  # noqa: BLE001 - the boundary: one request must not end the connection or the daemon
            contain(error, "control")
            return {"error": f"MCPX failed ({type(error).__name__}); its log says more"}

    async def _handle(self, request: ControlRequest, write: WriteLine) -> JSON:
        match request.mcpx:
            case "status":
                status = snapshot(self._hub, clients=self._clients(), started=self._started)
                shown: JSON = msgspec.to_builtins(status)
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
                environment = in_force()
                return {"path": environment.path, "source": environment.source}
            case "attach":
                if request.server is not None:
                    self._hub.registry.upstream(request.server)  # else an error, with the nearest
                check_door(request.door, self._hub.config)
                limit = self._hub.config.max_message_bytes
                return {"attached": os.getpid(), "version": __version__, LIMIT_KEY: limit}
            case method if method in OPERATIONS:
                await self._hub.listed(STARTUP_TIMEOUT_S)
                return await perform(self._hub, request, lambda step: write(_line(step)))
        return {"error": f"no such control request: {request.mcpx}", "usage": True}


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


async def perform(hub: Hub, request: ControlRequest, report: ReportStep = lambda _step: None) -> JSON:
    """The response to `inspect`, `exec` or `resources`. The command line is a client for as long as it waits.

    Raises:
        CallError: As the tool of that name.
        DoorError: The request names a profile or servers that there are not.
    """
    check_door(request.door, hub.config)
    client = ClientId()
    try:
        return await _perform(HubView(hub, request.door), request, client, report)
    finally:
        hub.client_left(client)


async def _perform(hub: HubView, request: ControlRequest, client: ClientId, report: ReportStep) -> JSON:
    match request:
        case ControlRequest(mcpx="inspect", server=None, tool=None, query=""):
            # "described" is the state as a person reads it
            return {"servers": [_server(hub, name) for name in hub.upstreams]}
        case ControlRequest(mcpx="inspect"):
            return _shaped(await hub.calls.inspect(request.server or "", request.tool, query=request.query))
        case ControlRequest(mcpx="exec"):
            return await _exec(hub, request, client, report)
        case ControlRequest(mcpx="resources", server=str(server), uri=str(uri)):
            return _shaped(await hub.calls.read(server, uri, client=client))
        case _:
            return {"resources": _resources(hub, request.server)}


async def _exec(hub: HubView, request: ControlRequest, client: ClientId, report: ReportStep) -> JSON:
    """The result of a call."""

    def progressed(progress: float, total: float | None, message: str | None) -> None:
        report({"progress": progress, "total": total, "message": message})

    names = request.server or "", request.tool if isinstance(request.tool, str) else ""
    arguments = request.arguments
    if request.pairs:
        names = await hub.calls.resolve(*names)
        arguments = _typed(hub, names, request.pairs, arguments)
    on_progress = progressed if request.progress else None
    result = await hub.calls.exec(*names, arguments, on_progress, client=client)
    return _shaped(result.as_it_came if request.unshaped else result.shaped)


def _typed(hub: HubView, names: tuple[str, str], pairs: list[tuple[str, str]], arguments: Any) -> Any:
    """The arguments with what the pairs spell.

    Raises:
        CallError: `invalid_arguments`: a key is misspelt.
    """
    tool = hub.registry.get_tool(*names)
    schema = {} if tool is None else tool.input_schema
    keys = [key for key, _ in pairs]
    if tool is not None and (problems := misspelt(keys, schema)):
        raise invalid_arguments(tool, problems)
    given = arguments if isinstance(arguments, dict) else {}
    set_by_pairs = {*keys, *top_level(keys, schema)}
    base = {name: value for name, value in given.items() if name not in set_by_pairs}
    return base | arguments_of(pairs, schema)


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
