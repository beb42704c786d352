"""The HTTP headers that the protocol wants with a client's message, made from the message itself. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp_types import PROTOCOL_VERSION_META_KEY

from mcpx.catalog.model import JSON
from mcpx.upstream.context import TASK_METHODS
from mcpx.upstream.direct.messages import NOTHING, members_of, value_of


class Headers:
    """The headers of one session's messages. `input_schema` gives a tool's schema, if the tool is known."""

    def __init__(self, input_schema: Callable[[str], JSON | None]) -> None:
        self.version: str | None = None
        """The revision that `initialize` has settled on (before 2026-07-28)."""
        self._input_schema = input_schema

    def of(self, method: str, params: msgspec.Raw | bytes) -> dict[str, str]:
        """The headers of a message."""
        members = members_of(params)
        version = value_of(members_of(members.get("_meta", NOTHING)).get(PROTOCOL_VERSION_META_KEY))
        if not isinstance(version, str):
            is_first = self.version is None or method == "initialize"
            return {} if is_first else {MCP_PROTOCOL_VERSION_HEADER: str(self.version)}
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}
        named_by = "taskId" if method in TASK_METHODS else NAME_BEARING_METHODS.get(method, "")
        name = value_of(members.get(named_by))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
        if method == "tools/call" and isinstance(name, str):
            headers |= self._of_arguments(name, value_of(members.get("arguments")))
        return headers

    def _of_arguments(self, tool: str, arguments: Any) -> dict[str, str]:
        schema = self._input_schema(tool)
        if schema is None or not isinstance(arguments, Mapping):
            return {}
        try:
            return mcp_param_headers(x_mcp_header_map(schema), arguments)
        except Exception:  # noqa: BLE001 - the SDK's reading of a schema that may be anything
            return {}
