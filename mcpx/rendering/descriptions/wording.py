"""The words of a listing: the first sentence of a description, and counts.

Called by the two lists. What may be shown of upstream text, and how names are quoted, `mcpx.text` knows.
"""

from __future__ import annotations

import re
from typing import Final

from mcpx.text import cut, one_line

_SENTENCE: Final = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)[.!?](?=\s+[^\sa-z])"  # an end, and a new start after it
    r"|[\u3002\uff01\uff1f]"  # the full-width ends need no space
)
_MARKUP: Final = "#*-> "
_LOOKED_AT: Final = 2000  # characters in which a first sentence is looked for


def first_sentence(text: str, limit: int) -> str:
    """The first sentence of the first line that says something, folded, without its full stop, cut."""
    lines = (one_line(line).lstrip(_MARKUP) for line in text[:_LOOKED_AT].splitlines())
    line = next(filter(None, lines), "")
    return cut(_SENTENCE.split(line, maxsplit=1)[0].rstrip(".\u3002"), limit)


def counted(number: int, noun: str) -> str:
    """`1 tool`, `1,403 tools`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
