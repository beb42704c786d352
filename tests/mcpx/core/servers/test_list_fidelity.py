"""Lists over stdio and HTTP, in JSON and in events, in both eras: what is no JSON costs nothing more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpx.core.catalog.model import LeftOut, ToolInfo
from mcpx.core.catalog.snapshot import State
from tests.mcpx.core.servers.raw import ECHO, entry, initialize, refusal, tools
from tests.mcpx.core.servers.raw_http import MODERN_ONLY, discover, raw_http
from tests.mcpx.scripted import Watch, config_of, open_watched

pytestmark = pytest.mark.anyio

MAX_FLOAT = 1.7976931348623157e308
FILLERS = {"small": "", "large": "x" * 20_000}  # a large answer is split before it is read
WAYS = [
    f"{era}-{how}"
    for era in ("handshake", "modern")
    for how in ("stdio", "json", "events", "sse")
    if (era, how) != ("modern", "sse")
]


@pytest.fixture(params=WAYS)
def way(request: Any) -> str:
    return request.param


@asynccontextmanager
async def listed(way: str, folder: Path, answers: dict[str, str]) -> AsyncIterator[Watch]:
    """A hub with one server of that way, called `s`, that answers so."""
    era, how = way.split("-")
    answers = (MODERN_ONLY if era == "modern" else {}) | answers
    if how == "stdio":
        async with open_watched(
            config_of({"s": entry(folder, answers=answers)}, auto_describe=False)
        ) as watch:
            yield watch
        return
    with raw_http(answers, how=how) as server:
        async with open_watched(config_of({"s": {"url": server.url}}, auto_describe=False)) as watch:
            yield watch


async def tool_of(
    way: str, folder: Path, odd: str, filler: str = ""
) -> tuple[ToolInfo | None, tuple[LeftOut, ...]]:
    """The tool `odd` of a list of it and `echo`, and what is left out; `echo` works."""
    more = {"name": "filler", "inputSchema": {}, "description": filler}
    async with listed(way, folder, {"tools/list": tools(odd, more)}) as watch:
        assert watch.state() is State.READY, watch.hub.upstreams["s"].info().cause
        assert await watch.text(ECHO["name"], {}) == "pong"
        catalogue = watch.hub.upstreams["s"].catalogue
        return catalogue.tools.get("odd"), catalogue.left_out


@pytest.mark.parametrize("filler", FILLERS)
async def test_numbers_that_no_float_holds_are_named_and_never_silently_null(way, filler, tmp_path):
    odd = (
        '{"z":1.50,"name":"odd","com.acme/a":[18446744073709551617,-0.0],"inputSchema":{"properties":{"NaN":'
        '{"multipleOf":1e400,"default":NaN,"maximum":Infinity,"minimum":-Infinity}}},"description":"NaN"}'
    )
    tool, left_out = await tool_of(way, tmp_path, odd, FILLERS[filler])
    assert list(tool.to_protocol()) == ["z", "name", "com.acme/a", "inputSchema", "description"]
    assert tool.input_schema["properties"]["NaN"] == {
        "multipleOf": MAX_FLOAT,
        "default": None,
        "maximum": MAX_FLOAT,
        "minimum": -MAX_FLOAT,
    }
    assert tool.description == "NaN"
    assert str(tool.more) == "{'z': 1.5, 'com.acme/a': [18446744073709551617, -0.0]}"
    assert {each.name for each in left_out} == {"odd"}
    (first, second) = sorted(each.reason for each in left_out)
    assert "a NaN in it" in first
    assert "a number in it that is beyond all floats" in second


@pytest.mark.parametrize("filler", FILLERS)
async def test_what_is_too_deep_costs_itself(way, filler, tmp_path):
    odd = '{"name":"odd","inputSchema":{"default":NaN,"x":' + "[" * 5000 + "]" * 5000 + "}}"
    tool, (left_out,) = await tool_of(way, tmp_path, odd, FILLERS[filler])
    assert tool is None
    assert (left_out.name, left_out.reason) == ("odd", "it is nested over 250 levels deep")


async def test_half_a_surrogate_pair_is_replaced(way, tmp_path):
    tool, left_out = await tool_of(way, tmp_path, '{"name":"odd","inputSchema":{},"description":"a\\ud83d"}')
    assert tool.description == "a\ufffd"
    assert left_out == ()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (refusal(-32099, "not today"), "the server refused it: not today (-32099)"),
        ('{"jsonrpc":"2.0","id":@ID@,"result":{"prompts":7}}', "the server's answer has no list of prompts"),
        ('{"jsonrpc":"2.0","id":@ID@,"result":{"prompts":[}}', "the answer is not JSON"),
    ],
)
async def test_a_list_that_cannot_be_had_costs_itself_for_its_reason(way, answer, reason, tmp_path):
    capabilities = {"tools": {}, "prompts": {}}
    greetings = {"initialize": initialize(capabilities=capabilities)}
    if way.startswith("modern"):
        greetings = {"server/discover": discover(prompts={})}
    async with listed(way, tmp_path, greetings | {"prompts/list": answer}) as watch:
        assert await watch.text(ECHO["name"], {}) == "pong"
        (one,) = watch.hub.upstreams["s"].info().left_out
        assert one.kind == "prompts/list"
        assert one.reason == reason or "not a JSON-RPC message" in one.reason
