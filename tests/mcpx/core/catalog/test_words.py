from __future__ import annotations

import pytest

from mcpx.core.catalog.words import MAX_WORD_LEN, groups_of, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getHTTPStatus2", ["get", "http", "status", "2"]),
        ("git_log-all/files", ["git", "log", "file"]),
        ("commits committed committing", ["commit"] * 3),
        ("the tools of this MCP server", []),
        ("Café CAFÉ cafe", ["cafe"] * 3),
        ("Straße", ["strass"]),
        ("天気予報", ["天気", "気予", "予報"]),
        ("查 12306 车票", ["查", "12306", "车票"]),
        ("날씨 검색", ["날씨", "검색"]),
        ("Привет МИР", ["привет", "мир"]),
        ("", []),
        ("!?, ...", []),
    ],
)
def test_words_are_split_folded_and_stemmed(text, expected):
    assert words(text) == expected


def test_a_long_run_of_letters_is_cut():
    assert [len(word) for word in words("x" * 5000)] == [MAX_WORD_LEN]


def test_words_for_the_same_thing_share_a_group():
    (delete,), (remove,) = words("delete"), words("removing")
    assert set(groups_of(delete)) & set(groups_of(remove))
    assert groups_of("xyzzy") == ()
