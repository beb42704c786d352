"""The clients' own rules by which MCPX's reading tools run unasked: written with MCPX, and taken out with it.

Where a client keeps such rules, its row says (`rows.Approvals`): in a list, or as a value for each tool, in
its own file or in another. Only what the client documents is written; a rule that a person has set stays as
it is. Used by `install_plan`, and by `mcpx uninstall` through `installing`. Changes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from mcpx.setup.changes import ChangeError, obstacle, read_file, real_path
from mcpx.setup.clients.reading import ClientFile, find
from mcpx.setup.clients.rows import Approvals
from mcpx.setup.documents import DocumentError, value_at
from mcpx.setup.documents.editing import Document, read

TOOLS: Final = ("query", "inspect", "resources")
"""Those that only read. `exec` is left to the client's question."""

Rule = tuple[tuple[str, ...], Any]
"""A key, and the value that is set there or listed there."""


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one client, for MCPX under these names in its file.

    `after` is what the file with the rules becomes. `added` says each rule that it gets. Where there is a
    `problem`, nothing is written.
    """

    file: ClientFile
    approvals: Approvals
    names: tuple[str, ...]
    before: bytes | None
    after: bytes | None
    added: tuple[str, ...] = ()
    problem: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """True if the file gets rules."""
        return self.problem is None

    def with_rules(self, data: bytes | None) -> bytes:
        """The same rules in another content of the file.

        Raises:
            ChangeError: It is not understood.
        """
        try:
            return _with_rules(data, self.approvals, self.names)[0]
        except DocumentError as error:
            raise ChangeError(f"{self.file.path}: {error}") from None


def approvals_file(file: ClientFile, environ: Mapping[str, str] = os.environ) -> ClientFile | None:
    """The file with the rules of a client, which may be its own; None where it has no such place."""
    approvals = file.client.approvals
    if approvals is None or not approvals.files:
        return None if approvals is None else file
    elsewhere = msgspec.structs.replace(file.client, files=approvals.files, folder=None)
    return msgspec.structs.replace(find(elsewhere, environ), client=file.client)


def plan_approval(
    file: ClientFile, own: bytes | None, names: Iterable[str], environ: Mapping[str, str] = os.environ
) -> Approval | None:
    """Plan the rules for MCPX under these names; None where there is nothing to add, or no place for it.

    `own` is what the client's own file is to hold.
    """
    approvals, place = file.client.approvals, approvals_file(file, environ)
    if approvals is None or place is None:
        return None
    before, names = own, tuple(names)
    try:
        if real_path(place.path) != real_path(file.path):
            before = read_file(place.path)
        after, added, notes = _with_rules(before, approvals, names)
    except (ChangeError, DocumentError) as error:
        return _approval(place, approvals, names, before, problem=str(error))
    if not added:
        return None
    if (problem := obstacle(place.path)) is not None:
        return _approval(place, approvals, names, before, problem=problem)
    return _approval(place, approvals, names, before, after=after, added=added, notes=notes)


def _approval(
    place: ClientFile, approvals: Approvals, names: tuple[str, ...], before: bytes | None, **rest: Any
) -> Approval:
    return Approval(file=place, approvals=approvals, names=names, before=before, **({"after": before} | rest))


def _with_rules(
    data: bytes | None, approvals: Approvals, names: Iterable[str]
) -> tuple[bytes, tuple[str, ...], tuple[str, ...]]:
    """The file with the rules; which were added, in words; and what is to be known of it."""
    document = Document(data or b"", approvals.syntax)
    notes = [approvals.note] if approvals.note and value_at(document.value, approvals.key) is None else []
    added = []
    for key, value in _rules(approvals, names):
        found = value_at(document.value, key)
        if not approvals.listed and found is None:
            document.set(key, value)
        elif approvals.listed and not (isinstance(found, list) and value in found):
            document.append(key, value)
        else:  # it is there, or a person has said otherwise
            continue
        added.append(f"{'.'.join(key)}: {json.dumps(value)}")
    return document.data, tuple(added), tuple(notes)


def rules_in(data: bytes, approvals: Approvals, names: Iterable[str]) -> tuple[str, ...]:
    """The rules for MCPX in a file, in words; none where it is not understood."""
    try:
        value = read(data, approvals.syntax)
    except DocumentError:
        return ()
    return tuple(
        f"{'.'.join(key)}: {json.dumps(rule)}"
        for key, rule in _rules(approvals, names)
        if rule in (found if isinstance(found := value_at(value, key), list) else [found])
    )


def without_rules(data: bytes, approvals: Approvals, names: Iterable[str]) -> bytes:
    """The file without the rules for MCPX; the rest stays.

    Raises:
        DocumentError: It is not understood.
    """
    document = Document(data, approvals.syntax)
    for key, value in _rules(approvals, names):
        found = value_at(document.value, key)
        if not approvals.listed:
            document.remove(key)
        elif isinstance(found, list) and value in found:
            document.set(key, [each for each in found if each != value])
    return document.data


def _rules(approvals: Approvals, names: Iterable[str]) -> Iterator[Rule]:
    for name in names:
        for tool in TOOLS:
            yield (
                tuple(_filled(part, name, tool) for part in approvals.key),
                _filled(approvals.value, name, tool),
            )


def _filled(template: Any, server: str, tool: str) -> Any:
    """A template with the names of the server and of the tool in it."""
    if isinstance(template, Mapping):
        return {key: _filled(value, server, tool) for key, value in template.items()}
    if isinstance(template, str):
        return template.replace("{server}", server).replace("{tool}", tool)
    return template
