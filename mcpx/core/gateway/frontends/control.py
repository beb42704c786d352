"""Control of the daemon over its socket: one line of JSON in, one out.

A connection that begins with `{"mcpx"` asks one thing and gets one answer:

    {"mcpx": "status"}                                     the state of the daemon and its servers
    {"mcpx": "stats"}                                      the tokens that clients have spent and saved
    {"mcpx": "reload"}                                     read the configuration again
    {"mcpx": "restart", "server": NAME}                    end a server and start it again
    {"mcpx": "ui"}                                         {"url": the address that opens the page, once}
    {"mcpx": "stop"}                                       end the daemon; answered before it does
    {"mcpx": "inspect", "server"?, "tool"?, "query"?}      {"servers": [...]} without any of them
    {"mcpx": "exec", "server", "tool", "arguments"?, "pairs"?, "progress"?, "unshaped"?, "fresh"?}
    {"mcpx": "resources", "server"?, "uri"?}               {"resources": {server: [...]}, "templates": ...}
                                                           without a URI
    {"mcpx": "prompts", "server"?, "prompt"?, "pairs"?}    {"prompts": {server: [...]}} without a prompt
    {"mcpx": "approve", "server"?, "tool"?}                {"waiting": [{server, started_by, changes}]}
    {"mcpx": "approve", "agreed": [{server, kind, tool, digest}], "of_all"?}
                                                           approve what was shown so; {"approved": [...]}
    {"mcpx": "approve", "project", "digest"?}              {"project", "servers", "problems", "digest",
                                                           "approved"}: what the files of that folder would
                                                           start, agreed to with the digest of just that
    {"mcpx": "login", "server", "scopes"?, "timeout"?}     first {"progress": null, "server", "url",
                                                           "redirect_uri"}
    {"mcpx": "login"}                                      {"needed": [NAME]}
    {"mcpx": "login_answer", "server", "address"}          the address that the browser came back to
    {"mcpx": "logout", "server"?}                          {"signed_in": [NAME]} without a server
    {"mcpx": "cluster", "do"?, "node"?, "timeout"?}        the cluster (`mcpx.cluster.membership`),
                                                           after start_nodes, stop_nodes, leave, drain or
                                                           undrain
    {"mcpx": "environment", "server"?}                     what servers are started with: PATH, its source,
                                                           {"variables": [{name, value, source}]}, masked;
                                                           of a server, what it was given
    {"mcpx": "attach", "expose"?, "server"?, "only"?, "profile"?, "peer"?, "environment"?, "folder"?,
     "program"?, "variables"?, "told_all"?}                from now on this is an MCP client at that endpoint
                                                           (`mcpx.core.system.endpoint`), which knows that the
                                                           daemon lives: nothing is sent to a dying one. Or
                                                           {"wanted": [PATTERN]}: it is to be said again, with
                                                           "told_all" and the variables that fit

With "folder", inspect, exec, resources and prompts are those of a client that was started there. With
"profile" or "only", inspect, exec, resources and prompts see what is shown at such an endpoint, and no more.

The "tool" of inspect is a name or several. "pairs" are the `key=value` words of a command line as text: the
schema says what they are (`mcpx.core.validation.errors`), and what "arguments" has of these keys does not
count. With "progress" the response may follow on lines `{"progress", "total", "message"}`; "unshaped" is for
the result as the server gave it.

The three tools answer `{"shaped": {content, structuredContent, isError}}`. Where no daemon runs, the command
line has a hub of its own perform them, with the same response (`mcpx.core.gateway.frontends.operations`).

A failure is `{"error": TEXT, "usage": BOOL}`, plus `code` and `outcome` of a call, or the `problem` of a
sign-in (`mcpx.oauth.errors`). Nothing that a caller
sends ends the daemon, unless it asks for that. A caller that goes away cancels what it asked for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import anyio
import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.status_snapshot import snapshot
from mcpx.core.events.stats import report
from mcpx.core.gateway.frontends.operations import OPERATIONS, ControlRequest, ReportStep, perform
from mcpx.core.policy.profiles import check_endpoint
from mcpx.core.store.paths import DaemonPaths
from mcpx.core.system.endpoint import LIMIT_KEY, PROJECT_VARIABLES, WANTED_KEY
from mcpx.core.telemetry.contained import contain
from mcpx.core.validation.arguments import unreadable
from mcpx.core.validation.errors import unreadable_arguments
from mcpx.core.wire.malformed import shallow
from mcpx.errors import MCPXError
from mcpx.version import __version__

LOOKS: Final = frozenset({"status", "stats", "environment", "secrets"})
"""Requests that look at the daemon, and use nothing of it."""
WriteLine = Callable[[bytes], None]
"""Takes a line that the caller may be sent; one that it does not read may be dropped. Must not raise."""


PageLink = Callable[[], Awaitable[str]]


async def no_page() -> str:
    """Refuse.

    Raises:
        MCPXError: Always.
    """
    raise MCPXError("this MCPX has no page")


class Control:
    """Answers control requests. `clients` counts the MCP clients; `paths` are the files of the daemon.

    `page_link` gives the address that opens the daemon's page, once.
    """

    def __init__(
        self,
        hub: Hub,
        clients: Callable[[], int],
        paths: DaemonPaths | None = None,
        page_link: PageLink = no_page,
    ) -> None:
        self._hub = hub
        self._page_link = page_link
        self._clients = clients
        self._paths = paths
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
        except MCPXError as error:
            return error.to_dict()
        except Exception as error:  # noqa: BLE001 - the boundary: one request must not end the connection or the daemon
            contain(error, "control")
            return {"error": f"MCPX failed ({type(error).__name__}); its log says more"}

    async def _handle(self, request: ControlRequest, write: WriteLine) -> JSON:
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
            case "restart" | "logs":
                return await self._of_server(request)
            case "ui":
                return {"url": await self._page_link()}
            case "stop":
                return {"stopping": os.getpid()}
            case "environment" | "secrets" as what:
                return self._environment(request.server) if what == "environment" else self._fetched()
            case "attach":
                return self._attach(request)
            case method if method in PERFORMERS:
                return await PERFORMERS[method](self._hub, request, lambda step: write(_line(step)))
        return {"error": f"no such control request: {request.mcpx}", "usage": True}

    async def _of_server(self, request: ControlRequest) -> JSON:
        """One server started again, or what it has logged, wherever it is."""
        name = self._hub.calls.own_name(request.server or "")
        if request.mcpx == "logs":
            lines = await self._hub.log_tail(name, request.lines)
            server = self._hub.upstreams.get(name)
            return {"lines": lines, "elsewhere": server is not None and server.config.is_remote_mcpx}
        info = await self._hub.restart(name)
        return {"restarted": info.name, "state": info.describe_state()}

    def _fetched(self) -> JSON:
        """Say by server how old the values are that were fetched for its entry, in seconds."""
        now, found = time.monotonic(), dict[str, JSON]()
        for name, server in self._hub.upstreams.items():
            credentials = server.credentials
            if credentials.entry.ages and server.config.disabled is None:
                ages = {"fetched_s": now - credentials.fetched_at, "changed_s": now - credentials.changed_at}
                said: JSON = {each: round(age, 1) for each, age in ages.items()}
                found[name] = said | ({"problem": credentials.problem} if credentials.problem else {})
        return {"fetched": found}

    def _environment(self, name: str | None) -> JSON:
        """Say what servers are given of the environment now, or what one was given."""
        environment = self._hub.fleet.environment.value()
        said: JSON = {"path": environment.path, "source": environment.source}
        if name is None:
            return said | {"variables": environment.inherited().shown()}
        known = self._hub.upstream(self._hub.calls.own_name(name))  # or an error
        name = known.name
        server = self._hub.upstreams[name]
        variables = [] if (given := server.main.inherited) is None else given.shown()
        program = server.config.transport.program
        own = {} if program is None else program.env
        variables += [{"name": each, "value": "***", "source": "its own env"} for each in own]
        return said | {"server": name, "variables": sorted(variables, key=lambda each: each["name"])}

    def _attach(self, request: ControlRequest) -> JSON:
        if request.server is not None:
            self._hub.registry.upstream(request.server)  # else an error, with the nearest
        check_endpoint(request.endpoint, self._hub.config)
        more = [each for each in self._hub.config.forward_env if each not in PROJECT_VARIABLES]
        if more and request.told_all is False:
            return {WANTED_KEY: more}
        limit = self._hub.config.max_message_bytes
        return {"attached": os.getpid(), "version": __version__, LIMIT_KEY: limit}

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
    """Names in a request, without its arguments."""

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


# --- signing in


async def _login(hub: Hub, request: ControlRequest, report: ReportStep) -> JSON:
    """Sign in to a server, with a report of the address to open; or name those that need it.

    A sign-in that only the command line waits for ends with its connection.
    """
    if request.server is None:
        return {"needed": await hub.sign_ins.needed()}
    sign_in = hub.sign_ins.begin(request.server, scopes=request.scopes, timeout_s=request.timeout)
    try:
        await sign_in.url()
        report(sign_in.report())
        await sign_in.wait(request.timeout)
    finally:
        sign_in.leave()
    info = await hub.sign_ins.started(sign_in.name)
    described = info.cause if info.state is State.NEEDS_SIGN_IN and info.cause else info.describe_state()
    state = {"state": str(info.state), "described": described, "tools": len(info.tools)}
    return sign_in.result() | state


async def _answer(hub: Hub, request: ControlRequest, _report: ReportStep) -> JSON:
    """Take the address that a browser came back to, for the sign-in that waits for it."""
    name = request.server or ""
    hub.sign_ins.answer(name, request.address)
    return {"taken": name}


async def _logout(hub: Hub, request: ControlRequest, _report: ReportStep) -> JSON:
    """Sign out of a server; or name those that are signed in to."""
    if request.server is None:
        return {"signed_in": await hub.sign_ins.signed_in()}
    return {"server": request.server, "signed_out": await hub.sign_ins.logout(request.server)}


async def _cluster(hub: Hub, request: ControlRequest, _report: ReportStep) -> JSON:
    """The state of the cluster, after `request.do` was done there."""
    if hub.cluster is None:
        raise MCPXError("this daemon is in no cluster; join one with: mcpx cluster start")
    return await hub.cluster.answer(request.do, request.node, request.timeout)


PERFORMERS: Final = (
    dict.fromkeys(OPERATIONS, perform)
    | {"login": _login, "login_answer": _answer, "logout": _logout}
    | {"cluster": _cluster}
)
"""The requests that are more than a look."""
