"""Types as text that still knows how it binds: unions, intersections, arrays and comments without ambiguity.

Pure algebra over the frozen `TSType`, called by the walkers of this package. It knows TypeScript alone.
A comment belongs to everything on its left up to the nearest bracket, comma or noted neighbour; where that
would be the wrong thing, there are parentheses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Final

import msgspec

from mcpx.core.rendering.typescript.literal import comment, key


class Note(msgspec.Struct, frozen=True):
    """Content of a comment: `words` are prose, `facts` are terse constraints that follow it."""

    words: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.words or self.facts)

    def then(self, other: Note) -> Note:
        """Both notes in one; what they share is said once. A `pattern` runs to the end, so it goes last."""
        facts = dict.fromkeys(self.facts + other.facts)
        return Note(
            tuple(dict.fromkeys(self.words + other.words)),
            tuple(sorted(facts, key=lambda fact: fact.startswith("pattern "))),
        )

    def text(self) -> str:
        """`Words; 1..100, default 10`; a full stop serves as the semicolon."""
        text = ""
        for piece in (*self.words, ", ".join(self.facts)):
            joint = "" if not text or not piece else " " if text.endswith((".", "。")) else "; "
            text += joint + piece
        return text


class Binding(Enum):
    """The operator that holds a type's text together at its outermost level."""

    ATOM = auto()
    INTERSECTION = auto()
    UNION = auto()


class Member(msgspec.Struct, frozen=True):
    """A property of an object type. `stated` is false where the schema only required it, without a type."""

    name: str
    type: str
    required: bool
    stated: bool = True

    def text(self) -> str:
        """`name?: type`."""
        return f"{key(self.name)}{'' if self.required else '?'}: {self.type}"


class TSType(msgspec.Struct, frozen=True):
    """A type and its pending comment.

    `kinds` are the JSON Schema types it may have, empty if that is not known. `branches` are a union's, for
    flattening; `members` a plain object's, for merging; `noted` says that comments stand open in `text`, so
    that one for the whole needs parentheses.
    """

    text: str
    kinds: frozenset[str] = frozenset()
    binding: Binding = Binding.ATOM
    note: Note = Note()
    branches: tuple[TSType, ...] = ()
    members: tuple[Member, ...] | None = None
    noted: bool = False

    def with_note(self, note: Note) -> TSType:
        """The same type with `note` said before its own."""
        return msgspec.structs.replace(self, note=note.then(self.note))

    def written(self) -> str:
        """The type with its comment."""
        if not self.note:
            return self.text
        text = f"({self.text})" if self.noted else self.text
        return f"{text} {comment(self.note.text())}"

    def grouped(self) -> str:
        """The type as one operand: in parentheses unless it is an atom without a comment."""
        alone = self.binding is Binding.ATOM and not self.note
        return self.text if alone else f"({self.written()})"


UNKNOWN: Final = TSType("unknown")
NEVER: Final = TSType("never")
NULL: Final = TSType("null", frozenset({"null"}))
_LONG: Final = 6  # string literals; a longer list is written without spaces, which saves a token each
_ARRAY: Final = frozenset({"array"})
_OBJECT: Final = frozenset({"object"})


def named(text: str, *kinds: str) -> TSType:
    """A type that is one word or one JSON value, of the JSON Schema types `kinds`."""
    return TSType(text, frozenset(kinds))


def array_of(item: TSType) -> TSType:
    """`item[]`."""
    return TSType(f"{item.grouped()}[]", _ARRAY)


def tuple_of(items: Sequence[TSType], rest: TSType | None) -> TSType:
    """`[a, b, ...rest[]]`."""
    texts = [item.written() for item in items]
    if rest is not None:
        texts.append(f"...{array_of(rest).text}")
    return TSType(f"[{', '.join(texts)}]", _ARRAY)


def object_of(members: Iterable[Member], signatures: Sequence[str] = ()) -> TSType:
    """`{name?: type, [key: string]: type}`; one with index signatures is never merged with another."""
    members = tuple(members)
    texts = [*(member.text() for member in members), *signatures]
    return TSType(f"{{{', '.join(texts)}}}", _OBJECT, members=None if signatures else members)


def union(shapes: Iterable[TSType]) -> TSType:
    """`a | b`, flattened and without repetition; nothing at all is `never`."""
    flat = [branch for shape in shapes for branch in _branches(shape)]
    unique = tuple({branch.written(): branch for branch in flat}.values())
    if len(unique) <= 1:  # a union of one is that one
        return unique[0] if unique else NEVER
    noted = [branch for branch in unique if branch.note]
    if len(noted) == 1 and all(branch is noted[0] or branch == NULL for branch in unique):
        bare = tuple(msgspec.structs.replace(branch, note=Note()) for branch in unique)
        return union(bare).with_note(noted[0].note)  # the comment of the only branch that is not null
    tight = len(unique) > _LONG and all(branch.text.startswith("'") and not branch.note for branch in unique)
    text = ("|" if tight else " | ").join(_operand(branch, Binding.UNION) for branch in unique)
    kinds = frozenset().union(*(b.kinds for b in unique)) if all(b.kinds for b in unique) else frozenset()
    return TSType(text, kinds, Binding.UNION, branches=unique, noted=any(b.note or b.noted for b in unique))


def _branches(shape: TSType) -> tuple[TSType, ...]:
    return shape.branches if shape.branches and not shape.note else (shape,)


def intersection(shapes: Iterable[TSType]) -> TSType:
    """`a & b`; plain objects become one where no member contradicts another. Nothing at all is `unknown`."""
    unique: dict[str, TSType] = {}
    for part in shapes:
        unique[part.text] = part.with_note(unique[part.text].note) if part.text in unique else part
    if NEVER.text in unique:
        return unique[NEVER.text]
    if len(unique) > 1:
        unique.pop(UNKNOWN.text, None)
    parts = _merged(list(unique.values()))
    if len(parts) <= 1:  # an intersection of one is that one
        return parts[0] if parts else UNKNOWN
    text = " & ".join(_operand(part, Binding.INTERSECTION) for part in parts)
    kinds = next((part.kinds for part in parts if part.kinds), frozenset())
    return TSType(text, kinds, Binding.INTERSECTION, noted=any(part.note or part.noted for part in parts))


def _operand(shape: TSType, within: Binding) -> str:
    looser = shape.binding is Binding.UNION or (shape.noted and bool(shape.note))
    return f"({shape.written()})" if looser or shape.binding is within else shape.written()


def _merged(parts: list[TSType]) -> list[TSType]:
    """The parts with all plain objects as one, at the first one's place, if every name agrees."""
    plain = [part for part in parts if part.members is not None]
    members: dict[str, Member] = {}
    for member in (member for part in plain for member in part.members or ()):
        both = _agreed(members.get(member.name, member), member)
        if both is None:
            return parts
        members[member.name] = both
    if len(plain) <= 1:  # nothing to merge
        return parts
    whole = object_of(members.values())
    for part in reversed(plain):
        whole = whole.with_note(part.note)
    return [whole if part is plain[0] else part for part in parts if part is plain[0] or part.members is None]


def _agreed(one: Member, other: Member) -> Member | None:
    """One member that says what both say, or None where their types differ."""
    if one.stated and other.stated and one.type != other.type:
        return None
    stated = one if one.stated else other
    return msgspec.structs.replace(stated, required=one.required or other.required)
