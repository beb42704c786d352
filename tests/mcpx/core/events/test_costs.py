"""What results and definitions cost a model, and what costs nothing."""

from __future__ import annotations

import json

import msgspec
import pytest

from mcpx.core.catalog.model import ToolInfo
from mcpx.core.events.costs import costs, definitions_cost, tools_cost
from mcpx.core.rendering.tokens import estimate_result

IMAGE = {"type": "image", "data": "A" * 4000, "mimeType": "image/png"}


def text(words):
    return {"type": "text", "text": words}


def raw(**result):
    return msgspec.Raw(json.dumps(result).encode())


def result_cost(result):
    direct, spent = costs(result, [bytes(result)])
    assert direct == spent
    return direct


def test_the_text_of_a_result_counts_and_its_structured_content_does_not():
    words = "the quick brown fox jumps over the lazy dog"
    assert result_cost(raw(content=[text(words)])) == estimate_result(words)
    both = raw(content=[text(words), text(words)], structuredContent={"result": words}, _meta={"a": words})
    assert result_cost(both) == 2 * estimate_result(words)


def test_structured_content_counts_where_there_is_no_content():
    assert result_cost(raw(content=[], structuredContent={"a": [1, 2, 3]})) >= 3
    assert result_cost(raw(content=[])) == 0


def test_images_and_other_binary_data_cost_nothing():
    audio = {"type": "audio", "data": "A" * 4000, "mimeType": "audio/wav"}
    embedded = {"type": "resource", "resource": {"uri": "a:b", "blob": "A" * 4000}}
    assert result_cost(raw(content=[IMAGE, audio, embedded])) == 0
    assert result_cost(raw(contents=[{"uri": "a:b", "blob": "A" * 4000}])) == 0


def test_the_text_of_resources_counts():
    words = "as it stands in the file"
    embedded = {"type": "resource", "resource": {"uri": "a:b", "text": words}}
    assert result_cost(raw(content=[embedded])) == estimate_result(words)
    assert result_cost(raw(contents=[{"uri": "a:b", "text": words}])) == estimate_result(words)


def test_both_sides_are_estimated_alike():
    result = raw(content=[text("one two three"), IMAGE])
    block = memoryview(msgspec.json.encode(text("one two three")))
    assert costs(result, [b'{"content":[', block, b"]}"]) == (estimate_result("one two three"),) * 2
    shorter = msgspec.json.encode({"content": [text("1 2 3")]})
    assert costs(result, [shorter]) == (estimate_result("one two three"), estimate_result("1 2 3"))


@pytest.mark.parametrize("word", ["plain words, ", '"quoted"\n', "你好。世界 ", "日本語"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_long_text_is_estimated_by_parts_of_it(word, ascii_only):
    words = word * (400_000 // len(word))
    result = msgspec.Raw(json.dumps({"content": [text(words)]}, ensure_ascii=ascii_only).encode())
    assert result_cost(result) == pytest.approx(estimate_result(words), rel=0.1)


def test_an_answer_in_pieces_may_have_been_cut():
    words = "some words, " * 2000
    whole, block = estimate_result(words), memoryview(msgspec.json.encode(text(words)))
    result = msgspec.Raw(b'{"content":[' + bytes(block) + b"]}")
    direct, spent = costs(result, [b'{"content":[', block, b"]}"])
    assert direct == spent == pytest.approx(whole, rel=0.1)
    rest = memoryview(msgspec.json.encode(text("a few words")))
    direct, spent = costs(result, [b'{"content":[', rest, b"]}"])
    assert (direct, spent) == (pytest.approx(whole, rel=0.1), estimate_result("a few words"))


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b'{"content":3}', b'{"content":["' + b"\xff" * 40])
def test_what_cannot_be_read_costs_nothing(broken):
    assert costs(broken, [broken]) == (0, 0)


def test_text_that_is_not_text_is_counted_as_it_is_written():
    assert result_cost(raw(content=[{"type": "text", "text": 12345678}])) == estimate_result("12345678")


def test_a_tool_costs_its_name_description_and_parameters():
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    tool = ToolInfo(server_name="s", name="read", description="Reads", input_schema=schema, title="T" * 999)
    parameters = json.dumps(schema).replace(" ", "")
    shown = f'[{{"name":"read","description":"Reads","inputSchema":{parameters}}}]'
    assert tools_cost([tool]) == estimate_result(shown) == definitions_cost([("read", "Reads", schema)])
    assert tools_cost([]) == 0


def test_a_long_list_costs_what_its_tools_do():
    schema = {"type": "object"}
    tools = [(f"t{number}", "a word " * (number % 50 == 0) * 2000, schema) for number in range(500)]
    assert definitions_cost(tools) == sum(definitions_cost([each]) for each in tools)
