"""A head that was let in stands for the same one again, and for nothing that is read otherwise."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpx.core.gateway.frontends.http.exchange import Refusal
from mcpx.core.gateway.frontends.http.requests import Bodies, RequestReader
from tests.mcpx.core.gateway.frontends.http.test_connection import SMUGGLED, request

LIMIT = 1000
HEAD = (b"Authorization: Bearer one", b"Accept: application/json", b"X: y")
FIRST = request("/mcp?q=1", *HEAD, body=b"hello")


class Carrier:
    """A connection on which nothing is sent."""

    exchanges = ()

    def go_on(self, _exchange):
        pass


class Site:
    """Lets in what has the token, for as long as that is valid."""

    def __init__(self):
        self.looked = 0
        self.are_valid = True

    def look(self, exchange):
        self.looked += 1
        exchange.head.is_steady = True
        exchange.bearer = exchange.head.bearer = "one"
        is_let_in = exchange.headers.get(b"authorization") == b"Bearer one" and self.are_valid
        return None if is_let_in else Refusal(401, b"no token")

    def is_valid(self, bearer):
        assert bearer == "one"
        return self.are_valid


class Reading:
    def __init__(self):
        self.site = Site()
        self.reader = RequestReader(Carrier(), self.site, Bodies(LIMIT))

    def feed(self, *pieces):
        """What is read of these pieces, each of which comes by itself."""
        before = len(self.reader.waiting)
        for piece in pieces:
            if not self.reader.stops:
                self.reader.feed(piece)
        found = self.reader.waiting[before:]
        del self.reader.waiting[:]
        state = self.reader.stops, self.reader.part, self.reader.incoming is None
        return [self.said(each) for each in found], state

    @staticmethod
    def said(exchange):
        pairs = [pair for pair in exchange.pairs if pair[0] != b"content-length"]  # the body's own counts
        read = exchange.method, exchange.path, exchange.head.query, pairs, exchange.body, exchange.keep_alive
        return exchange.refusal, read, exchange.bearer


def both(*pieces):
    """What is read of these pieces where a head is known, and on a connection of their own."""
    known, fresh = Reading(), Reading()
    ((first,), _) = known.feed(FIRST)
    assert first[0] is None
    return known, known.feed(*pieces), fresh.feed(*pieces)


@pytest.mark.parametrize("body", [b"", b"hello", b"hello, world", b"x" * LIMIT])
def test_the_same_head_is_not_looked_at_again_whatever_its_length_is(body):
    again = FIRST.replace(b"5\r\n\r\nhello", b"%d\r\n\r\n%b" % (len(body), body))
    known, found, same = both(again)
    assert found == same
    assert found[0][0][1][4] == body
    assert known.site.looked == 1


def test_a_body_that_is_too_large_is_refused_behind_a_known_head_too():
    _, found, same = both(FIRST.replace(b"5\r\n\r\nhello", b"%d\r\n\r\n" % (LIMIT + 1) + b"x" * (LIMIT + 1)))
    assert found == same
    assert found[0][0][0].status == 413


def test_a_token_that_ends_lets_in_no_more_though_the_head_is_known():
    reading = Reading()
    reading.feed(FIRST)
    reading.site.are_valid = False
    (((refusal, _, _),), _) = reading.feed(FIRST)
    assert refusal.status == 401


def test_what_is_known_is_forgotten_where_nothing_comes():
    reading = Reading()
    reading.feed(FIRST)
    reading.reader.rest()
    reading.feed(FIRST)
    assert reading.site.looked == 2


@pytest.mark.parametrize("raw", SMUGGLED.values(), ids=SMUGGLED)
def test_what_others_may_read_otherwise_is_refused_behind_a_known_head_too(raw):
    _, found, same = both(raw + FIRST)
    assert found == same
    _, found, same = both(FIRST[:-5] + raw + FIRST)
    assert found == same


PUT_IN = (
    b"\r\n|\n| |\t|0|00|9|,|\r\n |\0|Content-Length: 5\r\n|Transfer-Encoding: chunked\r\n"
    b"|Expect: 100-continue\r\n|Connection: close\r\n"
)
EDITS = st.lists(
    st.tuples(
        st.integers(0, len(FIRST)),
        st.integers(0, 3),
        st.binary(max_size=3) | st.sampled_from(PUT_IN.split(b"|")),
    ),
    max_size=3,
)


@given(
    EDITS, st.lists(st.integers(1, len(FIRST)), max_size=2), st.sampled_from([b"", FIRST, FIRST[:30], b"x"])
)
@example([(FIRST.index(b"5"), 1, b"+5")], [], b"")
@example([(FIRST.index(b"5"), 1, b"05")], [], b"")
@example([(FIRST.index(b"5"), 1, b"5 ")], [], b"")
@example([(FIRST.index(b"5"), 1, b"0000000005")], [], b"")
@example([(FIRST.index(b"5"), 1, b"4")], [], b"")
@example([(FIRST.index(b"5"), 1, b"6")], [], b"x")
@example([(0, 0, b"\r\n")], [], b"")
@example([], [], FIRST)
@example([], [40], FIRST)
def test_a_request_is_read_as_on_a_connection_of_its_own(edits, cuts, behind):
    raw = FIRST
    for at, removed, put in edits:
        raw = raw[:at] + put + raw[at + removed :]
    raw += behind
    marks = [0, *sorted(cuts), len(raw)]
    pieces = [piece for a, b in pairwise(marks) if (piece := raw[a:b])]
    _, found, same = both(*pieces)
    assert found == same
