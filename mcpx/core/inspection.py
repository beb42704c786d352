"""What inspect answers: a server's tools, or one tool whole, for the model and for programs.

Pure over the registry's snapshots, and what is known of the schemas. The model gets TOON with each input
schema as a TypeScript type; programs get the same data as plain JSON with the original JSON Schemas. In a
listing descriptions are cut at `max_description_len` characters; a single tool is shown whole. Text of
servers is shown clean (`mcpx.text`); names and schemas must stay what a program needs, so only their
descriptions are cleaned.

A server with very many tools, or very long ones, is shown as fully as `MODEL_TOKENS` and `PROGRAM_BYTES`
allow (`mcpx.rendering.inspection_fit`), and the answer says how to see the rest. What is not shown is not
rendered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from mcpx.catalog.model import JSON, ServerInfo, ToolInfo, present
from mcpx.config import Config
from mcpx.core.calls import Inspect
from mcpx.core.registry import Registry
from mcpx.core.results import ResultRenderer
from mcpx.rendering.inspection_fit import MAX_TEXT_CHARS, clean_plain, fitting_for_model, fitting_for_programs
from mcpx.rendering.results import ToolResult
from mcpx.rendering.suggest import unknown_tool
from mcpx.rendering.tokens import estimate
from mcpx.rendering.typescript import MAX_CONVERTED_CHARS, SchemaConverter, outweighs, too_large
from mcpx.text import paragraphs, shown_name, visible
from mcpx.validation.checker import ArgumentChecker

MAX_UNCHECKED_NAMED: Final = 20  # tools whose schemas cannot be used, in the listing of their server
_MAX_LISTED: Final = 16_384  # characters of one schema among others; a tool alone is shown whole
_MAX_LISTED_JSON: Final = 32_768  # characters of the JSON Schema that it is made from


class Inspector:
    """Answers inspect. What was rendered of a tool is kept with it, for as long as it is listed."""

    def __init__(self, registry: Registry, checker: ArgumentChecker, results: ResultRenderer) -> None:
        self._registry = registry
        self._checker = checker
        self._results = results

    @property
    def _settings(self) -> Config:
        """In force; what was rendered by others is rendered again."""
        return self._results.settings

    def look(self, request: Inspect, done: Callable[[], None]) -> None:
        """Find out, for `inspect`, whether a tool's schema can be used; call `done` then, or now."""
        tool_name = request.tool_names[0] if len(request.tool_names) == 1 else None
        tool = self._registry.get_tool(request.server_name, tool_name) if tool_name is not None else None
        if tool is None:
            done()
        else:
            self._checker.look(tool, done)

    def inspect(self, request: Inspect) -> ToolResult:
        """The answer.

        Raises:
            CallError: `unknown_server` or `unknown_tool`, with the nearest names.
        """
        info = self._registry.upstream(request.server_name).info()
        if not request.tool_names:
            return self._server(info)
        tool_name = request.tool_names[0]
        tool = info.tools.get(tool_name)
        if tool is None:
            raise unknown_tool(info, tool_name, self._registry.list_servers())
        return self._one(info, tool)

    def _one(self, info: ServerInfo, tool: ToolInfo) -> ToolResult:
        state = {} if info.ready else {"state": info.describe_state(), **info.next_attempt()}
        unchecked = present(unchecked=self._checker.unchecked(tool))
        plain = {"server": info.name, **state, **clean_plain(tool), **unchecked}
        shown = {**plain, "name": visible(tool.name), "input_schema": self._schema(tool.input_schema)}
        if tool.output_schema is not None:
            shown["output_schema"] = self._schema(tool.output_schema)
        return self._shaped(shown, plain)

    def _server(self, info: ServerInfo) -> ToolResult:
        about = _about(info)
        kept = info.catalogue.__dict__ if info.catalogue else {}
        if "inspected" not in kept or kept["inspected"][0] is not self._settings:
            tools = list(info.tools.values())
            parts = fitting_for_model(tools, self._listed), fitting_for_programs(tools)
            kept["inspected"] = (self._settings, *parts)
        _, shown, plain = kept["inspected"]
        known = {tool.name: why for tool in info.tools.values() if (why := self._checker.unchecked(tool))}
        return self._shaped(
            {**about, **shown, **_named(list(known))}, {**about, **plain, **_marked(plain, known)}
        )

    def _listed(self, tool: ToolInfo) -> tuple[JSON, int]:
        """A tool as it is shown in a listing, and the tokens that it takes at least."""
        kept = tool.__dict__.get("listed")
        if kept is None or kept[0] is not self._settings:
            schema, cost = self._listed_schema(tool.input_schema)
            name, description = visible(tool.name), self._cut(tool.description or "")
            entry = {"name": name, "description": description, "input_schema": schema}
            cost += estimate(name) + estimate(description)
            kept = tool.__dict__["listed"] = (self._settings, entry, cost)
        _, entry, cost = kept
        return entry, cost

    def _listed_schema(self, schema: JSON) -> tuple[str | JSON, int]:
        """A schema as it is shown in a listing, and its tokens. Of a long one only the size is shown."""
        if outweighs(schema, _MAX_LISTED_JSON):
            text = too_large(schema)
            return text, estimate(text)
        shown = self._schema(schema)
        text = shown if isinstance(shown, str) else msgspec.json.encode(shown).decode()
        if len(text) > _MAX_LISTED:
            return too_large(schema), _MAX_LISTED // 4
        return shown, estimate(text)

    def _schema(self, schema: JSON) -> str | JSON:
        if not self._settings.schema_compression_enabled:
            return too_large(schema) if outweighs(schema, MAX_CONVERTED_CHARS) else schema
        text = SchemaConverter.convert(schema, max_description_len=self._settings.max_description_len)
        return too_large(schema) if len(text) > MAX_CONVERTED_CHARS else text

    def _cut(self, text: str) -> str:
        limit = self._settings.max_description_len
        head = paragraphs(text[: limit + 1])
        return head if len(text) <= limit else head[:limit] + "..."

    def _shaped(self, shown: JSON, plain: JSON) -> ToolResult:
        return ToolResult(
            content=[{"type": "text", "text": self._results.text(shown)}], structured_content=plain
        )


def _named(unchecked: list[str]) -> JSON:
    """The tools whose arguments are known to be sent unchecked."""
    if not unchecked:
        return {}
    more = [f"... ({len(unchecked)} in all)"] if len(unchecked) > MAX_UNCHECKED_NAMED else []
    return {"unchecked": ", ".join([*map(shown_name, unchecked[:MAX_UNCHECKED_NAMED]), *more])}


def _marked(plain: JSON, unchecked: dict[str, str]) -> JSON:
    """`tools` for programs, with the reason where the arguments of one are sent unchecked."""
    if not unchecked:
        return {}
    return {"tools": [tool | present(unchecked=unchecked.get(tool["name"])) for tool in plain["tools"]]}


def _about(info: ServerInfo) -> JSON:
    about: JSON = {"server": info.name, "state": info.describe_state(), **info.next_attempt()}
    if info.instructions:
        about["instructions"] = paragraphs(info.instructions[:MAX_TEXT_CHARS])
    if info.left_out:
        about["left_out"] = [
            {name: visible(said) if isinstance(said, str) else said for name, said in each.to_dict().items()}
            for each in info.left_out
        ]
    return about
