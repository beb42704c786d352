"""Taking a change back: byte for byte where its files are as it left them, else its members alone.

Of a file that was changed again since, the change is what differs, member by member, between the values
before and after it. Each member that is still as the change left it becomes what it was; the text of all
others stays. Where the lines of the change and those of others are apart, they are merged as lines, so that
comments come back too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from mcpx.setup.changes.carrying_out import Edit, carry_out, history, recover
from mcpx.setup.changes.files import FileChanged, read_file
from mcpx.setup.changes.journal import Change, State
from mcpx.setup.documents import DocumentError
from mcpx.setup.documents.editing import Document, Syntax, read

_MAX_LINES: Final = 5000  # of files that are merged by lines: more take too long
_ABSENT: Final = object()


@dataclass(frozen=True)
class Undo:
    """The way back from a change; `refused` is a sentence for each file where there is none."""

    change: Change
    edits: tuple[Edit, ...]
    refused: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """A sentence for each file that was changed since, from which the change alone is taken out."""


def plan_undo(*, force: bool = False, state: Path | None = None) -> Undo | None:
    """Plan to take back the last change that has not been taken back; None if there is none.

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


# --- the members of a change alone


class _Difference(NamedTuple):
    """A member that a change has set, removed or replaced."""

    path: tuple[str, ...]
    old: Any
    new: Any


class Merged(NamedTuple):
    """The file with the change taken out, and a sentence for each member that stays as others left it."""

    contents: bytes
    notes: tuple[str, ...]


def take_back(before: bytes | None, after: bytes | None, found: bytes, syntax: Syntax) -> Merged | None:
    """Return `found` without the change from `before` to `after`; None if that cannot be said."""
    try:
        old, new, document = read(before or b"", syntax), read(after or b"", syntax), Document(found, syntax)
        notes = []
        for difference in _differences((), old, new, document.value):
            now = _at(_keyed(document.value), difference.path)
            if now == difference.old:
                continue
            if difference.new is _ABSENT and now is not _ABSENT:
                notes.append(f"{'.'.join(difference.path)} is there again, and stays")
            elif now != difference.new:
                return None
            else:
                _restore(document, difference.path, difference.old)
        by_lines = _merged_lines(before or b"", after or b"", found)
        if by_lines is not None and _holds(by_lines, document.value, syntax):
            return Merged(by_lines, tuple(notes))
    except DocumentError:
        return None
    return Merged(document.data, tuple(notes))


def _merged_lines(before: bytes, after: bytes, found: bytes) -> bytes | None:
    """`found` with the lines of the change as they were before; None where others changed lines there."""
    base, old, now = (text.splitlines(keepends=True) for text in (after, before, found))
    if max(len(base), len(old), len(now)) > _MAX_LINES:
        return None
    hunks = sorted((*_hunks(base, old), *_hunks(base, now)), key=lambda hunk: hunk[:2])
    merged: list[bytes] = []
    end = -1
    for start, stop, lines in hunks:
        if start <= end:
            return None
        merged += [*base[max(end, 0) : start], *lines]
        end = stop
    return b"".join([*merged, *base[max(end, 0) :]])


def _hunks(base: list[bytes], other: list[bytes]) -> list[tuple[int, int, list[bytes]]]:
    """Which lines of `base` are others in `other`: where they begin and end, and what is there instead."""
    codes = SequenceMatcher(None, base, other, autojunk=False).get_opcodes()
    return [(start, stop, other[first:last]) for tag, start, stop, first, last in codes if tag != "equal"]


def _holds(data: bytes, value: Any, syntax: Syntax) -> bool:
    try:
        return bool(read(data, syntax) == value)
    except DocumentError:
        return False


def _differences(path: tuple[str, ...], old: Any, new: Any, now: Any) -> Iterator[_Difference]:
    """Yield the differences of two values, as deep as both, or what is there now, have members."""
    old, new, now = _keyed(old), _keyed(new), _keyed(now)
    if old == new:
        return
    if old is _ABSENT and now != new and _holds_entries(new) and isinstance(now, Mapping):
        old = {}  # others use what the change has made
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        yield _Difference(path, old, new)
        return
    inside = now if isinstance(now, Mapping) else {}
    for key in {**old, **new}:
        yield from _differences(
            (*path, str(key)), old.get(key, _ABSENT), new.get(key, _ABSENT), inside.get(key, _ABSENT)
        )


def _holds_entries(value: Any) -> bool:
    """Return True for an object of objects, as the servers of a client are."""
    return isinstance(value, Mapping) and all(isinstance(each, Mapping) for each in value.values())


def _keyed(value: Any) -> Any:
    """A list of named objects (the servers of Continue) as an object, by these names."""
    if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        names = [each.get("name") for each in value]
        if all(isinstance(name, str) for name in names) and len({*names}) == len(names):
            return dict(zip(names, value, strict=True))
    return value


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = _keyed(value)
        if not isinstance(value, Mapping) or key not in value:
            return _ABSENT
        value = value[key]
    return value


def _restore(document: Document, path: tuple[str, ...], value: Any) -> None:
    """Set that member to `value`, or remove it."""
    where: list[str | int] = []
    inside = document.value
    for key in path:
        step: str | int = key
        if isinstance(inside, list):
            step = next((i for i, each in enumerate(inside) if each.get("name") == key), len(inside))
            if step == len(inside):
                document.append(where, value)
                return
        where.append(step)
        inside = inside[step] if isinstance(step, int) else (inside or {}).get(step)
    if value is _ABSENT:
        document.remove(where)
    else:
        document.set(where, value)
