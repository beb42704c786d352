"""Credentials of one server that age: values of its entry from `${cmd:...}`, the keychain or an `env_file`.

They are fetched when the configuration is read, and again at each start of a process or connection that comes
later than `FRESH_S`. Over HTTP they are also fetched when the server answers 401 or 403: once, for all
requests that wait; each of these is then sent again with the new value, and so is one that a newer value has
overtaken, up to `MAX_TRIES` times.

A fetch that helped nothing is not repeated for `PAUSE_S`: the value is the same as before, it could not be
had, or it was refused as soon as it was there. Then the session ends with what was tried. A value that was
good and has expired is fetched at once, however often that happens.

What cannot be fetched leaves the last value in place, and is logged. Belongs to the `Server`; its sessions
ask for the entry at their start, and put the headers on their requests (`Authorizer`). A fetch is a task of
its own: that whoever has asked for it goes away ends it for nobody else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from msgspec.structs import replace

from mcpx.core.config import Http, ServerConfig, Sse, redactor_of
from mcpx.core.config.server_config import Overrides
from mcpx.core.servers.accounts import Account, Asked, Responded
from mcpx.core.servers.transport.exchange import EntryRefused
from mcpx.core.telemetry.contained import contain
from mcpx.core.telemetry.log import hide

log = structlog.get_logger()
FRESH_S: Final = 10.0
PAUSE_S: Final = 10.0
MAX_TRIES: Final = 5  # to send one request again
AT_ONCE_S: Final = 1.0  # a new value that is refused so soon was never good
_TRIED: Final = "mcpx.credentials"
"""In the extensions of a request: which of the values it was sent with, by number."""
_TRIES: Final = "mcpx.credentials.tries"
"""Likewise: how often it was to be sent again."""

Renew = Callable[[str], Awaitable[ServerConfig | None]]
"""Reads the entry of a server again with the values of now; None if it cannot be read."""


class Credentials:
    """The entry of one server, with the values that were fetched last.

    `account` is the one that MCPX may have at the server beside them: it is asked where no new value helps.
    """

    def __init__(
        self,
        config: ServerConfig,
        renew: Renew,
        account: Account | None,
        on_overrides: Callable[[Overrides], None] = lambda _given: None,
    ) -> None:
        """`on_overrides` is called with the overrides of tools whose fixed arguments have new values."""
        self.entry = config
        self._on_overrides = on_overrides
        self._account = account
        self.fetched_at = self.changed_at = time.monotonic()
        """When the values were fetched last, and when they last were others, by `time.monotonic()`."""
        self.problem: str | None = None
        """Why the last fetch brought nothing."""
        self._renew = renew
        self._number = 0  # of the values
        self._not_before = 0.0  # for a fetch because of a refusal
        self._fetching: asyncio.Future[ServerConfig | None] | None = None

    @property
    def signs(self) -> bool:
        """True if requests over HTTP get headers from here."""
        return self.entry.ages and isinstance(self.entry.transport, Http | Sse)

    async def current(self) -> ServerConfig:
        """The entry for a session that starts now."""
        if self.entry.ages and time.monotonic() - self.fetched_at > FRESH_S:
            await self._fetch()
        return self.entry

    def redact(self, text: str) -> str:
        """A text without the values that are in force."""
        return redactor_of(self.entry)(text)

    # --- as an `Authorizer`

    def authorize_nowait(self, request: Asked) -> bool:
        """Put the headers of now on a request; True if nothing is to be added that takes time."""
        transport = self.entry.transport
        if isinstance(transport, Http | Sse):
            request.headers.update({name.lower(): value for name, value in transport.headers.items()})
        request.extensions[_TRIED] = self._number
        return self._account is None or self._account.authorize_nowait(request)

    async def authorize(self, request: Asked) -> None:
        """Put the headers of now on a request, and the token of the account."""
        if not self.authorize_nowait(request) and self._account is not None:
            await self._account.authorize(request)

    async def refused(self, request: Asked, response: Responded) -> bool:
        """Fetch the values again, once for all requests that were refused with them.

        Raises:
            EntryRefused: They are the same as before, cannot be had, or are refused as well, and the account
                cannot help.
        """
        tried = request.extensions.get(_TRIED, 0)
        tries = request.extensions.get(_TRIES, 0)
        now = time.monotonic()
        if tried == self._number and tries and now - self.changed_at < AT_ONCE_S:
            self._not_before = now + PAUSE_S
        if tried == self._number and now >= self._not_before:
            await self._fetch()
            if tried == self._number:
                self._not_before = time.monotonic() + PAUSE_S
        if tried != self._number and tries < MAX_TRIES:
            request.extensions[_TRIES] = tries + 1
            return True
        if self._account is not None and await self._account.refused(request, response):
            return True
        raise EntryRefused(self._tried(response.status_code))

    def _tried(self, status: int) -> str:
        """Say what was done about a refusal."""
        ago = f"{time.monotonic() - self.fetched_at:.0f} s ago"
        text = f"the server answers {status} to the credentials of its entry"
        if self.problem is not None:
            return f"{text}, and new ones could not be fetched {ago}: {self.problem}"
        same = ", the same as before" if self.changed_at < self.fetched_at else ""
        return f"{text}, which were fetched again {ago}{same}"

    async def _fetch(self) -> None:
        """Fetch the values again; who comes meanwhile waits for the same fetch."""
        if self._fetching is None:
            self._fetching = asyncio.ensure_future(self._renew(self.entry.name))
            self._fetching.add_done_callback(self._fetched)  # before those that wait go on
        await asyncio.wait({self._fetching})

    def _fetched(self, fetching: asyncio.Future[ServerConfig | None]) -> None:
        self._fetching = found = None
        if not fetching.cancelled():
            if (error := fetching.exception()) is None:
                found = fetching.result()
            else:
                contain(error, "credentials", server=self.entry.name)
        self.fetched_at = time.monotonic()
        self.problem = _problem(found)
        if found is None or self.problem is not None:
            log.warning("upstream.credentials_kept", server=self.entry.name, reason=self.problem)
        elif (found.transport, found.overrides) != (self.entry.transport, self.entry.overrides):
            self._take(found)

    def _take(self, found: ServerConfig) -> None:
        if found.overrides != self.entry.overrides:
            self._on_overrides(found.overrides)
        self.entry = replace(
            self.entry, transport=found.transport, variables=found.variables, overrides=found.overrides
        )
        self._number += 1
        self.changed_at = self.fetched_at
        hide(self, redactor_of(self.entry))
        log.info("upstream.credentials_renewed", server=self.entry.name)


def _problem(found: ServerConfig | None) -> str | None:
    if found is None:
        return "the configuration cannot be read"
    return found.disabled
