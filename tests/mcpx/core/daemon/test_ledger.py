"""One scripted hour, compressed: every way in, every end, and every figure on every surface as in a ledger.

Beside it doctor is run and the page is open, which count for nobody.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from mcpx.core.wire.batch import BATCH_REVISION
from tests.mcpx.core.daemon.ledger import INSPECT, NONE, OTHERS, Ledger, Surfaces, home_with_clients
from tests.mcpx.core.gateway.endpoints import HttpEndpoint
from tests.mcpx.scripted import PATIENCE_S, entry
from tests.mcpx.scripted_server import TOOLS
from tests.mcpx.serving import LEGACY, Served, run_cli, serving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]
SERVERS = ("shop", "frail", "guarded")
NAMES = {each["name"] for each in TOOLS}
COMMAND_LINE, PAGE = "(command line)", "(page)"
QUICK = 300


class Hour:
    """The clients, and what they do: each thing is done and written into the ledger."""

    def __init__(self, house, surfaces: Surfaces, http: httpx2.AsyncClient, url: str, token: str) -> None:
        self.house = house
        self.surfaces = surfaces
        self.http = http
        self.url = url
        self.token = token
        self.ledger = Ledger()

    @asynccontextmanager
    async def client(self, name: str, *options: str, version: str = LEGACY) -> AsyncIterator[Served]:
        """A client of that name on a shim, past its handshake."""
        attach = "attach", "--config", self.house.config, *options
        async with serving(self.house.folder, *attach) as client:
            hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": about(name)}
            await client.request("initialize", hello)
            await client.send("notifications/initialized")
            yield client

    async def menu(self, client: Served, name: str) -> list[dict[str, Any]]:
        """The client lists its tools."""
        tools = (await client.request("tools/list"))["tools"]
        self.ledger.menu(name, tools, dict.fromkeys(SERVERS, TOOLS))
        return tools

    async def exec(self, client: Served, name: str, server: str, tool: str, end: str, **given: Any) -> None:
        """A call by `exec`, and what the model reads of it."""
        result = await client.call("exec", server_name=server, tool_name=tool, arguments=given)
        assert result.get("isError", False) == (end != "ok"), result
        counted = (server, tool) if tool in NAMES else (server, OTHERS)
        counted = counted if server in SERVERS else (NONE, OTHERS)
        self.ledger.call(name, *counted, end)
        self.ledger.read(name, *counted, result, given["text"] if end == "ok" else "")


def about(name: str) -> dict[str, str]:
    return {"name": name, "version": "1.2"}


@asynccontextmanager
async def hour(house) -> AsyncIterator[Hour]:
    """A daemon with HTTP, and a browser that is signed in to its page."""
    guarded = entry(settings={"tools": {"ask": ["echo"]}})
    servers = {"shop": entry(), "frail": entry(), "guarded": guarded}
    house.write(servers, http={"port": 0}, start="eager", startup_wait=20)
    async with AsyncExitStack() as stack:
        run = "daemon", "run", "--config", house.config
        daemon = await stack.enter_async_context(serving(house.folder, *run))
        url = (await daemon.logged("http.listening"))["url"]
        made = await anyio.to_thread.run_sync(house.run, "token", "new", "meter")
        link = (await anyio.to_thread.run_sync(house.run, "ui", "--print")).stdout.strip()
        origin = f"http://{urlsplit(link).netloc}"
        http = await stack.enter_async_context(
            httpx2.AsyncClient(
                base_url=origin, headers={"origin": origin}, timeout=PATIENCE_S, trust_env=False
            )
        )
        assert (await http.get(link)).status_code == 200
        surfaces = Surfaces(house, http, url, made.stdout.strip())
        yield Hour(house, surfaces, http, url, made.stdout.strip())


async def every_end(play: Hour) -> None:
    """A client with the three tools: what it calls ends in every way."""
    async with play.client("desk") as desk:
        await play.menu(desk, "desk")
        for text in ("some words", "and " * 100, "ü" * 50):
            await play.exec(desk, "desk", "shop", "echo", "ok", text=text)
        await play.exec(desk, "desk", "shop", "fail", "failed", text="no")
        await play.exec(desk, "desk", "shop", "echo", "refused", text=7)
        await play.exec(desk, "desk", "shop", "nothing", "refused")
        await play.exec(desk, "desk", "nobody", "echo", "refused", text="x")
        await play.exec(desk, "desk", "frail", "die", "failed")
        await play.exec(desk, "desk", "guarded", "echo", "refused", text="unasked")
        for arguments in ({}, {"query": "echo"}, {"server_name": "shop"}):
            about_server = arguments.get("server_name", NONE)
            play.ledger.read("desk", about_server, INSPECT, await desk.call("inspect", **arguments))
        hang = {"server_name": "shop", "tool_name": "hang"}
        request = await desk.ask("tools/call", {"name": "exec", "arguments": hang})
        play.ledger.call("desk", "shop", "hang", "running")
        await running(play, 1)
        await desk.send("notifications/cancelled", {"requestId": request})
        await running(play, 0)
        play.ledger.ended("desk", "shop", "hang", "cancelled")
        await play.surfaces.agree(play.ledger)


async def running(play: Hour, number: int) -> None:
    """So many calls run."""
    with anyio.fail_after(PATIENCE_S):
        while len([row for row in await play.surfaces.rows() if row["end"] is None]) != number:  # noqa: ASYNC110 - as a user looks
            await anyio.sleep(0.01)


async def every_way(play: Hour) -> None:
    """One call or more by each way in."""
    async with play.client("native", "--expose", "all") as native:
        tools = await play.menu(native, "native")
        echo = next(
            each["name"] for each in tools if each["name"].endswith("echo") and "shop" in each["name"]
        )
        said = "by its name"
        play.ledger.read("native", "shop", "echo", await native.call(echo, text=said), said)
        play.ledger.call("native", "shop", "echo", "ok")
        answer = await native.answer(await native.ask("tools/call", {"name": "no_such", "arguments": {}}))
        assert "error" in answer
        play.ledger.call("native", NONE, OTHERS, "refused")
    async with play.client("plain", "--server", "shop") as plain:
        assert not (await plain.call("echo", text="as it is")).get("isError")
        play.ledger.call("plain", "shop", "echo", "ok")
        failed = {"name": "fail", "arguments": {"text": "as it is"}}
        assert "error" in await plain.answer(await plain.ask("tools/call", failed))
        play.ledger.call("plain", "shop", "fail", "failed")
    async with play.client("other mcpx", "--peer", "shop") as peer:
        await peer.call("echo", text="for a peer")
        play.ledger.call("other mcpx", "shop", "echo", "ok")
    async with play.client("batches", version=BATCH_REVISION) as batches:
        await play.menu(batches, "batches")
        given = {"server_name": "shop", "tool_name": "echo", "arguments": {"text": "in a batch"}}
        call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "exec", "arguments": given}}
        await batches.send_bytes(json.dumps([call | {"id": "a"}, call | {"id": "b"}]).encode() + b"\n")
        for each in await batches.array():
            play.ledger.read("batches", "shop", "echo", each["result"], "in a batch")
            play.ledger.call("batches", "shop", "echo", "ok")
    for modern in (False, True):
        async with httpx2.AsyncClient(timeout=PATIENCE_S, trust_env=False) as client:
            endpoint = HttpEndpoint(client, play.url, modern=modern)
            endpoint._headers["Authorization"] = f"Bearer {play.token}"
            await endpoint.open()
            given = {"server_name": "shop", "tool_name": "echo", "arguments": {"text": "over HTTP"}}
            answer = await endpoint.answer("tools/call", {"name": "exec", "arguments": given})
            play.ledger.read("test", "shop", "echo", json.loads(bytes(answer.result)), "over HTTP")
            play.ledger.call("test", "shop", "echo", "ok")


async def by_hand(play: Hour) -> None:
    """The command line and the page; a call that asks its person first is one call."""

    def run(*command: str) -> int:
        return play.house.run(*command).returncode

    for command, code, end in (
        (("exec", "shop", "echo", "text=typed"), 0, "ok"),
        (("exec", "shop", "fail", "text=typed"), 1, "failed"),
        (("exec", "shop", "nothing"), 1, "refused"),
    ):
        assert await anyio.to_thread.run_sync(run, *command) == code, command
        play.ledger.call(COMMAND_LINE, "shop", command[2] if command[2] in NAMES else OTHERS, end)
    tried = {"server": "shop", "tool": "echo", "arguments": {"text": "on the page"}}
    assert "failed" not in await posted(play, "/call", tried)
    play.ledger.call(PAGE, "shop", "echo", "ok")
    asked = await posted(play, "/call", tried | {"server": "guarded"})
    (key,) = asked["asked"]
    play.ledger.call(PAGE, "guarded", "echo", "refused")
    await play.surfaces.agree(play.ledger)
    answers = {key: {"action": "accept", "content": {"decision": "once"}}}
    done = await posted(
        play, "/call", tried | {"server": "guarded", "answers": answers, "state": asked["state"]}
    )
    assert "asked" not in done, done
    assert "failed" not in done, done
    play.ledger.call(PAGE, "guarded", "echo", "refused", times=-1)
    play.ledger.call(PAGE, "guarded", "echo", "ok")


async def posted(play: Hour, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await play.http.post(f"/ui/api{path}", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def for_nobody(play: Hour) -> None:
    """Doctor in every form, the views of the page, looks from the command line: nothing of it counts."""
    environ = home_with_clients(play.house)

    def run(*command: str) -> None:
        done = run_cli(play.house.folder, *command, "--config", play.house.config, **environ)
        assert done.returncode in {0, 1}, done.stderr

    await anyio.to_thread.run_sync(run, "install", "cursor", "claude-code", "codex", "--yes")
    for more in (["--json"], ["--no-start", "--json"]):
        await anyio.to_thread.run_sync(run, "doctor", *more)
    for command in (["inspect"], ["inspect", "shop"], ["list"], ["resources"], ["check"], ["stats"]):
        await anyio.to_thread.run_sync(run, *command)
    await posted(play, "/setup/doctor", {"starts": False})
    for path in ("/model", "/search?q=echo", "/setup", "/servers/shop"):
        assert (await play.http.get(f"/ui/api{path}")).status_code == 200, path


async def long_call(play: Hour) -> None:
    """A call that runs is listed, and so is its end, whatever else is called and whoever looks when."""
    async with play.client("slow") as slow, play.client("quick") as quick:
        hang = {"server_name": "frail", "tool_name": "hang"}
        request = await slow.ask("tools/call", {"name": "exec", "arguments": hang})
        play.ledger.call("slow", "frail", "hang", "running")
        await running(play, 1)
        for _ in range(QUICK):  # all the same: of so many some are looked at, and stand for the others
            await play.exec(quick, "quick", "shop", "echo", "ok", text="once more")
        (row,) = [row for row in await play.surfaces.rows() if row["end"] is None]
        assert (row["client"], row["server"], row["tool"]) == ("slow/1.2", "frail", "hang")
        await play.surfaces.agree(play.ledger)
        result = await quick.call("exec", server_name="frail", tool_name="release", arguments={})
        play.ledger.call("quick", "frail", "release", "ok")
        play.ledger.read("quick", "frail", "release", result, "done")
        play.ledger.read("slow", "frail", "hang", (await slow.answer(request))["result"], "released")
        play.ledger.ended("slow", "frail", "hang", "ok")
        for _ in range(2):  # also for somebody who has looked elsewhere meanwhile
            rows = [each for each in await play.surfaces.rows() if each["id"] == row["id"]]
            assert [each["end"] for each in rows] == ["ok"]


async def audited(play: Hour) -> None:
    """The audit log has a line for each call, and one more for the question."""
    lines = await play.surfaces.lines()
    asked = [line for line in lines if line["approval"] == "asked"]
    assert len(asked) == 1
    assert len(lines) == sum(play.ledger.total.values()) + len(asked)
    ends = {"ok": 0, "refused": 0, "cancelled": 0, "failed": 0}
    for line in lines:
        if line in asked:
            continue
        is_good = line["outcome"] == "ok"
        is_cancelled = line["code"] == "cancelled"
        is_refused = line["outcome"] == "not_sent"
        end = "ok" if is_good else "cancelled" if is_cancelled else "refused" if is_refused else "failed"
        ends[end] += 1
    assert ends | {"running": 0} == play.ledger.total


async def test_every_figure_on_every_surface_is_that_of_the_ledger(house):
    async with hour(house) as play:
        await every_end(play)
        await every_way(play)
        await by_hand(play)
        await for_nobody(play)
        await play.surfaces.agree(play.ledger)
        rows = [(row["server"], row["end"]) for row in await play.surfaces.rows()]
        assert len(rows) == sum(play.ledger.total.values())
        await long_call(play)
        await play.surfaces.agree(play.ledger)
        await audited(play)
