"""`pins` in the state folder: what is pinned of each server, so that nobody can change it unnoticed.

One file a server, named by `pin_identity`, and `index.json`, which names the files that must be there and how
often each was written; all sealed by the key `trust.key`, which is in the state folder itself. So a file that
was edited or removed, one that was put back from a copy, an index or a key that is gone, and a folder that is
gone are each noticed. Such a record is a problem until a person approves the server anew (`mcpx approve`): it
is never taken for that of a server that was never seen.

Every function blocks. Writers take turns (flock), and replace files whole.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from mcpx.core.config import ServerConfig
from mcpx.core.policy.pin_record import Edit, PinRecord, empty_record, entry_key, successor
from mcpx.core.policy.pin_sharing import Marks
from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.sealed_files import Key, SealedFiles, UntrustedFile
from mcpx.paths import state_folder

_INDEX: Final = "index"


class Loaded(NamedTuple):
    """What is on the disk of one server: nothing, a record, or a problem, perhaps with the record."""

    record: PinRecord | None = None
    problem: str | None = None


class _Index(msgspec.Struct):
    """`written` has, by identity, how often its file was written. Not `whole`: others may be missing here."""

    written: dict[str, int] = {}
    started: dict[str, str] = {}
    """By entry, the identity of the server that it has started last."""
    whole: bool = True


class PinFiles:
    """The files in one state folder, the usual one by default."""

    def __init__(self, state: Path | None = None) -> None:
        self._state = state or state_folder()
        self.folder = self._state / "pins"
        self._files = SealedFiles(self.folder, self._state / "trust.key")

    def load(self, identity: str) -> Loaded:
        """What is kept of the server of that identity. Never raises."""
        return self._load(identity)[0]

    def base(self, server: ServerConfig) -> PinRecord:
        """What the record of a server that was never seen begins with.

        That of the server which its entry has started before, so that a change behind another command line is
        named like any other; but a server that is to be held is held as a new one.
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
        """Something that is another when the files were changed, by whomever."""
        return [_stamp(path) for path in (self._files.key_file, self.folder, self._files.path(_INDEX))]

    def stamp(self, identity: str) -> object:
        """The same for the file of one server alone, which may be changed in place."""
        return _stamp(self._files.path(identity))

    def update(
        self,
        identity: str,
        edit: Edit,
        base: PinRecord,
        *,
        entry: str = "",
        anew: PinRecord | None = None,
    ) -> Loaded:
        """Have the record made by `edit` out of the one that is there, or out of `base`.

        `entry` is the one by which the server is started (`entry_key`). Nothing is written while there is a
        problem, unless it is given out of what to make the record `anew`.

        Raises:
            OSError: It cannot be written; what was there is there.
        """
        ensure_folder(self._state)
        ensure_folder(self.folder)
        files = self._files
        with files.locked():
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
        """What was shared with other gateways when that was noted last; None if that is not known."""
        with suppress(UntrustedFile, OSError):
            if (key := self._files.key()) is not None:
                return self._files.read(_marks_name(identity), key, Marks)[0]
        return None

    def note_marks(self, identity: str, marks: Marks) -> None:
        """Note what is shared with other gateways.

        Raises:
            OSError: It cannot be written.
        """
        ensure_folder(self._state)
        ensure_folder(self.folder)
        with self._files.locked():
            self._files.write(_marks_name(identity), self._files.own_key(), marks.number, marks)

    def forget_losses(self) -> None:
        """Take what is there for all that there was, when a person has approved all that waits.

        Raises:
            OSError: That cannot be written.
        """
        if not self._files.any():
            return
        with self._files.locked(), suppress(UntrustedFile, FileNotFoundError):
            if (key := self._files.key()) is not None:
                index, _ = self._files.read(_INDEX, key, _Index)
                if not index.whole:
                    index.whole = True
                    self._files.write(_INDEX, key, 1, index)

    # --- reading

    def _load(self, identity: str) -> tuple[Loaded, _Index, int]:
        """What is there of the server, with the index and how often the record was written."""
        index, problem, files = _Index(whole=False), None, self._files
        try:
            if (problem := files.distrusted()) is not None:
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
        """The index, and what is wrong with it.

        Raises:
            OSError: It cannot be read.
        """
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
