"""The catalogue: what one upstream server offers, as frozen structs, and how two of one server differ.

Owns the shapes `ToolInfo`, `ResourceInfo`, `TemplateInfo`, `PromptInfo` and the `Catalogue` that holds them;
the server's state beside them is in `mcpx.core.catalog.snapshot`. An upstream actor builds a new `Catalogue`
after each listing and replaces the old one whole; everybody else only reads. No I/O here, and nothing of the
SDK.

Field names are Python's (`input_schema`, `mime_type`); `Entry.members` maps them to the protocol's, for
the modules that read and write lists. Values that belong to the protocol (`annotations`, `icons`, `meta`) are
plain JSON with the protocol's own keys, as the upstream sent them; members that have no field are in `more`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import msgspec

from mcpx.core.catalog.extensions import APP, MODEL, SKILLS, audience, files_of, pages_of, settings_of

JSON = dict[str, Any]
_NO_MEMBERS: Final = frozenset({"server_name", "more", "order", "change"})  # fields of an entry


def present(**fields: Any) -> JSON:
    """The fields that are not None; empty values are kept."""
    return {name: value for name, value in fields.items() if value is not None}


def _protocol_name(field: str) -> str:
    """The protocol's name of a field: `mime_type` is `mimeType`, `meta` is `_meta`."""
    if field == "meta":
        return "_meta"
    first, *others = field.split("_")
    return first + "".join(map(str.capitalize, others))


class Entry(msgspec.Struct, frozen=True, kw_only=True, eq=False, rename=_protocol_name):
    """An entry of a server's lists. The other fields of its kinds are members of the protocol's entry."""

    server_name: str
    more: JSON | None = None
    """The members that the protocol does not have, or MCPX does not know."""
    order: tuple[str, ...] = ()
    """The names of the members in the server's order. It does not count when entries are compared."""

    @classmethod
    def members(cls) -> Iterator[tuple[str, str]]:
        """Each field with the protocol's name for it."""
        pairs = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
        return (pair for pair in pairs if pair[0] not in _NO_MEMBERS)

    def to_protocol(self) -> JSON:
        """The entry as the server gave it: its members and no others, in its order."""
        given = present(**{member: getattr(self, field) for field, member in self.members()})
        given |= self.more or {}
        return {name: given[name] for name in self.order if name in given} | given

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entry) or type(other) is not type(self):
            return NotImplemented
        return self.server_name == other.server_name and self.to_protocol() == other.to_protocol()

    def __ne__(self, other: object) -> bool:
        return not self == other  # that of structs would compare identities

    __hash__ = None  # type: ignore[assignment]  # it holds JSON


class ToolInfo(Entry, frozen=True, kw_only=True, dict=True):
    """One tool of one upstream server."""

    name: str
    input_schema: JSON
    description: str | None = None
    title: str | None = None
    output_schema: JSON | None = None
    annotations: JSON | None = None
    icons: list[JSON] | None = None
    execution: JSON | None = None
    meta: JSON | None = None
    change: ToolChange | None = None
    """How a person has changed it; None for a tool as its server has it."""

    @property
    def own(self) -> ToolInfo:
        """The tool as its server has it."""
        return self if self.change is None else self.change.own

    @property
    def display_title(self) -> str | None:
        """The name for people: the title, or the one that older revisions have among the annotations."""
        return self.title or (self.annotations or {}).get("title")

    @property
    def is_for_model(self) -> bool:
        """True if a model may call it, as any but those that are for an app alone."""
        return self.meta is None or MODEL in audience(self.meta)

    @property
    def is_for_app(self) -> bool:
        """True if the page of an app may call it."""
        return APP in audience(self.meta)

    def to_dict(self) -> JSON:
        """Plain JSON with all that the server gave: the original JSON Schemas, and members of its own."""
        known = present(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            annotations=self.annotations,
            icons=self.icons,
            execution=self.execution,
            _meta=self.meta,
        )
        return known | _others(self, known)


class ToolChange(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The difference between a tool as clients are shown it and as its server has it.

    `defaults` are for arguments that a call leaves out, `fixed` are added to each call (strings with
    references in them as the configuration has read them), and no client gives those in `hidden`. `by` are
    the parts of the configuration that it comes from: with equal ones calls mean the same.
    """

    own: ToolInfo
    name: str
    """The name that clients know it by."""
    by: tuple[object, ...]
    defaults: JSON = {}
    fixed: JSON = {}
    hidden: frozenset[str] = frozenset()


def is_read_only(tool: ToolInfo) -> bool:
    """Return True if a tool, in the form that clients are shown, changes nothing."""
    hints = tool.annotations or {}
    return hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True


class ResourceInfo(Entry, frozen=True, kw_only=True):
    """One resource of one upstream server. `size` is in bytes, before any encoding."""

    uri: str
    name: str
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    title: str | None = None
    annotations: JSON | None = None
    icons: list[JSON] | None = None
    meta: JSON | None = None

    def to_dict(self) -> JSON:
        """`{uri, name, description, mime_type, size}`, and what else the server gave."""
        core = {
            "uri": self.uri,
            "name": self.name,
            "description": self.description,
            "mime_type": self.mime_type,
            "size": self.size,
        }
        extra = present(title=self.title, annotations=self.annotations, icons=self.icons, _meta=self.meta)
        known = core | extra
        return known | _others(self, known)


class TemplateInfo(Entry, frozen=True, kw_only=True):
    """One resource template (RFC 6570) of one upstream server."""

    uri_template: str
    name: str
    description: str | None = None
    mime_type: str | None = None
    title: str | None = None
    annotations: JSON | None = None
    icons: list[JSON] | None = None
    meta: JSON | None = None


class PromptInfo(Entry, frozen=True, kw_only=True):
    """One prompt of one upstream server; `arguments` as the protocol has them."""

    name: str
    description: str | None = None
    title: str | None = None
    arguments: list[JSON] | None = None
    icons: list[JSON] | None = None
    meta: JSON | None = None


class SkillInfo(Entry, frozen=True, kw_only=True, dict=True):
    """One skill of one upstream server, by the URI of its `SKILL.md`; `frontmatter` is what begins that.

    `resources` is the manifest of its files, or `dynamic`.
    """

    uri: str
    frontmatter: JSON
    resources: list[JSON] | str
    meta: JSON | None = None

    @property
    def name(self) -> str:
        """The name in the frontmatter, which is no identifier."""
        return str(self.frontmatter.get("name") or self.uri)

    @property
    def title(self) -> None:
        """None: it has a name alone."""
        return None

    @property
    def description(self) -> str | None:
        """When to use it, by the frontmatter."""
        said = self.frontmatter.get("description")
        return said if isinstance(said, str) else None

    @property
    def files(self) -> list[str]:
        """The URIs of its files, `SKILL.md` among them, as far as they are listed."""
        return [self.uri, *(uri for uri in files_of({"resources": self.resources}) if uri != self.uri)]


def _others(entry: Entry, known: JSON) -> JSON:
    """The members of the server's own, less what would stand in the place of a known one."""
    return {name: value for name, value in (entry.more or {}).items() if name not in known}


def as_list(value: Any) -> list[Any]:
    """A value of JSON that is to be an array; an empty list for any other."""
    return value if isinstance(value, list) else []


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a server offers and that is left out of its catalogue, or cut in it.

    `kind` is `tool`, `resource`, `resource template`, `prompt`, `skill` or `instructions`; for a whole list
    the method that lists it. `name` is cleaned and cut, None for a whole list; `count` is the number of such
    entries.
    """

    kind: str
    reason: str
    name: str | None = None
    count: int = 1

    def to_dict(self) -> JSON:
        """`{kind, name?, count?, reason}`; the count only above one."""
        count = self.count if self.count > 1 else None
        return present(kind=self.kind, name=self.name, count=count, reason=self.reason)


class AboutServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server's description of itself in the handshake, and its offers that cannot be used."""

    implementation: str | None = None
    """The name that the server gives itself; `server_title` is that, where it has no title."""
    server_title: str | None = None
    server_version: str | None = None
    instructions: str | None = None
    protocol_version: str | None = None
    capabilities: JSON = {}
    left_out: tuple[LeftOut, ...] = ()
    """What cannot be used, and why; a bounded number."""


class Catalogue(AboutServer, frozen=True, kw_only=True, dict=True):
    """All that one server offered at its last listing. Keys are tool names and resource URIs.

    `generation` is the incarnation that listed it (1 for the first); 0 for one that was kept by an earlier
    process, and `listed_at` is then when it was last known to be right (seconds since the epoch).
    """

    generation: int
    tools: dict[str, ToolInfo] = {}
    app_tools: dict[str, ToolInfo] = {}
    """In a catalogue as clients see it, the tools that are for apps alone: they are not among `tools`."""
    resources: dict[str, ResourceInfo] = {}
    templates: tuple[TemplateInfo, ...] = ()
    prompts: tuple[PromptInfo, ...] = ()
    skills: tuple[SkillInfo, ...] = ()
    listed_at: float | None = None

    def tool(self, name: str) -> ToolInfo | None:
        """Return a tool, for whomever it is."""
        return self.tools.get(name) or self.app_tools.get(name)

    def tool_of_server(self, own_name: str) -> ToolInfo | None:
        """Return the tool that its server calls so, by whatever name it is shown."""
        tool = self.tool(own_name)
        if tool is None or tool.own.name != own_name:
            tool = next((each for each in self.every_tool().values() if each.own.name == own_name), None)
        return tool

    def every_tool(self) -> dict[str, ToolInfo]:
        """Return all tools, for whomever they are."""
        return {**self.tools, **self.app_tools} if self.app_tools else self.tools

    @cached_property
    def named_uris(self) -> frozenset[str]:
        """The resources that entries of other lists name: they can be read, listed or not."""
        pages = {uri for tool in self.every_tool().values() for uri in pages_of(tool.meta)}
        return frozenset(pages.union(*(skill.files for skill in self.skills)))

    def lists(self, uri: str) -> bool:
        """Return True if a URI stands in one of the lists."""
        return uri in self.resources or uri in self.named_uris

    @property
    def serves_skills(self) -> bool:
        """True if the server has skills, those too that it does not list."""
        return settings_of(self.capabilities, SKILLS) is not None

    @property
    def has_apps(self) -> bool:
        """True if a tool comes with the page of an app."""
        return any(pages_of(tool.meta) for tool in self.every_tool().values())


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """Which lists differ. Their order does not count; any field of an entry does."""

    tools: bool = False
    resources: bool = False
    """Of skills as well: their files are resources, and their list has no announcement for itself."""
    prompts: bool = False
    about: bool = False
    """What the server says about itself: title, version, instructions."""

    def __bool__(self) -> bool:
        return self.tools or self.resources or self.prompts or self.about

    def __or__(self, other: Diff) -> Diff:
        """Unite two changes."""
        return Diff(
            tools=self.tools or other.tools,
            resources=self.resources or other.resources,
            prompts=self.prompts or other.prompts,
            about=self.about or other.about,
        )


EVERYTHING: Final = Diff(tools=True, resources=True, prompts=True, about=True)


def diff(old: Catalogue | None, new: Catalogue) -> Diff:
    """Return what differs in `new`; without an old catalogue, everything that the server offers."""
    old = old or Catalogue(generation=0)
    return Diff(
        tools=old.tools != new.tools,
        resources=old.resources != new.resources
        or _unordered(old.templates) != _unordered(new.templates)
        or _unordered(old.skills) != _unordered(new.skills),
        prompts=_unordered(old.prompts) != _unordered(new.prompts),
        about=_about(old) != _about(new),
    )


def _unordered(entries: tuple[Entry, ...]) -> list[bytes]:
    """The entries as a value that is independent of their order, and of that of their members."""
    return sorted(msgspec.json.encode(entry.to_protocol(), order="deterministic") for entry in entries)


def _about(catalogue: Catalogue) -> tuple[str | None, ...]:
    return (
        catalogue.implementation,
        catalogue.server_title,
        catalogue.server_version,
        catalogue.instructions,
    )
