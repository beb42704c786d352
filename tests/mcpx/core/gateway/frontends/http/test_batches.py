"""Batches of 2025-03-26 over HTTP: one array, or a stream that ends with it, and what is refused."""

from __future__ import annotations

import json

import anyio
import httpx2
import pytest
from mcp_types import INTERNAL_ERROR

from mcpx.core.gateway.frontends.http import posted
from mcpx.core.wire.batch import BATCH_REVISION, MAX_BATCH_MESSAGES
from tests.mcpx.core.gateway.frontends.http.test_endpoints import served
from tests.mcpx.core.gateway.frontends.http.test_events import Session, events_of, sessions
from tests.mcpx.core.gateway.frontends.http.test_frontend import ACCEPT, http, meanwhile
from tests.mcpx.core.gateway.frontends.test_batches import call, hello, message, ping, text
from tests.mcpx.scripted import PATIENCE_S, config_of, entry
from tests.mcpx.serving import ENVELOPE, LEGACY, MODERN, write_config

pytestmark = pytest.mark.anyio


@pytest.fixture
def config(tmp_path, ears):
    return write_config(tmp_path, {"s": entry(ears)}, startup_wait=20, max_message_bytes=1_000_000)


def opened(folder, config, revision=BATCH_REVISION, count=1):
    return sessions(folder, config, count, revision)


async def post(session: Session, *messages, **headers: str) -> httpx2.Response:
    return await session.client.post(session.url, json=list(messages), headers=session.headers | headers)


async def test_the_requests_of_a_batch_are_answered_in_one_array(tmp_path, config):
    async with opened(tmp_path, config) as (session,):
        note = message(method="notifications/roots/list_changed")
        wrong = message(id=3, method="no/such")
        answer = await post(session, ping(1), note, call("two", "echo", text="hi"), wrong, 7, ping(None))
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        answers = {each["id"]: each for each in answer.json()}
        assert set(answers) == {1, "two", 3, None}
        assert answers[1]["result"] == {}
        assert text(answers["two"]) == "hi"
        assert (answers[3]["error"]["code"], answers[None]["error"]["code"]) == (-32601, -32600)
        assert len(answer.json()) == 5


async def test_the_calls_of_a_batch_run_side_by_side(tmp_path, config, ears):
    async with opened(tmp_path, config, count=2) as (session, other):
        async with meanwhile(post, session, call(1, "hang"), call(2, "hang")) as got:
            await ears.hear("call", count=2, tool="hang")
            await other.client.post(other.url, json=call(1, "release"), headers=other.headers)
        assert [text(each) for each in got[0].json()] == ["released", "released"]


async def test_notifications_and_responses_alone_are_accepted(tmp_path, config):
    async with opened(tmp_path, config) as (session,):
        note = message(method="notifications/roots/list_changed")
        for batch in ((note, note), (message(id=5, result={}), message(id=6, result={}))):
            answer = await post(session, *batch)
            assert (answer.status_code, answer.content) == (202, b"")


async def test_what_comes_before_the_responses_makes_it_a_stream_with_the_array_at_its_end(
    tmp_path, config, ears
):
    async with opened(tmp_path, config, count=2) as (session, other):
        hang = call(1, "hang")
        hang["params"]["_meta"] = {"progressToken": "p"}
        content = {"json": [hang, ping(2)], "headers": session.headers}
        got = []

        async def ask() -> None:
            async with session.client.stream("POST", session.url, **content) as response:
                assert response.headers["content-type"] == "text/event-stream"
                got.extend([json.loads(event["data"]) async for event in events_of(response)])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await ears.hear("call", tool="hang")
            for tool in ("nudge", "release"):
                await other.client.post(other.url, json=call(1, tool), headers=other.headers)
        *steps, answers = got
        assert {each["method"] for each in steps} == {"notifications/progress"}
        assert {each["id"] for each in answers} == {1, 2}


async def test_a_client_that_leaves_in_the_middle_of_a_batch_cancels_nothing(tmp_path, config, ears):
    async with opened(tmp_path, config) as (session,):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post, session, call(1, "hang"), call(2, "hang"))
            await ears.hear("call", count=2, tool="hang")
            tasks.cancel_scope.cancel()
        assert (await post(session, call(3, "release"), ping(4))).status_code == 200
        assert ears.of("cancelled") == []


@pytest.mark.parametrize("revision", ["2024-11-05", LEGACY, "2025-11-25"])
async def test_other_revisions_have_no_batches(tmp_path, config, revision):
    async with opened(tmp_path, config, revision) as (session,):
        for headers in ({}, {"mcp-protocol-version": BATCH_REVISION}):
            answer = await post(session, ping(1), call(2, "echo", text="hi"), **headers)
            assert answer.status_code == 400
            error = answer.json()
            assert (error["id"], error["error"]["code"]) == (None, -32600)
            assert BATCH_REVISION in error["error"]["message"]
        modern = message(id=1, method="ping", params={"_meta": ENVELOPE})
        answer = await post(session, modern, **{"mcp-protocol-version": MODERN})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)


async def test_a_batch_that_is_wrong_is_refused_as_a_whole(tmp_path, config):
    async with opened(tmp_path, config) as (session,):
        too_many = [ping(number) for number in range(MAX_BATCH_MESSAGES + 1)]
        for batch in ([], [ping(1), hello(2)], too_many):
            answer = await post(session, *batch)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)
        headers = session.headers | {"content-type": "application/json"}
        answer = await session.client.post(session.url, content=b'[{"jsonrpc":"2.0"', headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32700)
        large = await post(session, ping(1) | {"params": {"x": "y" * 1_100_000}})
        assert large.status_code == 413
        assert (await post(session, ping(1))).json() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


async def test_the_checks_of_a_request_are_those_of_a_batch(tmp_path, config):
    async with http(tmp_path, config) as (_, url), httpx2.AsyncClient(timeout=50) as client:
        assert (await client.post(url, json=[ping(1)], headers=ACCEPT)).status_code == 401
    async with opened(tmp_path, config) as (session,):
        wrong = {
            404: {"mcp-session-id": "0" * 32},
            406: {"Accept": "text/html"},
            421: {"Host": "evil.example"},
            403: {"Origin": "https://evil.example"},
        }
        for status, headers in wrong.items():
            assert (await post(session, ping(1), ping(2), **headers)).status_code == status
        without = {**session.headers}
        del without["mcp-session-id"]
        for batch in ([ping(1)], [hello(1), ping(2)]):
            answer = await session.client.post(session.url, json=batch, headers=without)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)


async def test_a_large_batch_is_answered_whole_and_an_id_that_is_used_twice_is_refused(tmp_path, config):
    async with opened(tmp_path, config) as (session,):
        answer = await post(session, *(ping(number) for number in range(300)), ping(7), ping("7"))
        answers = answer.json()
        assert len(answers) == 302
        assert sorted(each["id"] for each in answers if "result" in each) == list(range(300))
        assert [each["error"]["code"] for each in answers if "error" in each] == [-32600] * 2


async def test_an_id_that_is_in_use_is_refused_in_a_batch_too(tmp_path, config, ears):
    async with opened(tmp_path, config, count=2) as (session, other):
        async with meanwhile(post, session, call(1, "hang")) as got:
            await ears.hear("call", tool="hang")
            answers = {each["id"]: each for each in (await post(session, ping(1), ping(2))).json()}
            assert (answers[1]["error"]["code"], answers[2]["result"]) == (-32600, {})
            await other.client.post(other.url, json=call(1, "release"), headers=other.headers)
        assert [text(each) for each in got[0].json()] == ["released"]


async def test_a_session_that_ends_in_the_middle_of_a_batch_answers_its_requests(tmp_path, config, ears):
    async with opened(tmp_path, config) as (session,):
        async with meanwhile(post, session, call(1, "hang"), ping(2)) as got:
            await ears.hear("call", tool="hang")
            await session.client.delete(session.url, headers=session.headers)
        answers = {each["id"]: each for each in got[0].json()}
        assert set(answers) == {1, 2}  # the second one perhaps before the end
        assert answers[1]["error"]["code"] == INTERNAL_ERROR


async def test_a_batch_that_takes_long_is_a_stream_that_is_kept_alive(ears, monkeypatch):
    monkeypatch.setattr(posted, "PING_S", 0.05)
    async with served(config_of({"s": entry(ears)})) as (_, client, url):
        session = await Session(client, url).open(BATCH_REVISION)
        lines = []
        content = {"json": [call(1, "hang"), ping(2)], "headers": session.headers}
        with anyio.fail_after(PATIENCE_S):
            async with client.stream("POST", url, **content) as response:
                assert response.headers["content-type"] == "text/event-stream"
                async for line in response.aiter_lines():
                    lines.append(line)
                    if lines.count(": ping") == 3 and line:
                        await post(session, call(3, "release"))
    (data,) = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert {each["id"] for each in json.loads(data)} == {1, 2}
