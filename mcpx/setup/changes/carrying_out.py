"""Carrying a change out, and taking it back: all its files, or none.

The steps, and what a kill at each leaves for the next command, which mends it first:

1. every file is compared with what it was when the change was prepared    nothing
2. copies of all files, before and after, go into the journal              a folder to remove
3. the new contents are staged beside each file                            staged files to remove
4. every file is compared again, and renamed over, in the given order      files to put back from the copies
5. the journal says done                                                   nothing
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mcpx.setup.changes.files import (
    OWNER_FILE,
    ChangeError,
    FileChanged,
    missing_folders,
    put_in_place,
    read_file,
    real_path,
    reason,
    remove,
    remove_empty,
    stage,
)
from mcpx.setup.changes.journal import Change, FileRecord, Journal, State
from mcpx.setup.documents.editing import Syntax


@dataclass(frozen=True)
class Edit:
    """The change of one file: `before` is what it holds now, None where there is none.

    `perform`, where given, has another program do it, and returns None if the file is then as meant, or what
    to write instead; until then, `after` only says what was expected. It may take seconds, and other commands
    wait for it.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    syntax: Syntax | None = None
    """What the file is written in, where that can be edited: to take back our members alone, if need be."""
    mode: int = OWNER_FILE
    """Of a file that is created."""
    remove_folders: tuple[str, ...] = ()
    """To remove with the file, if they are empty then: the innermost first."""
    perform: Callable[[], bytes | None] | None = None


def carry_out(
    command: str,
    edits: Sequence[Edit],
    *,
    about: dict[str, Any] | None = None,
    undoes: str | None = None,
    state: Path | None = None,
) -> Change:
    """Change the files, in the given order, or none of them; the change is in the journal.

    A change that was interrupted earlier is taken back first: `Change.interrupted` says so.

    Raises:
        FileChanged: A file is not what its edit expects; nothing was written.
        ChangeError: A file or the journal cannot be written; every file is as before, or the text says not.
    """
    journal = Journal(state)
    with journal.locked():
        interrupted = _recover(journal)
        try:
            _check_unchanged(edits)
        except FileChanged as error:
            raise FileChanged("; ".join([*interrupted, str(error)])) from None
        records = [_record(edit) for edit in edits]
        copies = [(edit.before, edit.after) for edit in edits]
        change = journal.begin(command, records, copies, about=about or {}, undoes=undoes)
        try:
            for index, edit in enumerate(edits):
                if edit.after is not None and edit.perform is None:
                    stage(change.staged(index), Path(change.files[index].target), edit.after, edit.mode)
            _check_unchanged(edits)
            _put_all(journal, change, edits)
            change = journal.mark(change, State.DONE)
        except OSError as error:
            where = error.filename2 or error.filename or change.folder
            raise ChangeError(f"{where}: {reason(error)}; {_abandon(journal, change)}") from None
        except BaseException:
            _abandon(journal, change)
            raise
    return msgspec.structs.replace(change, interrupted=interrupted)


def recover(state: Path | None = None) -> tuple[str, ...]:
    """Take back every change that was interrupted; a sentence for each.

    A command that reads files in order to change them calls this first.

    Raises:
        ChangeError: A file or the journal cannot be written.
    """
    journal = Journal(state)
    if not unfinished(state) and not journal.partial():
        return ()
    with journal.locked():
        return _recover(journal)


def unfinished(state: Path | None = None) -> list[Change]:
    """The changes that were interrupted, or are being made at this moment."""
    return [change for change in history(state) if change.state is State.BEGUN]


def history(state: Path | None = None) -> list[Change]:
    """All changes, the oldest first."""
    return Journal(state).changes()


def _record(edit: Edit) -> FileRecord:
    target = real_path(edit.path)
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
    except OSError:
        mode = edit.mode
    return FileRecord(
        path=str(Path(os.path.abspath(edit.path))),
        target=str(target),
        existed=edit.before is not None,
        remains=edit.after is not None,
        mode=mode,
        created_folders=missing_folders(target) if edit.before is None else (),
        syntax=edit.syntax,
        performed=edit.perform is not None,
    )


def _check_unchanged(edits: Sequence[Edit]) -> None:
    for edit in edits:
        if read_file(edit.path) != edit.before:
            raise FileChanged(f"{edit.path}: changed meanwhile, so nothing was written; try again")


def _put_all(journal: Journal, change: Change, edits: Sequence[Edit]) -> None:
    for index, edit in enumerate(edits):
        _check_unchanged([edit])
        target = Path(change.files[index].target)
        if edit.perform is not None:
            _settle(journal, change, index, edit, edit.perform())
        elif edit.after is None:
            remove(target, edit.remove_folders)
        else:
            put_in_place(change.staged(index), target)


def _settle(journal: Journal, change: Change, index: int, edit: Edit, wanted: bytes | None) -> None:
    """Record what another program has left of a file, and mend what it should have."""
    found = read_file(edit.path)
    if found is not None:
        journal.record_after(change, index, found)
    if wanted is not None and wanted != found:
        target = Path(change.files[index].target)
        stage(change.staged(index), target, wanted, edit.mode)
        journal.record_after(change, index, wanted)
        put_in_place(change.staged(index), target)


def _abandon(journal: Journal, change: Change) -> str:
    """Take back a change that failed, and say so; where even that fails, the next command does it."""
    try:
        _take_back(journal, change)
    except (OSError, ChangeError):
        return f"some files may be changed: mcpx undo puts them back, from the copies in {change.folder}"
    return "nothing was changed"


def _recover(journal: Journal) -> tuple[str, ...]:
    journal.sweep()
    sentences = []
    for change in reversed(journal.changes()):
        if change.state is State.BEGUN:
            try:
                sentences.append(_take_back(journal, change))
            except OSError as error:
                raise ChangeError(
                    f"{change.id} was interrupted, and cannot be taken back: {error.filename or ''}: "
                    f"{reason(error)}; mend that, or move {change.folder} away, with the copies"
                ) from None
    return tuple(sentences)


def _take_back(journal: Journal, change: Change) -> str:
    """Put back the files of a change that has not come to its end, where they are as it left them."""
    told = [f"{change.id} had been interrupted and was taken back"]
    state = State.TAKEN_BACK
    for index in reversed(range(len(change.files))):
        file = change.files[index]
        change.staged(index).unlink(missing_ok=True)
        try:
            found, before = read_file(file.target), change.before(index)
            if file.performed and not change.copy_after(index).exists() and found not in {None, before}:
                journal.record_after(change, index, found or b"")
                state = State.DONE  # what it was meant to be is not known, so it stays until it is undone
                told.append(f"{file.path} was changed by another program, and stays so until mcpx undo")
            elif found == before and before is None:
                remove_empty(file.created_folders)
            elif found == change.after(index):
                _put_back(change, index, before)
            elif found != before:
                told.append(f"{file.path} was changed since and stays; see {change.copy_before(index)}")
        except ChangeError as error:
            told.append(f"{error}; see {change.copy_before(index)}")
    journal.mark(change, state)
    return "; ".join(told)


def _put_back(change: Change, index: int, before: bytes | None) -> None:
    file, target = change.files[index], Path(change.files[index].target)
    if before is None:
        remove(target, file.created_folders)
        return
    staged = change.staged(index)
    stage(staged, target, before, file.mode)
    put_in_place(staged, target)
