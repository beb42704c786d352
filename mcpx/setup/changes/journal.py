"""The journal of changes: a folder in the state folder for each, with copies of every file before and after.

A change's folder holds `change.json`, which is written once, the copies, and an empty file whose name is its
state, so that going on to the next state is one rename, which a full disk allows:

    begun > done          all files are as meant
    begun > taken-back    it failed or was interrupted, and all files are as before

Whoever writes here holds the lock. Nothing here is ever rewritten or forgotten.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from mcpx.paths import CREATE_FLAGS, ensure_folder, replace_file, state_folder, wait_for_lock
from mcpx.setup.changes.files import ChangeError, read_file, reason, sync_folder
from mcpx.setup.changes.record import Change, FileRecord, State

FOLDER: Final = "changes"  # in the state folder
LOCK_WAIT_S: Final = 10.0  # for another command that changes files
_PARTIAL: Final = ".new-"  # how the name of a change's folder begins while it is written
_MAX_NAME_LEN: Final = 60  # characters of the command in a folder's name


class Journal:
    """The changes in a state folder."""

    def __init__(self, state: Path | None = None) -> None:
        self.folder = (state or state_folder()).absolute() / FOLDER

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands from changing files meanwhile, and create the journal if there is none.

        Raises:
            ChangeError: Another command holds the lock for too long, or the journal cannot be written.
        """
        try:
            ensure_folder(self.folder)
            self._check_owner()
            lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            _wait_for(lock, self.folder)
            yield
        finally:
            os.close(lock)

    def changes(self) -> list[Change]:
        """All changes, the oldest first; what cannot be read is left out."""
        found: list[Change | None] = []
        with suppress(OSError):
            found = [_read(folder) for folder in self.folder.iterdir() if not folder.name.startswith(".")]
        return sorted(filter(None, found), key=lambda change: change.number)

    def begin(
        self,
        command: str,
        files: Sequence[FileRecord],
        copies: Sequence[tuple[bytes | None, bytes | None]],
        *,
        about: dict[str, Any],
        undoes: str | None,
    ) -> Change:
        """Record a change that is about to begin, with `copies` of each file before and after, for good.

        Raises:
            ChangeError: The journal cannot be written; nothing is recorded.
        """
        now = datetime.now(UTC)
        name = f"{now:%Y%m%dT%H%M%SZ}-{_slug(command)}"
        last = max((change.number for change in self.changes()), default=0)
        taken = {entry.name for entry in self.folder.iterdir()}
        name = next(each for each in _numbered(name) if each not in taken)
        change = Change(
            number=last + 1,
            id=name,
            folder=self.folder / name,
            command=command,
            at=now.isoformat(timespec="seconds"),
            files=tuple(files),
            about=about,
            undoes=undoes,
            state=State.BEGUN,
        )
        partial = self.folder / f"{_PARTIAL}{name}"
        try:
            _write_folder(partial, change, copies)
            partial.rename(change.folder)
            sync_folder(self.folder)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise self._unwritable(error) from None
        return change

    def record_after(self, change: Change, index: int, contents: bytes) -> None:
        """Keep what another program has left.

        Raises:
            ChangeError: It cannot be written.
        """
        try:
            replace_file(change.copy_after(index), contents)
        except OSError as error:
            raise ChangeError(f"{change.folder}: {reason(error)}") from None

    def mark(self, change: Change, state: State) -> Change:
        """Take a change to another state.

        Raises:
            ChangeError: The journal cannot be written.
        """
        try:
            (change.folder / change.state).rename(change.folder / state)
            sync_folder(change.folder)
        except OSError as error:
            raise ChangeError(f"{change.folder}: {reason(error)}") from None
        return msgspec.structs.replace(change, state=state)

    def partial(self) -> list[Path]:
        """The folders of changes that were cut short before anything was changed."""
        return list(self.folder.glob(f"{_PARTIAL}*"))

    def sweep(self) -> None:
        """Remove the folders that `partial` names."""
        for folder in self.partial():
            shutil.rmtree(folder, ignore_errors=True)

    def _check_owner(self) -> None:
        found = self.folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise ChangeError(
                f"{self.folder}: others may change what is in it, so no copies of your files are kept there: "
                "make it yours alone (chmod 700), or name another state folder with MCPX_STATE_DIR"
            )

    def _unwritable(self, error: OSError) -> ChangeError:
        return ChangeError(
            f"{self.folder}: {reason(error)}, so no copy of your files can be kept, and nothing was changed; "
            "name another state folder with MCPX_STATE_DIR"
        )


def _wait_for(lock: int, path: Path) -> None:
    try:
        wait_for_lock(lock, path, timeout_s=LOCK_WAIT_S)
    except BlockingIOError:
        raise ChangeError(
            "another mcpx command is changing files; nothing was changed: try again when it has ended"
        ) from None


def _write_folder(folder: Path, change: Change, copies: Sequence[tuple[bytes | None, bytes | None]]) -> None:
    folder.mkdir(mode=0o700)
    inside = msgspec.structs.replace(change, folder=folder)
    for index, (before, after) in enumerate(copies):
        if before is not None:
            _write(inside.copy_before(index), before)
        if after is not None and not change.files[index].performed:
            _write(inside.copy_after(index), after)
    text = {name: getattr(change, name) for name in ("number", "id", "command", "at", "about", "undoes")}
    text["files"] = msgspec.to_builtins(change.files)
    _write(folder / "change.json", json.dumps(text, indent=2).encode())
    _write(folder / change.state, b"")
    sync_folder(folder)


def _write(path: Path, contents: bytes) -> None:
    with os.fdopen(os.open(path, CREATE_FLAGS, 0o600), "wb") as file:
        file.write(contents)
        file.flush()
        os.fsync(file.fileno())


def _read(folder: Path) -> Change | None:
    state = next((each for each in State if (folder / each).exists()), None)
    try:
        text = read_file(folder / "change.json")
        if state is None or text is None:
            return None
        fields = json.loads(text)
        files = msgspec.convert(fields.pop("files"), tuple[FileRecord, ...])
        return Change(**fields, files=files, folder=folder, state=state)
    except (ChangeError, ValueError, TypeError, KeyError):
        return None


def _slug(command: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", command.lower()).strip("-")[:_MAX_NAME_LEN].strip("-") or "change"


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1
