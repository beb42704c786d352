"""Servers that have the same tools: eight clusters behind eight entries for one program, say.

Owns the comparison, and how it is told. A description, a listing or the answer to a search shows such tools
once, of one server, and names the others beside it: `same tools as prom-us: prom-eu, prom-ap`. Two tools are
the same if all that a client is shown of them is: names, schemas, annotations. Only titles and descriptions
may differ, and only in words of the server's own name ("Metrics of us-east"). What rules, profiles, pins and
overrides make of a tool counts, because what is compared is what is shown; a server's state does not.

A server with nearly the same tools is alike, too: the few that it lacks are named, and so are the few that it
has besides, or in another form. `same_tools` costs a look at the names of all tools. The tools themselves are
read where most names agree, once for each tool. Pure.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mcpx.core.catalog.model import JSON, ToolInfo, present
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.text import cut, shown_name, shown_server

MAX_DIFFERENCES: Final = 6  # tools that are named as missing or besides
_SHARED_FOR_ONE: Final = 4  # the same tools for each that is not
_MAX_COMPARED: Final = 4  # servers that one is compared with
_MAX_WITH_NAME: Final = 16  # servers that are looked at because they have a tool of one name
_MAX_TOOLS: Final = 400  # of a server that is compared
_MAX_CLEARED: Final = 20_000  # bytes of a tool whose texts are read for words
_MAX_DEPTH: Final = 64  # levels of a schema in which they are
_NAME_LEN: Final = 80
_TEXTS: Final = frozenset({"title", "description"})
_WORD: Final = re.compile(r"[^\W_]+")

Offers = Mapping[str, Mapping[str, ToolInfo]]
"""The tools of each server, by its name and theirs."""


class Alike(NamedTuple):
    """A server that has the tools of `leader`, without those that it `lacks`, and with its `own`."""

    leader: str
    lacks: tuple[str, ...] = ()
    own: tuple[str, ...] = ()

    def to_dict(self) -> JSON:
        """`{without?, besides?}`: what the leader has alone, and what the other."""
        return present(without=self.lacks or None, besides=self.own or None)

    @property
    def shared(self) -> str:
        """`same tools as prom-us`."""
        return f"same tools as {shown_server(self.leader)}"

    @property
    def without(self) -> str:
        """`without delete_series`, or nothing."""
        return f"without {', '.join(map(_shown_tool, self.lacks))}" if self.lacks else ""

    @property
    def differences(self) -> str:
        """`without delete_series, with its own cn_only`; nothing where no tool differs."""
        own = f"with its own {', '.join(map(_shown_tool, self.own))}" if self.own else ""
        return ", ".join(filter(None, (self.without, own)))


Same = tuple[ServerInfo, Alike]
"""A server with what it shares with another one."""


def same_tools(offers: Offers) -> dict[str, Alike]:
    """Find the servers that have the tools of one before them, in the order given; by name."""
    place = {server: number for number, server in enumerate(offers)}
    with_name: dict[str, list[str]] = defaultdict(list)
    found: dict[str, Alike] = {}
    for server, tools in offers.items():
        if len(tools) > _MAX_TOOLS:
            continue
        counts = Counter(leader for name in tools for leader in with_name.get(name, ()))
        near = sorted(counts, key=lambda leader: (-counts[leader], place[leader])) if counts else []
        compared = (compare(leader, offers[leader], server, tools) for leader in near[:_MAX_COMPARED])
        alike = next(filter(None, compared), None)
        if alike is not None:
            found[server] = alike
            continue
        for name in tools:
            if len(with_name[name]) < _MAX_WITH_NAME:
                with_name[name].append(server)
    return found


def compare(
    leader: str, known: Mapping[str, ToolInfo], server: str, tools: Mapping[str, ToolInfo]
) -> Alike | None:
    """Compare the `tools` of `server` with those of `leader`; None where it is shorter to show both."""
    if max(len(known), len(tools)) > _MAX_TOOLS:
        return None
    names = known.keys() & tools.keys()
    differing = len(known) + len(tools) - 2 * len(names)
    if not _are_alike(len(names), differing):
        return None
    one, other = _own_words(leader), _own_words(server)
    own = tools.keys() - names
    for name in names:
        if not _is_same(known[name], one, tools[name], other):
            own.add(name)
            differing += 1
            if not _are_alike(len(names), differing):
                return None
    shared = len(tools) - len(own)
    lacks, besides = tuple(sorted(known.keys() - names)), tuple(sorted(own))
    return Alike(leader, lacks, besides) if _are_alike(shared, differing) else None


def _are_alike(shared: int, differing: int) -> bool:
    return shared > 0 and differing <= min(MAX_DIFFERENCES, shared // _SHARED_FOR_ONE)


def _own_words(server: str) -> frozenset[str]:
    return frozenset(_words(server))


def without_own_words(server: str, text: str) -> list[str]:
    """Return the words of a text that are not in the name of its server."""
    own = _own_words(server)
    return [word for word in _words(text) if word not in own]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _is_same(one: ToolInfo, own: frozenset[str], other: ToolInfo, its_own: frozenset[str]) -> bool:
    """Return True if two tools look the same, as they are or without words of their servers' names."""
    nothing = frozenset[str]()
    return _form(one, nothing) == _form(other, nothing) or _form(one, own) == _form(other, its_own)


def _form(tool: ToolInfo, own: frozenset[str]) -> int:
    """Return a number, equal for tools that look the same without these words; kept with the tool."""
    kept: dict[frozenset[str], int] = tool.__dict__.setdefault("forms", {})
    if own not in kept:
        shown = {name: value for name, value in tool.to_protocol().items() if name != "icons"}
        encoded = msgspec.json.encode(shown, order="deterministic")
        if own and len(encoded) <= _MAX_CLEARED:
            encoded = msgspec.json.encode(_cleared(shown, own, 0), order="deterministic")
        kept[own] = hash(encoded)
    return kept[own]


def _cleared(value: Any, own: frozenset[str], depth: int) -> Any:
    """JSON with each text in it as its words, without those of the server's own name."""
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, dict):
        return {
            name: [word for word in _words(inner) if word not in own]
            if name in _TEXTS and isinstance(inner, str)
            else _cleared(inner, own, depth + 1)
            for name, inner in value.items()
        }
    return [_cleared(inner, own, depth + 1) for inner in value] if isinstance(value, list) else value


# --- how it is told


def others_like(server: ServerInfo, servers: Iterable[ServerInfo]) -> list[Same]:
    """The other servers that have the tools of this one."""
    others = (other for other in servers if other.name != server.name)
    compared = ((other, compare(server.name, server.tools, other.name, other.tools)) for other in others)
    return [(other, alike) for other, alike in compared if alike is not None]


def grouped(servers: Iterable[ServerInfo]) -> list[tuple[ServerInfo, list[Same]]]:
    """The servers in their order, each with those that have its tools.

    Of a group that one stands first whose tools most of them have by name.
    """
    listed = list(servers)
    names = {server.name: frozenset(server.tools) for server in listed if server.tools}
    usual = Counter(names.values())
    first = sorted(names, key=lambda name: -usual[names[name]])
    tools = {server.name: server.tools for server in listed}
    alike = same_tools({name: tools[name] for name in first})
    groups = {server.name: (server, list[Same]()) for server in listed if server.name not in alike}
    for server in listed:
        if server.name in alike:
            groups[alike[server.name].leader][1].append((server, alike[server.name]))
    return list(groups.values())


def same_on(same: Sequence[Same], most: int) -> str:
    """`prom-eu, prom-ap (parked), prom-cn (without delete_series), +4`, of which `most` are named."""
    shown = [named(other.name, other.away, alike.differences) for other, alike in same[:most]]
    return ", ".join([*shown, *([f"+{len(same) - most}"] if len(same) > most else [])])


def same_lines(leader: str, others: Iterable[tuple[str, str]]) -> list[str]:
    """`same tools as prom-us: prom-eu, prom-ap (parked)`, and a line for each difference that others have."""
    by_difference: dict[str, list[str]] = {"": []}
    for told, differences in others:
        by_difference.setdefault(differences, []).append(told)
    return [
        f"same tools as {shown_server(leader)}{f', {said}' if said else ''}: {', '.join(of)}"
        for said, of in by_difference.items()
        if of
    ]


def named(server: str, *facts: str | None) -> str:
    """`prom-eu`, or `prom-ap (parked)`."""
    said = ", ".join(filter(None, facts))
    return cut(shown_server(server), _NAME_LEN) + (f" ({said})" if said else "")


def _shown_tool(name: str) -> str:
    return cut(shown_name(name), _NAME_LEN)
