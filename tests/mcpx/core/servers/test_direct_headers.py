"""The headers of a client's own messages."""

from __future__ import annotations

import json

import pytest

from mcpx.core.servers.passthrough.carriers import Headers, ToolSchemas
from tests.mcpx.serving import ENVELOPE


@pytest.mark.parametrize(
    ("method", "member"),
    [
        ("tools/call", "name"),
        ("resources/read", "uri"),
        *((f"tasks/{of}", "taskId") for of in ("get", "update", "cancel")),
    ],
)
def test_what_a_request_is_about_is_named(method, member):
    headers = Headers(ToolSchemas(lambda: None))
    params = {member: "é", "_meta": ENVELOPE}
    assert headers.of(method, json.dumps(params).encode())["mcp-name"] == "=?base64?w6k=?="
    assert "mcp-name" not in headers.of("tools/list", json.dumps(params).encode())
