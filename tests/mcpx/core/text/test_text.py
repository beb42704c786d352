from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.core.text import (
    escaped,
    hides,
    is_clean,
    json_escaped,
    one_line,
    paragraphs,
    quoted,
    shown_name,
    visible,
)

PERSIAN = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
HINDI = "\u0915\u094d\u200d\u0937"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
INVISIBLE = [
    *"\u00ad\u034f\u061c\u115f\u1160\u17b4\u180b\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202e\u2060\u2064",
    *"\u2066\u2069\u206f\u3164\ufe00\ufe0f\ufeff\uffa0\ufff9\ufffb\ufffe\ud800\udfff\u2800\ufdd0",
    *"\U0001d173\U000e0001\U000e0041\U000e007f\U000e0100\U000e01ef",
]
CONTROLS = [chr(point) for point in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)]


@pytest.mark.parametrize("character", INVISIBLE, ids=lambda c: f"U+{ord(c):04X}")
def test_what_cannot_be_seen_is_taken_out_of_text_and_shown_as_an_escape_in_names(character):
    word = f"exam{character}ple"
    assert one_line(word) == "example"
    assert paragraphs(word) == "example"
    assert quoted(word).isascii()
    assert json.loads(quoted(word)) == word
    assert shown_name(word) == quoted(word)
    assert visible(word) == quoted(word)[1:-1]
    assert hides(word)
    assert not is_clean(word)
    assert escaped(word).isascii()
    assert "\\" in escaped(word)


@pytest.mark.parametrize("character", CONTROLS, ids=lambda c: f"U+{ord(c):04X}")
def test_controls_are_a_space_in_a_line_and_an_escape_on_a_terminal(character):
    assert one_line(f"a{character}b") == "a b"
    assert json.loads(quoted(f"a{character}b")) == f"a{character}b"
    assert quoted(f"a{character}b").isprintable()
    shown = escaped(f"a{character}b")
    assert shown == f"a{character}b" if character in "\n\t" else shown.isprintable()
    assert paragraphs(f"a{character}b").replace("\n", "").replace("\t", "") == "ab"


@pytest.mark.parametrize(
    "text",
    [
        *(PERSIAN, HINDI, FAMILY, "\U0001f469\U0001f3fd\u200d\U0001f4bb", "高血压", "é", "עברית"),
        *(
            "\u26a0\ufe0f Deprecated",
            "I \u2764\ufe0f it",
            "\u2764\ufe0f\u200d\U0001f525",
            "1\ufe0f\u20e3",
            "\u2139\ufe0f",
        ),
        *("\u26a0\ufe0e", "a \u2194\ufe0f b", "\u00a9\ufe0f", "\U0001f170\ufe0f"),
    ],
)
def test_what_people_write_stays_as_it_is(text):
    assert one_line(text) == paragraphs(text) == escaped(text) == text
    assert is_clean(text)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\u26a0\ufe0f\ufe0f\ufe0e", "\u26a0\ufe0f"),
        ("\u26a0\u200b\ufe0f", "\u26a0"),
        ("\u26a0\ufe01\U000e0100", "\u26a0"),
        ("\u0434\ufe0f\u0430\ufe0e", "\u0434\u0430"),
        ("e\u0301\ufe0f", "e\u0301"),
        ("\x80\ufe0f", ""),
        ("12\ufe0f3", "123"),
    ],
)
def test_selectors_that_choose_no_drawing_hold_no_text(text, seen):
    assert paragraphs(text) == seen
    assert one_line(text) == seen


@pytest.mark.parametrize(
    "text", ["a\u200db", "\u0645\u200c\u200c\u0645", "\u3164\u200d\u3164", "\u200d\U0001f468"]
)
def test_a_joiner_that_joins_nothing_is_taken_out(text):
    assert "\u200d" not in one_line(text)
    assert "\u200c" not in one_line(text)


def test_paragraphs_keep_their_lines_and_lose_the_escapes():
    assert paragraphs("a\r\nb\rc\u2028d\x1b[2Je\tf") == "a\nb\nc\nd[2Je\tf"


def test_a_terminal_sees_what_was_there():
    assert escaped("\x1b]0;x\x07\u202e\U000e0041\ud800") == r"\x1b]0;x\x07\u202e\U000e0041\ud800"


@given(st.text(st.characters() | st.sampled_from(INVISIBLE + CONTROLS)))
def test_any_text_is_shown_clean(text):
    line = one_line(text)
    assert is_clean(line)
    assert "\n" not in line
    assert is_clean(escaped(text))
    assert is_clean(paragraphs(text))
    assert json.loads('"' + json_escaped(json.dumps(text, ensure_ascii=False)[1:-1]) + '"') == text
    assert json.loads(quoted(text)) == text
    for character in one_line(text):
        assert unicodedata.category(character) not in {"Cc", "Cs", "Zl", "Zp"}


@given(st.text(st.sampled_from("a \n\u200b\u0645\u200c."), max_size=60), st.integers(0, 20))
def test_a_limit_cuts_as_if_the_whole_had_been_read(text, limit):
    whole = one_line(text)
    assert one_line(text, limit) == (whole if len(whole) <= limit else whole[:limit] + "...")


def test_a_limit_reads_no_more_than_it_needs():
    assert one_line("\n" * 50_000_000 + "x", 10) == "..."
    assert one_line("y" * 50_000_000, 3) == "yyy..."
