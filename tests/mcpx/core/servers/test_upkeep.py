"""Planned restarts: of servers that grow, are old, have had their calls, or were edited; and own timeouts."""

from __future__ import annotations

import anyio
import pytest

from mcpx.core.servers import upkeep
from mcpx.core.system.processes import tree_memory
from mcpx.errors import Code
from tests.mcpx.scripted import one_server, soon

pytestmark = pytest.mark.anyio
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(upkeep, "LOOK_S", 0.02)
    monkeypatch.setattr(upkeep, "QUIET_S", 0.05)
    monkeypatch.setattr(upkeep, "PATIENCE_S", 0.2)


async def restarted(ears, count=2):
    return await ears.hear("started", count=count)


async def edited(ears, file, text="x"):
    """Write a file until the server is restarted for it: its folder is watched soon, not at once."""
    before = len(ears.of("started"))

    async def write():
        while True:
            file.write_text(text)
            await anyio.sleep(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        await restarted(ears, before + 1)
        tasks.cancel_scope.cancel()


HOARDS = {"tools/call count": [{"hoard": 30 * MIB}, {"say": "@{pid}"}]}


async def test_a_server_that_grows_is_restarted_between_calls_and_none_is_lost(ears):
    settings = {"limits": {"memory": 150 * MIB}}
    async with one_server(ears, settings=settings, answers=HOARDS) as watch:
        pids = [await watch.text("count") for _ in range(12)]
        await restarted(ears)
        failures = watch.hub.upstreams["s"].queue.lifecycle().failures
        assert (len(set(pids)) > 1 or ears.of("started")) and failures == 0
        assert await watch.text("count")


async def test_a_load_that_never_pauses_is_held_and_goes_on(ears):
    settings = {"limits": {"memory": 200 * MIB}}
    answers = {"tools/call count": [{"hoard": 4 * MIB}, {"sleep": 0.02}, {"say": "ok"}]}
    outcomes = []

    async with one_server(ears, settings=settings, answers=answers) as watch:

        async def caller():
            outcomes.extend([await watch.outcome("count") for _ in range(40)])

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(caller)
        await restarted(ears)
    assert outcomes == [None] * 160


async def test_fast_growth_is_noticed_before_it_is_twice_the_limit(ears, monkeypatch):
    monkeypatch.setattr(upkeep, "LOOK_S", 60)
    monkeypatch.setattr(upkeep, "PATIENCE_S", 60)
    seen, outcomes = [], []

    def look(pid, limit):
        seen.append(tree_memory(pid, limit))
        return seen[-1]

    monkeypatch.setattr(upkeep, "tree_memory", look)
    settings = {"limits": {"memory": 150 * MIB}}
    answers = {"tools/call count": [{"hoard": 5 * MIB}, {"sleep": 0.02}, {"say": "ok"}]}
    async with one_server(ears, settings=settings, answers=answers) as watch:

        async def caller():
            outcomes.extend([await watch.outcome("count") for _ in range(25)])

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(caller)
    assert outcomes == [None] * 100
    assert 100 * MIB < max(seen) <= 300 * MIB


async def test_twice_the_memory_cannot_wait(ears, monkeypatch):
    monkeypatch.setattr(upkeep, "PATIENCE_S", 60)
    answers = {"tools/call count": [{"hoard": 400 * MIB}, {"hold": "it"}, {"say": "late"}]}
    settings = {"limits": {"memory": 100 * MIB}}
    async with one_server(ears, settings=settings, answers=answers) as watch:
        error = await watch.failure("count")
        assert error.code is Code.SERVER_DIED
        await restarted(ears)


async def test_a_limit_that_is_too_low_restarts_nothing(ears, caplog):
    async with one_server(ears, settings={"limits": {"memory": MIB}}) as watch:
        for _ in range(5):
            await watch.text("echo", {"text": "x"})
            await anyio.sleep(0.03)  # looks
    assert len(ears.of("started")) == 1


@pytest.mark.parametrize("setting", [{"max_calls": 3}, {"max_uptime": 0.15}], ids=str)
async def test_calls_and_uptime(ears, setting):
    async with one_server(ears, settings=setting) as watch:
        for _ in range(4):
            await watch.text("echo", {"text": "x"})
        await restarted(ears)
        assert await watch.text("echo", {"text": "x"})


async def test_the_number_of_calls_is_exact(ears):
    settings = {"max_calls": 3}
    async with one_server(ears, settings=settings, answers={"tools/call count": "@{pid}"}) as watch:
        pids = [await watch.text("count") for _ in range(9)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 3]


async def test_no_restart_before_the_number_of_calls(ears):
    async with one_server(ears, settings={"max_calls": 1000}) as watch:
        for _ in range(4):
            await watch.text("echo", {"text": "x"})
    assert len(ears.of("started")) == 1


async def test_a_call_in_flight_is_waited_for_and_others_wait_with_it(ears, tmp_path):
    done = tmp_path / "done"
    answers = {"tools/call count": [{"until": str(done)}, {"say": "@{pid}"}], "tools/call hang": "@{pid}"}
    said = {}
    async with one_server(ears, settings={"max_calls": 1}, answers=answers) as watch:

        async def call(tool):
            said[tool] = await watch.text(tool)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "count")
            queue = watch.hub.upstreams["s"].queue
            await soon(lambda: queue.in_flight == 1)
            await soon(lambda: queue.ref.mailbox._consumer is None)
            tasks.start_soon(call, "hang")
            await soon(lambda: queue.waiting == 1)
            assert len(ears.of("started")) == 1
            done.touch()
    assert said["count"] != said["hang"]


async def test_an_edited_file_restarts_and_its_tools_are_new(ears, tmp_path):
    (tmp_path / "src" / "deep").mkdir(parents=True)
    tools = tmp_path / "tools.json"
    tools.write_text('[{"name": "old", "inputSchema": {"type": "object"}}]')
    settings = {"watch": ["src/**", "*.json"], "cwd": str(tmp_path)}
    async with one_server(ears, settings=settings, tools=str(tools)) as watch:
        (tmp_path / "other.txt").write_text("x")
        await edited(ears, tmp_path / "src" / "deep" / "a.py")
        await watch.until(lambda: watch.hub.upstreams["s"].info().ready)
        await edited(ears, tools, '[{"name": "new", "inputSchema": {"type": "object"}}]')
        await watch.until(lambda: list(watch.hub.upstreams["s"].catalogue.tools) == ["new"])


async def test_a_file_that_is_not_watched(ears, tmp_path):
    settings = {"watch": ["src/*.py"], "cwd": str(tmp_path)}
    (tmp_path / "src").mkdir()
    async with one_server(ears, settings=settings):
        (tmp_path / "x.py").write_text("x")
        (tmp_path / "src" / "x.txt").write_text("x")
        await anyio.sleep(0.5)
        assert len(ears.of("started")) == 1
        await edited(ears, tmp_path / "src" / "x.py")


async def test_a_tool_has_a_timeout_of_its_own(ears):
    answers = {"tools/call count": [{"hold": "it"}], "tools/call hang": [{"sleep": 0.4}, {"say": "done"}]}
    settings = {"timeouts": {"cou*": 0.2, "hang": 30}, "call_timeout": 0.3, "health_check_enabled": False}
    async with one_server(ears, settings=settings, answers=answers) as watch:
        error = await watch.failure("count")
        assert error.code is Code.TIMEOUT
        assert "within 0.2 s" in str(error)
        assert await watch.text("hang") == "done"


async def test_the_usual_timeout_is_that_of_all_others(ears):
    answers = {"tools/call count": [{"hold": "it"}]}
    settings = {"timeouts": {"other": 30}, "call_timeout": 0.2, "health_check_enabled": False}
    async with one_server(ears, settings=settings, answers=answers) as watch:
        assert "within 0.2 s" in str(await watch.failure("count"))
