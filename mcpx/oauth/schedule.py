"""When tokens are renewed: ahead of their expiry, and after a failure with growing pauses. Pure."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from mcpx.oauth.record import Tokens

MAX_AHEAD_S: Final = 300.0  # before the expiry, ...
AHEAD_SHARE: Final = 0.2  # ... and of the lifetime
MIN_LIFETIME_S: Final = 2.0  # of a token that is renewed ahead; a shorter one when it is needed
FIRST_PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 300.0
MAX_ASKED_PAUSE_S: Final = 3600.0  # that an authorization server may ask for (Retry-After)
DEMAND_PAUSE_S: Final = 5.0  # the longest that a call is kept from trying again, if the server asks for none
_LEEWAY_SHARE: Final = 0.05  # of the lifetime, in which a token counts as expired: it may expire on its way
_MAX_LEEWAY_S: Final = 2.0


def lifetime_s(tokens: Tokens) -> float:
    """How long an access token is good from when it was obtained."""
    return math.inf if tokens.expires_at is None else max(0.0, tokens.expires_at - tokens.obtained_at)


def good_until(tokens: Tokens) -> float:
    """Until when an access token is used, in seconds since 1970."""
    if tokens.expires_at is None:
        return math.inf
    return tokens.expires_at - min(_MAX_LEEWAY_S, _LEEWAY_SHARE * lifetime_s(tokens))


def renewal_at(tokens: Tokens, spread: float) -> float:
    """When to renew it, in seconds since 1970; infinite for never.

    `spread`, from 0 to 1, is for accounts whose tokens would all expire together.
    """
    lifetime = lifetime_s(tokens)
    if tokens.expires_at is None or lifetime < MIN_LIFETIME_S:
        return math.inf
    return tokens.expires_at - min(MAX_AHEAD_S, AHEAD_SHARE * lifetime) * (1 + AHEAD_SHARE * spread)


class Pause(msgspec.Struct, frozen=True):
    """What follows `failures` in a row: until when nobody tries by himself, and no call either.

    Both are readings of the event loop's clock, so that a jump of the wall clock changes nothing.
    """

    failures: int = 0
    until: float = -math.inf
    demand_from: float = -math.inf


def pause_after(before: Pause, now: float, jitter: float, asked_s: float | None) -> Pause:
    """The pause after one more failure. `jitter` is from 0.5 to 1; `asked_s` is what the server asks for."""
    failures = before.failures + 1
    own_s = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 1, 20)) * jitter
    if asked_s is not None:
        asked_s = min(MAX_ASKED_PAUSE_S, max(0.0, asked_s))
        return Pause(failures, now + max(own_s, asked_s), now + max(asked_s, min(own_s, DEMAND_PAUSE_S)))
    return Pause(failures, now + own_s, now + min(own_s, DEMAND_PAUSE_S))
