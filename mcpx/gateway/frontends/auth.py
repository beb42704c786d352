"""The bearer token of the HTTP frontend: made at first start, kept in a file that only its owner can read.

The file is `token` in the state folder: `MCPX_STATE_DIR`, or the user's state folder for mcpx. A token that
somebody else put there would let them in, so the file must be the user's own, and no link.
"""

from __future__ import annotations

import errno
import fcntl
import hmac
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mcp.server.auth.provider import AccessToken

from mcpx.errors import MCPXError
from mcpx.paths import READ_FLAGS, ensure_folder, state_folder

OWNER_ONLY: Final = 0o600
MAX_TOKEN_BYTES: Final = 4096  # for a token that the user chose


class TokenError(MCPXError):
    """The token file cannot be used."""


def token_file() -> Path:
    """Where the token is kept."""
    return state_folder() / "token"


def load_token(path: Path | None = None) -> str:
    """The token out of its file, which is made if there is none.

    Raises:
        TokenError: The file or its folder cannot be read or made, is another user's, or others may read it.
    """
    path = path or token_file()
    try:
        ensure_folder(path.parent)
        return _read(path) or _make(path)
    except OSError as error:
        raise TokenError(f"{path}: {error.strerror}; choose another folder with MCPX_STATE_DIR") from error


def _read(path: Path) -> str | None:
    """The token; None where there is none yet.

    Raises:
        OSError: The file cannot be read.
        TokenError: It cannot be trusted, or holds no token.
    """
    try:
        opened = os.open(path, READ_FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise TokenError(f"{path}: a link, and it must be a file of yours; remove it") from None
        raise
    with os.fdopen(opened, "rb") as file:
        found = os.fstat(opened)
        mode = stat.S_IMODE(found.st_mode)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise TokenError(f"{path}: not a file of yours; name another folder with MCPX_STATE_DIR")
        if mode & 0o077:
            raise TokenError(f"{path}: others may read it (mode {mode:o}); run: chmod 600 {path}")
        token = file.read(MAX_TOKEN_BYTES).decode("ascii", "replace").strip()
        if not token.isascii():
            raise TokenError(f"{path}: not a token; remove it, and a new one is made")
        return token or None


def _make(path: Path) -> str:
    """Write a new token beside the file and move it into its place; of several starters one does."""
    with _locked(path.parent):
        if made := _read(path):  # by another, while this one waited for the lock
            return made
        token = secrets.token_urlsafe(32)
        new = path.with_name(f".{path.name}.{os.getpid()}")
        new.unlink(missing_ok=True)
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY)
        with os.fdopen(fd, "w") as file:
            file.write(token + "\n")
        new.replace(path)
        return token


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which ends with the process at the latest."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


class OneToken:
    """A token verifier for the SDK's middleware that knows exactly one token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        """The access token, or None for a wrong one. Compares in constant time."""
        if not hmac.compare_digest(token.encode(), self._token):
            return None
        return AccessToken(token=token, client_id="mcpx", scopes=[])
