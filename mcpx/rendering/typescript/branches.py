"""Branches of `anyOf`, `oneOf` and `allOf`: what they mean together with the schema around them.

Pure; called by the walker. A branch often leaves out what its parent has said, and would be `unknown` alone.
"""

from __future__ import annotations

from typing import Any, Final

from mcpx.catalog.model import JSON
from mcpx.rendering.typescript.keywords import ANNOTATIONS

_OWN_TYPE: Final = frozenset(["type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf", "not"])
_REQUIRING: Final = frozenset(["required", "title", "description"])


def for_branch(parent: JSON, types: tuple[str, ...], branch: Any) -> Any:
    """A branch with what it leaves to its parent: its own type, and those of the names it requires."""
    if not isinstance(branch, dict) or not _OWN_TYPE.isdisjoint(branch):
        return branch
    given = {"type": list(types), **branch} if types else branch
    names, known, own = branch.get("required"), parent.get("properties"), branch.get("properties", {})
    if not (isinstance(names, list) and isinstance(known, dict) and isinstance(own, dict)):
        return given
    lent = {
        name: _bare(known[name])
        for name in names
        if isinstance(name, str) and name in known and name not in own
    }
    return {**given, "properties": lent | own} if lent else given


def _bare(schema: Any) -> Any:
    """The schema without its annotations, which stand at the parent."""
    if not isinstance(schema, dict):
        return schema
    return {word: value for word, value in schema.items() if word not in ANNOTATIONS or word == "$id"}


def required_names(schema: JSON, word: str) -> list[list[Any]] | None:
    """The names in each branch of `anyOf` or `oneOf`, if all that every branch does is require some."""
    branches = schema.get(word)
    if "properties" not in schema or not isinstance(branches, list):
        return None
    only = all(isinstance(b, dict) and b.get("required") and _REQUIRING.issuperset(b) for b in branches)
    lists = [branch["required"] for branch in branches] if only else []
    return lists if lists and all(isinstance(names, list) for names in lists) else None
