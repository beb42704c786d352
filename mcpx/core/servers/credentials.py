"""Credentials of one server that age: values of its entry from `${cmd:...}`, the keychain or an `env_file`.

They are fetched when the configuration is read, and again at each start of a process or connection that comes
later than `FRESH_S`. Over HTTP they are also fetched when the server answers 401 or 403: once, for all
requests that wait; each of these is then sent once more with the new value. A value that is the same as
before, or is refused as well, is not fetched again for `PAUSE_S`, and the session ends with what was tried.

What cannot be fetched leaves the last value in place, and is logged. Belongs to the `Server`; its sessions
ask for the entry at their start, and put the headers on their requests (`Authorizer`).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import structlog
from msgspec.structs import replace

from mcpx.core.config import Http, ServerConfig, Sse, redactor_of
from mcpx.core.servers.accounts import Account, Asked, Responded
from mcpx.core.servers.transport.exchange import NotAuthorized
from mcpx.core.telemetry.log import hide

log = structlog.get_logger()
FRESH_S: Final = 10.0
PAUSE_S: Final = 10.0
_TRIED: Final = "mcpx.credentials"
"""In the extensions of a request: which of the values it was sent with, by number."""
_AGAIN: Final = "mcpx.credentials.again"
"""Likewise: set once it is to be sent again."""

Renew = Callable[[str], Awaitable[ServerConfig | None]]
"""Reads the entry of a server again with the values of now; None if it cannot be read."""


class Credentials:
    """The entry of one server, with the values that were fetched last.

    `account` is the one that MCPX may have at the server beside them: it is asked where no new value helps.
    """

    def __init__(self, config: ServerConfig, renew: Renew, account: Account | None) -> None:
        self.entry = config
        self._account = account
        self.fetched_at = time.monotonic()
        """When the values were fetched last, by `time.monotonic()`."""
        self._renew = renew
        self._number = 0  # of the values
        self._not_before = 0.0  # for a fetch because of a refusal
        self._fetching: anyio.Event | None = None

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
            NotAuthorized: They are the same as before, or the request was refused with new ones as well; and
                the account cannot help.
        """
        tried = request.extensions.get(_TRIED, 0)
        again = request.extensions.get(_AGAIN, False)
        if tried == self._number and not again and time.monotonic() >= self._not_before:
            await self._fetch()
        if tried == self._number or again:
            self._not_before = time.monotonic() + PAUSE_S
            if self._account is not None and await self._account.refused(request, response):
                return True
            ago = time.monotonic() - self.fetched_at
            text = f"the server answers {response.status_code} to the credentials of its entry"
            raise NotAuthorized(f"{text}, which were fetched again {ago:.0f} s ago")
        request.extensions[_AGAIN] = True
        return True

    async def _fetch(self) -> None:
        """Fetch the values again; who comes meanwhile waits for the same fetch."""
        if self._fetching is not None:
            await self._fetching.wait()
            return
        self._fetching = anyio.Event()
        try:
            found = await self._renew(self.entry.name)
            self.fetched_at = time.monotonic()
            if found is None or found.disabled is not None:
                log.warning("upstream.credentials_kept", server=self.entry.name, reason=_reason(found))
            elif found.transport != self.entry.transport:
                self._take(found)
        finally:
            self._fetching.set()
            self._fetching = None

    def _take(self, found: ServerConfig) -> None:
        self.entry = replace(self.entry, transport=found.transport, variables=found.variables)
        self._number += 1
        hide(self, redactor_of(self.entry))
        log.info("upstream.credentials_renewed", server=self.entry.name)


def _reason(found: ServerConfig | None) -> str:
    return "the configuration cannot be read" if found is None else found.disabled or ""
