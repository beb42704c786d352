"""What a check returns: findings, and the fixes that some of them hold. Pure data."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import msgspec

_PROGRAM: Final = re.compile(r"(?:mcpx|chmod|kill|export) ")
_COMMAND: Final = re.compile(r"(?:mcpx|chmod|kill|export) (?:(?![;,] ).)+")
_PLACEHOLDER: Final = re.compile(r"(?<!\S)[A-Z]{2,}(?!\S)")
Level = Literal["ok", "note", "wrong"]
"""`note`: worth knowing, works all the same. `wrong`: something does not work, or is not safe."""


class Fix(NamedTuple):
    """A change that is safe to make without understanding more of the user's intentions."""

    description: str
    """What is done, as one would type it where that is possible."""
    apply: Callable[[], None]
    """Makes the change. May raise OSError or MCPXError, whose text is shown."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a check has found out.

    `subject` is what it is about: a server, a client, a file. `advice` is a command to type, or a sentence.
    `details` are plain JSON for programs; secrets are in none of the texts.
    """

    level: Level
    subject: str
    text: str
    advice: str | None = None
    fix: Fix | None = None
    details: dict[str, Any] = {}

    @property
    def command(self) -> str | None:
        """The command that the advice is, or ends with after a colon; None where none runs as it stands."""
        words, _, last = (self.advice or "").rpartition(": ")
        for text in (self.advice or "", "" if _PROGRAM.match(words) else last):
            if _COMMAND.fullmatch(text) and not _PLACEHOLDER.search(text):
                return text
        return None


def ok(subject: str, text: str, **details: Any) -> Finding:
    """Return a finding that says that all is well."""
    return Finding(level="ok", subject=subject, text=text, details=details)


def note(subject: str, text: str, advice: str | None = None, *, fix: Fix | None = None) -> Finding:
    """Return a finding that is worth knowing."""
    return Finding(level="note", subject=subject, text=text, advice=advice, fix=fix)


def wrong(
    subject: str, text: str, advice: str | None = None, *, fix: Fix | None = None, **details: Any
) -> Finding:
    """Return a finding that has to be mended."""
    return Finding(level="wrong", subject=subject, text=text, advice=advice, fix=fix, details=details)
