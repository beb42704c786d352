"""Two gateways of one cluster, each a whole hub with servers of its own, over one store."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest
from structlog.testing import capture_logs

from mcpx.cluster.gateways import sharing
from mcpx.cluster.gateways.sharing import Sharing
from mcpx.core.catalog.snapshot import State
from mcpx.core.config import load
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.pin_reviews import approve, waiting
from mcpx.core.policy.pin_review import Agreed
from mcpx.errors import CallError, Code, ConfigError, MCPXError
from tests.mcpx.cluster.memory_store import MemoryStore
from tests.mcpx.scripted import PATIENCE_S, entry, soon

pytestmark = pytest.mark.anyio

WITHIN_S = 2.0  # an approval at one gateway holds at all


class Gateway:
    """A running hub that shares the store."""

    def __init__(self, hub: Hub, shared: Sharing) -> None:
        self.hub, self.sharing = hub, shared

    async def runs(self, tool):
        """None where a call is answered, else its code."""
        try:
            await self.hub.calls.exec("s", tool, {})
        except CallError as error:
            return error.code
        return None

    def waits(self):
        return [
            (each["kind"], each.get("tool"), each.get("digest"))
            for server in waiting(self.hub, None, None)["waiting"]
            for each in server["changes"]
        ]

    async def approves(self):
        agreed = [Agreed("s", *each) for each in self.waits()]
        assert agreed
        await approve(self.hub, agreed, of_all=False)

    def others(self):
        return [row for row in self.sharing.status()["gateways"] if not row["self"]]


class House:
    """A server whose tools a test changes, and gateways to it. All have the same configuration."""

    def __init__(self, folder):
        self.folder, self.store = folder, MemoryStore()
        self.tools = folder / "tools.json"
        self.describe("Commits.")

    def describe(self, text):
        tool = {"name": "commit", "description": text, "inputSchema": {"type": "object"}}
        self.tools.write_text(json.dumps([tool]))

    def config(self, name, **settings):
        (folder := self.folder / name).mkdir(exist_ok=True, mode=0o700)
        entries = {"s": entry(settings={"start": "eager"}, tools=str(self.tools))}
        text = {"shutdown_grace": 0.2, "login_shell": False, "pin": "block", **settings}
        (folder / "config.json").write_text(json.dumps(text | {"mcpServers": entries}))
        return folder / "config.json"

    @asynccontextmanager
    async def gateway(self, name, **settings):
        file = self.config(name, **settings)
        hub = Hub(load(str(file)), state=file.parent / "state")
        shared = Sharing(hub, self.store, gateway=name)
        hub.root.add(shared.child())
        async with anyio.create_task_group() as tasks:
            await tasks.start(hub.run)
            try:
                await hub.settled(PATIENCE_S)
                yield Gateway(hub, shared)
            finally:
                hub.stop()

    @asynccontextmanager
    async def two(self, **settings):
        async with AsyncExitStack() as stack:
            both = [await stack.enter_async_context(self.gateway(name, **settings)) for name in ("a", "b")]
            with anyio.fail_after(PATIENCE_S):
                await soon(lambda: all(each.others() for each in both))
            yield both


@pytest.fixture
def quick(monkeypatch):
    """Rounds that follow on each other, where a test is not about the time that they take."""
    monkeypatch.setattr(sharing, "ROUND_S", 0.02)


@pytest.fixture
def house(tmp_path):
    tmp_path.chmod(0o700)
    return House(tmp_path)


async def test_an_approval_at_one_gateway_holds_at_the_other_within_two_seconds(house):
    async with house.two() as (a, b):
        house.describe("Commits, and mails it.")
        for each in (a, b):
            await each.hub.restart("s")
            await soon(lambda gateway=each: gateway.hub.upstreams["s"].info().state is State.READY)
            await soon(lambda gateway=each: gateway.waits())
            assert await each.runs("commit") is Code.NOT_APPROVED
        await a.approves()
        assert await a.runs("commit") is None
        with anyio.fail_after(WITHIN_S):
            await soon(lambda: not b.waits())
        assert await b.runs("commit") is None


@pytest.mark.usefixtures("quick")
async def test_a_changed_server_is_not_new_at_a_gateway_that_joins_later(house):
    async with house.gateway("a") as a:
        await soon(lambda: a.hub.fleet.pins.of(a.hub.config.servers["s"]).record.state == "pinned")
        await soon(lambda: any("/pins/" in key for key in house.store.values))
        house.describe("Commits, and mails it.")
        async with house.gateway("b") as b:
            assert await b.runs("commit") is Code.NOT_APPROVED  # from the first moment on
            await soon(b.waits)
            assert [each[:2] for each in b.waits()] == [("changed", "commit")]


async def test_without_the_store_a_gateway_serves_by_what_it_knows_and_says_so_once(house, monkeypatch):
    monkeypatch.setattr(sharing, "PATIENCE_S", 0.3)
    monkeypatch.setattr(sharing, "ROUND_S", 0.02)
    house.store.away = "Ray cannot be asked"
    with capture_logs() as logs:
        async with house.gateway("a") as a:
            await soon(lambda: a.sharing.problem)
            assert await a.runs("commit") is None  # seen first here, because nobody else can be asked
            assert a.sharing.status()["not_shared"] == "Ray cannot be asked"
            before = house.store.requests
            await soon(lambda: house.store.requests > before + 5)
            house.store.away = None
            await soon(lambda: a.sharing.problem is None)
            await soon(lambda: any("/pins/" in key for key in house.store.values))
    assert [line["event"] for line in logs].count("gateways.store_away") == 1


@pytest.mark.usefixtures("quick")
async def test_each_gateway_lists_the_others_until_they_leave(house, monkeypatch):
    async with house.gateway("a") as a:
        async with house.gateway("b") as b:
            await soon(lambda: a.others() and b.others())
            (row,) = a.others()
            assert (row["id"], row["same_config"], row["self"]) == ("b", True, False)
            assert row["pid"] == a.sharing.own.pid
        await soon(lambda: not a.others())
        monkeypatch.setattr(sharing, "EXPIRY_S", -1.0)  # one that was killed is silent
        async with house.gateway("b"):
            await soon(lambda: any("members/b/" in key for key in house.store.values))
            assert a.others() == []


@pytest.mark.usefixtures("quick")
async def test_a_configuration_that_differs_is_shown(house):
    async with house.two(watch_config=False) as (a, b):
        assert [row["same_config"] for row in (*a.others(), *b.others())] == [True, True]
        house.config("b", watch_config=False, queue_size=7)
        await b.hub.file.reload()
        await b.sharing.say()
        await soon(lambda: not a.others()[0]["same_config"])


@pytest.mark.usefixtures("quick")
async def test_a_reload_of_all_has_each_read_its_own_file(house):
    async with house.two(watch_config=False) as (a, b):
        for name in ("a", "b"):
            house.config(name, watch_config=False, approve_timeout=33)
        with anyio.fail_after(WITHIN_S + 1):
            rows = await a.sharing.reload_all()
        assert [each.hub.config.approve_timeout for each in (a, b)] == [33, 33]
        assert [(row["id"], row["reloaded"], row["same_config"]) for row in rows] == [
            ("a", True, True),
            ("b", True, True),
        ]


@pytest.mark.usefixtures("quick")
async def test_a_reload_that_one_cannot_do_is_said_by_that_one(house):
    async with house.two(watch_config=False) as (a, b):
        (house.folder / "b" / "config.json").write_text("{")
        rows = await a.sharing.reload_all()
        assert [row["reloaded"] for row in rows] == [True, False]
        assert "config.json" in rows[1]["problem"]
        with pytest.raises(ConfigError):
            await b.sharing.reload_all()  # its own first: the others are not asked
        assert a.sharing.own.reloaded == 1


@pytest.mark.usefixtures("quick")
async def test_without_the_store_the_own_file_is_read_and_the_error_says_so(house):
    async with house.gateway("a", watch_config=False) as a:
        await soon(lambda: house.store.values)
        house.config("a", watch_config=False, approve_timeout=33)
        house.store.away = "Ray cannot be asked"
        with pytest.raises(MCPXError, match="Ray cannot be asked"):
            await a.sharing.reload_all()
        assert a.hub.config.approve_timeout == 33


@pytest.mark.usefixtures("quick")
async def test_what_others_say_of_themselves_is_bounded(house):
    async with house.gateway("a") as a:
        say = {"id": "x", "host": "\x1b[31mevil" * 1000, "pid": 1, "version": "v"}
        house.store.values["gateways/members/x/000000000001"] = json.dumps(say)
        house.store.values["gateways/members/y/000000000001"] = "no JSON"
        await soon(a.others)
        (row,) = a.others()
        assert len(row["host"]) <= sharing.MAX_TEXT + 3  # the dots
        assert "\x1b" not in row["host"]
