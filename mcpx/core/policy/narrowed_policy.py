"""The policy of a server for the clients of one profile, which narrows it and never widens it.

Used where a server is seen through a profile, in place of the server's own. It has nothing of its own but the
rules of the profile, as they are at the moment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import get_args

from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.policy.catalogue_rules import Rules
from mcpx.core.policy.pins import ServerPins
from mcpx.core.policy.policy import Kind, ServerPolicy
from mcpx.errors import CallError


class NarrowedPolicy(ServerPolicy):
    """The policy of a server for the clients of one profile: what both admit; asked is what either asks.

    `rules` gives those of the profile that is in force.
    """

    def __init__(self, base: ServerPolicy, rules: Callable[[], Rules]) -> None:
        self._base = base
        self._narrowing = rules
        self._last: tuple[Catalogue, Rules, Catalogue] | None = None
        self._own_changes = 0

    @property
    def aliases(self) -> tuple[str, ...]:
        """Return those of the server."""
        return self._base.aliases

    @property
    def pins(self) -> ServerPins | None:
        """Return those of the server."""
        return self._base.pins

    @property
    def revision(self) -> int:
        """Grows whenever the answers of the methods may have changed."""
        if self._last is not None and self._last[1] is not self._narrowing():
            self._last = None
            self._own_changes += 1
        return self._base.revision + self._own_changes

    def shown(self, whole: Catalogue | None) -> Catalogue | None:
        """Filter a catalogue; the same object for as long as the result is the same."""
        return self.narrowed(self._base.shown(whole))

    def narrowed(self, known: Catalogue | None) -> Catalogue | None:
        """Apply the profile's rules to a catalogue that the server's policy has filtered."""
        if known is None:
            return None
        rules, last = self._narrowing(), self._last
        if last is None or last[0] is not known or last[1] is not rules:
            if last is not None and last[1] is not rules:
                self._own_changes += 1
            last = self._last = known, rules, rules.filtered(known)
        return last[2]

    def shown_page(self, page: Catalogue) -> Catalogue:
        """Filter a part of a listing, which is not kept."""
        return self._narrowing().filtered(self._base.shown_page(page))

    def restricts(self, kind: Kind) -> bool:
        """Return True if something of that kind may be hidden, or a tool not run at once."""
        rules = self._narrowing()
        own: bool = getattr(rules, kind).restrict or (kind == "tools" and rules.tools.ask)
        return own or self._base.restricts(kind)

    @property
    def alters_lists(self) -> bool:
        """True if lists may differ from the server's own."""
        return self._base.alters_lists or any(map(self.restricts, get_args(Kind)))

    @property
    def reads_tools(self) -> bool:
        """Ask the server's policy."""
        return self._base.reads_tools

    def rule_against_tool(self, name: str) -> str | None:
        """Ask the server's policy, then the profile."""
        return self._base.rule_against_tool(name) or self._narrowing().tools.against(name)

    @property
    def _listed(self) -> Catalogue | None:
        return self._base._listed  # noqa: SLF001 - of its own class

    def rule_against_resource(self, uri: str, *, listed: bool = False) -> str | None:
        """Ask the server's policy, then the profile."""
        against = self._base.rule_against_resource(uri, listed=listed)
        return against or self._narrowing().resources.against(uri, listed=listed)

    def rule_against_template(self, template: str) -> str | None:
        """Ask the server's policy, then the profile."""
        against = self._base.rule_against_template(template)
        return against or self._narrowing().resources.against_template(template)

    def rule_against_prompt(self, name: str) -> str | None:
        """Ask the server's policy, then the profile."""
        return self._base.rule_against_prompt(name) or self._narrowing().prompts.against(name)

    @property
    def restricts_resources(self) -> bool:
        """True if there may be a resource that is not admitted."""
        return self._base.restricts_resources or self._narrowing().resources.restrict

    @property
    def refused(self) -> Collection[str]:
        """Return those of the server."""
        return self._base.refused

    def refusal(self, tool: str) -> CallError | None:
        """Ask the server's policy."""
        refusal = self._base.refusal(tool)
        return refusal if refusal is not None and self.admits_tool(tool) else None

    def asks(self, tool: ToolInfo) -> str | None:
        """Ask the server's policy, then the profile."""
        return self._base.asks(tool) or self._narrowing().tools.asked(tool.name)
