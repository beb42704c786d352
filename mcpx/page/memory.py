"""`page.json` in a configuration's folder: the page's own port and its sessions, for the next daemon.

Of a session its digest is kept, its port and its end; the cookie itself is nowhere but in the browser. With
the key the next daemon proves to a window that is still open that it is the same user's; it lets nobody in. A
file that another user may have written, or that cannot be read, counts as none. One that cannot be written is
removed: a session that has ended must not come back.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import structlog

from mcpx.core.wire.loopback_peers import users_are_known
from mcpx.page.access import MAX_SESSIONS, Access
from mcpx.paths import ensure_folder, read_own_file, replace_file

log = structlog.get_logger()
FILE_NAME: Final = "page.json"
MAX_FILE_BYTES: Final = 64 * 1024
KEY_BYTES: Final = 32
_KEY: Final = re.compile(r"[0-9a-f]{64}")


class _Session(msgspec.Struct, frozen=True):
    sha256: str
    port: int
    until: float  # by the clock on the wall, which goes on while no daemon runs


class _File(msgspec.Struct, frozen=True):
    port: int = 0
    key: str = ""
    sessions: tuple[_Session, ...] = ()


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
        """What windows know their daemon by, in hexadecimal digits; a new one where there is none yet."""
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
            _Session(digest.hex(), port, now + left_s) for digest, port, left_s in self._access.sessions()
        )
        try:
            ensure_folder(self._path.parent)
            replace_file(self._path, msgspec.json.encode(_File(self.port, self._key, sessions)), synced=False)
        except OSError as error:
            log.warning("page.not_remembered", path=str(self._path), reason=error.strerror)
            with suppress(OSError):
                self._path.unlink()
