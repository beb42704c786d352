"""From what was found in the clients' files to one configuration: equal servers once, clashing names apart.

`plan_import` is pure: it is given the content of the files and of the configuration, and gives back the
content that the configuration should have. What the configuration has already stays as it is, its comments
and its order too.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from mcpx.core.config.document import ConfigNotices, Location
from mcpx.core.config.entries import find_entries
from mcpx.core.config.model import HttpGateway
from mcpx.core.config.urls import is_loopback
from mcpx.core.text.jsonc import JSONObject
from mcpx.setup.clients.reading import ClientServers
from mcpx.setup.clients.rows import Client
from mcpx.setup.clients.translating import Server, translate
from mcpx.setup.clients.variables import NotImportedError
from mcpx.setup.documents.configuration import entry_at, places_of
from mcpx.setup.documents.editing import Document, read

_MCPX: Final = Client(name="mcpx", title="MCPX", files={})
_FORMS: Final = ("mcpServers", "servers", "context_servers", "amp.mcpServers")
"""Where new servers are written: at the first of these that the configuration has, else at the first."""
_REFERENCE: Final = re.compile(r"(?<!\$)\$\{[^}]*\}")
_NOT_COMPARED: Final = frozenset({"disabled", "call_timeout", "connect_timeout", "aliases"})


class Origin(msgspec.Struct, frozen=True):
    """The place where a server was found: the client, its file, and the server's name there."""

    client: str
    path: Path
    name: str
    is_off: bool = False
    notes: tuple[str, ...] = ()
    """What is lost of its entry there."""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A server of the configuration that was found in the clients' files. `name` is its name in MCPX.

    `present` is whether the configuration has it already. `needs` says what must be done before it works,
    `aliases` are other names of its in the clients' files, which the configuration gets.
    """

    name: str
    entry: dict[str, Any]
    origins: tuple[Origin, ...]
    present: bool = False
    aliases: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


class ImportPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The work of an import. `before` and `after` are the content of the configuration."""

    servers: tuple[Planned, ...]
    before: bytes | None
    after: bytes | None

    @property
    def changes(self) -> bool:
        """True if the configuration would be another one."""
        return self.after != self.before

    @property
    def new(self) -> tuple[Planned, ...]:
        """The servers that the configuration does not have yet."""
        return tuple(server for server in self.servers if not server.present)

    def adopted(self, path: Path) -> dict[str, str]:
        """The servers of a client's file that MCPX has in full, by their names there: their names in MCPX.

        Those that need something first are not among them: they should stay in the client.
        """
        return {
            origin.name: server.name
            for server in self.servers
            if not server.needs
            for origin in server.origins
            if origin.path == path
        }


def plan_import(found: Iterable[ClientServers], config: bytes | None) -> ImportPlan:
    """Plan to have every server that was found in the configuration, which is None if there is none.

    Raises:
        DocumentError: The configuration is not understood.
    """
    document = read(config, "json") if config else None
    if not isinstance(document, JSONObject):
        document = JSONObject([])
    plan = _Plan(document)
    for each in found:
        plan.take_file(each)
    servers = plan.named()
    return ImportPlan(servers=servers, before=config, after=_written(config, document, servers))


class _Plan:
    """The servers by what they are: equal ones of several files are one, those of one file stay apart."""

    def __init__(self, document: JSONObject) -> None:
        self._ports = _own_ports(document)
        self._entries: dict[str, dict[str, Any]] = {}
        self._aliases: dict[str, tuple[str, ...]] = {}
        self._names: set[str] = set()
        for each in find_entries(document, Location(""), ConfigNotices()):
            self._names.add(each.name)
            with suppress(NotImportedError):
                entry = translate(each.name, each.given, _MCPX).entry
                self._entries[each.name] = entry | _project_of(each.given)
                self._aliases[each.name] = _aliases_of(each.given)
        self._kept: dict[str, list[str]] = {}
        for name, entry in self._entries.items():
            self._kept.setdefault(_identity(entry), []).append(name)
        self._groups: list[Planned] = []
        self._equal: dict[str, list[int]] = {}

    # --- which are one

    def take_file(self, found: ClientServers) -> None:
        """Add the servers of one file, each to an equal one of another file if there is one.

        Those that have its name come first: else they could find that taken by another.
        """
        file, used = found.file, set[int]()
        servers = [
            (
                each,
                Origin(file.client.name, file.path, each.name, bool(each.entry.get("disabled")), each.notes),
            )
            for each in found.servers
            if not self._is_mcpx(each.entry)
        ]
        for server, origin in [each for each in servers if not self._join(*each, used, by_name=True)]:
            if not self._join(server, origin, used, by_name=False):
                used.add(len(self._groups))
                self._equal.setdefault(_identity(server.entry), []).append(len(self._groups))
                first = Planned(
                    name="", entry=server.entry, origins=(origin,), notes=server.notes, needs=server.needs
                )
                self._groups.append(first)

    def _join(self, server: Server, origin: Origin, used: set[int], *, by_name: bool) -> bool:
        """Merge a server with an equal one that none of its file is one with; whether there is one."""
        for index in self._equal.get(_identity(server.entry), ()):
            names = [each.name for each in self._groups[index].origins]
            if index not in used and (server.name in names or not by_name):
                self._groups[index] = _merged(self._groups[index], server, origin)
                used.add(index)
                return True
        return False

    def _is_mcpx(self, entry: Mapping[str, Any]) -> bool:
        """Return True if a server is MCPX's own HTTP side."""
        try:
            parts = urlsplit(entry.get("url", ""))
            port = parts.port
        except ValueError:
            return False
        return port in self._ports and is_loopback(parts.hostname or "") and parts.path.startswith("/mcp")

    # --- what they are called

    def named(self) -> tuple[Planned, ...]:
        """The servers with their names: those of the configuration first, then those that are on."""
        names: dict[int, str] = {}
        self._name_present(names)
        new = [index for index in range(len(self._groups)) if index not in names]
        present = {*names}
        in_use: set[str] = set()  # by what is on, which has its names before anything that is off
        for index in sorted(new, key=lambda index: _claim(self._groups[index])):
            group = self._groups[index]
            is_off = bool(group.entry.get("disabled"))
            names[index] = self._free(group, in_use if is_off else frozenset())
            self._names.add(names[index])
            in_use |= set() if is_off else {origin.name for origin in group.origins}
        aliases = self._new_aliases(names)
        servers = []
        for index, group in enumerate(self._groups):
            kept = names[index] if index in present else None
            others = aliases[index]
            needs = () if kept and _identity(group.entry) != _identity(self._entries[kept]) else group.needs
            servers.append(
                msgspec.structs.replace(
                    group,
                    name=names[index],
                    present=kept is not None,
                    entry=group.entry if kept or not others else {**group.entry, "aliases": [*others]},
                    aliases=others,
                    needs=(*needs, *self._turned_off(kept, group)),
                )
            )
        return tuple(servers)

    def _name_present(self, names: dict[int, str]) -> None:
        """Name the groups that the configuration has: by their names first, then as they come."""
        left = {identity: [*kept] for identity, kept in self._kept.items()}
        for may_be in (self._is_called, _is_derived, lambda *_: True):
            for index, group in enumerate(self._groups):
                kept = left.get(_identity(group.entry), [])
                known = [name for name in kept if may_be(name, group)]
                if index not in names and known:
                    names[index] = known[0]
                    kept.remove(known[0])
        for index, group in enumerate(self._groups):
            if index not in names and (found := self._completed(group, {*names.values()})):
                names[index] = found

    def _is_called(self, name: str, group: Planned) -> bool:
        """Return True if a server of the configuration has a name of the group's."""
        return bool({name, *self._aliases[name]} & {origin.name for origin in group.origins})

    def _completed(self, group: Planned, taken: set[str]) -> str | None:
        """The name of this server in the configuration, if only references and their values differ there."""
        for name, entry in self._entries.items():
            may_be = name not in taken and (_is_derived(name, group) or self._is_called(name, group))
            if may_be and _completes(_compared(entry), _compared(group.entry)):
                return name
        return None

    def _new_aliases(self, names: Mapping[int, str]) -> dict[int, tuple[str, ...]]:
        """The aliases that the groups get, by number: those that are on choose first."""
        taken = self._names.union(*self._aliases.values())
        found = {}
        for index in sorted(names, key=lambda index: bool(self._groups[index].entry.get("disabled"))):
            others = dict.fromkeys(origin.name for origin in self._groups[index].origins)
            found[index] = tuple(each for each in others if each != names[index] and each not in taken)
            taken |= {*found[index]}
        return found

    def _free(self, group: Planned, in_use: Collection[str]) -> str:
        """The best of its names that no other server has, or the best with the client's name behind it.

        None of those `in_use`.
        """
        ranked = _ranked(group)
        if free := [name for name in ranked if name not in self._names and name not in in_use]:
            return free[0]
        client = next(origin.client for origin in group.origins if origin.name == ranked[0])
        name, number = f"{ranked[0]}-{client}", 2
        while name in self._names:
            name = f"{ranked[0]}-{client}-{number}"
            number += 1
        return name

    def _turned_off(self, kept: str | None, group: Planned) -> tuple[str, ...]:
        """Return what must be done where the configuration has a server turned off that the client uses."""
        if kept is None or group.entry.get("disabled") or not self._entries[kept].get("disabled"):
            return ()
        return (f"it is disabled in the configuration: mcpx enable {shlex.quote(kept)}",)


def _is_derived(name: str, group: Planned) -> bool:
    """Return True if an import gives the group this name: its own, maybe with its client's behind."""
    return any(
        name == origin.name or name.startswith(f"{origin.name}-{origin.client}") for origin in group.origins
    )


def _ranked(group: Planned) -> list[str]:
    """The names of a server: one under which it is on first, then the commonest, then the shortest."""
    clients: dict[str, set[str]] = {}
    for origin in group.origins:
        clients.setdefault(origin.name, set()).add(origin.client)
    on = {origin.name for origin in group.origins if not origin.is_off}
    return sorted(clients, key=lambda name: (name not in on, -len(clients[name]), len(name)))


def _claim(group: Planned) -> tuple[bool, int]:
    """Return the rank of a server's claim to a name that others have, too: on first, then the commonest."""
    best = _ranked(group)[0]
    clients = {each.client for each in group.origins if each.name == best}
    return bool(group.entry.get("disabled")), -len(clients)


def _project_of(given: Any) -> dict[str, Any]:
    """The project of an entry, where it has one: another one makes it another server."""
    return {"project": given["project"]} if isinstance(given, Mapping) and "project" in given else {}


def _aliases_of(given: Any) -> tuple[str, ...]:
    aliases = given.get("aliases") if isinstance(given, Mapping) else None
    return tuple(map(str, aliases)) if isinstance(aliases, list) else ()


def _merged(planned: Planned, server: Server, origin: Origin) -> Planned:
    """One server out of two equal ones: turned on if either is, with the longer of two limits.

    What works in one of the clients as it is needs nothing.
    """
    entry = {**planned.entry}
    if not server.entry.get("disabled"):
        entry.pop("disabled", None)
    for key in ("connect_timeout", "call_timeout"):
        limits = [each[key] for each in (entry, server.entry) if key in each]
        entry.pop(key, None)
        entry |= {key: max(limits)} if len(limits) > 1 else {}
    return msgspec.structs.replace(
        planned,
        entry=entry,
        origins=(*planned.origins, origin),
        notes=tuple(dict.fromkeys((*planned.notes, *server.notes))),
        needs=planned.needs if server.needs else (),
    )


def _compared(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what makes a server the same: how it is reached, with which values."""
    compared = {key: value for key, value in entry.items() if key not in _NOT_COMPARED}
    if headers := compared.get("headers"):
        compared["headers"] = {name.lower(): value for name, value in headers.items()}
    if isinstance(files := compared.get("env_file"), str):
        compared["env_file"] = [files]
    return compared


def _identity(entry: Mapping[str, Any]) -> str:
    return json.dumps(_compared(entry), sort_keys=True)


def _completes(one: Any, other: Any) -> bool:
    """Return True if two entries differ only where either of them has a reference to a value."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_completes(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_completes, one, other))
    if isinstance(one, str) and isinstance(other, str):
        return _fits(one, other) or _fits(other, one)
    return bool(one == other)


def _fits(text: str, pattern: str) -> bool:
    """Return True if a pattern with references may stand for a text."""
    literals = [re.escape(literal) for literal in _REFERENCE.split(pattern)]
    return re.fullmatch(".*".join(literals), text, re.DOTALL) is not None


def _own_ports(document: Mapping[str, Any]) -> frozenset[int]:
    gateway = document.get("http")
    port = gateway.get("port") if isinstance(gateway, dict) else None
    return frozenset({HttpGateway().port, *((port,) if isinstance(port, int) else ())})


def _written(config: bytes | None, document: Mapping[str, Any], servers: tuple[Planned, ...]) -> bytes | None:
    """The configuration with the new servers in it; as it was where there are none."""
    new = {server.name: server.entry for server in servers if not server.present}
    known = {server.name: server.aliases for server in servers if server.present and server.aliases}
    if not config or not config.strip():
        written = json.dumps({"mcpServers": new}, indent=2, ensure_ascii=False) + "\n"
        return written.encode() if new else config
    form = next((form for form in _FORMS if form in document), _FORMS[0])
    edited = Document(config, "json")
    for name, path in places_of(document):
        if name in known:
            aliases = [*_aliases_of(entry_at(document, path)), *known.pop(name)]
            edited.set((*path, "aliases"), aliases)
    for name, entry in new.items():
        edited.set((form, name), entry)
    return edited.data
