"""How results are shown, by the settings in force: the one place that holds these settings.

Every path to a model or a program renders with the hub's one `ResultRenderer`, so a reload replaces its
`settings` once, and all of them follow. What an upstream's result becomes is in
`mcpx.core.rendering.results`; its bytes for clients are made by `mcpx.core.gateway.tools.encoding`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.config import Config
from mcpx.core.rendering.large_results import is_large
from mcpx.core.rendering.result_reading import read_resource_result, read_tool_result
from mcpx.core.rendering.results import ToolResult, shape_resource, shape_tool_result
from mcpx.core.rendering.toon import TextForm, encode

_NEVER_TOON: Final = 1.0


class ResultRenderer:
    """Renders results by `settings`, the configuration in force. Assign another one to follow a reload."""

    def __init__(self, settings: Config) -> None:
        self.settings = settings

    def tool(
        self,
        raw: msgspec.Raw,
        *,
        server: str,
        large: bool | None = None,
        toon: bool = True,
        whole: bool = False,
    ) -> tuple[JSON, ToolResult]:
        """The result of a `tools/call`: as far as it was read, and rendered.

        `large` says whether it is passed on without being read (`mcpx.core.rendering.large_results`), if
        known. Without `toon` JSON text is compact at most. With `whole` all of it is read, for programs.

        Raises:
            CallError: `protocol_error`: it is not MCP.
            InputRequired: The server asks for input instead.
        """
        if large is None:
            large = is_large(raw, self.settings.toon_compression_max_size)
        result = read_tool_result(raw, server=server, large=large, whole=whole)
        return result, self.shape(result, server=server, large=large, toon=toon)

    def shape(self, result: JSON, *, server: str, large: bool = False, toon: bool = True) -> ToolResult:
        """The result of a `tools/call`, as far as it was read, rendered.

        Raises:
            CallError: `protocol_error`: it is not MCP.
        """
        return shape_tool_result(result, form=self.form(toon=toon), is_large=large, server=server)

    def resource(
        self, raw: msgspec.Raw, *, uri: str, server: str, as_it_came: bool = False, whole: bool = False
    ) -> ToolResult:
        """The result of a `resources/read` of `uri`; JSON texts in their form, or as they came.

        With `whole` all of it is read, for programs.

        Raises:
            CallError: As from `tool`.
            InputRequired: As from `tool`.
        """
        large = is_large(raw, self.settings.toon_compression_max_size)
        return shape_resource(
            read_resource_result(raw, server=server, whole=whole),
            uri=uri,
            form=None if large or as_it_came else self.form(),
            server=server,
        )

    def text(self, value: JSON) -> str:
        """A JSON object as text for a model."""
        if self.settings.toon_compression_enabled:
            return encode(value)
        return msgspec.json.encode(value).decode()

    def form(self, *, toon: bool = True) -> TextForm | None:
        """How text that is JSON is shown; None for as it came. Without `toon` it is compact JSON at most."""
        settings = self.settings
        if not settings.toon_compression_enabled:
            return None
        saving = settings.toon_compression_min_saving if toon else _NEVER_TOON
        return TextForm(saving, settings.toon_compression_min_size)
