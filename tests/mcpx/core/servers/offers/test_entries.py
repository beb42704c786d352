"""One entry of a server's lists: it comes back out as it went in, but for what clients would refuse."""

from __future__ import annotations

import json

import pytest

from mcpx.core.catalog.model import PromptInfo, ResourceInfo, TemplateInfo, ToolInfo
from mcpx.core.servers.offers.entries import MAX_ORDER_CHARS, InvalidEntry, read_entry
from mcpx.core.servers.offers.pages import decode_entry

OWN = {"com.acme/x": {"deep": [None, {"n": 1}]}, "none": None, "title_of_mine": ""}
COMMON = {"_meta": {"a/b": None, **OWN}, "icons": [{"src": "data:,", "theme": "dark", **OWN}], **OWN}
WHOLE = {
    ToolInfo: {
        "title": "T",
        "name": "t",
        "execution": {"taskSupport": "optional", **OWN},
        "annotations": {"title": "A", "readOnlyHint": True, "category": "x", **OWN},
        "inputSchema": {"type": "object", "$comment": None},
        "outputSchema": {},
        "description": "",
        **COMMON,
    },
    ResourceInfo: {
        "uri": "x:1",
        "name": "",
        "size": 0,
        "mimeType": "text/plain",
        "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2025", **OWN},
        **COMMON,
    },
    TemplateInfo: {"name": "n", "uriTemplate": "x:{y}", "annotations": {}, **COMMON},
    PromptInfo: {
        "arguments": [{"required": True, "name": "a", "default": None, **OWN}, {"name": "b"}],
        "name": "p",
        **COMMON,
    },
}


def through(kind, entry: dict) -> dict:
    decoded, changes = decode_entry(json.dumps(entry).encode())
    info, cuts = read_entry(kind, "s", decoded)
    assert changes + cuts == []
    return info.to_protocol()


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("turn", [list, reversed])
def test_an_entry_comes_back_out_in_the_same_words_and_order(kind, turn):
    given = dict(turn(list(WHOLE[kind].items())))
    assert json.dumps(through(kind, given)) == json.dumps(given)


@pytest.mark.parametrize("kind", WHOLE)
def test_the_order_of_its_members_is_no_difference(kind):
    one, two = (read_entry(kind, "s", dict(turn(list(WHOLE[kind].items()))))[0] for turn in (list, reversed))
    assert one == two
    assert one.order != two.order


def test_what_clients_would_refuse_the_whole_list_for_is_left_out():
    odd = {
        "name": "t",
        "inputSchema": {},
        "title": None,
        "icons": [{"src": 1}, {"src": "a", "sizes": "1x1 2x2", "theme": "blue"}],
        "annotations": {"readOnlyHint": "yes", "title": None, "mine": 1},
        "execution": {"taskSupport": "sometimes", "mine": 1},
        "_meta": [],
    }
    assert through(ToolInfo, odd) == {
        "name": "t",
        "inputSchema": {},
        "icons": [{"src": "a", "sizes": ["1x1", "2x2"]}],
        "annotations": {"mine": 1},
        "execution": {"mine": 1},
    }
    assert through(PromptInfo, {"name": "p", "arguments": [{"name": "a", "title": None, "required": 1}]}) == {
        "name": "p",
        "arguments": [{"name": "a"}],
    }


def test_a_title_is_not_invented():
    info, _ = read_entry(ToolInfo, "s", {"name": "t", "inputSchema": {}, "annotations": {"title": "A"}})
    assert info.title is None
    assert info.display_title == "A"
    assert "title" not in info.to_dict()


def test_programs_see_all_of_it_and_no_member_stands_in_for_another():
    entry = {**WHOLE[ToolInfo], "input_schema": "mine"}
    shown = read_entry(ToolInfo, "s", entry)[0].to_dict()
    assert shown["input_schema"] == entry["inputSchema"]
    assert all(shown[name] == entry[name] for name in ("_meta", "icons", "execution", "annotations", *OWN))


def test_entries_with_the_same_members_share_their_order_and_a_monstrous_one_keeps_none():
    one, two = (read_entry(PromptInfo, "s", {"name": name, "x": 1})[0] for name in "ab")
    assert one.order is two.order
    long = read_entry(PromptInfo, "s", {"x" * MAX_ORDER_CHARS: 1, "name": "a"})[0]
    assert long.order == ()
    assert long.to_protocol() == {"name": "a", "x" * MAX_ORDER_CHARS: 1}


def test_a_number_beyond_all_floats_is_said_to_be_changed_and_what_is_not_json_is_refused():
    decoded, changes = decode_entry(b'{"a":1e400,"b":[-1e999,1e2]}')
    assert decoded == {"a": 1.7976931348623157e308, "b": [-1.7976931348623157e308, 100.0]}
    assert len(changes) == 1
    for text in (b'{"a":NaN}', b'{"a":-Infinity}'):
        with pytest.raises(InvalidEntry, match="is not JSON"):
            decode_entry(text)
