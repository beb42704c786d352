"""Operations of the command line on a hub: inspect, exec, resources, prompts and approve.

The hub is the daemon's (`mcpx.core.gateway.frontends.control`), or one that the command has opened for this
alone; the response is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from mcpx.core.calls.names import rule_against
from mcpx.core.calls.recording import noting_refusals
from mcpx.core.catalog.model import JSON, PromptInfo
from mcpx.core.daemon import pin_reviews
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.projects import client_in
from mcpx.core.policy.pin_review import Agreed
from mcpx.core.policy.profiles import check_endpoint
from mcpx.core.protocol.context import ClientId, Origin, asked_by
from mcpx.core.protocol.messages import Forward
from mcpx.core.protocol.requests import GetPrompt, RequestContext
from mcpx.core.rendering.result_reading import read_result
from mcpx.core.rendering.results import ToolResult
from mcpx.core.system.endpoint import Endpoint, Expose, Surroundings
from mcpx.core.system.users import this_user
from mcpx.core.text.nearest import nearest
from mcpx.core.validation.errors import arguments_of, invalid_arguments, misspelt, top_level
from mcpx.errors import MCPXError
from mcpx.version import __version__

COMMAND: Final = f"mcpx/{__version__}"
OPERATIONS: Final = ("inspect", "exec", "resources", "prompts", "approve")
LISTING_TIMEOUT_S: Final = 60.0  # that a request waits for the first listing of the server that it names
ALL_LISTINGS_TIMEOUT_S: Final = (
    5.0  # that one about all servers does: one that hangs must not hide the others
)
ReportStep = Callable[[JSON], None]
"""Takes what a call has done so far: `{"progress", "total", "message"}`. Must not raise."""


class ControlRequest(msgspec.Struct, frozen=True):
    """One request. `mcpx` names the operation; which other fields count depends on it."""

    mcpx: str
    server: str | None = None
    tool: str | list[str] | None = None
    query: str = ""
    uri: str | None = None
    prompt: str | None = None
    arguments: Any = None
    pairs: list[tuple[str, str]] | None = None
    progress: bool = False
    unshaped: bool = False
    fresh: bool = False
    expose: Expose | None = None
    only: tuple[str, ...] | None = None
    profile: str | None = None
    peer: str | None = None
    folder: str = ""
    program: str = ""
    variables: dict[str, str] = {}
    told_all: bool | None = None
    project: str | None = None
    digest: str = ""
    agreed: list[Agreed] | None = None
    of_all: bool = False
    scopes: tuple[str, ...] = ()
    timeout: float | None = None
    lines: Annotated[int, msgspec.Meta(ge=1)] = 100
    address: str = ""
    do: str = ""
    node: str | None = None
    environment: dict[str, str] = {}

    @property
    def surroundings(self) -> Surroundings:
        """The surroundings of its client, as it states them."""
        return Surroundings(self.folder, self.program, self.variables, self.told_all)

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint that it names: for `attach` as it is, for others to look through."""
        server, peer = (self.server, self.peer) if self.mcpx == "attach" else (None, None)
        return Endpoint(self.expose, server, self.only, self.profile, peer)


async def perform(hub: Hub, request: ControlRequest, report: ReportStep = lambda _step: None) -> JSON:
    """The response to one of `OPERATIONS`. The command line is a client for as long as it waits.

    Raises:
        CallError: As the tool of that name.
        EndpointError: The request names a profile or servers that there are not.
    """
    check_endpoint(request.endpoint, hub.config)
    about = request.surroundings
    client = client_in(about, hub.config.forward_env, home=str(Path.home()))
    view = HubView(hub, hub.projects.endpoint_for(request.endpoint, client))
    if request.project is not None:
        return await hub.projects.answer(request.project, request.digest)
    if request.server is not None:
        request = msgspec.structs.replace(request, server=view.calls.own_name(request.server))
    try:
        with asked_by(client):
            await _await_listings(view, request.server)
            if request.mcpx == "approve":
                return await _approve(hub, request)
            return await _perform(view, request, client, report)
    finally:
        hub.client_left(client)


async def _perform(hub: HubView, request: ControlRequest, client: ClientId, report: ReportStep) -> JSON:
    match request:
        case ControlRequest(mcpx="inspect", server=None, tool=None, query=""):
            return {"servers": [server_entry(hub, name) for name in hub.upstreams]}
        case ControlRequest(mcpx="inspect"):
            return _shaped(await hub.calls.inspect(request.server or "", request.tool, query=request.query))
        case ControlRequest(mcpx="exec"):
            return await _exec(hub, request, client, report)
        case ControlRequest(mcpx="resources", server=str(server), uri=str(uri)):
            return _shaped(await hub.calls.read(server, uri, client=client, origin=_origin(hub)))
        case ControlRequest(mcpx="prompts", server=str(server), prompt=str(prompt)):
            context = RequestContext(client=client, origin=_origin(hub))
            return {"prompt": await get_prompt(hub, server, prompt, dict(request.pairs or ()), context)}
        case ControlRequest(mcpx="prompts"):
            listed = {name: _prompts(hub, name) for name in _named(hub, request.server)}
            return {"prompts": {name: [each.to_protocol() for each in its] for name, its in listed.items()}}
        case _:
            return _resources(hub, request.server)


async def _approve(hub: Hub, request: ControlRequest) -> JSON:
    """Return what waits for approval; or put in force what was agreed to, and return that."""
    if request.agreed is not None:
        return await pin_reviews.approve(hub, request.agreed, of_all=request.of_all)
    return pin_reviews.waiting(hub, request.server, request.tool if isinstance(request.tool, str) else None)


async def _exec(hub: HubView, request: ControlRequest, client: ClientId, report: ReportStep) -> JSON:
    """The result of a call."""

    def progressed(progress: float, total: float | None, message: str | None) -> None:
        report({"progress": progress, "total": total, "message": message})

    server, tool = request.server or "", request.tool if isinstance(request.tool, str) else ""
    arguments, origin = request.arguments, _origin(hub)
    if request.pairs:
        rule = partial(rule_against, hub.upstreams.values(), server, tool)
        with noting_refusals(hub.records, "tool", server, tool, origin, rule_against=rule):
            server, tool = await hub.calls.resolve(server, tool)
            arguments = _typed(hub, (server, tool), request.pairs, arguments)
    result = await hub.calls.exec(
        server,
        tool,
        arguments,
        progressed if request.progress else None,
        client=client,
        origin=origin,
        fresh=request.fresh,
    )
    return _shaped(result.as_it_came if request.unshaped else result.shaped)


def _origin(hub: HubView) -> Origin:
    """The command line, for the audit log."""
    return Origin(transport="control", client=COMMAND, user=this_user(), profile=hub.endpoint.profile)


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


def server_entry(hub: HubView, name: str) -> JSON:
    """Describe a server in one row of inspect; `described` is its state as a person reads it."""
    info = hub.upstreams[name].info()
    described = info.describe_state() + ("; from last time" if info.from_last_time() else "")
    changes = len(hub.upstreams[name].policy.changes())
    if changes:
        described += "; changed since it was approved"
    return {**info.to_dict(), **({"changes": changes} if changes else {}), "described": described}


async def _await_listings(hub: HubView, server: str | None) -> None:
    """Wait until it is known what the server offers, or all of them do; but not for one that takes long."""
    if server in hub.upstreams:
        await hub.listed(LISTING_TIMEOUT_S, server)
    else:
        await hub.listed(ALL_LISTINGS_TIMEOUT_S)


def _named(hub: HubView, server: str | None) -> list[str]:
    """The server that was named, or all.

    Raises:
        CallError: `unknown_server`, with the nearest ones.
    """
    return list(hub.upstreams) if server is None else [hub.registry.upstream(server).name]


def _resources(hub: HubView, server: str | None) -> JSON:
    names = _named(hub, server)
    listed = {name: [item.to_dict() for item in hub.registry.list_resources(name)] for name in names}
    known = {name: hub.upstreams[name].catalogue for name in names}
    templates = {
        name: [each.to_protocol() for each in catalogue.templates]
        for name, catalogue in known.items()
        if catalogue
    }
    shown = {name for name in names if server is not None or listed[name]}
    return {
        "resources": {name: its for name, its in listed.items() if name in shown},
        "templates": {name: its for name, its in templates.items() if its},
    }


def _prompts(hub: Hub | HubView, server: str) -> list[PromptInfo]:
    catalogue = hub.upstreams[server].catalogue
    return list(catalogue.prompts) if catalogue else []


async def get_prompt(
    hub: Hub | HubView, server: str, name: str, arguments: dict[str, str], context: RequestContext
) -> JSON:
    """The result of `prompts/get`; or input requests of the server, for a caller that takes them as a result.

    Raises:
        CallError: There is no such server, or the request failed.
        MCPXError: There is no such prompt, or the arguments are not those that it takes.
    """
    with noting_refusals(hub.records, "prompt", server, name, context.origin):
        server = hub.registry.upstream(server).name
        known = {prompt.name: prompt for prompt in _prompts(hub, server)}
        if known and name not in known:
            raise MCPXError(f"{server} has no prompt {name!r}{_near(name, list(known))}")
    if name in known and (problem := _problem_of(known[name], arguments)):
        raise MCPXError(f"prompt {name} of {server}: {problem}; nothing was sent")
    request = GetPrompt(name, msgspec.json.encode(arguments) if arguments else b"")
    forward = Forward(server, request, context)
    return await hub.calls.run(forward, lambda raw: read_result(raw, server=server))


def _problem_of(prompt: PromptInfo, arguments: dict[str, str]) -> str | None:
    """Say what is wrong with the arguments of a prompt; None if nothing is."""
    takes = {str(each.get("name")): each for each in prompt.arguments or ()}
    for name in arguments:
        if name not in takes:
            return f"it takes no {name!r}{_near(name, list(takes))}"
    missing = [name for name, each in takes.items() if each.get("required") and name not in arguments]
    return f"{', '.join(missing)} is missing" if missing else None


def _near(name: str, known: list[str]) -> str:
    near = nearest(name, known)
    return f"; did you mean {near[0]}?" if near else f"; there is {', '.join(known) or 'none'}"


def _shaped(shaped: ToolResult) -> JSON:
    shown = {
        "content": shaped.content,
        "structuredContent": shaped.structured_content,
        "isError": shaped.is_error,
        **({} if shaped.meta is None else {"_meta": shaped.meta}),
    }
    return {"shaped": shown}
