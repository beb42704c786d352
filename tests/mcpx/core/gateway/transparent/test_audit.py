"""The audit log of what passes a transparent endpoint: a line for each request, whoever refused it."""

from __future__ import annotations

import json

import pytest

from tests.mcpx.core.gateway.transparent.test_rules import each_endpoint, endpoint
from tests.mcpx.scripted import soon

pytestmark = pytest.mark.anyio


def lines(watch):
    files = sorted(watch.hub.audit._folder().glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@each_endpoint
async def test_each_request_is_a_line_with_who_asked_and_how_it_ended(way, era, tmp_path):
    async with endpoint(way, era, tmp_path / "ears", tools={"deny": ["safe"]}) as (watch, client):
        before = len(lines(watch))
        await client.ask("tools/list")
        await client.ask("tools/call", '{"name":"odd","arguments":{"a":"a value"}}')
        await client.ask("tools/call", '{"name":"safe"}')
        await client.ask("tools/call", '{"name":"error"}')
        await client.ask("resources/read", '{"uri":"odd://x"}')
        await client.ask("prompts/get", '{"name":"p","arguments":{"b":"2"}}')
        await client.ask("completion/complete", '{"ref":{"type":"ref/prompt","name":"p"},"argument":{}}')
        await soon(lambda: len(lines(watch)) == before + 6)
    found = lines(watch)[before:]
    told = ("kind", "name", "arguments", "outcome", "code")
    assert [tuple(each[name] for name in told) for each in found] == [
        ("tool", "odd", ["a"], "ok", None),
        ("tool", "safe", [], "not_sent", "unknown_tool"),
        ("tool", "error", [], "not_sent", "unknown_tool"),
        ("resource", "odd://x", [], "ok", None),
        ("prompt", "p", ["b"], "ok", None),
        ("completion", "p", [], "ok", None),
    ]
    assert {(each["client"], each["server"]) for each in found} == {("t/1", "odd")}
    assert {each["transport"] for each in found} == {"http" if way == "http" else "stdio"}
    assert [each["rule"] for each in found][:2] == [None, "tools.deny: odd.safe"]
    assert "a value" not in json.dumps(found)


async def test_a_call_that_a_server_died_in_is_unknown_and_its_error_has_failed(tmp_path):
    async with endpoint("stream", "handshake", tmp_path / "ears") as (watch, client):
        before = len(lines(watch))
        await client.ask("tools/call", '{"name":"error"}')
        await client.ask("tools/call", '{"name":"die"}')
        await soon(lambda: len(lines(watch)) == before + 2)
    assert [(each["name"], each["outcome"], each["code"]) for each in lines(watch)[before:]] == [
        ("error", "failed", "upstream_error"),
        ("die", "unknown", "server_died"),
    ]


async def test_a_name_that_cannot_be_read_is_refused_under_rules_and_written(tmp_path):
    async with endpoint("stream", "handshake", tmp_path / "ears", tools={"deny": ["safe"]}) as (
        watch,
        client,
    ):
        before = len(lines(watch))
        await client.ask("tools/call", '{"name":["safe"]}')
        await soon(lambda: len(lines(watch)) == before + 1)
    (line,) = lines(watch)[before:]
    assert (line["name"], line["outcome"], line["code"]) == ("", "not_sent", "invalid_arguments")
