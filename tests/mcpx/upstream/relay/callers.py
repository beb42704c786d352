"""Callers that do as a test tells them, and calls in their name: the hub in this process, the server not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec

from mcpx.core.hub import Hub, open_hub
from mcpx.core.router import Exec
from mcpx.upstream.context import InputAnswers, read_capabilities
from mcpx.upstream.queue import RawReply
from mcpx.upstream.relay.suspended import HeldCall
from mcpx.upstream.requests import Origin
from tests.mcpx.scripted import config_of
from tests.mcpx.upstream.relay.people import PATIENCE_S, asking_server

ALL = b'{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}'


class Puppet:
    """A client behind calls. It answers a question when `answer` is set, and not before."""

    def __init__(self, *, modern: bool = False, can: bytes = ALL, level: str | None = None) -> None:
        self.client: object = self
        self.modern = modern
        self.capabilities = read_capabilities(can)
        self.log_level = level
        self.logged: list[dict[str, Any]] = []
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answer: Any = {"roots": []}
        self.steps: list[tuple[float, float | None, str | None]] = []
        self.may_answer = anyio.Event()
        self.is_asked = anyio.Event()
        self.is_told = anyio.Event()
        self.forgets = anyio.Event()

    def log(self, params: dict[str, Any]) -> None:
        self.logged.append(params)

    def tell(self, method: str, params: dict[str, Any]) -> None:
        self.told.append((method, params))
        self.is_told.set()

    async def ask(self, method: str, params: dict[str, Any], on_progress: Any) -> dict[str, Any]:
        self.asked.append((method, params))
        self.is_asked.set()
        for step in self.steps if on_progress else ():
            await on_progress(*step)
        try:
            await self.may_answer.wait()
        except BaseException:
            self.forgets.set()
            raise
        return self.answer


class Desk:
    """Makes calls of the server `s`, and knows what is in flight there."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.upstream = hub.upstreams["s"]
        self.freed = anyio.Event()
        forget = self.upstream._holds.forget

        def forgotten(held: HeldCall) -> None:
            forget(held)
            self.freed.set()

        self.upstream._holds.forget = forgotten  # type: ignore[method-assign]

    def call(
        self, caller: Any, tool: str, *, answers: InputAnswers | None = None, **arguments: Any
    ) -> RawReply:
        given = msgspec.json.encode(arguments)
        reply = RawReply()
        self.hub.router_ref.request(Exec("s", tool, given, Origin(caller=caller, answers=answers)), reply)
        return reply

    async def result(self, reply: RawReply) -> dict[str, Any]:
        with anyio.fail_after(PATIENCE_S):
            return msgspec.json.decode(await reply.wait())

    async def said(self, reply: RawReply) -> Any:
        result = await self.result(reply)
        return msgspec.json.decode(result["content"][0]["text"])["said"]

    @property
    def in_flight(self) -> int:
        return self.upstream.counters.in_flight


@asynccontextmanager
async def desk(
    folder: Path, kind: str = "stdio-handshake", *, real: bool = False, **settings: Any
) -> AsyncIterator[Desk]:
    """A hub with the asking server of that kind (`people.SERVERS`)."""
    async with (
        asking_server(kind, real=real) as server,
        open_hub(config_of({"s": {**server, **settings}}), state=folder) as hub,
    ):
        assert await hub.settled(PATIENCE_S)
        yield Desk(hub)
