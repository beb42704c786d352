"""An exchange over ASGI: what an application on the way gives it, and what goes back."""

from __future__ import annotations

import anyio
import pytest

from mcpx.core.gateway.frontends.http.asgi import over_asgi
from mcpx.core.gateway.frontends.http.exchange import JSON, accepted, as_event, prefers_events

pytestmark = pytest.mark.anyio


class Client:
    """One request of an ASGI server, in parts, and what it is sent."""

    def __init__(self, *parts: bytes, headers=(), path="/mcp") -> None:
        self.sent = []
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"a=b",
            "headers": list(headers),
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        self.leaves = anyio.Event()
        self._parts = list(parts) or [b""]

    async def receive(self):
        if self._parts:
            body = self._parts.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(self._parts)}
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.sent.append(message)

    async def asks(self, serve):
        await over_asgi(serve)(self.scope, self.receive, self.send)

    @property
    def body(self):
        return b"".join(each.get("body", b"") for each in self.sent)


async def test_a_body_in_parts_comes_whole_and_its_response_goes_with_its_length():
    client = Client(b"he", b"llo", headers=[(b"accept", b"text/*"), (b"accept", b"application/json")])

    def serve(exchange):
        assert (exchange.body, exchange.query, exchange.path) == (b"hello", b"a=b", "/mcp")
        assert exchange.repeated
        assert exchange.accepts == (True, True)
        assert exchange.is_local
        exchange.respond(200, JSON, [b"{", b"}"])
        assert exchange.is_over
        assert not exchange.event([b"late"])

    await client.asks(serve)
    assert client.sent[0]["headers"] == [*JSON, (b"content-length", b"2")]
    assert client.body == b"{}"


async def test_events_go_out_as_they_come_and_end_with_the_last():
    client, served = Client(), []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.asks, served.append)
        await anyio.wait_all_tasks_blocked()
        served[0].begin_events()
        assert served[0].event([b'{"a":', b"\n1}"], event_id="7")
        await anyio.wait_all_tasks_blocked()
        assert client.body == b'id: 7\r\nevent: message\r\ndata: {"a": 1}\r\n\r\n'
        served[0].comment()
        served[0].end([b"2"])
    assert client.body.endswith(b": ping\r\n\r\nevent: message\r\ndata: 2\r\n\r\n")
    assert [each.get("more_body") for each in client.sent] == [None, True, True, False]


async def test_one_whose_client_leaves_is_over_and_says_so_once():
    client, served, gone = Client(), [], []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.asks, served.append)
        await anyio.wait_all_tasks_blocked()
        served[0].on_gone(lambda: gone.append(served[0].is_over))
        client.leaves.set()
    assert gone == [True]
    served[0].respond(200)
    assert client.sent == []


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
    ("client", "server", "is_local"),
    [
        (("127.0.0.1", 5), ("127.0.0.1", 1), True),
        (("::1", 5), ("::1", 1), True),
        (("192.0.2.7", 5), ("192.0.2.1", 1), False),
        (("192.0.2.1", 5), ("192.0.2.1", 1), False),
        (None, ("127.0.0.1", 1), False),
        (("127.0.0.1", 5), None, False),
    ],
)
async def test_only_requests_over_loopback_are_of_this_machine(client, server, is_local):
    asking, found = Client(), []

    def serve(exchange):
        found.append(exchange.is_local)
        exchange.respond(200)

    asking.scope |= {"client": client, "server": server}
    await asking.asks(serve)
    assert found == [is_local]


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
