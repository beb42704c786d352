"""The ways to a client that MCPX has, with clients without an SDK that see the bytes of each result.

`open_endpoints` opens a hub over one exact server with a client at each: on a stream by the fast path and by
the SDK's, and over HTTP, each of both eras.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import msgspec

from mcpx.core.config import HttpGateway
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints as MCPXEndpoints
from mcpx.core.gateway.frontends.http.frontend import HttpFrontend, listen
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT
from supervisors import ChildSpec
from tests.mcpx.core.gateway.exact_server import serve_http
from tests.mcpx.line import Line
from tests.mcpx.scripted import PATIENCE_S, QUICK, config_of, open_watched
from tests.mcpx.serving import ENVELOPE, MODERN

SERVER = Path(__file__).with_name("exact_server.py")
HANDSHAKE = "2025-11-25"
ACCEPT = {"Accept": "application/json, text/event-stream"}
ERAS = ("handshake", "modern")
ABOUT = ENVELOPE["io.modelcontextprotocol/clientInfo"]


class Answer(msgspec.Struct):
    """A response, as far as these tests look at it."""

    result: msgspec.Raw = msgspec.Raw()
    error: Any = None


def exactly(encoded: bytes | str) -> Any:
    """JSON with everything that a parser may change: numbers as they are written, members in their order."""

    def number(literal: str) -> tuple[str, str]:
        return "number", literal

    options: Any = {"parse_int": number, "parse_float": number, "parse_constant": number}
    return json.loads(encoded, object_pairs_hook=lambda pairs: ("object", pairs), **options)


def envelope_of(capabilities: dict[str, Any]) -> dict[str, Any]:
    """The envelope of a client of 2026-07-28 with these capabilities."""
    declared = {"io.modelcontextprotocol/clientCapabilities": capabilities} if capabilities else {}
    return ENVELOPE | declared


class LineEndpoint(Line):
    """A client of a stream."""

    def __init__(self, hub: Any, *, modern: bool, slow: bool, capabilities: Any = None) -> None:
        super().__init__(hub)
        self.slow = slow
        self._modern = modern
        self._capabilities = capabilities or {}
        self._line = b""

    async def open(self) -> Any:
        """Open a session, where there are any; its greeting."""
        return None if self._modern else await self.initialize(capabilities=self._capabilities)

    async def answer(self, method: str, params: dict[str, Any]) -> Answer:
        if self._modern:
            params = params | {"_meta": envelope_of(self._capabilities) | params.get("_meta", {})}
        await self.ask(method, params)
        return msgspec.json.decode(self._line, type=Answer)

    def decode(self, line: bytes) -> Any:
        self._line = line
        return {"result": None} | super().decode(line)


class HttpEndpoint:
    """A client over HTTP."""

    def __init__(
        self, client: httpx2.AsyncClient, url: str, *, modern: bool, capabilities: Any = None
    ) -> None:
        self._client = client
        self._url = url
        self._modern = modern
        self._capabilities = capabilities or {}
        self._headers = dict(ACCEPT)

    async def open(self) -> Any:
        """Open a session, where there are any; its greeting."""
        if self._modern:
            self._headers["MCP-Protocol-Version"] = MODERN
            return None
        about = {"protocolVersion": HANDSHAKE, "capabilities": self._capabilities, "clientInfo": ABOUT}
        greeted = await self._post("initialize", about)
        self._headers |= {
            "Mcp-Session-Id": greeted.headers["mcp-session-id"],
            "MCP-Protocol-Version": HANDSHAKE,
        }
        await self._post("notifications/initialized", None)
        return greeted.json()["result"] if greeted.headers["content-type"] == "application/json" else None

    async def answer(self, method: str, params: dict[str, Any]) -> Answer:
        response = await self._post(method, params)
        body = response.content
        if response.headers["content-type"].startswith("text/event-stream"):
            data = [line[6:] for line in body.replace(b"\r\n", b"\n").split(b"\n") if line[:6] == b"data: "]
            body = data[-1]
            assert body.startswith(b'{"jsonrpc"')
        return msgspec.json.decode(body, type=Answer)

    async def _post(self, method: str, params: dict[str, Any] | None) -> httpx2.Response:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        headers = self._headers
        if params is not None:
            message |= {"id": 1, "params": params}
        if self._modern and params is not None:
            message["params"] = params | {"_meta": envelope_of(self._capabilities) | params.get("_meta", {})}
            headers = headers | {"Mcp-Method": method}
            if named := params.get("name", params.get("uri")):
                headers["Mcp-Name"] = named
        response = await self._client.post(self._url, json=message, headers=headers)
        assert response.status_code in {200, 202, 400, 404}, response.text
        return response


class Endpoints:
    """Clients at all endpoints, by the name of the endpoint and their era."""

    def __init__(self, folder: Path) -> None:
        self.clients: dict[tuple[str, str], LineEndpoint | HttpEndpoint] = {}
        self._folder = folder

    def fail_with(self, error: dict[str, Any]) -> None:
        """Let the server answer with that error from now on."""
        (self._folder / "error").write_text(json.dumps(error))

    def forget(self) -> None:
        """Let the server answer of its own again."""
        for file in self._folder.iterdir():
            if file.is_file():
                file.unlink()

    async def answers(self, method: str, params: dict[str, Any]) -> dict[tuple[str, str], Answer]:
        with anyio.fail_after(PATIENCE_S):
            return {key: await client.answer(method, params) for key, client in self.clients.items()}

    async def results(
        self, method: str, params: dict[str, Any], given: str, *, upstream: str | None = None
    ) -> dict[str, bytes]:
        """What the clients of each era get for a server's result; it must be the same at all endpoints."""
        file = self._folder / (upstream or method).replace("/", "-")
        file.write_bytes(given.encode())
        answers = await self.answers(method, params)
        by_era: dict[str, set[bytes]] = {era: set() for era in ERAS}
        for (_, of), answer in answers.items():
            assert answer.error is None, answer.error
            by_era[of].add(bytes(answer.result).replace(b"\r", b" "))  # which ends no line of a stream
        assert all(len(results) == 1 for results in by_era.values()), by_era
        return {era: results.pop() for era, results in by_era.items()}


@asynccontextmanager
async def open_endpoints(
    folder: Path, era: str, *, over_http: bool = False, **settings: Any
) -> AsyncIterator[Endpoints]:
    """A hub over a server of that era, and clients at all endpoints."""
    endpoints = Endpoints(folder)
    async with AsyncExitStack() as stack:
        if over_http:
            entry: dict[str, Any] = {"url": stack.enter_context(serve_http(era, folder))}
        else:
            args = ["-S", "-E", str(SERVER), era, str(folder)]
            entry = {"command": sys.executable, "args": args}
        entry |= {"restart": QUICK, **settings}
        watch = await stack.enter_async_context(open_watched(config_of({"s": entry})))
        sessions = ClientSessions(watch.hub)
        both = MCPXEndpoints(watch.hub, sessions)
        server = both.gateway(DEFAULT_ENDPOINT)
        listener = stack.enter_context(listen("127.0.0.1", 0))
        http = HttpFrontend(both, listener, HttpGateway(), token=None, limit=1 << 24)
        watch.hub.root.add(ChildSpec(name="http", run=http.run))
        client = await stack.enter_async_context(httpx2.AsyncClient(timeout=PATIENCE_S))
        for of in ERAS:
            for name, slow in (("fast", False), ("slow", True)):
                line = LineEndpoint(watch.hub, modern=of == "modern", slow=slow)
                endpoints.clients[name, of] = await stack.enter_async_context(line.connected(server))
            endpoints.clients["http", of] = HttpEndpoint(client, http.url, modern=of == "modern")
        for each in endpoints.clients.values():
            await each.open()
        yield endpoints
