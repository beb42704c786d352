"""A later list against the pages that the client was given."""

from __future__ import annotations

import msgspec

from mcpx.attach.announcements import GivenList
from mcpx.attach.pending import PendingRequest


def page(*tools, more=None):
    return msgspec.Raw(msgspec.json.encode({"tools": tools} | ({"nextCursor": more} if more else {})))


def given(*pages):
    tools, cursor = GivenList(), None
    for number, each in enumerate(pages):
        params = msgspec.Raw(msgspec.json.encode({"cursor": cursor} if cursor else {}))
        more = str(number) if number + 1 < len(pages) else None
        tools.give(PendingRequest("tools/list", params), page(*each, more=more))
        cursor = more
    return tools


def test_pages_together_are_one_list():
    tools = given("ab", "cd", "e")
    assert not tools.differs(page(*"abcde"))
    assert not tools.differs(page(*"ab", more="x"))
    assert tools.differs(page(*"abcd"))
    assert not tools.differs(page(*"abcd"))
    assert tools.differs(page(*"abcx"))
    assert tools.differs(page(*"xb", more="x"))


def test_what_the_client_has_not_been_given_is_no_difference():
    tools = given("ab", "cd", "e")
    tools.give(PendingRequest("tools/list", msgspec.Raw(b"{}")), page(*"ab", more="0"))
    assert not tools.differs(page(*"abxy"))
    assert tools.differs(page(*"axxy"))


def test_a_list_that_was_empty_or_unreadable():
    assert not given("").differs(page())
    assert given("").differs(page("a"))
    assert given("a").differs(msgspec.Raw(b'{"tools": 5}'))
