"""MCPX taken out of a client's file: byte for byte as it was, where the file is as MCPX left it.

The journal has each change that MCPX made in the file. They are taken back one by one, the last first, until
the file is one without MCPX; where a file was changed since, members of MCPX alone are taken out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from mcpx.core.documents import DocumentError
from mcpx.setup.changes import Change, ChangeError, State, obstacle, read_file, real_path, undone
from mcpx.setup.changes.merging import take_back
from mcpx.setup.clients.finding import ClientFile
from mcpx.setup.clients.installing import remove_entries
from mcpx.setup.clients.reading import read_servers

COMMAND = "uninstall"


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """What is to become of a client's file; `before` and `after` are its contents, None where there is none.

    It is `restored` byte for byte or `edited`; where it is `refused`, `problem` says why.
    """

    file: ClientFile
    outcome: Literal["restored", "edited", "absent", "refused"]
    before: bytes | None
    after: bytes | None
    names: tuple[str, ...] = ()
    """Under which MCPX is in the file."""
    folders: tuple[str, ...] = ()
    """Which MCPX created for the file."""
    problem: str | None = None
    notes: tuple[str, ...] = ()


def plan_uninstall(file: ClientFile, history: Sequence[Change]) -> Removal:
    """What the file of a client becomes when MCPX is taken out of it."""
    try:
        data = read_file(file.path)
    except ChangeError as error:
        return Removal(file=file, outcome="refused", before=None, after=None, problem=str(error))
    found = read_servers(file, data or b"")
    if data is None or not (found.own or (found.problem is not None and b"mcpx" in data)):
        return Removal(file=file, outcome="absent", before=data, after=data)
    if (problem := obstacle(file.path)) is not None:
        return Removal(file=file, outcome="refused", before=data, after=data, problem=problem)
    walk = _Walk(file, data)
    walk.back(history)
    if walk.contents is not None and walk.has_mcpx():
        now = read_servers(file, walk.contents)
        if now.problem is not None:
            return Removal(file=file, outcome="refused", before=data, after=data, problem=now.problem)
        try:
            walk.contents = remove_entries(walk.contents, file, now.own)
        except DocumentError as error:
            return Removal(file=file, outcome="refused", before=data, after=data, problem=str(error))
        walk.is_exact = False
    return Removal(
        file=file,
        outcome="restored" if walk.is_exact else "edited",
        before=data,
        after=walk.contents,
        names=found.own,
        folders=walk.folders if walk.contents is None else (),
        notes=tuple(walk.notes),
    )


class _Walk:
    """Back through the changes of one file."""

    def __init__(self, file: ClientFile, contents: bytes) -> None:
        self.file = file
        self.contents: bytes | None = contents
        self.is_exact = True
        self.folders: tuple[str, ...] = ()
        self.notes: list[str] = []

    def has_mcpx(self) -> bool:
        """Whether MCPX is in the file, or may be, since it is not understood."""
        if self.contents is None:
            return False
        found = read_servers(self.file, self.contents)
        return found.problem is not None or bool(found.own)

    def back(self, history: Sequence[Change]) -> None:
        """Take back changes until MCPX is not in the file, or one cannot be taken back."""
        target = str(real_path(self.file.path))
        gone = undone(history)
        for change in reversed(history):
            index = next((i for i, each in enumerate(change.files) if each.target == target), None)
            if index is None or change.state is not State.DONE or change.undoes or change.id in gone:
                continue
            if change.command.split()[:1] == [COMMAND] or not self.has_mcpx():
                return
            try:
                if not self._back_before(change, index):
                    return
            except ChangeError as error:
                self.notes.append(str(error))
                return

    def _back_before(self, change: Change, index: int) -> bool:
        """Take one change back, if it can be.

        Raises:
            ChangeError: Its copy is gone.
        """
        before, after = change.before(index), change.after(index)
        if self.contents == after:
            self.contents = before
            if before is None:
                self.folders = change.files[index].created_folders
            return True
        if self.contents is None:
            return False
        merged = take_back(before, after, self.contents, self.file.client.syntax)
        if merged is None:
            return False
        self.contents, self.is_exact = merged.contents, False
        self.notes += merged.notes
        return True
