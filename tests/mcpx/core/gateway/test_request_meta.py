"""The `_meta` of a client's request at the server: its own members, and nothing of the connection's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.server import GatewayServer
from supervisors import ChildSpec
from tests.mcpx.core.servers.raw import entry, initialize, refusal, result
from tests.mcpx.core.servers.raw_http import MODERN_ONLY, discover, raw_http
from tests.mcpx.line import Line
from tests.mcpx.scripted import config_of, open_watched
from tests.mcpx.serving import ENVELOPE

pytestmark = pytest.mark.anyio

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "baggage": "user=7"}
VENDOR = {"com.acme/x": {"deep": [1, None]}, "absent": None, "n": 1.0}
OWN = {**TRACE, **VENDOR}
NOT_THE_CLIENTS = {
    "progressToken": "mine",
    "io.modelcontextprotocol/logLevel": "debug",
    "io.modelcontextprotocol/other": 1,
    "mcpx/settled": True,
}
CAPABILITIES: dict[str, Any] = {
    "tools": {},
    "resources": {"subscribe": True},
    "prompts": {},
    "completions": {},
}
OFFERS = {
    "initialize": initialize(capabilities=CAPABILITIES),
    "resources/list": result({"resources": [{"uri": "a:b", "name": "b"}]}),
    "resources/templates/list": refusal(-32601),
    "prompts/list": result({"prompts": [{"name": "p"}]}),
    "resources/read": result({"contents": [{"uri": "a:b", "text": "x"}]}),
    "prompts/get": result({"messages": []}),
    "completion/complete": result({"completion": {"values": []}}),
    "resources/subscribe": result({}),
}
ANSWERS = {
    "handshake": OFFERS,
    "modern": OFFERS | MODERN_ONLY | {"server/discover": discover(**CAPABILITIES)},
}
EXEC = {"name": "exec", "arguments": {"server_name": "s", "tool_name": "echo", "arguments": {"big": 2**70}}}
REQUESTS = {
    "tools/call": ("tools/call", EXEC),
    "read by tool": ("tools/call", {"name": "resources", "arguments": {"server_name": "s", "uri": "a:b"}}),
    "resources/read": ("resources/read", {"uri": "mcpx://s/a:b"}),
    "prompts/get": ("prompts/get", {"name": "s.p"}),
    "completion/complete": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "s.p"}, "argument": {"name": "a", "value": ""}},
    ),
}
HANDSHAKE_REQUESTS = {"resources/subscribe": ("resources/subscribe", {"uri": "mcpx://s/a:b"})}
SENT_AS = {"read by tool": "resources/read"}

Sent = Callable[[str], dict[str, Any]]


@pytest.fixture(params=["handshake", "modern"], ids=["old-server", "new-server"])
def era(request: Any) -> str:
    return str(request.param)


@pytest.fixture(params=["stdio", "json", "events"])
async def upstream(request: Any, era: str, tmp_path: Path) -> AsyncIterator[tuple[dict[str, Any], Sent]]:
    """A server's entry, and what gives the last request of a method that it was sent."""
    if request.param == "stdio":

        def sent(method: str) -> dict[str, Any]:
            lines = map(json.loads, (tmp_path / "lines").read_text().splitlines())
            return dict([line for line in lines if line.get("method") == method][-1])

        yield entry(tmp_path, answers=ANSWERS[era], lines=str(tmp_path / "lines")), sent
    else:
        with raw_http(ANSWERS[era], how=request.param) as server:
            yield {"url": server.url}, server.body


@asynccontextmanager
async def client_of(server: dict[str, Any]) -> AsyncIterator[Line]:
    async with open_watched(config_of({"s": server}, auto_describe=False)) as watch:
        clients = ClientSessions(watch.hub)
        watch.hub.root.add(ChildSpec(name="clients", run=clients.run))
        async with Line(watch.hub).connected(GatewayServer(watch.hub, clients)) as line:
            yield line


async def ask(line: Line, name: str, *, modern: bool, meta: dict[str, Any]) -> None:
    method, params = (REQUESTS | HANDSHAKE_REQUESTS)[name]
    await line.ask(method, {**params, "_meta": {**meta, **(ENVELOPE if modern else {})}})


@pytest.mark.parametrize("modern", [False, True], ids=["old-client", "new-client"])
async def test_a_clients_own_members_arrive_and_no_others(modern, era, upstream):
    server, sent = upstream
    envelope = {key for key in ENVELOPE if era == "modern"}
    asked = {"io.modelcontextprotocol/logLevel"} if era == "modern" and modern else set()
    async with client_of(server) as line:
        if not modern:
            await line.initialize()
        for name in REQUESTS | ({} if modern or era == "modern" else HANDSHAKE_REQUESTS):
            await ask(line, name, modern=modern, meta={**OWN, **NOT_THE_CLIENTS})
            message = sent(SENT_AS.get(name, name))
            meta = message["params"]["_meta"]
            assert {key: meta[key] for key in OWN} == OWN, name
            assert type(meta["n"]) is float
            assert meta["progressToken"] == message["id"]  # MCPX's own
            assert set(meta) == {*OWN, "progressToken", *envelope, *asked}


@pytest.mark.parametrize("slow", [False, True], ids=["fast", "sdk"])
async def test_both_paths_pass_it_on(slow, era, upstream):
    server, sent = upstream
    async with client_of(server) as line:
        await line.initialize()
        line.slow = slow
        await ask(line, "tools/call", modern=False, meta=OWN)
        assert line.fast == (0 if slow else 1)
        params = sent("tools/call")["params"]
        await ask(line, "tools/call", modern=False, meta=NOT_THE_CLIENTS)
        bare = sent("tools/call")["params"]["_meta"]
    assert params["arguments"] == {"big": 2**70}
    assert {key: params["_meta"][key] for key in OWN} == OWN
    assert set(bare) == {"progressToken", *(key for key in ENVELOPE if era == "modern")}


@pytest.mark.parametrize("era", ["modern"], ids=["new-server"], indirect=True)  # no other is answered so
@pytest.mark.parametrize("slow", [False, True], ids=["fast", "sdk"])
async def test_a_request_that_is_repeated_with_answers_brings_its_own(slow, upstream):
    server, sent = upstream
    method, params = REQUESTS["tools/call"]
    answers = {"inputResponses": {"1": {"action": "accept", "content": {"n": 1.0}}}, "requestState": "theirs"}
    async with client_of(server) as line:
        line.slow = slow
        await line.ask(method, {**params, **answers, "_meta": {**OWN, **ENVELOPE}})
        got = sent("tools/call")["params"]
    assert {key: got[key] for key in answers} == answers
    assert {key: got["_meta"][key] for key in OWN} == OWN
