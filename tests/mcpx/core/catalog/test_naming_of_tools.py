"""Names that every host takes, that lead to one tool, and that never depend on other tools."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from mcpx.core.catalog.naming import MAX_NAME_CHARS, may_be_of, native_name

NAME = st.text(st.sampled_from("ab_-. /é0"), min_size=1, max_size=9)
ANY = st.text(min_size=1, max_size=200)
VALID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def test_names_that_fit_are_plain():
    assert native_name("git", "git_status") == "git__git_status"
    assert native_name("my-files", "_read__all") == "my-files___read__all"
    assert native_name("s", "t" * 61) == "s__" + "t" * 61


def test_the_others_end_with_a_digest_and_say_what_they_can():
    for server, tool, beginning in (
        ("git hub", "a.b", "git_hub__a_b_"),
        ("a__b", "c", "a__b__c_"),
        ("a_", "b", "a___b_"),
        ("s", "t" * 62, "s__ttt"),
        ("long-" * 14, "tool", "long-long-long-long-long__tool_"),
        ("git", "x_0123456789ab", "git__x_0123456789ab_"),
        ("größe", "è", "gr__e___"),
    ):
        name = native_name(server, tool)
        assert name.startswith(beginning)
        assert re.search(r"_[0-9a-f]{12}\Z", name)
        assert VALID.fullmatch(name)
        assert may_be_of(server, name)


def test_a_name_is_for_good():
    assert native_name("git hub", "a.b") == "git_hub__a_b_e2691d9e85d2"


@given(st.one_of(NAME, ANY), st.one_of(NAME, ANY))
def test_every_name_is_valid_and_of_its_server(server, tool):
    name = native_name(server, tool)
    assert len(name) <= MAX_NAME_CHARS
    assert VALID.fullmatch(name)
    assert may_be_of(server, name)


@given(st.sets(st.tuples(NAME, NAME), max_size=40))
def test_no_two_tools_have_one_name(tools):
    assert len({native_name(*each) for each in tools}) == len(tools)


@given(NAME, NAME)
def test_a_tool_that_is_called_like_the_name_of_another_does_not_get_it(server, tool):
    name = native_name(server, tool)
    head, _, rest = name.partition("__")
    if head and rest and (head, rest) != (server, tool):
        assert native_name(head, rest) != name
