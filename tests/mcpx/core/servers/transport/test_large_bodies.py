"""Large answers over HTTP, as JSON and as events: put together within bounds, mended, and split."""

from __future__ import annotations

import json

import anyio
import pytest

from mcpx.core.servers.transport.http_answers import read_answer
from mcpx.core.servers.transport.http_bodies import Events, Whole
from mcpx.core.wire import intake
from mcpx.core.wire.intake import LARGE_BYTES, SHARED_BYTES, Intake, LargeMessage
from mcpx.core.wire.outgoing import MalformedMessage, ResponseTooLarge
from tests.mcpx.core.servers.transport.responses import read

pytestmark = pytest.mark.anyio
LIMIT = 1 << 30
PIECE = 65_521  # a prime: characters and escapes are cut at every place
RESULTS = {
    "text": '{"content":[{"type":"text","text":"%s"}]}' % ("größer 😀 " * 300_000),
    "white space": '{"content":[%s1]}' % ("[ ],\t" * 600_000),
    "pairs and half pairs": '{"content":["%s"]}' % ((r"\ud83d\ude00 \ud83d \\ud83d" + "x" * 997) * 3000),
}


@pytest.fixture(autouse=True)
def turns(monkeypatch):
    made = Intake()
    monkeypatch.setattr(intake, "INTAKE", made)
    return made


async def by_json(body, limit=LIMIT):
    return await read(Whole, body, limit=limit, piece=PIECE)


async def by_event(body, limit=LIMIT):
    (event,) = await read(Events, b"event: message\ndata: " + body + b"\n\n", limit=limit, piece=PIECE)
    assert event.is_message
    return event.data


WAYS = pytest.mark.parametrize("way", [by_json, by_event])


def message(result, request_id=3):
    return b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (request_id, result.encode())


@WAYS
@pytest.mark.parametrize("kind", RESULTS)
async def test_its_result_is_what_was_sent(way, kind):
    sent = RESULTS[kind]
    data = await way(message(sent))
    assert isinstance(data, LargeMessage)
    answer = read_answer(data, raw=True)
    assert (answer.id, answer.error) == (3, None)
    expected = json.loads(sent)
    if kind == "pairs and half pairs":
        unit = "\U0001f600 \ufffd \\ud83d" + "x" * 997
        expected = {"content": [unit * 3000]}
    assert json.loads(bytes(answer.result)) == expected


async def test_a_body_on_many_lines_becomes_one():
    sent = '{\r\n"content":\n[' + "[],\r\n" * 600_000 + "1]\n}"
    answer = read_answer(await by_json(b"\r\n" + message(sent) + b"\n"), raw=True)
    assert b"\n" not in bytes(answer.result)
    assert b"\r" not in bytes(answer.result)
    assert json.loads(bytes(answer.result)) == json.loads(sent)


@WAYS
async def test_one_that_is_not_utf_8_is_refused(way):
    data = await way(message('{"a":"%s"}' % ("x" * LARGE_BYTES)).replace(b"xx", b"x\xff", 1))
    with pytest.raises(MalformedMessage, match="not UTF-8"):
        read_answer(data, raw=True)


@WAYS
async def test_one_over_the_limit_is_refused_and_counts_no_more(way, turns):
    with pytest.raises(ResponseTooLarge):
        await way(message('{"a":"%s"}' % ("x" * 2 * LARGE_BYTES)), LARGE_BYTES + PIECE)
    assert turns.held == 0


async def test_bodies_grow_one_at_a_time_beyond_what_they_share(turns):
    body = message('{"a":"%s"}' % ("x" * SHARED_BYTES))
    most = 0

    async def one():
        nonlocal most
        data = await by_json(body)
        most = max(most, turns.held)
        assert data == body

    with anyio.fail_after(50):
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(one)
    assert SHARED_BYTES < most < 3 * SHARED_BYTES
    assert turns.held == 0
