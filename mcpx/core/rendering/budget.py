"""Large texts in parts that fit a budget of tokens, cut at whole rows or lines.

Owns `cut`, which is pure. Rows and lines are counted by the text alone, never by the budget, so that the
parts of one text fit together whatever budget each was made for: a part that ends at one row is followed by
the part that starts there, and all of them together hold the whole text.

JSON is cut between its rows (`mcpx.core.rendering.json_rows`), and each part is JSON of the shape of the
whole. Any other text is cut between lines, as is a long string that makes up most of a JSON text. A line that
is over the budget alone is cut between characters. A row that is over it, and has no rows of its own, is
shown with marks in the place of the values that do not fit, each with the JMESPath that selects it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from mcpx.core.rendering.json_rows import Path, Rows, find_rows, parts_of, select_path
from mcpx.core.rendering.tokens import estimate_result

Unit = Literal["rows", "lines", "characters"]
FindRows = Callable[[str], Rows | None]

_FILLED: Final = 0.9  # of the budget, because an estimate errs, and a line about the rest is added
_WELL_FILLED: Final = 0.95
_MAX_CHARS_PER_TOKEN: Final = 8  # in what is looked at to fill a budget
_GUESSED_CHARS_PER_TOKEN: Final = 3
_TRIES: Final = 8
_MARK_TOKENS: Final = 25
_KEY_TOKENS: Final = 4
_COUNTED_CHARS: Final = 65_536


class Part(msgspec.Struct, frozen=True):
    """A part of a text: `text` shows the units from `start` to before `end`, of `total` in all."""

    text: str
    unit: Unit
    total: int
    start: int
    end: int

    @property
    def remaining(self) -> int:
        """Number of units behind this part."""
        return self.total - self.end


def fits(text: str, budget: int) -> bool:
    """Return True if a text is within a budget of tokens. Costs nothing where the text is short."""
    return len(text) <= budget or estimate_result(text) <= budget


def cut(
    text: str,
    budget: int,
    *,
    start: int = 0,
    count: int | None = None,
    unit: Unit | None = None,
    form: Callable[[str], str] | None = None,
    find: FindRows = find_rows,
) -> Part:
    """The part of `text` from the unit `start` on that fits `budget` tokens, and has `count` units at most.

    It holds one unit at least, if there is one. `form` shows JSON text (as TOON, say). `unit` is "characters"
    for a start that counts characters, as behind a part of that unit. `find` finds the rows of a text, and
    may remember them.
    """
    budget = max(1, int(budget * _FILLED))
    rows = find(text)
    show = form or str
    if rows is None:
        return _cut_text(text, budget, str, start=start, count=count, unit=unit)
    if rows.text is None:
        return _cut_rows(rows, budget, start, count, show)
    within = rows

    def wrapped(lines: str) -> str:
        return show(within.wrapped(lines, first=start == 0).decode())

    return _cut_text(within.text or "", budget, wrapped, start=start, count=count, unit=unit)


def _cut_rows(rows: Rows, budget: int, start: int, count: int | None, show: Callable[[str], str]) -> Part:
    start = min(max(start, 0), rows.total)
    most = rows.total if count is None else min(rows.total, start + max(count, 1))

    def shown(end: int) -> str:
        return show(rows.page(start, end).decode())

    guess = budget * _GUESSED_CHARS_PER_TOKEN * max(rows.total, 1) // max(rows.size, 1)
    end, text = _fill(shown, start, most, guess, budget)
    if end == start + 1 and estimate_result(text) > budget:
        text = show(_reduced(rows, start, budget))
    return Part(text, "rows", rows.total, start, end)


def _fill(shown: Callable[[int], str], start: int, most: int, guess: int, budget: int) -> tuple[int, str]:
    """The farthest end up to `most` found in some tries that is within the budget, with what it shows.

    At least one unit is shown. `guess` is how many are likely to fit.
    """
    best, over = min(start + 1, most), most + 1
    text = shown(best)
    end = start + guess
    for attempt in range(_TRIES):
        if best + 1 >= over:
            break
        end = min(max(end, best + 1), over - 1)
        tried = shown(end)
        cost = max(estimate_result(tried), 1)
        if cost <= budget:
            best, text = end, tried
            if cost > budget * _WELL_FILLED:
                break
        else:
            over = end
        proportional = start + (end - start) * budget * 19 // (cost * 20)
        end = proportional if attempt < _TRIES // 2 else (best + over) // 2
    return best, text


def _cut_text(
    text: str, budget: int, show: Callable[[str], str], *, start: int, count: int | None, unit: Unit | None
) -> Part:
    if unit == "characters":
        return _cut_characters(text, budget, start, count, show)
    total = text.count("\n") + (not text.endswith("\n")) if text else 0
    start = min(max(start, 0), total)
    first = _line_start(text, start)
    most = total if count is None else min(total, start + max(count, 1))
    window = text[first : first + (budget + 1) * _MAX_CHARS_PER_TOKEN]
    lines = window.split("\n")
    ends = list(itertools.accumulate(len(line) + 1 for line in lines[:-1]))
    if lines[-1] and first + len(window) == len(text):
        ends.append(len(window))
    if start < most and (not ends or estimate_result(show(window[: ends[0]])) > budget):
        return _cut_characters(text, budget, first, None, show)

    def shown(end: int) -> str:
        return show(window[: ends[end - start - 1]] if end > start else "")

    end, part = _fill(shown, start, min(most, start + len(ends)), len(ends) // 2, budget)
    return Part(part, "lines", total, start, end)


def _cut_characters(
    text: str, budget: int, start: int, count: int | None, show: Callable[[str], str]
) -> Part:
    total = len(text)
    start = min(max(start, 0), total)
    most = min(total, start + (budget * _MAX_CHARS_PER_TOKEN if count is None else max(count, 1)))

    def shown(end: int) -> str:
        return show(text[start:end])

    end, part = _fill(shown, start, most, budget * _GUESSED_CHARS_PER_TOKEN, budget)
    if end < total and (gap := _gap(text, start + (end - start) * 3 // 4, end)):
        end, part = gap, shown(gap)
    return Part(part, "characters", total, start, end)


def _gap(text: str, start: int, end: int) -> int:
    """Return where the last line, else word, else value of a list between two places ends; 0 where none
    does.
    """
    return next((found + 1 for each in "\n ," if (found := text.rfind(each, start, end)) >= 0), 0)


def _line_start(text: str, line: int) -> int:
    """Return where a line begins, or the end of the text."""
    position = 0
    while line and position < len(text):
        counted = text.count("\n", position, position + _COUNTED_CHARS)
        if counted < line:
            line -= counted
            position += _COUNTED_CHARS
            continue
        for _ in range(line):
            position = text.index("\n", position) + 1
        return position
    return min(position, len(text))


def _reduced(rows: Rows, index: int, budget: int) -> str:
    """One row, over the budget as a whole, with marks in the place of those of its values that do not fit."""
    path, value = next(rows.rows(index, index + 1))
    for first in (index == 0, False):  # without what stands around the rows, where that is too much
        left = budget - estimate_result(rows.assembled([(path, None)], first=first).decode())
        if left >= budget // 2:
            break
    return rows.assembled([(path, _marked(value, path, left))], first=first).decode()


def _marked(value: msgspec.Raw, path: Path, budget: int) -> Any:
    """The smallest members of a value that fit the budget, in their order, and marks for the others."""
    parts = parts_of(value)
    if not parts:
        return _mark(value, path)
    items: list[tuple[Any, msgspec.Raw]] = list(
        parts.items() if isinstance(parts, dict) else enumerate(parts)
    )
    costs = [estimate_result(str(memoryview(each), "utf-8")) + _KEY_TOKENS for _, each in items]
    left = budget - _MARK_TOKENS
    whole: set[int] = set()
    for index in sorted(range(len(items)), key=costs.__getitem__):
        left -= costs[index]
        if left < 0:
            left += costs[index]
            break
        whole.add(index)
    shown: dict[Any, Any] = {}
    for index, (key, each) in enumerate(items):
        if index in whole:
            shown[key] = each
        elif left >= _MARK_TOKENS:
            left -= _MARK_TOKENS
            shown[key] = _mark(each, (*path, key))
    if len(shown) < len(items):
        shown["..." if isinstance(parts, dict) else len(items)] = (
            f"<{len(items) - len(shown)} more: select={select_path(path)}>"
        )
    return shown if isinstance(parts, dict) else list(shown.values())


def _mark(value: msgspec.Raw, path: Path) -> str:
    return f"<{len(memoryview(value))} characters: select={select_path(path)}>"
