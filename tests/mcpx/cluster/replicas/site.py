"""Replicas that really run, by `mcpx serve`, each with a state folder of its own; and a client."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2

from tests.mcpx.scripted import entry
from tests.mcpx.serving import ENVELOPE, LEGACY, MODERN, PATIENCE_S, Served, serving, write_config
from tests.ports import free_port

SECRET = "a secret that all replicas share"
TOKEN = "a-token-that-all-replicas-share"
KEY = {"Authorization": f"Bearer {TOKEN}"}
ACCEPT = {"Accept": "application/json, text/event-stream"}
TASKS = Path(__file__).parents[2] / "core" / "gateway" / "task_server.py"
EXTENSION = "io.modelcontextprotocol/tasks"
QUESTION = {
    "mode": "form",
    "message": "Go on?",
    "requestedSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
}
FORM = {"method": "elicitation/create", "params": QUESTION}
CAPABILITIES = {"elicitation": {"form": {}}, "extensions": {EXTENSION: {}}}
MODERN_ENVELOPE = ENVELOPE | {"io.modelcontextprotocol/clientCapabilities": CAPABILITIES}
INITIALIZE = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


class Replica:
    """One replica: where it listens, and its process."""

    def __init__(self, served: Served, port: int) -> None:
        self.served = served
        self.port = port
        self.origin = f"http://127.0.0.1:{port}"

    async def ready(self) -> None:
        await self.served.logged("http.listening")
        async with httpx2.AsyncClient(base_url=self.origin) as client:
            with anyio.fail_after(PATIENCE_S):
                while (await client.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - of another process
                    await anyio.sleep(0.02)

    async def ended(self) -> None:
        with anyio.fail_after(PATIENCE_S):
            while self.served.process.poll() is None:  # noqa: ASYNC110 - as above
                await anyio.sleep(0.02)


def counting(counted: Path, *, modern: bool = False, line: str = "@{given.id}") -> dict[str, Any]:
    """A server whose runs are counted: `work` before all else, `ask` when its client has answered.

    To `ask` it sends a request; or gives, where it is modern, a result that wants input, with a state that no
    other process takes.
    """
    count = {"append": str(counted), "line": line}
    answers = {
        "tools/call work": [count, {"sleep": "@{given.seconds|0}"}, {"say": "@{pid} did @{given.id}"}],
        "tools/call large": [{"say": {"@lines": ["line @{i} of @{pid}", 20_000]}}],
        "tools/call ask": [{"ask": FORM}, count, {"say": "@{answer:json}"}],
    }
    if modern:
        state = "@{pid}:@{given.id}"
        asks = {"resultType": "input_required", "inputRequests": {"go": FORM}, "requestState": state}
        strange = {"code": -32602, "message": "this state is not of this process"}
        said = [count, {"say": "@{params.inputResponses.go:json}"}]
        known = {"if": ["@{params.requestState}", state], "then": said, "else": [{"error": strange}]}
        step = {"if": "@{params.inputResponses}", "then": [known], "else": [{"result": asks}]}
        answers["tools/call ask"] = [step]
    return entry(offers={"tools": ["work", "ask", "large"]}, answers=answers, modern=modern)


@asynccontextmanager
async def replica(
    folder: Path,
    counted: Path,
    *,
    port: int = 0,
    hosts: tuple[str, ...] = (),
    names: tuple[str, ...] = ("old", "new", "tasks", "asking"),
    **settings: Any,
) -> AsyncIterator[Replica]:
    """A replica in that folder, whose servers count into that file, once it is ready."""
    port = port or free_port()
    (folder / "state").mkdir(parents=True, exist_ok=True, mode=0o700)
    token = folder / "state" / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    servers = {
        "old": counting(counted),
        "held": counting(counted),
        "new": counting(counted, modern=True),
        "tasks": {"command": sys.executable, "args": ["-S", "-E", str(TASKS)]},
        "asking": counting(counted) | {"tools": {"ask": ["work"]}},
    }
    named = {"url": f"http://127.0.0.1:{port}", "secret": "${SHARED}"}
    http = {"port": port, "allowed_hosts": list(hosts), "replica": named, **settings.pop("http", {})}
    config = write_config(
        folder, {name: servers[name] for name in names}, http=http, **{"shutdown_grace": 2, **settings}
    )
    arguments = ["serve", config, "--transport", "http"]
    async with serving(folder, *arguments, SHARED=SECRET) as served:
        made = Replica(served, port)
        await made.ready()
        yield made


class Client:
    """A client of 2026-07-28, at whatever replica it is told to speak to."""

    def __init__(self) -> None:
        self._http = httpx2.AsyncClient(timeout=PATIENCE_S, headers=ACCEPT | KEY)

    async def post(self, origin: str, method: str, path: str = "/mcp", **params: Any) -> httpx2.Response:
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if named := params.get("name", params.get("uri")):
            headers["Mcp-Name"] = named
        headers |= params.pop("headers", {})
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": MODERN_ENVELOPE}}
        return await self._http.post(f"{origin}{path}", json=body, headers=headers)

    async def ask(self, origin: str, method: str, path: str = "/mcp", **params: Any) -> Any:
        """The result, or the error."""
        message = last_message(await self.post(origin, method, path, **params))
        return message.get("result") or message["error"]

    async def exec(self, origin: str, server: str, tool: str, arguments: Any = None, **more: Any) -> Any:
        given = {"server_name": server, "tool_name": tool, "arguments": arguments or {}}
        return await self.ask(origin, "tools/call", name="exec", arguments=given, **more)

    async def close(self) -> None:
        await self._http.aclose()


def last_message(response: httpx2.Response) -> Any:
    lines = response.text.replace("\r\n", "\n").split("\n")
    data = [line[6:] for line in lines if line.startswith("data: {")]
    return json.loads(data[-1] if data else response.text)


def text_of(result: Any) -> str:
    return str(result["content"][0]["text"])


def counted_in(file: Path) -> list[str]:
    return sorted(file.read_text().split()) if file.exists() else []
