"""Local `$ref`s of one schema: where each leads, how often it is used, and what to call it.

Owns the JSON pointers and the names of types. Called by the walker; follows nothing out of the schema.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

from mcpx.core.catalog.model import JSON

Path = tuple[str, ...]

_REF_WORDS: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_MAX_DIGITS: Final = 10  # of a list index; Python refuses to read thousands of them
_RESERVED: Final = frozenset(
    {
        "string",
        "number",
        "integer",
        "boolean",
        "null",
        "object",
        "unknown",
        "never",
        "true",
        "false",
        "where",
        "key",
    }
)


class Unresolvable(LookupError):
    """A `$ref` that does not lead to a schema inside this one."""


class References:
    """The references of one schema; it is read, never changed."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._id = root.get("$id") if isinstance(root, dict) else None
        self._names: dict[Path, str] = {}
        self._uses = Counter(_pointer(ref) for ref in _refs(root) if ref.startswith("#"))

    def path(self, ref: Any) -> Path:
        """Return the keys that a `$ref` names, from the root: `#/$defs/Node` is `("$defs", "Node")`.

        Raises:
            Unresolvable: It is remote, an anchor or no text.
        """
        if isinstance(ref, str):
            if isinstance(self._id, str) and self._id and ref.startswith(self._id.rstrip("#") + "#"):
                ref = ref[len(self._id.rstrip("#")) :]
            if ref == "#" or ref.startswith("#/"):
                return _pointer(ref)
        raise Unresolvable(ref)

    def find(self, path: Path) -> Any:
        """Return the schema at that path.

        Raises:
            Unresolvable: There is none.
        """
        found = self._root
        for step in path:
            if isinstance(found, dict) and step in found:
                found = found[step]
            elif (
                isinstance(found, list)
                and step.isdecimal()
                and len(step) < _MAX_DIGITS
                and int(step) < len(found)
            ):
                found = found[int(step)]
            else:
                raise Unresolvable(path)
        if not isinstance(found, dict | bool):
            raise Unresolvable(path)
        return found

    def used_once(self, path: Path) -> bool:
        """Return True if only one `$ref` leads there."""
        return self._uses[path] <= 1

    def name(self, path: Path) -> str:
        """Return an identifier for the type there: its own name if that is free, else one with a number."""
        if path not in self._names:
            base = re.sub(r"[^A-Za-z0-9_$]", "_", path[-1] if path else "Root")
            base = base if base and not base[0].isdigit() and base not in _RESERVED else f"T_{base}"
            taken = set(self._names.values())
            tries = (base if number == 1 else f"{base}{number}" for number in range(1, len(taken) + 2))
            self._names[path] = next(name for name in tries if name not in taken)
        return self._names[path]

    def rebased_in(self, schema: JSON) -> bool:
        """True if the schema has a base URI of its own (`$id`) and references, which count from there."""
        base = schema.get("$id")
        moved = isinstance(base, str) and not base.startswith("#") and schema is not self._root
        return moved and any(True for _ in _refs(schema))

    def needed_by(self, schema: Any) -> bool:
        """True if the schema holds a local reference, which would be torn off if it were shown alone."""
        return any(ref.startswith("#") and self._leads_somewhere(ref) for ref in _refs(schema))

    def _leads_somewhere(self, ref: str) -> bool:
        try:
            return ref[1:2] not in {"", "/"} or self.find(self.path(ref)) is not None
        except Unresolvable:
            return False


def _pointer(ref: str) -> Path:
    steps = unquote(ref, errors="replace")[1:].split("/")[1:]
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


def _refs(value: Any) -> Iterator[str]:
    """Every reference anywhere inside, by a stack of its own: nesting has no limit."""
    stack = [value]
    while stack:
        match stack.pop():
            case dict() as members:
                yield from (ref for word in _REF_WORDS if isinstance(ref := members.get(word), str))
                stack.extend(members.values())
            case list() as items:
                stack.extend(items)
