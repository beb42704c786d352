"""From what was found in the clients' files to one configuration: equal servers once, clashing names apart.

`plan_import` is pure: it is given the content of the files and of the configuration, and gives back the
content that the configuration should have. What the configuration has already stays as it is, its comments
and its order too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from mcpx.clients.reading import ClientServers
from mcpx.clients.rows import Client
from mcpx.clients.translating import Server, translate
from mcpx.clients.variables import NotImportedError
from mcpx.config.document import Location
from mcpx.config.model import HttpGateway
from mcpx.config.notices import ConfigNotices
from mcpx.config.servers import find_entries
from mcpx.config.urls import is_loopback
from mcpx.documents.editing import read, set_member
from mcpx.documents.jsonc import JSONObject

_MCPX: Final = Client(name="mcpx", title="MCPX", files={})
_FORMS: Final = ("mcpServers", "servers", "context_servers", "amp.mcpServers")
"""Where new servers are written: at the first of these that the configuration has, else at the first."""
_REFERENCE: Final = re.compile(r"(?<!\$)\$\{[^}]*\}")
_NOT_COMPARED: Final = frozenset({"disabled", "call_timeout", "connect_timeout"})


class Origin(msgspec.Struct, frozen=True):
    """Where a server was found: the client, its file, and the server's name there."""

    client: str
    path: Path
    name: str


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A server of the configuration that was found in the clients' files. `name` is its name in MCPX.

    `present` is whether the configuration has it already. `needs` says what must be done before it works.
    """

    name: str
    entry: dict[str, Any]
    origins: tuple[Origin, ...]
    present: bool = False
    notes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


class ImportPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What an import would do. `before` and `after` are the content of the configuration."""

    servers: tuple[Planned, ...]
    before: bytes | None
    after: bytes | None

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
    """What it takes to have every server that was found in the configuration, which is None if there is none.

    Raises:
        DocumentError: The configuration is not understood.
    """
    document = read(config, "json") if config else None
    if not isinstance(document, JSONObject):
        document = JSONObject([])
    plan = _Plan(document)
    for each in found:
        for server in each.servers:
            plan.take(server, Origin(each.file.client.name, each.file.path, server.name))
    servers = tuple(plan.servers)
    return ImportPlan(servers=servers, before=config, after=_written(config, document, servers))


class _Plan:
    """The servers by what they are; a name is given once."""

    def __init__(self, document: JSONObject) -> None:
        self.servers: list[Planned] = []
        self._ports = _own_ports(document)
        self._names: set[str] = set()
        self._kept: dict[str, str] = {}
        self._entries: dict[str, dict[str, Any]] = {}
        for name, given in _configured(document):
            self._names.add(name)
            with suppress(NotImportedError):
                entry = translate(name, given, _MCPX).entry
                self._entries[name] = entry
                self._kept.setdefault(_identity(entry), name)
        self._found: dict[str, int] = {}
        self._taken: set[str] = set()

    def take(self, server: Server, origin: Origin) -> None:
        """Add a server, or merge it with an equal one."""
        if self._is_mcpx(server.entry):
            return
        identity = _identity(server.entry)
        if (index := self._found.get(identity)) is not None:
            self.servers[index] = _merged(self.servers[index], server, origin)
            return
        completed = None if identity in self._kept else self._completed(server, origin.client)
        kept = completed or self._kept.get(identity)
        name = kept or self._free(server.name, origin.client)
        self._names.add(name)
        self._taken.add(name)
        self._found[identity] = len(self.servers)
        self.servers.append(
            Planned(
                name=name,
                entry=server.entry,
                origins=(origin,),
                present=kept is not None,
                notes=server.notes,
                needs=(*(() if completed else server.needs), *self._turned_off(kept, server)),
            )
        )

    def _turned_off(self, kept: str | None, server: Server) -> tuple[str, ...]:
        """What must be done where the configuration has a server turned off that the client uses."""
        if kept is None or server.entry.get("disabled") or not self._entries[kept].get("disabled"):
            return ()
        return (f"it is disabled in the configuration: mcpx enable {kept}",)

    def _completed(self, server: Server, client: str) -> str | None:
        """The name of this server in the configuration, if only references and their values differ there."""
        for name, entry in self._entries.items():
            own_name = name == server.name or name.startswith(f"{server.name}-{client}")
            if own_name and name not in self._taken and _completes(_compared(entry), _compared(server.entry)):
                return name
        return None

    def _free(self, name: str, client: str) -> str:
        """The name, or one with the client's name behind it, which no other server has."""
        names = [name, f"{name}-{client}"]
        number = 2
        while names[-1] in self._names:
            names.append(f"{name}-{client}-{number}")
            number += 1
        return next(each for each in names if each not in self._names)

    def _is_mcpx(self, entry: Mapping[str, Any]) -> bool:
        """Whether a server is MCPX's own HTTP side."""
        try:
            parts = urlsplit(entry.get("url", ""))
            port = parts.port
        except ValueError:
            return False
        return port in self._ports and is_loopback(parts.hostname or "") and parts.path.startswith("/mcp")


def _merged(planned: Planned, server: Server, origin: Origin) -> Planned:
    """One server out of two equal ones: turned on if either is, with the longer of two limits."""
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
    )


def _compared(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What makes a server the same: how it is reached, with which values."""
    compared = {key: value for key, value in entry.items() if key not in _NOT_COMPARED}
    if headers := compared.get("headers"):
        compared["headers"] = {name.lower(): value for name, value in headers.items()}
    if isinstance(files := compared.get("env_file"), str):
        compared["env_file"] = [files]
    return compared


def _identity(entry: Mapping[str, Any]) -> str:
    return json.dumps(_compared(entry), sort_keys=True)


def _completes(one: Any, other: Any) -> bool:
    """Whether two entries differ only where either of them has a reference to a value."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_completes(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_completes, one, other))
    if isinstance(one, str) and isinstance(other, str):
        return _fits(one, other) or _fits(other, one)
    return bool(one == other)


def _fits(text: str, pattern: str) -> bool:
    """Whether a text is what a pattern with references may stand for."""
    literals = [re.escape(literal) for literal in _REFERENCE.split(pattern)]
    return re.fullmatch(".*".join(literals), text, re.DOTALL) is not None


def _configured(document: JSONObject) -> Iterator[tuple[str, Any]]:
    """The servers that a configuration has, in any of its forms."""
    for entry in find_entries(document, Location(""), ConfigNotices()):
        yield entry.name, entry.given


def _own_ports(document: Mapping[str, Any]) -> frozenset[int]:
    gateway = document.get("http")
    port = gateway.get("port") if isinstance(gateway, dict) else None
    return frozenset({HttpGateway().port, *((port,) if isinstance(port, int) else ())})


def _written(config: bytes | None, document: Mapping[str, Any], servers: Iterable[Planned]) -> bytes | None:
    """The configuration with the new servers in it; as it was where there are none."""
    new = {server.name: server.entry for server in servers if not server.present}
    if not new:
        return config
    if not config or not config.strip():
        return (json.dumps({"mcpServers": new}, indent=2, ensure_ascii=False) + "\n").encode()
    form = next((form for form in _FORMS if form in document), _FORMS[0])
    for name, entry in new.items():
        config = set_member(config, (form, name), entry, "json")
    return config
