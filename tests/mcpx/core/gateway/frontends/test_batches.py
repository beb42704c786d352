"""Batches of 2025-03-26 over stdio and through the shim: one array for each, and what is refused."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest

from mcpx.core.wire.batch import BATCH_REVISION, MAX_BATCH_MESSAGES
from tests.mcpx.core.daemon.daemons import House
from tests.mcpx.core.gateway.frontends.test_not_reading import flooding
from tests.mcpx.scripted import entry
from tests.mcpx.serving import LEGACY, serving, write_config

pytestmark = pytest.mark.anyio


def message(**members) -> dict:
    return {"jsonrpc": "2.0", **members}


def ping(request_id) -> dict:
    return message(id=request_id, method="ping")


def call(request_id, tool: str, **arguments) -> dict:
    given = {"server_name": "s", "tool_name": tool, "arguments": arguments}
    return message(id=request_id, method="tools/call", params={"name": "exec", "arguments": given})


def hello(request_id, version: str = BATCH_REVISION) -> dict:
    client = {"name": "t", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    return message(id=request_id, method="initialize", params=params)


def text(answer: dict) -> str:
    return str(answer["result"]["content"][0]["text"])


@pytest.fixture(params=["serve", "attach"])
async def client(request, tmp_path, ears):
    """A raw client, before its first message."""
    async with client_of(request.param, tmp_path, {"s": entry(ears)}) as served:
        yield served


@asynccontextmanager
async def client_of(endpoint: str, folder, servers, **settings):
    house = House(folder)
    config = write_config(folder, servers, startup_wait=20, **settings)
    try:
        async with serving(folder, "serve", config) if endpoint == "serve" else house.attached() as served:
            yield served
    finally:
        house.close()


async def send(client, *messages) -> None:
    await client.send_bytes(json.dumps(list(messages)).encode() + b"\n")


async def test_the_requests_of_a_batch_are_answered_in_one_array_and_its_notifications_are_taken(client):
    await client.initialize(BATCH_REVISION)
    note = message(method="notifications/roots/list_changed")
    await send(client, ping(1), note, call("two", "echo", text="hi"), message(id=3, method="no/such"))
    answers = {each["id"]: each for each in await client.array()}
    assert set(answers) == {1, 3, "two"}
    assert answers[1]["result"] == {}
    assert text(answers["two"]) == "hi"
    assert answers[3]["error"]["code"] == -32601
    assert await client.request("ping") == {}


async def test_the_calls_of_a_batch_run_side_by_side(client):
    await client.initialize(BATCH_REVISION)
    await client.request("tools/list")
    await send(client, call(1, "hang"), call(2, "hang"))
    await client.call("exec", server_name="s", tool_name="count")
    while (await client.call("exec", server_name="s", tool_name="release"))["isError"]:
        pass
    assert [text(each) for each in await client.array()] == ["released", "released"]


async def test_a_batch_of_notifications_alone_is_not_answered(client):
    await client.initialize(BATCH_REVISION)
    await send(client, message(method="notifications/roots/list_changed"), message(method="no/such"))
    assert await client.request("ping") == {}
    assert (client.arrays, client.refusals) == ([], [])


async def test_what_is_no_message_in_a_batch_costs_only_itself(client):
    await client.initialize(BATCH_REVISION)
    await send(client, 1, ping(5), {"foo": "boo"}, ping(None), ping(1.5), [ping(6)], message(id=7, method=1))
    answers = await client.array()
    refused = [(each["id"], each["error"]["code"]) for each in answers if "error" in each]
    assert refused == [(None, -32600)] * 5 + [(7, -32600)]
    assert [each["id"] for each in answers if "result" in each] == [5]


async def test_an_empty_batch_and_one_with_initialize_are_refused_as_a_whole(client):
    await send(client, hello(1), ping(2))
    assert (await client.refusal())["code"] == -32600
    await client.initialize(BATCH_REVISION)
    for refused, why in (([], "no messages"), ([ping(1), hello(2)], "initialize")):
        await send(client, *refused)
        error = await client.refusal()
        assert error["code"] == -32600
        assert why in error["message"]
    await client.send_bytes(b'[{"jsonrpc":"2.0","id":1,"method":"ping"},\n')
    assert (await client.refusal())["code"] == -32700
    assert await client.request("ping") == {}


@pytest.mark.parametrize("version", ["2024-11-05", LEGACY, "2025-11-25"])
async def test_other_revisions_have_no_batches(client, version):
    await client.initialize(version)
    await send(client, ping(71), call(72, "echo", text="hi"))
    error = await client.refusal()
    assert error["code"] == -32600
    assert BATCH_REVISION in error["message"]
    assert text({"result": await client.call("exec", server_name="s", tool_name="count")}) == "nothing"
    assert client.arrays == []


async def test_a_batch_is_as_large_as_its_limit_and_what_follows_it_stays_behind_it(client):
    await client.initialize(BATCH_REVISION)
    messages = [ping(f"p{number}") for number in range(MAX_BATCH_MESSAGES - 1)]
    await send(client, *messages, call("last", "hang"))
    await client.send("notifications/cancelled", {"requestId": "last"})
    assert {each["id"] for each in await client.array()} == {each["id"] for each in messages}
    await send(client, *messages, ping("a"), ping("b"))
    assert str(MAX_BATCH_MESSAGES) in (await client.refusal())["message"]
    assert await client.request("ping") == {}


async def test_answers_of_a_batch_beyond_the_limit_of_a_message_are_left_out_by_name(tmp_path):
    settings = {"max_message_bytes": 100_000, "result_token_budget": 0}
    async with client_of("serve", tmp_path, {"s": flooding()}, **settings) as client:
        await client.initialize(BATCH_REVISION)
        await send(client, *(call(number, "big", size=40_000) for number in range(4)))
        answers = await client.array()
        assert sorted(each["id"] for each in answers) == [0, 1, 2, 3]
        left_out = [each for each in answers if "error" in each]
        assert len(left_out) == 2
        assert all("was carried out" in each["error"]["message"] for each in left_out)


async def test_a_client_that_leaves_in_the_middle_of_a_batch_ends_its_calls(tmp_path, ears):
    async with client_of("serve", tmp_path, {"s": entry(ears)}) as client:
        await client.initialize(BATCH_REVISION)
        await send(client, call(1, "hang"), ping(2))
        await ears.hear("call", tool="hang")
        client.close_output()
        await client.close_input()
        assert await client.exit_code() == 0


async def test_what_was_asked_in_a_batch_before_the_input_ended_is_still_answered(client, ears):
    await client.initialize(BATCH_REVISION)
    await client.request("tools/list")
    await send(client, *(ping(number) for number in range(100)), call("e", "echo", text="hi"))
    await client.close_input()
    (answers,) = [each for each in await client.rest_of_output() if isinstance(each, list)]
    assert len(answers) == 101
