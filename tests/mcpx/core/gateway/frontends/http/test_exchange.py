"""What responses are made of: what a client accepts, which kind it would rather have, and events."""

from __future__ import annotations

import pytest

from mcpx.core.gateway.frontends.http.exchange import RequestHead, accepted, as_event, prefers_events


@pytest.mark.parametrize(
    ("accept", "found"),
    [
        (b"application/json, text/event-stream", (True, True)),
        (b"application/json;q=0.9", (True, False)),
        (b"TEXT/Event-Stream", (False, True)),
        (b"*/*", (True, True)),
        (b"", (False, False)),
        (b"text/html", (False, False)),
    ],
)
def test_what_a_client_accepts(accept, found):
    assert accepted(accept) == found


def test_an_event_without_data_tells_when_to_come_again():
    assert as_event([], "3", 1000) == b"id: 3\r\nretry: 1000\r\ndata: \r\n\r\n"


@pytest.mark.parametrize(
    ("accept", "events"),
    [
        (b"application/json, text/event-stream", False),
        (b"text/event-stream, application/json", True),
        (b"text/event-stream;q=0.5, application/json", False),
        (b"application/json;q=0.1, text/event-stream; q=0.2", True),
        (b"text/event-stream", True),
        (b"text/*, application/json", False),
        (b"*/*", False),
        (b"text/event-stream;q=x", False),
        (b"", False),
    ],
)
def test_a_client_that_would_rather_have_events_says_so(accept, events):
    assert prefers_events(accept) is events


@pytest.mark.parametrize(
    ("accepts", "found"),
    [
        ([b"text/*", b"application/json"], ((True, True), True)),
        ([b"text/event-stream", b"application/json"], ((True, True), False)),
        ([], ((False, False), False)),
    ],
)
def test_an_accept_that_is_repeated_counts_as_one(accepts, found):
    pairs = [(b"accept", each) for each in accepts]
    head = RequestHead("POST", b"/mcp", pairs, is_http_1_0=False, keep_alive=True)
    assert (head.accepts, head.takes_json) == found
