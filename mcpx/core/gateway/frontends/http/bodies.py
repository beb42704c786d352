"""The body of a POST as a message, decoded as a line of a stream is; and what answers one that is none."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mcpx.core.gateway.frontends.http.exchange import JSON
from mcpx.core.gateway.frontends.http.http_exchange import HttpExchange
from mcpx.core.wire import batch, envelope, malformed
from mcpx.core.wire.envelope import INVALID_REQUEST, RPCMessage
from mcpx.core.wire.intake import LARGE_BYTES


def read_message(exchange: HttpExchange, take_batch: Callable[[list[bytes]], None]) -> RPCMessage | None:
    """Decode the message of a body, as a line is; None where that was a batch, or was refused."""
    body = exchange.body
    try:
        if not body.isascii():
            body.decode()
        message = envelope.split_large(body) if len(body) > LARGE_BYTES else None
        message = message or envelope.decode_message(body)
    except (UnicodeDecodeError, RecursionError, msgspec.DecodeError) as unreadable:
        problem: Exception = unreadable
        if batch.is_batch(body.lstrip()):
            try:
                take_batch(batch.split(body))
            except (UnicodeDecodeError, RecursionError, msgspec.DecodeError) as actual:
                problem = actual
            else:
                return None
        refuse_body(exchange, malformed.describe(body, problem), 400)
        return None
    if message.method is None and not message.is_response:
        refuse_body(exchange, malformed.invalid(body, malformed.NEITHER), 400)
        return None
    if message.id is None and malformed.has_null_id(body):
        refuse_body(exchange, malformed.invalid(body, malformed.NULL_ID), 400)
        return None
    return message


def refuse_body(exchange: HttpExchange, problem: malformed.MalformedLine, status: int) -> None:
    """Answer a body that is no message."""
    if pieces := malformed.refusal(problem):
        exchange.respond(status, JSON, pieces)
    else:
        refuse(exchange, status, f"MCPX cannot read this message: {problem.text}; nothing was done")


def refuse(
    exchange: HttpExchange,
    status: int,
    text: str,
    *,
    code: int = INVALID_REQUEST,
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> None:
    """Respond with an error that belongs to no request."""
    error = envelope.encode({"code": code, "message": text})
    exchange.respond(status, JSON + headers, envelope.failure(None, error))
