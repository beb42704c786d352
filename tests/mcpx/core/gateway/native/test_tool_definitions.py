"""The definitions of native tools: as the server gave them, and such that no client refuses the list."""

from __future__ import annotations

import json
from functools import partial

import pytest
from mcp_types import ListToolsResult

from mcpx.core.catalog.model import ToolInfo
from mcpx.core.gateway.native.lists import PAGE_BYTES, PAGE_TOOLS, NativeForm, definition, tools_page
from mcpx.core.servers.offers.entries import read_entry

OBJECT = {"type": "object"}


def tool(server="git", **members):
    return read_entry(ToolInfo, server, {"name": "status", "inputSchema": OBJECT, **members})[0]


def shown(server="git", *, with_output_schema=True, **members):
    return definition(tool(server, **members), NativeForm(with_output_schema=with_output_schema))


def test_all_that_the_server_gave_is_there_under_the_native_name():
    given = {
        "name": "status",
        "title": "Status",
        "description": "What  has\n\n changed",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}, "$defs": {}, "x-own": 1},
        "outputSchema": {"type": "object", "required": ["a"]},
        "annotations": {"readOnlyHint": True, "com.acme/hint": [1]},
        "icons": [{"src": "data:,", "mimeType": "image/png"}],
        "execution": {"taskSupport": "optional"},
        "_meta": {"com.acme/x": None, "y": {"z": 1}},
        "com.acme/unknown": {"a": None},
    }
    assert shown(**given) == {**given, "name": "git__status"}
    del given["outputSchema"]
    assert shown(with_output_schema=False, outputSchema=OBJECT, **given) == {**given, "name": "git__status"}
    assert "title" not in shown()


def test_a_name_that_is_shortened_is_whole_in_the_title():
    assert shown("git hub")["title"] == "git hub.status"
    assert shown("git hub", title="Status")["title"] == "Status (git hub.status)"
    assert shown("g\nh")["title"] == "g h.status"


@pytest.mark.parametrize(
    ("schema", "mended"),
    [
        ({}, OBJECT),
        ({"properties": {"a": True, "b": False, "c": {}}}, {"a": {}, "b": {"not": {}}, "c": {}}),
        ({"type": ["object", "null"], "required": "a"}, OBJECT),
        ({"type": "object", "properties": [1], "required": [1]}, OBJECT),
    ],
)
def test_a_schema_that_clients_would_refuse_is_mended(schema, mended):
    made = shown(inputSchema=schema)["inputSchema"]
    assert made == (mended if mended == OBJECT else {"type": "object", "properties": mended})
    ListToolsResult.model_validate({"tools": [shown(inputSchema=schema)]})
    assert "outputSchema" not in shown(outputSchema={"anyOf": [OBJECT]})


def pages(tools, three=()):
    """The tools of each page."""
    cursor, found = None, []
    native = {f"s__{each.name}": each for each in tools}
    while True:
        page = tools_page(three, native, cursor, define=partial(definition, form=NativeForm()))
        found.append(page["tools"])
        if (cursor := page.get("nextCursor")) is None:
            return found


def test_pages_are_bounded_by_number_and_by_bytes():
    many = [tool("s", name=f"tool{number:04}") for number in range(600)]
    three = [{"name": "exec", "inputSchema": OBJECT}]
    found = pages(many, three)
    assert [len(page) for page in found] == [PAGE_TOOLS, PAGE_TOOLS, 101]
    assert [each["name"] for page in found for each in page] == [
        "exec",
        *(f"s__{each.name}" for each in many),
    ]
    wide = [tool("s", name=f"tool{number}", description="x" * 60_000) for number in range(30)]
    wide += [tool("s", name="huge", inputSchema={"type": "object", "x": "y" * 2 * PAGE_BYTES})]
    found = pages(wide)
    assert [each["name"] for page in found for each in page] == [f"s__{each.name}" for each in wide]
    assert all(len(page) == 1 or len(json.dumps(page)) < 1.01 * PAGE_BYTES for page in found)
    assert pages([]) == [[]]
