"""The frame of the handlers: from what they return to JSON, and from what they raise to an error.

A handler is given the page and the request, and returns what msgspec can encode. The body of a POST is JSON:
`body` reads it as a struct. Work that takes its time ends when its browser has left (`unless_gone`).

What has failed is an answer, too: `{"failed": {"error": TEXT}}`, with `code` and `outcome` of a call. The
request has not failed, so its status is 200; a browser notes any other as a fault of the page. A request that
makes no sense is answered with `{"error": TEXT}` and 400 or 404; a fault of MCPX, which is logged, with 500.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import anyio
import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from mcpx.core.catalog.model import JSON
from mcpx.core.gateway.frontends.http.asgi import cancel_when_gone
from mcpx.core.telemetry.contained import contain
from mcpx.errors import CallError, MCPXError
from mcpx.page.cards import OpenPage
from mcpx.page.guard import PREFIX

S = TypeVar("S", bound=msgspec.Struct)
MAX_BODY_BYTES: Final = 16 << 20


async def unless_gone(request: Request, work: Callable[[], Awaitable[JSON]]) -> JSON:
    """Do some work, which is cancelled where the browser leaves first; nobody reads the result then.

    The body of the request has been read.

    Raises:
        MCPXError: From `work`.
    """
    done: JSON = {}
    failure: MCPXError | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel_when_gone, request.receive, tasks.cancel_scope.cancel)
        try:
            done = await work()
        except MCPXError as error:
            failure = error  # raised outside of the task group, which would wrap it
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return done


Handler = Callable[[OpenPage, Request], Awaitable[Any]]


class BadRequestError(MCPXError):
    """A request cannot be understood; the text says what is wrong with it."""


class NotFoundError(MCPXError):
    """There is no such address."""


def get(path: str, handler: Handler, page: OpenPage) -> Route:
    """The route of a question: `path` is what follows `/ui/api`."""
    return _route(path, handler, page, "GET")


def post(path: str, handler: Handler, page: OpenPage) -> Route:
    """The route of something to do."""
    return _route(path, handler, page, "POST")


async def body(request: Request, struct: type[S]) -> S:
    """The body of a request, as that struct.

    Raises:
        BadRequestError: It is something else, or too long.
    """
    received = bytearray()
    async for chunk in request.stream():
        received += chunk
        if len(received) > MAX_BODY_BYTES:
            raise BadRequestError(f"the request is longer than {MAX_BODY_BYTES >> 20} MB")
    try:
        return msgspec.json.decode(received, type=struct)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequestError(f"the request cannot be read: {error}") from None


def _route(path: str, handler: Handler, page: OpenPage, method: str) -> Route:
    async def respond(request: Request) -> Response:
        try:
            return as_json(await handler(page, request))
        except BadRequestError as error:
            return as_json({"error": str(error)}, 400)
        except NotFoundError as error:
            return as_json({"error": str(error)}, 404)
        except CallError as error:
            return as_json({"failed": error.to_dict()})
        except MCPXError as error:
            return as_json({"failed": {"error": str(error)}})
        except ClientDisconnect:
            return as_json({"error": "the browser has left"}, 400)  # to nobody
        except Exception as error:  # noqa: BLE001 - the boundary: one request must not end the page
            contain(error, "page")
            return as_json({"error": f"MCPX failed ({type(error).__name__}); its log says more"}, 500)

    return Route(f"{PREFIX}/api{path}", respond, methods=[method])


def as_json(value: Any, status: int = 200) -> Response:
    """A response with that as JSON."""
    return Response(encode(value), status, media_type="application/json")


def encode(value: Any) -> bytes:
    """Encode a value as JSON, in one line."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a character, as some servers cut their texts
        return json.dumps(msgspec.to_builtins(value)).encode()
