"""`Renewal`: how the tokens of one account are renewed, one at a time and with growing pauses after failures.

A token of a person's sign-in is refreshed; that of a machine (`grant: client_credentials`) is obtained anew.
The result is stored before it is used. Another process may have done all that: then its tokens are taken.
It is done in a `Flight`, which many wait for and which nobody who waits can cut off.
"""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio
import anyio.abc
import msgspec
import structlog

from mcpx.core.config import Http, ServerConfig, Sse
from mcpx.core.telemetry.contained import contain
from mcpx.oauth.challenge import Challenge
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.kept_record import KeptRecord
from mcpx.oauth.record import Record, Tokens

log = structlog.get_logger()
MAX_AHEAD_S: Final = 300.0  # before the expiry, ...
AHEAD_SHARE: Final = 0.2  # ... and of the lifetime
MIN_LIFETIME_S: Final = 2.0  # of a token that is renewed ahead; a shorter one when it is needed
FIRST_PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 300.0
MAX_ASKED_PAUSE_S: Final = 3600.0  # that an authorization server may ask for (Retry-After)
DEMAND_PAUSE_S: Final = 5.0  # the longest that a call is kept from trying again, if the server asks for none
_LEEWAY_SHARE: Final = 0.05  # of the lifetime, in which a token counts as expired: it may expire on its way
_MAX_LEEWAY_S: Final = 2.0


# --- when: ahead of the expiry, and after a failure with growing pauses. Pure.


def lifetime_s(tokens: Tokens) -> float:
    """Return how long an access token is good from when it was obtained."""
    return math.inf if tokens.expires_at is None else max(0.0, tokens.expires_at - tokens.obtained_at)


def good_until(tokens: Tokens) -> float:
    """Return until when an access token is used, in seconds since 1970."""
    if tokens.expires_at is None:
        return math.inf
    return tokens.expires_at - min(_MAX_LEEWAY_S, _LEEWAY_SHARE * lifetime_s(tokens))


def renewal_at(tokens: Tokens, spread: float) -> float:
    """Return when to renew a token, in seconds since 1970; infinite for never.

    `spread`, from 0 to 1, is for accounts whose tokens would all expire together.
    """
    lifetime = lifetime_s(tokens)
    if tokens.expires_at is None or lifetime < MIN_LIFETIME_S:
        return math.inf
    return tokens.expires_at - min(MAX_AHEAD_S, AHEAD_SHARE * lifetime) * (1 + AHEAD_SHARE * spread)


class Pause(msgspec.Struct, frozen=True):
    """The pause after `failures` in a row: until when nobody tries ahead, and no call either.

    Both are readings of the event loop's clock, so that a jump of the wall clock changes nothing.
    """

    failures: int = 0
    until: float = -math.inf
    demand_from: float = -math.inf


def pause_after(before: Pause, now: float, jitter: float, asked_s: float | None) -> Pause:
    """Make the pause after one more failure; `jitter` is from 0.5 to 1, `asked_s` the server's wish."""
    failures = before.failures + 1
    own_s = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 1, 20)) * jitter
    if asked_s is not None:
        asked_s = min(MAX_ASKED_PAUSE_S, max(0.0, asked_s))
        return Pause(failures, now + max(own_s, asked_s), now + max(asked_s, min(own_s, DEMAND_PAUSE_S)))
    return Pause(failures, now + own_s, now + min(own_s, DEMAND_PAUSE_S))


# --- one at a time


class Background:
    """The tasks where flights run; while they are set, each of those who wait may leave."""

    tasks: anyio.abc.TaskGroup | None = None


class Flight:
    """Does one thing at a time, in the tasks of `background`; without any in the task of whoever began it.

    The work must be bounded, and must not raise.
    """

    def __init__(self, background: Background) -> None:
        self._background = background
        self._landed: anyio.Event | None = None

    async def join(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work, or wait for the end of that which is being done."""
        if (landed := self._landed) is None:
            landed = self._landed = anyio.Event()
            if self._background.tasks is None:
                await self._fly(work, landed)
            else:
                self._background.tasks.start_soon(self._fly, work, landed)
        await landed.wait()

    async def _fly(self, work: Callable[[], Awaitable[None]], landed: anyio.Event) -> None:
        try:
            with anyio.CancelScope(shield=True):  # a token that was rotated must not get lost
                await work()
        finally:
            self._landed = None
            landed.set()


class Renewal:
    """Renews the tokens in `kept`. `clock` gives seconds since 1970.

    `on_recovery` is called when that works again, after failures; it must not raise.
    """

    def __init__(
        self,
        server: ServerConfig,
        kept: KeptRecord,
        background: Background,
        *,
        clock: Callable[[], float],
        on_recovery: Callable[[], None],
    ) -> None:
        self.problem: str | None = None
        """Why the last one failed: a sentence without secrets; None if it did not."""
        self.is_refused = False
        """Whether it failed for good: no other attempt with this record would do better."""
        self._server = server
        self._kept = kept
        self._clock = clock
        self._on_recovery = on_recovery
        self._flight = Flight(background)
        self._pause = Pause()
        self._spread = 0.0
        self._renewed = 0

    @property
    def is_of_person(self) -> bool:
        """True if a person signs in, and not the client by itself."""
        transport = self._server.transport
        auth = transport.auth if isinstance(transport, Http | Sse) else None
        return auth is None or auth.grant == "authorization_code"

    @property
    def is_possible(self) -> bool:
        """True if to try at all."""
        if not self.is_of_person:
            return True
        tokens = _tokens(self._kept.record)
        return tokens is not None and tokens.refresh_token is not None and not self.is_refused

    def due_in_s(self) -> float:
        """Seconds until the tokens are to be renewed ahead of their expiry; infinite for never."""
        tokens = _tokens(self._kept.record)
        if tokens is None or not self.is_possible:
            return math.inf
        pause_s = self._pause.until - anyio.current_time()
        return max(0.0, pause_s, renewal_at(tokens, self._spread) - self._clock())

    def reset(self) -> None:
        """Forget failures: the record is another, or somebody wants it tried again."""
        self.problem, self.is_refused, self._pause = None, False, Pause()
        self._spread = random.random()  # noqa: S311 - no secret

    async def renew(self, challenge: Challenge | None = None, *, ahead: bool = False) -> bool:
        """Renew the tokens, or wait for those who do; whether there are other tokens now.

        `challenge` is that of a server that has refused them. It is not tried in the pause after a failure,
        which is shorter for a call than for one that is `ahead`. Never raises.
        """
        pause = self._pause
        if anyio.current_time() < (pause.until if ahead else pause.demand_from):
            return False
        before = self._renewed
        await self._flight.join(partial(self._fly, challenge))
        return self._renewed != before

    def refuse(self, reason: str) -> None:
        """Note that the server does not take a token that was renewed for it: another would be as good."""
        self._fail(SignInError(Problem.GRANT_REFUSED, reason))

    async def _fly(self, challenge: Challenge | None) -> None:
        before, failed = _tokens(self._kept.record), self.problem is not None

        def is_enough(record: Record | None) -> bool:
            tokens = _tokens(record)
            if tokens is None or (before is not None and tokens.access_token == before.access_token):
                return False
            return self._clock() < good_until(tokens)

        try:
            await self._kept.renew(partial(self._fetch, challenge), is_enough)
        except SignInError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - the boundary: a fault here costs this attempt
            contain(error, "oauth", server=self._server.name)
            self._fail(
                SignInError(Problem.UNREACHABLE, f"its token cannot be renewed: {type(error).__name__}")
            )
        else:
            self._renewed += 1
            self.reset()
            if failed:
                log.info("oauth.renewed", server=self._server.name)
                self._on_recovery()

    async def _fetch(self, challenge: Challenge | None, record: Record | None) -> Record:
        from mcpx.oauth import token_requests  # noqa: PLC0415 - large, for those who sign in

        if not self.is_of_person:
            return await token_requests.obtain(self._server, record, challenge)
        tokens = _tokens(record)
        if record is None or tokens is None or tokens.refresh_token is None:
            raise SignInError(Problem.GRANT_REFUSED, "somebody has signed out")
        return await token_requests.refresh(self._server, record)

    def _fail(self, error: SignInError) -> None:
        is_first = self.problem is None
        self.problem = str(error)
        self.is_refused = not (error.for_now or error.problem is Problem.NOT_STORED)
        jitter = random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        now = anyio.current_time()
        self._pause = pause_after(self._pause, now, jitter, error.retry_after_s)
        if is_first:
            name, for_good = self._server.name, self.is_refused
            log.warning("oauth.renewal_failed", server=name, reason=self.problem, for_good=for_good)


def _tokens(record: Record | None) -> Tokens | None:
    return None if record is None else record.tokens
