"""What is answered to control requests: of calls that cannot be read, of statistics, and at endpoints."""

from __future__ import annotations

import json

import pytest

from mcpx.core.gateway.frontends.control import Control
from mcpx.core.system.endpoint import Endpoint
from tests.mcpx.scripted import config_of, entry, one_server, open_watched

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("arguments", ['{"a":1e400}', '{"a":%s}' % ("9" * 5000), "[" * 50_000 + "]" * 50_000])
async def test_unreadable_arguments(arguments):
    line = b'{"mcpx":"exec","server":"s","tool":"echo","arguments":%s}' % arguments.encode()
    async with one_server() as watch:
        response, request = await Control(watch.hub, lambda: 0).answer(line)
    error = json.loads(response)
    assert (error["code"], error["outcome"], error["tool"]) == ("invalid_arguments", "not_sent", "echo")
    assert request is None


async def test_stats_are_of_this_process_and_of_all_time():
    async with one_server() as watch:
        watch.hub.meter.note_listing(object(), "c", 10)
        response, request = await Control(watch.hub, lambda: 0).answer(b'{"mcpx":"stats"}')
    answer = json.loads(response)
    assert request is not None
    assert request.mcpx == "stats"
    assert answer["all_time"] == answer["since_start"]
    assert answer["all_time"]["total"]["spent"] == 10
    assert [row["client"] for row in answer["all_time"]["clients"]] == ["c"]


@pytest.mark.parametrize("line", [b"{", b"[" * 50_000, b'{"mcpx":5}', b'{"mcpx":"status","arguments":1e400}'])
async def test_what_is_no_request(line):
    async with one_server() as watch:
        response, request = await Control(watch.hub, lambda: 0).answer(line)
    error = json.loads(response)
    assert error["usage"]
    assert "not a control request" in error["error"]
    assert request is None


async def test_attach_and_the_tools_look_through_the_endpoint_that_is_named():
    servers = {"s": entry(), "other": entry()}
    profiles = {"work": {"servers": ["s"], "tools": {"s": ["echo"]}}}
    async with open_watched(config_of(servers, profiles=profiles)) as watch:
        control = Control(watch.hub, lambda: 0)

        async def ask(**message):
            response, request = await control.answer(json.dumps(message).encode())
            return json.loads(response), request

        answer, request = await ask(mcpx="attach", profile="work", only=["s"])
        assert request.endpoint == Endpoint(profile="work", only=("s",))
        assert "attached" in answer
        for wrong, named in (
            ({"profile": "wrok"}, 'did you mean "work"?'),
            ({"only": ["othr"]}, 'did you mean "other"?'),
            ({"only": ["other"], "profile": "work"}, 'there is "s"'),
        ):
            for operation in ("attach", "inspect"):
                answer, request = await ask(mcpx=operation, **wrong)
                assert named in answer["error"]
                assert request is None
        listed, _ = await ask(mcpx="inspect", profile="work")
        assert [(each["name"], each["tools"]) for each in listed["servers"]] == [("s", 1)]
        ran, _ = await ask(mcpx="exec", profile="work", server="s", tool="echo", arguments={"text": "hi"})
        assert ran["shaped"]["content"][0]["text"] == "hi"
        hidden, _ = await ask(mcpx="exec", profile="work", server="s", tool="count")
        assert hidden["code"] == "unknown_tool"
        hidden, _ = await ask(mcpx="resources", profile="work", server="other")
        assert hidden["code"] == "unknown_server"
