"""Spans of time on the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mcpx.cli.options import LONGEST, duration_of


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("1 h", 3600), ("0d", 0)])
def test_a_number_and_a_unit_are_a_span(text, seconds):
    assert duration_of(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "h", "1", "1y", "-1h", "1.5h", "999999w"])
def test_anything_else_is_none(text):
    assert duration_of(text) is None


def test_the_longest_has_dates_on_both_sides():
    now = datetime.now(UTC)
    assert now - LONGEST < now < now + LONGEST
