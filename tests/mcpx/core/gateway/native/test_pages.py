"""Cursors: every entry once, whatever happens to the list in between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.core.gateway.native.lists import BadCursorError, page_of


def entries(*keys: str) -> list[tuple[str, str]]:
    return [(key, key.upper()) for key in keys]


def walk(kind: str, listed: list[tuple[str, str]], size: int) -> list[str]:
    keys, cursor = [], None
    while True:
        page = page_of(kind, listed, cursor, size=size)
        keys += [key for key, _ in page.entries]
        if (cursor := page.next_cursor) is None:
            return keys


@given(keys=st.lists(st.text(), unique=True, max_size=20), size=st.integers(1, 6))
def test_every_entry_is_given_once_in_order(keys, size):
    assert walk("x", entries(*keys), size) == keys


@given(
    keys=st.lists(st.text(), unique=True, min_size=2, max_size=12),
    added=st.lists(st.tuples(st.integers(0, 12), st.text()), max_size=5),
    gone=st.sets(st.integers(0, 11)),
    size=st.integers(1, 4),
)
def test_what_stays_listed_is_given_once_if_the_end_of_the_page_stays(keys, added, gone, size):
    first = page_of("x", entries(*keys), None, size=size)
    if first.next_cursor is None:
        return
    last = first.entries[-1][0]
    later = [key for place, key in enumerate(keys) if place not in gone or key == last]
    for place, key in added:
        if key not in keys and key not in later:
            later.insert(place, key)
    given = [key for key, _ in first.entries]
    rest = page_of("x", entries(*later), first.next_cursor, size=100)
    given_later = [key for key, _ in rest.entries]
    assert given_later == later[later.index(last) + 1 :]
    stayed = [key for key in keys if key in later]
    assert [key for key in given + given_later if key in stayed] == stayed


def test_where_the_end_of_the_page_is_gone_it_goes_on_at_the_same_place():
    cursor = page_of("x", entries("a", "b", "c", "d"), None, size=2).next_cursor
    assert page_of("x", entries("a", "c", "d"), cursor, size=2).entries == entries("c", "d")
    assert page_of("x", [], cursor, size=2).entries == []


def test_an_empty_list_is_one_page():
    assert page_of("x", [], None).next_cursor is None


@pytest.mark.parametrize("cursor", ["", "x", "W10", "bm90aGluZw", "\u20ac", "[]", "WyJ4IiwtNSwiYSJd"])
def test_what_is_no_cursor(cursor):
    with pytest.raises(BadCursorError):
        page_of("x", entries("a"), cursor)


def test_a_cursor_of_another_list():
    cursor = page_of("prompts", entries("a", "b"), None, size=1).next_cursor
    with pytest.raises(BadCursorError):
        page_of("resources", entries("a", "b"), cursor, size=1)
