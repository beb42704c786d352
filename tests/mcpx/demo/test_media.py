"""The chart and the tone as bytes."""

from __future__ import annotations

import pytest

from mcpx.demo import media


def test_the_same_numbers_give_the_same_bytes():
    assert media.bar_chart([1, 2]) == media.bar_chart([1, 2]) != media.bar_chart([2, 1])
    assert media.tone(440, 0.1) == media.tone(440, 0.1) != media.tone(441, 0.1)


@pytest.mark.parametrize("values", [[], [-1.0]])
def test_a_chart_of_nothing_or_below_zero_is_refused(values):
    with pytest.raises(ValueError, match="at least one value, and none below zero"):
        media.bar_chart(values)


def test_a_chart_of_zeros_is_drawn():
    assert media.bar_chart([0, 0]).startswith(b"\x89PNG")
