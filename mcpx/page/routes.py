"""The addresses of the page: `/ui/`, its files, the stream, and what the views ask and do."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mcpx.page import files
from mcpx.page.answers import get, post
from mcpx.page.guard import HINT, OPEN, PREFIX, SESSION, Guard, cookie_name, port_of
from mcpx.page.views import calls, model, overview, server, setup

if TYPE_CHECKING:
    from mcpx.page.page import Page

MAX_NONCE_CHARS: Final = 100
VIEWS = (overview, server, calls, model, setup)


def application(page: Page) -> ASGIApp:
    """The page as an ASGI application, with everything that guards it."""
    views = [route for view in VIEWS for route in view.routes(page)]
    app = Starlette(
        routes=[
            Route(PREFIX, _to_page),
            Route(f"{PREFIX}/", files.index),
            Route(f"{PREFIX}/static/{{name:path}}", files.file),
            Route(OPEN, partial(_open, page)),
            get("/here", _here, page),
            get("/key", _key, page),
            post("/sign-out", _sign_out, page),
            Route(f"{PREFIX}/api/events", _Events(page), methods=["GET"]),
            *views,
        ]
    )
    return Guard(app, page.access)


async def _to_page(_request: Request) -> Response:
    return RedirectResponse(f"{PREFIX}/")


async def _open(page: Page, request: Request) -> Response:
    """Take a code, and give a cookie for it.

    The browser goes on by itself, from a page of this origin: after a redirect it would keep a strict cookie
    back, where it came from another site's link. What only looks ahead (HEAD, a prefetch) uses up nothing.
    """
    looks_ahead = request.method != "GET" or "prefetch" in request.headers.get("sec-purpose", "")
    secret = (
        None
        if looks_ahead
        else page.access.redeem(request.query_params.get("code", ""), port_of(request.scope))
    )
    if secret is None:
        return PlainTextResponse(f"This link was used, or is too old. {HINT}", 401)
    response = HTMLResponse(
        f'<!doctype html><html lang="en"><meta http-equiv="refresh" content="0; url={PREFIX}/">'
        f'<title>MCPX</title><p><a href="{PREFIX}/">Continue</a></html>'
    )
    cookie = f"{cookie_name(request.scope)}={secret}; HttpOnly; Path={PREFIX}; SameSite=Strict"
    response.headers["set-cookie"] = cookie
    return response


async def _here(page: Page, request: Request) -> Any:
    """`{proof}` for the nonce of a window that asks whether its daemon is there, and lets it in."""
    return {"proof": page.memory.proof(request.query_params.get("nonce", "")[:MAX_NONCE_CHARS])}


async def _key(page: Page, _request: Request) -> Any:
    """`{key}`, by which a window knows its daemon when that was started again."""
    return {"key": page.memory.key}


async def _sign_out(page: Page, request: Request) -> Any:
    """End the session of this page."""
    page.access.end(request.scope[SESSION])
    return {"signed_out": True}


class _Events:
    """The endpoint of the stream."""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":  # which Starlette allows where it allows GET
            await Response(media_type="text/event-stream")(scope, receive, send)
        else:
            await self._page.streams.serve(self._page, scope, receive, send)
