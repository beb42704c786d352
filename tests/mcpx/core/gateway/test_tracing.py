"""The spans of calls, on every way to MCPX and from it, and the trace that goes on to the server."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import anyio
import pytest

from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.server import GatewayServer
from supervisors import ChildSpec
from tests.mcpx.core.gateway.test_request_meta import ANSWERS, VENDOR, ask
from tests.mcpx.core.gateway.transparent.test_rules import each_endpoint, endpoint
from tests.mcpx.core.servers.raw import entry, refusal, result
from tests.mcpx.core.servers.raw_http import raw_http
from tests.mcpx.line import Line
from tests.mcpx.scripted import config_of, open_watched, soon
from tests.mcpx.serving import ENVELOPE
from tests.mcpx.spans import (
    PARENT_ID,
    SAMPLED,
    TRACE_ID,
    UNSAMPLED,
    about,
    parent_id,
    span_id,
    trace_id,
    tracing_hubs,
)

pytestmark = pytest.mark.anyio

BAGGAGE = {"baggage": "user=7"}
CALL = {"name": "exec", "arguments": {"server_name": "s", "tool_name": "echo", "arguments": {"secret": 1}}}


@pytest.fixture
def spans(monkeypatch):
    with tracing_hubs(monkeypatch) as found:
        yield found


@pytest.fixture(params=["handshake", "modern"], ids=["old-server", "new-server"])
def era(request):
    return request.param


@pytest.fixture(params=["stdio", "json", "events"])
async def upstream(request, era, tmp_path):
    """A server's entry, and what gives the last request of a method that it was sent."""
    if request.param == "stdio":
        lines = tmp_path / "lines"

        def sent(method):
            found = map(json.loads, lines.read_text().splitlines())
            return [line for line in found if line.get("method") == method][-1]

        yield entry(tmp_path, answers=ANSWERS[era], lines=str(lines)), sent
    else:
        with raw_http(ANSWERS[era], how=request.param) as server:
            yield {"url": server.url}, server.body


@asynccontextmanager
async def client_of(server, *, slow=False, modern=False):
    async with open_watched(config_of({"s": server}, auto_describe=False)) as watch:
        clients = ClientSessions(watch.hub)
        watch.hub.root.add(ChildSpec(name="clients", run=clients.run))
        async with Line(watch.hub).connected(GatewayServer(watch.hub, clients)) as line:
            line.slow = slow
            if not modern:
                await line.initialize()
            yield line


def named_by(meta):
    """The trace and span that a `_meta` names, and whether they are recorded."""
    _, trace, span, flags = meta["traceparent"].split("-")
    return trace, span, bool(int(flags, 16) & 1)


@pytest.mark.parametrize("slow", [False, True], ids=["fast", "sdk"])
@pytest.mark.parametrize("modern", [False, True], ids=["old-client", "new-client"])
async def test_a_call_is_three_spans_and_the_server_is_below_them(modern, slow, upstream, spans):
    server, sent = upstream
    async with client_of(server, slow=slow, modern=modern) as line:
        meta = {"traceparent": SAMPLED, "tracestate": "vendor=1", **BAGGAGE, **VENDOR}
        await ask(line, "tools/call", modern=modern, meta=meta)
        assert line.fast == (0 if slow or modern else 1)  # the first request of a modern one opens it
        served, route, client = await spans.of_call("echo")
        got = sent("tools/call")["params"]["_meta"]
    assert trace_id(served) == TRACE_ID
    assert parent_id(served) == PARENT_ID
    assert named_by(got) == (TRACE_ID, span_id(client), True)
    assert got["tracestate"] == "vendor=1"
    assert {key: got[key] for key in (*BAGGAGE, *VENDOR)} == {**BAGGAGE, **VENDOR}
    asked, way, out = about(served), about(route), about(client)
    assert asked["mcp.method.name"] == out["mcp.method.name"] == "tools/call"
    assert asked["gen_ai.operation.name"] == out["gen_ai.operation.name"] == "execute_tool"
    assert (asked["gen_ai.tool.name"], out["gen_ai.tool.name"]) == ("exec", "echo")
    assert asked["mcpx.server"] == way["mcpx.server"] == "s"
    assert asked["mcpx.tool"] == way["mcpx.tool"] == "echo"
    assert asked["mcpx.client"] == "test/1"
    assert asked["network.transport"] == "pipe"
    assert out["jsonrpc.request.id"] == str(got["progressToken"])
    if "url" in server:
        assert out["network.transport"] == "tcp"
        assert out["server.address"] == "127.0.0.1"
        assert f":{out['server.port']}" in server["url"]
    else:
        assert out["network.transport"] == "pipe"
    for span in (served, route, client):
        assert span.status.is_unset
        assert "error.type" not in about(span)


@pytest.mark.parametrize("slow", [False, True], ids=["fast", "sdk"])
@pytest.mark.parametrize("given", [{}, {"traceparent": "rubbish", "tracestate": 5}, {"traceparent": [1]}])
async def test_without_a_trace_of_the_client_one_begins_here(given, slow, tmp_path, spans):
    lines = tmp_path / "lines"
    async with client_of(entry(tmp_path, lines=str(lines)), slow=slow) as line:
        await ask(line, "tools/call", modern=False, meta=given)
        served, _, client = await spans.of_call("echo")
    meta = json.loads(lines.read_text().splitlines()[-1])["params"]["_meta"]
    assert parent_id(served) is None
    assert named_by(meta) == (trace_id(served), span_id(client), True)
    assert "tracestate" not in meta


async def test_what_the_client_does_not_want_recorded_is_not_but_is_passed_on(tmp_path, spans):
    lines = tmp_path / "lines"
    async with client_of(entry(tmp_path, lines=str(lines))) as line:
        await ask(line, "tools/call", modern=False, meta={"traceparent": UNSAMPLED})
    trace, span, recorded = named_by(json.loads(lines.read_text().splitlines()[-1])["params"]["_meta"])
    assert (trace, recorded) == (TRACE_ID, False)
    assert span != PARENT_ID
    assert not spans.named("tools/call exec", "SERVER")


@pytest.mark.parametrize("slow", [False, True], ids=["fast", "sdk"])
@pytest.mark.parametrize(
    "failing",
    [
        (result({"content": [{"type": "text", "text": "secret"}], "isError": True}), "tool_error", None),
        (refusal(-32050, "secret"), "upstream_error", "-32050"),
        ("exit", "server_died", None),
    ],
    ids=["tool", "protocol", "death"],
)
async def test_failures_are_in_all_three_and_no_text_of_theirs(failing, slow, tmp_path, spans):
    answer, error, code = failing
    server = entry(tmp_path, answers={"tools/call": answer})
    async with client_of(server, slow=slow) as line:
        assert (await line.ask("tools/call", CALL))["isError"] is True
        found = await spans.of_call("echo")
    for span in found:
        assert about(span)["error.type"] == error
        assert span.status.status_code.name == "ERROR"
        assert span.status.description == error
        assert not span.events
        assert "secret" not in span.to_json()
    assert about(found[2]).get("rpc.response.status_code") == code


@pytest.mark.parametrize("slow", [False, True], ids=["fast", "sdk"])
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"server_name": "none", "tool_name": "echo"}, "unknown_server"),
        ({"server_name": "s", "tool_name": "none"}, "unknown_tool"),
        ({"server_name": "s", "tool_name": "echo", "arguments": "{"}, "invalid_arguments"),
    ],
)
async def test_what_is_refused_says_why_and_is_not_sent(arguments, error, slow, tmp_path, spans):
    async with client_of(entry(tmp_path), slow=slow) as line:
        await line.ask("tools/call", {"name": "exec", "arguments": arguments})
        served = await spans.last("tools/call exec", "SERVER")
    assert about(served)["error.type"] == error
    assert not [span for span in spans.all() if span.kind.name == "CLIENT"]


@pytest.mark.parametrize("slow", [False, True], ids=["fast", "sdk"])
async def test_a_call_that_is_cancelled_ends_its_spans(slow, tmp_path, spans):
    server = entry(tmp_path, answers={"tools/call": "silent"})
    async with client_of(server, slow=slow) as line:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(line.ask, "tools/call", CALL)
            await soon(lambda: line.hub.upstreams["s"].queue.in_flight)
            tasks.cancel_scope.cancel()
        line.tell("notifications/cancelled", {"requestId": line.last_id})
        found = await spans.of_call("echo")
    assert {about(span)["error.type"] for span in found} == {"cancelled"}


async def test_a_request_that_is_lost_and_sent_again_is_two_spans_of_one_call(tmp_path, spans):
    listed = {"name": "echo", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    ears = tmp_path / "s.ears"
    quick = {"restart": {"initial": 0.05, "cap": 0.1}}
    server = entry(
        tmp_path, answers={"tools/list": result({"tools": [listed]}), "tools/call": "exit"}, settings=quick
    )
    async with client_of(server) as line:
        await line.ask("tools/call", CALL)
        served, route, last = await spans.of_call("echo")
    first, second = spans.named("tools/call echo", "CLIENT")
    assert second is last
    assert parent_id(first) == parent_id(second) == span_id(route)
    assert about(first)["error.type"] == "sent_again"
    assert first.end_time <= second.start_time
    assert about(served)["error.type"] == "server_died"
    assert ears.read_text().count("tools/call") == 2


@pytest.mark.parametrize(
    ("method", "span", "attributes"),
    [
        ("resources/read", "resources/read", {"mcp.resource.uri": "a:b"}),
        ("prompts/get", "prompts/get p", {"gen_ai.prompt.name": "p"}),
        ("completion/complete", "completion/complete", {}),
    ],
)
async def test_other_requests_are_traced_too(method, span, attributes, tmp_path, spans):
    lines = tmp_path / "lines"
    server = entry(tmp_path, answers=ANSWERS["handshake"], lines=str(lines))
    async with client_of(server) as line:
        await ask(line, method, modern=False, meta={"traceparent": SAMPLED})
        client = await spans.last(span, "CLIENT")
    meta = json.loads(lines.read_text().splitlines()[-1])["params"]["_meta"]
    assert named_by(meta) == (TRACE_ID, span_id(client), True)
    wanted = {"mcp.method.name": method, **attributes}
    assert {key: about(client).get(key) for key in wanted} == wanted


async def test_a_program_that_calls_within_a_span_has_it_as_the_parent(tmp_path, spans):
    async with open_watched(config_of({"s": entry(tmp_path)})) as watch:
        await watch.text("echo")
        route = await spans.last("route", "INTERNAL")
        client = await spans.last("tools/call echo", "CLIENT")
    assert parent_id(route) is None
    assert parent_id(client) == span_id(route)


@each_endpoint
async def test_a_transparent_endpoint_traces_and_changes_nothing_else(way, era, tmp_path, spans):
    async with endpoint(way, era, tmp_path / "ears") as (_, client):
        meta = {"traceparent": SAMPLED, "tracestate": "a=b", "x": 1.50, **BAGGAGE}
        meta |= ENVELOPE if era == "modern" else {}
        params = {"name": "odd", "arguments": {"n": 1.0}, "odd": None, "_meta": meta}
        await client.talk.ask("tools/call", json.dumps(params), 7)
        served, _, out = await spans.of_call("odd", by="odd")
        await client.talk.ask("vendor/x", '{"a":1}', 8)
        [sent], unknown = client.received("tools/call"), client.received("vendor/x")
    assert named_by(sent["_meta"]) == (TRACE_ID, span_id(out), True)
    assert parent_id(served) == PARENT_ID
    assert {**sent, "_meta": {**sent["_meta"], "traceparent": SAMPLED}} == params
    assert about(out)["jsonrpc.request.id"] == about(served)["jsonrpc.request.id"] == "7"
    if era == "handshake":
        assert unknown == [{"a": 1}], "what is not known passes as it is"


@pytest.mark.parametrize("slow", [False, True], ids=["fast", "sdk"])
async def test_a_call_that_a_person_is_asked_about_is_one_span_of_the_client(slow, tmp_path, spans):
    settings = {"tools": {"ask": ["echo"]}}
    async with client_of(entry(tmp_path, settings=settings), slow=slow) as line:
        refused = await line.ask("tools/call", CALL)  # this client cannot be asked
        assert refused["structuredContent"]["code"] == "not_approved"
        served = await spans.last("tools/call exec", "SERVER")
    assert about(served)["error.type"] == "not_approved"
    assert {parent_id(route) for route in spans.named("route", "INTERNAL")} == {span_id(served)}
    assert not [span for span in spans.all() if span.kind.name == "CLIENT"]
