"""What the journal knows of a change: its files, how far it has come, and where the copies are."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from mcpx.core.documents.editing import Syntax
from mcpx.setup.changes.files import ChangeError, read_file

_MAX_COPY_NAME_LEN: Final = 100  # characters of a file's name in that of its copy


class State(StrEnum):
    """How far a change has come."""

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
        """Where the copy of a file is, as it was."""
        return self.folder / f"{index}-before-{self._name(index)}"

    def copy_after(self, index: int) -> Path:
        """Where the copy of a file is, as it became."""
        return self.folder / f"{index}-after-{self._name(index)}"

    def before(self, index: int) -> bytes | None:
        """What a file held before; None if there was none.

        Raises:
            ChangeError: The copy is gone.
        """
        return self._copy(self.copy_before(index)) if self.files[index].existed else None

    def after(self, index: int) -> bytes | None:
        """What a file held afterwards; None if there was none, or if another program's work was cut short.

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
