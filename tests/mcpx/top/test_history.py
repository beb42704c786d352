"""Rates of `mcpx top`: what two statuses say together, and the curves that many of them make."""

from __future__ import annotations

import pytest

from mcpx.top.history import SAMPLES, History, bars
from tests.mcpx.top.statuses import server, status, tokens


def test_a_rate_is_what_was_added_over_the_time_that_has_passed():
    history = History()
    first = history.take(status(server(calls=10, failed=1), server("web", calls=5)), at=100.0)
    assert [row.rate for row in first.rows] == [None, None]
    assert first.calls == (None,)
    files = server(calls=14, failed=2, refused=9, tokens=tokens(900, 100))
    then = history.take(status(files, server("web", calls=5)), at=102.0)
    assert [row.rate for row in then.rows] == [2.0, 0.0]
    assert (then.calls[-1], then.failures[-1], then.saved[-1]) == (2.0, 0.5, 400.0)


def test_a_count_that_began_again_is_no_negative_rate():
    history = History()
    history.take(status(server(calls=1000)), at=1.0)
    assert history.take(status(server(calls=4)), at=2.0).rows[0].rate == 4.0


def test_a_server_that_is_new_has_no_rate_and_one_that_went_is_forgotten():
    history = History()
    history.take(status(server("old", calls=9)), at=1.0)
    overview = history.take(status(server("new", calls=9)), at=2.0)
    assert (overview.rows[0].rate, overview.calls) == (None, (None, 0))
    overview = history.take(status(server("old", calls=9)), at=3.0)
    assert overview.rows[0].calls == (None,)


def test_a_time_without_an_answer_is_a_gap_in_every_curve():
    history = History()
    history.take(status(server(calls=1)), at=1.0)
    history.take(status(server(calls=2)), at=2.0)
    history.miss()
    overview = history.take(status(server(calls=50)), at=9.0)
    assert overview.rows[0].calls == (None, 1.0, None, None)
    assert history.take(status(server(calls=53)), at=10.0).calls[-1] == 3.0


def test_curves_are_bounded():
    history = History()
    for at in range(SAMPLES + 50):
        overview = history.take(status(server(calls=at)), at=float(at))
    assert len(overview.calls) == len(overview.rows[0].calls) == SAMPLES


@pytest.mark.parametrize(
    ("curve", "width", "drawn"),
    [
        ((), 3, "   "),
        ((0.0, 0.0), 3, " ▁▁"),
        ((0.0, 1.0, None, 8.0), 4, "▁▂ █"),
        ((8.0, 4.0, 2.0), 2, "█▅"),
        ((-3.0, 0.001), 2, "▁█"),
        ((0.01, 100.0), 2, "▂█"),
        ((1.0,), 0, ""),
        ((1.0,), -5, ""),
    ],
)
def test_a_curve_is_drawn_in_blocks(curve, width, drawn):
    assert bars(curve, width) == drawn
