"""The lists of a server: how each is requested, keyed, announced, and kept in a catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from mcpx.core.catalog.model import (
    Catalogue,
    Entry,
    PromptInfo,
    ResourceInfo,
    SkillInfo,
    TemplateInfo,
    ToolInfo,
)

E = TypeVar("E", bound=Entry)
_EMPTY: Final = Catalogue(generation=0)


class ListKind(msgspec.Struct, Generic[E], frozen=True, kw_only=True):
    """One of the lists. `key` is the member of a page that holds its entries, which are `info`."""

    word: str
    method: str
    key: str
    info: type[E]
    key_of: Callable[[E], str]
    field: str
    """The field of a `Catalogue` with its entries, which are kept by their keys or in their order."""
    changed: str
    """The notification that it has changed."""

    def entries_of(self, catalogue: Catalogue) -> list[E]:
        """Return the entries that a catalogue has."""
        kept: Any = getattr(catalogue, self.field)
        return [*(kept.values() if isinstance(kept, dict) else kept)]

    def kept(self, entries: Iterable[E]) -> Any:
        """Return entries as a `Catalogue` keeps them; of two with one key the first counts."""
        by_key: dict[str, E] = {}
        for each in entries:
            by_key.setdefault(self.key_of(each), each)
        return by_key if isinstance(getattr(_EMPTY, self.field), dict) else tuple(by_key.values())

    def catalogue_of(self, entries: Iterable[E]) -> Catalogue:
        """Return a catalogue of these entries alone."""
        return replace(_EMPTY, **{self.field: self.kept(entries)})


TOOLS: Final = ListKind(
    word="tool",
    method="tools/list",
    key="tools",
    info=ToolInfo,
    key_of=lambda tool: tool.name,
    field="tools",
    changed="notifications/tools/list_changed",
)
RESOURCES: Final = ListKind(
    word="resource",
    method="resources/list",
    key="resources",
    info=ResourceInfo,
    key_of=lambda resource: resource.uri,
    field="resources",
    changed="notifications/resources/list_changed",
)
TEMPLATES: Final = ListKind(
    word="resource template",
    method="resources/templates/list",
    key="resourceTemplates",
    info=TemplateInfo,
    key_of=lambda template: template.uri_template,
    field="templates",
    changed=RESOURCES.changed,
)
PROMPTS: Final = ListKind(
    word="prompt",
    method="prompts/list",
    key="prompts",
    info=PromptInfo,
    key_of=lambda prompt: prompt.name,
    field="prompts",
    changed="notifications/prompts/list_changed",
)
SKILLS: Final = ListKind(
    word="skill",
    method="skills/list",
    key="skills",
    info=SkillInfo,
    key_of=lambda skill: skill.uri,
    field="skills",
    changed=RESOURCES.changed,
)
LISTS: Final[dict[str, ListKind[Any]]] = {
    each.method: each for each in (TOOLS, RESOURCES, TEMPLATES, PROMPTS, SKILLS)
}
"""The lists by the methods that request them."""
