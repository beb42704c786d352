"""A control request whose arguments cannot be read is refused as any client's call."""

from __future__ import annotations

import json

import pytest

from mcpx.gateway.frontends.control import Control
from tests.mcpx.scripted import one_server

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
