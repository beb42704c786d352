"""A scripted month of a desk: three clients, twelve servers, six of which want something; and a ledger.

Two servers need setup, one is switched off, one wants a sign-in and gets it, one dies now and then, one is
out of reach. Doctor is run five times, the page and `top` are open, and the daemon is restarted. Two days
are played in the suite; `MCPX_TEST_DAYS=30` plays them all.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from mcpx.cli.top.history import History
from mcpx.cli.top.polling import Polling
from mcpx.errors import MCPXError
from tests.mcpx.daemon.ledger import Ledger, Surfaces, home_with_clients
from tests.mcpx.oauth.scripted_issuer import scripted_issuer
from tests.mcpx.oauth.signing_in import free_port
from tests.mcpx.scripted import PATIENCE_S, entry
from tests.mcpx.scripted_server import TOOLS
from tests.mcpx.serving import LEGACY, Served, run_cli, serving

DAYS = int(os.environ.get("MCPX_TEST_DAYS", "2"))
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120 + 60 * DAYS)]
GOOD = ("files", "git", "memo", "shop", "time", "web")
CLIENTS = ("claude-code", "codex", "cursor")
DOCTOR_RUNS = 5
CALLS = 6  # of a client a day, besides one to each server that wants something
SEED = 27


class Desk:
    """The servers as the test knows them, and what the clients do with them."""

    def __init__(self, house: Any, issuer: Any) -> None:
        self.house = house
        self.issuer = issuer
        self.random = random.Random(SEED)
        self.day, self.month = Ledger(), Ledger()
        self.mail: list[dict[str, Any]] = []
        self.states = {
            **dict.fromkeys((*GOOD, "flaps"), "ready"),
            **dict.fromkeys(("keyless", "homeless"), "needs setup"),
            "off": "disabled",
            "mail": "needs sign-in",
            "away": "parked",
        }
        at_once = {"restart": {"park_after": 1, "park_probe": 3600}}
        house.write(
            {
                **{name: entry() for name in GOOD},
                "flaps": entry(),
                "keyless": {**entry(), "env": {"KEY": "${NOBODY_HAS_SET_THIS}"}},
                "homeless": {**entry(), "cwd": "gone"},
                "off": {**entry(), "disabled": True},
                "mail": {"url": issuer.mcp_url},
                "away": {"url": f"http://127.0.0.1:{free_port()}/mcp", "queue_timeout": 0.2} | at_once,
            },
            http={"port": 0},
            start="eager",
            startup_wait=30,
            login_port=free_port(),
            login_shell=False,
        )

    @property
    def ledgers(self) -> tuple[Ledger, Ledger]:
        """Of the daemon's own time, and of all time."""
        return self.day, self.month

    async def morning(self) -> None:
        """Each client comes, lists its tools, works, and leaves."""
        for name in CLIENTS:
            attach = "attach", "--config", self.house.config
            async with serving(self.house.folder, *attach) as client:
                about = {"name": name, "version": "9"}
                hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": about}
                await client.request("initialize", hello)
                await client.send("notifications/initialized")
                tools = (await client.request("tools/list"))["tools"]
                for ledger in self.ledgers:
                    ledger.menu(name, tools, [*[TOOLS] * (len(GOOD) + 1), self.mail])
                await self.work(client, name)

    async def work(self, client: Served, name: str) -> None:
        for number in range(CALLS):
            server = self.random.choice(GOOD)
            tool, end, text = self.random.choice(
                (("echo", "ok", f"note {number}"), ("fail", "failed", "no"), ("nothing", "refused", ""))
            )
            await self.call(client, name, server, tool, end, text=text)
        await self.call(client, name, "flaps", "die", "failed")
        await self.call(client, name, "flaps", "echo", "ok", text="back again")
        for server in ("keyless", "homeless", "off", "away"):
            await self.call(client, name, server, "echo", "refused", text="x")
        if self.mail:
            await self.call(client, name, "mail", "count", "ok", key=f"{name} {self.random.random()}")
        else:
            await self.call(client, name, "mail", "count", "refused", key="k")

    async def call(self, client: Served, name: str, server: str, tool: str, end: str, **given: str) -> None:
        result = await client.call("exec", server_name=server, tool_name=tool, arguments=given)
        assert result.get("isError", False) == (end != "ok"), (server, tool, result)
        for ledger in self.ledgers:
            ledger.call(name, server, end)
            ledger.read(name, result, next(iter(given.values())) if end == "ok" else "")

    async def sign_in(self) -> None:
        """The person signs in to `mail`, whose tools are on the menu from then on."""

        def login() -> None:
            done = run_cli(
                *(self.house.folder, "login", "mail", "--config", self.house.config),
                BROWSER=self.issuer.browser_command(),
            )
            assert done.returncode == 0, done.stderr

        await anyio.to_thread.run_sync(login)
        async with serving(
            self.house.folder, "attach", "--config", self.house.config, "--server", "mail"
        ) as plain:
            await plain.initialize()
            self.mail = (await plain.request("tools/list"))["tools"]
        self.states["mail"] = "ready"

    async def settled(self) -> None:
        """Every server is as it is to be: some take their time to get there."""
        shown: dict[str, str] = {}
        with anyio.fail_after(4 * PATIENCE_S):  # each look is a process
            while shown != self.states:
                status = await anyio.to_thread.run_sync(self.house.status)
                shown = {row["name"]: row["state"] for row in status["servers"]}

    async def states_agree(self, surfaces: Surfaces) -> None:
        """Each surface says of each server the state that it has."""
        for command in ("list", "status"):
            rows = json.loads(await surfaces.run(command, "--json"))["servers"]
            assert {row["name"]: row["state"] for row in rows} == self.states, command
        overview = await surfaces.topic("overview")
        assert {card["name"]: card["state"] for card in overview["servers"]} == self.states
        scraped = (await surfaces.scrape())["mcpx_server_state"]
        assert {name: state for (name, state), value in scraped.items() if value} == self.states


@asynccontextmanager
async def watched(house: Any) -> AsyncIterator[Surfaces]:
    """A daemon with its page and `top` open, which go on looking."""
    assert (await anyio.to_thread.run_sync(house.run, "daemon", "start")).returncode == 0
    status = await anyio.to_thread.run_sync(house.status)
    while not (status["daemon"]["http"] or {}).get("url"):
        status = await anyio.to_thread.run_sync(house.status)
    made = await anyio.to_thread.run_sync(house.run, "token", "new", f"meter{status['daemon']['pid']}")
    link = (await anyio.to_thread.run_sync(house.run, "ui", "--print")).stdout.strip()
    origin = f"http://{urlsplit(link).netloc}"
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(
            httpx2.AsyncClient(
                base_url=origin, headers={"origin": origin}, timeout=4 * PATIENCE_S, trust_env=False
            )
        )
        assert (await http.get(link)).status_code == 200
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        tasks.start_soon(_look_at_page, http)
        tasks.start_soon(_look_at_top, house)
        yield Surfaces(house, http, status["daemon"]["http"]["url"], made.stdout.strip())


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
        await anyio.sleep(0.2)


async def examined(house: Any, *options: str) -> None:
    """`mcpx doctor`, in a home whose clients all have MCPX."""
    environ = home_with_clients(house)

    def run() -> None:
        done = run_cli(house.folder, "doctor", *options, "--json", "--config", house.config, **environ)
        found = {each["subject"]: each for each in json.loads(done.stdout)["findings"]}
        for client in CLIENTS:
            assert found[client]["details"]["tools"] == 3, found[client]

    await anyio.to_thread.run_sync(run)


async def test_after_a_month_every_figure_and_state_is_that_of_the_ledger(house):
    environ = home_with_clients(house)
    with scripted_issuer() as issuer:
        desk = Desk(house, issuer)
        put = "install", *CLIENTS, "--yes", "--config", house.config
        done = await anyio.to_thread.run_sync(lambda: run_cli(house.folder, *put, **environ))
        assert done.returncode == 0, done.stderr
        for part in range(2):  # the daemon is restarted between them
            desk.day = Ledger()
            async with watched(house) as surfaces:
                for day in range(part, DAYS, 2):
                    await desk.morning()
                    for number in range(day, DOCTOR_RUNS, DAYS):
                        await examined(house, *(["--no-start"] if number else []))
                if part == 0:
                    await desk.settled()
                    await desk.states_agree(surfaces)
                    await surfaces.agree(*desk.ledgers)
                    await desk.sign_in()
                await desk.settled()
                await desk.states_agree(surfaces)
                await surfaces.agree(*desk.ledgers)
            stopped = await anyio.to_thread.run_sync(house.run, "daemon", "stop")
            assert stopped.returncode == 0, stopped.stderr
        lines = await surfaces.lines()
        assert len(lines) == sum(desk.month.total.values())
