"""The text of a configuration with a server added, renamed, taken out, or switched on and off. Pure.

Called by the commands that edit servers. Everything else in the file stays as it is, with its comments; the
servers stay in the form that the file has them in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpx.core.config.document import ConfigNotices, Location
from mcpx.core.config.entries import FORMS, all_entries
from mcpx.core.text.jsonc import JSONObject
from mcpx.setup.documents import value_at
from mcpx.setup.documents.editing import Document

Path = tuple[str | int, ...]


def places_of(document: Any) -> list[tuple[str, Path]]:
    """The name of each server and the path to its entry; a name that is there twice comes twice."""
    found = all_entries(document, Location(""), ConfigNotices()) if isinstance(document, JSONObject) else ()
    return [(entry.name, entry.at.steps) for entry in found]


def entry_at(document: Any, path: Path) -> dict[str, Any]:
    """The entry at a path of `places_of`; empty where it is no object."""
    found = value_at(document, path)
    return found if isinstance(found, dict) else {}


def with_server(data: bytes | None, name: str, entry: Mapping[str, Any]) -> bytes:
    """Return a configuration with an entry for a server, in the place of the one that it had.

    `data` is None where there is no file yet.

    Raises:
        DocumentError: The configuration is not understood.
    """
    document = Document(data or b"", "json")
    for found, path in places_of(document.value):
        if found == name:
            listed = {"name": name} if isinstance(path[-1], int) else {}
            document.set(path, {**listed, **entry})
            return document.data
    form, is_list = _form_in_use(document.value)
    if is_list:
        document.append(form, {"name": name, **entry})
    else:
        document.set((*form, name), dict(entry))
    return document.data


def without_server(data: bytes, name: str) -> bytes:
    """Return a configuration without the entries of a server.

    Raises:
        DocumentError: The configuration is not understood.
    """
    document = Document(data, "json")
    for found, path in reversed(places_of(document.value)):
        if found == name:
            document.remove(path)
    return document.data


def renamed(data: bytes, old: str, new: str) -> bytes:
    """Return a configuration whose server has another name, and its old one as an alias.

    Rules, profiles and clients that say the old name find it by that. There is no server `new`.

    Raises:
        DocumentError: The configuration is not understood, or the entry is no object.
    """
    document = Document(data, "json")
    for path in [path for found, path in places_of(document.value) if found == old]:
        kept = entry_at(document.value, path).get("aliases")
        others = [each for each in kept if each not in {old, new}] if isinstance(kept, list) else []
        document.set((*path, "aliases"), [*others, old])
        if isinstance(path[-1], int):
            document.set((*path, "name"), new)
        else:
            document.rename(path, new)
    return document.data


def switched(data: bytes, name: str, *, on: bool) -> bytes:
    """Return a configuration whose entries of a server are disabled, or are not.

    Raises:
        DocumentError: The configuration is not understood, or the entry is no object.
    """
    document = Document(data, "json")
    for path in [path for found, path in places_of(document.value) if found == name]:
        if not on:
            document.set((*path, "disabled"), value=True)
            continue
        document.remove((*path, "disabled"))
        if entry_at(document.value, path).get("enabled") is False:
            document.remove((*path, "enabled"))
    return document.data


def _form_in_use(document: Any) -> tuple[Path, bool]:
    """Return the path to the object or list that a new server goes to, and whether it is a list."""
    form = next((form for form in FORMS if isinstance(document, dict) and form in document), FORMS[0])
    servers = document.get(form) if isinstance(document, dict) else None
    if form == "mcp" and isinstance(servers, dict) and "servers" in servers:
        return (form, "servers"), isinstance(servers["servers"], list)
    return (form,), isinstance(servers, list)
