"""The companion of a server's main session: one more session with the same server, in the other era.

A server that speaks both eras gives each client what a client of that era gets from it directly, so over HTTP
it has a session of each. The companion is opened when a client first needs it, is supervised like any other,
and shares the counters; its catalogue is not announced. A server that does not speak the other era is
remembered as such, and requests that waited for the companion go to the main session; so they do while the
companion alone cannot be opened. Owned by the server's main `Upstream`; opened and ended by the fleet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from mcpx.core.config import Era
from mcpx.core.servers.call_rate import CallRate
from mcpx.core.servers.causes import EraRefused, NoAnswer
from mcpx.core.servers.offers.resource_updates import Listener
from mcpx.core.servers.offers.subscriptions import Subscriptions
from mcpx.errors import CallError
from supervisors import Cause, Phase

if TYPE_CHECKING:
    from mcpx.core.servers.actor import Upstream


class Subscribable(Protocol):
    """A server whose resources can be subscribed to."""

    @property
    def rate(self) -> CallRate: ...
    @property
    def subscriptions(self) -> Subscriptions: ...
    def in_era(self, modern: bool) -> Subscribable: ...  # noqa: FBT001 - as a client's handle has it


async def subscribe(
    main: Subscribable, uri: str, listener: Listener, meta: bytes, *, modern: bool
) -> Callable[[], None]:
    """Have `listener` called with changes of `uri`, until the result is called.

    A server may refuse on its main session what it grants on one of the client's own era.

    Raises:
        CallError: As `Subscriptions.subscribe`, and `CallRate.admit`.
    """
    main.rate.admit()  # the server may not be asked: others are subscribed
    session = main
    try:
        await main.subscriptions.subscribe(uri, listener, meta)
    except CallError:
        session = main.in_era(modern)
        if session is main:
            raise
        await session.subscriptions.subscribe(uri, listener, meta)
    return lambda: session.subscriptions.unsubscribe(uri, listener)


class Companion:
    """The other session of `main`, if there is one.

    `open_session` makes it, and has it supervised; `end_session` ends it, and does not wait for that.
    """

    def __init__(
        self,
        main: Upstream,
        open_session: Callable[[Era], Upstream],
        end_session: Callable[[Upstream, str], None],
    ) -> None:
        self.session: Upstream | None = None
        self._era: Era | None = None
        self._main = main
        self._open = open_session
        self._end = end_session

    def session_in(self, era: Era) -> Upstream:
        """The session for a client of that era: the companion if there can be one, else the main session."""
        main = self._main
        if main.queue.closed or not main.has_listed or main.era == era or era in main.known_eras.refused:
            return main
        session = self._get_or_open(era)
        if self._fails_alone(session):
            return main
        main.queue.wake()
        return session

    def _get_or_open(self, era: Era) -> Upstream:
        if self.session is None or self._era != era:
            self._drop("the server speaks another era now")
            self._era, self.session = era, self._open(era)
        return self.session

    def _fails_alone(self, session: Upstream) -> bool:
        """Whether it has failed at its first attempt, or twice in a row, while the main session serves."""
        life = session.queue.lifecycle()
        fails = life.failures > (0 if session.catalogue is None else 1) and life.phase is not Phase.UP
        return fails and self._main.queue.lifecycle_phase() in {Phase.IDLE, Phase.UP}

    # --- what becomes of the sessions

    def inherit_from(self, old: Companion) -> None:
        """Take over the subscriptions that were made in the other era; they are made again."""
        session = old.session
        if session is not None and old._era is not None and session.subscriptions.uris:
            heir = self.session_in(old._era)
            if heir is not self._main:
                heir.inherit_from(session)

    def is_refused(self, session: Upstream, cause: Cause) -> bool:
        """Take in that the companion has failed; return whether the server does not speak its era.

        Then the companion is over. Requests that wait for it go to the main session, if that is there.
        """
        if session is not self.session or self._era is None:
            return False
        silent = session.catalogue is None and isinstance(cause.error, NoAnswer)
        if isinstance(cause.error, EraRefused) or (silent and session.queue.lifecycle().failures > 1):
            self._main.known_eras.refused.add(self._era)
            self._drop(cause.text)
            return True
        if self._fails_alone(session):
            self._pass_on(session)
        return False

    def main_is_ready(self) -> None:
        """Take in that the main session has been opened again; it may be of the companion's era now."""
        if self.session is not None and self._main.era == self._era:
            self._drop("the main session is of its era now")

    def _drop(self, why: str) -> None:
        session, self.session, self._era = self.session, None, None
        if session is not None:
            self._pass_on(session)
            self._end(session, why)

    def _pass_on(self, session: Upstream) -> None:
        """Have the main session serve what waits for the companion."""
        for request, reply in session.queue.take_waiting():
            try:
                self._main.queue.submit(request, reply)  # it has been counted
            except CallError as error:
                reply.reject(error)
