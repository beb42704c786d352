"""Native tools over HTTP: the choice in the URL, both eras, and the headers of modern calls."""

from __future__ import annotations

import json

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.mcpx.core.gateway.frontends.http.test_frontend import bearer, http
from tests.mcpx.scripted import entry
from tests.mcpx.serving import ENVELOPE, MODERN, write_config

pytestmark = pytest.mark.anyio
THREE = ["inspect", "exec", "resources"]
REGION = {"type": "string", "x-mcp-header": "Region"}


async def post(url, headers, method, params, **more):
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": ENVELOPE}}
    whole = {
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": MODERN,
        "Mcp-Method": method,
        **({"Mcp-Name": params["name"]} if "name" in params else {}),
    }
    async with httpx2.AsyncClient(timeout=50) as client:
        answer = await client.post(url, json=body, headers=whole | headers | more)
    return answer.status_code, answer.json()


async def test_each_url_has_its_own_list_and_headers_are_held_against_the_tools_schema(tmp_path):
    tools = tmp_path / "tools"
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "region": REGION}}
    tools.write_text(json.dumps([{"name": "echo", "inputSchema": schema, "com.acme/x": 1}]))
    config = write_config(tmp_path, {"s": entry(tools=str(tools))}, startup_wait=20)
    async with http(tmp_path, config) as (_, url):
        keys = bearer(tmp_path)
        for choice, names in (
            ("", THREE),
            ("?expose=all", ["s__echo"]),
            ("?expose=both", [*THREE, "s__echo"]),
        ):
            for mode in ("legacy", "auto"):
                async with (
                    httpx2.AsyncClient(headers=keys, timeout=50) as plain,
                    Client(streamable_http_client(url + choice, http_client=plain), mode=mode) as client,
                ):
                    listed = (await client.list_tools()).tools
                    assert [tool.name for tool in listed] == names
                    if "s__echo" in names:
                        said = await client.call_tool("s__echo", {"text": "hi", "region": "eu"})
                        assert said.content[0].text == "hi"
        every = url + "?expose=all"
        status, listed = await post(every, keys, "tools/list", {})
        assert (status, listed["result"]["tools"][0]["com.acme/x"]) == (200, 1)
        call = {"name": "s__echo", "arguments": {"text": "hi", "region": "eu"}}
        status, answer = await post(every, keys, "tools/call", call, **{"Mcp-Param-Region": "eu"})
        assert (status, answer["result"]["content"][0]["text"]) == (200, "hi")
        status, answer = await post(every, keys, "tools/call", call, **{"Mcp-Param-Region": "us"})
        assert status == 400
        assert "region" in answer["error"]["message"].lower()
        status, answer = await post(every, keys, "tools/call", {"name": "s__ecko", "arguments": {}})
        assert answer["error"]["code"] == -32602
        assert "s__echo" in answer["error"]["message"]
