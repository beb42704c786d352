"""The text of a configuration with a server added, taken out, or switched on and off. Pure.

Called by the commands that edit servers. Everything else in the file stays as it is, with its comments; the
servers stay in the form that the file has them in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpx.core.config.document import ConfigNotices, Location
from mcpx.core.config.entries import FORMS, all_entries
from mcpx.core.text.jsonc import JSONObject
from mcpx.setup.documents.editing import append_item, read, remove_member, set_member

Path = tuple[str | int, ...]


def places_of(document: Any) -> list[tuple[str, Path]]:
    """The name of each server and the path to its entry; a name that is there twice comes twice."""
    found = all_entries(document, Location(""), ConfigNotices()) if isinstance(document, JSONObject) else ()
    return [(entry.name, entry.at.steps) for entry in found]


def entry_at(document: Any, path: Path) -> dict[str, Any]:
    """The entry at a path of `places_of`; empty where it is no object."""
    for step in path:
        document = document[step]
    return document if isinstance(document, dict) else {}


def with_server(data: bytes | None, name: str, entry: Mapping[str, Any]) -> bytes:
    """A configuration with an entry for a server, in the place of the one that it had; None is no file yet.

    Raises:
        DocumentError: The configuration is not understood.
    """
    data = data or b""
    document = read(data, "json")
    for found, path in places_of(document):
        if found == name:
            listed = {"name": name} if isinstance(path[-1], int) else {}
            return set_member(data, path, {**listed, **entry}, "json")
    form, is_list = _form_in_use(document)
    if is_list:
        return append_item(data, form, {"name": name, **entry}, "json")
    return set_member(data, (*form, name), dict(entry), "json")


def without_server(data: bytes, name: str) -> bytes:
    """A configuration without the entries of a server.

    Raises:
        DocumentError: The configuration is not understood.
    """
    for found, path in reversed(places_of(read(data, "json"))):
        if found == name:
            data = remove_member(data, path, "json")
    return data


def switched(data: bytes, name: str, *, on: bool) -> bytes:
    """A configuration whose entries of a server are disabled, or are not.

    Raises:
        DocumentError: The configuration is not understood, or the entry is no object.
    """
    document = read(data, "json")
    for found, path in places_of(document):
        if found != name:
            continue
        if not on:
            data = set_member(data, (*path, "disabled"), True, "json")  # noqa: FBT003 - a value of the file
            continue
        data = remove_member(data, (*path, "disabled"), "json")
        if entry_at(document, path).get("enabled") is False:
            data = remove_member(data, (*path, "enabled"), "json")
    return data


def _form_in_use(document: Any) -> tuple[Path, bool]:
    """Return the path to the object or list that a new server goes to, and whether it is a list."""
    form = next((form for form in FORMS if isinstance(document, dict) and form in document), FORMS[0])
    servers = document.get(form) if isinstance(document, dict) else None
    if form == "mcp" and isinstance(servers, dict) and "servers" in servers:
        return (form, "servers"), isinstance(servers["servers"], list)
    return (form,), isinstance(servers, list)
