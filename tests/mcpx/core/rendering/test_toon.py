"""TOON is smaller, and says the same. The oracles are the official encoder, and decimals for the numbers.

Where the Rust library and the official Python one differ (0.9.0 for specification 4.1 against 1.2.0 for 4.4),
found by the experiments below:

* below 1e-6 and from 1e21 on, the official one writes an exponent (`1e-7`), the Rust one `0.0000001`;
* an integral float of 2**53 and above: the official one writes the float's exact digits, the Rust one its
  shortest digits and zeros. Neither comes back as a float; the first is equal to it, the second is not;
* a lone text that starts with a byte order mark: the official one quotes it, the Rust one does not and loses
  it when decoding (scalars are never compressed here, so it is out of reach).

Both write an integral float without its fraction and -0.0 as 0, and put the keys of all rows of a table in
the first row's order: the specification asks for that.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
import toon_format
import toons
from hypothesis import given
from hypothesis import strategies as st

from mcpx.core.rendering.tokens import estimate_result
from mcpx.core.rendering.toon import DEFAULT_FORM, MAX_DEPTH, JSONText, TextForm, decode, encode, read_json

WHENEVER_SMALLER = TextForm(toon_saving=0)


def shortened(text, *, form=WHENEVER_SMALLER):
    """TOON in place of the text, if it is JSON and is replaced by it."""
    source = read_json(text)
    shown = source and source.smallest(form)
    return None if shown is None or read_json(shown) else shown


AWKWARD = (
    *(
        "",
        " ",
        " a",
        "a ",
        "\t",
        "\n",
        "\r",
        "\x00",
        "\x0b",
        "\x0c",
        "\x1f",
        "\x7f",
        "\x85",
        "\u2028",
        "\ufeff",
    ),
    *("1", "-1", "1.0", "05", "+5", ".5", "1e5", "1E5", "0x10", "1_000", "NaN", "Infinity", "٣", "-0"),
    *(
        "true",
        "false",
        "null",
        "True",
        "-",
        "--",
        "- a",
        "#",
        "#x",
        ":",
        "a:b",
        "a: b",
        "a,b",
        "a|b",
        '"',
        "\\",
    ),
    *("[]", "{}", "[1]", "[1]: 2", "a[2]{b}:", "x[2:]{y}:", '":', "\\u003a", "é", "\U0001f600", "a\u00a0"),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(AWKWARD)
FLOATS = st.floats(-(2.0**53), 2.0**53, exclude_min=True, exclude_max=True).filter(lambda x: str(x) != "-0.0")
WHOLES = (
    st.integers() | st.integers(-(2**80), 2**80) | st.sampled_from((2**53 + 1, 2**64, -(2**63) - 1, 10**300))
)
ORDINARY_FLOATS = FLOATS.filter(lambda x: not 0 < abs(x) < 1e-6)


def values(floats: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    """JSON values, among them tables and keyed tables, which TOON writes in forms of their own."""
    leaves = st.none() | st.booleans() | WHOLES | floats | TEXTS

    def nest(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        rows = st.lists(TEXTS, max_size=3, unique=True).flatmap(
            lambda keys: st.lists(st.fixed_dictionaries(dict.fromkeys(keys, inner)), max_size=4)
        )
        keyed = st.tuples(rows, st.lists(TEXTS, min_size=4, max_size=4, unique=True)).map(
            lambda pair: dict(zip(pair[1], pair[0], strict=False))
        )
        return st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4) | rows | keyed

    return st.recursive(leaves, nest, max_leaves=20).filter(lambda value: not str(value).startswith("\ufeff"))


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    """JSON texts as servers write them: indented or not, escaped or not, with numbers of any kind."""
    floats = st.floats(allow_nan=False, allow_infinity=False) if draw(st.booleans()) else FLOATS
    value = draw(values(floats))
    if draw(st.booleans()):
        value = {"drawn": value, "users": [{"id": n, "name": f"user {n}"} for n in range(9)]}
    indent = draw(st.sampled_from((None, 0, 2)))
    separators = draw(st.sampled_from(((", ", ": "), (",", ":"), (" ,\n", "\t: "))))
    return json.dumps(value, indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: `True` is not `1`, `1.0` is `1`, and keys have no order."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return kind(one) is kind(other) and one == other and str(one == 0 and one) != "-0.0"


def kind(value: Any) -> type:
    """The JSON type of a leaf, as one Python type."""
    return float if type(value) in (int, float, Decimal) else type(value)


def no_double(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), "a key twice"
    return dict(pairs)


def to_the_digit(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal, object_pairs_hook=no_double)


def table(count: int, score: str = "1.5") -> str:
    rows = ",".join(f'{{"id":{n},"name":"user {n}","active":true,"score":{score}}}' for n in range(count))
    return f'{{"users":[{rows}]}}'


def no_space(text: str) -> str:
    return msgspec.json.format(text, indent=-1)


@given(values(FLOATS))
def test_any_value_within_the_guards_comes_back_with_its_types(value):
    assert same(decode(encode(value)), value)


@given(values(FLOATS))
def test_official_decoder_reads_our_toon_to_the_same_value(value):
    assert same(toon_format.loads(encode(value)), value)


@given(values(ORDINARY_FLOATS))
def test_toon_is_what_the_official_encoder_writes_for_numbers_in_the_canonical_range(value):
    assert encode(value) == toon_format.dumps(value)


@given(json_texts())
def test_compressed_text_is_smaller_than_both_and_says_the_same_to_the_last_digit(text):
    compressed = shortened(text)
    if compressed is None:
        return
    compact = msgspec.json.encode(read_json(text).value).decode()
    assert len(compressed) < min(len(text), len(compact))
    said = toon_format.loads(compressed, parse_float=Decimal, parse_int=Decimal)
    assert same(said, to_the_digit(text))


NUMBERS = st.from_regex(r"\A-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?\Z")


@given(st.lists(NUMBERS, min_size=1, max_size=3), st.booleans())
def test_a_number_in_any_spelling_is_kept_to_the_last_digit_or_the_text_left_alone(numbers, in_table):
    cells = "},{".join(f'"long key":{number},"other":1' for number in [*numbers, "1"])
    text = f"[{{{cells}}}]" if in_table else json.dumps({"k": {"l": {"m": 0}}}).replace("0", numbers[0])
    compressed = shortened(text)
    if compressed is not None:
        said = toon_format.loads(compressed, parse_float=Decimal, parse_int=Decimal)
        assert said == to_the_digit(text)


@pytest.mark.parametrize(
    "score", ["0.1", "10.00", "1e5", "1.5E-3", "0.30000000000000004", "123456789012345678901234567890", "-1"]
)
def test_a_table_of_numbers_that_survive_becomes_toon(score):
    text = table(9, score)
    compressed = shortened(text)
    assert compressed is not None
    assert same(toon_format.loads(compressed, parse_float=Decimal, parse_int=Decimal), to_the_digit(text))


@pytest.mark.parametrize(
    "score",
    [
        *(
            "0.1000000000000000055511151231257827",
            "12345678901234567.89",
            "9007199254740993.0",
            "-0.0",
            "-0e0",
        ),
        *(
            "1e21",
            "1e23",
            "-1.5e300",
            "-1e300",
            "-123456789012345680000.0",
            "1152921504606846976.0",
            "1e-400",
            "1e-99999999999999999999",
        ),
        *("NaN", "Infinity", "1e400"),
    ],
)
def test_a_number_that_toon_would_change_keeps_its_text(score):
    assert shortened(table(9)) is not None
    assert shortened(table(9, score)) is None


@pytest.mark.parametrize(
    "double",
    [
        '{"a":1,"a":2}',
        '{"a" :1,"a":2}',
        '{"\\u003a":1,":":2}',
        '{"a":"\\u003a","b":1,"b":2}',
        '{"":{"":1},"":1}',
    ],
)
def test_a_key_given_twice_keeps_the_text_though_the_last_value_is_parsed(double):
    text = f"[{double},{table(9)}]"
    with pytest.raises(AssertionError, match="a key twice"):
        to_the_digit(text)
    source = read_json(text)
    assert source is not None
    assert source.value[0] == json.loads(double)
    assert shortened(text) is None
    assert no_space(source.smallest(WHENEVER_SMALLER)) == no_space(text)
    assert shortened(f"[{table(9)}]") is not None


@given(st.lists(st.tuples(st.sampled_from(["a", ":", '":', "b"]), TEXTS), max_size=4), st.booleans())
def test_a_double_key_is_always_seen(pairs, escaped):
    members = ",".join(f"{json.dumps(key)} :{json.dumps(value)}" for key, value in pairs)
    members = members.replace(":", "\\u003a", 1) if escaped and pairs and pairs[0][0] == ":" else members
    compressed = shortened(f'{{{members}, "t": {table(9)}}}')
    double = len({key for key, _ in pairs}) < len(pairs)
    assert not (double and compressed)


def test_escapes_in_keys_and_texts_do_not_look_like_double_keys():
    rows = [{"link": "http://x:80/", "note": 'say ":" < &', "µ": "time: 10:30"}] * 9
    escaped = json.dumps(rows).replace("<", "\\u003c").replace("/", "\\/")
    compressed = shortened(escaped)
    assert compressed is not None
    assert decode(compressed) == rows


@pytest.mark.parametrize(
    "text",
    [
        *(
            "42",
            '"x"',
            "true",
            "null",
            "",
            " ",
            "hello",
            "[INFO] started",
            "{name}",
            "[1,]",
            "{'a': 1}",
            "[1] tail",
        ),
        *(
            '\ufeff{"a":1}',
            '["\\ud800"]',
            '["\ud800"]',
            "[NaN]",
            "[1e400]",
            "\x0c[1]",
            "[01]",
            "[" + "1" * 5000 + "]",
        ),
    ],
)
def test_what_is_not_a_json_object_or_array_is_not_json(text):
    assert read_json(text) is None
    assert shortened(text) is None


@given(st.text(st.characters(), max_size=40) | json_texts().map(lambda text: text[:-1] + "]"))
def test_no_text_makes_it_raise(text):
    for shape in (text, f"[{text}", f'{{"a":{text}}}'):
        source = read_json(shape)
        if source is not None:
            assert isinstance(source.value, dict | list)
            source.smallest(WHENEVER_SMALLER)


def test_value_is_there_where_toon_is_not_smaller():
    source = read_json(' {"a": [1, {"b": null}]} ')
    assert source is not None
    assert source.value == {"a": [1, {"b": None}]}
    assert shortened("[[[]]]") is None
    assert read_json("{}").value == {}


@pytest.mark.parametrize("text", ["{}", "[]", "{ }", "[   ]"])
def test_an_empty_container_is_not_made_an_empty_text(text):
    assert encode({}) == ""
    assert shortened(text) is None


def test_indented_json_that_toon_does_not_shorten_becomes_compact():
    rows = [[[1]], [[2]], {"a": []}]
    text = json.dumps(rows, indent=8)
    compact = json.dumps(rows, separators=(",", ":"))
    assert len(compact) <= len(encode(rows)) < len(text)
    assert DEFAULT_FORM(text) == WHENEVER_SMALLER(text) == compact


def test_a_text_with_exponents_that_is_shorter_than_compact_json_is_never_made_longer():
    text = '{"a":1e9}'
    assert len(text) < len(encode(json.loads(text))) < len(msgspec.json.encode(json.loads(text)))
    assert shortened(text) is None


def test_characters_are_counted_not_bytes():
    """The TOON has one character more than the compact JSON, but fewer than that has bytes."""
    value = ["é" * 30]
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = json.dumps(value, ensure_ascii=False, indent=2)
    assert len(compact) < len(encode(value)) < min(len(text), len(compact.encode()))
    assert shortened(text) is None


def test_min_size_is_in_characters_and_includes_itself():
    text = table(3)
    assert shortened(text, form=TextForm(min_size=len(text))) is not None
    assert shortened(text, form=TextForm(min_size=len(text) + 1)) is None


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_nesting_is_bounded(opening, closing):
    def nested(levels: int) -> str:
        return opening * levels + "1" + closing * levels

    per_repeat = opening.count("[") + opening.count("{")
    fits = MAX_DEPTH // per_repeat
    assert read_json(nested(fits)) is not None
    assert shortened(nested(fits)) is None
    for levels in (fits + 1, 1000, 100_000):
        assert read_json(nested(levels)) is None


def test_many_shallow_containers_are_not_deep():
    source = read_json(json.dumps([{"a": [n]} for n in range(MAX_DEPTH * 2)]))
    assert source is not None
    assert source.depth == 3


def test_indentation_that_would_fill_the_memory_is_not_built(monkeypatch):
    """Two megabytes here would be half a gigabyte of TOON."""
    encoded: list[Any] = []
    monkeypatch.setattr(toons, "dumps", lambda value: encoded.append(value) or "")
    for levels, tried in ((250, 0), (2, 1)):
        source = read_json("[" * levels + "0," * 1_000_000 + "{}" + "]" * levels)
        assert source is not None
        source.smallest(WHENEVER_SMALLER)
        assert len(encoded) == tried


def test_a_large_shallow_table_is_still_compressed():
    text = table(20_000)
    assert shortened(text) is not None


def test_a_value_that_no_encoder_takes_is_left_alone():
    for text, value in (('["\\ud800"]', ["\ud800"]), ("[   1   ]", [object()])):
        assert JSONText(text=text, value=value, depth=1).smallest(WHENEVER_SMALLER) == text


def test_integral_floats_lose_their_fraction_as_the_specification_asks():
    assert encode({"a": 1.0}) == toon_format.dumps({"a": 1.0}) == "a: 1"


@pytest.mark.parametrize(
    ("value", "ours", "official"),
    [
        (1e-7, "0.0000001", "1e-7"),
        (1e21, "1000000000000000000000", "1e+21"),
        (2.0**60, "1152921504606847000", "1152921504606846976"),
        ("\ufeffa", "\ufeffa", '"\ufeffa"'),
    ],
)
def test_the_known_differences_from_the_official_encoder_still_stand(value, ours, official):
    assert encode(value) == ours
    assert toon_format.dumps(value) == official


def test_decode_names_the_line_of_what_is_not_toon():
    with pytest.raises(ValueError, match="line 1"):
        decode("items[3]: a,b")


# The choice between compact JSON and TOON


@given(json_texts())
def test_no_json_is_shown_longer_than_it_came_or_than_its_compact_form(text):
    source = read_json(text)
    shown = DEFAULT_FORM(text)
    assert len(shown) <= min(len(text), len(no_space(text)))
    if source and read_json(shown):
        assert shown == no_space(text) or same(to_the_digit(shown), to_the_digit(text))
        assert "\n" not in shown


@pytest.mark.parametrize(
    "text",
    ['{"n" : 0.1000000000000000055, "s": "a  b"}', '[ {"a":1,"a" :2} ]', '{"a": -0.0 , "b": 1e400000}'],
)
def test_json_that_encoding_would_change_only_loses_its_space(text):
    assert DEFAULT_FORM(text) == (no_space(text) if read_json(text) else text)


@pytest.mark.parametrize("text", ["[null, 1e-05]", "[1e5, 2 ]", '{"a" : [1e-05]}', "[1e-05, 1]", "[ 1e5]"])
def test_a_number_that_compact_json_writes_longer_keeps_its_spelling_without_space_around_it(text):
    assert DEFAULT_FORM(text) == text.replace(" ", "")


def test_escapes_that_make_json_longer_are_written_out():
    text = json.dumps({"city": "\u5317\u4eac", "path": "a/b"}).replace("/", "\\/")
    assert DEFAULT_FORM(text) == '{"city":"\u5317\u4eac","path":"a/b"}'


def test_json_that_is_as_small_as_it_can_be_is_the_text_that_came():
    for text in ('{"a":[1,2,{"b":"c"}]}', "[]", table(1), "not JSON", " [not JSON"):
        assert DEFAULT_FORM(text) is text


@pytest.mark.parametrize("words", [1, 20])
def test_toon_must_save_its_share_of_the_tokens_and_of_the_characters(words):
    text = json.dumps([{"id": n, "text": "word " * words} for n in range(9)])
    toon, compact = encode(json.loads(text)), no_space(text)
    tokens = 1 - estimate_result(toon) / estimate_result(compact)
    saving = min(tokens, 1 - len(toon) / len(compact))
    assert shortened(text, form=TextForm(saving - 0.01)) == toon
    assert shortened(text, form=TextForm(saving + 0.01)) is None


def test_tables_become_toon_and_long_texts_do_not():
    assert shortened(table(9), form=DEFAULT_FORM) is not None
    wordy = json.dumps([{"id": n, "text": "many words that no table makes fewer " * 4} for n in range(9)])
    assert DEFAULT_FORM(wordy) == no_space(wordy)


def test_without_toon_json_is_compact():
    assert TextForm(toon_saving=1)(json.dumps(json.loads(table(9)), indent=2)) == table(9)


def test_a_table_keyed_by_name_becomes_toon():
    text = json.dumps({f"user {n}": {"id": n, "active": True, "role": "admin"} for n in range(9)})
    assert shortened(text, form=DEFAULT_FORM) is not None
