"""The patterns of rules that fit nothing: a slip in one denies nothing, or allows nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from glob import escape
from typing import Any, Final

from mcpx.core.catalog.model import Catalogue
from mcpx.core.config import Config, ServerConfig
from mcpx.core.config.per_server import AccessRules, ToolRules
from mcpx.core.policy.rules import NameRules, URIRules

_THINGS: Final = {"tools": "tool", "resources": "resource", "prompts": "prompt"}
_Rule = tuple[str, str, str]
"""The kind of thing, its list, and a pattern in it."""


def unused_rules(config: Config, listed: Mapping[str, Catalogue | None]) -> list[str]:
    """A remark on each pattern that fits nothing, once all servers that it is for have listed.

    `listed` is what the servers offer, whatever the rules say.
    """
    servers: dict[_Rule, list[str]] = {}
    used: set[_Rule] = set()
    for server in config.servers.values():
        if server.disabled is not None:
            continue
        for rule, is_double in _rules(server):
            servers.setdefault(rule, []).append(server.name)
            if is_double or _is_used(rule, server, listed.get(server.name)):
                used.add(rule)
    return [
        f"{kind}.{field}: {' and '.join(names)} {'have' if names[1:] else 'has'} no {_THINGS[kind]} that"
        f" fits {pattern!r}"
        for (kind, field, pattern), names in servers.items()
        if (kind, field, pattern) not in used
    ]


def _rules(server: ServerConfig) -> Iterator[tuple[_Rule, bool]]:
    """The rules of a server; and whether one is there beside another that was written (`own_patterns`)."""
    for kind in _THINGS:
        rules: AccessRules = getattr(server, kind)
        asked = rules.ask if isinstance(rules, ToolRules) else ()
        for field in rules.__struct_fields__:
            patterns = [each for each in getattr(rules, field) or () if field != "allow" or each not in asked]
            own = f"{escape(server.name)}."
            spelled = [
                *patterns,
                *(
                    f"{alias}.{each.removeprefix(own)}"
                    for alias in server.aliases
                    for each in patterns
                    if each.startswith(own)
                ),
            ]
            doubles = {f"{own}{each}" for each in spelled}
            yield from (((kind, field, each), each in doubles) for each in patterns)


def _is_used(rule: _Rule, server: ServerConfig, known: Catalogue | None) -> bool:
    """True if a rule fits something of a server, or may do so as far as is known."""
    kind, field, pattern = rule
    if known is None or known.generation == 0 or any(each.name is None for each in known.left_out):
        return True
    if kind == "resources":
        rules = URIRules(server.name, _only(field, pattern), server.aliases)
        return bool(known.templates) or _fits(rules, field, known.resources)
    names = known.tools if kind == "tools" else [each.name for each in known.prompts]
    return _fits(NameRules(kind, server.name, _only(field, pattern), server.aliases), field, names)


def _only(field: str, pattern: str) -> ToolRules:
    given: dict[str, Any] = {"deny" if field == "ask" else field: (pattern,)}
    return ToolRules(**given)


def _fits(rules: NameRules | URIRules, field: str, names: Iterable[str]) -> bool:
    against: Callable[[str], str | None] = rules.against
    return any((against(name) is None) is (field == "allow") for name in names)
