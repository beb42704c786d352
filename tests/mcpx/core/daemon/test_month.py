"""A scripted month of a desk: three clients, twelve servers, six of which want something; and a ledger.

Two servers need setup, one is switched off, one wants a sign-in and gets it, one dies now and then, one is
out of reach. Doctor is run five times, the page and `top` are open, and the daemon is restarted. Then every
figure is the ledger's, and every state the one that the test knows, wherever MCPX shows one. Two days are
played in the suite; `MCPX_TEST_DAYS=30` plays them all.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from mcpx.errors import MCPXError
from mcpx.top.history import History
from mcpx.top.polling import Polling
from tests.mcpx.core.daemon.ledger import INSPECT, LOOK_S, NONE, OTHERS, Ledger, Surfaces, home_with_clients
from tests.mcpx.core.daemon.server_states import (
    Server,
    Servers,
    agree_on_states,
    doctor_agrees,
    error_agrees,
    inspect_agrees,
    inspect_one_agrees,
    states_of,
)
from tests.mcpx.oauth.scripted_issuer import scripted_issuer
from tests.mcpx.scripted import entry
from tests.mcpx.scripted_server import TOOLS
from tests.mcpx.serving import LEGACY, Served, run_cli, serving
from tests.ports import free_port

DAYS = int(os.environ.get("MCPX_TEST_DAYS", "2"))
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240 + 60 * DAYS)]
GOOD = ("files", "git", "memo", "shop", "time", "web")
CLIENTS = ("claude-code", "codex", "cursor")
CALLS = 6  # of a client a day, besides one to each server that wants something
WANTING = ("keyless", "homeless", "off", "away")
SEED = 27


class Desk:
    """The servers as the test knows them, and what the clients do with them."""

    def __init__(self, house: Any, issuer: Any) -> None:
        self.house = house
        self.issuer = issuer
        self.random = random.Random(SEED)
        self.day, self.month = Ledger(), Ledger()
        self.asked: Counter[tuple[str, str, str, str]] = Counter()
        """The calls by client, server, the tool's name as it was given, and end."""
        self.mail: list[dict[str, Any]] = []
        self.deaths = 0
        """Of `flaps`, since the daemon's start."""
        self.away = f"http://127.0.0.1:{free_port()}/mcp"
        at_once = {"restart": {"park_after": 1, "park_probe": 3600}}
        house.write(
            {
                **{name: entry() for name in GOOD},
                "flaps": entry(),
                "keyless": {**entry(), "env": {"KEY": "${NOBODY_HAS_SET_THIS}"}},
                "homeless": {**entry(), "cwd": "gone"},
                "off": {**entry(), "disabled": True},
                "mail": {"url": issuer.mcp_url},
                "away": {"url": self.away, "queue_timeout": 0.2} | at_once,
            },
            http={"port": 0},
            start="eager",
            startup_wait=60,
            login_port=free_port(),
            login_shell=False,
        )

    @property
    def servers(self) -> Servers:
        """The state of each server, once it has come to that."""
        option = f" --config {self.house.config}"
        gone = str(self.house.folder / "gone")
        login = f"mcpx login mail{option}"
        return {
            **dict.fromkeys(GOOD, Server("ready", tools=len(TOOLS))),
            "flaps": Server("ready", tools=len(TOOLS), restarts=self.deaths),
            "keyless": Server(
                "needs setup",
                "environment variable NOBODY_HAS_SET_THIS is not set",
                f"set NOBODY_HAS_SET_THIS where MCPX is started; then: mcpx restart keyless{option}",
                ("NOBODY_HAS_SET_THIS",),
            ),
            "homeless": Server(
                "needs setup",
                f"its working folder {gone} is not there",
                f"mkdir -p {gone}; then: mcpx restart homeless{option}",
                (gone,),
            ),
            "off": Server("disabled", remedy=f"mcpx enable off{option}"),
            "mail": Server("ready", tools=len(self.mail))
            if self.mail
            else Server("needs sign-in", login=login),
            "away": Server("parked", f"the server cannot be reached: {self.away}: Connection refused"),
        }

    @property
    def ledgers(self) -> tuple[Ledger, Ledger]:
        """Of the daemon's own time, and of all time."""
        return self.day, self.month

    async def morning(self) -> None:
        """Each client comes, lists its tools, works, and leaves."""
        behind = dict.fromkeys((*GOOD, "flaps"), TOOLS) | ({"mail": self.mail} if self.mail else {})
        for name in CLIENTS:
            async with self.client(name) as client:
                tools = (await client.request("tools/list"))["tools"]
                for ledger in self.ledgers:
                    ledger.menu(name, tools, behind)
                await self.work(client, name)

    @asynccontextmanager
    async def client(self, name: str) -> AsyncIterator[Served]:
        """A client of that name, past its handshake; a daemon answers it, and not what its shim remembers."""
        for remembered in (self.house.place.folder / "attach").glob("*.json"):
            remembered.unlink()
        async with serving(self.house.folder, "attach", "--config", self.house.config) as client:
            client.patience_s = LOOK_S
            about = {"name": name, "version": "9"}
            hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": about}
            await client.request("initialize", hello)
            await client.send("notifications/initialized")
            yield client

    async def work(self, client: Served, name: str) -> None:
        for number in range(CALLS):
            server = self.random.choice(GOOD)
            tool, end, text = self.random.choice(
                (("echo", "ok", f"note {number}"), ("fail", "failed", "no"), ("nothing", "refused", ""))
            )
            await self.call(client, name, server, tool, end, text=text)
        await self.call(client, name, "flaps", "die", "failed")
        self.deaths += 1
        await self.call(client, name, "flaps", "echo", "ok", text="back again")
        for server in WANTING:
            await self.call(client, name, server, "echo", "refused", text="x")
        if self.mail:
            await self.call(client, name, "mail", "count", "ok", key=f"{name} {self.random.random()}")
        else:
            await self.call(client, name, "mail", "count", "refused", key="k")

    async def call(
        self, client: Served, name: str, server: str, tool: str, end: str, **given: str
    ) -> dict[str, Any]:
        result = await client.call("exec", server_name=server, tool_name=tool, arguments=given)
        assert result.get("isError", False) == (end != "ok"), (server, tool, result)
        self.asked[f"{name}/9", server, tool, end] += 1
        counted = OTHERS if end == "refused" else tool  # of what is refused here, there is no such tool
        for ledger in self.ledgers:
            ledger.call(name, server, counted, end)
            ledger.read(name, server, counted, result, next(iter(given.values())) if end == "ok" else "")
        return result

    async def reads(self, surfaces: Surfaces) -> None:
        """A model asks about everything, and is told of each server the state that it has."""
        name = "script"  # which is given structured results, too
        async with self.client(name) as client:
            for server in (None, *self.servers):
                result = await client.call("inspect", **({} if server is None else {"server_name": server}))
                for ledger in self.ledgers:
                    ledger.read(name, server or NONE, INSPECT, result)
                if server is None:
                    inspect_agrees(result, self.servers)
                else:
                    inspect_one_agrees(result, self.servers[server])
            for server, its in self.servers.items():
                if its.state in {"needs setup", "disabled", "needs sign-in"}:
                    error_agrees(await self.call(client, name, server, "echo", "refused", text="x"), its)
        await self.left(surfaces)

    async def left(self, surfaces: Surfaces) -> None:
        """Nobody is attached any more."""
        while (await surfaces.topic("overview"))["daemon"]["clients"]:
            pass

    async def sign_in(self) -> None:
        """The person signs in to `mail`, whose tools are on the menu from then on."""

        def login() -> None:
            done = run_cli(
                *(self.house.folder, "login", "mail", "--config", self.house.config),
                BROWSER=self.issuer.browser_command(),
            )
            assert done.returncode == 0, done.stderr

        await anyio.to_thread.run_sync(login)
        attach = "attach", "--config", self.house.config, "--server", "mail"
        async with serving(self.house.folder, *attach) as plain:
            plain.patience_s = LOOK_S
            await plain.initialize()
            self.mail = (await plain.request("tools/list"))["tools"]

    async def settled(self, surfaces: Surfaces) -> None:
        """Every server is as it is to be: some take their time to get there."""
        shown: dict[str, str] = {}
        while shown != states_of(self.servers):  # as long as the test may take
            overview = await surfaces.topic("overview")
            shown = {card["name"]: card["state"] for card in overview["servers"]}

    async def agree(self, surfaces: Surfaces) -> None:
        """Everything that MCPX shows, where nothing happens meanwhile."""
        await self.settled(surfaces)
        await self.reads(surfaces)
        await agree_on_states(surfaces, self.servers)
        await surfaces.agree(*self.ledgers)
        found = Counter(
            (line["client"], line["server"], line["name"], _end(line)) for line in await surfaces.lines()
        )
        assert found == self.asked


def _end(line: dict[str, Any]) -> str:
    """The end of a line of the audit log, in the words of docs/monitoring.md."""
    if line["outcome"] == "ok":
        return "ok"
    return "refused" if line["outcome"] == "not_sent" else "failed"


@asynccontextmanager
async def watched(house: Any, token: str) -> AsyncIterator[Surfaces]:
    """A daemon with its page and `top` open, which go on looking."""
    link = (await anyio.to_thread.run_sync(house.run, "ui", "--print")).stdout.strip()
    origin = f"http://{urlsplit(link).netloc}"
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(
            httpx2.AsyncClient(base_url=origin, headers={"origin": origin}, timeout=LOOK_S, trust_env=False)
        )
        assert (await http.get(link)).status_code == 200
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        tasks.start_soon(_look_at_page, http)
        tasks.start_soon(_look_at_top, house)
        yield Surfaces(house, http, f"{origin}/mcp", token)


async def _look_at_page(http: httpx2.AsyncClient) -> None:
    topics = "topic=overview&topic=calls&topic=history&topic=model"
    async with http.stream("GET", f"/ui/api/events?{topics}", timeout=None) as response:
        async for _ in response.aiter_lines():
            pass


async def _look_at_top(house: Any) -> None:
    polling, history, at = Polling(house.place), History(), 0.0
    while True:
        try:
            history.take(await anyio.to_thread.run_sync(polling.ask), at)
        except MCPXError:  # it has not answered soon enough, as `top` says then
            history.miss()
        at += 1.0
        await anyio.sleep(1.0)


async def examined(house: Any, *options: str) -> dict[str, Any]:
    """`mcpx doctor`, in a home whose clients all have MCPX."""
    environ = home_with_clients(house)

    def run() -> dict[str, Any]:
        done = run_cli(house.folder, "doctor", *options, "--json", "--config", house.config, **environ)
        return dict(json.loads(done.stdout))

    found = await anyio.to_thread.run_sync(run)
    clients = {each["subject"]: each for each in found["findings"] if each["section"] == "clients"}
    assert {name: each["details"]["tools"] for name, each in clients.items()} == dict.fromkeys(CLIENTS, 4)
    return found


async def test_after_a_month_every_figure_and_state_is_that_of_the_ledger(house):
    environ = home_with_clients(house)
    with scripted_issuer() as issuer:
        desk = Desk(house, issuer)
        put = "install", *CLIENTS, "--yes", "--config", house.config
        done = await anyio.to_thread.run_sync(lambda: run_cli(house.folder, *put, **environ))
        assert done.returncode == 0, done.stderr
        token = (await anyio.to_thread.run_sync(house.run, "token", "new", "meter")).stdout.strip()
        for part in range(2):  # the daemon is restarted between them
            desk.day, desk.deaths = Ledger(), 0
            async with watched(house, token) as surfaces:
                async with anyio.create_task_group() as tasks:
                    for _ in range(1 + part):
                        tasks.start_soon(examined, house, "--no-start")
                    for _ in range(part, DAYS, 2):
                        await desk.morning()
                await desk.settled(surfaces)
                starts = part == 0
                doctor_agrees(
                    await examined(house, *([] if starts else ["--no-start"])), desk.servers, starts=starts
                )
                await desk.agree(surfaces)
                if part == 0:
                    await desk.sign_in()
                    await desk.settled(surfaces)
            stopped = await anyio.to_thread.run_sync(house.run, "daemon", "stop")
            assert stopped.returncode == 0, stopped.stderr
