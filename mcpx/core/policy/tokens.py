"""The tokens of HTTP clients: the default one, and those that have a name. Without the SDK.

The default token is made at the first start and kept as it is in `token` in the state folder, because the
person gives it to clients. Of a token with a name only the SHA-256 is kept, in `tokens.json` beside it, with
the profile that its clients see and the time of its end; the token itself is shown once, by `issue`. It has
256 random bits, so its hash needs no salt. What somebody else put into these files would let them in: both
must be files of the user's own that nobody else can read, and no links.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.private_files import ANOTHER, ForeignFileError, read_own_file, replace_file
from mcpx.core.system.locks import locked
from mcpx.errors import MCPXError
from mcpx.paths import state_folder

MAX_TOKEN_BYTES: Final = 4096  # for a default token that the user chose
MAX_FILE_BYTES: Final = 4 << 20
LOCK_TIMEOUT_S: Final = 2.0  # for another process that changes them, of a moment
PREFIX: Final = "mcpx_"  # by which a token can be recognised where it should not be
_NAME: Final = re.compile(r"\w[\w.-]{0,63}")
Time = Annotated[datetime, Meta(tz=True)]


class TokenError(MCPXError):
    """A file of tokens cannot be used, or a token of that name cannot be made or revoked."""


class NamedToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token with a name, without the token. `profile` is what its clients see, None for everything."""

    name: str
    sha256: str
    """Of the token, in hexadecimal digits."""
    created: Time
    expires: Time | None = None
    profile: str | None = None

    def is_expired(self, now: datetime) -> bool:
        """Return True if it lets nobody in any more."""
        return self.expires is not None and self.expires <= now


class _File(msgspec.Struct, frozen=True):
    tokens: tuple[NamedToken, ...] = ()


def token_file() -> Path:
    """Return the path of the default token."""
    return state_folder() / "token"


def named_tokens_file() -> Path:
    """Return the path of the hashes of the tokens with names."""
    return state_folder() / "tokens.json"


# --- the default token


def load_token(path: Path | None = None) -> str:
    """Read the default token from its file, and make one if there is none.

    Raises:
        TokenError: The file or its folder cannot be read or made, is another user's, or others may read it.
    """
    path = path or token_file()
    try:
        ensure_folder(path.parent)
        if token := _read_default(path):
            return token
        with locked(path.parent, timeout_s=LOCK_TIMEOUT_S):
            if token := _read_default(path):  # made by another, while this one waited for the lock
                return token
            token = secrets.token_urlsafe(32)
            replace_file(path, token.encode() + b"\n", synced=False)
            return token
    except OSError as error:
        raise _unusable(path, error) from error


def _read_default(path: Path) -> str | None:
    """The token; None where there is none yet."""
    token = (_read_private(path, MAX_TOKEN_BYTES) or b"").decode("ascii", "replace").strip()
    if not token.isascii():
        raise TokenError(f"{path}: not a token; remove it, and a new one is made")
    return token or None


# --- tokens with names


def load_named(path: Path | None = None) -> tuple[NamedToken, ...]:
    """The tokens with names, also those that are expired, in the order in which they were made.

    Raises:
        TokenError: The file cannot be read, is another user's, or others may read it.
    """
    path = path or named_tokens_file()
    try:
        content = _read_private(path, MAX_FILE_BYTES)
        return () if content is None else msgspec.json.decode(content, type=_File).tokens
    except OSError as error:
        raise _unusable(path, error) from error
    except (ValueError, RecursionError) as error:
        raise TokenError(f"{path}: not a list of tokens ({error}); remove it, and make new ones") from None


def issue(
    name: str, *, profile: str | None, expires: datetime | None, now: datetime, path: Path | None = None
) -> tuple[str, NamedToken]:
    """Make a token, in the place of one of that name that is expired. What is returned first is kept nowhere.

    Raises:
        TokenError: There is one of that name, the name cannot be used, or the file cannot.
    """
    if not _NAME.fullmatch(name):
        raise TokenError(
            "a token's name has up to 64 letters, digits, _, - and ., and begins with no . or -;"
            " another: mcpx token new NAME"
        )
    secret = PREFIX + secrets.token_urlsafe(32)
    token = NamedToken(name=name, sha256=digest_of(secret), profile=profile, created=now, expires=expires)
    path = path or named_tokens_file()
    with _changing(path) as tokens:
        if (old := _find(name, tokens)) is not None:
            if not old.is_expired(now):
                text = f"there is a token {name} already; choose another name, or first"
                raise TokenError(f"{text}: mcpx token revoke {name}")
            tokens.remove(old)
        tokens.append(token)
    return secret, token


def revoke(name: str, path: Path | None = None) -> NamedToken:
    """Remove a token for good.

    Raises:
        TokenError: There is none of that name, or the file cannot be used.
    """
    with _changing(path or named_tokens_file()) as tokens:
        if (token := _find(name, tokens)) is None:
            known = ", ".join(each.name for each in tokens)
            there_is = f"there is {known}" if known else "none was made"
            raise TokenError(f"there is no token {name}; {there_is}: mcpx token list")
        tokens.remove(token)
    return token


def digest_of(secret: str) -> str:
    """Hash a token as it is kept."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _find(name: str, tokens: list[NamedToken]) -> NamedToken | None:
    return next((each for each in tokens if each.name == name), None)


@contextmanager
def _changing(path: Path) -> Iterator[list[NamedToken]]:
    """The tokens in the file, for its only writer; what the body leaves of them is written."""
    try:
        with locked(ensure_folder(path.parent), timeout_s=LOCK_TIMEOUT_S):
            tokens = list(load_named(path))
            yield tokens
            replace_file(path, msgspec.json.format(msgspec.json.encode(_File(tuple(tokens)))) + b"\n")
    except OSError as error:
        raise _unusable(path, error) from error


class NamedTokens:
    """The tokens with names as their file has them now: it is looked at for each request."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or named_tokens_file()
        self._seen: tuple[int, ...] | None = None
        self._tokens: tuple[NamedToken, ...] = ()
        self.problem: str | None = None
        """Why the file cannot be used, if it cannot. Then it lets nobody in."""

    def current(self, now: datetime) -> list[NamedToken]:
        """List the tokens that let in."""
        seen = _signature(self._path)
        if seen != self._seen:
            self._seen, self.problem, self._tokens = seen, None, ()
            try:
                self._tokens = load_named(self._path)
            except TokenError as error:
                self.problem = str(error)
                if isinstance(error.__cause__, OSError):
                    self._seen = None  # it may pass without a change of the file
        return [token for token in self._tokens if not token.is_expired(now)]

    def find(self, secret: str, now: datetime) -> NamedToken | None:
        """The one that a client has presented, None for a wrong one. Takes equally long for each."""
        digest, found = digest_of(secret), None
        for token in self.current(now):
            if hmac.compare_digest(token.sha256.encode(), digest.encode()):
                found = token
        return found


# --- files


def _signature(path: Path) -> tuple[int, ...] | None:
    """Return something that changes with the file; None where there is none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read_private(path: Path, max_bytes: int) -> bytes | None:
    """Read a file that only its owner can read or change; None where there is none."""
    try:
        return read_own_file(path, max_bytes, closed_to=0o077)
    except FileNotFoundError:
        return None
    except ForeignFileError as error:
        raise TokenError(f"{path}: {_advice(path, error)}") from None


def _advice(path: Path, found: ForeignFileError) -> str:
    """Say why a file is refused, and what to do."""
    if found.mode is not None:
        return f"others may read it (mode {found.mode:o}); run: chmod 600 {shlex.quote(str(path))}"
    if found.strerror == ANOTHER:
        return "not a file of yours; name another folder with MCPX_STATE_DIR"
    return f"{found.strerror}, and it must be a file of yours; remove it"


def _unusable(path: Path, error: OSError) -> TokenError:
    if isinstance(error, BlockingIOError):
        return TokenError(f"{path}: {error.strerror}; try again when it has ended")
    return TokenError(f"{path}: {error.strerror}; choose another folder with MCPX_STATE_DIR")
