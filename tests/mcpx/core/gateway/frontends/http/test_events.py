"""Streams over HTTP that break: Last-Event-ID gets the answer, once, for its own client, within bounds."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest

from mcpx.core.gateway.frontends.http import events as http_events
from mcpx.core.gateway.frontends.http.events import KeptEvents, SessionEvents, Ticker
from tests.mcpx.core.gateway.frontends.http.test_frontend import ACCEPT, HELLO, http
from tests.mcpx.scripted import entry
from tests.mcpx.serving import LEGACY, write_config

pytestmark = pytest.mark.anyio
REVISION = "2025-11-25"


@pytest.fixture
def config(tmp_path, ears):
    return write_config(tmp_path, {"s": entry(ears)}, startup_wait=20)


class Session:
    """A raw client of the HTTP frontend."""

    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self.client, self.url, self.headers = client, url, dict(ACCEPT)

    async def open(self, revision: str = REVISION) -> Session:
        hello = HELLO | {"params": HELLO["params"] | {"protocolVersion": revision}}
        answer = await self.client.post(self.url, json=hello, headers=ACCEPT)
        session = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": revision}
        self.headers |= session
        await self.post(method="notifications/initialized")
        return self

    async def post(self, **message) -> httpx2.Response:
        return await self.client.post(self.url, json={"jsonrpc": "2.0", **message}, headers=self.headers)

    def call(self, request_id, tool: str, **meta):
        params = {"name": "exec", "arguments": {"server_name": "s", "tool_name": tool}, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
        return self.stream("POST", json=message)

    def resume(self, after: str):
        return self.stream("GET", headers={"Last-Event-ID": after})

    @asynccontextmanager
    async def stream(self, method: str, headers=(), **content):
        headers = self.headers | dict(headers)
        async with self.client.stream(method, self.url, headers=headers, **content) as response:
            assert response.status_code == 200, response.status_code
            yield events_of(response)


async def events_of(response):
    """The events of a stream, as dictionaries of their fields; an answer in JSON as one without an id."""
    if response.headers["content-type"] == "application/json":
        yield {"data": (await response.aread()).decode()}
        return
    event: dict[str, str] = {}
    async for line in response.aiter_lines():
        if not line:
            if event:
                yield event
            event = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            event[name.rstrip(":")] = value


def message(event) -> dict:
    return json.loads(event["data"])


def text(event) -> str:
    return str(message(event)["result"]["content"][0]["text"])


@asynccontextmanager
async def sessions(folder, config, count=1, revision=REVISION):
    async with http(folder, config, "--no-auth") as (_, url), httpx2.AsyncClient(timeout=50) as client:
        with anyio.fail_after(50):
            yield [await Session(client, url).open(revision) for _ in range(count)]


async def release(session: Session) -> None:
    async with session.call("release", "release") as events:
        assert [event async for event in events]


async def test_a_stream_begins_with_an_id_and_says_when_to_come_again(tmp_path, config):
    async with sessions(tmp_path, config, 2) as (session, other):
        async with session.call(5, "hang") as events:
            first = await anext(events)
            await release(other)
            (last,) = [event async for event in events]
        assert (first["data"], first["retry"]) == ("", str(http_events.RETRY_MS))
        assert message(last)["id"] == 5
        assert first["id"] != last["id"]


@pytest.mark.parametrize("released_first", [True, False])
async def test_a_broken_stream_gets_its_answer_exactly_once(tmp_path, config, ears, released_first):
    async with sessions(tmp_path, config, 2) as (session, other):
        async with session.call(5, "hang") as events:
            cursor = (await anext(events))["id"]
            await ears.hear("call", tool="hang")
        if released_first:
            await release(other)
        async with session.resume(cursor) as events:
            if not released_first:
                await release(other)
            (answer,) = [event async for event in events]  # and the stream ends
        assert (message(answer)["id"], text(answer)) == (5, "released")
        async with session.resume(answer["id"]) as events:
            assert [event async for event in events] == []
        assert len(ears.of("call", tool="hang")) == 1


async def test_a_client_that_comes_again_twice_gets_progress_and_the_answer_on_its_last_stream(
    tmp_path, config, ears
):
    async with sessions(tmp_path, config, 2) as (session, other):
        async with session.call(5, "hang", progressToken="p") as first:
            cursor = (await anext(first))["id"]
            await ears.hear("call", tool="hang")
            async with session.resume(cursor) as second:
                assert [event async for event in first] == []
                async with session.resume(cursor) as third:
                    assert [event async for event in second] == []
                    async with other.call("n", "nudge") as events:
                        assert [event async for event in events]
                    await release(other)
                    step, answer = [event async for event in third]
        assert message(step)["params"]["message"] == "still at it"
        assert text(answer) == "released"


async def test_the_events_of_another_session_are_never_given(tmp_path, config, ears):
    async with sessions(tmp_path, config, 2) as (session, other):
        for each in (session, other):
            async with each.call(5, "hang") as events:
                cursor = (await anext(events))["id"]
        await ears.hear("call", count=2, tool="hang")
        await release(session)
        for after in (cursor, "", "x", "-", f"{cursor}9", "1-1-1", cursor.replace("-", "--"), "~" * 200):
            if after:
                async with session.resume(after) as events:
                    assert [event async for event in events] == []
        async with other.resume(cursor) as events:
            (answer,) = [event async for event in events]
        assert text(answer) == "released"


async def test_what_the_server_sends_by_itself_is_resumed_too(tmp_path, config):
    async with sessions(tmp_path, config) as (session,):
        await session.post(id=2, method="tools/list")

        async def add(name: str) -> None:
            arguments = {"server_name": "s", "tool_name": "add", "arguments": {"name": name}}
            await session.post(id=name, method="tools/call", params={"name": "exec", "arguments": arguments})

        async with session.stream("GET") as events:
            await add("wave")
            seen = await anext(events)
            assert message(seen)["method"] == "notifications/tools/list_changed"
        await session.post(id=3, method="tools/list")
        await add("bow")
        async with session.resume(seen["id"]) as events:
            assert message(await anext(events))["method"] == "notifications/tools/list_changed"
            async with session.stream("GET"):  # which takes its place
                assert [event async for event in events] == []


@pytest.mark.parametrize("revision", ["2025-03-26", LEGACY])
async def test_older_clients_get_no_event_without_data_but_may_come_again_after_others(
    tmp_path, config, ears, revision
):
    async with sessions(tmp_path, config, 2, revision) as (session, other):
        async with session.call(5, "hang", progressToken="p") as events:
            await ears.hear("call", tool="hang")
            async with other.call("n", "nudge") as nudged:
                assert [event async for event in nudged]
            step = await anext(events)
            assert message(step)["method"] == "notifications/progress"
        await release(other)
        async with session.resume(step["id"]) as events:
            assert [text(event) async for event in events] == ["released"]


async def test_a_session_that_was_ended_says_what_became_of_its_call_and_nothing_more(tmp_path, config, ears):
    async with sessions(tmp_path, config) as (session,):
        async with session.call(5, "hang") as events:
            cursor = (await anext(events))["id"]
            await ears.hear("call", tool="hang")
        async with session.resume(cursor) as events:
            assert (await session.client.delete(session.url, headers=session.headers)).status_code == 200
            (answer,) = [event async for event in events]
        assert message(answer)["id"] == 5
        assert message(answer)["error"]["data"]["outcome"] == "unknown"
        headers = session.headers | {"Last-Event-ID": cursor}
        assert (await session.client.get(session.url, headers=headers)).status_code == 404


# --- bounds


class Client:
    """An exchange whose events are noted."""

    def __init__(self) -> None:
        self.events: list[dict] = []
        self.is_over = False

    def begin_events(self, headers) -> None:
        assert dict(headers)[b"content-type"] == b"text/event-stream"

    def on_gone(self, callback) -> None:
        self.leave = callback

    def event(self, pieces, **_about) -> bool:
        text = b"".join(pieces)
        self.events.append(json.loads(text) if text else {})
        return True

    def end(self, pieces=None, **_about) -> None:
        assert not self.is_over
        self.is_over = True
        if pieces is not None:
            self.event(pieces)


class Kept:
    """Stores of some sessions, and what they give."""

    def __init__(self, count: int = 1) -> None:
        self.all = KeptEvents()
        self.stores = [SessionEvents(self.all, Ticker(60.0)) for _ in range(count)]

    def begin(self, store: int = 0):
        """The stream of a request, and the id that it begins with."""
        events = self.stores[store]
        stream = events.begin(Client(), primed=True)
        return stream, events.id_of(stream, events.last)

    def given(self, after: str, store: int = 0) -> list:
        client = Client()
        self.stores[store].resume(after, client)
        return client.events


def answer(request_id, size=10) -> dict:
    return {"jsonrpc": "2.0", "id": request_id, "result": {"x": "y" * size}}


def pieces(message) -> list[bytes]:
    return [json.dumps(message).encode()]


def note(method: str) -> dict:
    return {"jsonrpc": "2.0", "method": method}


async def test_a_session_keeps_so_many_events_and_bytes_and_the_oldest_go_first(monkeypatch):
    monkeypatch.setattr(http_events, "MAX_BYTES", 100_000)
    kept = Kept()
    (store,) = kept.stores
    cursors = []
    for number in range(http_events.MAX_EVENTS + 10):
        stream, cursor = kept.begin()
        cursors.append(cursor)
        stream.answer(number, pieces(answer(number, 10_000 if number < 20 else 1)))
    assert kept.given(cursors[-1]) == [answer(http_events.MAX_EVENTS + 9, 1)]
    assert kept.given(cursors[0]) == []
    assert store.bytes == kept.all.bytes <= 100_000
    assert len(store._events) <= http_events.MAX_EVENTS
    assert len(store._streams) <= http_events.MAX_EVENTS
    stream, cursor = kept.begin()
    stream.answer("large", pieces(answer("large", 200_000)))
    (error,) = kept.given(cursor)
    assert error["id"] == "large"
    assert "was carried out" in error["error"]["message"]


async def test_all_sessions_together_keep_so_many_bytes_for_so_long(monkeypatch):
    monkeypatch.setattr(http_events, "MAX_BYTES_ALL", 50_000)
    kept = Kept(10)
    for number in range(10):
        kept.begin(number)[0].answer(1, pieces(answer(1, 10_000)))
    assert kept.all.bytes <= 50_000
    assert [len(store._events) for store in kept.stores] == [0] * 6 + [1] * 4
    monkeypatch.setattr(http_events, "MAX_AGE_S", -1)
    kept.begin()[0].answer(2, pieces(answer(2)))
    assert [len(store._events) for store in kept.stores[6:]] == [0] * 4
    for store in kept.stores:
        store.close()
    assert (kept.all.bytes, len(kept.all._events)) == (0, 0)


async def test_messages_that_may_be_lost_are_not_kept():
    kept = Kept()
    (store,) = kept.stores
    stream, cursor = kept.begin()
    before = stream.exchange
    for method in ("notifications/progress", "notifications/message", "notifications/x"):
        stream.send(pieces(note(method)), lossy=method != "notifications/x")
    assert len(before.events) == 4
    assert [each["method"] for each in kept.given(cursor)] == ["notifications/x"]
    assert before.is_over
    store.standing.send(pieces(note("notifications/y")), lossy=False)
    assert [each["method"] for each in kept.given(cursor)] == ["notifications/x"]


async def test_each_request_has_a_stream_of_its_own_whatever_its_id():
    kept = Kept()
    (first, one), (second, two) = kept.begin(), kept.begin()
    first.answer(1, pieces(answer(1, 5)))
    second.answer(1, pieces(answer(1, 6)))
    assert kept.given(one) == [answer(1, 5)]
    assert kept.given(two) == [answer(1, 6)]


async def test_a_client_that_has_left_again_does_not_disturb_what_is_sent():
    kept = Kept()
    stream, cursor = kept.begin()
    client = Client()
    kept.stores[0].resume(cursor, client)
    client.leave()
    stream.answer(1, pieces(answer(1)))
    assert (client.events, kept.given(cursor)) == ([], [answer(1)])
