"""The bearer token of the HTTP door: made at first start, kept in a file that only its owner can read.

The file is `token` in the state folder: `MCPX_STATE_DIR`, or the user's state folder for mcpx.
"""

from __future__ import annotations

import fcntl
import hmac
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcp.server.auth.provider import AccessToken

from mcpx.errors import MCPXError
from mcpx.state import ensure_folder, state_folder

OWNER_ONLY = 0o600


class TokenError(MCPXError):
    """The token file cannot be used."""


def token_file() -> Path:
    """Where the token is kept."""
    return state_folder() / "token"


def load_token(path: Path | None = None) -> str:
    """The token out of its file, which is made if there is none.

    Raises:
        TokenError: The file or its folder cannot be read or made, or others may read it.
    """
    path = path or token_file()
    try:
        ensure_folder(path.parent)
        return _read(path) or _make(path)
    except OSError as error:
        raise TokenError(f"{path}: {error.strerror}; choose another folder with MCPX_STATE_DIR") from error


def _read(path: Path) -> str | None:
    try:
        with path.open() as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise TokenError(f"{path}: others may read it (mode {mode:o}); run: chmod 600 {path}")
            return file.read().strip() or None
    except FileNotFoundError:
        return None


def _make(path: Path) -> str:
    """Write a new token beside the file and move it into its place; of several starters one does."""
    with _locked(path.parent):
        if made := _read(path):  # by another, while this one waited for the lock
            return made
        token = secrets.token_urlsafe(32)
        new = path.with_name(f".{path.name}.{os.getpid()}")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY)
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
