"""The requests of clients, the command line and programs, as values: what the decoder of each way in makes.

A requester makes one with its context (`RequestContext`), for `mcpx.core.calls.pipeline`, which makes of it
what a session with a server takes (`mcpx.core.protocol.requests`). What a client has written into it for that
server, above all into its `_meta`, is encoded by `meta_for_server`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mcpx.core.protocol.context import Origin
from mcpx.core.protocol.requests import NO_CONTEXT, Complete, GetPrompt, RequestContext, TaskRequest
from mcpx.core.system.endpoint import FRESH_KEY
from mcpx.core.telemetry.contained import contain
from mcpx.core.text.json_work import holds_nonfinite
from mcpx.core.wire.envelope import INVALID_PARAMS, MCPError
from mcpx.errors import CallError, Outcome, internal_error

_RESERVED: Final = ("io.modelcontextprotocol/", "mcpx/")
"""Prefixes of the keys that each connection has for itself: those of the protocol's envelope, and MCPX's."""
_TOKEN: Final = "progressToken"  # noqa: S105 - MCPX chooses its own for the server


def meta_for_server(params: Mapping[str, Any] | None) -> bytes:
    """The members of `_meta` in the params of a request that are to be passed on (`RequestContext.meta`).

    Raises:
        MCPError: A number is beyond what JSON can say.
    """
    given = (params or {}).get("_meta")
    return members_for_server(given) if isinstance(given, Mapping) else b""


def members_for_server(meta: Mapping[str, Any]) -> bytes:
    """The members to pass on, as JSON without the braces; values may be JSON already (`msgspec.Raw`).

    Raises:
        MCPError: A number is beyond what JSON can say.
    """
    own = {key: value for key, value in meta.items() if key != _TOKEN and not key.startswith(_RESERVED)}
    return encode_for_server(own, "_meta")[1:-1]


def is_fresh(params: Mapping[str, Any] | None) -> bool:
    """Return True if the `_meta` in the params of a request wants no answer that was kept."""
    given = (params or {}).get("_meta")
    return isinstance(given, Mapping) and given.get(FRESH_KEY) is True


def encode_for_server(value: Any, what: str) -> bytes:
    """Encode what a client gave; `what` names it in the error.

    Raises:
        MCPError: A number is beyond what JSON can say.
    """
    encoded = msgspec.json.encode(value)
    if b"null" in encoded and holds_nonfinite(value):  # as msgspec writes them
        raise MCPError(
            INVALID_PARAMS, f"{what} holds a number that JSON cannot say (NaN or infinity); nothing was sent"
        )
    return encoded


class Inspect(msgspec.Struct, frozen=True):
    """Look up the offers of all servers ("") or one, some of its tools, or what fits a query.

    The answer is a `ToolResult`. `origin` is who asks, where that is known.
    """

    server_name: str = ""
    tool_names: tuple[str, ...] = ()
    query: str = ""
    origin: Origin | None = None


class Exec(msgspec.Struct, frozen=True):
    """Run a tool; the answer is the upstream's raw result.

    `arguments` is JSON: an object, a string that holds one, null, or nothing at all. `select` is the JMESPath
    expression that the result is projected with ("" or None: none), `max_tokens` the budget of what is shown
    of it (None: the configured one, 0: none). `rest_as_resource` is for clients that are not shown the
    resources tool, which reads the rest of a result for the others; `fails_in_meta` for those that hold
    structured content against the tool's schema. `read_only` has a tool refused that is not read-only.
    `given` is what the client sent, as it came: read only where a person is asked about the call, because
    `arguments` may be what another reader has made of it. With `for_app` the call may be from the page of an
    app, for which there are tools that no model may call.
    """

    server_name: str
    tool_name: str
    arguments: msgspec.Raw | bytes
    context: RequestContext = NO_CONTEXT
    select: str | None = None
    max_tokens: int | None = None
    rest_as_resource: bool = False
    fails_in_meta: bool = False
    read_only: bool = False
    given: msgspec.Raw | bytes = b""
    for_app: bool = False


class Read(msgspec.Struct, frozen=True):
    """Read a resource; the answer is the upstream's raw result.

    `method` and `cursor` are as in `ReadResource`.
    """

    server_name: str
    uri: str
    context: RequestContext = NO_CONTEXT
    method: str = "resources/read"
    cursor: str | None = None


class Forward(msgspec.Struct, frozen=True):
    """Pass on a request that is none of the three tools; the answer is the upstream's raw result."""

    server_name: str
    request: GetPrompt | Complete | TaskRequest
    context: RequestContext = NO_CONTEXT


Request = Exec | Read | Forward
Message = Inspect | Request


def method_of(request: Request) -> tuple[str, str | None]:
    """Return the method of a request at its server, and what it names there."""
    if isinstance(request, Exec):
        return "tools/call", request.tool_name
    if isinstance(request, Read):
        return request.method, request.uri
    forwarded = request.request
    return forwarded.method, forwarded.name if isinstance(forwarded, GetPrompt) else None


def tool_of(message: Message) -> str | None:
    """The name of the tool, for error messages."""
    match message:
        case Exec(tool_name=tool) | Inspect(tool_names=(tool,)):
            return tool
    return None


def as_call_error(
    error: BaseException, message: Message, where: str = "answer", outcome: Outcome = Outcome.UNKNOWN
) -> CallError:
    """An exception that the handling of a message or of its result raised, as the error for the requester.

    One that is not a CallError is a fault of MCPX: it is logged with `where` it was met, and the call has
    that `outcome`.
    """
    if isinstance(error, CallError):
        return error
    contain(error, where, server=message.server_name)
    return internal_error(error, server=message.server_name, tool=tool_of(message), outcome=outcome)
