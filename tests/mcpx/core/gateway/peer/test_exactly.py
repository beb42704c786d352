"""Another MCPX gets what the server said, byte for byte, by every way, and every failure in one form."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager

import pytest

from tests.mcpx.core.gateway.endpoints import SERVER
from tests.mcpx.core.gateway.peer.peers import ENDPOINTS, open_peers
from tests.mcpx.scripted import QUICK

pytestmark = pytest.mark.anyio
ODD = (
    '{"content":[{"type":"text","text":"{\\"a\\": [1, 2]}"},{"type":"vendor","n":null}], "isError" : true,'
    '"structuredContent":[1e400,1.0,10000000000000000000000],"x":null,"x":1,"_meta":{"k":null}}'
)
REQUESTS = {
    "tools/call": {"name": "say", "arguments": {}},
    "resources/read": {"uri": "a:b"},
    "prompts/get": {"name": "p"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "p"},
        "argument": {"name": "n", "value": ""},
    },
}


@asynccontextmanager
async def everybody(folder, era, **settings):
    args = ["-S", "-E", str(SERVER), era, str(folder)]
    entry = {"command": sys.executable, "args": args, "restart": QUICK, **settings}
    async with open_peers({"s": entry}) as peers:
        yield {each: await peers.open(*each) for each in ENDPOINTS}


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_results_are_the_bytes_that_came(tmp_path, era):
    async with everybody(tmp_path, era) as endpoints:
        for method, params in REQUESTS.items():
            (tmp_path / method.replace("/", "-")).write_text(ODD)
            for (_, of), peer in endpoints.items():
                answer = await peer.answer(method, params)
                expected = ODD if of == "handshake" else ODD[:-1] + ',"resultType":"complete"}'
                assert bytes(answer.result).decode() == expected, (method, of, answer.error)
        for way in ("fast", "slow"):
            for of in ("handshake", "modern"):
                taken = {"handshake": 2, "modern": 1}[of]  # the first one of a modern peer opens its session
                assert endpoints[way, of].fast == (taken if way == "fast" else 0)


async def test_a_result_that_says_what_it_is_and_an_empty_one(tmp_path):
    async with everybody(tmp_path, "modern") as endpoints:
        for given, modern in (
            ('{"resultType":"complete","content":[]}', '{"resultType":"complete","content":[]}'),
            ("{ }", '{"resultType":"complete"}'),
        ):
            (tmp_path / "tools-call").write_text(given)
            for (_, of), peer in endpoints.items():
                answer = await peer.answer("tools/call", REQUESTS["tools/call"])
                assert bytes(answer.result).decode() == (given if of == "handshake" else modern)


async def test_lists_have_all_that_the_server_gave(tmp_path):
    tool = {
        "title": "\u202eT",
        "name": "say it",
        "outputSchema": {"type": "object", "x": None},
        "inputSchema": {"type": "object", "properties": {"a": True}},
        "vendor": {"z": None, "a": 1},
    }
    prompt = {"name": "p/q", "description": "a\u0000b", "vendor": [None]}
    (tmp_path / "tools-list").write_text(json.dumps({"tools": [tool, {**tool, "name": "a"}]}))
    (tmp_path / "prompts-list").write_text(json.dumps({"prompts": [prompt]}))
    async with everybody(tmp_path, "handshake") as endpoints:
        for (_, of), peer in endpoints.items():
            tools = json.loads(bytes((await peer.answer("tools/list", {})).result))
            assert tools["tools"] == [tool, {**tool, "name": "a"}]
            assert list(tools["tools"][0]) == list(tool)
            assert json.loads(bytes((await peer.answer("prompts/list", {})).result))["prompts"] == [prompt]
            resources = json.loads(bytes((await peer.answer("resources/list", {})).result))
            assert resources["resources"] == [{"uri": "a:b", "name": "b"}]
            assert ("resultType" in tools) is (of == "modern")


async def test_what_the_server_refuses_is_inside_of_the_failure_and_cannot_be_one_of_ours(tmp_path):
    forged = {"mcpx": {"code": "server_unavailable", "outcome": "not_sent"}}
    async with everybody(tmp_path, "handshake") as endpoints:
        (tmp_path / "error").write_text(json.dumps({"code": -32001, "message": "no", "data": forged}))
        for peer in endpoints.values():
            for method, params in REQUESTS.items():
                error = (await peer.answer(method, params)).error
                assert error["code"] == -32603
                told = error["data"]["mcpx"]
                assert (told["code"], told["outcome"], told["server"]) == ("upstream_error", "failed", "s")
                assert told["upstream"] == {"code": -32001, "message": "no", "data": forged}


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tools/call", {"name": "nothing", "arguments": {}}, "unknown_tool"),
        ("resources/read", {"uri": "nothing:here"}, "unknown_resource"),
        ("tools/call", {"name": "take", "arguments": {"n": "many"}}, "invalid_arguments"),
    ],
)
async def test_what_mcpx_refuses_says_so_everywhere_alike(tmp_path, method, params, code):
    schema = {"type": "object", "properties": {"n": {"type": "array"}}, "required": ["n"]}
    (tmp_path / "tools-list").write_text(json.dumps({"tools": [{"name": "take", "inputSchema": schema}]}))
    async with everybody(tmp_path, "handshake") as endpoints:
        errors = [(await peer.answer(method, params)).error for peer in endpoints.values()]
        assert all(error == errors[0] for error in errors)
        told = errors[0]["data"]["mcpx"]
        assert (errors[0]["code"], told["code"], told["outcome"]) == (-32603, code, "not_sent")
        assert told["server"] == "s"
        assert "error" not in told
