"""A failure of MCPX as the error of a JSON-RPC answer. Pure."""

from __future__ import annotations

from typing import Any

import msgspec
from mcp import MCPError
from mcp_types import INTERNAL_ERROR

from mcpx.core.servers.passthrough.messages import NOTHING, error_answer, members_of, value_of
from mcpx.core.telemetry.contained import contain
from mcpx.core.wire import envelope
from mcpx.core.wire.enclosed import enclose
from mcpx.errors import CallError, Code, Outcome, internal_error


class NotAdmitted(CallError):
    """A request for what the rules of a person do not admit. `response` is what its client gets."""

    def __init__(
        self, response: MCPError, code: Code, *, server: str, tool: str | None = None, rule: str | None = None
    ) -> None:
        super().__init__(code, response.message, server=server, tool=tool)
        self.response = response
        self.rule = rule


def as_call_error(
    error: BaseException, server: str, method: str, outcome: Outcome = Outcome.UNKNOWN
) -> CallError:
    """An exception that the handling of a request raised, as the error for its client.

    One that is no CallError is a fault of MCPX: it is logged.
    """
    if isinstance(error, CallError):
        return error
    contain(error, "transparent", server=server, method=method)
    return internal_error(error, server=server, outcome=outcome)


def to_mcp_error(error: CallError) -> MCPError:
    """The error for the client: code, outcome and details are its data, where it is one of MCPX's."""
    if isinstance(error, NotAdmitted):
        return error.response
    data: dict[str, Any] = error.to_dict()
    del data["error"]  # it is the message
    return MCPError(INTERNAL_ERROR, str(error), data)


def to_answer(error: CallError) -> msgspec.Raw:
    """The same as an answer (`mcpx.core.protocol.requests.OnAnswer`)."""
    return error_answer(to_mcp_error(error))


def error_in(answer: msgspec.Raw) -> MCPError:
    """The server's error in an answer, its data enclosed (`mcpx.core.wire.enclosed`)."""
    error = members_of(members_of(b"{" + bytes(answer) + b"}").get("error", NOTHING))
    code, message = value_of(error.pop("code", None)), value_of(error.pop("message", None))
    data = error.pop("data", None)
    more = [
        piece for name, value in error.items() for piece in (b",", envelope.encode(name), b":", bytes(value))
    ]
    return MCPError(
        code if isinstance(code, int) else INTERNAL_ERROR,
        message if isinstance(message, str) else "the server's error is not a JSON-RPC error",
        # members that the SDK's error has no place for follow on the data, which is the last that it writes
        enclose([bytes(data or b"null"), *more]) if data or more else None,
    )
