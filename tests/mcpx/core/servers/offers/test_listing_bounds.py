"""What a server lists is bounded as a whole; what goes beyond that is named, and the rest works."""

from __future__ import annotations

import json
import time

import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.status_snapshot import snapshot
from mcpx.core.servers.offers.entries import MAX_TEXT_CHARS
from mcpx.core.servers.offers.pages import MAX_ENTRIES
from tests.mcpx.core.servers.raw import ECHO, OBJECT, heard, initialize, raw_server, result, tools

pytestmark = pytest.mark.anyio


def many(number: int, **more: str) -> list[dict]:
    return [{"name": f"t{n}", "inputSchema": OBJECT, **more} for n in range(number)]


def only(watch):
    (one,) = watch.hub.upstreams["s"].info().left_out
    return one


async def test_of_a_hundred_thousand_tools_the_first_ten_thousand_are_kept(tmp_path):
    answers = {"tools/list": result({"tools": [ECHO, *many(99_999)]})}
    async with raw_server(tmp_path, answers=answers) as watch:
        assert len(watch.hub.registry.list_tools("s")) == MAX_ENTRIES
        one = only(watch)
        assert (one.kind, one.count) == ("tool", 90_000)
        assert "the first 10,000 are kept" in one.reason
        assert await watch.text("echo", {}) == "pong"
        assert await watch.text("t9998", {}) == "pong"


async def test_the_four_lists_share_their_bounds(tmp_path):
    answers = {
        "initialize": initialize(capabilities={"tools": {}, "prompts": {}}),
        "tools/list": tools(*many(MAX_ENTRIES - 3)),
        "prompts/list": result({"prompts": [{"name": f"p{n}"} for n in range(5)]}),
    }
    async with raw_server(tmp_path, answers=answers) as watch:
        assert len(watch.hub.registry.list_tools("s")) == MAX_ENTRIES - 2
        assert [each.name for each in watch.hub.upstreams["s"].catalogue.prompts] == ["p0", "p1"]
        assert (only(watch).kind, only(watch).count) == ("prompt", 3)


async def test_pages_without_an_end_are_left_when_the_bytes_are_used_up(tmp_path):
    """5 MB a page: at the default limit of 64 MiB this is fourteen of them."""
    page = [{"name": "t@N@", "inputSchema": OBJECT, "description": "d" * 5_000_000}, ECHO]
    line = result({"tools": page, "nextCursor": "@N@"})
    async with raw_server(tmp_path, answers={"tools/list": line}) as watch:
        assert await watch.text("echo", {}) == "pong"
        assert heard(tmp_path).count("tools/list") == 14
        assert len(watch.hub.registry.list_tools("s")) == 14


async def test_a_monstrous_description_is_cut(tmp_path):
    answers = {
        "initialize": initialize(capabilities={"tools": {}}, instructions="i" * 100_000),
        "tools/list": tools({"name": "big", "inputSchema": OBJECT, "description": "d" * 21_000_000}),
    }
    async with raw_server(tmp_path, answers=answers) as watch:
        info = watch.hub.upstreams["s"].info()
        assert info.tools["big"].description == "d" * MAX_TEXT_CHARS
        assert info.instructions == "i" * MAX_TEXT_CHARS
        big, instructions = info.left_out
        assert (big.kind, big.name) == ("tool", "big")
        assert big.reason == "its description was cut: 65,536 of 21,000,000 characters are kept"
        assert instructions.kind == "instructions"
        assert await watch.text("big", {}) == "pong"


MONSTERS = {
    "a text": '"%s"' % ("x" * 5_000_000),
    "numbers": "[" + "1," * 2_500_000 + "1]",
    "lists": "[" + "[]," * 400_000 + "1]",
    "objects": "[" + "{}," * 400_000 + "1]",
    "texts": "[" + '"",' * 1_000_000 + "1]",
}


@pytest.mark.parametrize("monster", MONSTERS)
async def test_a_monstrous_schema_costs_its_tool(monster, tmp_path):
    big = '{"name":"big","inputSchema":{"enum":@}}'.replace("@", MONSTERS[monster])
    async with raw_server(tmp_path, answers={"tools/list": tools(big)}) as watch:
        assert await watch.text("echo", {}) == "pong"
        assert list(watch.hub.upstreams["s"].info().tools) == ["echo"]
        assert only(watch).kind == "tool"


async def test_prose_is_not_taken_for_values(tmp_path):
    prose = {**ECHO, "name": "prose", "description": 'one, two, [three], "four", ' * 500_000}
    async with raw_server(tmp_path, answers={"tools/list": tools(prose)}) as watch:
        assert only(watch).reason.startswith("its description was cut")
        assert await watch.text("prose", {}) == "pong"


async def test_a_page_of_millions_of_nothings_is_not_taken_apart(tmp_path):
    line = result('{"tools":[%s1]}' % ("1," * 5_000_000))
    settings = {"restart": {"park_after": 1, "park_probe": 60}}
    async with raw_server(tmp_path, answers={"tools/list": line}, settings=settings) as watch:
        assert watch.state() is State.PARKED
        assert "holds over 2,000,000 values" in watch.hub.upstreams["s"].info().cause


async def test_what_is_named_is_bounded_too(tmp_path):
    odd = [json.dumps({"name": f"n{n}", "inputSchema": n}) for n in range(500)]
    async with raw_server(tmp_path, answers={"tools/list": tools(*odd)}) as watch:
        left_out = watch.hub.upstreams["s"].info().left_out
        assert len(left_out) == 21
        assert sum(each.count for each in left_out) == 500
        assert snapshot(watch.hub, clients=0).servers[0].left_out == 500


async def test_a_server_that_never_ends_its_pages_keeps_what_it_has_listed(tmp_path):
    line = result({"tools": [ECHO], "nextCursor": "again"})
    async with raw_server(tmp_path, answers={"tools/list": line}) as watch:
        assert await watch.text("echo", {}) == "pong"
        reasons = " ".join(each.reason for each in watch.hub.upstreams["s"].info().left_out)
        assert "does not end: stopped after 2 pages" in reasons


async def test_ten_thousand_tools_hold_nobody_up(tmp_path):
    answers = {"tools/list": tools(*many(9_999, description="some words, and more " * 20))}
    began = time.monotonic()
    async with raw_server(tmp_path, answers=answers) as watch:
        assert await watch.text("echo", {}) == "pong"
    assert time.monotonic() - began < 20
