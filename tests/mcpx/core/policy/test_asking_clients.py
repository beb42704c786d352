"""The person behind a real client is asked: at every endpoint, in both eras, for servers of both.

The clients and the servers are built on the SDK; between them stands MCPX as a real process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import anyio
import msgspec
import pytest
from mcp import Client
from mcp_types import ElicitResult

from mcpx.core.events.stats import Count
from mcpx.core.protocol.context import InputAnswers
from mcpx.core.protocol.messages import Exec
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.rendering.result_reading import read_tool_result
from tests.live import gateways
from tests.mcpx.core.daemon.daemons import House, parameters
from tests.mcpx.core.policy.agreeing import KEY
from tests.mcpx.core.policy.agreeing import said as chosen
from tests.mcpx.core.servers.relay.answering import (
    FORM,
    ROOTS,
    SERVERS,
    AnsweringClient,
    asking_server,
    entry,
    exec_,
    said,
)
from tests.mcpx.core.servers.relay.calling import CallSite, FakeCaller, open_call_site

pytestmark = pytest.mark.anyio
RULES = {"tools": {"ask": ["*"]}}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """For fixtures of the module, too."""
    return "asyncio"


class Deciding(AnsweringClient):
    """One client's user, who says `decision` when asked whether a tool may run."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.decision = "once"
        self.decided: list[str] = []

    async def elicit(self, ctx: Any, params: Any) -> Any:
        if "May this tool be run?" not in params.message:
            return await super().elicit(ctx, params)
        self.decided.append(params.message)
        if self.decision == "decline":
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"decision": self.decision})


@pytest.fixture(scope="module")
async def entries() -> AsyncIterator[dict[str, Any]]:
    """All servers, by kind."""
    async with AsyncExitStack() as running:
        yield {kind: await running.enter_async_context(asking_server(kind)) | RULES for kind in SERVERS}


@pytest.fixture(scope="module", params=gateways.ENDPOINTS)
async def able(
    request: pytest.FixtureRequest, entries: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Deciding, Client]]:
    """Ann, who can be asked."""
    ann = Deciding("ann")
    config = gateways.write_config(tmp_path_factory.mktemp("mcpx"), entries, startup_wait=20, expose="both")
    async with gateways.open_gateway(request.param, config, **ann.options()) as gateway:
        yield ann, gateway.client


async def run(client: Client, kind: str, way: str, tool: str, **arguments: Any) -> Any:
    if way == "native":
        return await client.call_tool(f"{kind}__{tool}", arguments)
    return await exec_(client, kind, tool, **arguments)


@pytest.mark.parametrize("way", ["exec", "native"])
@pytest.mark.parametrize("kind", SERVERS)
async def test_it_is_asked_before_a_tool_runs(able, kind, way):
    ann, client = able
    ann.decided.clear()
    with anyio.fail_after(50):
        ann.decision = "once"
        assert said(await run(client, kind, way, "steps", count=1)) == "stepped"
        assert len(ann.decided) == 1
        assert f"Server: {kind}\nTool: steps\n" in ann.decided[0]
        for ann.decision in ("no", "decline"):
            result = await run(client, kind, way, "steps", count=1)
            assert result.is_error
            assert "said no" in result.content[0].text
            assert "(code: not_approved, outcome: not_sent)" in result.content[0].text
        assert len(ann.decided) == 3


@pytest.mark.parametrize("kind", SERVERS)
async def test_what_the_server_asks_in_an_approved_call_is_asked_as_ever(able, kind):
    ann, client = able
    ann.decided.clear()
    ann.asked.clear()
    ann.decision = "once"
    with anyio.fail_after(50):
        answers = [ann.answers()[1], ann.answers()[3]]
        assert said(await exec_(client, kind, "ask", questions=[FORM, ROOTS])) == answers
        assert len(ann.decided) == 1
        assert said(await exec_(client, kind, "rounds", count=9)) == [ann.answers()[3]] * 9
        assert len(ann.decided) == 2
        assert len(ann.asked) == 1


async def test_an_answer_for_the_session_holds_where_there_is_one(able, request):
    ann, client = able
    ann.decided.clear()
    ann.decision = "session"
    has_session = request.node.callspec.params["able"] != "http-auto"
    with anyio.fail_after(50):
        for _ in range(2):
            assert said(await exec_(client, "stdio-handshake", "say", level="debug", data="x")) == "said"
    assert len(ann.decided) == (1 if has_session else 2)


@pytest.mark.parametrize("endpoint", gateways.ENDPOINTS)
async def test_a_client_that_declared_nothing_is_told_the_way_out(endpoint, tmp_path):
    ann = Deciding("ann")
    config = gateways.write_config(tmp_path, {"s": entry("both") | RULES}, startup_wait=20)
    async with gateways.open_gateway(endpoint, config, **ann.options(can="roots")) as gateway:
        result = await exec_(gateway.client, "s", "steps", count=1)
    assert result.is_error
    assert "mcpx approve s steps" in result.content[0].text
    assert result.structured_content["code"] == "not_approved"
    assert not ann.decided


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_it_is_asked_through_the_shim(mode, tmp_path):
    house, ann = House(tmp_path), Deciding("ann")
    house.write({"s": entry("both") | RULES}, startup_wait=20)
    try:
        with anyio.fail_after(60):
            async with Client(parameters(house), mode=mode, cache=None, **ann.options()) as client:
                assert said(await exec_(client, "s", "steps", count=1)) == "stepped"
                assert said(await exec_(client, "s", "rounds", count=3)) == [ann.answers()[3]] * 3
                ann.decision = "no"
                assert (await exec_(client, "s", "steps", count=1)).is_error
        assert len(ann.decided) == 3
    finally:
        house.close()


# --- a server of 2026-07-28 that wants input, and a client that brings it unasked


async def ask_at(at: CallSite, caller: FakeCaller, answers: Any = None, **more: Any) -> Any:
    """The result of `ask`, or what is wanted in its place, as a client of 2026-07-28 gets it."""
    context = RequestContext(caller=caller, answers=answers)
    given = msgspec.json.encode({"questions": [ROOTS], **more})
    return await at.hub.calls.run(Exec("s", "ask", given, context), read_tool_result)


def agreed(asked: dict[str, Any]) -> InputAnswers:
    """The answer of a person who has agreed."""
    assert list(asked["inputRequests"]) == [KEY]
    return InputAnswers(msgspec.json.encode({KEY: chosen("once")}), asked["requestState"])


def answered(result: dict[str, Any]) -> Any:
    return msgspec.json.decode(result["content"][0]["text"])["said"]


async def test_input_for_the_server_opens_no_way_around_the_question(tmp_path):
    async with open_call_site(tmp_path, "stdio-modern", **RULES) as at:
        ann = FakeCaller(modern=True)
        asked = await ask_at(at, ann, InputAnswers(b'{"q0":{"roots":[]}}', "s p\u00e4t"))
        assert answered(await ask_at(at, ann, agreed(asked))) == [{"roots": []}]  # with what was brought
        assert at.hub.meter.since_start().total == Count(1, ok=1)  # a question is no end


async def test_the_server_gets_its_own_state_back_once_and_for_the_same_call(tmp_path):
    async with open_call_site(tmp_path, "stdio-modern", **RULES) as at:
        ann, bob = FakeCaller(modern=True), FakeCaller(modern=True)
        wanted = await ask_at(at, ann, agreed(await ask_at(at, ann)))
        assert list(wanted["inputRequests"]) == ["q0"]
        assert wanted["requestState"] != "s p\u00e4t"
        brought = InputAnswers(b'{"q0":{"roots":[]}}', wanted["requestState"])
        agreed(await ask_at(at, bob, brought))
        agreed(await ask_at(at, ann, brought, more=1))
        assert answered(await ask_at(at, ann, brought)) == [{"roots": []}]
        agreed(await ask_at(at, ann, brought))


async def test_a_call_that_is_suspended_for_its_client_is_resumed_unasked(tmp_path):
    async with open_call_site(tmp_path, "stdio-handshake", **RULES) as at:
        ann = FakeCaller(modern=True)
        wanted = await ask_at(at, ann, agreed(await ask_at(at, ann)))
        assert at.in_flight == 1
        brought = InputAnswers(b'{"1":{"roots":[]}}', wanted["requestState"])
        assert answered(await ask_at(at, ann, brought)) == [{"roots": []}]
        assert at.in_flight == 0
        assert at.hub.meter.since_start().total == Count(1, ok=1)
