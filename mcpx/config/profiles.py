"""Profiles: which servers and tools the clients see that ask for one by its name.

Owns the shape of a profile and what must hold of it: a name that a URL can carry, and servers that there are.
What is shown by it `mcpx.core.profiles` says. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Annotated, Final

import msgspec

from mcpx.config.document import LocatedError, Location, quote
from mcpx.config.per_server import NonEmpty, doc
from mcpx.door import Expose
from mcpx.text.nearest import nearest

RESERVED: Final = frozenset({"servers"})
"""What follows on `/mcp/` in the URLs of HTTP and is no profile."""
MAX_NAMED: Final = 20  # names in a message
_NAME: Final = re.compile(r"\w[\w.-]{0,63}")

Patterns = tuple[NonEmpty, ...]
"""Names, or patterns of names with `*`, `?` and `[...]`."""


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What its clients see. None: as the servers are configured.

    An unknown key is an error: a slip must not show more than was meant.
    """

    servers: Annotated[
        Patterns,
        doc("The servers that are shown: names, or patterns as db-*. Without it, all."),
    ] = ("*",)
    tools: Annotated[
        dict[NonEmpty, Patterns],
        doc(
            "By server, the tools that are shown of it: names, or patterns as git_log*."
            " Of a server that is not named here, all."
        ),
    ] = {}
    expose: Annotated[
        Expose | None, doc("How tools are shown, in place of what the servers' expose says.")
    ] = None
    pinned: Annotated[
        Patterns | None,
        doc("Patterns of server.tool, in place of what the servers' pinned says."),
    ] = None


@lru_cache(maxsize=8192)
def fits(name: str, pattern: str) -> bool:
    """Whether a pattern is that name, or fits it."""
    return name == pattern or fnmatchcase(name, pattern)


def chosen(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """The names that one of the patterns fits."""
    return [name for name in names if any(fits(name, pattern) for pattern in patterns)]


def is_pattern(text: str) -> bool:
    """Whether it may fit names other than itself."""
    return any(each in text for each in "*?[")


def check_profiles(
    profiles: Mapping[str, Profile], servers: Collection[str], at: Location
) -> Iterator[LocatedError]:
    """What is wrong with the profiles of a configuration with these servers; `at` is where they stand.

    A name that cannot be used, or a server that does not exist, or that has tools but is not shown.
    """
    for name, profile in profiles.items():
        here = at.key(name)
        if not _NAME.fullmatch(name):
            yield at.name(name).error(
                "a profile's name has up to 64 letters, digits, _, - and ., and begins with no . or -"
            )
        if name in RESERVED:
            yield at.name(name).error(
                f"{quote(name)} cannot be a profile's name: /mcp/{name}/ has another meaning"
            )
        for index, pattern in enumerate(profile.servers):
            if pattern not in servers and not is_pattern(pattern):
                yield here.key("servers").item(index).error(no_server(pattern, servers))
        shown = chosen(servers, profile.servers)
        for server in profile.tools:
            if server not in servers:
                yield here.key("tools").name(server).error(no_server(server, servers))
            elif server not in shown:
                yield here.key("tools").name(server).error("this server is not among those of the profile")


def no_server(name: str, servers: Iterable[str]) -> str:
    """The problem with a name that none of the servers has."""
    return f"there is no server {quote(name)}{did_you_mean(name, servers)}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of the sentence about a wrong name: what it was probably meant to be, or what there is."""
    known = list(known)
    if near := nearest(name, known, most=1):
        return f"; did you mean {quote(near[0])}?"
    return f"; there is {', '.join(map(quote, known[:MAX_NAMED]))}" if known else ""
