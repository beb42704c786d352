"""The HTTP headers that the protocol wants with a client's message, made from the message itself. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp_types import PROTOCOL_VERSION_META_KEY

from mcpx.core.catalog.model import JSON, Catalogue
from mcpx.core.protocol.context import TASK_METHODS
from mcpx.core.servers.passthrough.messages import NOTHING, elements_of, members_of, value_of

_MARK: Final = b"x-mcp-header"
MAX_LEARNT: Final = 10_000


class ToolSchemas:
    """The schemas of one server's tools: those of its `catalogue`, or else of a client's own listing."""

    def __init__(self, catalogue: Callable[[], Catalogue | None]) -> None:
        self._catalogue = catalogue
        self._learnt: dict[str, msgspec.Raw] = {}

    def learn(self, listing: msgspec.Raw) -> None:
        """Remember the schemas in a result of tools/list that want parameters in headers."""
        if _MARK not in bytes(listing):
            return
        for tool in elements_of(members_of(listing).get("tools", NOTHING)):
            members = members_of(tool)
            name, schema = value_of(members.get("name")), members.get("inputSchema", NOTHING)
            if isinstance(name, str) and (len(self._learnt) < MAX_LEARNT or name in self._learnt):
                self._learnt[name] = msgspec.Raw(bytes(schema))

    def of(self, tool: str) -> JSON | None:
        """The schema of a tool's arguments; None where it is not known."""
        catalogue = self._catalogue()
        found = catalogue.tools.get(tool) if catalogue is not None else None
        learnt = value_of(self._learnt.get(tool)) if found is None else found.input_schema
        return learnt if isinstance(learnt, dict) else None


class Headers:
    """The headers of one session's messages."""

    def __init__(self, schemas: ToolSchemas) -> None:
        self.version: str | None = None
        """The revision that `initialize` has settled on (before 2026-07-28)."""
        self._schemas = schemas

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
        schema = self._schemas.of(tool)
        if schema is None or not isinstance(arguments, Mapping):
            return {}
        try:
            if find_invalid_x_mcp_header(schema) is not None:
                return {}
            return mcp_param_headers(x_mcp_header_map(schema), arguments)
        except Exception:  # noqa: BLE001 - the SDK's reading of a schema that may be anything
            return {}
