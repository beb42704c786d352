"""The query tool of `tiers`: what it says of itself, what it runs and refuses, on both paths and eras."""

from __future__ import annotations

import json

import anyio
import pytest

from tests.mcpx.core.gateway.native.test_tools import CHANGED, THREE, client_of
from tests.mcpx.scripted import config_of, entry, open_watched, soon

pytestmark = pytest.mark.anyio
FOUR = ["inspect", "query", "exec", "resources"]
ANY = {"type": "object"}
READ = {"readOnlyHint": True, "openWorldHint": False}
TOOLS = {
    "read": READ,
    "plain": None,
    "write": {"readOnlyHint": False},
    "liar": {"readOnlyHint": True, "destructiveHint": True},
    "odd": {"readOnlyHint": "true"},
    "safe": {"idempotentHint": True, "destructiveHint": False},
}


@pytest.fixture
def servers(tmp_path):
    """Servers by names, each with its tools by names, with their annotations."""

    def made(**tools_of):
        for name, tools in tools_of.items():
            listed = [
                {"name": tool, "inputSchema": ANY} | ({"annotations": hints} if hints else {})
                for tool, hints in tools.items()
            ]
            (tmp_path / name).write_text(json.dumps(listed))
        return {name: entry(tools=str(tmp_path / name)) for name in tools_of}

    return made


async def listed(line):
    return {tool["name"]: tool for tool in (await line.ask("tools/list", line.meta))["tools"]}


def named(tool, **more):
    return {"server_name": "s", "tool_name": tool, "arguments": {"text": "hi"}} | more


@pytest.mark.parametrize("modern", [False, True])
async def test_query_runs_read_only_tools_alone_and_exec_all(servers, modern):
    config = config_of(servers(s=TOOLS), tiers=True)
    async with open_watched(config) as watch, client_of(watch, modern=modern) as line:
        await line.names()
        for line.slow in (False, True):
            for tool in TOOLS:
                by_exec = await line.call("exec", named(tool))
                assert by_exec["content"][0]["text"] == "hi"
                by_query = await line.call("query", named(tool))
                if tool == "read":
                    assert by_query == by_exec
                    continue
                assert by_query["isError"]
                assert "exec(server_name, tool_name, arguments)" in by_query["content"][0]["text"]
                error = by_query["structuredContent"]
                assert (error["code"], error["outcome"]) == ("invalid_arguments", "not_sent")
                assert (error["server"], error["tool"]) == ("s", tool)
        assert line.fast == 2 * len(TOOLS)


async def test_both_paths_give_the_same_answers_to_query(servers):
    async with open_watched(config_of(servers(s=TOOLS), tiers=True)) as watch, client_of(watch) as line:
        for arguments in (
            named("read"),
            named("read", arguments=[1]),
            named("read", max_tokens=-1),
            named("nothing"),
            named("read", server_name="nobody"),
            {},
            {"tool_name": "read", "text": "hi"},
            {"server_name": "s.read"},
        ):
            answers = []
            for line.slow in (False, True):
                answers.append(await line.call("query", arguments))
            assert answers[0] == answers[1]


async def test_query_is_listed_and_annotated_only_with_tiers(servers):
    config = config_of(servers(s=TOOLS))
    async with open_watched(config) as watch, client_of(watch) as line:
        without = await listed(line)
        assert list(without) == THREE
        for line.slow in (False, True):
            assert await line.call("query", named("read")) is None
            assert line.error["message"].startswith("Unknown tool: query")
            assert "MCPX has inspect, exec and resources" in line.error["message"]
        assert "query" not in line.server.instructions.replace("inspect(query)", "")
        await watch.hub.reload(config_of(servers(s=TOOLS), tiers=True))
        await line.hear(CHANGED)
        tools = await listed(line)
        assert list(tools) == FOUR
        query, run = tools["query"], tools["exec"]
        assert query["annotations"] == {
            "readOnlyHint": True,
            "destructiveHint": False,
            "openWorldHint": False,
        }
        assert query["inputSchema"] == run["inputSchema"]
        assert query["_meta"] == run["_meta"]
        assert run["annotations"] == without["exec"]["annotations"]
        assert "query" in run["description"]
        assert "*read(" in tools["inspect"]["description"]
        assert "*" not in without["inspect"]["description"]
        for tool in TOOLS.keys() - {"read"}:
            assert f"*{tool}" not in tools["inspect"]["description"]
        assert "The tool query runs a read-only one" in line.server.instructions
        assert await line.call("qery", {}) is None
        assert "query" in line.error["message"]
        await watch.hub.reload(config)
        await line.hear(CHANGED)
        assert await listed(line) == without


@pytest.mark.parametrize(
    ("tools_of", "open_world"),
    [
        ({"s": TOOLS, "t": {"read": READ}}, False),
        ({"s": TOOLS, "t": {"read": {"readOnlyHint": True}}}, True),
        ({"s": TOOLS, "t": {"read": READ | {"openWorldHint": True}}}, True),
        ({"s": {"write": None}}, False),
    ],
)
async def test_query_is_of_a_closed_world_where_all_that_it_runs_is(servers, tools_of, open_world):
    config = config_of(servers(**tools_of), tiers=True)
    async with open_watched(config) as watch, client_of(watch) as line:
        assert (await listed(line))["query"]["annotations"]["openWorldHint"] is open_world


@pytest.mark.parametrize(("choice", "names"), [("both", [*FOUR, "s__read"]), ("all", ["s__read"])])
async def test_native_tools_stand_beside_the_four(servers, choice, names):
    config = config_of(servers(s={"read": READ}), tiers=True)
    async with open_watched(config) as watch, client_of(watch, choice) as line:
        assert await line.names() == names


async def test_query_is_metered_as_exec_is(servers):
    async with open_watched(config_of(servers(s=TOOLS), tiers=True)) as watch, client_of(watch) as line:
        for line.slow in (False, True):
            await line.call("query", named("read"))
        assert watch.hub.meter.since_start().tools["s"]["read"].calls == 2


@pytest.mark.parametrize("others", [{}, {"call_timeout": 7}])
async def test_tiers_are_in_force_whatever_else_a_reload_changes(servers, others):
    made = servers(s=TOOLS)
    async with open_watched(config_of(made)) as watch, client_of(watch) as line:
        assert await line.names() == THREE
        await watch.hub.reload(config_of({"s": made["s"] | others}, tiers=True))
        await line.hear(CHANGED)
        assert await line.names() == FOUR
        assert (await line.call("query", named("read")))["isError"] is False


async def test_tiers_are_in_force_without_any_server():
    async with open_watched(config_of({})) as watch, client_of(watch) as line:
        assert await line.names() == THREE
        await watch.hub.reload(config_of({}, tiers=True))
        await line.hear(CHANGED)
        assert await line.names() == FOUR
        await watch.hub.reload(config_of({}))
        assert await line.names() == THREE


async def test_annotations_of_the_configuration_decide(servers):
    hints = {"read": {"readOnlyHint": False}, "s.plain": {"readOnlyHint": True, "openWorldHint": False}}
    config = config_of(servers(s=TOOLS), tiers=True, annotations=hints)
    async with open_watched(config) as watch, client_of(watch) as line:
        tools = await listed(line)
        assert "*plain(" in tools["inspect"]["description"]
        assert "*read(" not in tools["inspect"]["description"]
        for line.slow in (False, True):
            assert (await line.call("query", named("read")))["isError"] is True
            assert (await line.call("query", named("plain")))["isError"] is False
        await watch.hub.reload(config_of(servers(s=TOOLS), tiers=True, trust_annotations=False))
        for line.slow in (False, True):
            assert (await line.call("query", named("read")))["isError"] is True
            assert (await line.call("query", named("plain")))["isError"] is True
        assert "*" not in (await listed(line))["inspect"]["description"].partition("\n## ")[2]


async def test_a_call_that_waits_is_not_sent_once_its_tool_is_not_read_only(servers, ears):
    def config(**settings):
        made = servers(s=TOOLS | {"hang": None, "release": None})["s"]["args"][-1]
        script = json.loads(made)
        return config_of({"s": entry(ears, **script)}, tiers=True, max_concurrency=1, **settings)

    async with open_watched(config()) as watch, client_of(watch) as line, anyio.create_task_group() as tasks:
        tasks.start_soon(watch.outcome, "hang")
        await ears.hear("call", tool="hang")
        answers = []

        async def query():
            answers.append(await line.call("query", named("read")))

        tasks.start_soon(query)
        await soon(lambda: watch.hub.upstreams["s"].queue.waiting)
        await watch.hub.reload(config(annotations={"read": {"readOnlyHint": False}}))
        await soon(lambda: answers)
        assert answers[0]["structuredContent"]["outcome"] == "not_sent"
        assert not ears.of("call", tool="read")
        tasks.cancel_scope.cancel()
