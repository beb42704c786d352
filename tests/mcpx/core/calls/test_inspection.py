"""What inspect answers, over a real hub: for the model and for programs, ready or not."""

from __future__ import annotations

import json

import anyio
import pytest

from mcpx.errors import CallError, Code
from mcpx.parts import open_hub
from tests.mcpx.scripted import PATIENCE_S, config_of, entry, one_server, open_watched

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "Where " * 100}},
    "required": ["path"],
}
TOOL = {
    "name": "look",
    "inputSchema": SCHEMA,
    "outputSchema": {"type": "object", "properties": {"size": {"type": "integer"}}},
    "description": "Looks. " * 100,
    "annotations": {"readOnlyHint": True},
}


@pytest.fixture
def listed(tmp_path) -> str:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([TOOL, {"name": "wave", "inputSchema": {"type": "object"}}]))
    return str(file)


def text(shaped) -> str:
    return str(shaped.content[0]["text"])


async def test_a_server_alone_lists_its_tools_with_their_types_and_cut_descriptions(listed):
    async with one_server(tools=listed) as watch:
        shaped = await watch.hub.calls.inspect("s")
    assert "Does what its script says." in text(shaped)
    assert "path: string" in text(shaped)
    assert "wave" in text(shaped)
    assert TOOL["description"] not in text(shaped)
    assert TOOL["description"][:300] + "..." in text(shaped)
    plain = shaped.structured_content
    assert (plain["server"], plain["state"]) == ("s", "ready")
    assert plain["tools"][0]["input_schema"] == SCHEMA
    assert plain["tools"][0]["description"] == TOOL["description"]


async def test_one_tool_is_shown_whole(listed):
    async with one_server(tools=listed) as watch:
        shaped = await watch.hub.calls.inspect("s", "look")
    assert TOOL["description"].strip() in text(shaped)
    assert "path: string" in text(shaped)
    assert "integer" in text(shaped)
    assert "wave" not in text(shaped)
    plain = shaped.structured_content
    assert plain["input_schema"] == SCHEMA
    assert plain["output_schema"] == TOOL["outputSchema"]
    assert plain["annotations"] == {"readOnlyHint": True}


ADDED = {
    "title": "Look",
    "icons": [{"src": "data:image/png;base64,abcd"}],
    "execution": {"taskSupport": "optional"},
    "_meta": {"ui": {"resourceUri": "ui://x"}},
    "com.acme/vendor": ["of its own"],
}


async def test_what_a_server_adds_to_a_tool_is_for_programs_and_costs_the_model_nothing(tmp_path):
    hints = {"annotations": {"readOnlyHint": True, "title": "Look", "category": "vendor"}}
    bare, full = TOOL, {**TOOL, **ADDED, **hints, "server": "spoofed", "shortened": "spoofed"}
    said = []
    for number, tool in enumerate((bare, full)):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps([tool]))
        async with one_server(tools=str(file)) as watch:
            said.append([await watch.hub.calls.inspect("s", *names) for names in ((), ("look",))])
    for without, whole in zip(*said, strict=True):
        assert text(whole) == text(without)
    listing, alone = (shaped.structured_content for shaped in said[1])
    for plain in (listing["tools"][0], alone):
        assert {name: plain[name] for name in ADDED} == ADDED
        assert plain["annotations"] == hints["annotations"]
        assert plain.get("server") != "spoofed"
        assert "shortened" not in plain


async def test_what_is_inspected_in_the_first_second_waits_for_the_servers_listing(listed):
    async with open_hub(config_of({"s": entry(tools=listed)})) as hub, anyio.create_task_group() as tasks:

        async def inspect(names, query) -> None:
            assert "look" in text(await hub.calls.inspect(*names, query=query))

        for names, query in ((("s",), ""), (("s", "look"), ""), (("", "look"), ""), ((), "looks")):
            tasks.start_soon(inspect, names, query)  # all before the server can have listed


async def test_a_server_that_fails_is_waited_for_until_it_has_failed_once():
    patient = config_of({"s": {"command": "false"}}, queue_timeout=600)
    async with open_hub(patient) as hub:
        with anyio.fail_after(PATIENCE_S):
            shaped = await hub.calls.inspect("s")
    assert "exited with code 1" in shaped.structured_content["state"]


async def test_it_asks_the_server_for_nothing(ears, listed):
    async with one_server(ears, tools=listed) as watch:
        before = len(ears.of("request"))
        for _ in range(5):
            await watch.hub.calls.inspect("s")
            await watch.hub.calls.inspect("s", "look")
        await watch.text("wave")
        assert [event["method"] for event in ears.of("request")[before:]] == ["tools/call"]


async def test_json_schemas_can_be_shown_instead_of_types(listed):
    config = config_of(
        {"s": entry(tools=listed)}, schema_compression_enabled=False, toon_compression_enabled=False
    )
    async with open_watched(config) as watch:
        shaped = await watch.hub.calls.inspect("s", "look")
    assert json.loads(text(shaped))["input_schema"] == SCHEMA


async def test_a_server_that_is_not_ready_says_its_state_and_why():
    servers = {"none": {"command": "there-is-no-such-command"}, "off": {**entry(), "disabled": True}}
    async with open_watched(config_of(servers)) as watch:
        shaped = await watch.hub.calls.inspect("none")
        assert "command not found: there-is-no-such-command" in text(shaped)
        assert shaped.structured_content["state"].startswith("parked")
        assert (await watch.hub.calls.inspect("off")).structured_content["state"].startswith("disabled")


@pytest.mark.parametrize(
    ("names", "code", "told"),
    [
        (("x",), Code.UNKNOWN_SERVER, "Servers: s"),
        (("s", "lok"), Code.UNKNOWN_TOOL, "did you mean look"),
        (("s", "zzz"), Code.UNKNOWN_TOOL, "wave"),
    ],
)
async def test_unknown_names_get_the_nearest_and_what_is_there(listed, names, code, told):
    async with one_server(tools=listed) as watch:
        with pytest.raises(CallError) as caught:
            await watch.hub.calls.inspect(*names)
    assert caught.value.code is code
    assert told.lower() in str(caught.value).lower()
