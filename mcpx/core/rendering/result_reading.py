"""Results of servers, read: as far as MCPX may change them, or whole for programs.

The kind of a result shows here, too: one that asks for input in its place (`InputRequired`), or is of a type
that MCPX does not know (`UnknownResultType`), is raised. Pure.

A `requestState` is one that MCPX made here, or one of a server, which may be another MCPX. States that MCPX
makes begin with `mcpx-`, and so do those of another MCPX behind it: a call that is held there, an approval
that is asked for there, the seal of a replica. Taken for one of ours, such a state would never reach whom it
is for. So a server's state that begins like ours is given out with `mcpx-far-` before it, once for each MCPX
on the way, and that is taken off again before it is sent back.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.rendering import result_members
from mcpx.core.rendering.large_results import essential_contents, essentials, is_dense
from mcpx.core.text import cut, kind_of
from mcpx.errors import CallError, Code

OURS: Final = "mcpx-"
"""The prefix of all states that an MCPX makes."""
_FAR: Final = "mcpx-far-"
_MADE_HERE: Final = f"{secrets.token_hex(16)}-"  # no server knows it


def made_here(state: str) -> str:
    """A state of ours in a result that is read as if it came from the server."""
    return _MADE_HERE + state


def to_client(state: str) -> str:
    """The state in a result, as the client is to bring it back."""
    if state.startswith(_MADE_HERE):
        return state.removeprefix(_MADE_HERE)
    return _FAR + state if state.startswith(OURS) else state


def to_server(state: str) -> str:
    """The state that a client has brought, as the server gave it."""
    return state.removeprefix(_FAR)


INPUT_REQUIRED: Final = "input_required"
TASK: Final = "task"
_NULLABLE: Final = ("structuredContent", "_meta")  # where null is the same as nothing
_TOOL: Final[result_members.Readers] = {
    "content": partial(result_members.read_array, read=result_members.read_block),
    "isError": msgspec.json.decode,
}
_RESOURCE: Final[result_members.Readers] = {
    "contents": partial(result_members.read_array, read=result_members.read_item)
}
_NO_READERS: Final[result_members.Readers] = {}
_MAX_METHOD_CHARS: Final = 64  # of a method in an error; the protocol's own have half of that
_MAX_METHODS: Final = 8  # named in an error


class InputRequired(CallError):
    """The server wants input from its client before it goes on: an error for callers that cannot give any.

    `result` is `{resultType, inputRequests?, requestState?}`, the one an object and the other a text.
    """

    def __init__(self, result: JSON, server: str) -> None:
        asked = result.get("inputRequests") or {}
        methods = sorted(
            {str(each.get("method"))[:_MAX_METHOD_CHARS] for each in asked.values() if isinstance(each, dict)}
        )
        wanted = ", ".join(methods[:_MAX_METHODS]) or "another try"
        text = f"{server} wants input before it goes on ({wanted}), and this caller cannot be asked for any"
        super().__init__(Code.UPSTREAM_ERROR, text, server=server)
        self.result = result


class UnknownResultType(CallError):
    """A result of a type that MCPX does not know (2026-07-28); `result` are its members, as they came.

    To a client of that revision it is passed on as it is, and the client refuses what it does not know. But a
    task (`kind` is TASK) is for clients alone that have declared that they take them.
    """

    def __init__(self, result: JSON, server: str) -> None:
        self.kind = kind = cut(str(result["resultType"]), _MAX_METHOD_CHARS)
        text = f"{server} answered with a result of the type {kind!r}, which this client does not know"
        super().__init__(Code.PROTOCOL_ERROR, f"{text}; it may have taken effect", server=server)
        self.result = result


def read_result(raw: bytes | msgspec.Raw, *, server: str = "") -> JSON:
    """The JSON of a result, decoded.

    Raises:
        CallError: `protocol_error`: it is no object.
        InputRequired: It is no result but questions (2026-07-28).
        UnknownResultType: It is something else.
    """
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _not_json(error, server) from None
    if not isinstance(value, dict):
        raise not_protocol("the result is no object", server)
    _check_type(value.get("resultType"), value, server)
    return value


def read_members(
    raw: msgspec.Raw, readers: result_members.Readers = _NO_READERS, *, server: str = ""
) -> JSON:
    """The members of a result: those that have readers as these read them, the others as they came.

    Raises:
        CallError: As in `read_result`.
    """
    try:
        members: JSON = result_members.decode_members(raw)
        if "resultType" in members:
            kind = msgspec.json.decode(members["resultType"])
            if kind == INPUT_REQUIRED:
                return read_result(raw, server=server)  # which raises it
            _check_type(kind, members, server)
        result_members.read_each(members, readers)
    except msgspec.ValidationError:
        return read_result(raw, server=server)  # which says what is wrong
    except (msgspec.DecodeError, RecursionError) as error:
        raise _not_json(error, server) from None
    for name in _NULLABLE:
        if name in members and not result_members.is_given(members[name]):
            del members[name]
    return members


def read_tool_result(raw: msgspec.Raw, *, server: str = "", large: bool = True, whole: bool = False) -> JSON:
    """The result of a `tools/call`, read as far as it is shown, or whole; of a dense one the essentials.

    One that is not `large` is not dense.

    Raises:
        CallError: As in `read_result`; `response_too_large`: it is dense, and has too many blocks.
    """
    if large and is_dense(raw) and (read := essentials(raw, server)) is not None:
        return read
    if whole:
        return read_result(raw, server=server)
    return result_members.read_texts(raw) or read_members(raw, _TOOL, server=server)


def read_resource_result(raw: msgspec.Raw, *, server: str = "", whole: bool = False) -> JSON:
    """The result of a `resources/read`, read as far as it is shown, or whole; of a dense one the essentials.

    Raises:
        CallError: As in `read_result`; `response_too_large`: it is dense, and has too many blocks.
    """
    if is_dense(raw) and (read := essential_contents(raw, server)) is not None:
        return read
    if whole:
        return read_result(raw, server=server)
    return read_members(raw, _RESOURCE, server=server)


def _check_type(kind: Any, result: JSON, server: str) -> None:
    """Raise what is to be raised for a result that is not `complete`."""
    if kind is None or kind == result_members.COMPLETE:
        return
    if kind == INPUT_REQUIRED:
        raise _questions(result, server)
    if not isinstance(kind, str):
        raise not_protocol(f"`resultType` must be a string, got {kind_of(kind)}", server)
    raise UnknownResultType({**result, "resultType": kind}, server)


def _questions(result: JSON, server: str) -> CallError:
    """Return what to raise for a result that asks: InputRequired, unless it does not ask as the protocol has
    it.
    """
    asked, state = result.get("inputRequests"), result.get("requestState")
    if asked is not None and not isinstance(asked, dict):
        return not_protocol(f"`inputRequests` must be an object, got {kind_of(asked)}", server)
    if state is not None and not isinstance(state, str):
        return not_protocol(f"`requestState` must be a string, got {kind_of(state)}", server)
    return InputRequired(result if state is None else {**result, "requestState": to_client(state)}, server)


def _not_json(error: Exception, server: str) -> CallError:
    return not_protocol(f"the result is not JSON ({error})", server)


def not_protocol(problem: str, server: str) -> CallError:
    """The error for a result that is not of the protocol."""
    named = f"The server {server!r}" if server else "The server"
    return CallError(Code.PROTOCOL_ERROR, f"{named} does not keep to the protocol: {problem}.", server=server)
