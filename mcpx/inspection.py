"""What inspect answers: a server's tools, or one tool whole, for the model and for programs.

Pure over the registry's snapshots, and what is known of the schemas. The model gets TOON with each input
schema as a TypeScript type; programs get the same data as plain JSON with the original JSON Schemas. In a
listing descriptions are cut at `max_description_len` characters; a single tool is shown whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from mcpx.catalog.model import JSON, ServerInfo, ToolInfo, present
from mcpx.catalog.suggest import unknown_tool
from mcpx.compression import encode
from mcpx.content import Shaped
from mcpx.registry import Registry
from mcpx.schema_ts import SchemaConverter
from mcpx.validation.checker import ArgumentChecker

UNCHECKED_NAMED: Final = 20  # tools whose schemas cannot be used, in the listing of their server


class Inspector:
    """Answers inspect. Converted schemas are kept for as long as their tool is listed unchanged."""

    def __init__(
        self,
        registry: Registry,
        checker: ArgumentChecker | None = None,
        *,
        schema_compression: bool = True,
        toon: bool = True,
        max_description_len: int = 300,
    ) -> None:
        self._registry = registry
        self._checker = checker or ArgumentChecker()
        self.configure(
            schema_compression=schema_compression, toon=toon, max_description_len=max_description_len
        )

    def configure(self, *, schema_compression: bool, toon: bool, max_description_len: int) -> None:
        """Answer by these settings from now on."""
        self._schema_compression = schema_compression
        self._toon = toon
        self._max_description_len = max_description_len
        self._converted: dict[tuple[str, str], tuple[ToolInfo, str]] = {}

    def look(self, server_name: str, tool_name: str | None, done: Callable[[], None]) -> None:
        """Find out what is to be known of one tool's schema for `inspect`; call `done` then, or now."""
        tool = self._registry.get_tool(server_name, tool_name) if tool_name is not None else None
        if tool is None:
            done()
        else:
            self._checker.look(tool, done)

    def inspect(self, server_name: str, tool_name: str | None = None) -> Shaped:
        """The answer. Raises CallError `unknown_server` or `unknown_tool`, with the nearest names."""
        info = self._registry.upstream(server_name).info()
        if tool_name is None:
            return self._shaped(self._server(info), self._plain_server(info))
        tool = info.tools.get(tool_name)
        if tool is None:
            raise unknown_tool(info, tool_name, self._registry.list_servers())
        state = {} if info.ready else {"state": info.describe_state(), **info.next_attempt()}
        unchecked = present(unchecked=self._checker.unchecked(tool))
        plain = {"server": info.name, **state, **tool.to_dict(), **unchecked}
        shown = {**plain, "input_schema": self._schema(tool)}
        if tool.output_schema is not None and self._schema_compression:
            shown["output_schema"] = SchemaConverter.convert(
                tool.output_schema, max_description_len=self._max_description_len
            )
        return self._shaped(shown, plain)

    def _server(self, info: ServerInfo) -> JSON:
        about = _about(info)
        about["tools"] = [
            {
                "name": tool.name,
                "description": self._cut(tool.description or ""),
                "input_schema": self._schema(tool),
            }
            for tool in info.tools.values()
        ]
        if unchecked := [tool.name for tool in info.tools.values() if self._checker.unchecked(tool)]:
            more = [f"... ({len(unchecked)} in all)"] if len(unchecked) > UNCHECKED_NAMED else []
            about["unchecked"] = ", ".join([*unchecked[:UNCHECKED_NAMED], *more])
        return about

    def _plain_server(self, info: ServerInfo) -> JSON:
        return {**_about(info), "tools": [self._plain_tool(tool) for tool in info.tools.values()]}

    def _plain_tool(self, tool: ToolInfo) -> JSON:
        """`unchecked` says why arguments are not checked before they are sent, as far as is known."""
        return tool.to_dict() | present(unchecked=self._checker.unchecked(tool))

    def _schema(self, tool: ToolInfo) -> str | JSON:
        if not self._schema_compression:
            return tool.input_schema
        key = (tool.server_name, tool.name)
        known = self._converted.get(key)
        if known is None or known[0] is not tool:
            text = SchemaConverter.convert(tool.input_schema, max_description_len=self._max_description_len)
            known = self._converted[key] = (tool, text)
        return known[1]

    def _cut(self, text: str) -> str:
        limit = self._max_description_len
        return text if len(text) <= limit else text[:limit] + "..."

    def _shaped(self, shown: JSON, plain: JSON) -> Shaped:
        text = encode(shown) if self._toon else msgspec.json.encode(shown).decode()
        return Shaped(content=[{"type": "text", "text": text}], structured_content=plain)


def _about(info: ServerInfo) -> JSON:
    about: JSON = {"server": info.name, "state": info.describe_state(), **info.next_attempt()}
    if info.instructions:
        about["instructions"] = info.instructions
    return about
