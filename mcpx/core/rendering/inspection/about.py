"""What inspect says of a server above its tools: state, instructions, and what MCPX leaves out. Pure."""

from __future__ import annotations

from typing import Final

from mcpx.core.catalog.model import JSON
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.rendering.inspection.listing import LISTING_TOKENS
from mcpx.core.rendering.inspection.plain import MAX_TEXT_CHARS
from mcpx.core.rendering.tokens import estimate
from mcpx.core.text import paragraphs, visible

INSTRUCTIONS_TOKENS: Final = LISTING_TOKENS // 4
_MAX_LEFT_OUT: Final = 20
_CHARS_PER_TOKEN: Final = 3
_ENDS: Final = (". ", ".\n", "\n\n", "\u3002")  # of a sentence or paragraph


def about(info: ServerInfo, *, cut: bool = True) -> JSON:
    """`{server, state, sign_in?, remedy?, instructions?, left_out?}`; for the model, they are `cut`.

    What is from last time says so: for the model in `listed`, for programs as `ServerInfo.from_last_time`.
    """
    said: JSON = {"server": info.name, "state": info.describe_state(), **info.next_attempt()}
    if info.sign_in and not cut:
        said["sign_in"] = info.sign_in
    if info.remedy:
        said["remedy"] = info.remedy
    if last_time := info.from_last_time():
        said |= {"listed": f"from last time, {last_time['listed_at']}"} if cut else last_time
    if info.instructions:
        text = paragraphs(info.instructions[:MAX_TEXT_CHARS])
        said["instructions"] = _at_sentence(text) if cut else text
    if info.left_out:
        said["left_out"] = [
            {
                name: visible(value) if isinstance(value, str) else value
                for name, value in each.to_dict().items()
            }
            for each in (info.left_out[:_MAX_LEFT_OUT] if cut else info.left_out)
        ]
    return said


def _at_sentence(text: str) -> str:
    """The first sentences of a long text, a quarter of what a listing may take."""
    if estimate(text) <= INSTRUCTIONS_TOKENS:
        return text
    head = text[: INSTRUCTIONS_TOKENS * _CHARS_PER_TOKEN]
    while estimate(head) > INSTRUCTIONS_TOKENS:
        head = head[: len(head) // 2]
    end = max(head.rfind(mark) for mark in _ENDS)
    return f"{head[: end + 1].rstrip() if end > 0 else head} ..."
