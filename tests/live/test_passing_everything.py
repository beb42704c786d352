"""server-everything asks, reports and logs: the same as directly, at every endpoint, in both eras.

What is compared, field by field: what the client was asked, the result of the tool that asked, each step of
progress, each log message. The differences that are allowed, and why:

* `logger` begins with the server's name: a client of MCPX hears many servers, and must know which one spoke.
* `elicitationId` is not in a question to a client of 2026-07-28: that revision has none. MCPX speak it to
  each other, so over a chain (`scripts/chain`) an older client gets another id.
* The tool's own result may come as TOON where that is shorter (`carried`), as everywhere.
* The JSON-RPC error -32042 (an elicitation is needed first) comes as a result of `exec` with `isError`, like
  every error of a tool; code, message and data are in its `structuredContent`, unaltered.
* A client that set no log level gets no messages; directly, a server may send what it likes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import ElicitRequestParams, ElicitResult

from tests.live import chained, gateways, servers
from tests.live.carried import assert_carried
from tests.mcpx.core.servers.relay.answering import AnsweringClient, set_level

pytestmark = [pytest.mark.live, pytest.mark.anyio]

URL = {"url": "https://example.com/login", "message": "Log in there", "elicitationId": "fixed-id"}
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("trigger-sampling-request", {"prompt": "how many are there?", "maxTokens": 17}),
    ("trigger-elicitation-request", {}),
    ("trigger-url-elicitation", URL),
    ("get-roots-list", {}),
)


class Visitor(AnsweringClient):
    """A person who answers an elicitation as it is told: accept, decline or cancel."""

    action = "accept"

    def __init__(self) -> None:
        super().__init__("visitor")

    async def elicit(self, _ctx: Any, params: ElicitRequestParams) -> ElicitResult:
        self._note(params)
        content = {"name": "Ann", "integer": 7, "check": True} if self.action == "accept" else None
        return ElicitResult(action=self.action, content=None if params.mode == "url" else content)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """For fixtures of the module, too."""
    return "asyncio"


@pytest.fixture(scope="module", params=gateways.ENDPOINTS)
def endpoint(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> servers.LiveServer:
    return servers.require(servers.live_server("everything", tmp_path_factory.mktemp("everything")))


@asynccontextmanager
async def directly(server: servers.LiveServer, **options: Any) -> AsyncIterator[Client]:
    command = StdioServerParameters(command=server.command, args=server.args, env=server.env)
    async with Client(command, read_timeout_seconds=gateways.ANSWER_S, **options) as client:
        yield client


@asynccontextmanager
async def through(
    endpoint: str, server: servers.LiveServer, folder: Path, person: AnsweringClient, level: str | None = None
) -> AsyncIterator[gateways.Gateway]:
    """MCPX in front of it; the client wants log messages from `level` on, as its era says that."""
    config = gateways.write_config(folder, {"everything": server.entry()}, startup_wait=20)
    modern = endpoint.endswith("auto")
    options = person.options(level=level if modern else None)
    async with gateways.open_gateway(endpoint, config, **options) as gateway:
        if level is not None and not modern:
            await set_level(gateway.client, level)
        yield gateway


@pytest.fixture(scope="module")
async def theirs(everything: servers.LiveServer) -> AsyncIterator[tuple[Visitor, Client]]:
    """A person who is connected to the server directly."""
    person = Visitor()
    async with directly(everything, **person.options()) as client:
        yield person, client


@pytest.fixture(scope="module")
async def mine(
    endpoint: str, everything: servers.LiveServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Visitor, gateways.Gateway]]:
    """A person who is connected to it through MCPX, and has set no log level."""
    person = Visitor()
    async with through(endpoint, everything, tmp_path_factory.mktemp(endpoint), person) as gateway:
        yield person, gateway


@pytest.fixture(scope="module")
def known() -> dict[str, Any]:
    """What the server did directly, by what was asked: the same at every endpoint, so it is asked once."""
    return {}


def questions(asked: list[Any], *, modern: bool) -> list[Any]:
    """What was asked, without what an era does not have."""
    left_out = {"elicitationId"} if modern else set()
    return [{key: value for key, value in each.items() if key not in left_out} for each in asked]


def by_the_server(each: Any) -> Any:
    """A question as MCPX puts it: whose it is, and of a link the host."""
    if "message" not in each:
        return each  # sampling
    link = f"\n\nThe link opens {urlsplit(each['url']).hostname}." if "url" in each else ""
    return {**each, "message": f"everything asks:\n\n{each['message']}{link}"}


async def simulated(person: AnsweringClient) -> dict[str, Any]:
    """The first of the messages that the server makes up; it may also tell that it has listed roots."""
    count = 1
    while True:
        for message in await person.wait_for_logs(count):
            if str(message["data"]).endswith("message"):
                return message
        count = len(person.logged) + 1


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_questions_and_what_becomes_of_the_answers(endpoint, action, theirs, mine, known):
    one, direct = theirs
    two, gateway = mine
    one.action = two.action = action
    with anyio.fail_after(55):
        if action not in known:
            one.asked.clear()
            results = [await direct.call_tool(tool, arguments) for tool, arguments in CALLS]
            known[action] = results, list(one.asked)
        results, direct_asked = known[action]
        two.asked.clear()
        through_mcpx = [await gateway.exec("everything", tool, arguments) for tool, arguments in CALLS]
    modern = endpoint.endswith("auto") or chained.HOPS > 0
    for result, expected in zip(through_mcpx, results, strict=True):
        assert not expected.is_error
        assert_carried(result, expected)
    asked = questions(direct_asked, modern=modern)
    assert questions(two.asked, modern=modern) == list(map(by_the_server, asked))
    assert len(asked) == 3


async def test_an_elicitation_that_is_needed_first(theirs, mine, known):
    call = {**URL, "errorPath": True}
    with anyio.fail_after(55):
        if "refusal" not in known:
            with pytest.raises(MCPError) as caught:
                await theirs[1].call_tool("trigger-url-elicitation", call)
            known["refusal"] = caught.value.error
        result = await mine[1].exec("everything", "trigger-url-elicitation", call)
    assert result.is_error
    said, direct_said = result.structured_content["upstream"], known["refusal"]
    assert (said["code"], said["message"]) == (-32042, direct_said.message)
    drop = lambda data: [{**each, "elicitationId": None} for each in data["elicitations"]]  # noqa: E731 - random
    assert drop(said["data"]) == list(map(by_the_server, drop(direct_said.data)))


async def test_each_step_of_a_long_operation(theirs, mine, known):
    call = {"duration": 0.5, "steps": 5}
    told: list[Any] = []

    def listener(steps: list[Any]) -> Any:
        async def step(progress: float, total: float | None, message: str | None) -> None:
            steps.append((progress, total, message))

        return step

    with anyio.fail_after(55):
        if "steps" not in known:
            steps: list[Any] = []
            result = await theirs[1].call_tool(
                "trigger-long-running-operation", call, progress_callback=listener(steps)
            )
            known["steps"] = result, steps
        expected, their_steps = known["steps"]
        named = {"server_name": "everything", "tool_name": "trigger-long-running-operation"}
        result = await mine[1].client.call_tool(
            "exec", {**named, "arguments": call}, progress_callback=listener(told)
        )
    assert_carried(result, expected)
    assert told == their_steps
    assert len(told) == 5


async def test_log_messages_from_the_level_on_that_was_set(endpoint, everything, tmp_path, known):
    """The server's messages are of a random level each; each level has its own words."""
    two = AnsweringClient("two")
    with anyio.fail_after(55):
        if "logged" not in known:
            one = AnsweringClient("one")
            async with directly(everything, mode="legacy", **one.options()) as direct:
                await set_level(direct, "debug")
                await direct.call_tool("toggle-simulated-logging", {})
                known["logged"] = await simulated(one)
        expected = known["logged"]
        async with through(endpoint, everything, tmp_path, two, "debug") as gateway:
            await gateway.exec("everything", "toggle-simulated-logging", {})
            heard = await simulated(two)
    assert heard.keys() == expected.keys() | {"logger"}
    assert heard["logger"] == "everything"
    for message in (heard, expected):
        assert str(message["data"]).lower().startswith(message["level"])


async def test_no_log_messages_where_no_level_was_set(mine):
    person, gateway = mine
    with anyio.fail_after(55):
        await gateway.exec("everything", "toggle-simulated-logging", {})  # it logs before it answers
        await gateway.exec("everything", "echo", {"message": "after it"})
    assert person.logged == []
