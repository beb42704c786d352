"""The journal of changes: a folder in the state folder for each, with copies of every file before and after.

A change's folder holds `change.json`, which is written once, the copies, and an empty file whose name is its
state, so that going on to the next state is one rename, which a full disk allows:

    begun > done          all files are as meant
    begun > taken-back    it failed or was interrupted, and all files are as before

Whoever writes here holds the lock. Nothing here is ever rewritten or forgotten.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from mcpx.core.store.folders import ensure_folder, foreign_folder, sync_folder
from mcpx.core.store.private_files import create_file, replace_file
from mcpx.core.system.locks import locked
from mcpx.paths import state_folder
from mcpx.setup.changes.files import ChangeError, read_file, reason
from mcpx.setup.documents.editing import Syntax

FOLDER: Final = "changes"  # in the state folder
LOCK_WAIT_S: Final = 10.0  # for another command that changes files
_PARTIAL: Final = ".new-"  # how the name of a change's folder begins while it is written
_MAX_NAME_LEN: Final = 60  # characters of the command in a folder's name
_MAX_COPY_NAME_LEN: Final = 100  # characters of a file's name in that of its copy


class State(StrEnum):
    """The progress of a change."""

    BEGUN = "begun"
    DONE = "done"
    TAKEN_BACK = "taken-back"


class FileRecord(msgspec.Struct, frozen=True):
    """One file of a change, in the journal. `path` is as it was given, `target` where its links led."""

    path: str
    target: str
    existed: bool
    remains: bool
    """Whether the file exists afterwards."""
    mode: int
    """Of the file: what it had, or what it was created with."""
    created_folders: tuple[str, ...] = ()
    """Which were created for it, the innermost first."""
    syntax: Syntax | None = None
    performed: bool = False
    """By another program, so that what it leaves is recorded when it has ended."""


class Change(msgspec.Struct, frozen=True):
    """A change of files, as the journal has it. `about` is what the command wants to remember: plain JSON."""

    number: int
    id: str
    folder: Path
    command: str
    at: str
    """When it began: ISO 8601, UTC."""
    files: tuple[FileRecord, ...]
    about: dict[str, Any]
    undoes: str | None
    """The id of the change that this one takes back."""
    state: State
    interrupted: tuple[str, ...] = ()
    """Sentences on earlier changes that had been interrupted, and were taken back before this one."""

    def copy_before(self, index: int) -> Path:
        """Return the path of the copy of a file as it was."""
        return self.folder / f"{index}-before-{self._name(index)}"

    def copy_after(self, index: int) -> Path:
        """Return the path of the copy of a file as it became."""
        return self.folder / f"{index}-after-{self._name(index)}"

    def before(self, index: int) -> bytes | None:
        """Return what a file held before; None if there was none.

        Raises:
            ChangeError: The copy is gone.
        """
        return self._copy(self.copy_before(index)) if self.files[index].existed else None

    def after(self, index: int) -> bytes | None:
        """Return what a file held afterwards; None if none, or if another program's work was cut short.

        Raises:
            ChangeError: The copy is gone.
        """
        file = self.files[index]
        if not file.remains or (file.performed and not self.copy_after(index).exists()):
            return None
        return self._copy(self.copy_after(index))

    def staged(self, index: int) -> Path:
        """The name beside the file under which its new contents are written."""
        return Path(self.files[index].target).parent / f".mcpx-{self.id}-{index}.new"

    def _name(self, index: int) -> str:
        return Path(self.files[index].path).name[-_MAX_COPY_NAME_LEN:]

    def _copy(self, path: Path) -> bytes:
        contents = read_file(path)
        if contents is None:
            raise ChangeError(f"{path}: the copy is gone, so {self.id} cannot be taken back")
        return contents


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
        except OSError as error:
            raise self._unwritable(error) from None
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.folder / "lock", timeout_s=LOCK_WAIT_S))
            except BlockingIOError:
                raise ChangeError(
                    "another mcpx command is changing files; nothing was changed: try again when it has ended"
                ) from None
            except OSError as error:
                raise self._unwritable(error) from None
            yield

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
        if foreign_folder(self.folder) is not None:
            raise ChangeError(
                f"{self.folder}: others may change what is in it, so no copies of your files are kept there: "
                "make it yours alone (chmod 700), or name another state folder with MCPX_STATE_DIR"
            )

    def _unwritable(self, error: OSError) -> ChangeError:
        return ChangeError(
            f"{self.folder}: {reason(error)}, so no copy of your files can be kept, and nothing was changed; "
            "name another state folder with MCPX_STATE_DIR"
        )


def _write_folder(folder: Path, change: Change, copies: Sequence[tuple[bytes | None, bytes | None]]) -> None:
    folder.mkdir(mode=0o700)
    inside = msgspec.structs.replace(change, folder=folder)
    for index, (before, after) in enumerate(copies):
        if before is not None:
            create_file(inside.copy_before(index), before)
        if after is not None and not change.files[index].performed:
            create_file(inside.copy_after(index), after)
    text = {name: getattr(change, name) for name in ("number", "id", "command", "at", "about", "undoes")}
    text["files"] = msgspec.to_builtins(change.files)
    create_file(folder / "change.json", json.dumps(text, indent=2).encode())
    create_file(folder / change.state, b"")
    sync_folder(folder)


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
