"""Profiles: which servers and tools the clients see that ask for one by its name.

Owns the shape of a profile and what must hold of it: a name that a URL can carry, and servers that there are.
What is shown by it `mcpx.core.policy.profiles` says. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from glob import escape
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from mcpx.core.config.document import LocatedError, Location, quote
from mcpx.core.config.per_server import AccessRules, NonEmpty, Patterns, R, ToolRules, doc, joined
from mcpx.core.config.server_config import Override, Overrides, ServerConfig
from mcpx.core.system.endpoint import Expose
from mcpx.core.text.nearest import nearest

RESERVED: Final = frozenset({"servers"})
"""What follows on `/mcp/` in the URLs of HTTP and is no profile."""
MAX_NAMED: Final = 20  # names in a message
MAX_NAME_KEPT: Final = 256  # characters, with whether a pattern fits: clients name what they like
_NAME: Final = re.compile(r"\w[\w.-]{0,63}")


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The servers and tools that its clients see. None: as the servers are configured.

    An unknown key is an error: a slip must not show more than was meant.
    """

    servers: Annotated[
        Patterns, doc("The servers that are shown: names, or patterns as db-*. Without it, all.")
    ] = ("*",)
    tools: Annotated[
        dict[NonEmpty, Patterns | ToolRules],
        doc(
            "By server, the tools that are shown of it: names, or patterns as git_log*, or an object with"
            " allow, deny and ask. Of a server that is not named here, all. Beside servers, allow, deny and"
            " ask may stand here for all of them, or a list of what is allowed in place of the object."
        ),
    ] = {}
    resources: Annotated[AccessRules, doc("Which resources are shown, by patterns of their URIs.")] = (
        AccessRules()
    )
    prompts: Annotated[AccessRules, doc("Which prompts are shown, by patterns of their names.")] = (
        AccessRules()
    )
    expose: Annotated[
        Expose | None, doc("How tools are shown, in place of what the servers' expose says.")
    ] = None
    pinned: Annotated[
        Patterns | None, doc("Patterns of server.tool, in place of what the servers' pinned says.")
    ] = None
    overrides: Annotated[
        dict[NonEmpty, dict[NonEmpty, Override]],
        doc("By server, as its entry's overrides: for the clients of the profile, on top of those."),
    ] = {}

    def overrides_of(self, server: str) -> Overrides:
        """The overrides for the tools of one server."""
        return self.overrides.get(server, {})

    @property
    def servers_with_rules(self) -> dict[str, Patterns | ToolRules]:
        """The rules in `tools` by server."""
        return {name: rules for name, rules in self.tools.items() if not _is_rule(name, rules)}

    def tool_rules(self, server: str) -> ToolRules:
        """The rules for the tools of one server."""
        said: dict[str, Any] = {name: rule for name, rule in self.tools.items() if _is_rule(name, rule)}
        common = ToolRules(**said)
        own = self.servers_with_rules.get(server)
        if own is None:
            return joined(common, common)
        rules = own if isinstance(own, ToolRules) else ToolRules(allow=own)
        rules = with_meanings(rules, partial(own_patterns, server), rules.__struct_fields__)
        return joined(rules if rules.allow is not None else replace(rules, allow=common.allow), common)


def _is_rule(name: str, said: Patterns | ToolRules) -> bool:
    """Return True if a key of a profile's `tools` is no server, but a rule for all."""
    return name in ToolRules.__struct_fields__ and not isinstance(said, ToolRules)


def with_meanings(rules: R, meanings: Callable[[str], Iterable[str]], given: Collection[str]) -> R:
    """Return rules with the meanings of each pattern in its place, in the fields that are `given`."""
    own = {
        field: tuple(own for pattern in patterns for own in meanings(pattern))
        for field in given
        if (patterns := getattr(rules, field)) is not None
    }
    return replace(rules, **own)


def own_patterns(server: str, pattern: str, aliases: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the meanings of a pattern of one server's names: a name of the server may be its start."""
    return tuple(dict.fromkeys((own_pattern(server, pattern, aliases), f"{escape(server)}.{pattern}")))


def own_pattern(server: str, pattern: str, aliases: tuple[str, ...] = ()) -> str:
    """A pattern of tools from a server's own entry, as one of `server.tool`."""
    pattern = owned_pattern(pattern, dict.fromkeys(aliases, server))
    names_server = pattern.startswith((f"{server}.", "*."))
    return pattern if names_server else f"{escape(server)}.{pattern}"


def fits(name: str, pattern: str) -> bool:
    """Return True if a pattern is that name, or fits it."""
    return _fits(name, pattern) if len(name) <= MAX_NAME_KEPT else _fits.__wrapped__(name, pattern)


@lru_cache(maxsize=8192)
def _fits(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def chosen(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """The names that one of the patterns fits."""
    return [name for name in names if any(fits(name, pattern) for pattern in patterns)]


def is_pattern(text: str) -> bool:
    """Return True if it may fit names other than itself."""
    return any(each in text for each in "*?[")


def by_own_names(profile: Profile, servers: Mapping[str, ServerConfig]) -> Profile:
    """A profile in which each server that it means by an alias stands under its own name.

    Where both names have rules, both stay, and `check_profiles` says that one is no server's.
    """
    owners = {alias: name for name, each in servers.items() for alias in each.aliases}
    if not owners:
        return profile
    patterns = [
        own
        for pattern in profile.servers
        for own in (
            [owners[pattern]]
            if pattern in owners
            else [pattern, *(owners[alias] for alias in owners if fits(alias, pattern))]
        )
    ]
    tools = {
        owners[name] if name in owners and owners[name] not in profile.tools else name: _by_own_name(
            rules, owners
        )
        for name, rules in profile.tools.items()
    }
    pinned = profile.pinned and tuple(owned_pattern(pattern, owners) for pattern in profile.pinned)
    overrides = {owners.get(name, name): its for name, its in profile.overrides.items()}
    return replace(
        profile, servers=tuple(dict.fromkeys(patterns)), tools=tools, pinned=pinned, overrides=overrides
    )


def _by_own_name(rules: Patterns | ToolRules, owners: Mapping[str, str]) -> Patterns | ToolRules:
    """Rules with each pattern of `alias.tool` by the server's own name, too."""
    if not isinstance(rules, ToolRules):
        return tuple(dict.fromkeys(own for each in rules for own in (owned_pattern(each, owners), each)))
    given = {field: getattr(rules, field) for field in rules.__struct_fields__}
    return replace(
        rules, **{field: _by_own_name(said, owners) for field, said in given.items() if said is not None}
    )


def owned_pattern(pattern: str, owners: Mapping[str, str]) -> str:
    """A pattern of `alias.tool` by the server's own name."""
    alias = next((each for each in owners if pattern.startswith(f"{each}.")), None)
    return pattern if alias is None else f"{owners[alias]}{pattern.removeprefix(alias)}"


def check_profiles(
    profiles: Mapping[str, Profile],
    servers: Collection[str],
    at: Location,
    *,
    may_be: Callable[[str], bool] = lambda _name: False,
) -> Iterator[LocatedError]:
    """Yield the mistakes in the profiles of a configuration with these servers; `at` is where they stand.

    A name that cannot be used, or a server that does not exist, or that has tools but is not shown. There
    may be more servers of the names for which `may_be` is true: those of other MCPX.
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
            if pattern not in servers and not is_pattern(pattern) and not may_be(pattern):
                yield here.key("servers").item(index).error(no_server(pattern, servers))
        named = (*profile.servers, *profile.servers_with_rules, *profile.overrides)
        possible = {*filter(may_be, named)}
        yield from _check_tools(profile, {**dict.fromkeys(servers), **dict.fromkeys(possible)}, here)


def _check_tools(profile: Profile, servers: Collection[str], profile_at: Location) -> Iterator[LocatedError]:
    at = profile_at.key("tools")
    shown, by_server = chosen(servers, profile.servers), profile.servers_with_rules
    for rule in profile.tools:
        if rule not in by_server and rule in servers:
            instead = f'{{{quote(rule)}: {{"allow": [...]}}}}'
            yield at.name(rule).error(f"this is a rule for all servers; for that server write {instead}")
    named = [at.name(server) for server in by_server]
    named += [profile_at.key("overrides").name(server) for server in profile.overrides]
    for place, server in zip(named, (*by_server, *profile.overrides), strict=True):
        if server not in servers:
            yield place.error(no_server(server, servers))
        elif server not in shown:
            yield place.error("this server is not among those of the profile")


def no_server(name: str, servers: Iterable[str]) -> str:
    """The problem with a name that none of the servers has."""
    return f"there is no server {quote(name)}{did_you_mean(name, servers)}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of the sentence about a wrong name: what it was probably meant to be, or what there is."""
    known = list(known)
    if near := nearest(name, known, most=1):
        return f"; did you mean {quote(near[0])}?"
    return f"; there is {', '.join(map(quote, known[:MAX_NAMED]))}" if known else ""
