"""The policy of one server: which of what it offers there is for clients, in which form, and what may run.

Owned by the `Server` and shared by its sessions, the direct ones included. Everything that shows, searches,
finds or runs something of a server sees its catalogue through `shown`, so what is not admitted does not exist
anywhere else, and tools for apps alone only for those who look for them. What a client names and no listing
holds (the URI of a template, a prompt before the first listing, anything at a transparent endpoint) is held
against `admits_...`. `configure` puts other settings in force, from one turn of the event loop to the next.

A profile narrows a policy and never widens it: `NarrowedPolicy` stands for the server's own where the server
is seen through one, and has nothing of its own but the rules of the profile, as they are at the moment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, Literal, get_args

from msgspec.structs import replace

from mcpx.core.catalog.model import Catalogue, ToolInfo, is_read_only
from mcpx.core.config import ServerConfig
from mcpx.core.config.server_config import Overrides
from mcpx.core.policy.catalogue_rules import AnnotationRules, Rules
from mcpx.core.policy.overrides import NO_OVERRIDES, ToolOverrides
from mcpx.core.policy.pin_changes import Change
from mcpx.core.policy.pins import ServerPins
from mcpx.errors import CallError

MAX_KEPT: Final = 2  # catalogues: the session of a server in the other era lists for itself
MAX_UNLISTED: Final = 64  # tools that are kept though they are not listed
_SETTINGS: Final = (
    "tools",
    "resources",
    "prompts",
    "annotations",
    "trust_annotations",
    "approve",
    "aliases",
    "overrides",
)
HELD: Final = "quarantine"
"""The rule by which there is nothing of a server that a person has not approved, or whose pins are lost."""
CHANGED: Final = "pin: block"
"""The rule by which no file is read of a skill that has changed, or is new, and waits for approval."""
WRITES: Final = "approve: writes"
"""The rule by which a person is asked before any tool that is not read-only."""

Kind = Literal["tools", "resources", "prompts"]


class ServerPolicy:
    """The policy of one server. Cheap to ask: `shown` gives the same object until something changes."""

    def __init__(self, config: ServerConfig) -> None:
        self._aliases: tuple[str, ...] = ()
        self._changes = 0
        self._said: tuple[object, ...] = ()
        self._pins: ServerPins | None = None
        self._whole: Catalogue | None = None
        self._shown: Catalogue | None = None
        self._kept: dict[int, tuple[Catalogue, Catalogue]] = {}
        self._tools: dict[str, tuple[ToolInfo, ToolInfo | None]] = {}
        self.refused: set[str] = set()
        """The names of tools for which there is a `refusal`, of the catalogues that were `shown`."""
        self._pins_seen = -1
        self.configure(config)

    def configure(self, config: ServerConfig) -> None:
        """Put these settings in force."""
        self._config = config
        if self._pins is not None:
            self._pins.configure(config)
        said = tuple(getattr(config, name) for name in _SETTINGS)
        if said == self._said:
            return
        self._said = said
        self._aliases = aliases = config.aliases
        overrides = ToolOverrides(config.overrides) if config.overrides else NO_OVERRIDES
        self._rules = Rules(
            config.name, config.tools, config.resources, config.prompts, aliases, overrides=overrides
        )
        self._annotations = AnnotationRules(
            config.name,
            config.annotations,
            trusted=config.trust_annotations,
            aliases=aliases,
            names=self._rules.names,
        )
        self._asks_for_writes = config.approve == "writes"
        self._asks = self._asks_for_writes or self._rules.tools.ask
        self._changes += 1
        self._forget()

    def renew(self, overrides: Overrides) -> None:
        """Put overrides in force whose fixed arguments have new values."""
        self.configure(replace(self._config, overrides=overrides))

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names under which clients find the server."""
        return self._aliases

    @property
    def pins(self) -> ServerPins | None:
        """The pins of the tools; None where nothing is kept."""
        return self._pins

    def pin(self, pins: ServerPins | None) -> None:
        """Have the catalogue seen through these pins."""
        self._pins = pins
        self._changes += 1
        self._forget()

    @property
    def revision(self) -> int:
        """Grows whenever the answers of the methods may have changed."""
        return self._changes if self._pins is None else self._changes + self._pins.revision

    # --- what there is

    def shown(self, whole: Catalogue | None) -> Catalogue | None:
        """Filter a catalogue; the same object for as long as the result is the same."""
        pins = self._pins
        if whole is self._whole and (pins is None or pins.revision == self._pins_seen):
            return self._shown
        if whole is None:
            return None
        if pins is not None and pins.revision != self._pins_seen:
            self._forget()
            self._pins_seen = pins.revision
        known = self._kept.get(id(whole))
        if known is None:
            while len(self._kept) >= MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            made = self._rules.overrides.applied(self._make(whole), whole.tools)
            known = self._kept[id(whole)] = whole, _parted(made)
            self._forget_all_but(whole.tools)
        self._whole, self._shown = known
        return self._shown

    def _forget(self) -> None:
        self._whole = self._shown = None
        self._kept.clear()
        self._tools.clear()
        self.refused.clear()

    def _forget_all_but(self, listed: Collection[str]) -> None:
        """Forget the tools that are not listed any more, where there are many of them."""
        if len(self._tools) > 2 * len(listed) + MAX_UNLISTED:
            self._tools = {name: known for name, known in self._tools.items() if name in listed}
            self.refused.intersection_update(listed)

    def _make(self, whole: Catalogue) -> Catalogue:
        shown = whole
        if self._pins is not None:
            self._pins.recall(whole)
        if self._pins is not None or self._annotations.change:
            tools = {name: self._form(tool) for name, tool in whole.tools.items()}
            if any(form is not whole.tools[name] for name, form in tools.items()):
                shown = replace(whole, tools={name: form for name, form in tools.items() if form is not None})
        if self._pins is not None:
            shown = self._pins.shown(shown)
        return self._rules.filtered(shown)

    def _form(self, tool: ToolInfo) -> ToolInfo | None:
        """The form in which a tool is listed; the same object for as long as that is the same."""
        known = self._tools.get(tool.name)
        if known is not None and known[0] is tool:
            return known[1]
        pins, form = self._pins, tool
        if pins is not None:
            if pins.refusal(tool.name) is not None:
                self.refused.add(tool.name)
            listed = pins.form(tool)
            if listed is None:
                self._tools[tool.name] = tool, None
                return None
            form = listed
        made = self._annotations.apply(form, trusted=pins is None or not pins.widened(form))
        self._tools[tool.name] = tool, made
        return made

    def narrowed(self, known: Catalogue | None) -> Catalogue | None:
        """Apply the profile's rules, of which there are none here, to a catalogue that was `shown`."""
        return known

    def shown_page(self, page: Catalogue) -> Catalogue:
        """Filter a part of a listing, which is not kept."""
        return self._make(page)

    def restricts(self, kind: Kind) -> bool:
        """Return True if something of that kind may be hidden, or a tool not run at once."""
        if self._pins is not None and self._pins.guards:
            return True
        if kind != "tools":
            return bool(getattr(self._rules, kind).restrict)
        rules = self._rules.tools
        return rules.restrict or rules.ask or self._asks_for_writes

    @property
    def alters_lists(self) -> bool:
        """True if lists may differ from the server's own."""
        return self._annotations.change or any(map(self.restricts, get_args(Kind)))

    @property
    def reads_tools(self) -> bool:
        """True if the form of a tool may matter: it is pinned, or shown with other annotations."""
        return (self._pins is not None and self._pins.is_active) or self._annotations.change

    # --- one of them

    def own_name(self, tool: str) -> str:
        """The server's own name of a tool that clients know by that name, by which all else asks here."""
        return self._rules.overrides.name_before(tool)

    def names(self, own: str) -> tuple[str, ...]:
        """All names of a tool, by its server's own."""
        return self._rules.names(own)

    def rule_against_tool(self, name: str) -> str | None:
        """Find the rule by which there is no tool of that name; None where the server may have one."""
        return self._rules.tools.against(name)

    def rule_against_resource(self, uri: str, *, listed: bool = False) -> str | None:
        """Find the rule against a resource, as against a tool; `listed`: the server lists just this URI."""
        rule = self._against(lambda rules: rules.resources.against(uri, listed=listed))
        if rule is None and self.pins is not None and self.pins.holds_file(uri):
            return CHANGED
        return rule

    def rule_against_template(self, template: str) -> str | None:
        """Find the rule against a resource template, as against a tool."""
        return self._against(lambda rules: rules.resources.against_template(template))

    def rule_against_reference(self, uri: str, *, listed: bool = False) -> str | None:
        """Find the rule against what a completion is for: a template, or a resource without variables."""
        if "{" in uri:
            return self.rule_against_template(uri)
        return self.rule_against_resource(uri, listed=listed)

    def rule_against_prompt(self, name: str) -> str | None:
        """Find the rule against a prompt, as against a tool."""
        return self._against(lambda rules: rules.prompts.against(name))

    def _against(self, rule: Callable[[Rules], str | None]) -> str | None:
        return HELD if self._is_held else self._by_rules(rule)

    def _by_rules(self, rule: Callable[[Rules], str | None]) -> str | None:
        return rule(self._rules)

    def admits_pinned(self, name: str) -> bool:
        """Return True if no rule is against the tool, or the skill, whose pin has that name."""
        if self.pins is None or not self.pins.is_skill(name):
            return self.admits_tool(name)
        return self._by_rules(lambda rules: rules.resources.against(name, listed=True)) is None

    @property
    def _is_held(self) -> bool:
        return self._pins is not None and self._pins.holds_all

    @property
    def restricts_resources(self) -> bool:
        """True if there may be a resource that is not admitted."""
        return self._is_held or self._rules.resources.restrict

    def admits_tool(self, name: str) -> bool:
        """Return True if there is a tool of that name, provided that the server has it."""
        return self.rule_against_tool(name) is None

    def denied_tools(self) -> Iterator[str]:
        """The names of the tools that the server has listed, and that are not admitted."""
        whole = self._listed
        return iter(()) if whole is None else (name for name in whole.tools if not self.admits_tool(name))

    @property
    def _listed(self) -> Catalogue | None:
        return self._whole

    def admits_resource(self, uri: str, *, listed: bool = False) -> bool:
        """Return True if no rule is against that resource; `listed`: the server lists just this URI."""
        return self.rule_against_resource(uri, listed=listed) is None

    def admits_template(self, template: str) -> bool:
        """Return True if no rule is against that resource template."""
        return self.rule_against_template(template) is None

    # --- whether it may run

    def refusal(self, tool: str) -> CallError | None:
        """Return the error for a tool that has changed or is new, and waits for approval."""
        refusal = None if self._pins is None else self._pins.refusal(tool)
        return refusal if refusal is not None and self.admits_tool(tool) else None

    def changes(self) -> list[Change]:
        """List what waits for approval, of the tools that are admitted."""
        known = [] if self.pins is None else self.pins.changes()
        return [each for each in known if each.tool is None or self.admits_pinned(each.tool)]

    def asks(self, tool: ToolInfo) -> str | None:
        """The rule by which a person is asked before the tool, in the form shown, runs; None: nobody is."""
        if not self._asks:
            return None
        if (rule := self._rules.tools.asked(tool.own.name)) is not None:
            return rule
        return WRITES if self._asks_for_writes and not is_read_only(tool) else None

    def must_agree(self, tool: ToolInfo) -> str | None:
        """The rule by which a person is asked before the tool runs; None also if they agreed for always."""
        rule = self.asks(tool)
        return None if rule is None or (self.pins is not None and self.pins.always(tool.own.name)) else rule


def _parted(known: Catalogue) -> Catalogue:
    """The catalogue with the tools for apps alone beside the others; the same object where it has none."""
    if all(tool.is_for_model for tool in known.tools.values()):
        return known
    for_app = {name: tool for name, tool in known.tools.items() if not tool.is_for_model}
    others = {name: tool for name, tool in known.tools.items() if name not in for_app}
    return replace(known, tools=others, app_tools=for_app)


class NarrowedPolicy(ServerPolicy):
    """The policy of a server for the clients of one profile: what both admit; asked is what either asks.

    `rules` gives those of the profile that is in force.
    """

    def __init__(self, base: ServerPolicy, rules: Callable[[], Rules]) -> None:
        self._base = base
        self.refused = base.refused
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
            listed = {**known.every_tool(), **(self._listed.tools if self._listed else {})}
            shown = rules.overrides.applied(rules.filtered(known), listed)
            last = self._last = known, rules, shown
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

    def own_name(self, tool: str) -> str:
        """Ask the profile, then the server's policy."""
        return self._base.own_name(self._narrowing().overrides.name_before(tool))

    def names(self, own: str) -> tuple[str, ...]:
        """Ask the profile, which knows those of the server, too."""
        return tuple(dict.fromkeys((*self._base.names(own), *self._narrowing().names(own))))

    def rule_against_tool(self, name: str) -> str | None:
        """Ask the server's policy, then the profile."""
        return self._base.rule_against_tool(name) or self._narrowing().tools.against(name)

    @property
    def _listed(self) -> Catalogue | None:
        return self._base._listed  # noqa: SLF001 - of its own class

    def _against(self, rule: Callable[[Rules], str | None]) -> str | None:
        return self._base._against(rule) or rule(self._narrowing())  # noqa: SLF001 - of its own class

    def _by_rules(self, rule: Callable[[Rules], str | None]) -> str | None:
        return self._base._by_rules(rule) or rule(self._narrowing())  # noqa: SLF001 - likewise

    @property
    def restricts_resources(self) -> bool:
        """True if there may be a resource that is not admitted."""
        return self._base.restricts_resources or self._narrowing().resources.restrict

    def refusal(self, tool: str) -> CallError | None:
        """Ask the server's policy."""
        refusal = self._base.refusal(tool)
        return refusal if refusal is not None and self.admits_tool(tool) else None

    def asks(self, tool: ToolInfo) -> str | None:
        """Ask the server's policy, then the profile."""
        own = tool.own
        return self._base.asks(own) or self._narrowing().tools.asked(own.name)
