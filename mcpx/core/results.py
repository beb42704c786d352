"""How results are shown, by the settings in force: the one place that holds these settings.

Every path to a model or a program renders with the hub's one `ResultRenderer`, so a reload replaces its
`settings` once, and all of them follow. What an upstream's result becomes is in `mcpx.rendering.results`;
its bytes for a stream are made by `mcpx.gateway.tools.encoding`.
"""

from __future__ import annotations

import msgspec

from mcpx.catalog.model import JSON
from mcpx.config import Config
from mcpx.rendering.large_results import is_large
from mcpx.rendering.results import (
    ToolResult,
    read_resource_result,
    read_result,
    read_tool_result,
    shape_resource,
    shape_tool_result,
)
from mcpx.rendering.toon import TextForm, encode


class ResultRenderer:
    """Renders results by `settings`, the configuration in force. Assign another one to follow a reload."""

    def __init__(self, settings: Config) -> None:
        self.settings = settings

    def tool(self, raw: msgspec.Raw, *, server: str, large: bool | None = None) -> tuple[JSON, ToolResult]:
        """The result of a `tools/call`: decoded, and rendered.

        `large` says whether it is passed on without being read (`mcpx.rendering.large_results`), if known.

        Raises:
            CallError: `protocol_error`: it is not MCP.
            InputRequired: The server asks for input instead.
        """
        settings = self.settings
        if large is None:
            large = is_large(raw, settings.toon_compression_max_size)
        result = read_tool_result(raw, server=server) if large else read_result(raw, server=server)
        shaped = shape_tool_result(
            result,
            form=self.form(),
            is_large=large,
            server=server,
        )
        return result, shaped

    def resource(self, raw: msgspec.Raw, *, uri: str, server: str) -> ToolResult:
        """The result of a `resources/read` of `uri`.

        Raises:
            CallError: As from `tool`.
            InputRequired: As from `tool`.
        """
        large = is_large(raw, self.settings.toon_compression_max_size)
        return shape_resource(
            read_resource_result(raw, server=server),
            uri=uri,
            form=None if large else self.form(),
            server=server,
        )

    def text(self, value: JSON) -> str:
        """A JSON object as text for a model."""
        if self.settings.toon_compression_enabled:
            return encode(value)
        return msgspec.json.encode(value).decode()

    def form(self) -> TextForm | None:
        """How text that is JSON is shown; None for as it came."""
        settings = self.settings
        if not settings.toon_compression_enabled:
            return None
        return TextForm(settings.toon_compression_min_saving, settings.toon_compression_min_size)
