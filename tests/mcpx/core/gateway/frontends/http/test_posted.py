"""Requests that are posted: what they cost, the form of their answers, and the ends of sessions."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import anyio
import pydantic
import pytest

from mcpx.core.gateway.frontends.http import sessions as http_sessions
from tests.mcpx.core.gateway.endpoints import HttpEndpoint
from tests.mcpx.core.gateway.frontends.http.test_endpoints import LIST, at, served
from tests.mcpx.core.gateway.frontends.http.test_frontend import HELLO, meanwhile
from tests.mcpx.scripted import PATIENCE_S, config_of, entry, soon
from tests.mcpx.serving import ENVELOPE

pytestmark = pytest.mark.anyio
JSON, EVENTS = "application/json", "text/event-stream"


def call(endpoint: HttpEndpoint, tool: str, request_id=7, **arguments):
    """The body and the headers of a call of `exec`."""
    given = {"server_name": "s", "tool_name": tool, "arguments": arguments}
    params = {"name": "exec", "arguments": given}
    headers = dict(endpoint._headers)
    if endpoint._modern:
        params["_meta"] = ENVELOPE
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "exec"}
    message = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
    return {"json": message, "headers": headers}


def one_message(response):
    """The message of a response of one kind or the other."""
    if response.headers["content-type"] == JSON:
        return response.json()
    (data,) = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
    return json.loads(data)


@pytest.mark.parametrize("modern", [False, True])
async def test_a_warm_call_makes_no_task_and_no_model(modern, monkeypatch):
    async with served(config_of({"s": entry()})) as (_, client, url), at(client, url, modern=modern) as talk:
        await talk.answer("tools/list", {})
        asked = call(talk, "echo", text="hi")
        body = json.dumps(asked["json"]).encode()
        headers = {"Host": url.split("/")[2], "Content-Type": JSON, "Content-Length": len(body)}
        head = "".join(f"{name}: {value}\r\n" for name, value in {**asked["headers"], **headers}.items())
        port = int(url.split(":")[2].split("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def post() -> bytes:
            writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
            head_ = await reader.readuntil(b"\r\n\r\n")
            lines = head_.lower().split(b"\r\n")
            (length,) = [int(line[15:]) for line in lines if line.startswith(b"content-length:")]
            return await reader.readexactly(length)

        for _ in range(3):
            assert b'"hi"' in await post()
        made = []
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "create_task", lambda *given, **_: made.append(given))
        for name in ("__init__", "model_validate", "model_construct"):
            monkeypatch.setattr(pydantic.BaseModel, name, lambda *given, **_: made.append(given))
        assert b'"hi"' in await post()
        monkeypatch.undo()
        writer.close()
        assert made == []


@pytest.mark.parametrize("modern", [False, True])
async def test_the_answer_is_json_or_one_event_as_the_client_would_have_it(modern):
    async with served(config_of({"s": entry()})) as (_, client, url), at(client, url, modern=modern) as talk:
        for accept, kind in (
            (f"{JSON}, {EVENTS}", JSON),
            (f"{EVENTS}, {JSON}", EVENTS),
            (JSON, JSON),
            (EVENTS, EVENTS),
            ("*/*", JSON),
        ):
            asked = call(talk, "echo", text="hi")
            for message in (asked["json"], asked["json"] | {"method": "no/such"}):
                headers = asked["headers"] | {"Accept": accept}
                if modern:
                    headers["Mcp-Method"] = message["method"]
                answer = await client.post(url, json=message, headers=headers)
                said = one_message(answer)
                assert said["id"] == 7
                if "error" in said:
                    assert said["error"]["code"] == -32601
                    assert answer.status_code == (404 if modern else 200)
                else:
                    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
                    assert "hi" in str(said["result"]["content"])


@asynccontextmanager
async def hanging(ears, accept=f"{JSON}, {EVENTS}"):
    """A call that hangs: its client, and the list that its answer comes into."""
    async with (
        served(config_of({"s": entry(ears)})) as (_, client, url),
        at(client, url, modern=False) as talk,
    ):
        asked = call(talk, "hang")
        asked["headers"]["Accept"] = accept
        asked["json"]["params"]["_meta"] = {"progressToken": "p"}
        async with meanwhile(client.post, url, **asked) as answers:
            await ears.hear("call", tool="hang")
            yield client, url, talk, answers


async def test_a_client_that_takes_no_events_gets_the_answer_alone(ears):
    async with hanging(ears, JSON) as (client, url, talk, answers):
        for tool in ("nudge", "release"):
            await client.post(url, **call(talk, tool, 8))
        await soon(lambda: answers)
        assert "released" in str(answers[0].json()["result"])


async def test_a_call_that_is_cancelled_ends_and_its_session_goes_on(ears):
    async with hanging(ears) as (client, url, talk, answers):
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "7"}}
        answer = await client.post(url, json=cancelled, headers=talk._headers)
        assert (answer.status_code, answer.content) == (202, b"")
        await ears.hear("cancelled")
        await soon(lambda: answers)
        last = answers[0].text.splitlines()[-1 if answers[0].headers["content-type"] == JSON else -2]
        assert '"code":-32800' in last
        assert (await client.post(url, json=LIST, headers=talk._headers)).status_code == 200


async def test_an_id_that_is_in_use_is_refused_and_its_first_request_goes_on(ears):
    async with hanging(ears) as (client, url, talk, answers):
        refused = one_message(await client.post(url, **call(talk, "echo", text="again")))
        assert (refused["id"], refused["error"]["code"]) == (7, -32600)
        assert "in use" in refused["error"]["message"]
        await client.post(url, **call(talk, "release", 8))
        await soon(lambda: answers)
        assert "released" in str(one_message(answers[0])["result"])
        again = one_message(await client.post(url, **call(talk, "echo", text="again")))
        assert again["result"]["content"][0]["text"] == "again"


async def test_in_2026_07_28_requests_with_one_id_have_nothing_to_do_with_each_other():
    async with served(config_of({"s": entry()})) as (_, client, url), at(client, url, modern=True) as talk:
        answers = []

        async def post(text: str) -> None:
            answer = await client.post(url, **call(talk, "echo", text=text))
            answers.append((text, one_message(answer)["result"]["content"][0]["text"]))

        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(post, str(number))
        assert len(answers) == 20
        assert all(text == said for text, said in answers)


async def test_sessions_end_when_they_are_deleted_or_never_began():
    async with served(config_of({"s": entry()})) as (hub, client, url):
        bad = HELLO | {"params": {"protocolVersion": 7}}
        refused = await client.post(url, json=bad, headers={"Accept": f"{JSON}, {EVENTS}"})
        assert refused.json()["error"]["code"] == -32602
        assert "mcp-session-id" not in refused.headers
        async with at(client, url, modern=False) as one, at(client, url, modern=False) as two:
            assert len(hub.clients.handles) == 2
            async with client.stream("GET", url, headers=two._headers) as stream:
                assert stream.headers["content-type"].startswith(EVENTS)
                assert (await client.get(url, headers=two._headers)).status_code == 409
                ended = await client.delete(url, headers=one._headers)
                assert (ended.status_code, ended.headers["mcp-session-id"]) == (
                    200,
                    one._headers["Mcp-Session-Id"],
                )
                assert (await client.post(url, json=LIST, headers=one._headers)).status_code == 404
                await soon(lambda: len(hub.clients.handles) == 1)
                assert (await client.put(url, headers=two._headers)).status_code == 405
                for method in ("GET", "DELETE"):
                    answer = await client.request(method, url, headers={"Accept": EVENTS})
                    assert answer.status_code == 400


@pytest.mark.parametrize("accept", [JSON, f"{JSON}, {EVENTS}"])
async def test_what_is_open_when_its_session_ends_is_answered_on_a_stream_too(ears, accept):
    async with hanging(ears, accept) as (client, url, talk, answers):
        await client.post(url, **call(talk, "nudge", 8))  # from then on it is a stream, if it can be one
        assert (await client.delete(url, headers=talk._headers)).status_code == 200
        await soon(lambda: answers)
        assert answers[0].headers["content-type"] == (EVENTS if EVENTS in accept else JSON)
        assert '"id":7,"error":{"code":-32603' in answers[0].text
        assert '"data":{"code":"cancelled","outcome":"unknown"}' in answers[0].text


async def test_a_session_with_nothing_open_is_idle_after_a_while():
    class Endpoint:
        version = "2025-11-25"

        def open(self, _session):
            return self

        def close(self):
            self.version = None

    service = Endpoint()
    common = http_sessions.Common(1000)
    sessions = http_sessions.Sessions(common, None, service)
    session = http_sessions.Session(sessions)
    sessions._sessions[session.id] = session
    for _ in range(3):
        sessions.end_idle(3)
    session.idle = 0  # as a request does
    for _ in range(3):
        sessions.end_idle(3)
    assert len(sessions) == 1
    sessions.end_idle(3)
    assert (len(sessions), service.version) == (0, None)
