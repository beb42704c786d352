"""What "the same result" means: MCPX's answer against the server's own, block by block."""

from __future__ import annotations

import json
from typing import Any

from mcp_types import CallToolResult

from mcpx.core.rendering.toon import decode, read_json

Block = dict[str, Any]


def blocks(result: CallToolResult) -> list[Block]:
    """The content as plain JSON."""
    return [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in result.content]


def assert_carried(through: CallToolResult, direct: CallToolResult) -> None:
    """The same blocks in the same order, byte for byte; JSON text may be in a shorter form of the same.

    A program gets the server's own structured content, or else what the JSON texts hold.
    """
    assert bool(through.is_error) == bool(direct.is_error)
    for mine, theirs in zip(blocks(through), blocks(direct), strict=True):
        if mine != theirs:
            _assert_smaller_form_of(mine, theirs)
    if not direct.is_error:
        assert through.structured_content == _structured(direct)
    else:
        assert through.structured_content == direct.structured_content


def _assert_smaller_form_of(mine: Block, theirs: Block) -> None:
    assert {**mine, "text": None} == {**theirs, "text": None}
    compact = read_json(mine["text"])
    assert (compact.value if compact else decode(mine["text"])) == json.loads(theirs["text"])
    assert len(mine["text"]) < len(theirs["text"])


def _structured(direct: CallToolResult) -> Any:
    if direct.structured_content is not None:
        return direct.structured_content
    values = [value for block in blocks(direct) if (value := json_of(block)) is not None]
    if not values:
        return None
    value = values[0] if len(values) == 1 else values
    return value if isinstance(value, dict) else {"result": value}


def json_of(block: Block) -> Any:
    """The object or list that a text block holds as JSON; None for any other block."""
    try:
        value = json.loads(block["text"])
    except (KeyError, ValueError):
        return None
    return value if isinstance(value, dict | list) else None
