"""Every error MCPX raises on purpose, and the outcome contract for calls.

Owns the closed lists of call error codes and outcomes. Raised by every layer, caught at the gateway
(which turns them into tool results) and at the command line (which prints them).

A `CallError` always says whether the action may have happened:

* `not_sent`: nothing reached the upstream server; trying again is safe.
* `unknown`: the call was sent and no answer came; the action may have happened.
* `failed`: the upstream answered, with an error.

`internal_error` is a fault of MCPX itself; the place that contained it states the outcome. `leaves` takes
the exceptions out of a group.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final


class MCPXError(Exception):
    """Base of every error that MCPX raises on purpose."""

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain JSON; `usage` is true where the caller has to change something first."""
        return {"error": str(self), "usage": isinstance(self, ConfigError)}


class DaemonError(MCPXError):
    """The daemon cannot be reached or started, or this process cannot be it; the text says what to do."""


class ConfigError(MCPXError):
    """The configuration cannot be used.

    `where` is a file, `file:line:column`, or `file: $.path.inside`; `problem` is one sentence.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


class Outcome(StrEnum):
    """The possible effect of a call that failed."""

    NOT_SENT = "not_sent"
    UNKNOWN = "unknown"
    FAILED = "failed"


class Code(StrEnum):
    """The kind of a call's failure."""

    UNKNOWN_SERVER = "unknown_server"
    UNKNOWN_TOOL = "unknown_tool"
    UNKNOWN_RESOURCE = "unknown_resource"
    INVALID_ARGUMENTS = "invalid_arguments"
    NOT_APPROVED = "not_approved"
    SERVER_UNAVAILABLE = "server_unavailable"
    OVERLOADED = "overloaded"
    SERVER_DIED = "server_died"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    UPSTREAM_ERROR = "upstream_error"
    RESPONSE_TOO_LARGE = "response_too_large"
    PROTOCOL_ERROR = "protocol_error"
    INTERNAL_ERROR = "internal_error"


_OUTCOMES: Final = {
    Code.UNKNOWN_SERVER: Outcome.NOT_SENT,
    Code.UNKNOWN_TOOL: Outcome.NOT_SENT,
    Code.UNKNOWN_RESOURCE: Outcome.NOT_SENT,
    Code.INVALID_ARGUMENTS: Outcome.NOT_SENT,
    Code.NOT_APPROVED: Outcome.NOT_SENT,
    Code.SERVER_UNAVAILABLE: Outcome.NOT_SENT,
    Code.OVERLOADED: Outcome.NOT_SENT,
    Code.SERVER_DIED: Outcome.UNKNOWN,
    Code.TIMEOUT: Outcome.UNKNOWN,
    Code.CANCELLED: Outcome.UNKNOWN,
    Code.UPSTREAM_ERROR: Outcome.FAILED,
    Code.RESPONSE_TOO_LARGE: Outcome.UNKNOWN,
    Code.PROTOCOL_ERROR: Outcome.UNKNOWN,
    Code.INTERNAL_ERROR: Outcome.UNKNOWN,
}
NAME_LEN: Final = 256  # characters of a server's or a tool's name in an error
URI_LEN: Final = 4096  # of a URI
_SHOWN: Final = 200  # characters of a foreign exception's text in a message


def failure_text(message: str, code: str, outcome: str) -> str:
    """The text of a failed call for a model: what happened, and whether it may have taken effect."""
    return f"{message}\n(code: {code}, outcome: {outcome})"


class CallError(MCPXError):
    """A call through MCPX failed; `str()` is one readable text for the model.

    `details` are the fields that go into `structuredContent.error` beside code and outcome: plain JSON.
    `outcome` is given only where the code does not determine it (`internal_error`).
    """

    rule: str | None = None
    """The rule by which it was refused: for the audit log, and never for the caller."""

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        server: str,
        tool: str | None = None,
        details: dict[str, Any] | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.outcome = outcome or _OUTCOMES[code]
        self.server = server
        self.tool = tool
        self.details = details or {}

    def to_dict(self) -> dict[str, Any]:
        """The error as plain JSON: `{error, code, outcome, server, tool?, ...details}`, long names cut."""
        names = {"server": self.server} if self.tool is None else {"server": self.server, "tool": self.tool}
        named = {key: _cut(name) for key, name in names.items()}
        head = {"error": str(self), "code": str(self.code), "outcome": str(self.outcome)}
        return {**head, **named, **self.details}


def _cut(name: str) -> str:
    """A name in bounded length: a caller may send megabytes. `mcpx.core.text` would cost the shim 10 ms."""
    return name if len(name) <= NAME_LEN else name[:NAME_LEN] + "..."


def internal_error(
    error: BaseException, *, server: str, tool: str | None = None, outcome: Outcome
) -> CallError:
    """The error for a caller whose request met a fault of MCPX itself."""
    effect = "nothing was sent" if outcome is Outcome.NOT_SENT else "the call may have taken effect"
    cause = f"{type(error).__name__}: {_text_of(error)}"[:_SHOWN]
    text = f"MCPX failed while it handled this request ({cause}); {effect}. Its log says more"
    return CallError(
        Code.INTERNAL_ERROR, text, server=server, tool=tool, details={"cause": cause}, outcome=outcome
    )


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions inside exception groups, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def _text_of(error: BaseException) -> str:
    """The text of a foreign exception, in characters that can be sent."""
    try:
        return str(error)[:_SHOWN].encode(errors="replace").decode()
    except Exception:  # noqa: BLE001 - an exception whose own text fails must still be reported
        return "its text cannot be shown"
