"""JMESPath over the JSON of a result: what it gives, and what it says where it gives nothing."""

from __future__ import annotations

import json

import pytest

from mcpx.core.rendering.projection import BadExpression, is_cheap, parse, project

ITEMS = [{"id": n, "title": f"t{n}", "price": n * 1.5, "odd key": [n]} for n in range(20)]
TEXT = json.dumps({"total": 20, "items": ITEMS})


def value(expression, *texts):
    found = project(expression, texts or (TEXT,))
    assert not found.problem, found.problem
    return json.loads(found.value)


def test_a_part_of_the_result():
    assert value("items[:2].{id: id, t: title}") == [{"id": 0, "t": "t0"}, {"id": 1, "t": "t1"}]
    assert value("items[?price > `27`].id") == [19]
    assert value("total") == 20
    assert value('items[0]."odd key"') == [0]


def test_several_texts_are_a_list_and_what_is_no_json_is_left_out():
    assert value("[].a", '{"a": 1}', "no json", '{"a": 2}') == [1, 2]
    assert value("a", "three", '{"a": 2}') == 2


@pytest.mark.parametrize("expression", ["[].id", "result[].id"])
@pytest.mark.parametrize("text", ['[{"id": 1}]', '{"result": [{"id": 1}]}'])
def test_a_list_and_its_wrapper_are_taken_for_each_other(expression, text):
    assert value(expression, text) == [1]


def test_whole_numbers_of_any_length_survive():
    assert project("a", ['{"a": 123456789012345678901234567890}']).value == b"123456789012345678901234567890"


@pytest.mark.parametrize("expression", ["itemz", "items[].idd", "items[?id == `99`]", "[]"])
def test_nothing_is_answered_with_what_there_is(expression):
    found = project(expression, [TEXT])
    assert found.value in {b"null", b"[]"}
    assert "{total: number, items: array of 20 {id: number, title: string" in found.hint
    assert found.hint.endswith("For example: items[].{id: id, title: title}")


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ('[{"id": 1, "b": 2, "c": 3}]', "[].{id: id, b: b}"),
        ("[1, 2]", "[:10]"),
        ('{"a b": {"c": [1]}}', '"a b".c[:10]'),
        ('{"a": {"b": 1}}', "a.b"),
        ('{"a": 1, "b": 2, "c": 3}', "{a: a, b: b}"),
        ('{"a": {}}', "a"),
        ("{}", "@"),
        ("[]", "[:10]"),
    ],
)
def test_the_example_fits_the_data(text, example):
    hint = project("nothing.of.it", [text]).hint
    assert hint.endswith(f"For example: {example}")
    assert project(example, [text]).problem == ""


def test_hints_are_bounded():
    wide = json.dumps({"k" * 5000 + str(n): {"x" * 1000: [[[[n]]]]} for n in range(5000)})
    assert len(project("nope", [wide]).hint) < 3000


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("items[].{id id}", "at character 13:\nitems[].{id id}\n            ^"),
        ("items[", "it is not complete, at character 7:"),
        ("items[?price > 10]", "backticks: `10`, at character 16:"),
        ("items[?a = 'x']", "equality is written ==, at character 10"),
        ("$.items", "there is no $"),
        ("nope(@)", "there is no function nope(); there are abs, avg"),
        ("sort_by(items)", "sort_by() takes 2 arguments, not 1"),
        ("", "cannot be empty"),
        ("[" * 5000, "nested too deeply"),
        ("!" * 500 + "a", "nested too deeply"),
        ("a" * 9000, "longer than 8192 characters"),
    ],
)
def test_what_cannot_be_parsed_is_shown_with_its_place(expression, says):
    with pytest.raises(BadExpression) as refused:
        parse(expression)
    assert says in str(refused.value)


def test_what_fails_on_the_data_is_shown_with_its_place():
    found = project("items | sort_by(@, &nope)", [TEXT])
    assert "In function sort_by()" in found.problem
    assert "at character 9:\nitems | sort_by(@, &nope)\n        ^" in found.problem
    assert "For example" in found.hint
    assert "JSON cannot say" in project("to_number('inf')", [TEXT]).problem
    assert "no JSON" in project("a", ["plain text"]).problem
    assert project("`a\ud800`", [TEXT]).problem


@pytest.mark.parametrize(
    ("expression", "text", "cheap"),
    [
        ("items[].{id: id, title: title}", TEXT, True),
        ("items[].{id: id, title: title}", json.dumps({"items": ITEMS * 500}), False),
        ("|".join(["[@, @]"] * 30), "{}", False),
        ("join('x', items[].title)", TEXT, False),
        ("length(@)", '"' + "x" * 5_000_000 + '"', False),
    ],
)
def test_only_what_is_surely_quick_runs_on_the_event_loop(expression, text, cheap):
    assert is_cheap(parse(expression), [text]) is cheap
