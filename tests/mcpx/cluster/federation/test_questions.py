"""Questions to a client over several MCPX: a call that is held far away goes on there with the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from mcp import Client
from mcp_types import ElicitResult

from tests.mcpx.cluster.federation.chain import open_link, peer
from tests.mcpx.core.gateway.native.connecting import MODES
from tests.mcpx.core.servers.relay.answering import FORM, AnsweringClient, asking_server, exec_, said
from tests.mcpx.scripted import entry

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("mode", MODES)
async def test_a_server_two_hops_away_asks_in_the_middle_of_a_call(tmp_path: Path, mode: str) -> None:
    ann = AnsweringClient("ann")
    async with (
        asking_server("stdio-handshake") as server,
        open_link(tmp_path / "c", {"s": server}) as far,
        open_link(tmp_path / "b", {"far": peer(far.url, **{"as": "far"})}) as middle,
        open_link(tmp_path / "a", {"lab": peer(middle.url, **{"as": "lab"})}) as near,
        Client(near.url, mode=MODES[mode], **ann.options()) as client,
    ):
        await near.has("lab/far/s")
        for _ in range(2):  # a call that were still held would leave the second one without its client
            asked = await exec_(client, "lab/far/s", "ask", questions=[FORM, FORM])
            assert len(said(asked)) == 2
        assert len(ann.asked) == 4


@pytest.mark.parametrize("mode", MODES)
async def test_the_transparent_endpoint_takes_clients_of_both_eras(tmp_path: Path, mode: str) -> None:
    ann = AnsweringClient("ann")
    async with (
        asking_server("stdio-handshake") as server,
        open_link(tmp_path / "b", {"s": server}) as far,
        open_link(tmp_path / "a", {"lab": peer(far.url, **{"as": "lab"})}) as near,
    ):
        await near.has("lab/s")
        endpoint = f"{near.url}/servers/lab%2Fs"
        async with Client(endpoint, mode=MODES[mode], **ann.options()) as client:
            asked = await client.call_tool("ask", {"questions": [FORM]})
            assert len(said(asked)) == len(ann.asked) == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transparent", [False, True])
async def test_rules_far_away_and_here_ask_once_each(tmp_path: Path, mode: str, *, transparent: bool) -> None:
    asked: list[str] = []

    async def agree(_ctx: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        key = next(iter(params.requested_schema["properties"]))
        choice = params.requested_schema["properties"][key]
        first = (choice.get("enum") or [each["const"] for each in choice["oneOf"]])[0]
        return ElicitResult(action="accept", content={key: first})

    ask = {"tools": {"ask": ["echo"]}}
    async with (
        open_link(tmp_path / "b", {"s": entry() | ask}) as far,
        open_link(
            tmp_path / "a",
            {"far": peer(far.url, **{"as": "far"}, **ask), "free": peer(far.url, **{"as": "free"})},
        ) as near,
    ):
        for name, questions in (("far/s", 2), ("free/s", 1)):
            await near.has(name)
            url = f"{near.url}/servers/{quote(name, safe='')}" if transparent else near.url
            async with Client(url, mode=MODES[mode], elicitation_callback=agree) as client:
                called = (
                    await client.call_tool("echo", {"text": "hi"})
                    if transparent
                    else await exec_(client, name, "echo", text="hi")
                )
            assert (called.is_error, called.content[0].text) == (False, "hi")
            assert len(asked) == questions
            asked.clear()
