"""`pins` in the state folder: what is pinned of each server, so that nobody can change it unnoticed.

One file a server, named by `pin_identity`, and `index.json`, with the files that must be there and how
often each was written. Each begins with a line that has the HMAC-SHA256 of its name, its number and its
rest; the key is random, in `trust.key` in the state folder itself, and remembers whether it was used. So a
file that was edited or removed, one that was put back from a copy, an index or a key that is gone, and a
folder that is gone are each noticed. Such a record is a problem until a person approves the server anew
(`mcpx approve`): it is never taken for that of a server that was never seen.

Every function blocks. Writers take turns (flock), and replace files whole.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from mcpx.core.config import ServerConfig
from mcpx.core.policy.pin_record import Edit, PinRecord, empty_record, entry_key, successor
from mcpx.core.policy.pin_sharing import Marks
from mcpx.core.store.folders import distrust_folder, ensure_folder
from mcpx.core.store.private_files import ForeignFileError, read_own_file, replace_file
from mcpx.core.system.locks import locked
from mcpx.paths import state_folder

FORMAT: Final = 1
MAX_FILE_BYTES: Final = 256 << 20
LOCK_TIMEOUT_S: Final = 5.0  # for another process that writes
_MAX_HEAD_BYTES: Final = 1024
_KEY_BYTES: Final = 32
_USED: Final = b" used\n"
_INDEX: Final = "index"
T = TypeVar("T")


class Loaded(NamedTuple):
    """One server on the disk: nothing, a record, or a problem, perhaps with the record."""

    record: PinRecord | None = None
    problem: str | None = None


class UntrustedFile(Exception):
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


class _Index(msgspec.Struct):
    """`written` has, by identity, how often its file was written. Not `whole`: others may be missing here."""

    written: dict[str, int] = {}
    started: dict[str, str] = {}
    """By entry, the identity of the server that it has started last."""
    whole: bool = True


class SealedFiles:
    """The files `*.json` in one folder, and the key that seals them; each is written with a number."""

    def __init__(self, state: Path) -> None:
        self.folder = state / "pins"
        self.key_file = state / "trust.key"

    def path(self, name: str) -> Path:
        """Return the path of the file of that name."""
        return self.folder / f"{name}.json"

    def read(self, name: str, key: Key, kind: type[T]) -> tuple[T, int]:
        """Read the contents of a file, and its number.

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
        """Return True if there is a file."""
        return any(self.folder.glob("*.json"))

    def key(self) -> Key | None:
        """Read the key; None if there is none.

        Raises:
            OSError: It cannot be read.
            UntrustedFile: It is none.
        """
        try:
            data = _read_own(self.key_file)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            value = bytes.fromhex(data[: 2 * _KEY_BYTES].decode())
        except ValueError:
            value = b""
        if len(value) != _KEY_BYTES:
            raise UntrustedFile(f"{self.key_file} was changed, and not by MCPX")
        return Key(value, data.endswith(_USED))

    def own_key(self) -> Key:
        """Read the key, and make a new one if there is none that can be used.

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

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Create the folder, and keep other writers out.

        Raises:
            OSError: It cannot be created, or another process writes all the while.
        """
        ensure_folder(self.folder.parent)
        ensure_folder(self.folder)
        with locked(self.folder / "lock", timeout_s=LOCK_TIMEOUT_S):
            yield


def _mac(key: Key, name: str, number: int, data: bytes) -> str:
    return hmac.new(key.value, f"{FORMAT} {name} {number}\n".encode() + data, hashlib.sha256).hexdigest()


def _read_own(path: Path) -> bytes:
    try:
        return read_own_file(path, MAX_FILE_BYTES + _MAX_HEAD_BYTES)
    except ForeignFileError as error:
        raise UntrustedFile(str(error)) from None


class PinFiles:
    """The files in one state folder, the usual one by default."""

    def __init__(self, state: Path | None = None) -> None:
        self._files = SealedFiles(state or state_folder())
        self.folder = self._files.folder

    def load(self, identity: str) -> Loaded:
        """Read what is kept of the server of that identity. Never raises."""
        return self._load(identity)[0]

    def base(self, server: ServerConfig) -> PinRecord:
        """Make the record that a server which was never seen begins with.

        It is that of the server which its entry has started before, so that a change behind another command
        line is named like any other; but a server that is to be held is held as a new one.
        """
        empty, entry = empty_record(server), entry_key(server)
        if server.quarantine or not entry:
            return empty
        with suppress(UntrustedFile, OSError):
            key = self._files.key()
            before = None if key is None else self._read_index(key)[0].started.get(entry)
            former = Loaded() if before is None else self.load(before)
            if former.record is not None and former.problem is None and former.record.state == "pinned":
                return successor(former.record, empty)
        return empty

    def signature(self) -> object:
        """Return something that is another when the files were changed, by whomever."""
        return [_stamp(path) for path in (self._files.key_file, self.folder, self._files.path(_INDEX))]

    def stamp(self, identity: str) -> object:
        """Return the same for the file of one server alone, which may be changed in place."""
        return _stamp(self._files.path(identity))

    def update(
        self, identity: str, edit: Edit, base: PinRecord, *, entry: str = "", anew: PinRecord | None = None
    ) -> Loaded:
        """Replace the record by what `edit` makes of the one that is there, or of `base`.

        `entry` is the one by which the server is started (`entry_key`). Nothing is written while there is a
        problem, unless it is given out of what to make the record `anew`.

        Raises:
            OSError: It cannot be written; what was there is there.
        """
        files = self._files
        with files.writing():
            found, index, number = self._load(identity)
            if found.problem is not None and anew is None:
                return found
            before = (found.record if found.problem is None else anew) or base
            record = edit(before)
            known = not entry or index.started.get(entry) == identity
            if record == before and found.problem is None and known:
                return found
            key = files.own_key()
            number = 1 + max(number, index.written.get(identity, 0))
            files.write(identity, key, number, record)
            index.written[identity] = number
            if entry:
                index.started[entry] = identity
            files.write(_INDEX, key, 1, index)
            files.mark_used(key)
            return Loaded(record)

    def marks(self, identity: str) -> Marks | None:
        """Read what was shared with other gateways when that was noted last; None if that is not known."""
        with suppress(UntrustedFile, OSError):
            if (key := self._files.key()) is not None:
                return self._files.read(_marks_name(identity), key, Marks)[0]
        return None

    def note_marks(self, identity: str, marks: Marks) -> None:
        """Note what is shared with other gateways.

        Raises:
            OSError: It cannot be written.
        """
        with self._files.writing():
            self._files.write(_marks_name(identity), self._files.own_key(), marks.number, marks)

    def forget_losses(self) -> None:
        """Take what is there for all that there was, when a person has approved all that waits.

        Raises:
            OSError: That cannot be written.
        """
        if not self._files.any():
            return
        with self._files.writing(), suppress(UntrustedFile, FileNotFoundError):
            if (key := self._files.key()) is not None:
                index, _ = self._files.read(_INDEX, key, _Index)
                if not index.whole:
                    index.whole = True
                    self._files.write(_INDEX, key, 1, index)

    # --- reading

    def _load(self, identity: str) -> tuple[Loaded, _Index, int]:
        """Read what is there of a server, with the index and how often the record was written."""
        index, problem, files = _Index(whole=False), None, self._files
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                problem = distrust_folder(self.folder)
            if problem is not None:
                return Loaded(None, problem), index, 0
            key = files.key()
            if key is None:
                if not files.any():
                    return Loaded(), _Index(), 0
                key = files.key()  # another process may have made the first of all pins meanwhile
            if key is None:
                return Loaded(None, f"{files.key_file}, the key to all pins, was removed"), index, 0
            index, problem = self._read_index(key)
            record, number = files.read(identity, key, PinRecord)
        except FileNotFoundError:
            if problem is None and (identity in index.written or not index.whole):
                problem = f"{files.path(identity)}, the file with its pins, was removed"
            return Loaded(None, problem), index, 0
        except UntrustedFile as error:
            return Loaded(None, str(error)), index, 0
        except OSError as error:
            return Loaded(None, f"{error.filename}: {error.strerror or error}"), index, 0
        if problem is None and number < index.written.get(identity, 0):
            problem = f"{files.path(identity)}, the file with its pins, was replaced by an older one"
        return Loaded(record, problem), index, number

    def _read_index(self, key: Key) -> tuple[_Index, str | None]:
        """Read the index, and say what is wrong with it."""
        try:
            return self._files.read(_INDEX, key, _Index)[0], None
        except FileNotFoundError:
            if not key.used:
                return _Index(), None
            problem = f"{self._files.path(_INDEX)}, the list of all pins, was removed"
            return _Index(whole=False), problem
        except UntrustedFile as error:
            return _Index(whole=False), str(error)


def _marks_name(identity: str) -> str:
    return f"{identity}.shared"


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.lstat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
