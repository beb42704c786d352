"""Questions, log messages and progress, through every door, in both eras, from servers of both.

The clients and the servers are built on the SDK; between them stands MCPX as a real process.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from tests.live import gateways
from tests.mcpx.upstream.relay.answering import (
    EVERY,
    FORM,
    OF_BOTH_ERAS,
    ROOTS,
    SAMPLE,
    SERVERS,
    URL,
    AnsweringClient,
    asking_server,
    exec_,
    said,
    set_level,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(params=gateways.DOORS)
def door(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=SERVERS + OF_BOTH_ERAS)
async def config(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    async with asking_server(request.param) as server:
        yield gateways.write_config(tmp_path, {"s": server}, startup_wait=20)


async def test_a_client_is_asked_and_told_what_is_its_own(door, config):
    ann = AnsweringClient("ann")
    level = {"level": "info"} if door.endswith("auto") else {}
    with anyio.fail_after(50):
        async with gateways.open_gateway(door, config, **ann.options(**level)) as gateway:
            client = gateway.client
            if not level:
                await set_level(client, "info")
            # all at once, one by one, and over again
            assert said(await exec_(client, "s", "ask", questions=list(EVERY))) == ann.answers()
            asked = [question.get("params", {}) for question in EVERY]
            assert [_without_mode(each) for each in ann.asked] == [_without_mode(each) for each in asked]
            for question, answer in zip(EVERY, ann.answers(), strict=True):
                assert said(await exec_(client, "s", "ask", questions=[question])) == [answer]
            assert said(await exec_(client, "s", "rounds", count=4)) == [ann.answers()[3]] * 4

            notified: list[Any] = []

            async def step(progress: float, total: float | None, message: str | None) -> None:
                notified.append((progress, total, message))

            call = {"server_name": "s", "tool_name": "steps", "arguments": {"count": 5}}
            assert said(await client.call_tool("exec", call, progress_callback=step)) == "stepped"
            assert notified == [(n + 1, 5, f"step {n + 1}") for n in range(5)]

            assert said(await exec_(client, "s", "say", level="debug", data="not wanted")) == "said"
            data = {"deep": [1, None, "ü"]}
            assert said(await exec_(client, "s", "say", level="warning", data=data, logger="db")) == "said"
            assert said(await exec_(client, "s", "say", level="info", data="plain")) == "said"
            assert await ann.wait_for_logs(2) == [
                {"level": "warning", "logger": "s/db", "data": data},
                {"level": "info", "logger": "s", "data": "plain"},
            ]


async def test_it_is_asked_in_prompts_and_reads_too(door, config):
    ann = AnsweringClient("ann")
    questions = json.dumps([FORM, ROOTS])
    answers = [ann.answers()[1], ann.answers()[3]]
    with anyio.fail_after(50):
        async with gateways.open_gateway(door, config, **ann.options()) as gateway:
            client = gateway.client
            prompt = await client.get_prompt("s.ask", {"questions": questions})
            assert json.loads(prompt.messages[0].content.text)["said"] == answers
            read = await client.read_resource(f"mcpx://s/ask:///{quote(questions, safe='')}")
            assert json.loads(read.contents[0].text)["said"] == answers
            assert len(ann.asked) == 4


async def test_a_client_that_declared_nothing_is_asked_nothing(door, config):
    ann = AnsweringClient("ann")
    with anyio.fail_after(50):
        async with gateways.open_gateway(door, config, **ann.options(can="")) as gateway:
            modern_server = "modern" in str(config.read_text()) or "url" in str(config.read_text())
            for question, code in ((SAMPLE, -32601), (FORM, -32601), (URL, -32601), (ROOTS, -32601)):
                result = await exec_(gateway.client, "s", "ask", questions=[question])
                if result.is_error:  # a 2026-07-28 server cannot be told: the call itself fails
                    assert modern_server
                    assert result.structured_content["outcome"] == "failed"
                    assert result.structured_content["client"]["code"] == code
                    reason = result.content[0].text
                else:
                    (refusal,) = said(result)
                    assert refusal["code"] == code
                    reason = refusal["message"]
                assert "did not declare" in reason
            assert said(await exec_(gateway.client, "s", "say", level="emergency", data="x")) == "said"
            assert (ann.asked, ann.logged) == ([], [])


def _without_mode(params: dict[str, Any]) -> dict[str, Any]:
    """Form is what an absent mode means; the SDK's model adds it. `elicitationId` is of one era only."""
    left_out = {"elicitationId"} | ({"mode"} if params.get("mode") == "form" else set())
    return {key: value for key, value in params.items() if key not in left_out}
