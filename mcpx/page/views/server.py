"""The view of one server: its requests, and the topics `server` and `log`.

    GET  /servers/NAME                  its card, and lists of what it offers
    GET  /servers/NAME/tools/TOOL       one tool whole
    POST /servers/NAME/ACTION           restart, enable, disable, sign-in, signed-in, sign-in-answer, sign-out
    POST /call, /read, /prompt          try what a server offers
    GET  /approvals[?server=NAME]       what waits for approval
    POST /approve                       agree to what was shown

Names may hold slashes, escaped as they are in any address: the address is taken apart before it is unescaped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.routing import Route

from mcpx.core.catalog.model import JSON
from mcpx.page.answers import NotFoundError, get, post
from mcpx.page.events import Topic
from mcpx.page.guard import PREFIX
from mcpx.page.server import actions, logs, news
from mcpx.page.server.offers import offers, whole_tool
from mcpx.page.server.trials import Trials

if TYPE_CHECKING:
    from mcpx.core.daemon.hub import Hub
    from mcpx.page.page import Page

_SERVERS: Final = f"{PREFIX}/api/servers/"
_NOTHING: Final = "there is nothing at this address"
Action = Callable[["Hub", str, Request], Awaitable[JSON]]

TOPICS: Final[Mapping[str, Topic]] = {"server": news.server, "log": logs.log}


def routes(page: Page) -> list[Route]:
    """Its requests."""
    trials = Trials(page)
    return [
        get("/servers/{rest:path}", _look, page),
        post("/servers/{rest:path}", _act, page),
        post("/call", trials.call, page),
        post("/read", trials.read, page),
        post("/prompt", trials.prompt, page),
        get("/approvals", actions.waiting, page),
        post("/approve", actions.approve, page),
    ]


async def _look(page: Page, request: Request) -> Any:
    match _segments(request):
        case [name]:
            upstream = page.hub.upstream(name)
            return {"card": news.card_of(page, name), **offers(upstream)}
        case [name, "tools", tool]:
            return await whole_tool(page.hub, page.hub.upstream(name), tool)
    raise NotFoundError(_NOTHING)


_ACTIONS: Final[Mapping[str, Action]] = {
    "restart": lambda hub, name, _request: actions.restart(hub, name),
    "enable": lambda hub, name, _request: actions.switch(hub, name, on=True),
    "disable": lambda hub, name, _request: actions.switch(hub, name, on=False),
    "sign-in": lambda hub, name, _request: actions.sign_in(hub, name),
    "signed-in": actions.signed_in,
    "sign-in-answer": actions.sign_in_answer,
    "sign-out": lambda hub, name, _request: actions.sign_out(hub, name),
}


async def _act(page: Page, request: Request) -> Any:
    match _segments(request):
        case [name, action] if action in _ACTIONS:
            page.hub.upstream(name)  # else an error, with the nearest
            return await _ACTIONS[action](page.hub, name, request)
    raise NotFoundError(_NOTHING)


def _segments(request: Request) -> list[str]:
    """What stands behind `/servers/`, as it was sent, segment by segment."""
    raw = request.scope["raw_path"].partition(b"?")[0].decode("ascii", "replace")
    return [unquote(each) for each in raw.removeprefix(_SERVERS).split("/")]
