"""Puts the tools of an MCP server through the converters of real hosts; run in their virtual environment.

On its standard input is a JSON list, since to import the converters takes long; each item has `names`, the
`command` of a server and `calls`. It starts the server for each of the names, opens a session as a client of
that name ("" for the Python SDK's own, which these hosts keep), lists its tools, and makes the calls of exec
that have those arguments. It prints, as JSON for each item and by name, the `tools` with their schemas, what
each converter makes of each (`converted`), or how it fails (`failed`), and the `answers` to the calls.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import sys
import warnings
from collections.abc import Iterable
from functools import cache
from types import SimpleNamespace
from typing import Any

warnings.simplefilter("ignore")

import botocore.session  # noqa: E402
from agents.mcp import MCPServerStdio  # noqa: E402
from agents.mcp.util import MCPUtil  # noqa: E402
from agents.strict_schema import ensure_strict_json_schema  # noqa: E402
from anthropic import transform_schema  # noqa: E402
from anthropic.lib.tools.mcp import async_mcp_tool  # noqa: E402
from botocore.validate import ParamValidator  # noqa: E402
from google.genai import _mcp_utils as gemini  # noqa: E402
from langchain_core.utils.function_calling import convert_to_openai_tool  # noqa: E402
from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool  # noqa: E402
from mcp import ClientSession, StdioServerParameters  # noqa: E402
from mcp.client.stdio import stdio_client  # noqa: E402
from mcp.types import Implementation, Tool  # noqa: E402
from mistralai.extra.mcp.base import MCPClientBase  # noqa: E402


def _gemini(tool: Tool) -> Any:
    declared = gemini.mcp_to_gemini_tool(tool).function_declarations[0].parameters
    return declared.model_dump(mode="json", exclude_none=True)


def _gemini_json_schema(tool: Tool) -> Any:
    return gemini.agent_platform_to_gemini_tool(tool).function_declarations[0].parameters_json_schema


def _openai_agents(tool: Tool, *, strict: bool) -> Any:
    server = MCPServerStdio(params={"command": "never-started"})
    made = MCPUtil.to_function_tool(tool, server, strict)
    return made.params_json_schema | {"strict": made.strict_json_schema}


def _langchain(tool: Tool, *, strict: bool | None) -> Any:
    made = convert_mcp_tool_to_langchain_tool(None, tool, connection={"transport": "stdio"})
    return convert_to_openai_tool(made, strict=strict)["function"]["parameters"]


def _anthropic(tool: Tool, session: ClientSession) -> Any:
    return async_mcp_tool(tool, session).to_dict()["input_schema"]


@cache
def _taken_by_bedrock() -> Any:
    """The shape of a request, out of a file that takes long to read."""
    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    return service.operation_model("Converse").input_shape


def _bedrock(tool: Tool) -> Any:
    spec = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": {"json": tool.inputSchema},
        "strict": False,
    }
    request = {"modelId": "m", "toolConfig": {"tools": [{"toolSpec": spec}]}}
    found = ParamValidator().validate(request, _taken_by_bedrock())
    if found.has_errors():
        raise ValueError(found.generate_report())
    return tool.inputSchema


class _Mistral(MCPClientBase):
    """Its client for MCP, over tools by the names that mcp 2 gives their members."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        super().__init__()
        named = [
            SimpleNamespace(name=each.name, description=each.description, input_schema=each.inputSchema)
            for each in tools
        ]
        self._session = SimpleNamespace(list_tools=self._listed)
        self._tools = SimpleNamespace(tools=named)

    async def _listed(self) -> Any:
        return self._tools


async def _listed(session: ClientSession) -> list[Tool]:
    """All tools, page by page."""
    page = await session.list_tools()
    tools = list(page.tools)
    while page.nextCursor:
        page = await session.list_tools(page.nextCursor)
        tools += page.tools
    return tools


async def _run(name: str, command: list[str], calls: list[dict[str, Any]]) -> dict[str, Any]:
    server = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    about = Implementation(name=name, version="1.0.0") if name else None
    async with stdio_client(server) as streams, ClientSession(*streams, client_info=about) as session:
        await session.initialize()
        tools = {tool.name: tool for tool in await _listed(session)}
        converters = {
            "google-genai": _gemini,
            "google-genai, JSON schema": _gemini_json_schema,
            "openai-agents": lambda tool: _openai_agents(tool, strict=False),
            "openai-agents, strict": lambda tool: _openai_agents(tool, strict=True),
            "ensure_strict_json_schema": lambda tool: ensure_strict_json_schema(tool.inputSchema),
            "langchain": lambda tool: _langchain(tool, strict=None),
            "langchain, strict": lambda tool: _langchain(tool, strict=True),
            "anthropic": lambda tool: _anthropic(tool, session),
            "anthropic, strict": lambda tool: transform_schema(tool.inputSchema),
            "bedrock": _bedrock,
        }
        converted: dict[str, Any] = {converter: {} for converter in converters}
        failed: dict[str, Any] = {}
        for converter, convert in converters.items():
            for tool in tools.values():
                try:
                    converted[converter][tool.name] = convert(copy.deepcopy(tool))
                except Exception as error:  # noqa: BLE001 - how it fails is what is asked for
                    failed.setdefault(converter, {})[tool.name] = f"{type(error).__name__}: {error}"
        made = await _Mistral(tools.values()).get_tools()
        converted["mistralai, strict"] = {each.function.name: each.function.parameters for each in made}
        answers = []
        for arguments in calls:
            result = await session.call_tool("exec", arguments)
            answers.append([result.isError, result.content[0].text])
        schemas = {tool.name: tool.inputSchema for tool in tools.values()}
        texts = {tool.name: tool.description for tool in tools.values()}
        return {
            "tools": schemas,
            "descriptions": texts,
            "converted": converted,
            "failed": failed,
            "answers": answers,
        }


async def _run_all(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: await _run(name, job["command"], job["calls"]) for name in job["names"]} for job in jobs]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_run_all(json.load(sys.stdin)))))
