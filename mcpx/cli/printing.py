r"""Printing for people and programs: texts, tables, JSON, and numbers in few cells.

Text of servers and users is printed on a terminal with escapes for what it would obey or hide.

A terminal obeys control characters, and does not show what is invisible or written against the direction of
reading: there such characters are printed as `\x1b` or `\u202e`. A pipe or a file gets the text as it is,
for the program behind it; only lone surrogates, which no encoding has, are escaped there too.

There is no style at all, bold and dim included, where `NO_COLOR` says so (https://no-color.org).
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from mcpx.core.text import escaped, one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

MAX_ROWS: Final = 21
"""Of a plan: the question stands right under it, on a screen of 24."""
PIPE_WIDTH: Final = 100_000  # cells; a pipe has no width of its own, and nothing is cut or wrapped there
Columns = Mapping[str, Mapping[str, Any]]
"""Headers, each with the options of its column (rich's `add_column`)."""
Line = tuple[str, str | None]
"""A line, and its colour; without one and not indented it is a heading."""
Cell = str | tuple[str, str]
"""A text, or a text and its style."""
NO_WRAP: Final = {"no_wrap": True}
RIGHT: Final = {"justify": "right"}
FOLD: Final = {"overflow": "fold"}
NUMBER: Final = NO_WRAP | RIGHT
_PADDING: Final = re.compile(r" +$", re.MULTILINE)
_SURROGATES: Final = "backslashreplace"
_MINUTE_S: Final = 60
_HOUR_S: Final = 60 * _MINUTE_S
_DAY_S: Final = 24 * _HOUR_S
_THOUSANDS_FROM: Final = 10_000
_MILLION: Final = 1_000_000
_PRECISE_BELOW: Final = 10.0  # tenths are shown of what is less
_SECONDS_FROM_MS: Final = 10_000.0
_DECIMAL: Final = ((1_000_000_000, "G"), (_MILLION, "M"), (1_000, "k"))
_BINARY: Final = ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))


def echo(text: str, *, err: bool = False, **style: Any) -> None:
    """Print a text and a line end; `style` as click's, on a terminal."""
    if not (sys.stderr if err else sys.stdout).isatty():
        click.echo(text.encode("utf-8", _SURROGATES).decode(), err=err, color=True)  # its escapes are its own
    else:
        styled = any(style.values()) and not without_style()
        click.echo(click.style(escaped(text), **style) if styled else escaped(text), err=err)


def width() -> int:
    """The cells of a line of standard output."""
    if not sys.stdout.isatty():
        return PIPE_WIDTH
    import shutil  # with three compressors, for a terminal alone

    return shutil.get_terminal_size().columns


def echo_plan(whole: Sequence[Line], *shorter: Callable[[], Iterable[Line]], diff: bool) -> None:
    """Print the lines of a plan: whole with `diff`, else the first form that leaves room for the question.

    The last one is printed in any case.
    """
    lines = whole
    for form in () if diff else shorter:
        if sum(1 + max(0, len(text) - 1) // width() for text, _ in lines) <= MAX_ROWS:
            break
        lines = list(form())
    for text, colour in lines:
        echo(text, fg=colour, bold=colour is None and not text.startswith(" "))


def print_json(value: object) -> None:
    """Print a value for programs."""
    echo(json.dumps(value, indent=2, ensure_ascii=False))


def without_style() -> bool:
    """Return True if the person wants no colours."""
    return bool(os.environ.get("NO_COLOR"))


def console(*, err: bool = False) -> Console:
    """Standard output, or standard error, for tables: as wide as the terminal, in a pipe without limit."""
    from rich.console import Console  # rich is for tables alone

    stream = sys.stderr if err else sys.stdout
    if not stream.isatty():
        return Console(file=_Unpadded(stream), width=PIPE_WIDTH)  # type: ignore[arg-type]  # it writes, and no more
    if without_style():
        return Console(stderr=err, color_system=None)
    return Console(stderr=err)


def print_table(headers: Columns, rows: Iterable[Sequence[Cell]], *, gap: int = 2) -> None:
    """Print rows of texts, `gap` cells apart."""
    table = table_of(headers, gap=gap)
    for row in rows:
        table.add_row(*map(_text, row))
    console().print(table)


def table_of(headers: Columns, *, gap: int = 1) -> Table:
    """A table without lines and rows, its columns `gap` cells apart."""
    from rich.table import Table  # likewise

    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for header, options in headers.items():
        table.add_column(header, **options)
    return table


def print_texts(texts: Iterable[Cell]) -> None:
    """Print texts, a line each, wrapped between words on a terminal."""
    for text in texts:
        console().print(_text(text))


def _text(cell: Cell) -> Text:
    from rich.text import Text  # likewise; never read as markup

    text, style = (cell, "") if isinstance(cell, str) else cell
    return Text(one_line(text), style=style)


class _Unpadded:
    """A text stream that is given lines whole, and leaves out the spaces at their ends."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.encoding = stream.encoding
        self.flush = stream.flush

    def write(self, text: str) -> None:
        self._stream.write(_PADDING.sub("", text))

    def isatty(self) -> bool:
        return False


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


# --- numbers in few cells; `-` for one that is not known


def duration(seconds: float | None) -> str:
    """`8s`, `12m`, `3h`, `3h05`, `9d`: at most five cells for what lives less than three years."""
    if seconds is None:
        return "-"
    if seconds < _MINUTE_S:
        return f"{seconds:.0f}s"
    if seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S:.0f}m"
    if seconds < _DAY_S:
        return f"{seconds // _HOUR_S:.0f}h{seconds % _HOUR_S // _MINUTE_S:02.0f}"
    return f"{seconds // _DAY_S:.0f}d"


def count(number: int) -> str:
    """A number in at most four cells, up to a billion: `9999`, `123k`, `45M`."""
    if number < _THOUSANDS_FROM:
        return str(number)
    return f"{number // 1000}k" if number < _MILLION else f"{number // _MILLION}M"


def rate(per_second: float | None) -> str:
    """A number a second: `0`, `1.2`, `340`, `12k`."""
    if per_second is None:
        return "-"
    return f"{per_second:.1f}" if 0 < abs(per_second) < _PRECISE_BELOW else count(round(per_second))


def latency(milliseconds: float | None) -> str:
    """Milliseconds in at most four cells: `0.3`, `85`, `9999`, `12s`."""
    if milliseconds is None:
        return "-"
    return precise(milliseconds) if milliseconds < _SECONDS_FROM_MS else f"{milliseconds / 1000:.0f}s"


def percent(share: float | None) -> str:
    """A share of one core: `0%`, `0.4%`, `85%`, `400%`."""
    if share is None:
        return "-"
    return f"{100 * share:.1f}%" if 0 < 100 * share < 1 else f"{100 * share:.0f}%"


def in_bytes(size: int) -> str:
    """`640K`, `85M`, `1.2G`."""
    return _scaled(size, _BINARY)


def tokens(number: int) -> str:
    """A number of tokens, its digits in at most five characters: `950`, `-1.2k`, `86k`, `4.1M`."""
    return _scaled(number, _DECIMAL) if number >= 0 else f"-{_scaled(-number, _DECIMAL)}"


def saved(direct: int, spent: int) -> str:
    """The share that was saved: `93 %`, negative where MCPX has cost more; `-` where there was nothing."""
    return f"{round(100 * (direct - spent) / direct)} %" if direct else "-"


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def precise(number: float, below: float = _PRECISE_BELOW) -> str:
    """A number with tenths below a limit."""
    return f"{number:.1f}" if number < below else f"{number:.0f}"


def _scaled(number: int, units: tuple[tuple[int, str], ...]) -> str:
    return next((precise(number / unit) + letter for unit, letter in units if number >= unit), str(number))
