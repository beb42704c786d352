"""MCPX as a real child process, and the SDK's client at one of its endpoints.

`open_gateway` runs `mcpx serve` for a configuration and connects to it, over stdio or HTTP, in either
protocol era; `http_endpoint` runs it without a client, for tests that bring several. Both end the process,
and require that it ends well.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
import msgspec
from mcp import Client, StdioServerParameters
from mcp.client import session as sdk_session
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult, Implementation

from tests.forking.client import command, run_of_tests
from tests.forking.processes import open_python
from tests.live import chained
from tests.live.mcpx_log import Log, captured
from tests.live.processes import child_of, end

ROOT: Final = Path(__file__).parents[2]
ENDPOINTS: Final = ("stdio-legacy", "stdio-auto", "http-legacy", "http-auto")
"""Every endpoint in both eras: `legacy` shakes hands, `auto` asks first and then speaks 2026-07-28."""
ANSWER_S: Final = 50.0  # no answer in this time is a failure
END_S: Final = 20.0  # MCPX itself gives its children up to 15 s
STRANGER: Final = "live-test"
# After that time the SDK's client tries the other era; a busy machine starts MCPX later than by default.
sdk_session.DISCOVER_TIMEOUT_SECONDS = ANSWER_S


class Gateway:
    """A client of a running MCPX. `log` is what MCPX has logged, `pid` its process."""

    def __init__(self, client: Client, log: Log, pid: int) -> None:
        self.client = client
        self.log = log
        self.pid = pid

    async def descriptions(self) -> dict[str, str]:
        """The descriptions of the tools that the client is shown, by name."""
        listed = await self.client.list_tools(cache_mode="refresh")
        return {tool.name: tool.description or "" for tool in listed.tools}

    async def inspect(self, server: str, tool: str | None = None) -> CallToolResult:
        """What inspect answers."""
        named = {"server_name": server} | ({"tool_name": tool} if tool is not None else {})
        return await self.client.call_tool("inspect", named)

    async def exec(self, server: str, tool: str, arguments: Any = None) -> CallToolResult:
        """What exec answers; no arguments are sent for None."""
        call = {"server_name": server, "tool_name": tool}
        return await self.client.call_tool(
            "exec", call if arguments is None else {**call, "arguments": arguments}
        )

    async def at_once(self, tool: str, **arguments: Any) -> CallToolResult:
        """What one of the three tools answers, and no more.

        The SDK's `call_tool` asks for the list of tools after the first result, which waits for the servers.
        """
        params = CallToolRequestParams(name=tool, arguments=arguments)
        return await self.client.session.send_request(CallToolRequest(params=params), CallToolResult)

    async def resources(self, server: str, uri: str) -> CallToolResult:
        """What resources answers."""
        return await self.client.call_tool("resources", {"server_name": server, "uri": uri})


class HttpEndpoint(msgspec.Struct, frozen=True):
    """An MCPX that serves HTTP; the token is empty if it asks for none."""

    url: str
    token: str
    log: Log
    pid: int


def write_config(folder: Path, servers: dict[str, dict[str, Any]], **settings: Any) -> Path:
    """A configuration file in `folder`; all that MCPX keeps lies beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.json"
    servers = chained.behind_others(folder, servers, settings)
    path.write_bytes(msgspec.json.encode({**settings, "mcpServers": servers}))
    return path


def open_gateway(
    endpoint: str, config: Path, *flags: str, name: str = STRANGER, **options: Any
) -> AbstractAsyncContextManager[Gateway]:
    """MCPX with these flags, and a client `name` at one of ENDPOINTS; `options` go to the SDK's Client."""
    transport, _, mode = endpoint.partition("-")
    given = {
        "client_info": Implementation(name=name, version="1"),
        "read_timeout_seconds": ANSWER_S,
        **options,
    }
    over = _over_stdio if transport == "stdio" else _over_http
    return over(config, flags, {"mode": mode, **given})


@asynccontextmanager
async def _over_stdio(
    config: Path, flags: tuple[str, ...], options: dict[str, Any]
) -> AsyncIterator[Gateway]:
    start, *args = command(*_arguments(config), *flags)
    parameters = StdioServerParameters(command=start, args=args, env=_environment(config), cwd=ROOT)
    async with (
        captured() as (log, stderr),
        Client(stdio_client(parameters, errlog=stderr), **options) as client,  # type: ignore[arg-type]
    ):
        stderr.close()
        yield Gateway(client, log, child_of(run_of_tests(), str(config)))


@asynccontextmanager
async def _over_http(config: Path, flags: tuple[str, ...], options: dict[str, Any]) -> AsyncIterator[Gateway]:
    async with http_endpoint(config, *flags) as endpoint, http_client(endpoint, **options) as client:
        yield Gateway(client, endpoint.log, endpoint.pid)


@asynccontextmanager
async def http_endpoint(config: Path, *flags: str) -> AsyncIterator[HttpEndpoint]:
    """MCPX on a free port, with these flags."""
    async with captured() as (log, stderr):
        process = await open_python(
            [sys.executable, *_arguments(config), "--transport", "http", "--port", "0", *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env={**os.environ, **_environment(config)},
            cwd=ROOT,
        )
        stderr.close()
        try:
            listening = await log.wait_for("http.listening")
            kept = listening["token_file"]
            token = (await anyio.Path(kept).read_text("utf-8")).strip() if kept else ""
            yield HttpEndpoint(listening["url"], token, log, process.pid)
        finally:
            code = await end(process, patience=END_S)
        assert code == 0, f"mcpx ended with {code}: {log.records[-3:]} {log.other}"


@asynccontextmanager
async def http_client(endpoint: HttpEndpoint, **options: Any) -> AsyncIterator[Client]:
    """One more client, with the token; `options` are the SDK's Client's."""
    patience = httpx2.Timeout(ANSWER_S, read=300.0)  # the stream of notifications is silent for long
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {endpoint.token}"}, timeout=patience) as http,
        Client(
            streamable_http_client(endpoint.url, http_client=http),
            **{"read_timeout_seconds": ANSWER_S, **options},
        ) as client,
    ):
        yield client


def _arguments(config: Path) -> list[str]:
    return ["-m", "mcpx", "serve", str(config)]


def _environment(config: Path) -> dict[str, str]:
    return {"MCPX_STATE_DIR": str(config.parent / "state"), "MCPX_LOG": "info", "MCPX_LOG_FORMAT": "json"}
