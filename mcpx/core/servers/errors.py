"""Translates exceptions of the SDK, the transports and the system, at the boundary. Everything here is pure.

Failures arrive wrapped in exception groups, so their leaves are examined. `cause_of` says why an incarnation
ended and whether trying again can help; `call_error` makes the error that a caller gets. Nothing here matches
on error texts.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR
from msgspec.structs import replace
from pydantic import ValidationError

from mcpx.core.config import Era, Http, PeerConfig, Redactor, ServerConfig, Sse, redactor_of
from mcpx.core.servers.process_causes import lost, not_started
from mcpx.core.servers.remote_errors import error_of_mcpx
from mcpx.core.servers.transport.exchange import (
    CLIENT_ERRORS,
    PERMISSION_STATUSES,
    ConnectionDropped,
    NotExecuted,
    PersonNeeded,
    Refused,
)
from mcpx.core.servers.transport.loss import ConnectionLost
from mcpx.core.servers.unavailable import person_needed
from mcpx.core.telemetry.contained import contain
from mcpx.core.text import cut, paragraphs
from mcpx.core.wire.outgoing import MalformedMessage, ResponseTooLarge
from mcpx.core.wire.unreachable import shown_url, unreachable
from mcpx.errors import CallError, Code, Outcome, internal_error, leaves
from supervisors import Cause

CONNECTION_CLOSED_TEXT: Final = "Connection closed"  # the SDK's
_NO_SECRETS: Final = Redactor()
MAX_CAUSE_CHARS: Final = 1400  # a reason, and 1,000 of standard error


class NoAnswer(Exception):  # noqa: N818 - a condition
    """The server did not finish its handshake and first listing in time."""


class EraRefused(Exception):  # noqa: N818 - a condition
    """The server does not agree to the only era of the protocol that it was asked in, as `error` says."""

    def __init__(self, era: Era, error: Exception) -> None:
        super().__init__(f"the server does not speak the {era} era")
        self.era = era
        self.error = error


class BadListing(Exception):  # noqa: N818 - a condition
    """The server's lists cannot be used."""


class Unhealthy(Exception):  # noqa: N818 - a condition
    """The server is there, but does not answer MCP."""


def cause_of(error: Exception, config: ServerConfig) -> Cause:
    """Why an incarnation of this server ended: a bounded and clean text without its configured secrets.

    Never raises: the supervisor calls it.
    """
    try:
        cause = _explained(error, config)
        text = cut(redactor_of(config)(cause.text), MAX_CAUSE_CHARS)
        is_passing = cause.retryable and not cause.held and isinstance(config.transport, Http | Sse)
        return replace(cause, text=paragraphs(text), passing=is_passing)  # it may quote the server
    except Exception as odd:  # noqa: BLE001 - what a server made the SDK raise may be as odd as the server
        contain(odd, "cause", server=config.name)
        return Cause(type(error).__name__, error=error)


def _explained(error: Exception, config: ServerConfig) -> Cause:
    found = list(leaves(error))
    for explain in (
        _of_mcpx,
        _of_other_era,
        lost,
        _not_authorized,
        not_started,
        _unreachable,
        _no_answer,
        _refused,
        _not_mcp,
    ):
        for leaf in found:
            if (cause := explain(leaf, config)) is not None:
                return cause
    leaf = found[0]
    return Cause(f"{type(leaf).__name__}: {leaf}", error=error)


def _of_mcpx(leaf: BaseException, config: ServerConfig) -> Cause | None:
    """What another MCPX says of the server behind it, in its own words."""
    said = leaf.error if isinstance(leaf, EraRefused) else leaf
    if not config.is_remote_mcpx or not isinstance(said, MCPError):
        return None
    error = error_of_mcpx(said, server=config.name, tool=None, redact=redactor_of(config))
    return None if error is None else Cause(f"{config.peer or 'its node'}: {error}", error=said)


def _of_other_era(leaf: BaseException, config: ServerConfig) -> Cause | None:
    if not isinstance(leaf, EraRefused):
        return None
    cause = _explained(leaf.error, config)
    own_choice = isinstance(config, PeerConfig) or config.is_remote_mcpx  # and no MCPX lacks an era
    if cause.held or (own_choice and isinstance(cause.error, ConnectionLost)):
        return cause
    pinned = "" if config.era == "auto" else ', and its setting "era" allows no other'
    return Cause(f"{leaf}{pinned}: {cause.text}", error=leaf)


def _not_authorized(leaf: BaseException, config: ServerConfig) -> Cause | None:
    if not isinstance(config.transport, Http | Sse):
        return None
    from mcpx.oauth.refusals import ClientRefused, NotAuthorized, NoTokenNow  # noqa: PLC0415 - as below

    if not isinstance(leaf, NotAuthorized):
        return None
    for_now = isinstance(leaf, NoTokenNow)
    return Cause(
        str(leaf), retryable=for_now, held=not for_now and not isinstance(leaf, ClientRefused), error=leaf
    )


def _unreachable(leaf: BaseException, config: ServerConfig) -> Cause | None:
    if not isinstance(config.transport, Http | Sse):
        return None
    import httpx2  # noqa: PLC0415 - 2 MB, for those who have servers over HTTP

    if isinstance(leaf, httpx2.HTTPStatusError):
        status = leaf.response.status_code
        return Cause(
            f"the server answers HTTP {status}", retryable=status not in PERMISSION_STATUSES, error=leaf
        )
    if isinstance(leaf, httpx2.TimeoutException):
        return Cause(
            f"the server does not answer the connection to {shown_url(config.transport.url)}", error=leaf
        )
    if isinstance(leaf, httpx2.HTTPError):
        return Cause(unreachable(config.transport.url, leaf), error=leaf)
    return None


def _no_answer(leaf: BaseException, config: ServerConfig) -> Cause | None:
    if isinstance(leaf, NoAnswer):
        seconds = config.call_limits.connect_timeout
        text = f"no answer to the handshake within {seconds:g} s"
        return Cause(f"{text}; its last words: {leaf}" if str(leaf) else text, error=leaf)
    unusable = isinstance(leaf, BadListing | MalformedMessage | ResponseTooLarge)
    return Cause(str(leaf), error=leaf) if unusable else None


def _refused(leaf: BaseException, _config: ServerConfig) -> Cause | None:
    if not isinstance(leaf, MCPError):
        return None
    if (
        leaf.code == CONNECTION_CLOSED and leaf.message == CONNECTION_CLOSED_TEXT
    ):  # many servers use that code for anything
        return Cause("the connection was closed during the handshake", error=leaf)
    return Cause(f"the server refused the session: {leaf.message} ({leaf.code})", error=leaf)


def _not_mcp(leaf: BaseException, _config: ServerConfig) -> Cause | None:
    if isinstance(leaf, ValidationError):
        problem = leaf.errors(include_url=False, include_input=False)[0]
        at = ".".join(str(part) for part in problem["loc"])
        return Cause(f"the server's answer is not MCP: {at}: {problem['msg']}", error=leaf)
    return None


def call_error(
    error: Exception,
    *,
    server: str,
    tool: str | None,
    redact: Redactor = _NO_SECRETS,
    from_mcpx: bool = False,
    peer: str | None = None,
) -> CallError:
    """The error for the caller of a call that failed with `error`, which is no lost connection.

    The server's own error passes unaltered, but for the secrets that `redact` finds in it. So does that of
    another MCPX, if the answer is `from_mcpx`: its code and its outcome are those of the call. An internal
    error of that MCPX which says no outcome leaves it unknown. The words of a `peer`, which somebody else
    may run, are quoted as its own.
    """
    if isinstance(error, CallError):
        return error
    if isinstance(error, MCPError):
        said_there = from_mcpx and error_of_mcpx(error, server=server, tool=tool, redact=redact, peer=peer)
        if said_there:
            return said_there
        text = redact(error.message)
        said = {"code": error.code, "message": text}
        details = {"upstream": said if error.data is None else {**said, "data": redact.data(error.data)}}
        # an MCPX that says no more than that was cut off in the middle, by the end of a token for instance
        outcome = Outcome.UNKNOWN if from_mcpx and error.code == INTERNAL_ERROR else None
        return CallError(
            Code.UPSTREAM_ERROR, text, server=server, tool=tool, details=details, outcome=outcome
        )
    if isinstance(error, PersonNeeded):
        return person_needed(error, server=server, tool=tool)
    if isinstance(error, NotExecuted):
        cause = paragraphs(str(error))
        text = f"{server} did not take the call ({cause}); it was not run"
        why = {"cause": cause}
        return CallError(Code.SERVER_UNAVAILABLE, text, server=server, tool=tool, details=why)
    if isinstance(error, ConnectionDropped):
        return server_died(str(error), "", server=server, tool=tool)
    if isinstance(error, Refused):
        return _refused_by_status(error, server=server, tool=tool, from_mcpx=from_mcpx)
    if isinstance(error, ResponseTooLarge | MalformedMessage):
        code = Code.RESPONSE_TOO_LARGE if isinstance(error, ResponseTooLarge) else Code.PROTOCOL_ERROR
        text = f"{server}: {redact(str(error))}; it may have taken effect"
        return CallError(code, text, server=server, tool=tool)
    if isinstance(error, ValidationError):
        not_mcp = _not_mcp(error, None)  # type: ignore[arg-type]  # the configuration does not matter here
        text = paragraphs(not_mcp.text if not_mcp else str(error))
        return CallError(Code.PROTOCOL_ERROR, f"{server}: {text}", server=server, tool=tool)
    text = paragraphs(cut(redact(f"{server}: {type(error).__name__}: {error}"), MAX_CAUSE_CHARS))
    return CallError(Code.PROTOCOL_ERROR, text, server=server, tool=tool)


def _refused_by_status(error: Refused, *, server: str, tool: str | None, from_mcpx: bool) -> CallError:
    """The error for an HTTP status in place of an answer.

    A 429 says that the request was not run. Any other status may come from a proxy that had passed it on, so
    it counts as the server's own failure; where an MCPX is to answer for it, it says nothing of the outcome.
    """
    said = paragraphs(str(error))
    details: dict[str, Any] = {"http_status": error.status}
    if error.retry_after_s is not None:
        details["retry_after_s"] = error.retry_after_s
    if error.status == HTTPStatus.TOO_MANY_REQUESTS:
        text = f"{server} is overloaded ({said}); the call was not run, try again later"
        return CallError(Code.OVERLOADED, text, server=server, tool=tool, details=details)
    unsaid = from_mcpx and error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    outcome = Outcome.UNKNOWN if unsaid else None
    text = f"{server}: {said}"
    return CallError(Code.UPSTREAM_ERROR, text, server=server, tool=tool, details=details, outcome=outcome)


def error_unsent(error: Exception, *, server: str, tool: str | None) -> CallError:
    """The error of a request that was refused here, or could not be put into a message."""
    if isinstance(error, CallError):
        return error
    contain(error, "send", server=server)
    return internal_error(error, outcome=Outcome.NOT_SENT, server=server, tool=tool)


def ends_session(failure: Exception) -> bool:
    """Whether a probe that failed in this way says that the server refuses the session."""
    return (
        isinstance(failure, Refused)
        and failure.status in CLIENT_ERRORS
        and failure.status != HTTPStatus.TOO_MANY_REQUESTS
    )


def server_died(reason: str, stderr: str, *, server: str, tool: str | None) -> CallError:
    """The error for the caller of a call that was in flight when the connection was lost: it may have run."""
    reason, stderr = paragraphs(reason), paragraphs(stderr)
    text = f"{server} was lost while the call was running ({reason}); it may or may not have taken effect"
    if stderr:
        text += f". Its last words:\n{stderr}"
    details = {"cause": reason} | ({"stderr": stderr} if stderr else {})
    return CallError(Code.SERVER_DIED, text, server=server, tool=tool, details=details)
