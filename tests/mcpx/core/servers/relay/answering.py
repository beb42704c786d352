"""Clients that can be asked, and the servers that ask: what the tests of this folder share.

`AnsweringClient` is the callbacks of one SDK client and all that they were given; `asking_server` is one of
the servers (either era or both, stdio and HTTP) as an entry for a config, started and ended here where MCPX
does not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp_types import (
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    EmptyResult,
    ErrorData,
    ListRootsResult,
    LoggingMessageNotificationParams,
    Root,
    SetLevelRequest,
    SetLevelRequestParams,
    TextContent,
)

from tests.forking.client import command
from tests.forking.processes import open_python
from tests.live.processes import end

SERVER = Path(__file__).with_name("asking_server.py")
MESSAGES = [{"role": "user", "content": {"type": "text", "text": "how many?"}}]
SAMPLE = {"method": "sampling/createMessage", "params": {"messages": MESSAGES, "maxTokens": 7}}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
FORM = {"method": "elicitation/create", "params": {"message": "Which?", "requestedSchema": SCHEMA}}
URL = {
    "method": "elicitation/create",
    "params": {"mode": "url", "message": "Go", "url": "https://example.com/x", "elicitationId": "e-1"},
}
ROOTS = {"method": "roots/list"}
EVERY = (SAMPLE, FORM, URL, ROOTS)
PATIENCE_S = 50.0
SERVERS = ("stdio-handshake", "stdio-modern", "http-handshake", "http-modern")
"""Those of one era: what the SDK makes of today speaks both, and is pinned to the modern one."""
OF_BOTH_ERAS = ("stdio-both", "http-both")


def entry(era: str, *, real: bool = False) -> dict[str, Any]:
    """A stdio server of that era, for a config; forked unless it is `real`, as one that is killed must be."""
    start, *args = [sys.executable, str(SERVER), era] if real else command(str(SERVER), era)
    return {"command": start, "args": args}


@asynccontextmanager
async def asking_server(kind: str, *, real: bool = False) -> AsyncIterator[dict[str, Any]]:
    """One of SERVERS or OF_BOTH_ERAS, as an entry for a config; it runs already if MCPX does not start it."""
    transport, _, era = kind.partition("-")
    pin = {"era": "modern"} if era == "modern" else {}
    if transport == "stdio":
        yield entry(era, real=real) | pin
    else:
        async with http_server(era) as running:
            yield running | pin


@asynccontextmanager
async def http_server(era: str) -> AsyncIterator[dict[str, Any]]:
    """An HTTP server of that era, running; its entry for a config."""
    process = await open_python([sys.executable, str(SERVER), era, "0"], stderr=None)
    try:
        assert process.stdout is not None
        with anyio.fail_after(PATIENCE_S):
            port = int(await process.stdout.receive())
        yield {"url": f"http://127.0.0.1:{port}/mcp"}
    finally:
        await end(process, patience=PATIENCE_S)


class AnsweringClient:
    """One client's user: answers everything, with its name in it, and remembers what came.

    `asked` is without roots/list, which MCPX also asks for itself, whenever it wants to know the project;
    that a server got them is seen by what it answers.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[Any] = []
        self.logged: list[dict[str, Any]] = []
        self.news = anyio.Event()

    def options(self, *, can: str = "sampling elicitation roots", level: str | None = None) -> dict[str, Any]:
        """For the SDK's Client: the callbacks of what it declares."""
        callbacks: dict[str, Any] = {
            "sampling": {"sampling_callback": self.sample},
            "elicitation": {"elicitation_callback": self.elicit},
            "roots": {"list_roots_callback": self.roots},
        }
        chosen: dict[str, Any] = {"logging_callback": self.log}
        for what in can.split():
            chosen |= callbacks[what]
        return chosen | ({"log_level": level} if level else {})

    def _note(self, params: Any) -> None:
        self.asked.append(params.model_dump(by_alias=True, mode="json", exclude_none=True))

    async def sample(self, _ctx: Any, params: CreateMessageRequestParams) -> CreateMessageResult | ErrorData:
        self._note(params)
        content = TextContent(type="text", text=f"{self.name}: three")
        return CreateMessageResult(role="assistant", content=content, model="m", stop_reason="endTurn")

    async def elicit(self, _ctx: Any, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        self._note(params)
        if params.mode == "url":
            return ElicitResult(action="accept")
        return ElicitResult(action="accept", content={"n": 3, "by": self.name})

    async def roots(self, _ctx: Any) -> ListRootsResult | ErrorData:
        return ListRootsResult(roots=[Root(uri=f"file:///home/{self.name}", name=self.name)])

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        self.logged.append(params.model_dump(by_alias=True, mode="json", exclude_none=True))
        news, self.news = self.news, anyio.Event()
        news.set()

    async def wait_for_logs(self, count: int) -> list[dict[str, Any]]:
        """The log messages, once there are so many."""
        with anyio.fail_after(PATIENCE_S):
            while len(self.logged) < count:
                await self.news.wait()
        return self.logged

    def answers(self) -> list[dict[str, Any]]:
        """What it says to EVERY question, as it goes over the wire."""
        return [
            {
                "role": "assistant",
                "content": {"type": "text", "text": f"{self.name}: three"},
                "model": "m",
                "stopReason": "endTurn",
            },
            {"action": "accept", "content": {"n": 3, "by": self.name}},
            {"action": "accept"},
            {"roots": [{"uri": f"file:///home/{self.name}", "name": self.name}]},
        ]


async def set_level(client: Client, level: str) -> None:
    """logging/setLevel; the SDK's own method for it warns."""
    request = SetLevelRequest(params=SetLevelRequestParams(level=level))  # type: ignore[arg-type]
    await client.session.send_request(request, EmptyResult)


async def exec_(client: Client, server: str, tool: str, **arguments: Any) -> CallToolResult:
    """exec through MCPX."""
    call = {"server_name": server, "tool_name": tool, "arguments": arguments}
    return await client.call_tool("exec", call)


def said(result: CallToolResult) -> Any:
    """What the asking server answered."""
    assert not result.is_error, result.content
    if result.structured_content is not None:
        return result.structured_content["said"]
    return json.loads(result.content[0].text)["said"]
