"""`pins` in the state folder: what is pinned of each server, so that nobody can change it unnoticed.

One file a server, named by `pin_identity`, and `index.json`, which names the files that must be there and how
often each was written. Every file begins with an HMAC-SHA256 of its rest by the key in `trust.key`, which is
in the state folder itself: so a file that was edited or removed, one that was put back from a copy, an index
or a key that is gone, and a folder that is gone are each noticed. Such a record is a problem until a person
approves the server anew (`mcpx approve`): it is never taken for that of a server that was never seen.

Every function blocks. Writers take turns (flock), and replace files whole.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from mcpx.paths import READ_FLAGS, distrust_folder, ensure_folder, replace_file, state_folder
from mcpx.trust.pin_record import Edit, PinRecord

FORMAT: Final = 1
MAX_FILE_BYTES: Final = 256 << 20
LOCK_TIMEOUT_S: Final = 5.0  # for another process that writes
_LOCK_PAUSE_S: Final = 0.02
_KEY_BYTES: Final = 32
_USED: Final = b" used\n"
"""Behind a key with which an index was written: if there is none then, it was removed."""
_INDEX: Final = "index"

_ABSENT: Final = (FileNotFoundError, NotADirectoryError)

T = TypeVar("T")


class Loaded(NamedTuple):
    """What is on the disk of one server: nothing, a record, or a problem, perhaps with the record."""

    record: PinRecord | None = None
    problem: str | None = None


class UntrustedFile(Exception):  # noqa: N818 - a condition
    """A file is not what MCPX has written; the text says why."""


class _Head(msgspec.Struct):
    """The first line of a file."""

    format: int
    mac: str
    sequence: int
    """How often it was written."""


class _Index(msgspec.Struct):
    """`written` has, by identity, how often its file was written. Not `whole`: others may be missing here."""

    written: dict[str, int] = {}
    whole: bool = True


class _Key(NamedTuple):
    value: bytes
    used: bool


class PinFiles:
    """The files in one state folder, the usual one by default."""

    def __init__(self, state: Path | None = None) -> None:
        self._state = state or state_folder()
        self.folder = self._state / "pins"
        self._key_file = self._state / "trust.key"

    def load(self, identity: str) -> Loaded:
        """What is kept of the server of that identity. Never raises."""
        return self._load(identity)[0]

    def signature(self) -> object:
        """Something that is another when the files were changed, by whomever."""
        return [_stamp(path) for path in (self._key_file, self.folder, self._path(_INDEX))]

    def stamp(self, identity: str) -> object:
        """The same for the file of one server alone, which may be changed in place."""
        return _stamp(self._path(identity))

    def update(self, identity: str, edit: Edit, empty: PinRecord, *, anew: PinRecord | None = None) -> Loaded:
        """Have the record made by `edit` out of the one that is there, or out of `empty`.

        Nothing is written while there is a problem, unless it is given out of what to make the record `anew`.

        Raises:
            OSError: It cannot be written; what was there is there.
        """
        ensure_folder(self._state)
        ensure_folder(self.folder)
        with self._locked():
            found, index, sequence = self._load(identity)
            if found.problem is not None and anew is None:
                return found
            before = (found.record if found.problem is None else anew) or empty
            record = edit(before)
            if record == before and found.problem is None:
                return found
            key = self._own_key()
            sequence = 1 + max(sequence, index.written.get(identity, 0))
            self._write(identity, key.value, sequence, record)
            index.written[identity] = sequence
            self._write(_INDEX, key.value, 1, index)
            if not key.used:
                self._write_key(key.value, used=True)
            return Loaded(record)

    def forget_losses(self) -> None:
        """Take what is there for all that there was, when a person has approved all that waits."""
        with self._locked():
            key = self._key()
            if key is None:
                return
            with suppress(UntrustedFile, FileNotFoundError):
                index, _ = self._read(_INDEX, key.value, _Index)
                if not index.whole:
                    index.whole = True
                    self._write(_INDEX, key.value, 1, index)

    # --- reading

    def _load(self, identity: str) -> tuple[Loaded, _Index, int]:
        """What is there of the server, with the index and how often the record was written."""
        index, problem = _Index(whole=False), None
        try:
            if (problem := self._distrusted()) is not None:
                return Loaded(None, problem), index, 0
            key = self._key()
            if key is None:
                if not any(self.folder.glob("*.json")):
                    return Loaded(), _Index(), 0
                key = self._key()  # another process may have made the first of all pins meanwhile
            if key is None:
                return Loaded(None, f"{self._key_file}, the key to all pins, was removed"), index, 0
            index, problem = self._read_index(key)
            record, sequence = self._read(identity, key.value, PinRecord)
        except FileNotFoundError:
            if problem is None and (identity in index.written or not index.whole):
                problem = f"{self._path(identity)}, the file with its pins, was removed"
            return Loaded(None, problem), index, 0
        except UntrustedFile as error:
            return Loaded(None, str(error)), index, 0
        except OSError as error:
            return Loaded(None, f"{error.filename}: {error.strerror or error}"), index, 0
        if problem is None and sequence < index.written.get(identity, 0):
            problem = f"{self._path(identity)}, the file with its pins, was replaced by an older one"
        return Loaded(record, problem), index, sequence

    def _read_index(self, key: _Key) -> tuple[_Index, str | None]:
        """The index, and what is wrong with it.

        Raises:
            OSError: It cannot be read.
        """
        try:
            return self._read(_INDEX, key.value, _Index)[0], None
        except FileNotFoundError:
            if not key.used:
                return _Index(), None
            return _Index(whole=False), f"{self._path(_INDEX)}, the list of all pins, was removed"
        except UntrustedFile as error:
            return _Index(whole=False), str(error)

    def _read(self, name: str, key: bytes, kind: type[T]) -> tuple[T, int]:
        """The contents of a file, and how often it was written.

        Raises:
            OSError: It cannot be read; there is none.
            UntrustedFile: It is not as MCPX has written it.
        """
        path = self._path(name)
        line, _, data = _read_own(path).partition(b"\n")
        try:
            head = msgspec.json.decode(line, type=_Head)
            if head.format != FORMAT:
                raise UntrustedFile(f"{path} has format {head.format}, not {FORMAT}")
            if not hmac.compare_digest(head.mac, _mac(key, name, head.sequence, data)):
                raise UntrustedFile(f"{path} was changed, and not by MCPX")
            return msgspec.json.decode(data, type=kind), head.sequence
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):
            raise UntrustedFile(f"{path} was changed, and not by MCPX") from None

    def _distrusted(self) -> str | None:
        """Why others may have written in the folder."""
        try:
            return distrust_folder(self.folder, self.folder.lstat())
        except _ABSENT:
            return None

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    # --- the key

    def _key(self) -> _Key | None:
        """The key; None if there is none.

        Raises:
            OSError: It cannot be read.
            UntrustedFile: It is none.
        """
        try:
            data = _read_own(self._key_file)
        except _ABSENT:
            return None
        try:
            value = bytes.fromhex(data[: 2 * _KEY_BYTES].decode())
        except ValueError:
            value = b""
        if len(value) != _KEY_BYTES:
            raise UntrustedFile(f"{self._key_file} was changed, and not by MCPX")
        return _Key(value, data.endswith(_USED))

    def _own_key(self) -> _Key:
        """The key, a new one if there is none that can be used."""
        with suppress(UntrustedFile):
            if (key := self._key()) is not None:
                return key
        value = os.urandom(_KEY_BYTES)
        self._write_key(value, used=False)
        return _Key(value, used=False)

    def _write_key(self, value: bytes, *, used: bool) -> None:
        replace_file(self._key_file, value.hex().encode() + (_USED if used else b"\n"))

    # --- writing

    def _write(self, name: str, key: bytes, sequence: int, value: msgspec.Struct) -> None:
        data = msgspec.json.encode(value)
        if len(data) > MAX_FILE_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(self._path(name)))
        head = _Head(FORMAT, _mac(key, name, sequence, data), sequence)
        replace_file(self._path(name), msgspec.json.encode(head) + b"\n" + data)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other writers out.

        Raises:
            OSError: Another process writes all the while.
        """
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            deadline = time.monotonic() + LOCK_TIMEOUT_S
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_LOCK_PAUSE_S)
                else:
                    break
            yield
        finally:
            os.close(lock)


def _mac(key: bytes, name: str, sequence: int, data: bytes) -> str:
    return hmac.new(key, f"{FORMAT} {name} {sequence}\n".encode() + data, hashlib.sha256).hexdigest()


def _read_own(path: Path) -> bytes:
    """The bytes of a file of this user's.

    Raises:
        OSError: It cannot be read; there is none.
        UntrustedFile: Another user may have written it, or it is too long.
    """
    opened = os.open(path, READ_FLAGS)
    with os.fdopen(opened, "rb") as file:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise UntrustedFile(f"{path} is not a file that is yours alone")
        data = file.read(MAX_FILE_BYTES + 1024)
        if len(data) > MAX_FILE_BYTES + 1000:
            raise UntrustedFile(f"{path} is too long")
        return data


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.lstat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
