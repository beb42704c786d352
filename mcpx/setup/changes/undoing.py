"""Taking back the last change: byte for byte where its files are as it left them, else its members alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from mcpx.setup.changes.carrying_out import Edit, carry_out, history, recover
from mcpx.setup.changes.files import FileChanged, read_file
from mcpx.setup.changes.merging import take_back
from mcpx.setup.changes.record import Change, State


@dataclass(frozen=True)
class Undo:
    """How a change would be taken back; `refused` is a sentence for each file where that cannot be done."""

    change: Change
    edits: tuple[Edit, ...]
    refused: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """A sentence for each file that was changed since, from which the change alone is taken out."""


def plan_undo(*, force: bool = False, state: Path | None = None) -> Undo | None:
    """How to take back the last change that has not been taken back; None if there is none.

    A file that was changed since is refused, unless `force` says to put the copy in its place all the same.

    Raises:
        ChangeError: A file or a copy cannot be read.
    """
    changes = history(state)
    gone = undone(changes)
    last = next(
        (
            each
            for each in reversed(changes)
            if each.state is State.DONE and each.undoes is None and each.id not in gone
        ),
        None,
    )
    if last is None:
        return None
    undo = Undo(last, (), ())
    for index in reversed(range(len(last.files))):
        undo = _with_inverse(undo, index, force=force)
    return undo


def _with_inverse(undo: Undo, index: int, *, force: bool) -> Undo:
    """Add what takes back one file of the change."""
    change = undo.change
    file = change.files[index]
    path = Path(file.path)
    found, before, after = read_file(path), change.before(index), change.after(index)
    if found == before:
        return undo
    back = Edit(path, found, before, file.syntax, file.mode, file.created_folders if before is None else ())
    if found == after:
        return replace(undo, edits=(*undo.edits, back))
    if force:
        return replace(undo, edits=(*undo.edits, replace(back, remove_folders=())))
    merged = take_back(before, after, found, file.syntax) if file.syntax and found is not None else None
    if merged is None:
        refused = f"{path} was changed since; what it was before is in {change.copy_before(index)}"
        return replace(undo, refused=(*undo.refused, refused))
    note = f"{path} was changed since, and the rest of it stays as it is"
    notes = (*undo.notes, "; ".join((note, *merged.notes)))
    return replace(undo, edits=(*undo.edits, replace(back, after=merged.contents)), notes=notes)


def undo_last(*, force: bool = False, state: Path | None = None) -> Change | None:
    """Take back the last change that has not been taken back; None if there is none.

    Raises:
        FileChanged: A file was changed since, so nothing was taken back; the text names each with its copy.
        ChangeError: As `carry_out`.
    """
    interrupted = recover(state)
    undo = plan_undo(force=force, state=state)
    if undo is None:
        return None
    if undo.refused:
        raise FileChanged("; ".join(undo.refused))
    change = carry_out(f"undo {undo.change.command}", undo.edits, undoes=undo.change.id, state=state)
    return msgspec.structs.replace(change, interrupted=(*interrupted, *change.interrupted))


def undone(changes: Sequence[Change]) -> frozenset[str]:
    """The ids of those that later ones have taken back."""
    return frozenset(each.undoes for each in changes if each.undoes and each.state is State.DONE)
