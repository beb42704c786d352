"""Callers whose answers a test controls, and calls in their name: the hub in this process, the server not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec

from mcpx.core.daemon.hub import Hub
from mcpx.core.protocol.context import InputAnswers, read_capabilities
from mcpx.core.protocol.messages import Exec
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.relay.suspended import SuspendedCall
from mcpx.parts import open_hub
from tests.mcpx.core.servers.relay.answering import PATIENCE_S, asking_server
from tests.mcpx.scripted import config_of

ALL = b'{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}'


class FakeCaller:
    """A client behind calls. It answers a question when `may_answer` is set, and not before."""

    def __init__(self, *, modern: bool = False, can: bytes = ALL, level: str | None = None) -> None:
        self.client: object = self
        self.modern = modern
        self.capabilities = read_capabilities(can)
        self.log_level = level
        self.confined = False
        self.is_peer = False
        self.seen: set[str] | None = None  # the servers that it is shown; None: all
        self.logged: list[dict[str, Any]] = []
        self.notified: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answer: Any = {"roots": []}
        self.steps: list[tuple[float, float | None, str | None]] = []
        self.may_answer = anyio.Event()
        self.was_asked = anyio.Event()
        self.is_notified = anyio.Event()
        self.request_cancelled = anyio.Event()

    def caller(self) -> FakeCaller:
        return self

    def sees(self, server: str) -> bool:
        return self.seen is None or server in self.seen

    def log(self, params: dict[str, Any]) -> None:
        self.logged.append(params)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self.notified.append((method, params))
        self.is_notified.set()

    async def ask(self, method: str, params: dict[str, Any], on_progress: Any) -> dict[str, Any]:
        self.asked.append((method, params))
        self.was_asked.set()
        for step in self.steps if on_progress else ():
            await on_progress(*step)
        try:
            await self.may_answer.wait()
        except BaseException:
            self.request_cancelled.set()
            raise
        return self.answer


class CallSite:
    """Makes calls of the server `s`, and knows what is in flight there."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.upstream = hub.upstreams["s"]
        self.freed = anyio.Event()
        discard = self.upstream.main._suspended.discard

        def discarded(call: SuspendedCall) -> None:
            discard(call)
            self.freed.set()

        self.upstream.main._suspended.discard = discarded  # type: ignore[method-assign]

    def call(
        self, caller: Any, tool: str, *, answers: InputAnswers | None = None, **arguments: Any
    ) -> RawReply:
        given = msgspec.json.encode(arguments)
        reply = RawReply()
        self.hub.calls.call(Exec("s", tool, given, RequestContext(caller=caller, answers=answers)), reply)
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
async def open_call_site(
    folder: Path, kind: str = "stdio-handshake", *, real: bool = False, **settings: Any
) -> AsyncIterator[CallSite]:
    """A hub with the asking server of that kind (`answering.SERVERS`)."""
    async with (
        asking_server(kind, real=real) as server,
        open_hub(config_of({"s": {**server, **settings}}), state=folder) as hub,
    ):
        assert await hub.settled(PATIENCE_S)
        yield CallSite(hub)
