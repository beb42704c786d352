"""What a client is told where the replica that holds something cannot serve its request."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from starlette.types import Scope, Send

from mcpx.cluster.replicas.messages import Incoming
from mcpx.cluster.replicas.seals import AlteredError, Kind
from mcpx.core.gateway.peer.errors import encoded_error
from mcpx.core.gateway.tools import definitions as tools
from mcpx.core.protocol.result_address import SERVER
from mcpx.core.wire import envelope
from mcpx.errors import CallError, Code, Outcome

_PEERS: Final = "/mcp/peers/"
_SHOWN: Final = {
    Kind.APPROVAL: "the question about this call",
    Kind.HELD: "this call, which waits for answers",
    Kind.STATE: "the state of this call",
    Kind.STATELESS: "the state of this call",
    Kind.TASK: "this task",
    Kind.KEPT: "this result",
}


def gone(request: Incoming) -> CallError:
    """The holder cannot be reached, and has read nothing now."""
    what, kind = _SHOWN[request.kind or Kind.STATE], request.kind
    text = f"The replica that holds {what} cannot be reached"
    if kind is Kind.HELD:
        text = f"{text}; the call had been sent to its server, and may have taken effect"
        return CallError(Code.CANCELLED, text, server=SERVER)
    if kind is Kind.TASK:
        text = f"{text}, and the task may be gone; what it did may have taken effect"
        return CallError(Code.SERVER_UNAVAILABLE, text, server=SERVER, outcome=Outcome.UNKNOWN)
    return CallError(Code.SERVER_UNAVAILABLE, f"{text}; nothing was sent: call again", server=SERVER)


def lost(request: Incoming) -> CallError:
    """The holder may have read the request, and its answer is lost."""
    what = _SHOWN[request.kind or Kind.STATE]
    text = f"The connection to the replica that holds {what} was lost before its answer came"
    if request.kind is Kind.KEPT:
        return CallError(Code.SERVER_UNAVAILABLE, f"{text}: read it again", server=SERVER)
    return CallError(Code.SERVER_DIED, f"{text}; it may have taken effect", server=SERVER)


def looping(request: Incoming) -> CallError:
    """The request was passed on already."""
    what = _SHOWN[request.kind or Kind.STATE]
    text = f"Another replica has passed this on for {what}, which is not here either; nothing was sent"
    return CallError(Code.INTERNAL_ERROR, text, server=SERVER, outcome=Outcome.NOT_SENT)


def altered(error: AlteredError) -> CallError:
    """The request brings something that no replica has given out so."""
    text = f"What this request brings back cannot be used: {error}; nothing was sent"
    return CallError(Code.INVALID_ARGUMENTS, text, server=SERVER)


def error_of(scope: Scope, request: Incoming | None, failure: CallError) -> bytes:
    """Answer a failure: as a call of a tool does, where that is what failed at an ordinary endpoint.

    At a peer endpoint it is as all failures there, so that another MCPX reads its outcome.
    """
    head = {"jsonrpc": "2.0", "id": None if request is None else request.id}
    if scope["path"].startswith(_PEERS):
        return envelope.encode(head | {"error": msgspec.Raw(encoded_error(failure))})
    is_own = not scope["path"].startswith("/mcp/servers/")
    if request is not None and request.method == "tools/call" and is_own:
        result = {"resultType": "complete"} | tools.failure(failure, structured=True)
        return envelope.encode(head | {"result": result})
    code = INVALID_PARAMS if failure.code is Code.INVALID_ARGUMENTS else INTERNAL_ERROR
    data = {name: value for name, value in failure.to_dict().items() if name != "error"}
    return envelope.encode(head | {"error": {"code": code, "message": str(failure), "data": data}})


async def answer(scope: Scope, body: bytes, send: Send, failure: CallError) -> None:
    """Answer a request with a failure."""
    request = _as_sent(body)
    answer = error_of(scope, request, failure)
    is_for_client = b'"result"' not in answer[:64] and not scope["path"].startswith(_PEERS)
    status = 400 if is_for_client and failure.code is Code.INVALID_ARGUMENTS else 200
    headers = with_length([(b"content-type", b"application/json")], len(answer))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def _as_sent(body: bytes) -> Incoming | None:
    """The id and the method of a request, whatever it brings."""
    try:
        message: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return None
    return Incoming(message.get("id"), message["method"], b"")


def with_length(headers: list[tuple[bytes, bytes]], length: int) -> list[tuple[bytes, bytes]]:
    """Headers with the length of a body; those of a stream stay as they are."""
    kept = [(name, value) for name, value in headers if name.lower() != b"content-length"]
    if any(name.lower() == b"transfer-encoding" for name, _ in kept):
        return kept
    return [*kept, (b"content-length", b"%d" % length)]
