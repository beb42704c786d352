"""What the rules of one level, of a server or of a profile, admit of a catalogue. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from msgspec.structs import replace

from mcpx.core.catalog.model import Catalogue, LeftOut
from mcpx.core.config.per_server import AccessRules, ToolRules
from mcpx.core.policy.rules import NameRules, URIRules

CUT: Final = "..."  # the end of a long name in a remark
T = TypeVar("T")


class Rules:
    """The compiled rules of one level for one server."""

    def __init__(
        self,
        server: str,
        tools: ToolRules,
        resources: AccessRules,
        prompts: AccessRules,
        aliases: tuple[str, ...] = (),
    ) -> None:
        self.tools = NameRules("tools", server, tools, aliases)
        self.resources = URIRules(server, resources, aliases)
        self.prompts = NameRules("prompts", server, prompts, aliases)
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
        """Whether a remark on what is left out is on nothing that they do not admit.

        Of a name that was cut nobody knows what it would fit.
        """
        name, resources = left_out.name, self.resources
        rules: dict[str, tuple[bool, Callable[[str], str | None]]] = {
            "tool": (self.tools.restrict, self.tools.against),
            "prompt": (self.prompts.restrict, self.prompts.against),
            "resource": (resources.restrict, resources.against),
            "resource template": (resources.restrict, resources.against_template),
        }
        restrict, against = rules.get(left_out.kind, (False, str))
        return name is None or not restrict or not (name.endswith(CUT) or against(name))


NO_RULES: Final = Rules("", ToolRules(), AccessRules(), AccessRules())
DENY_ALL: Final = Rules("", ToolRules(allow=()), AccessRules(allow=()), AccessRules(allow=()))


def _chosen(entries: dict[str, T], admits: Callable[[str], bool]) -> dict[str, T]:
    """Those of the entries that are admitted; the same dictionary if all are."""
    chosen = {name: entry for name, entry in entries.items() if admits(name)}
    return chosen if len(chosen) < len(entries) else entries


def _kept(entries: tuple[T, ...], admits: Callable[[T], bool]) -> tuple[T, ...]:
    """Those of the entries that are admitted; the same tuple if all are."""
    kept = tuple(entry for entry in entries if admits(entry))
    return kept if len(kept) < len(entries) else entries
