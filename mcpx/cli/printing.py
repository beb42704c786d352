r"""Printing text of servers and users: on a terminal with escapes for what it would obey or hide.

A terminal obeys control characters, and does not show what is invisible or written against the direction of
reading: there such characters are printed as `\x1b` or `\u202e`. A pipe or a file gets the text as it is,
for the program behind it; only lone surrogates, which no encoding has, are escaped there too.
"""

from __future__ import annotations

import codecs
import sys
from typing import Any, Final

import click

from mcpx.text import escaped

_SURROGATES: Final = "backslashreplace"


def echo(text: str, *, err: bool = False, **style: Any) -> None:
    """Print a text and a line end; `style` as click's, on a terminal."""
    if not (sys.stderr if err else sys.stdout).isatty():
        click.echo(text.encode("utf-8", _SURROGATES).decode(), err=err, color=True)  # its escapes are its own
    else:
        click.echo(click.style(escaped(text), **style) if any(style.values()) else escaped(text), err=err)


class RawOutput:
    """Standard output for bytes that come in pieces: the bytes as they are, or escaped on a terminal."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self._terminal = sys.stdout.isatty()

    def write(self, piece: bytes) -> None:
        """Print a piece at once."""
        if self._terminal:
            sys.stdout.write(escaped(self._decode(piece)))
        else:
            sys.stdout.buffer.write(piece)
        sys.stdout.flush()
