"""Calls of one client to one server at the same time: whichever way they come, none waits for another.

That is seen at the server: three calls have reached it before any is answered. A server that takes one call
after the other answers all of them as well, and is not taken for one that hangs.
"""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest

from tests.mcpx.core.gateway.frontends.http.test_frontend import ACCEPT, HELLO, bearer, http
from tests.mcpx.scripted import Ears, Gate, entry
from tests.mcpx.serving import ENVELOPE, MODERN, serving, write_config

pytestmark = pytest.mark.anyio
ANY = {"type": "object"}
READ = {"readOnlyHint": True}
TOOLS = [
    {"name": "hang", "inputSchema": ANY, "annotations": READ},
    {"name": "turn", "inputSchema": ANY, "annotations": READ},
    {"name": "release", "inputSchema": ANY},
]
THREE = ["one", "two", "three"]


def named(tool, **arguments):
    return {"server_name": "s", "tool_name": tool, "arguments": arguments}


class Stream:
    """A client on the standard streams of `serve` or of the shim."""

    def __init__(self, mcpx):
        self._mcpx = mcpx

    async def call(self, tool, arguments):
        params = {"name": tool, "arguments": arguments}
        answer = await self._mcpx.answer(await self._mcpx.ask("tools/call", params))
        return answer["result"]

    @asynccontextmanager
    async def sent(self, tool, calls):
        """Calls that are sent one behind the other; their results, once all have come."""
        results = []
        ids = [await self._mcpx.ask("tools/call", {"name": tool, "arguments": each}) for each in calls]
        yield results
        results += [(await self._mcpx.answer(each))["result"] for each in ids]


class Posts:
    """A client over HTTP, in either era: every call is a POST."""

    def __init__(self, client, url, headers, meta):
        self._client, self._url, self._headers, self._meta = client, url, headers, meta
        self._last = 1

    async def call(self, tool, arguments):
        self._last += 1
        params = {"name": tool, "arguments": arguments} | self._meta
        message = {"jsonrpc": "2.0", "id": self._last, "method": "tools/call", "params": params}
        headers = self._headers | ({"Mcp-Method": "tools/call", "Mcp-Name": tool} if self._meta else {})
        answer = (await self._client.post(self._url, json=message, headers=headers)).raise_for_status()
        text = answer.text
        if answer.headers["content-type"].startswith("text/event-stream"):
            text = next(line[6:] for line in text.splitlines() if '"result"' in line)
        return httpx2.Response(200, text=text).json()["result"]

    @asynccontextmanager
    async def sent(self, tool, calls):
        found, results = {}, []

        async def one(number, arguments):
            found[number] = await self.call(tool, arguments)

        async with anyio.create_task_group() as tasks:
            for number, arguments in enumerate(calls):
                tasks.start_soon(one, number, arguments)
            yield results
        results += [found[number] for number in range(len(calls))]


async def _greet(mcpx):
    await mcpx.request("initialize", HELLO["params"])
    await mcpx.send("notifications/initialized")
    return Stream(mcpx)


@asynccontextmanager
async def client_over(way, folder, config):
    if way in {"serve", "attach"}:
        options = [config] if way == "serve" else ["--config", config]
        async with serving(folder, way, *options) as mcpx:
            try:
                yield await _greet(mcpx)
            finally:
                if way == "attach":
                    async with serving(folder, "daemon", "stop", "--config", config) as stopping:
                        await stopping.exit_code()
        return
    async with http(folder, config) as (_, url), httpx2.AsyncClient(timeout=50) as client:
        headers = ACCEPT | bearer(folder)
        if way == "http, 2026-07-28":
            yield Posts(client, url, headers | {"MCP-Protocol-Version": MODERN}, {"_meta": ENVELOPE})
            return
        greeted = await client.post(url, json=HELLO, headers=headers)
        headers |= {"Mcp-Session-Id": greeted.headers["mcp-session-id"]}
        await client.post(
            url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers
        )
        yield Posts(client, url, headers, {})


@pytest.mark.parametrize("way", ["serve", "attach", "http, 2025-06-18", "http, 2026-07-28"])
async def test_three_calls_are_at_the_server_before_any_is_answered(tmp_path, way):
    with Ears(tmp_path / "ears") as ears, Gate(tmp_path / "turns") as turns:
        script = {"offers": {"tools": TOOLS}, "turns": str(turns.path)}
        serial = entry(ears, **script, settings={"max_concurrency": 1})
        servers = {"s": entry(ears, **script), "one-at-a-time": serial}
        config = write_config(tmp_path, servers, tiers="on", startup_wait=20)
        async with client_over(way, tmp_path, config) as client:
            for count, tool in enumerate(("query", "exec"), 1):
                async with client.sent(tool, [named("hang")] * 3) as results:
                    await ears.hear("call", tool="hang", count=3 * count)
                    await client.call("exec", named("release"))
                assert [each["content"][0]["text"] for each in results] == ["released"] * 3

            for server in ("s", "one-at-a-time"):  # it cannot, whether or not MCPX knows
                calls = [named("turn", text=text) | {"server_name": server} for text in THREE]
                heard = len(ears.of("call", tool="turn"))
                async with client.sent("query", calls) as results:
                    for count in (1, 2, 3):
                        await ears.hear("call", tool="turn", count=heard + count)
                        assert len(ears.of("call", tool="turn")) == heard + count
                        turns.let_one_through()
                assert [each["content"][0]["text"] for each in results] == THREE
            assert len(ears.of("started")) == 2
