"""Parts of large texts: each fits, and together they are the whole."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.core.rendering.budget import Part, cut, fits
from mcpx.core.rendering.tokens import estimate_result

USERS = [{"id": n, "name": f"user {n}", "mail": f"u{n}@example.com", "ok": n % 2 == 0} for n in range(2000)]
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=30)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=4), inner, max_size=8),
)


def parts_of(text: str, budget: int, **options: object) -> list[Part]:
    """All parts of a text, each found by what the one before it says."""
    parts = [cut(text, budget, **options)]
    while parts[-1].remaining:
        unit = "characters" if parts[-1].unit == "characters" else None
        parts.append(cut(text, budget, start=parts[-1].end, unit=unit, **options))
        assert (parts[-1].start == parts[-2].end) or parts[-1].unit != parts[-2].unit
        assert len(parts) < 5000
    return parts


def leaves(value: object, path: tuple[object, ...] = ()) -> list[object]:
    """The scalars of a value in order, with the keys on the way to each; empty containers count as such."""
    if isinstance(value, dict) and value:
        return [leaf for key, each in value.items() for leaf in leaves(each, (*path, key))]
    if isinstance(value, list) and value:
        return [leaf for each in value for leaf in leaves(each, (*path, None))]
    return [(path, value)]


@pytest.mark.parametrize("budget", [200, 1000, 8000])
@pytest.mark.parametrize("indent", [None, 2])
def test_the_rows_of_a_table_come_in_parts_that_fit(budget, indent):
    parts = parts_of(json.dumps({"total": 2000, "items": USERS}, indent=indent), budget)
    assert [row for part in parts for row in json.loads(part.text)["items"]] == USERS
    assert all(estimate_result(part.text) <= budget for part in parts)
    assert {(part.unit, part.total) for part in parts} == {("rows", 2000)}
    assert json.loads(parts[0].text)["total"] == 2000


def test_most_of_the_budget_is_used():
    part = cut(json.dumps(USERS), 8000)
    assert estimate_result(part.text) > 0.8 * 8000


def test_a_part_may_start_anywhere_and_be_bounded_by_a_count():
    part = cut(json.dumps({"items": USERS}), 8000, start=700, count=3)
    assert json.loads(part.text) == {"items": USERS[700:703]}
    assert (part.start, part.end, part.remaining) == (700, 703, 1297)
    assert cut(json.dumps(USERS), 8000, start=5000).end == 2000


@pytest.mark.parametrize(
    "value",
    [
        {"a": USERS[:300], "b": USERS[300:700], "c": 1},
        {"data": {"result": [{"rows": USERS}]}},
        {f"key {n}": n for n in range(3000)},
        [{"id": n, "rows": USERS[: 40 * n]} for n in range(12)],
    ],
    ids=["two tables", "deep", "members", "long rows"],
)
def test_all_parts_together_hold_every_value_once(value):
    parts = parts_of(json.dumps(value), 3000)
    assert [leaf for part in parts for leaf in leaves(json.loads(part.text))] == leaves(value)


def test_what_stands_around_the_rows_is_repeated_only_where_it_is_short():
    short, long = {"total": 2}, {"note": "n" * 1000}
    for around, repeated in ((short, True), (long, False)):
        text = json.dumps({**around, "items": USERS})
        first, second = (json.loads(cut(text, 2000, start=start).text) for start in (0, 50))
        assert first | around == first
        assert (second | around == second) is repeated


def test_numbers_keep_their_digits():
    text = json.dumps([{"n": n} for n in range(5000)]).replace("4}", "4.00000000000000000001}")
    assert "4.00000000000000000001" in cut(text, 500).text


def test_a_row_that_is_over_the_budget_shows_what_fits_and_how_to_select_the_rest():
    rows = [{"id": n, "body": "lorem ipsum " * 2000, "tags": ["x"]} for n in range(3)]
    parts = parts_of(json.dumps({"items": rows}), 300)
    shown = [row for part in parts for row in json.loads(part.text)["items"]]
    assert all(estimate_result(part.text) <= 300 for part in parts)
    assert {"id": 2} in [{key: row[key] for key in row if key == "id"} for row in shown]
    assert "select=items[2].body" in json.dumps(shown)


def test_text_is_cut_between_lines():
    text = "".join(f"line {n} of a log\n" for n in range(5000)) + "the end"
    parts = parts_of(text, 700)
    assert "".join(part.text for part in parts) == text
    assert {(part.unit, part.total) for part in parts} == {("lines", 5001)}
    assert all(part.text.endswith(("\n", "the end")) for part in parts)
    assert all(estimate_result(part.text) <= 700 for part in parts)


def test_a_line_that_is_over_the_budget_is_cut_between_characters():
    text = "short\n" + "word " * 5000 + "\nlast"
    parts = parts_of(text, 500)
    assert "".join(part.text for part in parts) == text
    assert [part.unit for part in parts[:2]] == ["lines", "characters"]
    assert all(estimate_result(part.text) <= 500 for part in parts)


def test_a_long_string_in_json_is_cut_between_its_lines():
    content = "".join(f"line {n}\n" for n in range(4000))
    parts = parts_of(json.dumps({"path": "/a", "content": content}), 500)
    assert "".join(json.loads(part.text)["content"] for part in parts) == content
    assert (parts[0].unit, parts[0].total) == ("lines", 4000)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": ' + json.dumps(USERS) + "}",
        "[" + "1," * 1_100_000 + "1]",
        json.dumps(USERS)[:-1],
        "[" * 5000 + "]" * 5000,
        '["\\ud800", ' + "1, " * 5000 + "1]",
    ],
    ids=["a key twice", "dense", "broken", "deep", "surrogate"],
)
def test_json_that_cannot_be_cut_between_rows_is_cut_as_text(text):
    part = cut(text, 500)
    assert text.startswith(part.text)
    assert part.unit == "characters"


@given(VALUES, st.integers(1, 60), st.sampled_from([None, 1]))
def test_any_json_is_cut_into_parts_that_lead_through_it(value, budget, indent):
    parts = parts_of(json.dumps(value, indent=indent), budget)
    assert parts[0].start == 0
    assert parts[-1].end == parts[-1].total


@given(st.text(alphabet="ab \n", max_size=300) | st.text(max_size=60), st.integers(1, 40))
def test_any_text_is_whole_in_its_parts(text, budget):
    if text.lstrip()[:1] not in ("{", "["):
        assert "".join(part.text for part in parts_of(text, budget)) == text


def test_a_short_text_fits_without_an_estimate():
    assert fits("x" * 100, 100)
    assert not fits("x y " * 1000, 100)
