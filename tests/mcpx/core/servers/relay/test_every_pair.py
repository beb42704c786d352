"""Questions, log messages and progress, through every endpoint, in both eras, from servers of both.

The clients and the servers are built on the SDK; between them stands MCPX as a real process.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from mcp import Client

from tests.live import gateways
from tests.mcpx.core.servers.relay.answering import (
    EVERY,
    FORM,
    OF_BOTH_ERAS,
    ROOTS,
    SERVERS,
    AnsweringClient,
    asking_server,
    exec_,
    said,
    set_level,
)

pytestmark = pytest.mark.anyio
KINDS = SERVERS + OF_BOTH_ERAS


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """For fixtures of the module, too."""
    return "asyncio"


@pytest.fixture(scope="module")
async def entries() -> AsyncIterator[dict[str, Any]]:
    """All of them, by kind."""
    async with AsyncExitStack() as running:
        yield {kind: await running.enter_async_context(asking_server(kind)) for kind in KINDS}


@pytest.fixture(scope="module", params=gateways.ENDPOINTS)
def endpoint(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def connected(
    endpoint: str, entries: dict[str, Any], folder: Path, **options: Any
) -> AsyncIterator[tuple[AnsweringClient, Client]]:
    """Ann at that endpoint of an MCPX with all servers."""
    ann = AnsweringClient("ann")
    config = gateways.write_config(folder, entries, startup_wait=20, expose="both")
    async with gateways.open_gateway(endpoint, config, **ann.options(**options)) as gateway:
        yield ann, gateway.client


@pytest.fixture(scope="module")
async def able(
    endpoint: str, entries: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[AnsweringClient, Client]]:
    """Ann, who can be asked everything and wants log messages."""
    level = {"level": "info"} if endpoint.endswith("auto") else {}
    async with connected(endpoint, entries, tmp_path_factory.mktemp(endpoint), **level) as (ann, client):
        if not level:
            await set_level(client, "info")
        yield ann, client


@pytest.fixture(scope="module")
async def unable(
    endpoint: str, entries: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[AnsweringClient, Client]]:
    """Ann, who has declared nothing."""
    async with connected(endpoint, entries, tmp_path_factory.mktemp(endpoint), can="") as there:
        yield there


@pytest.mark.parametrize("kind", KINDS)
async def test_a_client_is_asked_and_told_what_is_its_own(able, kind):
    ann, client = able
    ann.asked.clear()
    ann.logged.clear()
    with anyio.fail_after(50):
        # all at once, one by one, and over again
        assert said(await exec_(client, kind, "ask", questions=list(EVERY))) == ann.answers()
        sample, form, url = (question["params"] for question in EVERY[:3])
        form = form | {"message": f"{kind} asks:\n\nWhich?"}
        url = url | {"message": f"{kind} asks:\n\nGo\n\nThe link opens example.com."}
        asked = [sample, form, url]
        assert [_without_mode(each) for each in ann.asked] == [_without_mode(each) for each in asked]
        for question, answer in zip(EVERY, ann.answers(), strict=True):
            assert said(await exec_(client, kind, "ask", questions=[question])) == [answer]
        assert said(await exec_(client, kind, "rounds", count=4)) == [ann.answers()[3]] * 4

        # the same natively
        assert said(await client.call_tool(f"{kind}__ask", {"questions": list(EVERY)})) == ann.answers()
        assert said(await client.call_tool(f"{kind}__rounds", {"count": 2})) == [ann.answers()[3]] * 2

        notified: list[Any] = []

        async def step(progress: float, total: float | None, message: str | None) -> None:
            notified.append((progress, total, message))

        call = {"server_name": kind, "tool_name": "steps", "arguments": {"count": 5}}
        assert said(await client.call_tool("exec", call, progress_callback=step)) == "stepped"
        called = await client.call_tool(f"{kind}__steps", {"count": 5}, progress_callback=step)
        assert said(called) == "stepped"
        assert notified == [(n + 1, 5, f"step {n + 1}") for n in range(5)] * 2

        assert said(await exec_(client, kind, "say", level="debug", data="not wanted")) == "said"
        data = {"deep": [1, None, "ü"]}
        assert said(await exec_(client, kind, "say", level="warning", data=data, logger="db")) == "said"
        assert said(await exec_(client, kind, "say", level="info", data="plain")) == "said"
        assert await ann.wait_for_logs(2) == [
            {"level": "warning", "logger": f"{kind}/db", "data": data},
            {"level": "info", "logger": kind, "data": "plain"},
        ]


@pytest.mark.parametrize("kind", KINDS)
async def test_it_is_asked_in_prompts_and_reads_too(able, kind):
    ann, client = able
    ann.asked.clear()
    questions = json.dumps([FORM, ROOTS])
    answers = [ann.answers()[1], ann.answers()[3]]
    with anyio.fail_after(50):
        prompt = await client.get_prompt(f"{kind}.ask", {"questions": questions})
        assert json.loads(prompt.messages[0].content.text)["said"] == answers
        read = await client.read_resource(f"mcpx://{kind}/ask:///{quote(questions, safe='')}")
        assert json.loads(read.contents[0].text)["said"] == answers
        assert len(ann.asked) == 2


HOSTILE = [
    {"mode": "url", "message": "Go", "url": "javascript:alert(1)", "elicitationId": "e"},
    FORM["params"] | {"message": "May this tool be run?\n\nServer: git"},
]


@pytest.mark.parametrize("kind", KINDS)
async def test_nobody_is_asked_in_the_words_of_mcpx_or_given_an_unsafe_link(able, kind):
    ann, client = able
    ann.asked.clear()
    with anyio.fail_after(50):
        for params in HOSTILE:
            question = {"method": "elicitation/create", "params": params}
            for result in (
                await exec_(client, kind, "ask", questions=[question]),
                await client.call_tool(f"{kind}__ask", {"questions": [question]}),
            ):
                assert "MCPX does not pass this question on" in result.content[0].text
    assert ann.asked == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_client_that_declared_nothing_is_asked_nothing(unable, kind):
    ann, client = unable
    with anyio.fail_after(50):
        for question in EVERY:
            result = await exec_(client, kind, "ask", questions=[question])
            if result.is_error:  # a 2026-07-28 server cannot be told: the call itself fails
                assert "modern" in kind or "http" in kind
                assert result.structured_content["outcome"] == "failed"
                assert result.structured_content["client"]["code"] == -32601
                reason = result.content[0].text
            else:
                (refusal,) = said(result)
                assert refusal["code"] == -32601
                reason = refusal["message"]
            assert "did not declare" in reason
        assert said(await exec_(client, kind, "say", level="emergency", data="x")) == "said"
        assert (ann.asked, ann.logged) == ([], [])


def _without_mode(params: dict[str, Any]) -> dict[str, Any]:
    """Form is what an absent mode means; the SDK's model adds it. `elicitationId` is of one era only."""
    left_out = {"elicitationId"} | ({"mode"} if params.get("mode") == "form" else set())
    return {key: value for key, value in params.items() if key not in left_out}
