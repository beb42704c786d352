"""Errors of calls: what a caller gets when its request could not be sent, or has failed. Pure.

`unavailable` is for requests that a server cannot take, so nothing was sent. Where a person has to sign in
before it can, that is `SignInNeeded`: whoever can ask the client (`mcpx.core.calls.sign_in_links`) shows
where to sign in; to all others it is the error, which has the command. A client of 2026-07-28 is given a link
as the result of its call, and brings the answer when it repeats the call (`answer_to_link`, `without_link`).

`call_error` translates what a call in flight has failed with; nothing matches on error texts. An error of
another MCPX is the same error here: a JSON-RPC error whose data is `{"mcpx": {code, outcome, ...details}}`
(`mcpx.core.gateway.peer.results`). A server behind that MCPX cannot make one up, for what it says is inside,
under `upstream`. The outcome is never better than what was said, and `unknown` where nothing that is
understood was said.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mcpx.core.catalog.model import JSON, present
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.config import Redactor
from mcpx.core.protocol.context import InputAnswers
from mcpx.core.rendering.result_reading import InputRequired
from mcpx.core.servers.transport.exchange import (
    CLIENT_ERRORS,
    ConnectionDropped,
    NotExecuted,
    PersonNeeded,
    Refused,
)
from mcpx.core.telemetry.contained import contain
from mcpx.core.text import cut, paragraphs
from mcpx.core.wire.envelope import INTERNAL_ERROR, MCPError
from mcpx.core.wire.outgoing import MalformedMessage, ResponseTooLarge
from mcpx.errors import CallError, Code, Outcome, internal_error

LINK_KEY: Final = "mcpx/sign-in"
"""The name of the link among the input requests of a result."""
FAILURE_KEY: Final = "mcpx"
"""The member of a JSON-RPC error's `data` in which a peer endpoint says how a call failed."""
_NEXT_LINE: Final = "\n  "  # of what is quoted: each line shows whose it is
_CODES: Final = {str(code): code for code in Code}
_OUTCOMES: Final = {str(outcome): outcome for outcome in Outcome}
_NAMES: Final = frozenset({"error", "code", "outcome", "server", "tool"})
_NO_SECRETS: Final = Redactor()
MAX_ERROR_CHARS: Final = 1400
_OF_PROXIES: Final = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT})


class SignInNeeded(InputRequired):
    """`server_unavailable`: a person has to sign in before the server takes the request.

    `wants_more`: they have signed in, and have to agree to more.
    """

    def __init__(
        self, text: str, *, server: str, tool: str | None, details: JSON, wants_more: bool = False
    ) -> None:
        CallError.__init__(  # not the text and the code of a server that wants input
            self, Code.SERVER_UNAVAILABLE, text, server=server, tool=tool, details=details
        )
        self.wants_more = wants_more
        self.result = {}


def unavailable(info: ServerInfo, what: str, tool: str | None) -> CallError:
    """`server_unavailable`, with the state of the server; `what` as for `ServerInfo.refuse`."""
    text, details = info.refuse(what), info.why()
    if info.state is State.NEEDS_SIGN_IN:
        return SignInNeeded(text, server=info.name, tool=tool, details=details)
    return CallError(Code.SERVER_UNAVAILABLE, text, server=info.name, tool=tool, details=details)


def person_needed(refusal: PersonNeeded, *, server: str, tool: str | None) -> SignInNeeded:
    """The error of a request that the server refuses until a person has signed in, or agreed to more."""
    cause, wants_more = paragraphs(str(refusal)), refusal.scopes is not None
    text = f"{server} did not take the call ({cause}); it was not run"
    details = present(
        state=None if wants_more else str(State.NEEDS_SIGN_IN),
        cause=cause,
        sign_in=refusal.command or None,
        wanted_scopes=list(refusal.scopes or ()) or None,
    )
    return SignInNeeded(text, server=server, tool=tool, details=details, wants_more=wants_more)


# --- what a client brings that was given a link


def answer_to_link(answers: InputAnswers | None) -> JSON | None:
    """The answer to a link among the answers of a client."""
    answer = _responses(answers).get(LINK_KEY)
    return answer if isinstance(answer, dict) else None


def without_link(answers: InputAnswers | None) -> InputAnswers | None:
    """The answers that are for others: those for a server, or to the question whether a tool may run."""
    responses = _responses(answers)
    if answers is None or LINK_KEY not in responses:
        return answers
    rest = {name: value for name, value in responses.items() if name != LINK_KEY}
    if not rest and answers.state is None:
        return None
    return replace(answers, responses=msgspec.json.encode(rest) if rest else b"")


def _responses(answers: InputAnswers | None) -> JSON:
    if answers is None or not answers.responses:
        return {}
    try:
        given = msgspec.json.decode(answers.responses)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}


# --- in flight


class NotMCP(Exception):
    """A server's answer is not MCP; `str()` says where, and why."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the server's answer is not MCP: {problem}")


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
        return _said_by_server(error, server=server, tool=tool, redact=redact, from_mcpx=from_mcpx)
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
    if isinstance(error, NotMCP):
        text = paragraphs(str(error))
        return CallError(Code.PROTOCOL_ERROR, f"{server}: {text}", server=server, tool=tool)
    text = paragraphs(cut(redact(f"{server}: {type(error).__name__}: {error}"), MAX_ERROR_CHARS))
    return CallError(Code.PROTOCOL_ERROR, text, server=server, tool=tool)


def _said_by_server(
    error: MCPError, *, server: str, tool: str | None, redact: Redactor, from_mcpx: bool
) -> CallError:
    """The server's own error, as it came."""
    text = redact(error.message)
    said = {"code": error.code, "message": text}
    details = {"upstream": said if error.data is None else {**said, "data": redact.data(error.data)}}
    # an MCPX that says no more than that was cut off in the middle, by the end of a token for instance
    outcome = Outcome.UNKNOWN if from_mcpx and error.code == INTERNAL_ERROR else None
    return CallError(Code.UPSTREAM_ERROR, text, server=server, tool=tool, details=details, outcome=outcome)


def _refused_by_status(error: Refused, *, server: str, tool: str | None, from_mcpx: bool) -> CallError:
    """The error for an HTTP status in place of an answer.

    A 429 says that the request was not run. A proxy that had passed it on says by 502 or 504 that it got no
    answer; where an MCPX is to answer for it, each 5xx may say so. Any other status is the server's failure.
    """
    said = paragraphs(str(error))
    details: dict[str, Any] = {"http_status": error.status}
    if error.retry_after_s is not None:
        details["retry_after_s"] = error.retry_after_s
    if error.status == HTTPStatus.TOO_MANY_REQUESTS:
        text = f"{server} is overloaded ({said}); the call was not run, try again later"
        return CallError(Code.OVERLOADED, text, server=server, tool=tool, details=details)
    unsaid = error.status in _OF_PROXIES or (from_mcpx and error.status >= HTTPStatus.INTERNAL_SERVER_ERROR)
    outcome = Outcome.UNKNOWN if unsaid else None
    text = f"{server}: {said}{'; it may have taken effect' if unsaid else ''}"
    return CallError(Code.UPSTREAM_ERROR, text, server=server, tool=tool, details=details, outcome=outcome)


def error_unsent(error: Exception, *, server: str, tool: str | None) -> CallError:
    """The error of a request that was refused here, or could not be put into a message."""
    if isinstance(error, CallError):
        return error
    contain(error, "send", server=server)
    return internal_error(error, outcome=Outcome.NOT_SENT, server=server, tool=tool)


def ends_session(failure: Exception) -> bool:
    """True if a probe that failed in this way says that the server refuses the session."""
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


# --- of another MCPX


def error_of_mcpx(
    error: MCPError, *, server: str, tool: str | None, redact: Redactor, peer: str | None = None
) -> CallError | None:
    """The error that the other side means, with the names that server and tool have here.

    None for one that is no failure of an MCPX. The words of a `peer` are quoted: they must not pass for those
    of this MCPX, by which a model or a person goes.
    """
    said = error.data.get(FAILURE_KEY) if isinstance(error.data, dict) else None
    if not isinstance(said, dict):
        return None
    code = _CODES.get(str(said.get("code")), Code.PROTOCOL_ERROR)
    outcome = _OUTCOMES.get(str(said.get("outcome")), Outcome.UNKNOWN)
    found = redact.data({name: its for name, its in said.items() if name not in _NAMES})
    details: dict[str, Any] = found if isinstance(found, dict) else {}
    if "upstream" in details and not _is_error(details["upstream"]):
        del details["upstream"]
    text = redact(error.message)
    if peer is not None and code is not Code.UPSTREAM_ERROR:  # which has the words of a server, as any
        quoted = paragraphs(text).replace("\n", _NEXT_LINE)
        text = f"{peer} says: {quoted}"
    return CallError(code, text, server=server, tool=tool, details=details, outcome=outcome)


def _is_error(said: object) -> bool:
    """True if this is what a server may say: it is read as one elsewhere."""
    return isinstance(said, dict) and type(said.get("code")) is int and isinstance(said.get("message"), str)
