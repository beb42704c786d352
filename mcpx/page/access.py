"""Who may see the page: a code that is used once becomes a session, which a cookie stands for.

`mcpx ui` asks the daemon for a code over its socket, which only the user can connect to, and the browser
brings it back in the address. A code lets in once, within `CODE_S`. A session ends when it is signed out of,
`SESSION_S` after it was last used, and with the daemon; an open stream uses it (`go_on`). Of codes and
sessions the digests are kept, and no more than `MAX_CODES` and `MAX_SESSIONS`: the one that was not used for
longest makes room. Pure, but for the clock.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Final

CODE_S: Final = 120.0  # that a code waits for its browser
SESSION_S: Final = 12 * 3600.0  # without a request
MAX_CODES: Final = 16
MAX_SESSIONS: Final = 32
_BYTES: Final = 32


class Access:
    """The codes and the sessions of one page. `now` is the clock, in seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._codes: dict[bytes, float] = {}  # by digest: until when, the oldest first
        self._sessions: dict[bytes, float] = {}
        self.on_end: Callable[[bytes], None] = lambda _session: None
        """Called with the digest of a session that has ended, so that its streams end."""

    def new_code(self) -> str:
        """A code that lets in once."""
        return _new(self._codes, self._now() + CODE_S, MAX_CODES, lambda _code: None)

    def redeem(self, code: str) -> str | None:
        """The secret of a new session, for a code that is good; the code is used up. None for any other."""
        until = self._codes.pop(_digest(code), None)
        if until is None or until < self._now():
            return None
        return _new(self._sessions, self._now() + SESSION_S, MAX_SESSIONS, self.on_end)

    def session(self, secret: str) -> bytes | None:
        """The digest that stands for the session of a secret, which goes on from now; None for no session."""
        digest = _digest(secret)
        return digest if self.go_on(digest) else None

    def go_on(self, session: bytes) -> bool:
        """Have a session go on from now; whether there is one still."""
        until = self._sessions.pop(session, None)
        if until is None:
            return False
        if until < self._now():
            self.on_end(session)
            return False
        self._sessions[session] = self._now() + SESSION_S
        return True

    def end(self, session: bytes) -> None:
        """End a session."""
        if self._sessions.pop(session, None) is not None:
            self.on_end(session)

    def end_all(self) -> None:
        """End every session, and let no code in any more that was given so far."""
        self._codes.clear()
        for session in list(self._sessions):
            self.end(session)


def _new(kept: dict[bytes, float], until: float, limit: int, on_end: Callable[[bytes], None]) -> str:
    secret = secrets.token_urlsafe(_BYTES)
    kept[_digest(secret)] = until
    while len(kept) > limit:
        oldest = next(iter(kept))
        del kept[oldest]
        on_end(oldest)
    return secret


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()
