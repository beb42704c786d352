"""The view of one server: its requests, and the topics `server` and `log`.

    GET  /servers/NAME                  its card, and lists of what it offers
    GET  /servers/NAME/tools/TOOL       one tool whole
    POST /servers/NAME/ACTION           restart, sign-in, signed-in, sign-in-answer, sign-out
    POST /call, /read, /prompt          try what a server offers
    GET  /approvals[?server=NAME]       what waits for approval
    POST /approve                       agree to what was shown

Names may hold slashes, escaped as they are in any address: the address is taken apart before it is unescaped.

A sign-in is begun by `sign_in`, whose answer has the address for the person to open, and waited for by
`signed_in`; it ends by itself after its time, whether a page still waits or not. What edits the
configuration is in `mcpx.page.views.setup`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.routing import Route

from mcpx.core.calls.sign_in_links import PendingSignIn
from mcpx.core.catalog.model import JSON
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.config.load import commands_of_servers, read_config
from mcpx.core.daemon import pin_reviews
from mcpx.core.daemon.hub import Hub
from mcpx.core.policy.pin_review import Agreed
from mcpx.core.text import visible
from mcpx.errors import ConfigError
from mcpx.oauth.errors import Problem, SignInError
from mcpx.page.answers import BadRequestError, NotFoundError, body, get, post, unless_gone
from mcpx.page.cards import OpenPage
from mcpx.page.events import Topic
from mcpx.page.guard import PREFIX
from mcpx.page.views.offers import offers, whole_tool
from mcpx.page.views.server_topics import card_of, log, server
from mcpx.page.views.trials import Trials

MAX_CHANGES: Final = 200  # of all servers that are shown at a time
MAX_DIFFERENCE_CHARS: Final = 1_000_000  # of all these changes together
_SERVERS: Final = f"{PREFIX}/api/servers/"
_NOTHING: Final = "there is nothing at this address"


class Address(msgspec.Struct, frozen=True):
    """The address that a browser on another computer ended at."""

    address: str


class Nothing(msgspec.Struct, frozen=True):
    """A request that says no more than its address."""


class Approval(msgspec.Struct, frozen=True):
    """A person's agreement: changes as they were shown, by their digests."""

    agreed: list[Agreed]


# --- its life


async def restart(hub: Hub, name: str) -> JSON:
    """End it and start it again: `{state, described}` of it then.

    Raises:
        CallError: `server_unavailable`: it is disabled, or something that it needs is still missing.
    """
    return seen(await hub.restart(name))


def seen(info: ServerInfo) -> JSON:
    """`{state, described}` of a server, as it is now."""
    return {"state": str(info.state), "described": info.describe_state()}


# --- signing in


async def sign_in(hub: Hub, name: str) -> JSON:
    """Begin a sign-in, or join the one under way: `{url, note, redirect_uri, timeout_s}`.

    Raises:
        MCPXError: It cannot be begun; most are a `SignInError`.
    """
    pending = hub.sign_ins.begin(name)  # never left: it is over after its time
    url = await pending.url()
    about = {"url": url, "note": pending.note, "redirect_uri": pending.redirect_uri}
    return about | {"timeout_s": hub.config.login_timeout}


async def signed_in(hub: Hub, name: str, request: Request) -> JSON:
    """Wait for the sign-in under way, if it is not over: `{state, described, tools, account}` of the server.

    Raises:
        SignInError: It failed, or there is none.
    """

    async def wait() -> JSON:
        account = hub.upstream(name).account
        if hub.sign_ins.pending(name) is not None or account is None or not account.is_usable:
            await _pending(hub, name).wait(hub.config.login_timeout)
        info = await hub.sign_ins.started(name)
        described = info.cause if info.state is State.NEEDS_SIGN_IN and info.cause else info.describe_state()
        state = {"state": str(info.state), "described": described, "tools": len(info.tools)}
        return state | {"account": account and account.account_name}

    await body(request, Nothing)
    return await unless_gone(request, wait)


async def sign_in_answer(hub: Hub, name: str, request: Request) -> JSON:
    """Take the address that a browser on another computer ended at.

    Raises:
        SignInError: No sign-in waits for it, or it cannot be that.
    """
    given = await body(request, Address)
    _pending(hub, name)
    hub.sign_ins.answer(name, given.address)
    return {"taken": True}


async def sign_out(hub: Hub, name: str) -> JSON:
    """Sign out of it: `{signed_out}`, whether one was signed in.

    Raises:
        MCPXError: MCPX does not sign in there, or what is stored cannot be removed.
    """
    return {"signed_out": await hub.sign_ins.logout(name)}


def _pending(hub: Hub, name: str) -> PendingSignIn:
    pending = hub.sign_ins.pending(name)
    if pending is None:
        raise SignInError(Problem.NO_ANSWER, f"no sign-in to {name} is under way")
    return pending


# --- what waits for approval


async def waiting(page: OpenPage, request: Request) -> JSON:
    """List what waits for approval, of one server or of all.

    `{waiting: [{server, started_by, commands, changes}], more?}`: `commands` are those that MCPX runs for the
    server's entry; `more` counts the changes that are not shown, as they are too many or too long.
    """
    found = pin_reviews.waiting(page.hub, request.query_params.get("server"), None)["waiting"]
    room, shown, more = MAX_DIFFERENCE_CHARS, 0, 0
    for each in found:
        listed, each["changes"] = each["changes"], []
        for change in listed:
            size = sum(map(len, change["difference"]))
            if shown >= MAX_CHANGES or (shown and size > room):
                more += 1
                continue
            shown, room = shown + 1, room - size
            each["changes"].append(change)
    shown_servers = [each for each in found if each["changes"]]
    commands_run = await anyio.to_thread.run_sync(_commands, page.hub) if shown_servers else {}
    for each in shown_servers:
        each["commands"] = commands_run.get(each["server"], [])
    return {"waiting": shown_servers, **({"more": more} if more else {})}


def _commands(hub: Hub) -> dict[str, list[str]]:
    """The commands in the configuration's file, by server; none where it cannot be read just now."""
    environ = hub.fleet.environment.value().variables
    try:
        found = commands_of_servers(read_config(hub.config.source), environ=environ)
    except ConfigError:
        return {}
    return {name: [visible(each) for each in commands] for name, commands in found.items()}


async def approve(page: OpenPage, request: Request) -> JSON:
    """Put in force what a person has agreed to: `{approved: [{server, kind, tool?}]}`.

    Raises:
        CallError: `unknown_server`.
        MCPXError: Nothing was agreed to, or it cannot be written down.
    """
    given = await body(request, Approval)
    if not given.agreed:
        raise BadRequestError("nothing was agreed to")
    return await pin_reviews.approve(page.hub, given.agreed, of_all=False)


Action = Callable[["Hub", str, Request], Awaitable[JSON]]

TOPICS: Final[Mapping[str, Topic]] = {"server": server, "log": log}


def routes(page: OpenPage) -> list[Route]:
    """Its requests."""
    trials = Trials(page)
    return [
        get("/servers/{rest:path}", _look, page),
        post("/servers/{rest:path}", _act, page),
        post("/call", trials.call, page),
        post("/read", trials.read, page),
        post("/prompt", trials.prompt, page),
        get("/approvals", waiting, page),
        post("/approve", approve, page),
    ]


async def _look(page: OpenPage, request: Request) -> Any:
    match _segments(request):
        case [name]:
            upstream = page.hub.upstream(name)
            return {"card": card_of(page, name), **offers(upstream)}
        case [name, "tools", tool]:
            return await whole_tool(page.hub, page.hub.upstream(name), tool)
    raise NotFoundError(_NOTHING)


_ACTIONS: Final[Mapping[str, Action]] = {
    "restart": lambda hub, name, _request: restart(hub, name),
    "sign-in": lambda hub, name, _request: sign_in(hub, name),
    "signed-in": signed_in,
    "sign-in-answer": sign_in_answer,
    "sign-out": lambda hub, name, _request: sign_out(hub, name),
}


async def _act(page: OpenPage, request: Request) -> Any:
    match _segments(request):
        case [name, action] if action in _ACTIONS:
            page.hub.upstream(name)  # else an error, with the nearest
            return await _ACTIONS[action](page.hub, name, request)
    raise NotFoundError(_NOTHING)


def _segments(request: Request) -> list[str]:
    """Split what stands behind `/servers/`, as it was sent, into segments."""
    raw = request.scope["raw_path"].partition(b"?")[0].decode("ascii", "replace")
    return [unquote(each) for each in raw.removeprefix(_SERVERS).split("/")]
