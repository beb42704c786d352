"""What the suite starts as the client under test: MCPX, and a client of MCPX that asks it for things.

Run as `python -m tests.live.conformance.driver exec URL` with the suite's environment. The server at the URL
is the one upstream of an `mcpx serve`; every tool of it is called, with `exec` or (`transparent` in its
place) at a transparent endpoint, every resource read and every prompt got, unless the suite's context names
the calls. An elicitation is accepted with its defaults.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import anyio
import mcp_types as types
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.live.gateways import Gateway, open_gateway, write_config

JSON = dict[str, Any]

SERVER: Final = "suite"
ECHO: Final = "json_schema_echo"
READY_S: Final = 20.0
SAMPLES: Final = {"string": "text", "integer": 2, "number": 3, "boolean": True, "array": [], "object": {}}


async def elicit(_: Any, params: Any) -> types.ElicitResult:
    """Accept with the defaults of the schema; what has none is filled."""
    properties: JSON = getattr(params, "requested_schema", {}).get("properties", {})
    content = {name: schema.get("default", SAMPLES[schema["type"]]) for name, schema in properties.items()}
    return types.ElicitResult(action="accept", content=content)


async def sample(_: Any, __: Any) -> types.CreateMessageResult:
    """Answer as a model."""
    text = types.TextContent(type="text", text="sampled")
    return types.CreateMessageResult(role="assistant", content=text, model="none")


async def roots(_: Any) -> types.ListRootsResult:
    """Name one root."""
    return types.ListRootsResult(roots=[types.Root.model_validate({"uri": "file:///tmp", "name": "tmp"})])


async def main(endpoint: str, url: str) -> None:
    modern = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION") == "2026-07-28"
    context: JSON = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with tempfile.TemporaryDirectory(prefix="conformance-client-") as folder:
        config = write_config(Path(folder), {SERVER: {"type": "http", "url": url}}, startup_wait=READY_S)
        asked = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}
        flags = ("--server", SERVER) if endpoint == "transparent" else ()
        stdio = "stdio-auto" if modern else "stdio-legacy"
        async with open_gateway(stdio, config, *flags, **asked) as gateway:
            await use(gateway, context, transparent=bool(flags))


async def use(gateway: Gateway, context: JSON, *, transparent: bool) -> None:
    """Ask MCPX for all that the server has."""
    client = gateway.client
    tools = await (_listed(client) if transparent else _inspected(gateway))
    calls = context.get("toolCalls") or [
        {"name": name, "arguments": _arguments(name, tools)} for name in tools
    ]
    for call in calls:
        if transparent:
            await client.call_tool(call["name"], call["arguments"])
        else:
            await gateway.exec(SERVER, call["name"], call["arguments"])
    try:
        for resource in (await client.list_resources()).resources:
            await client.read_resource(resource.uri)
        for prompt in (await client.list_prompts()).prompts:
            await client.get_prompt(prompt.name, {each.name: "text" for each in prompt.arguments or []})
    except MCPError as error:  # the server has none
        print(error, file=sys.stderr)


async def _listed(client: Client) -> dict[str, JSON]:
    """The schemas of the tools by their names, as they are listed."""
    return {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}


async def _inspected(gateway: Gateway) -> dict[str, JSON]:
    """The schemas of the tools by their names, as inspect shows them."""
    await gateway.descriptions()  # waits for the server
    shown = (await gateway.inspect(SERVER)).structured_content or {}
    names = [tool["name"] for tool in shown.get("tools", [])]
    whole = [(await gateway.inspect(SERVER, name)).structured_content or {} for name in names]
    return {name: tool.get("input_schema") or {} for name, tool in zip(names, whole, strict=True)}


def _arguments(name: str, tools: dict[str, JSON]) -> JSON:
    if name == ECHO:  # gets the schema that came of the other tool
        return {"schema": next(schema for other, schema in tools.items() if other != ECHO)}
    schema = tools[name]
    properties: JSON = schema.get("properties", {})
    wanted = schema.get("required", properties)
    return {each: SAMPLES.get(properties[each].get("type"), "text") for each in wanted if each in properties}


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
