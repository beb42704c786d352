"""Encoded results in HTTP responses: whole, with the length that they have, or in events."""

from __future__ import annotations

import msgspec
import pytest

from mcpx.core.gateway.frontends.http.endpoints import EncodedResults
from mcpx.core.wire.enclosed import enclose

pytestmark = pytest.mark.anyio
RESULT = '{"a":1e400,"b":"ü"}'.encode()
WRITTEN = msgspec.json.encode({"result": enclose([RESULT])})
RESTORED = b'{"result":' + RESULT + b"}"


async def sent(*messages, kind="http"):
    """What a server sends of these messages of an application."""
    out = []

    async def app(_scope, _receive, send):
        for message in messages:
            await send(message)

    async def send(message):
        out.append(message)

    await EncodedResults(app)({"type": kind}, None, send)
    return out


def start(*headers):
    return {"type": "http.response.start", "status": 200, "headers": list(headers)}


def body(data, **more):
    return {"type": "http.response.body", "body": data, **more}


async def test_a_response_has_the_length_of_what_is_sent():
    kept = (b"x-kept", b"1")
    head, whole = await sent(start(kept, (b"content-length", b"%d" % len(WRITTEN))), body(WRITTEN))
    assert head == start(kept, (b"content-length", b"%d" % len(RESTORED)))
    assert whole == body(RESTORED)


async def test_events_are_sent_at_once():
    event = b"id: 7\r\nevent: message\r\ndata: %b\r\n\r\n"
    opened = start((b"content-type", b"text/event-stream"))
    ping = body(b": ping\r\n\r\n", more_body=True)
    out = await sent(opened, ping, body(event % WRITTEN, more_body=True), body(b""))
    assert out == [opened, ping, body(event % RESTORED, more_body=True), body(b"")]


async def test_everything_else_is_left_alone():
    messages = [start((b"content-length", b"4")), body(b"text"), {"type": "http.response.debug"}]
    assert await sent(*messages) == messages
    assert await sent(body(WRITTEN), kind="lifespan") == [body(WRITTEN)]
