"""The table of `mcpx top`: what fits a width, what stands there, and how rows are chosen and sorted."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from mcpx.core.system.processes import Use
from mcpx.top.columns import NAME, SORTS, chosen, fitted
from mcpx.top.history import Row
from tests.mcpx.top.statuses import server, tokens

BUSIEST = server(
    "数据库-with-a-name-that-is-much-too-long-for-any-table",
    "needs sign-in",
    uptime_s=86399.0,
    restarts=12345,
    calls=1_234_567,
    errors=98_765,
    in_flight=64,
    queued=128,
    tokens=tokens(100, 1_234_567),
    last_error="it crashed\x1b[2J\n" + "x" * 10_000,
)


def row(known, *curve):
    return Row(known, curve)


@pytest.mark.parametrize("width", [1, 20, 24, 40, 60, 79, 80, 100, 120, 160, 300])
def test_whatever_the_width_every_line_fits_and_the_name_and_the_state_come_first(width):
    columns = fitted(width, [BUSIEST.name, "a"])
    uses = {812: Use(3 << 30, 12.5, 0.0)}
    cells = columns.cells(row(BUSIEST, 99_999.0), uses)
    assert [cell_len(cell.plain) for cell in cells] == list(columns.widths)
    assert [cell_len(header.plain) for header in columns.headers] == list(columns.widths)
    assert columns.columns[0] is NAME
    assert "\x1b" not in "".join(cell.plain for cell in cells)
    if width >= 24:
        assert sum(columns.widths) <= width
        assert columns.columns[1].header == "state"


def test_eighty_cells_show_everything_but_what_stands_below_the_table():
    shown = [column.header for column in fitted(79, ["files"]).columns]
    assert shown == [
        *("server", "state", "up", "re", "calls", "/s", "p50", "p95ms", "busy", "fail", "saved", "mem"),
    ]
    shown = [column.header for column in fitted(160, ["files"]).columns]
    assert shown[-3:] == ["cpu", "calls/s", "last error"]
    named = fitted(79, ["a-server-name-of-24-cells"])
    assert (named.widths[0], named.columns[-1].header) == (14, "saved")
    assert fitted(110, ["a-server-name-of-24-cells"]).widths[0] == 25


def test_a_row_reads_like_this():
    ends = {"failed": 3, "refused": 7}
    known = server(calls=2044, **ends, in_flight=1, queued=2, restarts=1, tokens=tokens(90_000, 4_000))
    cells = fitted(79, ["files"]).cells(row(known, 3.0, 12.4), {812: Use(53 << 20, 0.25, 0.0)})
    assert "".join(cell.plain for cell in cells).split() == [
        *("files", "ready", "1m", "1", "2044", "12", "1.2", "12", "1+2", "3", "86k", "53M"),
    ]
    assert "green" in {cells[1].style, *(span.style for span in cells[1].spans)}


def test_rows_are_filtered_by_all_words_in_whatever_is_said_of_a_server():
    rows = [
        row(server("git", "parked", last_error="command not found: git")),
        row(server("GitHub", transport="http")),
        row(server("files")),
    ]
    named = {words: [each.name for each in chosen(rows, words, "name", {})] for words in (
        "", "git", "git hub", "PARKED", "not found", "http", "nothing",
    )}  # fmt: skip
    assert named == {
        "": ["files", "git", "GitHub"],
        "git": ["git", "GitHub"],
        "git hub": ["GitHub"],
        "PARKED": ["git"],
        "not found": ["git"],
        "http": ["GitHub"],
        "nothing": [],
    }


@pytest.mark.parametrize(
    ("order", "first"),
    [
        ("faults", "broken"),
        ("configuration", "plain"),
        ("name", "a"),
        ("state", "broken"),
        ("calls/s", "busy"),
        ("busy", "busy"),
        ("failed", "a"),
        ("refused", "a"),
        ("restarts", "broken"),
        ("saved", "busy"),
        ("memory", "broken"),
        ("cpu", "a"),
    ],
)
def test_what_wants_attention_or_is_largest_comes_first(order, first):
    rows = [
        row(server("plain", pid=None), 1.0),
        row(server("a", pid=1, failed=2, refused=1), None),
        row(server("busy", pid=2, in_flight=3, tokens=tokens(9, 1)), 5.0),
        row(server("broken", "parked", pid=3, restarts=9), 0.0),
    ]
    uses = {1: Use(10, 0.9, 0.0), 2: Use(20, None, 0.0), 3: Use(30, 0.1, 0.0)}
    assert chosen(rows, "", order, uses)[0].name == first


def test_every_order_can_sort_a_server_of_which_nothing_is_known():
    for order in SORTS:
        assert chosen([row(server("odd", "of tomorrow", pid=None, uptime_s=None))], "", order, {})
