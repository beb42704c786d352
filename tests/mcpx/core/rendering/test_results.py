"""What a model and a program are given for each kind of upstream result."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.core.rendering.result_reading import InputRequired, read_result
from mcpx.core.rendering.results import ToolResult, resource_value, shape_resource, shape_tool_result
from mcpx.core.rendering.toon import TextForm, decode, read_json
from mcpx.errors import CallError, Code, Outcome

USERS = [{"id": n, "name": f"user {n}", "active": True} for n in range(5)]
ITEMS = {"items": USERS}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png", "annotations": {"priority": 1}}
AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "file:///a.json", "name": "a"}
EMBEDDED = {"type": "resource", "resource": {"uri": "file:///a.json", "text": json.dumps(ITEMS)}}
FUTURE = {"type": "hologram", "text": json.dumps(ITEMS), "rays": [1]}
URI = "file:///data/leaflet"


def text_block(value: Any, **extra: Any) -> dict[str, Any]:
    return {"type": "text", "text": value if isinstance(value, str) else json.dumps(value), **extra}


def shaped(raw: dict[str, Any], *, toon: bool = True, min_size: int = 0) -> ToolResult:
    return shape_tool_result(raw, form=TextForm(min_size=min_size) if toon else None)


def read(*contents: Any) -> ToolResult:
    return shape_resource({"contents": list(contents)}, uri=URI, server="library")


# Tool results: the content


def test_json_text_becomes_toon_that_says_the_same():
    result = shaped({"content": [text_block(ITEMS)]})
    assert len(result.content[0]["text"]) < len(json.dumps(ITEMS, separators=(",", ":")))
    assert decode(result.content[0]["text"]) == ITEMS


def test_a_shortened_block_keeps_its_other_fields_and_the_upstream_result_is_not_touched():
    raw = {"content": [text_block(ITEMS, annotations={"audience": ["user"]}, _meta={"a": 1}, later=2)]}
    before = copy.deepcopy(raw)
    block = shaped(raw).content[0]
    assert {**block, "text": ""} == {**before["content"][0], "text": ""}
    assert raw == before


@pytest.mark.parametrize(
    "text", ["plain words", "42", '"x"', "{}", '{"a":1,"a":2}', "[1", json.dumps(ITEMS)[:-1]]
)
def test_text_that_is_not_json_or_not_smaller_is_the_block_that_came(text):
    block = text_block(text)
    assert shaped({"content": [block]}).content[0] is block


def test_blocks_that_are_not_text_are_the_same_objects_in_their_places():
    others = [IMAGE, AUDIO, LINK, EMBEDDED, FUTURE]
    before = copy.deepcopy(others)
    content = shaped({"content": [IMAGE, text_block(ITEMS), AUDIO, LINK, EMBEDDED, FUTURE]}).content
    kept = [content[0], *content[2:]]
    assert all(one is other for one, other in zip(kept, others, strict=True))
    assert kept == before
    assert decode(content[1]["text"]) == ITEMS


def test_an_image_alone_passes_through_with_no_structured_content():
    result = shaped({"content": [IMAGE]})
    assert result.content[0] is IMAGE
    assert result.structured_content is None


def test_toon_can_be_switched_off_and_leaves_the_structured_content():
    block = text_block(ITEMS)
    result = shaped({"content": [block]}, toon=False)
    assert result.content[0] is block
    assert result.structured_content == ITEMS


def test_toon_is_used_from_the_minimum_size_on():
    block = text_block(ITEMS)
    size = len(block["text"])
    assert shaped({"content": [block]}, min_size=size).content[0] != block
    result = shaped({"content": [block]}, min_size=size + 1)
    assert result.content[0] is block
    assert result.structured_content == ITEMS


def test_a_text_block_without_a_text_passes_through():
    block = {"type": "text", "text": None}
    assert shaped({"content": [block, {"type": "text"}]}).content == [block, {"type": "text"}]


# Tool results: structured content


@pytest.mark.parametrize(
    ("texts", "structured"),
    [
        ([ITEMS], ITEMS),
        ([USERS], {"result": USERS}),
        (["words", {"a": 1}], {"a": 1}),
        ([{"a": 1}, "words", [2]], {"result": [{"a": 1}, [2]]}),
        (["words"], None),
        (["42"], None),
        ([], None),
    ],
)
def test_structured_content_is_what_the_json_texts_hold(texts, structured):
    result = shaped({"content": [text_block(text) for text in texts]})
    assert result.structured_content == structured


def test_json_inside_other_blocks_is_not_structured_content():
    assert shaped({"content": [EMBEDDED, FUTURE]}).structured_content is None


def test_the_upstreams_own_structured_content_is_kept_and_the_text_is_still_shortened():
    own = {"items": USERS, "more": 1}
    result = shaped({"content": [text_block(ITEMS)], "structuredContent": own})
    assert result.structured_content is own
    assert decode(result.content[0]["text"]) == ITEMS


@pytest.mark.parametrize("own", [USERS, "x", 0, False, []])
def test_structured_content_that_is_no_object_is_wrapped(own):
    result = shaped({"content": [text_block("words")], "structuredContent": own})
    assert result.structured_content == {"result": own}
    assert result.content == [text_block("words")]


def test_a_null_for_structured_content_counts_as_none_given():
    assert shaped({"content": [text_block(ITEMS)], "structuredContent": None}).structured_content == ITEMS


@pytest.mark.parametrize("content", [{}, {"content": []}])
def test_structured_content_alone_is_shown_to_the_model_as_toon(content):
    result = shaped({**content, "structuredContent": ITEMS})
    assert [block["type"] for block in result.content] == ["text"]
    assert decode(result.content[0]["text"]) == ITEMS
    assert result.structured_content is ITEMS


@pytest.mark.parametrize(
    ("own", "options", "shown"),
    [
        ({"a": [[[1]]]}, {}, '{"a":[[[1]]]}'),
        ({}, {}, "{}"),
        ({"e": "é"}, {"toon": False}, '{"e":"é"}'),
        ({"a": 1}, {"min_size": 100}, '{"a":1}'),
        (7, {}, "7"),
    ],
)
def test_structured_content_alone_is_compact_json_where_toon_is_no_gain(own, options, shown):
    assert shaped({"structuredContent": own}, **options).content == [text_block(shown)]


def test_an_empty_result_stays_empty():
    assert shaped({"content": []}) == ToolResult(content=[])


# Tool results: errors and metadata


def test_an_upstream_error_passes_through_as_it_is():
    content = [text_block(ITEMS, annotations={}), IMAGE]
    own = {"items": USERS}
    raw = {"content": content, "structuredContent": own, "isError": True, "_meta": {"trace": 1}}
    result = shaped(raw)
    assert result.is_error
    assert result.content is content
    assert result.structured_content is own
    assert result.meta == {"trace": 1}


def test_an_upstream_error_in_json_is_given_no_structured_content_of_ours():
    raw = {"content": [text_block(ITEMS)], "isError": True}
    assert shaped(raw).structured_content is None
    assert shaped(raw).content[0] is raw["content"][0]


def test_metadata_is_carried_on_success():
    assert shaped({"content": [IMAGE], "_meta": {"trace": 1}, "isError": False}).meta == {"trace": 1}
    assert shaped({"content": [IMAGE]}).meta is None


@pytest.mark.parametrize("content", ["hello", None, {"type": "text"}, ["hello"], [None]])
def test_content_that_is_no_list_of_blocks_is_a_protocol_error(content):
    with pytest.raises(CallError, match=r"server 'fs' does not keep to the protocol: .*`content`") as caught:
        shape_tool_result({"content": content}, server="fs")
    assert caught.value.code is Code.PROTOCOL_ERROR
    assert caught.value.outcome is Outcome.UNKNOWN
    assert caught.value.server == "fs"


@given(st.lists(st.text() | st.lists(st.dictionaries(st.text(), st.integers() | st.none() | st.text()))))
def test_no_block_ever_grows_and_every_json_value_is_given(texts):
    blocks = [text_block(text) for text in texts]
    result = shaped({"content": blocks})
    for before, after in zip(blocks, result.content, strict=True):
        assert after is before or len(after["text"]) < len(before["text"])
        if after is not before:
            shown = read_json(after["text"])
            assert (shown.value if shown else decode(after["text"])) == json.loads(before["text"])


# Resources


def test_one_text_is_the_string_and_comes_to_the_model_as_it_is():
    item = {"uri": URI, "mimeType": "text/plain", "text": "some  text"}
    assert resource_value({"contents": [item]}) == "some  text"
    result = read(item)
    assert result.content == [text_block("some  text")]
    assert result.structured_content == {"result": "some  text"}
    assert not result.is_error


def test_a_text_that_is_json_comes_to_the_model_in_its_smallest_form_and_to_programs_as_it_is():
    table = {"uri": URI, "mimeType": "application/json", "text": json.dumps(ITEMS, indent=2)}
    other = {"uri": URI, "text": json.dumps({"a": [1, 2]}, indent=2)}
    result = read(table, other)
    assert decode(result.content[0]["text"]) == ITEMS
    assert result.content[1] == text_block('{"a":[1,2]}')
    assert result.structured_content == {"result": [table["text"], other["text"]]}
    untouched = shape_resource({"contents": [table]}, uri=URI, form=None)
    assert untouched.content == [text_block(table["text"])]


def test_an_empty_text_is_a_text():
    assert read({"uri": URI, "text": ""}).content == [text_block("")]


def test_one_binary_is_a_dictionary_and_an_embedded_resource():
    item = {"uri": URI, "mimeType": "application/pdf", "blob": "aGk="}
    plain = {"uri": URI, "mime_type": "application/pdf", "blob": "aGk="}
    assert resource_value({"contents": [item]}) == plain
    result = read(item)
    assert result.content == [{"type": "resource", "resource": item}]
    assert result.structured_content == plain


@pytest.mark.parametrize(
    ("mime_type", "kind"), [("image/png", "image"), ("Image/SVG+xml", "image"), ("audio/wav", "audio")]
)
def test_an_image_or_audio_is_a_block_of_that_type(mime_type, kind):
    result = read({"uri": URI, "mimeType": mime_type, "blob": "aGk=", "_meta": {"a": 1}})
    assert result.content == [{"type": kind, "data": "aGk=", "mimeType": mime_type, "_meta": {"a": 1}}]
    assert result.structured_content == {"uri": URI, "mime_type": mime_type, "blob": "aGk="}


def test_binary_that_names_neither_type_nor_uri_gets_the_uri_that_was_asked_for():
    result = read({"blob": ""})
    assert result.structured_content == {"uri": URI, "mime_type": None, "blob": ""}
    assert result.content == [{"type": "resource", "resource": {"uri": URI, "blob": ""}}]


def test_several_items_are_a_list_in_order():
    items = [{"uri": "a:1", "text": "one"}, {"uri": "a:2", "blob": "aGk="}, {"uri": "a:3", "text": "two"}]
    values = ["one", {"uri": "a:2", "mime_type": None, "blob": "aGk="}, "two"]
    assert resource_value({"contents": items}) == values
    result = read(*items)
    assert result.structured_content == {"result": values}
    assert [block["type"] for block in result.content] == ["text", "resource", "text"]


def test_an_empty_resource_is_said_to_be_empty():
    assert resource_value({"contents": []}) == []
    result = read()
    assert result.structured_content == {"result": []}
    assert [block["type"] for block in result.content] == ["text"]
    assert URI in result.content[0]["text"]
    assert "empty" in result.content[0]["text"]


def test_metadata_of_a_resource_is_carried():
    item = {"uri": URI, "text": "x", "_meta": {"page": 2}}
    result = shape_resource({"contents": [item], "_meta": {"trace": 1}}, uri=URI)
    assert result.meta == {"trace": 1}
    assert result.content == [text_block("x", _meta={"page": 2})]


@pytest.mark.parametrize(
    "blob", ["aGk", "a===", "not base64!", "aGk=\n", "_-8=", "é", "=", "aGk=aGk=", "aGk=="]
)
def test_a_blob_that_is_not_base64_is_a_protocol_error_that_names_it(blob):
    with pytest.raises(CallError, match=rf"'library' .*{URI} is not base64") as caught:
        read({"uri": URI, "mimeType": "image/png", "blob": blob})
    assert caught.value.code is Code.PROTOCOL_ERROR


@pytest.mark.parametrize("item", [{"uri": URI}, {"uri": URI, "text": 5}, {"uri": URI, "blob": None}])
def test_an_item_with_neither_text_nor_blob_is_a_protocol_error(item):
    with pytest.raises(CallError, match=f"{URI} came with neither text nor a blob"):
        read(item)


@pytest.mark.parametrize("raw", [{}, {"contents": None}, {"contents": "x"}, {"contents": ["x"]}])
def test_contents_that_are_no_list_of_objects_are_a_protocol_error(raw):
    with pytest.raises(CallError, match="`contents`"):
        resource_value(raw, server="library")


@pytest.mark.parametrize(
    "odd",
    [
        {"requestState": 5},
        {"requestState": {}},
        {"inputRequests": 5},
        {"inputRequests": []},
        {"inputRequests": "x"},
    ],
)
def test_questions_of_odd_types_are_not_the_protocol(odd):
    with pytest.raises(CallError) as caught:
        read_result(json.dumps({"resultType": "input_required", **odd}).encode(), server="s")
    assert (caught.value.code, caught.value.outcome) == (Code.PROTOCOL_ERROR, Outcome.UNKNOWN)


@pytest.mark.parametrize(
    "good", [{}, {"requestState": "x"}, {"inputRequests": {"a": {"method": "x" * 1000}}}]
)
def test_questions_of_the_right_types_are_asked(good):
    with pytest.raises(InputRequired) as caught:
        read_result(json.dumps({"resultType": "input_required", **good}).encode(), server="s")
    assert len(str(caught.value)) < 300
