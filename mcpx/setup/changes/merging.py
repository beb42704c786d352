"""Taking a change back where the file was changed again since: its members alone, nothing that came later.

The change is what differs, member by member, between the values before and after it. Each member that is
still as the change left it becomes what it was; the text of all others stays. Where the lines of the change
and those of others are apart, they are merged as lines, so that comments come back too. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple

from mcpx.core.documents import DocumentError
from mcpx.core.documents.editing import Syntax, append_item, read, remove_member, set_member

_MAX_LINES: Final = 5000  # of files that are merged by lines: more take too long
_ABSENT: Final = object()


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
    """What `found` is without the change from `before` to `after`; None if that cannot be said."""
    theirs = found
    try:
        old, new = read(before or b"", syntax), read(after or b"", syntax)
        notes = []
        for difference in _differences((), old, new, read(found, syntax)):
            at = ".".join(difference.path)
            now = _at(_keyed(read(found, syntax)), difference.path)
            if now == difference.old:
                continue
            if difference.new is _ABSENT and now is not _ABSENT:
                notes.append(f"{at} is there again, and stays")
            elif now != difference.new:
                return None
            else:
                found = _with(found, difference.path, difference.old, syntax)
        by_lines = _merged_lines(before or b"", after or b"", theirs)
        if by_lines is not None and _is_same(by_lines, found, syntax):
            found = by_lines
    except DocumentError:
        return None
    return Merged(found, tuple(notes))


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


def _is_same(one: bytes, other: bytes, syntax: Syntax) -> bool:
    try:
        return bool(read(one, syntax) == read(other, syntax))
    except DocumentError:
        return False


def _differences(path: tuple[str, ...], old: Any, new: Any, now: Any) -> Iterator[_Difference]:
    """Where two values differ, as deep as both, or what is there now, have members."""
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
    """Whether a value is an object of objects, as the servers of a client are."""
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


def _with(contents: bytes, path: tuple[str, ...], value: Any, syntax: Syntax) -> bytes:
    """The file with that member set to `value`, or removed."""
    where: list[str | int] = []
    inside = read(contents, syntax)
    for key in path:
        step: str | int = key
        if isinstance(inside, list):
            step = next((i for i, each in enumerate(inside) if each.get("name") == key), len(inside))
            if step == len(inside):
                return append_item(contents, where, value, syntax)
        where.append(step)
        inside = inside[step] if isinstance(step, int) else (inside or {}).get(step)
    if value is _ABSENT:
        return remove_member(contents, where, syntax)
    return set_member(contents, where, value, syntax)
