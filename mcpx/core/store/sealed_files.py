"""Files with a keyed hash: whoever changes one without the key is noticed.

Each file begins with a line that has the HMAC-SHA256 of its name, its number and its rest. The key is random,
in a file of its own beside the folder, and remembers whether it was `used`: then there must be files. Every
function blocks.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from mcpx.core.store.folders import distrust_folder
from mcpx.core.store.private_files import ForeignFileError, locked, read_own_file, replace_file

FORMAT: Final = 1
MAX_FILE_BYTES: Final = 256 << 20
LOCK_TIMEOUT_S: Final = 5.0  # for another process that writes
_MAX_HEAD_BYTES: Final = 1024
_KEY_BYTES: Final = 32
_USED: Final = b" used\n"
_ABSENT: Final = (FileNotFoundError, NotADirectoryError)

T = TypeVar("T")


class UntrustedFile(Exception):  # noqa: N818 - a condition
    """A file is not what MCPX has written; the text says why."""


class Key(NamedTuple):
    """The key. `used`: it has sealed files that must be there."""

    value: bytes
    used: bool


class _Head(msgspec.Struct):
    """The first line of a file."""

    format: int
    mac: str
    number: int


class SealedFiles:
    """The files `*.json` in one folder, and their key. `number` is what a file was written with."""

    def __init__(self, folder: Path, key_file: Path) -> None:
        self.folder = folder
        self.key_file = key_file

    def path(self, name: str) -> Path:
        """Where the file of that name is."""
        return self.folder / f"{name}.json"

    def read(self, name: str, key: Key, kind: type[T]) -> tuple[T, int]:
        """The contents of a file, and its number.

        Raises:
            OSError: It cannot be read; there is none.
            UntrustedFile: It is not as MCPX has written it.
        """
        path = self.path(name)
        line, _, data = _read_own(path).partition(b"\n")
        try:
            head = msgspec.json.decode(line, type=_Head)
            if head.format != FORMAT:
                raise UntrustedFile(f"{path} has format {head.format}, not {FORMAT}")
            if not hmac.compare_digest(head.mac, _mac(key, name, head.number, data)):
                raise UntrustedFile(f"{path} was changed, and not by MCPX")
            return msgspec.json.decode(data, type=kind), head.number
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):
            raise UntrustedFile(f"{path} was changed, and not by MCPX") from None

    def write(self, name: str, key: Key, number: int, value: msgspec.Struct) -> None:
        """Put a whole file in the place of the one of that name.

        Raises:
            OSError: It cannot be written, or is too large.
        """
        data = msgspec.json.encode(value)
        if len(data) > MAX_FILE_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(self.path(name)))
        head = _Head(FORMAT, _mac(key, name, number, data), number)
        replace_file(self.path(name), msgspec.json.encode(head) + b"\n" + data)

    def any(self) -> bool:
        """Whether there is a file."""
        return any(self.folder.glob("*.json"))

    def distrusted(self) -> str | None:
        """Why others may have written in the folder."""
        try:
            return distrust_folder(self.folder)
        except _ABSENT:
            return None

    # --- the key

    def key(self) -> Key | None:
        """The key; None if there is none.

        Raises:
            OSError: It cannot be read.
            UntrustedFile: It is none.
        """
        try:
            data = _read_own(self.key_file)
        except _ABSENT:
            return None
        try:
            value = bytes.fromhex(data[: 2 * _KEY_BYTES].decode())
        except ValueError:
            value = b""
        if len(value) != _KEY_BYTES:
            raise UntrustedFile(f"{self.key_file} was changed, and not by MCPX")
        return Key(value, data.endswith(_USED))

    def own_key(self) -> Key:
        """The key, a new one if there is none that can be used.

        Raises:
            OSError: It cannot be read or written.
        """
        with suppress(UntrustedFile):
            if (key := self.key()) is not None:
                return key
        key = Key(os.urandom(_KEY_BYTES), used=False)
        self._write_key(key)
        return key

    def mark_used(self, key: Key) -> None:
        """Note that there are files by now.

        Raises:
            OSError: That cannot be written.
        """
        if not key.used:
            self._write_key(key._replace(used=True))

    def _write_key(self, key: Key) -> None:
        replace_file(self.key_file, key.value.hex().encode() + (_USED if key.used else b"\n"))

    def locked(self) -> AbstractContextManager[None]:
        """Keep other writers out.

        Raises:
            OSError: Another process writes all the while.
        """
        return locked(self.folder / "lock", timeout_s=LOCK_TIMEOUT_S)


def _mac(key: Key, name: str, number: int, data: bytes) -> str:
    return hmac.new(key.value, f"{FORMAT} {name} {number}\n".encode() + data, hashlib.sha256).hexdigest()


def _read_own(path: Path) -> bytes:
    """The bytes of a file of this user's.

    Raises:
        OSError: It cannot be read; there is none.
        UntrustedFile: Another user may have written it, or it is too long.
    """
    try:
        return read_own_file(path, MAX_FILE_BYTES + _MAX_HEAD_BYTES)
    except ForeignFileError as error:
        raise UntrustedFile(str(error)) from None
