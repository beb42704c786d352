"""A chain of three MCPX over HTTP, and a client at the near end: what works through one works through all.

The live tests over a chain (`scripts/chain`) say the same at length, with servers of others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import mcp_types
import pytest
from mcp import Client

from mcpx.errors import Code
from tests.mcpx.cluster.federation.chain import Link, open_link, peer
from tests.mcpx.core.gateway.native.connecting import entry as era_entry
from tests.mcpx.core.servers.relay.answering import EVERY, AnsweringClient, asking_server, said
from tests.mcpx.scripted import PATIENCE_S, Ears, entry, soon

pytestmark = pytest.mark.anyio
FAR: Any = {"as": "far"}
NOTE = "note:///full"


class Chain:
    """The far one and the near one; the one between can be started anew."""

    def __init__(self, folder: Path, far: Link, tasks: anyio.abc.TaskGroup) -> None:
        self.far = far
        self.near: Link
        self._folder = folder
        self._tasks = tasks
        self._port = 0
        self._stop = self._stopped = anyio.Event()

    async def start_middle(self) -> str:
        """Where it listens."""
        url: str = await self._tasks.start(self._run_middle)
        self._port = int(url.rsplit(":", 1)[1].split("/", maxsplit=1)[0])
        return url

    async def _run_middle(self, *, task_status: anyio.abc.TaskStatus[str]) -> None:
        self._stop, self._stopped = anyio.Event(), anyio.Event()
        servers = {"far": peer(self.far.url, **FAR)}
        async with open_link(self._folder / "b", servers, port=self._port, settled=False) as link:
            task_status.started(link.url)
            await self._stop.wait()
        self._stopped.set()

    async def stop_middle(self) -> None:
        self._stop.set()
        await self._stopped.wait()


@asynccontextmanager
async def open_chain(folder: Path, servers: dict[str, Any]) -> AsyncIterator[Chain]:
    """`s` of the far MCPX is `far/s` in the middle and `far/far/s` at the near end."""
    async with open_link(folder / "c", servers, settled=False) as far, anyio.create_task_group() as tasks:
        chain = Chain(folder, far, tasks)
        entries = {"far": peer(await chain.start_middle(), **FAR)}
        async with open_link(folder / "a", entries, settled=False) as chain.near:
            await chain.near.has(*(f"far/far/{name}" for name in servers))
            yield chain
        await chain.stop_middle()


def call(server: str, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"server_name": f"far/far/{server}", "tool_name": tool, "arguments": arguments}


async def test_what_works_through_one_works_through_three(tmp_path: Path) -> None:
    steps: list[float] = []
    changed: list[str] = []

    async def step(progress: float, _total: float | None, _message: str | None) -> None:
        steps.append(progress)

    async def hear(message: Any) -> None:
        if isinstance(message, mcp_types.ResourceUpdatedNotification):
            changed.append(str(message.params.uri))

    ann = AnsweringClient("ann")
    with Ears(tmp_path / "ears") as ears:
        notes = era_entry("both", ears, tmp_path)
        async with (
            asking_server("stdio-handshake") as asks,
            open_chain(tmp_path, {"asks": asks, "s": entry(ears), "notes": notes}) as chain,
        ):
            url = chain.near.url
            for mode in ("legacy", "auto"):
                async with Client(url, mode=mode, message_handler=hear, **ann.options()) as client:
                    asked = await client.call_tool("exec", call("asks", "ask", questions=list(EVERY)))
                    assert said(asked) == ann.answers()
                    steps.clear()
                    await client.call_tool("exec", call("asks", "steps", count=3), progress_callback=step)
                    assert steps == [1, 2, 3]

                    uri = f"mcpx://far%2Ffar%2Fnotes/{NOTE}"
                    read = await client.read_resource(uri)
                    there = await chain.far.watch.hub.calls.read("notes", NOTE)
                    assert there.content is not None
                    assert read.contents[0].text in str(there.content)

                    with anyio.move_on_after(PATIENCE_S) as scope:
                        async with anyio.create_task_group() as tasks:
                            tasks.start_soon(client.call_tool, "exec", call("s", "hang"))
                            await ears.hear("call", tool="hang", count=1 + (mode == "auto"))
                            tasks.cancel_scope.cancel()
                    assert not scope.cancelled_caught
                    await ears.hear("cancelled", count=1 + (mode == "auto"))

                    failed = await client.call_tool("exec", call("s", "die"))
                    told = failed.structured_content or {}
                    assert (told["code"], told["outcome"]) == (Code.SERVER_DIED, "unknown")
                    again = await client.call_tool("exec", call("s", "echo", text="again"))
                    assert again.content[0].text == "again"  # type: ignore[union-attr]
            assert len(ears.of("call", tool="die")) == 2


async def test_the_one_between_goes_and_comes_back(tmp_path: Path) -> None:
    with Ears(tmp_path / "ears") as ears:
        async with open_chain(tmp_path, {"s": entry(ears)}) as chain:
            found: list[Any] = []

            async def hang() -> None:
                found.append(await chain.near.watch.failure("hang", {}, server="far/far/s"))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hang)
                await ears.hear("call", tool="hang")
                await chain.stop_middle()
                await soon(lambda: found)
            assert found[0].outcome == "unknown"
            await chain.start_middle()
            assert await chain.near.watch.text("echo", {"text": "back"}, server="far/far/s") == "back"
            assert len(ears.of("call", tool="hang")) == 1


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_person_agrees_to_a_call_that_a_rule_there_asks_about(tmp_path: Path, mode: Any) -> None:
    asked: list[str] = []

    async def agree(_context: Any, params: Any) -> mcp_types.ElicitResult:
        asked.append(params.message)
        ((field, given),) = params.requested_schema["properties"].items()
        first = (given.get("enum") or [each["const"] for each in given["oneOf"]])[0]
        return mcp_types.ElicitResult(action="accept", content={field: first})

    with Ears(tmp_path / "ears") as ears:
        entries = {"s": entry(ears, settings={"tools": {"ask": ["count"]}})}
        async with (
            open_link(tmp_path / "b", entries) as far,
            open_link(tmp_path / "a", {"far": peer(far.url, **FAR)}) as near,
        ):
            await near.has("far/s")
            async with Client(near.url, mode=mode, elicitation_callback=agree) as client:
                counted = {"server_name": "far/s", "tool_name": "count", "arguments": {}}
                answer = await client.call_tool("exec", counted)
                assert not answer.is_error, answer
        assert len(asked) == 1
        assert len(ears.of("call", tool="count")) == 1
