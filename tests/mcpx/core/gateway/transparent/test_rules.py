"""The rules at the transparent endpoint: what is not admitted does not exist there, and reaches no server."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager

import anyio
import pytest

from mcpx.core.config import parse
from tests.mcpx.core.gateway.endpoints import SERVER as EXACT
from tests.mcpx.core.gateway.transparent.talking import on_stream, parsed
from tests.mcpx.core.gateway.transparent.test_equality import ENVELOPE, HELLO, handshake
from tests.mcpx.core.gateway.transparent.test_http import served, talking
from tests.mcpx.core.gateway.transparent.test_lives import entry, heard
from tests.mcpx.scripted import PATIENCE_S, config_of, open_watched, soon

pytestmark = pytest.mark.anyio

ENDPOINTS = [(way, era) for way in ("stream", "http") for era in ("handshake", "modern")]
each_endpoint = pytest.mark.parametrize(("way", "era"), ENDPOINTS)
NO_PARAMS = -32602
NOT_FOUND = {"handshake": -32002, "modern": -32602}


class Client:
    """A client of one era at a transparent endpoint."""

    def __init__(self, talk, era, ears):
        self.talk, self.era, self.ears = talk, era, ears
        self._last = 0

    async def ask(self, method, params="{}"):
        """The answer; `params` is the JSON of an object."""
        self._last += 1
        if self.era == "modern":
            inner = params.strip()[1:-1].strip()
            params = "{" + ENVELOPE + ("," + inner if inner else "") + "}"
        return await self.talk.ask(method, params, self._last)

    async def names(self, method, key, name="name"):
        return [each[name] for each in (await self.ask(method))["result"][key]]

    def heard(self, method):
        """The messages of that method that came."""
        return [each for each in self.talk.heard if ("method", method) in each]

    def received(self, method):
        """The params of the requests of that method that the server got from this client."""
        return [each.get("params") for each in heard(self.ears) if each.get("method") == method]


@asynccontextmanager
async def endpoint(way, era, ears, *, hello=HELLO % "2025-11-25", **settings):
    """A hub over the odd server with these settings, and a client at its endpoint."""
    servers = {"odd": entry(ears, **settings)}
    async with (
        open_watched(config_of(servers)) if way == "stream" else served(**servers) as place,
        on_stream(place.hub) if way == "stream" else talking(place[1]) as talk,
    ):
        client = Client(talk, era, ears)
        if era == "modern" and way == "http":
            talk.headers |= {"mcp-protocol-version": "2026-07-28"}
        if era == "handshake":
            await talk.ask("initialize", hello, "first")
            await talk.send("notifications/initialized")
        yield place if way == "stream" else place[0], client


async def put_in_force(watch, ears, **settings):
    """Reload the configuration with other settings for the odd server."""
    said = {"shutdown_grace": 0.2, "mcpServers": {"odd": entry(ears, **settings)}}
    await watch.hub.reload(parse(json.dumps(said), where="test"))


RULES = [{"deny": ["odd"]}, {"deny": ["odd.od*"]}, {"allow": ["safe"]}, {"allow": ["*"], "deny": ["o?d"]}]


@each_endpoint
@pytest.mark.parametrize("rules", RULES)
async def test_a_tool_that_is_not_admitted_is_neither_listed_nor_run(way, era, rules, tmp_path):
    async with endpoint(way, era, tmp_path / "ears", tools=rules) as (_, client):
        assert await client.names("tools/list", "tools") == ["safe"]
        denied = await client.ask("tools/call", '{"name":"odd","arguments":{"a":1}}')
        unknown = await client.ask("tools/call", '{"name":"not","arguments":{"a":1}}')
        assert denied["error"]["code"] == NO_PARAMS
        assert denied["error"] == json.loads(json.dumps(unknown["error"]).replace("not", "odd"))
        assert not client.received("tools/call")
        assert "result" in await client.ask("tools/call", '{"name":"safe"}')


@each_endpoint
async def test_what_is_shown_keeps_the_bytes_of_the_server(way, era, tmp_path):
    async with endpoint(way, era, tmp_path / "ears", tools={"deny": ["odd"]}) as (_, client):
        await client.ask("tools/list")
        (said,) = [value for member, value in client.talk.heard[-1] if member == "result"]
        members = dict(said)
        assert members["nextCursor"] == "p 2"
        assert members["vendor"][0] == ("b", ("f", "1e400"))
        assert members["tools"] == [
            parsed(
                '{"name":"safe","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"odd":[1.0]}}'
            )
        ]
        assert (await client.ask("tools/list", '{"cursor":"p 2"}'))["result"]["tools"] == []


@each_endpoint
async def test_a_resource_that_is_denied_is_neither_listed_nor_read_nor_heard_of(way, era, tmp_path):
    async with endpoint(way, era, tmp_path / "ears", resources={"deny": ["odd://*"]}) as (_, client):
        assert await client.names("resources/list", "resources") == []
        odd = ("odd:\t//x", "o\ndd://x", "odd:/%00/x", "odd://x\0", " odd://x", "odd://\uff58", "other://\tx")
        odd = () if (way, era) == ("http", "modern") else odd  # which are no values of headers
        for uri in ("odd://x", "ODD://x", "odd:%2f/x", *odd):
            refused = await client.ask("resources/read", json.dumps({"uri": uri}))
            assert refused["error"]["code"] == NOT_FOUND[era], uri
            assert refused["error"]["data"] == {"uri": uri}
        assert "result" in await client.ask("resources/read", '{"uri":"other://x"}')
        await client.ask("tools/call", '{"name":"tell"}')
        assert not client.heard("notifications/resources/updated")
        if era == "handshake":
            assert (await client.ask("resources/subscribe", '{"uri":"odd://x"}'))["error"]["code"] == -32002
            assert not client.received("resources/subscribe")
        assert len(client.received("resources/read")) == 1


@each_endpoint
async def test_a_prompt_that_is_denied_is_neither_got_nor_completed(way, era, tmp_path):
    async with endpoint(way, era, tmp_path / "ears", prompts={"deny": ["p*"]}) as (_, client):
        assert (await client.ask("prompts/get", '{"name":"p"}'))["error"]["code"] == NO_PARAMS
        argument = '"argument":{"name":"a","value":""}'
        for ref in ('{"type":"ref/prompt","name":"p"}', '{"type":"odd","name":"p"}', "{}"):
            refused = await client.ask("completion/complete", '{"ref":' + ref + "," + argument + "}")
            assert refused["error"]["code"] == NO_PARAMS
        allowed = '{"ref":{"type":"ref/prompt","name":"q"},' + argument + "}"
        assert "result" in await client.ask("completion/complete", allowed)
        assert not client.received("prompts/get")
        assert len(client.received("completion/complete")) == 1


SMUGGLED = [
    '{"name":"safe","Name":"odd"}',
    '{"Name":"odd","name":"safe"}',
    '{"name":["odd"]}',
    '{"NAME":"odd"}',
    '["odd"]',
    "{}",
    '{"name":"odd\\u0000"}',
    '{"n\\u0061me":"odd"}',
]


@pytest.mark.parametrize("params", SMUGGLED)
async def test_no_second_reading_of_the_params_gets_past_a_rule(params, tmp_path):
    async with endpoint("stream", "handshake", tmp_path / "ears", tools={"deny": ["odd*"]}) as (_, client):
        assert (await client.ask("tools/call", params))["error"]["code"] == NO_PARAMS
        assert not client.received("tools/call")


async def test_the_server_gets_the_name_that_was_held_against_the_rules(tmp_path):
    async with endpoint("stream", "handshake", tmp_path / "ears", tools={"deny": ["odd"]}) as (_, client):
        await client.ask("tools/call", '{"name":"odd","x":1e400,"name":"safe"}')
        (line,) = [each for each in client.ears.read_text().splitlines() if "tools/call" in each]
        assert '"odd"' not in line
        assert '"x":1e400' in line


@pytest.mark.parametrize("settings", [{}, {"tools": {"deny": ["odd"]}}])
async def test_a_call_in_the_form_of_a_notification_reaches_no_server(settings, tmp_path):
    """It would be in no audit log, and servers that do not look at the id would run it."""
    async with endpoint("stream", "handshake", tmp_path / "ears", **settings) as (_, client):
        await client.talk.send("tools/call", '{"name":"odd"}')
        await client.talk.send("notifications/vendor")
        await client.ask("ping")
        assert not client.received("tools/call")
        assert client.received("notifications/vendor") == [None]


async def test_a_call_in_a_batch_is_held_against_the_rules(tmp_path):
    hello = HELLO % "2025-03-26"
    async with endpoint("stream", "handshake", tmp_path / "ears", hello=hello, tools={"deny": ["odd"]}) as (
        _,
        client,
    ):
        call = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s"}}'
        listing = '{"jsonrpc":"2.0","id":3,"method":"tools/list"}'
        await client.talk.write(f"[{call % (1, 'odd')},{call % (2, 'safe')},{listing}]")
        with anyio.fail_after(PATIENCE_S):
            one, two, three = sorted(json.loads(await client.talk.read()), key=lambda each: each["id"])
        assert one["error"]["code"] == NO_PARAMS
        assert "result" in two
        assert [tool["name"] for tool in three["result"]["tools"]] == ["safe"]
        assert [each["name"] for each in client.received("tools/call")] == ["safe"]


@each_endpoint
async def test_annotations_are_shown_as_a_person_says(way, era, tmp_path):
    said = {"annotations": {"odd": {"destructiveHint": False}, "safe": {"readOnlyHint": False}}}
    async with endpoint(way, era, tmp_path / "ears", **said) as (_, client):
        odd, safe = (await client.ask("tools/list"))["result"]["tools"]
        assert odd["annotations"] == {"destructiveHint": False}
        assert safe["annotations"] == {"readOnlyHint": False, "odd": [1.0]}
        assert odd["vendor"] == 1


@each_endpoint
async def test_annotations_that_are_not_trusted_are_not_shown(way, era, tmp_path):
    async with endpoint(way, era, tmp_path / "ears", trust_annotations=False) as (_, client):
        _, safe = (await client.ask("tools/list"))["result"]["tools"]
        assert "readOnlyHint" not in safe.get("annotations", {})


@each_endpoint
async def test_a_rule_is_in_force_at_once_and_the_client_hears_of_it(way, era, tmp_path):
    ears = tmp_path / "ears"
    async with endpoint(way, era, ears) as (watch, client):
        assert await client.names("tools/list", "tools") == ["odd", "safe"]
        await put_in_force(watch, ears, tools={"deny": ["odd"]})
        assert (await client.ask("tools/call", '{"name":"odd"}'))["error"]["code"] == NO_PARAMS
        assert await client.names("tools/list", "tools") == ["safe"]
        if (way, era) == ("stream", "handshake"):
            assert client.heard("notifications/tools/list_changed")
        await put_in_force(watch, ears)
        assert await client.names("tools/list", "tools") == ["odd", "safe"]


async def test_a_subscription_hears_nothing_more_once_its_resource_is_denied(tmp_path):
    ears = tmp_path / "ears"
    async with endpoint("stream", "handshake", ears) as (watch, client):
        await client.ask("resources/subscribe", '{"uri":"odd://x"}')
        await put_in_force(watch, ears, resources={"deny": ["odd://x"]})
        client.talk.heard.clear()
        await client.ask("tools/call", '{"name":"tell"}')
        assert not client.heard("notifications/resources/updated")
        await put_in_force(watch, ears)
        await client.ask("tools/call", '{"name":"tell"}')
        assert client.heard("notifications/resources/updated")


async def test_a_stream_of_2026_07_28_is_not_for_a_resource_that_is_denied(tmp_path):
    async with endpoint("stream", "modern", tmp_path / "ears", resources={"deny": ["odd://x"]}) as (
        _,
        client,
    ):
        wanted = '"notifications":{"resourceSubscriptions":["odd://x","odd://y"]}'
        await client.talk.send("subscriptions/listen", "{" + wanted + "," + ENVELOPE + "}", "l")
        acknowledged = await client.talk.take()
        assert acknowledged["params"]["notifications"] == {"resourceSubscriptions": ["odd://y"]}


async def test_a_call_that_waits_is_held_against_the_rules_again(tmp_path):
    ears = tmp_path / "ears"
    async with endpoint("stream", "handshake", ears, max_concurrency=1) as (watch, client):
        waits = '{"name":"ask","arguments":{"method":"vendor/wait"}}'
        await client.talk.send("tools/call", waits, "w")
        await client.talk.send("tools/call", '{"name":"odd"}', "q")
        session = next(iter(watch.hub.upstreams["odd"].direct.values()))
        await soon(lambda: session.queue.waiting == 1)
        await put_in_force(watch, ears, max_concurrency=1, tools={"deny": ["odd"]})
        client.talk.reply = '"result":{}'
        answers = {}
        while len(answers) < 2:
            message = await client.talk.take()
            if "method" not in message:
                answers[message["id"]] = message
        assert "result" in answers["w"]
        assert answers["q"]["error"]["code"] == NO_PARAMS
        assert [each["name"] for each in client.received("tools/call")] == ["ask"]


async def test_an_override_of_annotations_holds_for_what_was_listed_before(tmp_path):
    ears = tmp_path / "ears"
    async with endpoint("stream", "handshake", ears, approve="writes") as (watch, client):
        await client.ask("tools/list")
        assert "result" in await client.ask("tools/call", '{"name":"safe"}')
        await put_in_force(watch, ears, approve="writes", annotations={"safe": {"readOnlyHint": False}})
        assert (await client.ask("tools/call", '{"name":"safe"}'))["error"]["data"]["code"] == "not_approved"


async def test_no_more_requests_reach_a_server_than_it_takes_in_a_minute(tmp_path):
    limits = {"calls_per_minute": 2}
    async with endpoint("stream", "handshake", tmp_path / "ears", limits=limits) as (_, client):
        await client.ask("ping")
        assert "result" in await client.ask("tools/call", '{"name":"safe"}')
        assert "result" in await client.ask("resources/read", '{"uri":"odd://x"}')
        data = (await client.ask("tools/call", '{"name":"safe"}'))["error"]["data"]
        assert (data["code"], data["outcome"]) == ("overloaded", "not_sent")
        assert data["retry_in_s"] > 0
        assert len(client.received("tools/call")) == 1
        assert "result" in await client.ask("ping")


@pytest.mark.parametrize("rules", [{"deny": ["odd://*"]}, {"allow": ["other://*"]}])
async def test_what_a_completion_is_for_must_be_admitted(rules, tmp_path):
    async with endpoint("stream", "handshake", tmp_path / "ears", resources=rules) as (_, client):
        for uri in ("odd://x", "odd://{x}", "ODD://x?y"):
            ref = json.dumps({"type": "ref/resource", "uri": uri})
            refused = await client.ask("completion/complete", f'{{"ref":{ref},"argument":{{}}}}')
            assert refused["error"]["code"] == NO_PARAMS, uri
        ref = '{"type":"ref/resource","uri":"other://{x}"}'
        assert "result" in await client.ask("completion/complete", f'{{"ref":{ref},"argument":{{}}}}')


async def test_a_task_of_a_tool_that_is_denied_meanwhile_is_not_there(tmp_path):
    task = '{"taskId":"t1","status":"working"}'
    files = {"tools-call": f'{{"task":{task}}}', "tasks-get": task}
    files["tasks-list"] = f'{{"tasks":[{task},{{"taskId":"t2"}}],"odd":1e400}}'
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    command = {"command": sys.executable, "args": ["-S", "-E", str(EXACT), "handshake", str(tmp_path)]}

    def config(**settings):
        return config_of({"odd": {**command, **settings}})

    async with open_watched(config()) as watch, on_stream(watch.hub) as talk:
        await handshake(talk)
        await talk.ask("tools/call", '{"name":"say"}')
        assert "result" in await talk.ask("tasks/get", '{"taskId":"t1"}')
        await watch.hub.reload(config(tools={"deny": ["say"]}))
        assert (await talk.ask("tasks/get", '{"taskId":"t1"}'))["error"]["code"] == NO_PARAMS
        assert "result" in await talk.ask("tasks/get", '{"taskId":"t2"}')
        listed = (await talk.ask("tasks/list"))["result"]
        assert listed["tasks"] == [{"taskId": "t2"}]


@pytest.mark.parametrize("method", ["Tools/Call", "tools/call ", "TOOLS/LIST", "resources/Read"])
async def test_no_other_spelling_of_a_method_gets_past_a_rule(method, tmp_path):
    async with endpoint("stream", "handshake", tmp_path / "ears", tools={"deny": ["odd"]}) as (_, client):
        refused = await client.ask(method, '{"name":"odd","uri":"odd://x"}')
        assert refused["error"]["code"] == -32601
        await client.talk.send(method, '{"name":"odd"}')
        assert "result" in await client.ask("vendor/Call")
        assert not client.received(method)


@each_endpoint
async def test_no_value_is_suggested_that_makes_a_denied_uri(way, era, tmp_path):
    async with endpoint(way, era, tmp_path / "ears", resources={"deny": ["other://a"]}) as (_, client):
        for template, values in (("other://{x}", [1]), ("more://{x}", [1, "a"])):
            ref = (
                '{"ref":{"type":"ref/resource","uri":"' + template + '"},"argument":{"name":"x","value":""}}'
            )
            suggested = (await client.ask("completion/complete", ref))["result"]["completion"]
            assert suggested["values"] == values
