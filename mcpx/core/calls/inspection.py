"""The answers of inspect, for the model and for programs; and of resources, where no URI is given.

Pure over the registry's snapshots, and what is known of the schemas: nothing is asked of a server, but those
that are asleep are started where a tool of theirs is shown. The model
gets text within a budget of tokens (`mcpx.core.rendering.inspection`), programs get the same data as plain
JSON with the original JSON Schemas. Momentary state is said here, and never in a description.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import replace

from mcpx.core.calls.names import MAX_TOOLS, Found, Servers, find_server, find_tools, list_servers
from mcpx.core.calls.results.shaping import ResultRenderer
from mcpx.core.calls.search_indexing import SearchIndexing
from mcpx.core.catalog.alike import Same, others_like, same_on
from mcpx.core.catalog.model import JSON, ToolInfo, present
from mcpx.core.catalog.search import known_words
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.events.search_history import SearchHistory, Tool
from mcpx.core.policy.pin_review import note_on, said_of
from mcpx.core.protocol.messages import Inspect
from mcpx.core.rendering.descriptions import describe_resources
from mcpx.core.rendering.inspection.forms import ToolForms, fits
from mcpx.core.rendering.inspection.listing import LISTING_TOKENS, clean_plain, plain_listing, tools_listing
from mcpx.core.rendering.inspection.servers import about, servers_listing
from mcpx.core.rendering.results import ToolResult
from mcpx.core.rendering.search_answer import search_answer
from mcpx.core.rendering.search_block import MAX_SAME
from mcpx.core.rendering.tokens import estimate
from mcpx.core.text import one_line, shown_name
from mcpx.core.validation.arguments import ArgumentChecker
from mcpx.core.validation.example import example_arguments
from mcpx.errors import NAME_LEN, CallError
from supervisors import Reply

WHOLE_TOKENS: Final = 8_000  # of tools that are shown whole, one or several
MAX_PROBLEM_LEN: Final = 400  # characters of what is wrong with the configuration
_MAX_FAILED: Final = 3  # tools that there is no room for, before no more are tried
_MAX_RESOURCES: Final = 1_000  # of one server, for programs

CONFIG_NOTE: Final = (
    "note: the configuration file of MCPX was changed and cannot be used, so what was read before is in"
    " force: {}. Tell the user."
)

CONFIG_ERROR: Final = "config_error"
"""Among the notes: why the configuration file cannot be used."""
NOTE: Final = "note: {}. Tell the user."


class Inspector:
    """Answers inspect. What was rendered of a tool is kept with it, for as long as it is listed.

    `notes` are what each answer ends with: why the configuration file cannot be used, if it cannot
    (`config_error`), and others as they are.
    `forms` are those of another inspector of the same settings. `history` is what was used after searches,
    where that is remembered.
    """

    def __init__(
        self,
        servers: Servers,
        checker: ArgumentChecker,
        results: ResultRenderer,
        *,
        notes: Callable[[], Mapping[str, str]] = dict,
        forms: Callable[[], ToolForms] | None = None,
        history: Callable[[], SearchHistory | None] = lambda: None,
    ) -> None:
        self._servers = servers
        self._checker = checker
        self._results = results
        self._notes = notes
        self.history = history
        self._forms = ToolForms(results.settings)
        self.forms = forms or self._forms_in_force
        self.indexing = SearchIndexing(partial(list_servers, servers))

    def look(self, request: Inspect, done: Callable[[], object]) -> None:
        """Find out, for `inspect`, whether the tools' schemas can be used, and read what is to be searched.

        Calls `done` then, or now.

        Raises:
            CallError: As from `inspect`.
        """
        waiting = [tool for _, tool in find_tools(self._servers, request)[0]]
        if not waiting:
            if request.query:
                self.indexing.when_read(done)
            else:
                done()
            return
        left = len(waiting)

        def looked() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                done()

        for tool in waiting:
            self._checker.look(tool, looked)

    async def answer(self, request: Inspect) -> ToolResult:
        """Answer when the schemas have been looked at, and what is to be searched has been read.

        Raises:
            CallError: As from `inspect`.
        """
        looked: Reply[None] = Reply()
        self.look(request, lambda: looked.resolve(None))
        await looked.wait()
        return self.inspect(request)

    def inspect(self, request: Inspect) -> ToolResult:
        """Answer by what is known now.

        Raises:
            CallError: `unknown_server` or `unknown_tool`, with the nearest names; `invalid_arguments`: a
                tool is named without its server, and not one server alone has it.
        """
        answer, notes = self._answer(request), self._notes()
        if not notes:
            return answer
        said = [(CONFIG_NOTE if key == CONFIG_ERROR else NOTE, text) for key, text in notes.items()]
        shown = [
            {"type": "text", "text": form.format(one_line(text, MAX_PROBLEM_LEN))} for form, text in said
        ]
        plain = {**(answer.structured_content or {}), **notes}
        return replace(answer, content=[*answer.content, *shown], structured_content=plain)

    def _answer(self, request: Inspect) -> ToolResult:
        found, problems = find_tools(self._servers, request)
        self._warm({info.name for info, _ in found})
        if len(found) == 1 and not problems:
            return self._one(*found[0])
        if found:
            return self._several(found, problems, not_shown=len(request.tool_names) - MAX_TOOLS)
        if request.query:
            return self._search(request)
        if request.server_name:
            return self._server(find_server(self._servers, request.server_name).info())
        return self._all()

    def resources(self, server_name: str) -> ToolResult:
        """The resources of one server, or of all ("").

        Raises:
            CallError: `unknown_server`.
        """
        named = [find_server(self._servers, server_name).info()] if server_name else []
        servers = named or list_servers(self._servers)
        text = describe_resources(servers, budget=LISTING_TOKENS)
        if named and named[0].catalogue is None:
            text = f"{named[0].refuse('has not listed its resources yet')}."
        shown = {info.name: _resources(info) for info in servers if info.catalogue}
        return _result(text, {"servers": {name: each for name, each in shown.items() if each or named}})

    # --- the answers

    def _all(self) -> ToolResult:
        """All servers, and which of them have changed."""
        servers = list_servers(self._servers)
        text, plain = servers_listing(servers, room=LISTING_TOKENS)
        for info, shown in zip(servers, plain["servers"], strict=True):
            policy = find_server(self._servers, info.name).policy
            if changes := policy.changes():
                shown["changes"] = len(changes)
                text += f"\nnote: {note_on(policy)}"
        return _result(text, plain)

    def _changed(self, server: str, tool: str | None = None) -> tuple[JSON, JSON]:
        """List what waits for approval of the server, or of one tool: for the model, and for programs."""
        return said_of(find_server(self._servers, server).policy, tool)

    def _search(self, request: Inspect) -> ToolResult:
        only = find_server(self._servers, request.server_name).name if request.server_name else None
        servers = list_servers(self._servers)
        text, plain = search_answer(servers, request.query, only=only, likely=self._likely(servers, request))
        self._warm(each["server"] for each in plain["servers"] if _shows_tools(each))
        return _result(text, plain)

    def _likely(self, servers: Sequence[ServerInfo], request: Inspect) -> list[Tool]:
        """The tools that this person used after such searches; this one is noted as well."""
        history = self.history()
        if history is None or request.origin is None:
            return []
        said = known_words(servers, request.query)
        likely = history.likely(request.origin, said)
        history.searched(request.origin, said)
        return likely

    def _warm(self, servers: Iterable[str]) -> None:
        """Start the servers that are asleep and whose tools are shown: a call is likely to follow."""
        for name in servers:
            find_server(self._servers, name).warm()

    def _one(self, info: ServerInfo, tool: ToolInfo) -> ToolResult:
        head, unchecked = {"server": info.name, **_state(info)}, self._unchecked(tool)
        changed, changes = self._changed(info.name, tool.own.name)
        plain = clean_plain(tool)
        whole = self.forms().whole(tool, plain, room=WHOLE_TOKENS, render=self._results.text)
        shown = {**head, **whole, **unchecked, **changed, **_configured(tool)}
        changes |= _configured(tool)
        arguments = example_arguments(tool.input_schema)
        if arguments is None:
            return _result(self._results.text(shown), {**head, **plain, **unchecked, **changes})
        call = {"server_name": info.name, "tool_name": tool.name, "arguments": arguments}
        if self._results.settings.toon_compression_enabled:
            text = f"{self._results.text(shown)}\nexample: exec {msgspec.json.encode(call).decode()}"
        else:
            text = self._results.text({**shown, "example": call})
        return _result(text, {**head, **plain, **unchecked, **changes})

    def _several(
        self, found: Sequence[Found], problems: Sequence[CallError], *, not_shown: int
    ) -> ToolResult:
        """Several tools: whole as long as there is room, then as signatures; and what was not found."""
        shown: list[JSON] = []
        plain: list[JSON] = []
        room, forms = WHOLE_TOKENS, self.forms()
        brief: list[str] = []

        def light(tool: ToolInfo) -> bool:
            return len(brief) < _MAX_FAILED and not forms.is_heavy(tool)

        for info, tool in found:
            head, tail = {"server": info.name, **_state(info)}, self._unchecked(tool)
            changed, changes = self._changed(info.name, tool.own.name)
            programs = clean_plain(tool)
            entry = forms.full(tool, programs) if light(tool) else {}
            if not entry or not fits(self._results.text(entry), room):
                entry = forms.signature(tool)
                brief.append(shown_name(tool.name))
            room -= estimate(self._results.text(entry))
            tail |= _configured(tool)
            shown.append({**head, **entry, **tail, **changed})
            plain.append({**head, **programs, **tail, **changes})
        notes: JSON = {}
        if brief:
            notes["shortened"] = f"To see these whole, ask for fewer at once: {', '.join(brief)}"
        if problems:
            notes["not_found"] = [_not_found(error) for error in problems[:MAX_TOOLS]]
        if not_shown > 0:
            notes["not_shown"] = not_shown
        return _result(self._results.text({"tools": shown, **notes}), {"tools": plain, **notes})

    def _server(self, info: ServerInfo) -> ToolResult:
        known = {tool.name: why for tool in info.tools.values() if (why := self._checker.unchecked(tool))}
        changed, changes = self._changed(info.name)
        same = others_like(info, list_servers(self._servers))
        head = {**about(info), **_same(same), **_named(list(known)), **changed}
        room = LISTING_TOKENS - estimate(self._results.text(head))
        forms = self.forms()
        kept = info.catalogue.__dict__ if info.catalogue else {}
        if "inspected" not in kept or kept["inspected"][:2] != (id(forms), room):
            tools = list(info.tools.values())
            listed = tools_listing(tools, forms, room=room, render=self._results.text)
            kept["inspected"] = (id(forms), room, listed, plain_listing(tools))
        _, _, listed, plain = kept["inspected"]
        alike = [{"server": other.name, **each.to_dict()} for other, each in same]
        programs = {**about(info, cut=False), **plain, **_marked(plain, known), **changes}
        programs |= present(same_tools=alike or None)
        return _result(self._results.text({**head, **listed}), programs)

    def _forms_in_force(self) -> ToolForms:
        """The forms by the settings in force; what was rendered by others is rendered again."""
        if self._forms.settings is not self._results.settings:
            self._forms = ToolForms(self._results.settings)
        return self._forms

    def _unchecked(self, tool: ToolInfo) -> JSON:
        return present(unchecked=self._checker.unchecked(tool))


def _result(text: str, plain: JSON) -> ToolResult:
    return ToolResult(content=[{"type": "text", "text": text}], structured_content=plain)


def _state(info: ServerInfo) -> JSON:
    """The state of a server that takes no calls now."""
    return {} if info.available else {"state": info.describe_state(), **info.next_attempt()}


def _shows_tools(found: JSON) -> bool:
    """Return True if a search shows tools of this server by more than their names."""
    return any("signature" in tool for tool in found["tools"])


def _configured(tool: ToolInfo) -> JSON:
    """Say how the configuration has changed a tool; of arguments that no client sees, their number alone."""
    if tool.change is None:
        return {}
    own, change = tool.own, tool.change
    said = {
        f"name ({shown_name(own.name)} at the server)": tool.name != own.name,
        "description": tool.description != own.description,
        f"defaults ({', '.join(map(shown_name, change.defaults))})": bool(change.defaults),
        f"hidden arguments ({len(change.hidden)})": bool(change.hidden),
    }
    return {"changed_by_configuration": [each for each, is_so in said.items() if is_so]}


def _not_found(error: CallError) -> str:
    """`lok (did you mean look?)`."""
    name = shown_name((error.tool or error.server)[:NAME_LEN])
    near = error.details.get("did_you_mean") or error.details.get("servers_with_it")
    return f"{name} (did you mean {shown_name(near[0])}?)" if near else name


def _named(unchecked: list[str]) -> JSON:
    """The tools whose arguments are known to be sent unchecked."""
    if not unchecked:
        return {}
    more = [f"... ({len(unchecked)} in all)"] if len(unchecked) > MAX_TOOLS else []
    return {"unchecked": ", ".join([*map(shown_name, unchecked[:MAX_TOOLS]), *more])}


def _marked(plain: JSON, unchecked: dict[str, str]) -> JSON:
    """`tools` for programs, with the reason where the arguments of one are sent unchecked."""
    if not unchecked:
        return {}
    return {"tools": [tool | present(unchecked=unchecked.get(tool["name"])) for tool in plain["tools"]]}


def _same(same: Sequence[Same]) -> JSON:
    """The servers that have the same tools, with the states of those that take no calls now."""
    return {"same_tools": same_on(same, MAX_SAME)} if same else {}


def _resources(info: ServerInfo) -> JSON:
    """`{resources?, templates?, skills?, not_shown?}` of a server, for programs."""
    templates, skills = (info.catalogue.templates, info.catalogue.skills) if info.catalogue else ((), ())
    listed: JSON = {
        "resources": [each.to_dict() for each in islice(info.resources.values(), _MAX_RESOURCES)],
        "templates": [each.to_protocol() for each in templates[:_MAX_RESOURCES]],
        "skills": [each.to_protocol() for each in skills[:_MAX_RESOURCES]],
    }
    offered = len(info.resources) + len(templates) + len(skills)
    listed["not_shown"] = offered - sum(map(len, listed.values()))
    return {name: entries for name, entries in listed.items() if entries}
