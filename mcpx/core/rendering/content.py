"""The texts in content blocks, as the protocol has them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcpx.core.catalog.model import JSON


def text_block(text: str) -> JSON:
    """A block that holds a text."""
    return {"type": "text", "text": text}


def texts_of(blocks: Iterable[JSON]) -> list[str]:
    """The texts of blocks, those of embedded resources among them."""
    return [text for text in map(_text_of, blocks) if text is not None]


def with_texts(blocks: Iterable[JSON], texts: Sequence[str]) -> list[JSON]:
    """The blocks with these texts in place of theirs; blocks with texts beyond them are left out."""
    given, made = iter(texts), []
    for block in blocks:
        if _text_of(block) is None:
            made.append(block)
        elif (text := next(given, None)) is not None:
            made.append(_with_text(block, text))
    return made


def _text_of(block: JSON) -> str | None:
    holder = block.get("resource") if block.get("type") == "resource" else block
    if block.get("type") not in {"text", "resource"} or not isinstance(holder, dict):
        return None
    text = holder.get("text")
    return text if isinstance(text, str) else None


def _with_text(block: JSON, text: str) -> JSON:
    if block["type"] == "resource":
        return {**block, "resource": {**block["resource"], "text": text}}
    return {**block, "text": text}
