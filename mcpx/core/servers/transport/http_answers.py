"""The meaning of HTTP answers, read without touching a connection. Everything here is pure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal

import httpx2
import msgspec
from mcp_types import INTERNAL_ERROR, JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from mcpx.core.servers.transport.exchange import Answer, Refused
from mcpx.core.servers.transport.http_bodies import MAX_QUOTE_LEN
from mcpx.core.text import cut
from mcpx.core.wire import envelope, malformed
from mcpx.core.wire.enclosed import one_line
from mcpx.core.wire.envelope import RequestId, RPCError
from mcpx.core.wire.intake import INTAKE, LargeMessage
from mcpx.core.wire.malformed import may_have_lone_surrogates, mend_lone_surrogates, mend_numbers
from mcpx.core.wire.outgoing import MalformedMessage, UnreadableAnswer, has_error, read_error

SESSION_HEADER: Final = "mcp-session-id"
_ACCEPTED: Final = frozenset({httpx2.codes.ACCEPTED, httpx2.codes.NO_CONTENT})
_PLACEHOLDER_ERROR: Final = RPCError(INTERNAL_ERROR, "the error that the server sent is read elsewhere")
_PING: Final = {"jsonrpc": "2.0", "id": "mcpx-ping", "method": "ping"}
_TEXT_TYPES: Final = ("application/json", "text/plain", "application/problem+json")

Redact = Callable[[str], str]
"""Takes the secrets out of a text."""


class Posted(msgspec.Struct, frozen=True):
    """The JSON-RPC message in a POST: a request has an id, a notification or a response of ours has none."""

    method: str | None
    id: RequestId | None


def posted_in(request: httpx2.Request) -> Posted:
    """Read the message in a POST."""
    message = _decode_or_nothing(request.content)
    return Posted(message.method, message.id if message.method is not None else None)


def with_params(request: httpx2.Request, posted: Posted, params: bytes) -> httpx2.Request:
    """The same JSON-RPC request with other params."""
    head = envelope.encode({"jsonrpc": "2.0", "id": posted.id, "method": posted.method})
    return httpx2.Request(
        request.method,
        request.url,
        headers=_headers(request),
        content=b"".join((head[:-1], b',"params":', params, b"}")),
        extensions=request.extensions,
    )


def ping_like(request: httpx2.Request) -> httpx2.Request:
    """A ping in the session of another request."""
    return httpx2.Request("POST", request.url, headers=_headers(request), json=_PING)


def _headers(request: httpx2.Request) -> dict[str, str]:
    """The headers of a request for one with another content."""
    return {name: value for name, value in request.headers.items() if name != "content-length"}


def content_type(response: httpx2.Response) -> str:
    """Return the MIME type, without parameters."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


class _Result(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    id: RequestId
    result: msgspec.Raw
    method: None = None
    error: None = None


_decode_result: Final = msgspec.json.Decoder(_Result).decode


def read_answer(data: bytes) -> Answer | None:
    """Read a JSON-RPC message as the SDK does; return None if it is not a response.

    A usual result is not looked into, which costs a thirtieth of the SDK's reading: what the SDK cannot read
    in it comes out when the SDK reads it.

    Raises:
        MalformedMessage: It is not a JSON-RPC message.
    """
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if not data.isascii():
            data.decode()
        found = _decode_result(data)
        if bytes(memoryview(found.result)[:1]) == b"{":
            return Answer(found.id, is_error=False)
    try:
        message = jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]["msg"]
        raise MalformedMessage(f"the answer is not a JSON-RPC message: {problem}") from None
    if not isinstance(message, JSONRPCResponse | JSONRPCError):
        return None
    return Answer(message.id, is_error=isinstance(message, JSONRPCError))


def read_raw_answer(data: bytes) -> Answer | None:
    """Read a JSON-RPC message as it is read on a stream; return None if it is not a response.

    A result stays as it came, but on one line, as streams want it. It is only looked at whether it is JSON,
    and in a large one not even that.

    Raises:
        MalformedMessage: It is not a JSON-RPC message.
    """
    data = one_line(data)
    try:
        if not data.isascii():
            data.decode()
        message = envelope.split_large_answer(data) or envelope.decode_message(data)
    except RecursionError:
        raise UnreadableAnswer(malformed.TOO_DEEP, data) from None
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        if (mended := mend_numbers(data)) == data:
            raise MalformedMessage(f"the answer is not a JSON-RPC message: {error}") from None
        message = _decode_or_nothing(mended)
        if message.method is None:
            raise UnreadableAnswer(malformed.NONFINITE, data) from None
    if message.method is not None:
        return read_answer(data)
    if has_error(message):
        return Answer(message.id, is_error=True, error=read_error(message.error))
    if not message.result:
        raise MalformedMessage(f"the answer is {malformed.NEITHER}")
    return Answer(message.id, is_error=False, result=message.result)


def answered_id(data: bytes | LargeMessage) -> RequestId | None:
    """The id of the request that a message answers; None if it is no answer, or has none that can be read."""
    if isinstance(data, LargeMessage):
        return getattr(envelope.split_large(data), "id", None)
    message = _decode_or_nothing(data)
    if message.id is not None or message.method is not None:
        return message.id if message.method is None else None
    problem = malformed.describe(data)
    return None if malformed.is_request(problem) else malformed.find_id(problem.head, problem.tail)


def _decode_or_nothing(data: bytes) -> envelope.RPCMessage:
    try:
        return envelope.decode_message(data)
    except (msgspec.DecodeError, RecursionError):
        return envelope.RPCMessage()


def take_message(
    data: bytes | LargeMessage, *, raw: bool, request_id: RequestId | None = None
) -> tuple[Answer | None, bytes]:
    """Read what a server sent; return it, if it is a response, with what the SDK is to read of it.

    With `raw` the SDK gets an empty response, else the same one. An error without an id gets `request_id`.
    Half a surrogate pair, which some clients take, is replaced.

    Raises:
        MalformedMessage: It is not a JSON-RPC message.
    """
    if isinstance(data, LargeMessage):
        if raw and (taken := _take_large(data, request_id)) is not None:
            return taken
        data = bytes(data)  # of a listing, which is read whole; or a message of another kind
    if may_have_lone_surrogates(data):
        data = mend_lone_surrogates(data)
    answer = read_raw_answer(data) if raw else read_answer(data)
    if answer is None:
        return None, data
    if raw:
        return answer, _placeholder(answer, request_id)
    if answer.id is None:
        error = JSONRPCError.model_validate_json(data).model_copy(update={"id": request_id})
        return answer, error.model_dump_json(exclude_unset=True).encode()
    return answer, data


def _take_large(data: LargeMessage, request_id: RequestId | None) -> tuple[Answer, bytes] | None:
    """The same for a large message, of which the two ends are looked at; None for one that is no response."""
    if data.error is not None:
        raise MalformedMessage("the answer is not UTF-8")
    message = envelope.split_large(data)
    if message is None:
        raise MalformedMessage(malformed.UNUSUAL)
    if message.method is not None:
        return None
    INTAKE.carries(data, message.result)
    if has_error(message):
        answer = Answer(message.id, is_error=True, error=read_error(message.error))
    else:
        answer = Answer(message.id, is_error=False, result=message.result)
    return answer, _placeholder(answer, request_id)


def _placeholder(answer: Answer, request_id: RequestId | None) -> bytes:
    """Encode what the SDK reads in the place of an answer that goes another way."""
    content: dict[str, object] = {"error": _PLACEHOLDER_ERROR} if answer.is_error else {"result": {}}
    named = request_id if answer.id is None else answer.id
    return envelope.encode({"jsonrpc": "2.0", "id": named, **content})


def answer_to(posted: Posted, data: bytes | LargeMessage, *, raw: bool = False) -> tuple[Answer, bytes]:
    """Read the response to a request as `take_message` does.

    Raises:
        MalformedMessage: It is not the response to that request.
    """
    answer, data = take_message(data, raw=raw, request_id=posted.id)
    if answer is None:
        raise MalformedMessage("the answer is a message of another kind")
    if answer.id is None and not answer.is_error:
        raise MalformedMessage("the answer has no id")
    if answer.id is not None and str(answer.id) != str(posted.id):
        raise MalformedMessage("the answer is to another request")
    return answer, data


def refuse(data: bytes | LargeMessage, error: MalformedMessage) -> bytes:
    """The error that the SDK is to read in place of an answer that cannot be read."""
    found = answered_id(data)
    if found is None:
        return bytes(data)
    return encode_error(Posted(None, found), RPCError(INTERNAL_ERROR, str(error)))


def encode_error(posted: Posted, error: RPCError) -> bytes:
    """Encode an error as the response to a request."""
    return envelope.encode({"jsonrpc": "2.0", "id": posted.id, "error": error})


def not_a_message(response: httpx2.Response) -> MalformedMessage:
    """Describe an answer of a good status that holds no message."""
    if response.status_code in _ACCEPTED:
        return MalformedMessage(f"the answer is HTTP {response.status_code}, without a message")
    given = response.headers.get("content-type", "").partition(";")[0]  # as it came: it may quote a secret
    kind = quoted(given) or "of no content type"
    return MalformedMessage(f"the answer is {kind}, not an MCP message")


def unfollowed(response: httpx2.Response, location: httpx2.URL | None, redact: Redact) -> Refused:
    """Describe a redirect that is not followed."""
    where = quoted(redact(str(location)))
    return Refused(response.status_code, explanation=f"it redirects to {where}, which is not followed")


def describe(error: Exception, redact: Redact) -> str:
    """Describe a failure in the words of the HTTP library, which may quote the server."""
    return quoted(redact(str(error))) or type(error).__name__


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of an HTTP error: its text; the JSON-RPC error in it, if there is one, and its id."""

    text: str = ""
    error: RPCError | None = None
    id: RequestId | None = None


class _ErrorMessage(msgspec.Struct):
    error: RPCError
    id: RequestId | None = None


def read_error_body(response: httpx2.Response, body: bytes, redact: Redact) -> ErrorBody:
    """Read the body of an HTTP error. Secrets are taken out of its text, but not of its JSON-RPC error."""
    kind = content_type(response)
    if kind == "application/json":
        with suppress(msgspec.DecodeError, RecursionError):
            found = msgspec.json.decode(body, type=_ErrorMessage)
            return ErrorBody(quoted(redact(found.error.message)), found.error, found.id)
    return ErrorBody(quoted(redact(body.decode(errors="replace"))) if kind in _TEXT_TYPES else "")


def is_unparsed(status: int, body: ErrorBody) -> bool:
    """True if the server refused a request before it read its id.

    Some servers do so for a session that they do not know, where the protocol has 404.
    """
    return status == httpx2.codes.BAD_REQUEST and body.error is not None and body.id is None


def is_server_error(body: ErrorBody, response: httpx2.Response, posted: Posted) -> bool:
    """True if the server answered the request with an error of its own, which is passed on unaltered.

    It did if the error carries the id of the request. Servers without sessions may not read the id of what
    they refuse; one with sessions that does not has refused the session, and a 429 or a 5xx may be a proxy's.
    """
    if body.error is None or response.status_code == httpx2.codes.TOO_MANY_REQUESTS:
        return False
    if body.id is not None and str(body.id) == str(posted.id):
        return True
    return not response.is_server_error and SESSION_HEADER not in response.request.headers


def quoted(text: str) -> str:
    """Quote a text of the server's: one line, cut to a length."""
    return cut(" ".join(text.split()), MAX_QUOTE_LEN)
