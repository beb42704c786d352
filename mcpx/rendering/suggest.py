"""Errors that help: a name nobody knows is answered with the nearest ones and with what there is.

Owns `nearest` and the three errors for unknown servers, tools and resources. Called by the router and the
executor; pure. Promises bounded texts: at most three suggestions, at most twenty names and a count.

The errors' `details` are `{"did_you_mean": [...], "available": [...], "available_total": n}`, and for a tool
that other servers have under exactly that name `"servers_with_it": [...]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from os.path import commonprefix
from typing import Any, Final

from mcpx.catalog.model import ServerInfo
from mcpx.errors import URI_LEN, CallError, Code
from mcpx.text import cut, one_line, quoted, shown_name, shown_uri

Shown = Callable[[str], str]

_MOST_AVAILABLE: Final = 20
_MOST_SERVERS_WITH_IT: Final = 5
_NAME_LEN: Final = 120
_STATE_LEN: Final = 200
_ALIKE: Final = 0.6  # of the letters of both names, in order
_SHORTEST_PART: Final = 3  # letters; a shorter part is found in everything
_COMPARED_LEN: Final = 64  # letters of a name; real ones are shorter
_MOST_KNOWN: Final = (
    1000  # names that are looked at, at half a microsecond each: many wrong names may come at once
)
_MOST_COMPARED: Final = 100  # of them letter by letter, at up to 30 us each
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")


def nearest(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """Up to `most` of the `known` names that `name` was probably meant to be, best first.

    Case and separators do not count (`readFile` finds `read_file`), nor does the order of words; then come
    beginnings, then parts. Names alike letter by letter are looked for only where those are too few. Of very
    many names the first thousand count, and of a name 64 letters: it takes a bounded time whatever they are.
    """
    wanted = _letters(name[:_COMPARED_LEN])
    others = [(other, _letters(other[:_COMPARED_LEN])) for other in islice(known, _MOST_KNOWN)]
    good = _best(((_match(wanted, letters), other) for other, letters in others), most)
    if len(good) < most:
        found = set(good)
        left = ((other, letters[0]) for other, letters in others if other not in found)
        alike = islice(((o, text) for o, text in left if _can_be_alike(wanted[0], text)), _MOST_COMPARED)
        good += _best(((_likeness(wanted[0], text), other) for other, text in alike), most - len(good))
    return good


def _best(scored: Iterable[tuple[float, str]], most: int) -> list[str]:
    """The names with the highest scores, of those that count as alike at all."""
    alike = [pair for pair in scored if pair[0] >= _ALIKE]
    return [name for _, name in sorted(alike, key=lambda pair: -pair[0])[:most]]


@lru_cache(maxsize=16384)
def _letters(name: str) -> tuple[str, str]:
    """The letters of a name without its separators; and its words in alphabetical order, as one text."""
    words = [word.casefold() for word in _WORD.findall(name)]
    return "".join(words), " ".join(sorted(words))


def _match(wanted: tuple[str, str], other: tuple[str, str]) -> float:
    """How well two names match by their words and parts, 1 to 5, or 0 for not at all. Takes `_letters`."""
    short, long = wanted[0], other[0]
    if len(short) > len(long):
        short, long = long, short
    if short not in long:
        return 4 if short and wanted[1] == other[1] else 0
    if short == long:
        return 5 if short else 0
    if len(short) < _SHORTEST_PART:
        return 0
    return (2 if long.startswith(short) else 1) + len(short) / len(long)


def _can_be_alike(one: str, other: str) -> bool:
    """Whether their lengths allow the names to be alike."""
    return 2 * min(len(one), len(other)) >= _ALIKE * (len(one) + len(other)) > 0


def _likeness(one: str, other: str) -> float:
    """The share of letters that both names have in the same order, 0 to 1.

    By the longest common subsequence, which takes one step a letter with the bits of an integer (Hyyro 2004);
    difflib's ratio takes seconds for names such as `a1ba1b...`.
    """
    places: dict[str, int] = {}
    for index, letter in enumerate(one):
        places[letter] = places.get(letter, 0) | 1 << index
    everywhere = (1 << len(one)) - 1
    free = everywhere
    for letter in other:
        taken = free & places.get(letter, 0)
        free = ((free + taken) | (free - taken)) & everywhere
    common = len(one) - free.bit_count()
    return 2 * common / (len(one) + len(other))


def unknown_server(name: str, servers: Sequence[ServerInfo]) -> CallError:
    """`unknown_server`: nobody has that name; says so too where it is the name of a tool."""
    known = [server.name for server in servers]
    near = nearest(name, known)
    sentences = [f"No server is named {_quoted(name)}.", _did_you_mean(near, shown_name)]
    owners = _servers_with(name, servers)
    if owners:
        sentences.append(f"It is a tool of {_listed(owners, shown_name, _MOST_SERVERS_WITH_IT)}.")
    sentences.append(_available("Servers", known, shown_name) or "No servers are configured.")
    details = _details(near, known) | ({"servers_with_it": owners} if owners else {})
    return CallError(Code.UNKNOWN_SERVER, _joined(sentences), server=name, details=details)


def unknown_tool(server: ServerInfo, tool: str, servers: Sequence[ServerInfo]) -> CallError:
    """`unknown_tool`: `server` has no tool of that name; says which of the `servers` do."""
    known = list(server.tools)
    near = nearest(tool, known)
    owners = _servers_with(tool, servers)
    sentences = [
        f"{shown_name(server.name)} has no tool named {_quoted(tool)}.",
        _did_you_mean(near, shown_name),
    ]
    if owners:
        sentences.append(f"There is one on {_listed(owners, shown_name, _MOST_SERVERS_WITH_IT)}.")
    sentences += [_standing(server, "tools"), _available("Tools", known, shown_name)]
    if len(known) > _MOST_AVAILABLE:
        sentences.append(f"inspect({_quoted(server.name)}) lists them all.")
    details = _details(near, known) | ({"servers_with_it": owners} if owners else {})
    return CallError(Code.UNKNOWN_TOOL, _joined(sentences), server=server.name, tool=tool, details=details)


def unknown_resource(server: ServerInfo, uri: str, problem: str = "") -> CallError:
    """`unknown_resource`: no resource of `server` has that URI, and no template of it matches.

    `problem` is what is wrong with the URI itself, if anything is.
    """
    templates = server.catalogue.templates if server.catalogue else ()
    known = [*server.resources, *(template.uri_template for template in templates)]
    near = _nearest_uris(uri, known) or _by_name(server, uri)
    sentences = [
        f"{shown_name(server.name)} has no resource {_quoted(uri)}" + (f": {problem}." if problem else "."),
        _did_you_mean(near, shown_uri),
        _standing(server, "resources"),
        _available("Resources", known, shown_uri),
    ]
    details = {**_details(near, known), "uri": cut(uri, URI_LEN)}
    return CallError(Code.UNKNOWN_RESOURCE, _joined(sentences), server=server.name, details=details)


def _nearest_uris(uri: str, known: Sequence[str]) -> list[str]:
    """The nearest URIs, compared without the folder that all have in common: it makes them all alike."""
    known = known[:_MOST_KNOWN]
    folder = commonprefix([uri, *known]).rpartition("/")[0]  # noqa: RUF071 -- cut back to a whole folder here
    ends = {other.removeprefix(folder): other for other in known}
    return [ends[end] for end in nearest(uri.removeprefix(folder), ends)]


def _by_name(server: ServerInfo, name: str) -> list[str]:
    """The URIs of the resources whose names are nearest."""
    uris = {resource.name: uri for uri, resource in islice(server.resources.items(), _MOST_KNOWN)}
    return [uris[found] for found in nearest(name, uris)]


def _servers_with(tool: str, servers: Sequence[ServerInfo]) -> list[str]:
    return [server.name for server in servers if tool in server.tools][:_MOST_AVAILABLE]


def _standing(server: ServerInfo, things: str) -> str:
    """How the server stands, where that may be why the name is not known."""
    state = one_line(server.describe_state(), _STATE_LEN)
    if server.catalogue is None:
        return f"It has not listed its {things} yet: it is {state}."
    return "" if server.ready else f"It is {state}; these are the {things} it listed last."


def _quoted(name: str) -> str:
    return quoted(cut(name, _NAME_LEN))


def _listed(names: Sequence[str], shown: Shown, most: int = _MOST_AVAILABLE) -> str:
    """`a, b, c`, or with more than `most` of them `a, b, c and 15 more`."""
    text = ", ".join(cut(shown(name), _NAME_LEN) for name in names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most:,} more"


def _did_you_mean(near: Sequence[str], shown: Shown) -> str:
    return f"Did you mean {' or '.join(cut(shown(name), _NAME_LEN) for name in near)}?" if near else ""


def _available(heading: str, known: Sequence[str], shown: Shown) -> str:
    return f"{heading}: {_listed(known, shown)}." if known else ""


def _details(near: list[str], known: list[str]) -> dict[str, Any]:
    return {"did_you_mean": near, "available": known[:_MOST_AVAILABLE], "available_total": len(known)}


def _joined(sentences: Iterable[str]) -> str:
    return " ".join(filter(None, sentences))
