"""The page of `status --watch`: what of a long table is in the window, and how keys move it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from mcpx.cli.operations.watching import Page

LONG = Text("\n".join(f"row {number}" for number in range(50)))


def shown(page, *, height=10, width=60) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    console.print(page, height=height)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_long_table_is_cut_at_the_window_and_says_how_much_more_there_is():
    lines = shown(Page(LONG))
    assert lines[:2] + lines[8:9] == ["row 0", "row 1", "row 8"]
    assert len(lines) == 10
    assert lines[-1].endswith("41 more below  arrows move, q quits")


def test_a_short_table_says_only_how_to_leave():
    lines = shown(Page(Text("row")))
    assert (lines[0], len(lines)) == ("row", 10)
    assert lines[-1].endswith("  q quits")


@pytest.mark.parametrize(
    ("keys", "first"),
    [
        (["j", "\x1b[B", "x"], 2),
        (["j", "k", "k"], 0),
        ([" "], 8),
        (["G"], 41),
        (["G", "\x1b[A"], 40),
        (["G", "g"], 0),
        (["\x1b[6~", "\x1b[5~"], 0),
    ],
)
def test_keys_move_it_within_its_ends(keys, first):
    page = Page(LONG)
    shown(page)
    for key in keys:
        page.move(key)
        shown(page)
    assert shown(page)[0] == f"row {first}"


def test_a_problem_stands_above_what_was_known_before():
    page = Page(LONG)
    page.problem = "no daemon serves x"
    lines = shown(page)
    assert (lines[0], lines[1], len(lines)) == ("no daemon serves x", "row 0", 10)


@pytest.mark.parametrize("height", [1, 2, 3])
def test_a_window_of_a_few_lines_is_enough(height):
    assert len(shown(Page(LONG), height=height)) <= max(2, height)
