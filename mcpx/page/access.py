"""Access to the page: a code that is used once becomes a session, which a cookie stands for.

`mcpx ui` asks the daemon for a code over its socket, which only the user can connect to, and the browser
brings it back in the address. A code lets in once, within `CODE_S`. A session is good on the port on which
it began. It ends when it is signed out of, and `SESSION_S` after it was last used; an open stream uses it
(`go_on`). Of codes and sessions the digests are kept, and no more than `MAX_CODES` and `MAX_SESSIONS`: the
one that was not used for longest makes room. `Access` is pure, but for the clock.

`PageMemory` keeps the page's own port and its sessions for the next daemon, in `page.json` in the folder of
the configuration. Of a session its digest is kept, its port and its end; the cookie itself is nowhere but in
the browser. With the key the next daemon proves to a window that is still open that it is the same user's; it
lets nobody in. A file that another user may have written, or that cannot be read, counts as none. One that
cannot be written is removed: a session that has ended must not come back.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import structlog

from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.private_files import read_own_file, replace_file
from mcpx.core.system.peers import users_are_known

log = structlog.get_logger()
CODE_S: Final = 120.0  # that a code waits for its browser
SESSION_S: Final = 12 * 3600.0  # without a request
NOTE_S: Final = 600.0  # of use, after which the end of a session is kept anew
MAX_CODES: Final = 16
MAX_SESSIONS: Final = 32
_BYTES: Final = 32
FILE_NAME: Final = "page.json"
MAX_FILE_BYTES: Final = 64 * 1024
KEY_BYTES: Final = 32
_KEY: Final = re.compile(r"[0-9a-f]{64}")


class _Session(NamedTuple):
    port: int
    until: float


class Access:
    """The codes and the sessions of one page. `now` is the clock, in seconds.

    `on_end` is called with the digest of a session that has ended, so that its streams end.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        *,
        on_end: Callable[[bytes], None] = lambda _session: None,
    ) -> None:
        self._now = now
        self._codes: dict[bytes, float] = {}  # by digest: until when, the oldest first
        self._sessions: dict[bytes, _Session] = {}
        self._noted = -inf  # when `on_change` was called last
        self._on_end = on_end
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
                self._on_end(session)
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
        """Return True if a browser may come back to a port."""
        return any(known.port == port for known in self._sessions.values())

    def _drop(self, session: bytes) -> None:
        del self._sessions[session]
        self._on_end(session)

    def _note(self) -> None:
        self._noted = self._now()
        self.on_change()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()


class _KeptSession(msgspec.Struct, frozen=True):
    sha256: str
    port: int
    until: float  # by the clock on the wall, which goes on while no daemon runs


class _File(msgspec.Struct, frozen=True):
    port: int = 0
    key: str = ""
    sessions: tuple[_KeptSession, ...] = ()


class PageMemory:
    """The file of one configuration. `access` gets the sessions that it holds; each change is written.

    While no daemon runs, a program of another user may listen on the port, and be sent the cookie by a window
    that is open. So sessions are taken up only where the system says to whom a connection belongs: there the
    cookie is of no use to that user. And they are good on the port on which they began, and on no other.
    """

    def __init__(self, folder: Path, access: Access, clock: Callable[[], float] = time.time) -> None:
        self._path = folder / FILE_NAME
        self._access = access
        self._clock = clock
        kept = self._read()
        self.port = kept.port
        """Of the page's own listener; 0 where it has none yet."""
        self._key = kept.key
        if kept.sessions and users_are_known():
            now = clock()
            for each in kept.sessions[:MAX_SESSIONS]:
                with suppress(ValueError):
                    access.restore(bytes.fromhex(each.sha256), each.port, each.until - now)
        access.on_change = self._write

    @property
    def key(self) -> str:
        """The key by which windows know their daemon, in hexadecimal digits; made where there is none yet."""
        if not _KEY.fullmatch(self._key):
            self._key = secrets.token_hex(KEY_BYTES)
            self._write()
        return self._key

    def proof(self, nonce: str) -> str:
        """The HMAC-SHA256 of what a window has made up, in hexadecimal digits."""
        return hmac.new(bytes.fromhex(self.key), nonce.encode(), "sha256").hexdigest()

    def take(self, port: int) -> None:
        """The page's own listener is at this port from now on."""
        if port != self.port:
            self.port = port
            self._write()

    def give_up(self, port: int) -> None:
        """Somebody else has the port: neither it nor the sessions that began there are used again."""
        self.port = 0
        self._access.end_port(port)
        self._write()

    def _read(self) -> _File:
        try:
            return msgspec.json.decode(read_own_file(self._path, MAX_FILE_BYTES), type=_File)
        except FileNotFoundError:
            pass
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            log.warning("page.not_remembered", path=str(self._path), reason=str(error))
        return _File()

    def _write(self) -> None:
        now = self._clock()
        sessions = tuple(
            _KeptSession(digest.hex(), port, now + left_s) for digest, port, left_s in self._access.sessions()
        )
        try:
            ensure_folder(self._path.parent)
            replace_file(self._path, msgspec.json.encode(_File(self.port, self._key, sessions)), synced=False)
        except OSError as error:
            log.warning("page.not_remembered", path=str(self._path), reason=error.strerror)
            with suppress(OSError):
                self._path.unlink()
