"""When tokens are renewed, and the pauses after failures."""

from __future__ import annotations

import math

import pytest

from mcpx.oauth import renewal
from mcpx.oauth.renewal import Pause, good_until, pause_after, renewal_at
from tests.mcpx.oauth.records import tokens_of


@pytest.mark.parametrize(
    ("lifetime_s", "at"),
    [
        (3600, 3300),
        (86400, 86100),
        (600, 480),
        (10, 8),
        (2, 1.6),
        (1, math.inf),
        (0, math.inf),
        (None, math.inf),
    ],
)
def test_a_token_is_renewed_ahead_of_its_expiry(lifetime_s, at):
    tokens = tokens_of(now=0, lifetime_s=lifetime_s)
    assert renewal_at(tokens, 0) == pytest.approx(at)
    if at < math.inf:
        assert 0 < renewal_at(tokens, 1) < at < good_until(tokens) < lifetime_s


def test_a_token_that_had_expired_before_it_came_is_never_good():
    assert good_until(tokens_of(now=0, lifetime_s=-5)) <= 0


def test_pauses_grow_to_five_minutes_and_a_call_waits_for_five_seconds_at_most():
    pause, now, lengths = Pause(), 100.0, []
    for _ in range(12):
        pause = pause_after(pause, now, 1.0, None)
        lengths.append(pause.until - now)
        assert pause.demand_from - now <= 5
    assert lengths[:9] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert lengths[9:] == [300, 300, 300]
    assert pause_after(Pause(10**6), now, 0.5, None).until - now == 150


@pytest.mark.parametrize(("asked_s", "length_s"), [(30.0, 30), (0.0, 1), (-5.0, 1), (1e12, 3600)])
def test_the_pause_that_an_issuer_asks_for_is_kept_by_calls_too(asked_s, length_s):
    pause = pause_after(Pause(), 0.0, 1.0, asked_s)
    assert pause.until == pause.demand_from == length_s


def test_a_leeway_is_small():
    assert good_until(tokens_of(now=0, lifetime_s=3600)) == 3598
    assert good_until(tokens_of(now=0, lifetime_s=4)) == pytest.approx(3.8)
    assert renewal.lifetime_s(tokens_of(now=0, lifetime_s=-3)) == 0
