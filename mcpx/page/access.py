"""Who may see the page: a code that is used once becomes a session, which a cookie stands for.

`mcpx ui` asks the daemon for a code over its socket, which only the user can connect to, and the browser
brings it back in the address. A code lets in once, within `CODE_S`. A session is good on the port on which
it began. It ends when it is signed out of, and `SESSION_S` after it was last used; an open stream uses it
(`go_on`). Of codes and sessions the digests are kept, and no more than `MAX_CODES` and `MAX_SESSIONS`: the
one that was not used for longest makes room. Pure, but for the clock; `mcpx.page.memory` keeps the sessions
for the next daemon.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from math import inf
from typing import Final, NamedTuple

CODE_S: Final = 120.0  # that a code waits for its browser
SESSION_S: Final = 12 * 3600.0  # without a request
NOTE_S: Final = 600.0  # of use, after which the end of a session is kept anew
MAX_CODES: Final = 16
MAX_SESSIONS: Final = 32
_BYTES: Final = 32


class _Session(NamedTuple):
    port: int
    until: float


class Access:
    """The codes and the sessions of one page. `now` is the clock, in seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._codes: dict[bytes, float] = {}  # by digest: until when, the oldest first
        self._sessions: dict[bytes, _Session] = {}
        self._noted = -inf  # when `on_change` was called last
        self.on_end: Callable[[bytes], None] = lambda _session: None
        """Called with the digest of a session that has ended, so that its streams end."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when a session has begun or ended, and every `NOTE_S` while one is used."""

    def new_code(self) -> str:
        """A code that lets in once."""
        code = secrets.token_urlsafe(_BYTES)
        self._codes[_digest(code)] = self._now() + CODE_S
        while len(self._codes) > MAX_CODES:
            del self._codes[next(iter(self._codes))]
        return code

    def redeem(self, code: str, port: int) -> str | None:
        """The secret of a new session on a port, for a code that is good; the code is used up. Else None."""
        until = self._codes.pop(_digest(code), None)
        if until is None or until < self._now():
            return None
        secret = secrets.token_urlsafe(_BYTES)
        self._sessions[_digest(secret)] = _Session(port, self._now() + SESSION_S)
        while len(self._sessions) > MAX_SESSIONS:
            self._drop(next(iter(self._sessions)))
        self._note()
        return secret

    def session(self, secret: str, port: int) -> bytes | None:
        """The digest that stands for the session of a secret, which goes on from now; None for no session."""
        digest = _digest(secret)
        known = self._sessions.get(digest)
        return digest if known is not None and known.port == port and self.go_on(digest) else None

    def go_on(self, session: bytes) -> bool:
        """Have a session go on from now; whether there is one still."""
        now, known = self._now(), self._sessions.get(session)
        if known is None:
            return False
        if known.until < now:
            self.end(session)
            return False
        del self._sessions[session]  # the last that was used stands last
        self._sessions[session] = known._replace(until=now + SESSION_S)
        if now - self._noted > NOTE_S:
            self._note()
        return True

    def end(self, session: bytes) -> None:
        """End a session."""
        if session in self._sessions:
            self._drop(session)
            self._note()

    def end_port(self, port: int) -> None:
        """End every session of a port, which the caller notes."""
        for session in [each for each, known in self._sessions.items() if known.port == port]:
            self._drop(session)

    def end_all(self) -> None:
        """End every session, and let no code in any more that was given so far."""
        self._codes.clear()
        if self._sessions:
            for session in list(self._sessions):
                self._drop(session)
            self._note()

    def end_streams(self) -> None:
        """End what is open, as the daemon leaves: the sessions stay for the next one."""
        if self._sessions:
            for session in list(self._sessions):
                self.on_end(session)
            self._note()

    # --- for the next daemon

    def sessions(self) -> list[tuple[bytes, int, float]]:
        """The digest of each session, its port, and the seconds that are left of it; the last used last."""
        now = self._now()
        return [(each, known.port, known.until - now) for each, known in self._sessions.items()]

    def restore(self, session: bytes, port: int, left_s: float) -> None:
        """Take up a session of the last daemon, if something is left of it."""
        if left_s > 0:
            self._sessions[session] = _Session(port, self._now() + min(left_s, SESSION_S))

    def has_sessions(self, port: int) -> bool:
        """Whether a browser may come back to a port."""
        return any(known.port == port for known in self._sessions.values())

    def _drop(self, session: bytes) -> None:
        del self._sessions[session]
        self.on_end(session)

    def _note(self) -> None:
        self._noted = self._now()
        self.on_change()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()
