"""The small pure rules: backoff, intensity, strategy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisors import Backoff, Intensity, Strategy, delay
from supervisors.policy import siblings_to_restart


@pytest.mark.parametrize(("failures", "seconds"), [(1, 0), (2, 0.5), (3, 1), (4, 2), (9, 60), (10_000, 60)])
def test_delays_double_up_to_the_cap(failures, seconds):
    assert delay(failures, 1.0, Backoff()) == seconds


@given(st.integers(2, 10_000), st.floats(0.5, 1.0))
def test_jitter_takes_off_at_most_half(failures, jitter):
    full = delay(failures, 1.0, Backoff())
    assert full / 2 <= delay(failures, jitter, Backoff()) <= full


@pytest.mark.parametrize(("failures", "jitter"), [(0, 1.0), (-1, 1.0), (2, 0.49), (2, 1.01)])
def test_nonsense_is_refused(failures, jitter):
    with pytest.raises(ValueError, match=r"must be|counts from"):
        delay(failures, jitter, Backoff())


def test_intensity_counts_only_its_window():
    intensity = Intensity(restarts=2, within=10)
    assert not intensity.exceeded([0, 1], now=1)
    assert intensity.exceeded([0, 1, 2], now=2)
    assert not intensity.exceeded([0, 1, 12], now=12)


def test_strategies_name_the_siblings_youngest_first():
    children = ["a", "b", "c", "d"]
    assert siblings_to_restart(Strategy.ONE_FOR_ONE, children, "b") == []
    assert siblings_to_restart(Strategy.ONE_FOR_ALL, children, "b") == ["d", "c", "a"]
    assert siblings_to_restart(Strategy.REST_FOR_ONE, children, "b") == ["d", "c"]
