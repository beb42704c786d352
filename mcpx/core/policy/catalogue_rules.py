"""The rules of one level, of a server or of a profile, on a catalogue and its annotations. Pure.

Annotations are what the server says, or what a person says in its place. A server's claim never widens what
may run unasked: it may be wrong, or a lie.

`unused_rules` finds patterns that fit nothing: a slip in one denies nothing, or allows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from glob import escape
from typing import Any, Final, TypeVar

from msgspec.structs import asdict, replace

from mcpx.core.catalog.extensions import pages_of, with_files, with_pages
from mcpx.core.catalog.model import JSON, Catalogue, LeftOut, SkillInfo, ToolInfo
from mcpx.core.config import Config, ServerConfig
from mcpx.core.config.per_server import AccessRules, Hints, ToolRules
from mcpx.core.policy.overrides import NO_OVERRIDES, ToolOverrides
from mcpx.core.policy.rules import NameRules, URIRules, names_of_server

_THINGS: Final = {"tools": "tool", "resources": "resource", "prompts": "prompt"}
_Rule = tuple[str, str, str]
"""The kind of thing, its list, and a pattern in it."""
HINTS: Final = dict(zip(Hints.__struct_fields__, Hints.__struct_encode_fields__, strict=True))
"""The fields of `Hints` with the protocol's names of the annotations."""
_CAUTIOUS: Final = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
"""What restricts: what the protocol takes for granted of a tool that says nothing."""
CUT: Final = "..."  # the end of a long name in a remark
T = TypeVar("T")


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
        return bool(known.templates) or _fits(rules, field, [*known.resources, *known.named_uris])
    names = known.tools if kind == "tools" else [each.name for each in known.prompts]
    all_names = Rules(server.name, *_NO_LISTS, overrides=ToolOverrides(server.overrides)).names
    rules_of_names = NameRules(kind, server.name, _only(field, pattern), server.aliases, all_names)
    return _fits(rules_of_names, field, names)


def _only(field: str, pattern: str) -> ToolRules:
    given: dict[str, Any] = {"deny" if field == "ask" else field: (pattern,)}
    return ToolRules(**given)


def _fits(rules: NameRules | URIRules, field: str, names: Iterable[str]) -> bool:
    against: Callable[[str], str | None] = rules.against
    return any((against(name) is None) is (field == "allow") for name in names)


class AnnotationRules:
    """A person's annotations of a server's tools; of several patterns that fit, the last one counts."""

    def __init__(
        self,
        server: str,
        given: dict[str, Hints],
        *,
        trusted: bool,
        aliases: tuple[str, ...] = (),
        names: Callable[[str], tuple[str, ...]] = lambda name: (name,),
    ) -> None:
        self._trusted = trusted
        self._names = names
        self._rules = [
            (
                NameRules("annotations", server, AccessRules(deny=(pattern,)), aliases, names),
                names_of_server(pattern, server, *aliases),
                {HINTS[field]: value for field, value in asdict(hints).items() if value is not None},
            )
            for pattern, hints in given.items()
        ]

    @property
    def change(self) -> bool:
        """True if there may be a tool whose annotations they change."""
        return bool(self._rules) or not self._trusted

    def apply(self, tool: ToolInfo, *, trusted: bool = True) -> ToolInfo:
        """The tool with the annotations that hold.

        Those of the server count where they are `trusted`, here and by the configuration.
        """
        given: JSON = tool.annotations or {}
        held = given
        if not (trusted and self._trusted):
            held = {name: value for name, value in given.items() if name not in _CAUTIOUS}
        for broad, narrow, hints in self._rules:
            if any(fits(name) for name in self._names(tool.name) for fits in narrow):
                held = held | hints
            elif broad.against(tool.name):
                held = held | {name: value for name, value in hints.items() if value is _CAUTIOUS[name]}
        return tool if held == given else replace(tool, annotations=held or None)


class Rules:
    """The compiled rules of one level for one server. `overrides` are of the same level, `below` of the
    one under it.
    """

    def __init__(
        self,
        server: str,
        tools: ToolRules,
        resources: AccessRules,
        prompts: AccessRules,
        aliases: tuple[str, ...] = (),
        *,
        overrides: ToolOverrides = NO_OVERRIDES,
        below: ToolOverrides = NO_OVERRIDES,
    ) -> None:
        self.overrides = overrides
        self._below = below
        self.tools = NameRules("tools", server, tools, aliases, self.names)
        self.resources = URIRules(server, resources, aliases)
        self.prompts = NameRules("prompts", server, prompts, aliases)
        self.restrict = self.tools.restrict or self.resources.restrict or self.prompts.restrict
        """Whether there may be something that they do not admit."""

    def names(self, tool: str) -> tuple[str, ...]:
        """All names of a tool, by the one that its server has for it."""
        below = self._below.names(tool)
        return tuple(dict.fromkeys(name for each in below for name in self.overrides.names(each)))

    def filtered(self, known: Catalogue) -> Catalogue:
        """Filter a catalogue; the same object, and the same lists, where all is admitted."""
        if not self.restrict:
            return known
        tools, resources, prompts = self.tools.against, self.resources, self.prompts.against
        every = known.every_tool()

        def own(name: str) -> str:
            return every[name].own.name

        lists = {
            "tools": self._with_pages(_chosen(known.tools, lambda name: not tools(own(name)))),
            "app_tools": self._with_pages(_chosen(known.app_tools, lambda name: not tools(own(name)))),
            "resources": _chosen(known.resources, lambda uri: not resources.against(uri, listed=True)),
            "templates": _kept(
                known.templates, lambda each: not resources.against_template(each.uri_template)
            ),
            "prompts": _kept(known.prompts, lambda each: not prompts(each.name)),
            "skills": self._with_files(_kept(known.skills, lambda each: not resources.against(each.uri))),
            "left_out": _kept(known.left_out, self._may_name),
        }
        changed = {name: one for name, one in lists.items() if one is not getattr(known, name)}
        return replace(known, **changed) if changed else known

    def _with_pages(self, tools: dict[str, ToolInfo]) -> dict[str, ToolInfo]:
        """Tools that name no page which is not admitted: without it, a tool of an app is an ordinary one."""
        if not self.resources.restrict:
            return tools
        against = self.resources.against
        shown = {
            name: replace(tool, meta=with_pages(tool.meta, lambda uri: None if against(uri) else uri))
            for name, tool in tools.items()
            if any(map(against, pages_of(tool.meta)))
        }
        return {**tools, **shown} if shown else tools

    def _with_files(self, skills: tuple[SkillInfo, ...]) -> tuple[SkillInfo, ...]:
        """Skills whose manifests have no file that is not admitted; the same tuple if they had none."""
        against = self.resources.against
        if not any(map(against, (uri for skill in skills for uri in skill.files))):
            return skills
        entries = ({"resources": skill.resources} for skill in skills)
        kept = (with_files(entry, lambda uri: None if against(uri) else uri) for entry in entries)
        return tuple(
            replace(skill, resources=entry["resources"]) for skill, entry in zip(skills, kept, strict=True)
        )

    def _may_name(self, left_out: LeftOut) -> bool:
        """Return True if a remark on what is left out is on nothing that they do not admit.

        Of a name that was cut nobody knows what it would fit.
        """
        name, resources = left_out.name, self.resources
        rules: dict[str, tuple[bool, Callable[[str], str | None]]] = {
            "tool": (self.tools.restrict, self.tools.against),
            "prompt": (self.prompts.restrict, self.prompts.against),
            "resource": (resources.restrict, resources.against),
            "resource template": (resources.restrict, resources.against_template),
            "skill": (resources.restrict, resources.against),
        }
        restrict, against = rules.get(left_out.kind, (False, str))
        return name is None or not restrict or not (name.endswith(CUT) or against(name))


_NO_LISTS: Final = (ToolRules(), AccessRules(), AccessRules())
NO_RULES: Final = Rules("", *_NO_LISTS)
DENY_ALL: Final = Rules("", ToolRules(allow=()), AccessRules(allow=()), AccessRules(allow=()))


def _chosen(entries: dict[str, T], admits: Callable[[str], bool]) -> dict[str, T]:
    """Filter entries; the same dictionary if all are admitted."""
    chosen = {name: entry for name, entry in entries.items() if admits(name)}
    return chosen if len(chosen) < len(entries) else entries


def _kept(entries: tuple[T, ...], admits: Callable[[T], bool]) -> tuple[T, ...]:
    """Filter entries; the same tuple if all are admitted."""
    kept = tuple(entry for entry in entries if admits(entry))
    return kept if len(kept) < len(entries) else entries
