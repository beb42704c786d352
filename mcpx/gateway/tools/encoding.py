"""Results for the wire: the upstream's bytes passed through where nothing has to change, else reshaped.

The same rules as `mcpx.rendering.results` and `mcpx.gateway.tools.definitions`, which do the work whenever a
result holds JSON that may become TOON. A result that holds none (plain text, images, errors) goes out in the
pieces in which it came, so that ten megabytes of text are neither parsed nor copied; so does one that is too
large to be read (`mcpx.rendering.large_results`). `stamp` is the `_meta` that results of the 2026-07-28
revision carry, or None for a client of an older one.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from mcpx.catalog.model import JSON
from mcpx.config import Config
from mcpx.config.model import TOON_MAX_SIZE
from mcpx.core.router import Exec, Message, Read
from mcpx.errors import CallError, Outcome, internal_error
from mcpx.gateway.tools import definitions as tools
from mcpx.rendering import large_results
from mcpx.rendering.large_results import is_given, structured_content
from mcpx.rendering.results import read_resource_result, read_result, shape_resource, shape_tool_result
from mcpx.wire.envelope import Bytes

_NOTHING: Final = msgspec.Raw()
_LARGE: Final = 16384  # bytes; below, decoding costs less than looking
_HEAD: Final = 256
_USUAL_TEXT: Final = re.compile(rb'\s*\{\s*(?:"type"\s*:\s*"text"\s*,\s*)?"text"\s*:\s*"')
_JSON_STARTS: Final = frozenset(b"{[ \t\\")  # after the quote: JSON, or white space (escaped, too) before it


class _Result(msgspec.Struct, gc=False):
    content: list[msgspec.Raw] = []
    structured: msgspec.Raw = msgspec.field(name="structuredContent", default=_NOTHING)
    is_error: bool = msgspec.field(name="isError", default=False)
    meta: msgspec.Raw = msgspec.field(name="_meta", default=_NOTHING)
    result_type: str = msgspec.field(name="resultType", default="complete")


class _Block(msgspec.Struct, gc=False):
    type: str
    text: msgspec.Raw = _NOTHING


_decode = msgspec.json.Decoder(_Result).decode
_decode_block = msgspec.json.Decoder(_Block).decode
_encode = msgspec.json.Encoder().encode


class Shaper:
    """Makes the `result` of answers. Settings as in the configuration."""

    def __init__(self, *, toon: bool, toon_min_size: int, toon_max_size: int = TOON_MAX_SIZE) -> None:
        self._toon = toon
        self._toon_min_size = toon_min_size
        self._toon_max_size = toon_max_size

    def tool(
        self, message: Message, raw: msgspec.Raw, *, structured: bool, stamp: bytes | None
    ) -> list[Bytes]:
        """The result of a tool. Raises CallError `protocol_error` where it is not MCP."""
        pieces = (
            large_results.pieces(raw, structured=structured, stamp=stamp, server=message.server_name)
            if large_results.is_large(raw, self._toon_max_size)
            else _passed_through(raw, structured=structured, stamp=stamp)
        )
        if pieces is not None:
            return pieces
        result = read_result(raw, server=message.server_name)
        shaped = shape_tool_result(
            result, toon=self._toon, toon_min_size=self._toon_min_size, server=message.server_name
        )
        return _encoded(tools.result(shaped, structured=structured), stamp)

    def resource(
        self, message: Read, raw: msgspec.Raw, *, structured: bool, stamp: bytes | None
    ) -> list[Bytes]:
        """The result of the resources tool. Raises CallError `protocol_error` where it is not MCP."""
        if large_results.is_large(raw, self._toon_max_size):
            pieces = large_results.resource_pieces(
                raw, uri=message.uri, structured=structured, stamp=stamp, server=message.server_name
            )
            if pieces is not None:
                return pieces
        result = read_resource_result(raw, server=message.server_name)
        shaped = shape_resource(result, uri=message.uri, server=message.server_name)
        return _encoded(tools.result(shaped, structured=structured), stamp)

    def questions(self, result: JSON, *, stamp: bytes | None) -> list[Bytes]:
        """Questions to the client, in the place of a result (2026-07-28)."""
        return _encoded(dict(result), stamp)

    def failure(self, error: CallError, *, structured: bool, stamp: bytes | None) -> list[Bytes]:
        """An error as a result."""
        return _encoded(tools.failure(error, structured=structured), stamp)

    def broken(
        self, error: Exception, message: Message, *, structured: bool, stamp: bytes | None
    ) -> list[Bytes]:
        """A fault of ours as a result: the call may have happened."""
        tool = message.tool_name if isinstance(message, Exec) else None
        told = internal_error(error, server=message.server_name, tool=tool, outcome=Outcome.UNKNOWN)
        return self.failure(told, structured=structured, stamp=stamp)


def shaper_for(config: Config) -> Shaper:
    """A shaper with the settings of a configuration."""
    return Shaper(
        toon=config.toon_compression_enabled,
        toon_min_size=config.toon_compression_min_size,
        toon_max_size=config.toon_compression_max_size,
    )


def _passed_through(raw: msgspec.Raw, *, structured: bool, stamp: bytes | None) -> list[Bytes] | None:
    """The result around the upstream's own bytes; None where something in it has to change."""
    try:
        result = _decode(raw)
        if not result.content or result.result_type != "complete":
            return None
        if not result.is_error and any(_holds_json(memoryview(block)) for block in result.content):
            return None
    except (msgspec.DecodeError, RecursionError):
        return None
    if stamp is not None and is_given(result.meta):
        return None
    pieces: list[Bytes] = [b'{"content":[']
    for block in result.content:
        pieces += [memoryview(block), b","]
    pieces[-1] = b'],"isError":true' if result.is_error else b'],"isError":false'
    if structured and is_given(result.structured):
        pieces += structured_content(memoryview(result.structured))
    if stamp is not None:
        pieces += [b',"resultType":"complete","_meta":', stamp]
    elif is_given(result.meta):
        pieces += [b',"_meta":', memoryview(result.meta)]
    pieces.append(b"}")
    return pieces


def _holds_json(block: memoryview) -> bool:
    """Whether a block is text that may hold a JSON object or array, judged by how it begins.

    A large block is not decoded for that, if it is written as nearly all are.
    """
    if len(block) > _LARGE and (usual := _USUAL_TEXT.match(block[:_HEAD])):
        return block[usual.end()] in _JSON_STARTS
    probed = _decode_block(block)
    text = memoryview(probed.text)
    return probed.type == "text" and len(text) > 2 and text[1] in _JSON_STARTS  # noqa: PLR2004 - the quotes


def _encoded(result: JSON, stamp: bytes | None) -> list[Bytes]:
    if stamp is None:
        result.pop("resultType", None)
    else:
        ours: dict[str, Any] = msgspec.json.decode(stamp)
        theirs = result.get("_meta")
        result["_meta"] = ours | (theirs if isinstance(theirs, dict) else {})
    return [_encode(result)]
