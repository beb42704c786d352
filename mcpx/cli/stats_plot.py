"""`mcpx stats --plot`: the tokens that MCPX has saved its clients, as a picture.

`picture` is pure: it draws a report, as `mcpx stats --json` has it, and gives the bytes of a PNG. A bar for
what each server, client or tool would have cost directly, and one for what it has cost; the sums above them.
The font comes with Pillow and has little more than ASCII, so a name that needs more is drawn in a font of the
system, where one has all of it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from PIL import Image, ImageDraw, ImageFont

from mcpx.cli.stats import saved, tokens
from mcpx.core.text import one_line

SCALE: Final = 2  # pixels for each unit below, for screens with a high density
WIDTH: Final = 960
MARGIN: Final = 40
NAMES: Final = 210  # the width of the column of names
SAVED: Final = 70  # of the column with the shares
VALUE: Final = 56  # what a number behind the longest bar takes
ROW: Final = 36
BAR: Final = 12
HEADING: Final = 46  # of a part, with its name
AXIS: Final = 34  # under its bars
TOP: Final = 136
BOTTOM: Final = 46
MAX_ROWS: Final = 12  # of a part; the others are summed
MAX_NAME_CHARS: Final = 100
TICKS: Final = 5  # at most, beside zero

PAPER: Final = "#ffffff"
INK: Final = "#1e293b"
MUTED: Final = "#64748b"
GRID: Final = "#e2e8f0"
DIRECT: Final = "#b6c2d1"
SPENT: Final = "#0d9488"

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
SYSTEM_FONTS: Final = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "NotoSansCJK-Regular.ttc",
    "Arial Unicode.ttf",
    "LiberationSans-Regular.ttf",
)
_LISTS: Final = {"server": "servers", "client": "clients", "tool": "tools"}
_NO_GLYPH: Final = "\U000fffff"  # a character that no font has

Row = tuple[str, dict[str, Any]]


def picture(report: dict[str, Any], parts: Sequence[str]) -> bytes:
    """Draw a report with a part for each of `server`, `client`, `tool` that is in `parts`; a PNG."""
    all_time = report["all_time"]
    rows_of = {by: rows(all_time[_LISTS[by]], by) for by in parts}
    height = TOP + BOTTOM + sum(HEADING + ROW * len(its) + AXIS for its in rows_of.values())
    canvas = _Canvas(height)
    _head(canvas, all_time)
    top = TOP
    for by, its in rows_of.items():
        top = _part(canvas, top, f"By {by}", its)
    today = datetime.now(UTC).date().isoformat()
    canvas.text(
        MARGIN, height - 22, f"Estimated tokens of results and lists of tools. MCPX, {today}", 12, MUTED
    )
    return canvas.png()


def rows(listed: list[dict[str, Any]], by: str) -> list[Row]:
    """The rows of a part: those that would have cost most, and the sum of the others."""
    named = [(f"{row['server']} {row['tool']}" if by == "tool" else str(row[by]), row) for row in listed]
    if len(named) <= MAX_ROWS:
        return named
    shown, others = named[: MAX_ROWS - 1], named[MAX_ROWS - 1 :]
    summed = {key: sum(row[key] for _, row in others) for key in ("calls", "direct", "spent")}
    return [*shown, (f"{len(others)} others", summed)]


def _head(canvas: _Canvas, all_time: dict[str, Any]) -> None:
    total = all_time["total"]
    calls = "1 call" if total["calls"] == 1 else f"{total['calls']:,} calls"
    canvas.text(MARGIN, 44, "Tokens directly and through MCPX", 26, INK)
    canvas.text(
        MARGIN,
        76,
        f"Since {all_time['since']}, {calls}: {tokens(total['direct'])} directly,"
        f" {tokens(total['spent'])} through MCPX",
        15,
        MUTED,
    )
    left = MARGIN
    for colour, name in ((DIRECT, "directly, without MCPX"), (SPENT, "through MCPX")):
        canvas.bar(left, 102, BAR, BAR, colour)
        left += 20 + canvas.text(left + 20, 108, name, 13, INK) + 24
    right = WIDTH - MARGIN
    canvas.text(right, 48, saved(total), 40, SPENT, anchor="rm")
    canvas.text(right, 80, "saved", 15, MUTED, anchor="rm")


def _part(canvas: _Canvas, top: int, title: str, its: list[Row]) -> int:
    """Draw a part from `top` on; where it ends."""
    canvas.text(MARGIN, top + 20, title, 17, INK)
    canvas.text(WIDTH - MARGIN, top + 20, "saved", 13, MUTED, anchor="rm")
    first, left = top + HEADING, MARGIN + NAMES
    bottom = first + ROW * len(its)
    width = WIDTH - MARGIN - SAVED - VALUE - left
    longest = max((max(row["direct"], row["spent"]) for _, row in its), default=0) or 1
    step = tick_step(longest)
    for tick in range(0, longest + 1, step):
        at = left + width * tick // longest
        canvas.line(at, first - 4, at, bottom + 2, GRID)
        canvas.text(at, bottom + 14, tokens(tick), 12, MUTED, anchor="mm")
    for number, (name, row) in enumerate(its):
        middle = first + ROW * number + ROW // 2
        canvas.text(MARGIN, middle, name, 14, INK, limit=NAMES - 16)
        for key, colour, at in (("direct", DIRECT, middle - BAR - 1), ("spent", SPENT, middle + 1)):
            length = width * row[key] // longest
            canvas.bar(left, at, length, BAR, colour)
            canvas.text(left + length + 6, at + BAR // 2, tokens(row[key]), 12, MUTED)
        canvas.text(WIDTH - MARGIN, middle, saved(row), 14, INK, anchor="rm")
    return bottom + AXIS


def tick_step(longest: int) -> int:
    """The distance of the ticks: 1, 2 or 5 times a power of ten, for at most `TICKS` of them."""
    step = 1
    while longest // step > TICKS:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return step


class _Canvas:
    """A picture that is drawn in units."""

    def __init__(self, height: int) -> None:
        self._image = Image.new("RGB", (WIDTH * SCALE, height * SCALE), PAPER)
        self._draw = ImageDraw.Draw(self._image)

    def text(
        self,
        x: int,
        y: int,
        text: str,
        size: int,
        colour: str,
        *,
        anchor: str = "lm",
        limit: int | None = None,
    ) -> int:
        """Write a line at a point, cut to `limit` in width; its width."""
        line = one_line(text, MAX_NAME_CHARS)
        font, line = _drawable(line, size)
        if limit is not None and font.getlength(line) > limit * SCALE:
            while line and font.getlength(f"{line}...") > limit * SCALE:
                line = line[:-1]
            line = f"{line.rstrip()}..."
        self._draw.text((x * SCALE, y * SCALE), line, fill=colour, font=font, anchor=anchor)
        return round(font.getlength(line) / SCALE)

    def bar(self, x: int, y: int, width: int, height: int, colour: str) -> None:
        """Draw a bar, at least as wide as can be seen if it has a width at all."""
        if width <= 0:
            return
        box = (x * SCALE, y * SCALE, (x + width) * SCALE - 1, (y + height) * SCALE - 1)
        self._draw.rounded_rectangle(box, radius=min(2, width) * SCALE // 2, fill=colour)

    def line(self, x0: int, y0: int, x1: int, y1: int, colour: str) -> None:
        """Draw a line."""
        self._draw.line((x0 * SCALE, y0 * SCALE, x1 * SCALE, y1 * SCALE), fill=colour, width=1)

    def png(self) -> bytes:
        """The picture as a file's contents."""
        file = io.BytesIO()
        self._image.save(file, "PNG", optimize=True)
        return file.getvalue()


def _drawable(line: str, size: int) -> tuple[Font, str]:
    """A font that has every character of the line; where there is none, the line with `?` for what lacks."""
    own, *others = _fonts(size) if not line.isascii() else (_own_font(size),)
    for font in (own, *others):
        if all(_has(font, character) for character in set(line)):
            return font, line
    return own, "".join(character if _has(own, character) else "?" for character in line)


@cache
def _own_font(size: int) -> Font:
    return ImageFont.load_default(size * SCALE)


@cache
def _fonts(size: int) -> tuple[Font, ...]:
    found: list[Font] = [_own_font(size)]
    for name in SYSTEM_FONTS:
        try:
            found.append(ImageFont.truetype(name, size * SCALE))
        except OSError:  # this system does not have it
            continue
    return tuple(found)


@cache
def _has(font: Font, character: str) -> bool:
    """Whether a font has a character: what it lacks is drawn as one and the same sign."""
    return character.isascii() or bytes(font.getmask(character)) != bytes(font.getmask(_NO_GLYPH))
