"""A person is asked before a call at the transparent endpoint, where rules want that."""

from __future__ import annotations

import json

import anyio
import pytest

from tests.mcpx.core.gateway.transparent.test_audit import lines
from tests.mcpx.core.gateway.transparent.test_equality import HELLO
from tests.mcpx.core.gateway.transparent.test_rules import each_endpoint, endpoint, put_in_force
from tests.mcpx.scripted import PATIENCE_S, soon

pytestmark = pytest.mark.anyio

ASKS = {"tools": {"ask": ["odd"]}}
FORMS = HELLO.replace('"odd":{}', '"elicitation":{}') % "2025-11-25"
CALL = '{"name":"odd","arguments":{"text":"hello"}}'
APPROVAL = "mcpx/approval"


def answer(decision):
    return json.dumps({"action": "accept", "content": {"decision": decision}})


async def until_answered(client, request_id):
    with anyio.fail_after(PATIENCE_S):
        while True:
            message = await client.talk.take()
            if "method" not in message and message.get("id") == request_id:
                return message


def modern(params, **members):
    """The params of a client of 2026-07-28 that can be asked."""
    given = json.loads(params) | members
    given["_meta"] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    return json.dumps(given)


@each_endpoint
async def test_a_client_that_cannot_be_asked_is_refused_with_the_way_out(way, era, tmp_path):
    async with endpoint(way, era, tmp_path / "ears", **ASKS) as (_, client):
        assert await client.names("tools/list", "tools") == ["odd", "safe"]
        error = (await client.ask("tools/call", CALL))["error"]
        assert error["code"] == -32603
        assert (error["data"]["code"], error["data"]["outcome"]) == ("not_approved", "not_sent")
        assert error["data"]["approve"].startswith("mcpx approve odd odd")
        assert "result" in await client.ask("tools/call", '{"name":"safe"}')
        assert [each["name"] for each in client.received("tools/call")] == ["safe"]


@pytest.mark.parametrize("decision", ["once", "session", "no"])
async def test_a_client_of_an_older_revision_is_asked_by_a_request(decision, tmp_path):
    async with endpoint("stream", "handshake", tmp_path / "ears", hello=FORMS, **ASKS) as (watch, client):
        before = len(lines(watch))
        client.talk.reply = f'"result":{answer(decision)}'
        said = await client.ask("tools/call", CALL)
        (question,) = client.heard("elicitation/create")
        message = dict(dict(question)["params"])["message"]
        assert "Server: odd" in message
        assert "hello" in message
        ran = decision != "no"
        assert ("result" in said) is ran
        assert client.received("tools/call") == [json.loads(CALL)] * ran
        if not ran:
            assert said["error"]["data"]["code"] == "not_approved"
        await client.ask("tools/call", CALL)
        assert len(client.heard("elicitation/create")) == (1 if decision == "session" else 2)
        await soon(lambda: len(lines(watch)) == before + 2)
    line = lines(watch)[before]
    assert line["rule"] == "tools.ask: odd.odd"
    assert (line["approval"], line["outcome"]) == (
        decision if ran else "refused",
        "ok" if ran else "not_sent",
    )


@pytest.mark.parametrize("way", ["stream", "http"])
async def test_a_client_of_2026_07_28_gets_the_question_as_a_result(way, tmp_path):
    async with endpoint(way, "modern", tmp_path / "ears", **ASKS) as (watch, client):
        before = len(lines(watch))
        asked = (await client.talk.ask("tools/call", modern(CALL), 5))["result"]
        assert asked["resultType"] == "input_required"
        assert asked["inputRequests"][APPROVAL]["method"] == "elicitation/create"
        assert not client.received("tools/call")
        answers = {APPROVAL: json.loads(answer("once"))}
        again = {"inputResponses": answers, "requestState": asked["requestState"]}
        other = await client.talk.ask("tools/call", modern('{"name":"odd","arguments":{}}', **again), 6)
        assert other["result"]["resultType"] == "input_required"
        assert not client.received("tools/call")
        assert "result" in await client.talk.ask("tools/call", modern(CALL, **again), 7)
        (sent,) = client.received("tools/call")
        assert not sent.keys() & {"inputResponses", "requestState"}
        twice = await client.talk.ask("tools/call", modern(CALL, **again), 8)
        assert twice["result"]["resultType"] == "input_required"
        await soon(lambda: len(lines(watch)) == before + 4)
    assert [(each["approval"], each["outcome"]) for each in lines(watch)[before:]] == [
        ("asked", "not_sent"),
        ("asked", "not_sent"),
        ("once", "ok"),
        ("asked", "not_sent"),
    ]


async def test_writes_are_asked_about_by_what_was_listed(tmp_path):
    async with endpoint("stream", "handshake", tmp_path / "ears", approve="writes") as (_, client):
        for name, runs in (("safe", True), ("odd", False), ("never listed", False)):
            said = await client.ask("tools/call", json.dumps({"name": name}))
            assert ("result" in said) is runs, name


async def test_a_question_that_nobody_answers_ends_and_nothing_is_sent(tmp_path):
    async with endpoint("stream", "handshake", tmp_path / "ears", hello=FORMS, **ASKS) as (watch, client):
        watch.hub.approvals._within_s = lambda: 0.05
        client.talk.reply = None
        said = await client.ask("tools/call", CALL)
        assert said["error"]["data"]["code"] == "not_approved"
        assert not client.received("tools/call")
        assert client.heard("notifications/cancelled")


async def test_a_call_that_is_cancelled_withdraws_its_question(tmp_path):
    async with endpoint("stream", "handshake", tmp_path / "ears", hello=FORMS, **ASKS) as (watch, client):
        client.talk.reply = None
        await client.talk.send("tools/call", CALL, "c")
        while not client.heard("elicitation/create"):
            await client.talk.take()
        await client.talk.send("notifications/cancelled", '{"requestId":"c"}')
        while not client.heard("notifications/cancelled"):
            await client.talk.take()
        await client.ask("ping")
        assert not client.received("tools/call")
        assert not watch.hub.approvals._kept


async def test_a_question_that_a_reload_has_decided_is_withdrawn(tmp_path):
    ears = tmp_path / "ears"
    for settings, runs in (({}, True), ({"tools": {"deny": ["odd"]}}, False)):
        async with endpoint("stream", "handshake", ears, hello=FORMS, **ASKS) as (watch, client):
            client.talk.reply = None
            await client.talk.send("tools/call", CALL, "c")
            while not client.heard("elicitation/create"):
                await client.talk.take()
            await put_in_force(watch, ears, **settings)
            said = await until_answered(client, "c")
            assert ("result" in said) is runs


async def test_arguments_that_can_be_read_in_two_ways_are_not_asked_about(tmp_path):
    async with endpoint("stream", "handshake", tmp_path / "ears", hello=FORMS, **ASKS) as (_, client):
        for arguments in ('{"a":1,"a":2}', "[1]", '"text"'):
            said = await client.ask("tools/call", '{"name":"odd","arguments":' + arguments + "}")
            assert said["error"]["data"]["code"] == "invalid_arguments"
        assert not client.received("tools/call")
        assert not client.heard("elicitation/create")
