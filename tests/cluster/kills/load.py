"""Clients of a gateway that call without a pause, by `mcpx attach` and over HTTP, and what they were told."""

from __future__ import annotations

import random
import time
from typing import Any

import anyio
import httpx2

from tests.cluster.kills.tally import Call, Tally
from tests.mcpx.cluster.replicas.balance import outcome_of
from tests.mcpx.cluster.replicas.site import ACCEPT, KEY, MODERN_ENVELOPE
from tests.mcpx.core.daemon.daemons import House
from tests.mcpx.serving import MODERN, Served

LONGEST_S = 0.3  # that a call takes
AGAIN_S = 0.02  # after a call that was not sent
PATIENCE_S = 40.0  # for any call to be told anything


class Load:
    """The clients of one gateway. They go on until `over`; `shared` and `private` are servers' names."""

    def __init__(
        self, house: House, url: str, tally: Tally, *, shared: tuple[str, ...], private: str, seed: int
    ) -> None:
        self.house = house
        self.url = url
        self.tally = tally
        self.over = anyio.Event()
        self.shims: dict[str, Served] = {}
        """The clients of `mcpx attach`, by name."""
        self._shared = shared
        self._private = private
        self._random = random.Random(seed)
        self._count = 0

    def _next(self, client: str, server: str) -> tuple[Call, dict[str, Any]]:
        self._count += 1
        name = f"{client}-{self._count}"
        session = f"{server} of {client}" if server == self._private else server
        given = {"id": name, "seconds": round(self._random.uniform(0, LONGEST_S), 3)}
        arguments = {"server_name": server, "tool_name": "work", "arguments": given}
        return Call(name=name, session=session, sent=time.time()), arguments

    async def _tell(self, call: Call, told: str, more: Any) -> None:
        call.told, call.told_at, call.more = told, time.time(), str(more)[:300]
        if told == "done":
            call.pid = int(more["content"][0]["text"].split()[0])
        self.tally.calls.append(call)
        if told != "done":
            await anyio.sleep(AGAIN_S)

    async def attached(self, client: str) -> None:
        """A client of the handshake era on a shim, which must never end."""
        async with self.house.attached() as served:
            await served.initialize()
            self.shims[client] = served
            try:
                await self._call_on(client, served)
            finally:
                del self.shims[client]

    async def _call_on(self, client: str, served: Served) -> None:
        number = 0
        while not self.over.is_set():
            servers = (*self._shared, self._private)
            call, arguments = self._next(client, servers[number % len(servers)])
            number += 1
            request = await served.ask("tools/call", {"name": "exec", "arguments": arguments})
            told, more = "no answer", None
            with anyio.move_on_after(PATIENCE_S):
                while True:
                    try:
                        told, more = _told(await served.answer(request))
                        break
                    except TimeoutError:  # the patience of the client itself
                        continue
            await self._tell(call, told, more)

    async def over_http(self, client: str) -> None:
        """A client of 2026-07-28."""
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "exec"}
        async with httpx2.AsyncClient(timeout=PATIENCE_S, headers=ACCEPT | KEY | headers) as http:
            number = 0
            while not self.over.is_set():
                call, arguments = self._next(client, self._shared[number % len(self._shared)])
                number += 1
                params = {"name": "exec", "arguments": arguments, "_meta": MODERN_ENVELOPE}
                body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
                told, more = await self._post(http, body)
                await self._tell(call, told, more)

    async def _post(self, http: httpx2.AsyncClient, body: Any) -> tuple[str, Any]:
        try:
            return outcome_of(await http.post(self.url, json=body))
        except httpx2.ConnectError:  # the gateway is not there
            return "not_sent", "nothing listens"
        except httpx2.TimeoutException:
            return "no answer", ""
        except httpx2.HTTPError as error:
            return "unknown", repr(error)


def _told(message: dict[str, Any]) -> tuple[str, Any]:
    if (error := message.get("error")) is not None:
        return str((error.get("data") or {}).get("outcome", f"error {error.get('code')}")), error
    result = message["result"]
    if result.get("isError"):
        return str((result.get("structuredContent") or {}).get("outcome", "isError")), result
    return "done", result
