"""Overrides: tools in another form than their servers give them, as the configuration says, and back again.

`Overrides` is applied by the rules of one level, of a server or of a profile, where a catalogue becomes what
clients are offered. So all that lists, searches, checks or runs a tool has the form that clients are shown,
with a `ToolChange` that says how it differs. The pins come before: they hold the server's own definition. A
call is the server's own again when it is written to the server (`mcpx.core.policy.changed_calls`). Pure.

An override that cannot be applied takes its tool away, and the catalogue says why: to show it unchanged could
show, or allow, what a person has taken out of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from mcpx.core.catalog.model import JSON, Catalogue, LeftOut, ToolChange, ToolInfo, as_list
from mcpx.core.config.server_config import Filled, Override
from mcpx.core.rendering.typescript.keywords import type_of
from mcpx.core.rendering.typescript.refs import References, Unresolvable
from mcpx.core.text import quoted
from mcpx.core.text.nearest import nearest

NOT_APPLIED: Final = "its override in the configuration cannot be applied"
_IN_PLACE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
"""Keywords whose schemas are about the same object."""
_OF_OTHERS: Final = ("dependentRequired", "dependentSchemas", "dependencies")
_MAX_DEPTH: Final = 32
_MAX_REFS: Final = 16  # from a schema to the one that it stands for


class OverrideProblem(ValueError):
    """An override cannot be applied."""


class ToolOverrides:
    """The overrides of one level for one server."""

    def __init__(self, given: Mapping[str, Override]) -> None:
        self._given = given
        self._renamed = {each.name: own for own, each in given.items() if each.name not in (None, own)}
        self._made: dict[str, tuple[ToolInfo, ToolInfo]] = {}

    def __bool__(self) -> bool:
        return bool(self._given)

    def name_before(self, name: str) -> str:
        """The name at the level below of a tool that clients know by that name."""
        return self._renamed.get(name, name)

    def names(self, name: str) -> tuple[str, ...]:
        """The names of a tool at the level below, which is given, and here."""
        given = self._given.get(name)
        return (name,) if given is None or given.name is None else (name, given.name)

    def applied(self, known: Catalogue, listed: Iterable[str]) -> Catalogue:
        """The catalogue with its tools as they are shown; the same object if none of them changes.

        `listed` are the names of the tools that there are, shown or not.
        """
        if not self._given:
            return known
        every, changes = known.every_tool(), self._for(known)
        taken = Counter(
            name
            for tool in every.values()
            for name in {tool.name, tool.own.name, self._name_of(tool, changes)}
        )
        left_out = list(self._unknown({*every, *taken, *listed}, known.left_out))
        made: dict[str, ToolInfo | None] = {}
        for name, given in changes.items():
            try:
                made[name] = self._overridden(every[name], given, taken)
            except OverrideProblem as problem:
                made[name] = None
                left_out.append(LeftOut(kind="tool", name=name, reason=f"{NOT_APPLIED}: {problem}"))
        if not (made or left_out):
            return known

        def shown(tools: dict[str, ToolInfo]) -> dict[str, ToolInfo]:
            changed = (made.get(name, tool) for name, tool in tools.items())
            return {tool.name: tool for tool in changed if tool is not None}

        tools, app_tools = shown(known.tools), shown(known.app_tools)
        return replace(known, tools=tools, app_tools=app_tools, left_out=(*known.left_out, *left_out))

    @staticmethod
    def _name_of(tool: ToolInfo, changes: Mapping[str, Override]) -> str:
        """The name that a tool is to have."""
        given = changes.get(tool.name)
        return tool.name if given is None or given.name is None else given.name

    def _for(self, known: Catalogue) -> dict[str, Override]:
        """The overrides of tools that there are, by the names that these have at the level below."""
        found = {}
        own = {tool.own.name: name for name, tool in known.every_tool().items()}
        for name, given in self._given.items():
            if (now := name if known.tool(name) is not None else own.get(name)) is not None:
                found[now] = given
        return found

    def _unknown(self, names: set[str], left_out: Iterable[LeftOut]) -> Iterator[LeftOut]:
        """The tools that are named and that there are not."""
        names |= {each.name for each in left_out if each.name is not None}
        for name in self._given:
            if name not in names:
                near = nearest(name, names, most=1)
                hint = f"; did you mean {quoted(near[0])}?" if near else ""
                reason = f"{NOT_APPLIED}: the server has no such tool{hint}"
                yield LeftOut(kind="tool", name=name, reason=reason)

    def _overridden(self, tool: ToolInfo, given: Override, taken: Mapping[str, int]) -> ToolInfo:
        """The tool as it is shown; the same object for as long as that is the same.

        Raises:
            OverrideProblem: It cannot be, or there is another one by its name.
        """
        if given.name not in (None, tool.name) and taken[given.name] > 1:
            raise OverrideProblem(f"there is another tool with the name {quoted(given.name)}")
        kept = self._made.get(tool.name)
        if kept is None or kept[0] is not tool:
            kept = self._made[tool.name] = tool, overridden(tool, given)
        return kept[1]


NO_OVERRIDES: Final = ToolOverrides({})


def not_applied(known: Catalogue | None) -> list[str]:
    """Say of each override that could not be applied to a catalogue which tool it is for, and why."""
    left_out = () if known is None else known.left_out
    return [f"{each.name}: {each.reason}" for each in left_out if each.reason.startswith(NOT_APPLIED)]


def overridden(tool: ToolInfo, given: Override) -> ToolInfo:
    """A tool in the form that an override gives it, which may be on top of that of another one.

    Raises:
        OverrideProblem: It does not fit the tool.
    """
    before = tool.change or ToolChange(own=tool, name=tool.name, by=())
    schema = _Schema(tool.input_schema)
    for name, value in given.defaults.items():
        schema.check(name, value)
        schema.give_default(name, value)
    for name, value in given.fixed.items():
        schema.check(name, value)
    for name in (*given.fixed, *given.hidden):
        schema.hide(name, is_given=name in given.fixed)
    name = tool.name if given.name is None else given.name
    change = ToolChange(
        own=before.own,
        name=name,
        by=(*before.by, given),
        defaults={key: each for key, each in before.defaults.items() if key not in schema.hidden}
        | given.defaults,
        fixed=before.fixed | given.fixed,
        hidden=before.hidden | schema.hidden,
    )
    description = tool.description if given.description is None else given.description
    return replace(tool, name=name, description=description, input_schema=schema.shown, change=change)


class _Schema:
    """The schema of a tool's arguments, being changed."""

    def __init__(self, own: JSON) -> None:
        self.shown = dict(own)
        self.hidden: frozenset[str] = frozenset()
        self._references = References(own)
        properties = own.get("properties")
        self._properties: JSON = dict(properties) if isinstance(properties, dict) else {}

    def check(self, name: str, value: Any) -> None:
        """Check that there is such an argument, and that a value may be one for it.

        Raises:
            OverrideProblem: It is not.
        """
        self._must_have(name)
        for each in filled_in(value):
            if each.problem:
                raise OverrideProblem(each.problem)
        wanted = _kinds(self._properties[name], self._references)
        kind = "string" if isinstance(value, Filled) else type_of(value)
        if wanted is not None and kind not in wanted:
            names = " or ".join(sorted(wanted - ({"integer"} if "number" in wanted else set())))
            raise OverrideProblem(f"{quoted(name)} is of type {names}, and is given a value of type {kind}")
        options = self._options(name)
        if options is not None and not isinstance(value, Filled) and value not in options:
            raise OverrideProblem(f"the value for {quoted(name)} is none of those that it takes")

    def _must_have(self, name: str) -> None:
        if name not in self._properties:
            near = nearest(name, self._properties, most=1)
            hint = f"; did you mean {quoted(near[0])}?" if near else ""
            raise OverrideProblem(f"it has no argument {quoted(name)}{hint}")

    def _options(self, name: str) -> list[Any] | None:
        schema = self._properties[name]
        options = schema.get("enum") if isinstance(schema, dict) else None
        return options if isinstance(options, list) else None

    def give_default(self, name: str, value: Any) -> None:
        """Show a default for an argument, which then may be left out."""
        schema = self._properties[name]
        self._put(
            self._properties | {name: (schema if isinstance(schema, dict) else {}) | {"default": value}}
        )
        self._require_no_more(name)

    def hide(self, name: str, *, is_given: bool) -> None:
        """Show an argument no more; `is_given` if each call gets a value for it.

        Raises:
            OverrideProblem: The server wants a value and gets none, or the schema says more about the
                argument than can be taken out of it.
        """
        self._must_have(name)
        if not is_given and name in as_list(self.shown.get("required")):
            raise OverrideProblem(f"{quoted(name)} is required, and hidden without a fixed value")
        for keyword in _OF_OTHERS:
            if name in str(self.shown.get(keyword, "")):
                raise OverrideProblem(f"{quoted(name)} cannot be hidden: {keyword} of the schema names it")
        self._put({key: each for key, each in self._properties.items() if key != name})
        self._require_no_more(name)
        for keyword in _IN_PLACE:
            if keyword in self.shown:
                self.shown[keyword] = _without(self.shown[keyword], name, is_given=is_given)
        self.hidden |= {name}

    def _put(self, properties: JSON) -> None:
        self._properties = self.shown["properties"] = properties

    def _require_no_more(self, name: str) -> None:
        required = self.shown.get("required")
        if isinstance(required, list) and name in required:
            self.shown["required"] = [each for each in required if each != name]
            if not self.shown["required"]:
                del self.shown["required"]


def _without(schema: Any, name: str, *, is_given: bool, depth: int = 0) -> Any:
    """A schema about the same object, which does not require an argument that is always there.

    Raises:
        OverrideProblem: It says something else about it.
    """
    if isinstance(schema, list):
        return [_without(each, name, is_given=is_given, depth=depth) for each in schema]
    if not isinstance(schema, dict):
        return schema
    required, properties = schema.get("required"), schema.get("properties")
    says_more = depth > _MAX_DEPTH or (isinstance(properties, dict) and name in properties)
    if says_more or (name in as_list(required) and not is_given):
        raise OverrideProblem(f"{quoted(name)} cannot be hidden: another part of the schema depends on it")
    shown = dict(schema)
    if isinstance(required, list) and name in required:
        shown["required"] = [each for each in required if each != name]
    for keyword in _IN_PLACE:
        if keyword in shown:
            shown[keyword] = _without(shown[keyword], name, is_given=is_given, depth=depth + 1)
    return shown


def _kinds(schema: Any, references: References, depth: int = 0) -> set[str] | None:
    """The types that a schema takes, in its own words; None where it takes any, or that is hard to tell."""
    if depth > _MAX_REFS or not isinstance(schema, dict):
        return None
    if "$ref" in schema:
        try:
            return _kinds(references.find(references.path(schema["$ref"])), references, depth + 1)
        except Unresolvable:
            return None
    if "type" in schema:
        named = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return {str(each) for each in named} | ({"integer"} if "number" in named else set())
    found: set[str] = set()
    for branch in (*as_list(schema.get("anyOf")), *as_list(schema.get("oneOf"))):
        if (kinds := _kinds(branch, references, depth + 1)) is None:
            return None
        found |= kinds
    return found or None


def filled_in(value: Any) -> Iterator[Filled]:
    """Yield the strings with references in a fixed value."""
    if isinstance(value, Filled):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from filled_in(each)
