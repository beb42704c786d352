"""A line of a configuration for a person who looks for the mistake in it, without its secrets.

Keys and the values of harmless keys are shown as they are; of other values only the punctuation, so that the
columns stay. `safe_text` does that to a whole file, where nothing more is known of it. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from mcpx.core.config.model import Settings
from mcpx.core.config.per_server import PerServer
from mcpx.core.config.settings import keys
from mcpx.core.config.strings import TYPE_KEYS
from mcpx.core.documents.jsonc import excerpt
from mcpx.core.documents.lines import LINE_END, line_start
from mcpx.core.text.nearest import nearest

_SHOWN: Final = {
    "command",
    "cwd",
    "name",
    "disabled",
    "enabled",
    *TYPE_KEYS,
    *keys(PerServer),
    *keys(Settings),
}
"""Keys whose values are shown; so is that of a `command` which is misspelt."""
_PIECE: Final = re.compile(
    r"""(?P<value>"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[\u201c\u201d\u201e][^\u201c\u201d]*[\u201c\u201d]?
    |//.*|/\*.*|[^\s"'{}\[\]:,]+)(?P<colon>\s*:)?|,""",
    re.VERBOSE,
)
_PLAIN: Final = re.compile(
    r"""true|false|null|-?[\d.]{1,6}|["']--?[A-Za-z][\w-]{0,29}["']|["']\$\{[A-Za-z_]\w*(?::\w[\w.-]*)?\}["']"""
)
"""Values that are no secrets: literals, short numbers, options of a command line, references."""
_LETTER: Final = re.compile(r"\w")


def safe_excerpt(text: str, offset: int) -> str:
    """The line of that offset with a caret beneath, long ones cut, what may be a secret as `***`."""
    start = line_start(text, offset)
    end = found.start() if (found := LINE_END.search(text, start)) else len(text)
    return excerpt(text[:start] + _masked(text[start:end]) + text[end:], offset)


def safe_text(text: str) -> str:
    """A text, each line of it as in an excerpt."""
    return "\n".join(map(_masked, text.splitlines()))


def _masked(line: str) -> str:
    """The line in the same length, its values masked; its keys and harmless values as they are."""
    key = ""
    done: list[str] = []
    last = 0
    for found in _PIECE.finditer(line):
        done.append(line[last : found.start()])
        last = found.end()
        value = found["value"]
        if value is None:  # a comma
            key = ""
        elif found["colon"] and not value.startswith(("//", "/*")):
            key = value.strip("\"'\u201c\u201d\u201e")
        elif not (key in _SHOWN or _PLAIN.fullmatch(value) or nearest(key, ["command"], typos_only=True)):
            done.append(_LETTER.sub("*", found[0]))
            continue
        done.append(found[0])
    return "".join(done) + line[last:]
