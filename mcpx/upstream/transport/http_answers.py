"""What HTTP answers mean, read without touching a connection. Everything here is pure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import httpx2
import msgspec
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from mcpx.upstream.transport.exchange import Refused
from mcpx.upstream.transport.http_body import SHOWN
from mcpx.wire import envelope
from mcpx.wire.envelope import RequestId, RPCError
from mcpx.wire.mending import may_have_lone_surrogates, mend_lone_surrogates
from mcpx.wire.outgoing import MalformedMessage

SESSION: Final = "mcp-session-id"  # the header
_RETRY_AFTER_LEN: Final = 64  # characters; a date has 29
_ACCEPTED: Final = frozenset({httpx2.codes.ACCEPTED, httpx2.codes.NO_CONTENT})
_EXPLAINS: Final = ("application/json", "text/plain", "application/problem+json")

Redact = Callable[[str], str]
"""Takes the secrets out of a text."""


class Asked(msgspec.Struct, frozen=True):
    """The JSON-RPC message in a POST: a request has an id, a notification and an answer of ours have none."""

    method: str | None
    id: RequestId | None


def asked_in(request: httpx2.Request) -> Asked:
    """What a POST says."""
    try:
        message = envelope.decode_message(request.content)
    except msgspec.DecodeError:
        return Asked(None, None)
    return Asked(message.method, message.id if message.method is not None else None)


def content_type(response: httpx2.Response) -> str:
    """The MIME type, without parameters."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def message_in(data: bytes) -> JSONRPCMessage:
    """The message. Raises MalformedMessage."""
    try:
        return jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]["msg"]
        raise MalformedMessage(f"the answer is not a JSON-RPC message: {problem}") from None


def answer_in(data: bytes, asked: Asked) -> bytes:
    """The answer to that request, under its id: an error may come without one. Raises MalformedMessage.

    Half a surrogate pair in it, which some clients take, is replaced.
    """
    if may_have_lone_surrogates(data):
        data = mend_lone_surrogates(data)
    message = message_in(data)
    if not isinstance(message, JSONRPCResponse | JSONRPCError):
        raise MalformedMessage("the answer is a message of another kind")
    if message.id is None:
        named = message.model_copy(update={"id": asked.id})
        return named.model_dump_json(exclude_unset=True).encode()
    if str(message.id) != str(asked.id):
        raise MalformedMessage("the answer is to another request")
    return data


def unexpected(response: httpx2.Response) -> MalformedMessage:
    """A good status with something else than a message."""
    if response.status_code in _ACCEPTED:
        return MalformedMessage(f"the answer is HTTP {response.status_code}, without a message")
    kind = _shown(content_type(response)) or "of no content type"
    return MalformedMessage(f"the answer is {kind}, not an MCP message")


def redirected(response: httpx2.Response, location: httpx2.URL | None, redact: Redact) -> Refused:
    """A redirect that is not followed."""
    where = _shown(redact(str(location)))
    return Refused(response.status_code, said=f"it redirects to {where}, which is not followed")


def words(error: Exception, redact: Redact) -> str:
    """What the HTTP library says of a failure; it may quote the server."""
    return _shown(redact(str(error))) or type(error).__name__


class Explanation(msgspec.Struct, frozen=True):
    """The body of an HTTP error: what it says; the JSON-RPC error in it, if there is one, and its id."""

    said: str = ""
    error: RPCError | None = None
    id: RequestId | None = None

    def names(self, asked: Asked) -> bool:
        """Whether it is the answer to that request."""
        return self.error is not None and self.id is not None and str(self.id) == str(asked.id)

    def as_answer(self, asked: Asked) -> bytes:
        """The error as the answer to that request."""
        return envelope.encode({"jsonrpc": "2.0", "id": asked.id, "error": self.error})


class _ErrorBody(msgspec.Struct):
    error: RPCError
    id: RequestId | None = None


def explanation(response: httpx2.Response, body: bytes, redact: Redact) -> Explanation:
    """Read the body of an HTTP error. What it says is shown without secrets; its JSON-RPC error is kept."""
    kind = content_type(response)
    if kind == "application/json":
        with suppress(msgspec.DecodeError, RecursionError):
            found = msgspec.json.decode(body, type=_ErrorBody)
            return Explanation(_shown(redact(found.error.message)), found.error, found.id)
    return Explanation(_shown(redact(body.decode(errors="replace"))) if kind in _EXPLAINS else "")


def is_unread(status: int, about: Explanation) -> bool:
    """Whether the server refused a request without reading as much as its id.

    So do servers that answer 400 where the protocol has 404, for a session that they do not know.
    """
    return status == httpx2.codes.BAD_REQUEST and about.error is not None and about.id is None


def is_its_own(about: Explanation, response: httpx2.Response, asked: Asked) -> bool:
    """Whether the server answered with an error of its own, which is passed on unaltered.

    It is one if it names the request. Servers without sessions may not read the id of what they refuse; one
    with sessions that does not has refused the session, and a 429 or a 5xx may be a proxy's.
    """
    if about.error is None or response.status_code == httpx2.codes.TOO_MANY_REQUESTS:
        return False
    if about.names(asked):
        return True
    return not response.is_server_error and SESSION not in response.request.headers


def _shown(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= SHOWN else words[: SHOWN - 3] + "..."


def retry_after(response: httpx2.Response) -> float | None:
    """The time the server asks to wait, in seconds; RFC 9110 allows a number or a date."""
    value = response.headers.get("retry-after", "").strip()
    if len(value) > _RETRY_AFTER_LEN:
        return None
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
        if at.tzinfo is None:
            at = at.replace(tzinfo=UTC)
        return max(0.0, round((at - datetime.now(UTC)).total_seconds(), 1))
    except (ValueError, OverflowError):
        return None
