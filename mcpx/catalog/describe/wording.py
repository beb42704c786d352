"""Upstream text made fit for one line of a listing.

Owns cleaning, cutting and quoting. Called by the two lists and by the suggestions. Promises that what comes
back holds no line break, no control character and no invisible direction mark.
"""

from __future__ import annotations

import json
import re
from typing import Final

# Whitespace, controls, zero-width and direction marks, invisible tag characters, lone surrogates.
_BLANK: Final = re.compile(
    r"[\s\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]+"
)
_PLAIN_NAME: Final = re.compile(r"[\w$@](?:[\w.:/@+ -]*[\w.:/@+-])?")
_PLAIN_URI: Final = re.compile(r"[^\s#\"(][^\s\"]*")
_SENTENCE: Final = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)[.!?](?=\s+[^\sa-z])"  # an end, and a new start after it
    r"|[\u3002\uff01\uff1f]"  # the full-width ends need no space
)
_MARKUP: Final = "#*-> "


def fold(text: str) -> str:
    """`text` on one line: each run of white space, controls and invisible marks becomes one space."""
    return _BLANK.sub(" ", text).strip()


def cut(text: str, limit: int) -> str:
    """The first `limit` characters of `text`, with `...` where there was more."""
    return text if len(text) <= limit else text[:limit] + "..."


def first_sentence(text: str, limit: int) -> str:
    """The first sentence of the first line that says something, folded, without its full stop, cut."""
    lines = (fold(line).lstrip(_MARKUP) for line in text.splitlines())
    line = next(filter(None, lines), "")
    return cut(_SENTENCE.split(line, maxsplit=1)[0].rstrip(".\u3002"), limit)


def _quoted(text: str) -> str:
    """`text` as a JSON string; with anything unprintable in it, all in ASCII."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def shown_name(name: str) -> str:
    """A name as it is where it is plain, else quoted, so that it can still be copied exactly."""
    return name if _PLAIN_NAME.fullmatch(name) else _quoted(name)


def shown_uri(uri: str) -> str:
    """A URI or URI template as it is where it is one printable word, else quoted."""
    return uri if uri.isprintable() and _PLAIN_URI.fullmatch(uri) else _quoted(uri)


def counted(number: int, noun: str) -> str:
    """`1 tool`, `1,403 tools`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
