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

    def tool(
        self, raw: msgspec.Raw, *, server: str, large: bool | None = None, toon: bool = True
    ) -> tuple[JSON, ToolResult]:
        """The result of a `tools/call`: decoded, and rendered.

        `large` says whether it is passed on without being read (`mcpx.rendering.large_results`), if known.
        Without `toon` its text stays as it came.

        Raises:
            CallError: `protocol_error`: it is not MCP.
            InputRequired: The server asks for input instead.
        """
        if large is None:
            large = is_large(raw, self.settings.toon_compression_max_size)
        result = read_tool_result(raw, server=server) if large else read_result(raw, server=server)
        return result, self.shape(result, server=server, large=large, toon=toon)

    def shape(self, result: JSON, *, server: str, large: bool = False, toon: bool = True) -> ToolResult:
        """The decoded result of a `tools/call`, rendered.

        Raises:
            CallError: `protocol_error`: it is not MCP.
        """
        return shape_tool_result(
            result,
            form=self._form() if toon else None,
            is_large=large,
            server=server,
        )

    def resource(self, raw: msgspec.Raw, *, uri: str, server: str, toon: bool = True) -> ToolResult:
        """The result of a `resources/read` of `uri`. Without `toon` its text stays as it came.

        Raises:
            CallError: As from `tool`.
            InputRequired: As from `tool`.
        """
        large = not toon or is_large(raw, self.settings.toon_compression_max_size)
        result = read_resource_result(raw, server=server)
        return shape_resource(result, uri=uri, form=None if large else self._form(), server=server)

    def form(self, text: str) -> str:
        """A text in the form in which models get it, if it is JSON."""
        form = self._form()
        return form(text) if form else text

    def text(self, value: JSON) -> str:
        """A JSON object as text for a model."""
        if self.settings.toon_compression_enabled:
            return encode(value)
        return msgspec.json.encode(value).decode()

    def _form(self) -> TextForm | None:
        settings = self.settings
        if not settings.toon_compression_enabled:
            return None
        return TextForm(settings.toon_compression_min_saving, settings.toon_compression_min_size)
