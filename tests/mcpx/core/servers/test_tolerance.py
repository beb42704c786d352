"""What the official clients take from a server, MCPX takes: one deviation at a time, from a raw server."""

from __future__ import annotations

import json

import pytest
import structlog

from mcpx.core.catalog.snapshot import State
from mcpx.errors import Code, Outcome
from tests.mcpx.core.servers.raw import (
    ABOUT,
    ECHO,
    OBJECT,
    heard,
    initialize,
    raw_server,
    refusal,
    result,
    tools,
)

pytestmark = pytest.mark.anyio

DEEP = '{"name":"deep","inputSchema":{"type":"object","x":' + "[" * 300 + "]" * 300 + "}}"
ABYSS = '{"name":"deep","inputSchema":{"type":"object","x":' + "[" * 5000 + "]" * 5000 + "}}"
TREE = '{"name":"deep","inputSchema":' + '{"properties":{"a":' * 150 + "{}" + "}}" * 150 + "}"


async def works(watch) -> None:
    """The server is ready, has not failed, and answers."""
    assert watch.state() is State.READY
    assert watch.hub.upstreams["s"].queue.lifecycle().generation == 1
    assert await watch.text("echo", {}) == "pong"


def left_out(watch) -> list[tuple[str, str | None]]:
    return [(each.kind, each.name) for each in watch.hub.upstreams["s"].info().left_out]


# --- one odd tool

TAKEN = {
    "a schema of any kind": {"inputSchema": {}},
    "a schema that is a reference": {"inputSchema": {"$ref": "#/$defs/a", "$defs": {"a": OBJECT}}},
    "a schema of alternatives": {"inputSchema": {"anyOf": [OBJECT, {"type": "null"}]}},
    "a schema of another type": {"inputSchema": {"type": ["object", "null"]}},
    "an output schema of a list": {"outputSchema": {"type": "array", "items": {}}},
    "an output schema of alternatives": {"outputSchema": {"oneOf": [OBJECT, {"type": "string"}]}},
    "sizes as a text": {"icons": [{"src": "data:,", "sizes": "48x48 96x96"}]},
    "an icon without a source": {"icons": [{"mimeType": "image/png"}]},
    "an unknown theme": {"icons": [{"src": "data:,", "theme": "sepia"}]},
    "an unknown task support": {"execution": {"taskSupport": "sometimes"}},
    "execution that is a text": {"execution": "now"},
    "members of its own": {"x-vendor": {"a": 1}, "annotations": {"category": "files"}},
    "null members": dict.fromkeys(("title", "description", "outputSchema", "annotations", "icons", "_meta")),
    "a hint that is a text": {"annotations": {"readOnlyHint": "yes"}},
    "no text at all": {"description": ""},
}


@pytest.mark.parametrize("oddity", TAKEN)
async def test_an_odd_tool_is_taken_as_the_official_clients_take_it(oddity, tmp_path):
    odd = {"name": "odd", "inputSchema": OBJECT, **TAKEN[oddity]}
    async with raw_server(tmp_path, answers={"tools/list": tools(odd)}) as watch:
        await works(watch)
        assert left_out(watch) == []
        assert await watch.text("odd", {}) == "pong"
        tool = watch.hub.registry.get_tool("s", "odd")
        assert tool.input_schema == odd["inputSchema"]
        assert tool.output_schema == odd.get("outputSchema")
        (await watch.hub.calls.inspect("s", "odd"))


REFUSED = {
    "no name": ({"inputSchema": OBJECT}, "entry 1", "it has no name"),
    "a name that is a number": ({"name": 5, "inputSchema": OBJECT}, "entry 1", "its name is not a text"),
    "a monstrous name": ({"name": "n" * 129, "inputSchema": OBJECT}, "n" * 64 + "...", "129 characters"),
    "no schema": ({"name": "odd"}, "odd", "it has no inputSchema"),
    "a schema that is a text": ({"name": "odd", "inputSchema": "any"}, "odd", "not an object"),
    "a description that is a list": (
        {"name": "odd", "inputSchema": OBJECT, "description": []},
        "odd",
        "its description is not a text",
    ),
    "a text": ("no tool", "entry 1", "it is not an object"),
    "null": (None, "entry 1", "it is not an object"),
    "a list": ([ECHO], "entry 1", "it is not an object"),
    "300 levels": (json.loads(DEEP), "deep", "nested over 250 levels"),
    "150 properties in one another": (json.loads(TREE), "deep", "nested over 250 levels"),
    "its namesake": (ECHO, "echo", "listed more than once"),
}


@pytest.mark.parametrize("oddity", REFUSED)
async def test_a_tool_that_nobody_can_use_costs_itself_and_is_named(oddity, tmp_path):
    odd, name, reason = REFUSED[oddity]
    async with raw_server(tmp_path, answers={"tools/list": tools(json.dumps(odd))}) as watch:
        await works(watch)
        (one,) = watch.hub.upstreams["s"].info().left_out
        assert (one.kind, one.name) == ("tool", name)
        assert reason in one.reason
        shown = await watch.hub.calls.inspect("s")
        assert shown.structured_content["left_out"] == [one.to_dict()]
        assert one.reason in shown.content[0]["text"]


async def test_a_tool_deeper_than_any_reader_reads_costs_itself(tmp_path):
    async with raw_server(tmp_path, answers={"tools/list": tools(ABYSS)}) as watch:
        await works(watch)
        assert left_out(watch) == [("tool", "deep")]


async def test_the_first_of_two_tools_of_one_name_is_kept(tmp_path):
    first, second = {**ECHO, "name": "twin", "title": "1"}, {**ECHO, "name": "twin", "title": "2"}
    async with raw_server(tmp_path, answers={"tools/list": tools(first, second)}) as watch:
        assert watch.hub.registry.get_tool("s", "twin").title == "1"


async def test_what_is_left_out_is_logged_once(tmp_path):
    answers = {"tools/list": tools({"name": "odd"})}
    with structlog.testing.capture_logs() as logged:
        async with raw_server(tmp_path, answers=answers) as watch:
            await watch.hub.restart("s")
            assert watch.hub.upstreams["s"].counters.listings == 2
    (one,) = [entry for entry in logged if entry["event"] == "upstream.left_out"]
    assert (one["kind"], one["name"], one["reason"]) == ("tool", "odd", "it has no inputSchema")


# --- one odd list

RESOURCES = '{"resources":[{"uri":"a:1","name":"good"},%s]}'
PROMPTS = '{"prompts":[{"name":"good"},%s]}'
TEMPLATES = '{"resourceTemplates":[{"uriTemplate":"a:{x}","name":"good"},%s]}'
LISTS = {
    "resources/list": ("resources", "resource", RESOURCES),
    "prompts/list": ("prompts", "prompt", PROMPTS),
    "resources/templates/list": ("templates", "resource template", TEMPLATES),
}
LOST = {
    "refused": refusal(-32000),
    "not known": refusal(-32601),
    "refused in words": refusal("E_NO"),
    "refused without a word": '{"jsonrpc":"2.0","id":@ID@,"error":{}}',
    "no list": result({}),
    "null": result("null"),
    "a text": result('"none"'),
    "lists that are none": result({"resources": 5, "prompts": 5, "resourceTemplates": 5}),
    "no JSON": '{"jsonrpc":"2.0","id":@ID@,"result":{"resources":[}}',
    "never answered": "silent",
}


@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize("oddity", LOST)
async def test_an_odd_list_costs_that_list(oddity, method, tmp_path):
    answers = {"initialize": initialize(), **{each: result({LISTS[each][0]: []}) for each in LISTS}}
    answers |= {"resources/templates/list": result({"resourceTemplates": []}), method: LOST[oddity]}
    settings = {"connect_timeout": 2}
    async with raw_server(tmp_path, answers=answers, settings=settings) as watch:
        await works(watch)
        known = oddity == "not known" and method == "resources/templates/list"
        assert left_out(watch) == ([] if known else [(method, None)])


@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize("odd", ["5", "{}", '{"name":5}', '{"uri":5,"uriTemplate":5,"name":"x"}', DEEP])
async def test_an_odd_entry_costs_that_entry(odd, method, tmp_path):
    where, kind, listed = LISTS[method]
    answers = {"initialize": initialize(), method: result(listed % odd)}
    async with raw_server(tmp_path, answers=answers) as watch:
        await works(watch)
        known = watch.hub.upstreams["s"].catalogue
        entries = getattr(known, where)
        names = [each.name for each in (entries.values() if isinstance(entries, dict) else entries)]
        assert names[0] == "good"
        assert [each.kind for each in known.left_out if each.kind == kind] == [kind] * (2 - len(names))


async def test_resources_and_prompts_are_taken_as_the_official_clients_take_them(tmp_path):
    odd = {
        "name": "odd",
        "icons": [{"src": "data:,", "sizes": "48x48"}, 5],
        "annotations": {"audience": "user", "priority": 7, "x": 1},
        "_meta": None,
        "size": "large",
        "vendor": True,
    }
    answers = {
        "initialize": initialize(),
        "resources/list": result({"resources": [{"uri": "a:1", **odd}]}),
        "resources/templates/list": result({"resourceTemplates": [{"uriTemplate": "a:{x}", **odd}]}),
        "prompts/list": result({"prompts": [{**odd, "arguments": [{"name": "a", "required": "no"}]}]}),
    }
    async with raw_server(tmp_path, answers=answers) as watch:
        await works(watch)
        known = watch.hub.upstreams["s"].catalogue
        assert known.left_out == ()
        for each in (known.resources["a:1"], known.templates[0]):
            assert each.icons == [{"src": "data:,", "sizes": ["48x48"]}]
            assert each.annotations == {"x": 1}
        assert known.prompts[0].arguments == [{"name": "a"}]


async def test_what_was_known_of_a_list_that_is_refused_now_is_kept(tmp_path):
    answers = {"initialize": initialize(), "resources/list": result(RESOURCES.replace(",%s", ""))}
    async with raw_server(tmp_path, answers=answers) as watch:
        script = json.loads((tmp_path / "s.json").read_text())
        script["answers"]["resources/list"] = refusal(-32603, "busy")
        (tmp_path / "s.json").write_text(json.dumps(script))
        await watch.hub.restart("s")
        assert list(watch.hub.upstreams["s"].catalogue.resources) == ["a:1"]
        one = watch.hub.upstreams["s"].info().left_out[0]
        assert "the server refused it: busy (-32603)" in one.reason


async def test_a_server_without_tools_keeps_its_resources_when_the_list_of_tools_is_refused(tmp_path):
    answers = {
        "initialize": initialize(),
        "tools/list": refusal(-32603),
        "resources/list": result(RESOURCES.replace(",%s", "")),
    }
    async with raw_server(tmp_path, answers=answers) as watch:
        assert watch.state() is State.READY
        assert left_out(watch) == [("prompts/list", None), ("tools/list", None)]


# --- the handshake

GREETINGS = {
    "no capabilities": {"capabilities": {}},
    "capabilities that are null": {"capabilities": None},
    "capabilities left out": {"capabilities": ...},
    "capabilities that are a list": {"capabilities": []},
    "other capabilities only": {"capabilities": {"logging": {}}},
    "tools: true": {"capabilities": {"tools": True}},
    "tools: null": {"capabilities": {"tools": None}},
    "a flag that is a text": {"capabilities": {"tools": {"listChanged": "yes"}}},
    "unknown capabilities": {"capabilities": {"tools": {}, "magic": [1]}},
    "odd experiments": {"capabilities": {"tools": {}, "experimental": {"a": True}}},
    "no version": {"serverInfo": {"name": "raw"}},
    "a version that is a number": {"serverInfo": {"name": "raw", "version": 1.2}},
    "no word of itself": {"serverInfo": ...},
    "an icon with sizes as a text": {"serverInfo": {**ABOUT, "icons": [{"src": "data:,", "sizes": "1x1"}]}},
    "instructions that are null": {"instructions": None},
    "instructions that are a list": {"instructions": ["do this"]},
    "_meta that is null": {"_meta": None},
    "members of its own": {"vendor": {"a": 1}},
    "2024-11-05": {"protocolVersion": "2024-11-05"},
}


@pytest.mark.parametrize("oddity", GREETINGS)
async def test_an_odd_answer_to_initialize_is_taken(oddity, tmp_path):
    answers = {"initialize": initialize(**{"capabilities": {"tools": {}}, **GREETINGS[oddity]})}
    async with raw_server(tmp_path, answers=answers) as watch:
        await works(watch)
        assert left_out(watch) == []


async def test_a_server_that_says_nothing_of_itself_is_asked_for_all_lists_once(tmp_path):
    answers = {
        "initialize": initialize(capabilities={}),
        "prompts/list": result('{"prompts":[{"name":"p"}]}'),
    }
    async with raw_server(tmp_path, answers=answers) as watch:
        await works(watch)
        assert [each.name for each in watch.hub.upstreams["s"].catalogue.prompts] == ["p"]
        assert heard(tmp_path) == [
            "started",
            "initialize",
            "tools/list",
            "resources/list",
            "prompts/list",
            "tools/call",
        ]


async def test_a_server_that_declares_something_else_is_asked_for_tools_and_nothing_more(tmp_path):
    answers = {"initialize": initialize(capabilities={"prompts": {}}), "tools/list": refusal(-32601)}
    async with raw_server(tmp_path, answers=answers) as watch:
        assert watch.state() is State.READY
        assert heard(tmp_path)[2:] == ["tools/list", "prompts/list"]


# --- framing

PONG = '{"content":[{"type":"text","text":"pong"}]}'
FRAMES = {
    "error: null": f'{{"jsonrpc":"2.0","id":@ID@,"result":{PONG},"error":null}}',
    "error: null first": f'{{"error":null,"id":@ID@,"jsonrpc":"2.0","result":{PONG}}}',
    "the id as a text": f'{{"jsonrpc":"2.0","id":"@ID@","result":{PONG}}}',
    "no jsonrpc": f'{{"id":@ID@,"result":{PONG}}}',
    "members of its own": f'{{"jsonrpc":"2.0","id":@ID@,"result":{PONG},"took":5}}',
    "method: null": f'{{"jsonrpc":"2.0","id":@ID@,"result":{PONG},"method":null,"params":null}}',
}


@pytest.mark.parametrize("oddity", FRAMES)
async def test_an_odd_frame_is_read(oddity, tmp_path):
    async with raw_server(tmp_path, answers={"tools/call": FRAMES[oddity]}) as watch:
        await works(watch)


@pytest.mark.parametrize("size", [1, 100_000])
async def test_a_null_error_behind_a_result_of_any_size_is_none(size, tmp_path):
    said = '{"content":[{"type":"text","text":"%s"}]}' % ("x" * size)
    line = f'{{"jsonrpc":"2.0","id":@ID@,"result":{said},"error":null}}'
    async with raw_server(tmp_path, answers={"tools/call": line}) as watch:
        assert await watch.text("echo", {}) == "x" * size


HALVES = {
    r"a\ud83d": "a\ufffd",
    r"\ude00b": "\ufffdb",
    r"\uD83D\uD83D\uDE00": "\ufffd\U0001f600",
    r"\\ud83d": r"\ud83d",
    r"\\\ud83d": "\\\ufffd",
    r"\ud83d\ude00": "\U0001f600",
}


@pytest.mark.parametrize("filler", ["", "x" * 20_000])
@pytest.mark.parametrize("half", HALVES)
async def test_half_a_surrogate_pair_is_replaced_wherever_it_stands(half, filler, tmp_path):
    answers = {
        "initialize": result(
            '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"instructions":"%s",'
            '"serverInfo":{"name":"raw","version":"1"}}'.replace("%s", half)
        ),
        "tools/list": tools('{"name":"odd","description":"%s","inputSchema":{}}' % (half + filler)),
        "tools/call": result('{"content":[{"type":"text","text":"%s"}]}' % (half + filler)),
    }
    async with raw_server(tmp_path, answers=answers) as watch:
        assert await watch.text("echo", {}) == HALVES[half] + filler
        assert watch.hub.registry.get_tool("s", "odd").description == HALVES[half] + filler
        assert watch.hub.upstreams["s"].info().instructions == HALVES[half]


async def test_numbers_that_are_no_json_cost_a_list_nothing_and_a_call_its_result(tmp_path):
    schema = '{"type":"object","properties":{"NaN":{"maximum":Infinity,"default":NaN,"minimum":1e400}}}'
    answers = {
        "tools/list": tools('{"name":"odd","description":"NaN","inputSchema":%s}'.replace("%s", schema)),
        "tools/call": result(
            '{"content":[{"type":"text","text":"NaN"}],"structuredContent":{"a":-Infinity}}'
        ),
    }
    async with raw_server(tmp_path, answers=answers) as watch:
        error = await watch.failure("echo", {})
        assert (error.code, error.outcome) == (Code.PROTOCOL_ERROR, Outcome.UNKNOWN)
        assert "NaN or an infinity" in str(error)
        tool = watch.hub.registry.get_tool("s", "odd")
        assert tool.description == "NaN"
        assert list(tool.input_schema["properties"]) == ["NaN"]
