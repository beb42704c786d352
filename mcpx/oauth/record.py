"""The record of one sign-in: the tokens, the client they belong to, and where to refresh them.

A `Record` is what a `TokenStore` reads and writes, as JSON. `identity_of` says which record belongs to a
server's entry: two entries with one URL have one each, so that two accounts of a server live side by side.

In a folder `KEY.json` holds a record, `KEY.lock` is locked (flock) while it is changed, `KEY.set-aside` is
what could not be used, and `KEY.keychain` says that the keychain has it. A process that is killed leaves an
unfinished `KEY.*.new`, which the next writer removes. The functions for files block, and raise `OSError` for
what the system refuses.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from mcpx.core.config import Http, ServerConfig, Sse
from mcpx.core.store.folders import ensure_folder, foreign_folder, sync_folder
from mcpx.core.store.private_files import ForeignFileError, open_own_file, remove_partial, replace_file
from mcpx.core.system.locks import try_lock

JSON = dict[str, Any]
FORMAT: Final = 1
MAX_RECORD_BYTES: Final = 2 << 20  # the metadata of two servers, of 256 KiB each before it is written as JSON
_OPEN_TO_OTHERS: Final = 0o077
_ABSENT: Final = (FileNotFoundError, NotADirectoryError)
MAX_TIME: Final = 253_402_214_400.0  # seconds since 1970: what a calendar can show
Time = Annotated[float, msgspec.Meta(ge=0.0, le=MAX_TIME)]


class Identity(msgspec.Struct, frozen=True):
    """The owner of a sign-in: an entry of this name, its URL, and its client ("" if it registers)."""

    server: str
    url: str
    client_id: str = ""

    @property
    def key(self) -> str:
        """The name of the record in a store: 32 hexadecimal digits, which tell nothing."""
        text = json.dumps([self.server, self.url, self.client_id])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def identity_of(server: ServerConfig) -> Identity | None:
    """Return the identity of a server's sign-in; None for one that MCPX does not sign in to."""
    transport = server.transport
    if not isinstance(transport, Http | Sse) or transport.auth is None:
        return None
    if any(name.lower() == "authorization" for name in transport.headers):
        return None
    return Identity(server.name, transport.url, transport.auth.client_id or "")


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that were given last. Times are seconds since 1970; scopes are as the server has them."""

    access_token: str
    token_type: str = "Bearer"  # noqa: S105 - a kind of token
    refresh_token: str | None = None
    scope: str | None = None
    obtained_at: Time = 0.0
    expires_at: Time | None = None
    """When the access token expires; None if that was not said."""

    def __repr__(self) -> str:
        return f"Tokens(scope={self.scope!r}, expires_at={self.expires_at!r})"


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """The client that the tokens belong to, as the authorization server has registered it."""

    client_id: str
    client_secret: str | None = None
    client_secret_expires_at: Time | None = None
    token_auth: str | None = None
    redirect_uris: tuple[str, ...] = ()
    scope: str | None = None
    """The scopes that it may ask for, separated by spaces; None if that is not known."""
    issuer: str | None = None
    """The authorization server that it is registered at; no other is shown its secret."""

    def __repr__(self) -> str:
        return f"Registration(client_id={self.client_id!r}, issuer={self.issuer!r})"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One sign-in. `metadata` is that of the authorization server (RFC 8414), `resource_metadata` that of the
    server (RFC 9728), as they came: a daemon that starts knows from them where to refresh.

    `resource` is what the tokens are for (RFC 8707). `revision` grows with each change.
    """

    identity: Identity
    resource: str | None = None
    registration: Registration | None = None
    tokens: Tokens | None = None
    account: str | None = None
    """The name of the account, for people, as the authorization server has told it."""
    metadata: JSON | None = None
    resource_metadata: JSON | None = None
    revision: int = 0


# --- the files


class UnusableRecord(Exception):
    """A record is not one that MCPX has written for this identity; the text says why."""


class _Stored(msgspec.Struct, frozen=True):
    format: int
    record: Record


def encode_record(record: Record) -> bytes:
    """A record as it is stored, on one line."""
    return msgspec.json.encode(_Stored(FORMAT, record))


def decode_record(data: bytes, identity: Identity) -> Record:
    """The record in what is stored.

    Raises:
        UnusableRecord: It is none, or that of another identity.
    """
    try:
        stored = msgspec.json.decode(data, type=_Stored)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnusableRecord("it is damaged") from None
    if stored.format != FORMAT:
        raise UnusableRecord(f"it has format {stored.format}, not {FORMAT}")
    if stored.record.identity != identity:
        raise UnusableRecord("it belongs to another server")
    return stored.record


def prepare(folder: Path) -> None:
    """Create the folder, or see that it is for its owner alone.

    Raises:
        PermissionError: Others may change what is in it.
    """
    ensure_folder(folder)
    if _checked(folder).st_mode & _OPEN_TO_OTHERS:
        folder.chmod(0o700)


def _checked(folder: Path) -> os.stat_result:
    """Look at the folder. Where others may replace it as a whole, theirs is not taken for it."""
    found = folder.lstat()
    if (problem := foreign_folder(folder, found)) is not None:
        raise PermissionError(errno.EPERM, problem)
    return found


def read_record(folder: Path, identity: Identity) -> Record | None:
    """Read the record of an identity; None if there is none.

    Raises:
        UnusableRecord: It cannot be used.
        PermissionError: Others may change what is in the folder.
    """
    try:
        _checked(folder)
        with open_own_file(record_path(folder, identity)) as file:
            if os.fstat(file.fileno()).st_mode & _OPEN_TO_OTHERS:
                os.fchmod(file.fileno(), 0o600)
            data = file.read(MAX_RECORD_BYTES + 1)
    except _ABSENT:
        return None
    except IsADirectoryError:
        raise UnusableRecord("it is a folder") from None
    except ForeignFileError as error:
        raise UnusableRecord(f"it is {error.strerror}") from None
    if len(data) > MAX_RECORD_BYTES:
        raise UnusableRecord("it is too long")
    return decode_record(data, identity)


def write_record(folder: Path, record: Record) -> None:
    """Put a record in the place of the one of its identity, so that a power cut does not undo it."""
    prepare(folder)
    remove_partial(record_path(folder, record.identity))
    replace_file(record_path(folder, record.identity), encode_record(record))
    with suppress(FileNotFoundError):
        mark_path(folder, record.identity).unlink()
    sync_folder(folder)


def set_aside(folder: Path, identity: Identity) -> Path | None:
    """Move what cannot be used out of the way, for its owner alone. Returns where it is then, if it is."""
    path = record_path(folder, identity)
    aside = path.with_suffix(".set-aside")
    try:
        read_record(folder, identity)
    except UnusableRecord:
        path.replace(aside)
    else:
        return None  # another process has written it meanwhile
    with suppress(OSError):
        if aside.is_symlink():
            aside.unlink()
        else:
            aside.chmod(0o600)
    return aside


def remove_record(folder: Path, identity: Identity) -> None:
    """Remove a record, and what is left of others."""
    path = record_path(folder, identity)
    remove_partial(path)
    for each in (path, path.with_suffix(".set-aside")):
        with suppress(*_ABSENT):
            each.unlink()
    with suppress(*_ABSENT):
        sync_folder(folder)


def delete_record(folder: Path, identity: Identity) -> None:
    """Remove a record with its lock, which the caller has."""
    remove_record(folder, identity)
    with suppress(*_ABSENT):
        lock_path(folder, identity).unlink()


def record_path(folder: Path, identity: Identity) -> Path:
    """Return the path of an identity's record."""
    return folder / f"{identity.key}.json"


def lock_path(folder: Path, identity: Identity) -> Path:
    """Return the path of its lock."""
    return folder / f"{identity.key}.lock"


def lock_record(folder: Path, identity: Identity) -> int | None:
    """Lock a record without waiting: the descriptor that holds the lock; None if another has it."""
    return try_lock(lock_path(folder, identity))


def mark_path(folder: Path, identity: Identity) -> Path:
    """Return the path of the mark that the keychain has the record, and not this folder."""
    return folder / f"{identity.key}.keychain"
