"""What the rules of one level, of a server or of a profile, admit of a catalogue. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from msgspec.structs import replace

from mcpx.catalog.model import Catalogue, LeftOut
from mcpx.config.trust import AccessRules, ToolRules
from mcpx.trust.rules import NameRules, URIRules

T = TypeVar("T")


class Rules:
    """The compiled rules of one level for one server."""

    def __init__(self, server: str, tools: ToolRules, resources: AccessRules, prompts: AccessRules) -> None:
        self.tools = NameRules("tools", server, tools)
        self.resources = URIRules(server, resources)
        self.prompts = NameRules("prompts", server, prompts)
        self.restrict = self.tools.restrict or self.resources.restrict or self.prompts.restrict
        """Whether there may be something that they do not admit."""

    def filtered(self, known: Catalogue) -> Catalogue:
        """What they admit of a catalogue; the same object, and the same lists, where that is all."""
        if not self.restrict:
            return known
        tools, resources, prompts = self.tools.against, self.resources, self.prompts.against
        lists = {
            "tools": _chosen(known.tools, lambda name: not tools(name)),
            "resources": _chosen(known.resources, lambda uri: not resources.against(uri, listed=True)),
            "templates": _kept(
                known.templates, lambda each: not resources.against_template(each.uri_template)
            ),
            "prompts": _kept(known.prompts, lambda each: not prompts(each.name)),
            "left_out": _kept(known.left_out, self._may_name),
        }
        changed = {name: one for name, one in lists.items() if one is not getattr(known, name)}
        return replace(known, **changed) if changed else known

    def _may_name(self, left_out: LeftOut) -> bool:
        """Whether a remark on what is left out is on nothing that they do not admit."""
        name = left_out.name
        if name is None:
            return True
        match left_out.kind:
            case "tool":
                return not self.tools.against(name)
            case "prompt":
                return not self.prompts.against(name)
            case "resource":
                return not self.resources.against(name, listed=True)
            case "resource template":
                return not self.resources.against_template(name)
            case _:
                return True


EVERYTHING: Final = Rules("", ToolRules(), AccessRules(), AccessRules())
NOTHING: Final = Rules("", ToolRules(allow=()), AccessRules(allow=()), AccessRules(allow=()))


def _chosen(entries: dict[str, T], admits: Callable[[str], bool]) -> dict[str, T]:
    """Those of the entries that are admitted; the same dictionary if all are."""
    chosen = {name: entry for name, entry in entries.items() if admits(name)}
    return chosen if len(chosen) < len(entries) else entries


def _kept(entries: tuple[T, ...], admits: Callable[[T], bool]) -> tuple[T, ...]:
    """Those of the entries that are admitted; the same tuple if all are."""
    kept = tuple(entry for entry in entries if admits(entry))
    return kept if len(kept) < len(entries) else entries
