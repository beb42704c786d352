"""Unit conversion."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.demo.units import Unit, convert


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (100, "C", "F", 212),
        (-40, "F", "C", -40),
        (0, "C", "K", 273.15),
        (1, "lb", "g", 453.59237),
        (1, "mi", "ft", 5280),
    ],
)
def test_known_conversions(value, source, target, expected):
    assert convert(value, source, target) == pytest.approx(expected, abs=1e-6)


@given(st.floats(-1e6, 1e6), st.sampled_from(get_args(Unit)))
def test_every_unit_converts_to_itself_unchanged(value, unit):
    assert convert(value, unit, unit) == pytest.approx(value, rel=1e-6, abs=1e-6)
