"""Calls for programs, and the result of one: public API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from mcpx.core.catalog.model import JSON
from mcpx.core.rendering.results import ToolResult

if TYPE_CHECKING:
    from mcpx.core.calls.calls import ToolCalls


class ExecutionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one call, as the upstream gave it and as the model gets it."""

    server_name: str
    tool_name: str
    raw: JSON
    """The upstream's result, unaltered: `{content, structuredContent?, isError?}`.

    Of one that is too large to be read, the essentials (`mcpx.core.rendering.large_results`)."""
    shaped: ToolResult

    @property
    def is_error(self) -> bool:
        """Whether the tool itself reported a failure."""
        return self.shaped.is_error

    @property
    def as_it_came(self) -> ToolResult:
        """The result with the texts that the server gave."""
        return replace(self.shaped, content=self.raw.get("content") or self.shaped.content)

    @property
    def raw_data(self) -> Any:
        """The data for programs: the structured content as plain JSON, or else the text."""
        if self.shaped.structured_content is not None:
            return self.shaped.structured_content
        return _text(self.raw.get("content", []))

    @property
    def compressed_data(self) -> str:
        """The text for the model: TOON where that is smaller."""
        return _text(self.shaped.content)


class Executor:
    """Runs tools for programs: a face of `ToolCalls`."""

    def __init__(self, calls: ToolCalls) -> None:
        self._calls = calls

    async def execute(self, server_name: str, tool_name: str, arguments: Any = None) -> ExecutionResult:
        """Run one tool and wait for its result.

        `arguments` is an object, a JSON string that holds one, or None for no arguments.

        Raises:
            CallError: With code and outcome. A failure that the tool itself reports is a result.
        """
        return await self._calls.exec(server_name, tool_name, arguments)


def _text(content: list[JSON]) -> str:
    return "\n".join(block["text"] for block in content if block.get("type") == "text")
