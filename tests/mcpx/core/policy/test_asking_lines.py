"""Asking, line by line: batches, cancelled calls, projections, and the command line, which cannot ask."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcpx.core.wire.batch import BATCH_REVISION
from tests.mcpx.core.gateway.frontends.test_batches import call, client_of, ping, send, text
from tests.mcpx.core.policy.agreeing import said
from tests.mcpx.scripted import Ears, entry
from tests.mcpx.serving import LEGACY, PATIENCE_S, Served, run_cli, write_config

pytestmark = pytest.mark.anyio
RULES = {"tools": {"ask": ["*"]}}


@asynccontextmanager
async def open_client(endpoint: str, folder: Any, ears: Ears, version: str = LEGACY) -> Any:
    """A raw client that can be asked."""
    async with client_of(endpoint, folder, {"s": entry(ears, settings=RULES)}) as client:
        capabilities = {"elicitation": {}}
        info = {"name": "test", "version": "1"}
        await client.request(
            "initialize", {"protocolVersion": version, "capabilities": capabilities, "clientInfo": info}
        )
        await client.send("notifications/initialized")
        await client.request("tools/list")
        yield client


async def heard(client: Served, method: str, count: int = 1) -> list[dict[str, Any]]:
    """The requests or notifications of that kind, once there are so many."""
    with anyio.fail_after(PATIENCE_S):
        while len(found := [each for each in client.notifications if each["method"] == method]) < count:
            client._take(await client._line())
    return found


async def decide(client: Served, question: dict[str, Any], decision: str) -> None:
    answer = {"jsonrpc": "2.0", "id": question["id"], "result": said(decision)}
    await client.send_bytes(json.dumps(answer).encode() + b"\n")


@pytest.mark.parametrize("endpoint", ["serve", "attach"])
async def test_each_call_of_a_batch_is_asked_about(endpoint, tmp_path, ears):
    async with open_client(endpoint, tmp_path, ears, BATCH_REVISION) as client:
        await send(client, call(71, "echo", text="one"), ping(72), call(73, "echo", text="two"))
        questions = await heard(client, "elicitation/create", 2)
        for question in questions:
            agrees = '"text": "one"' in question["params"]["message"]
            await decide(client, question, "once" if agrees else "no")
        answers = {each["id"]: each for each in await client.array()}
        assert text(answers[71]) == "one"
        assert answers[72]["result"] == {}
        assert "said no" in text(answers[73])
        assert len(ears.of("call")) == 1


@pytest.mark.parametrize("endpoint", ["serve", "attach"])
async def test_a_cancelled_call_takes_its_question_along(endpoint, tmp_path, ears):
    async with open_client(endpoint, tmp_path, ears) as client:
        params = {"name": "exec", "arguments": {"server_name": "s", "tool_name": "count"}}
        request_id = await client.ask("tools/call", params)
        (question,) = await heard(client, "elicitation/create")
        await client.send("notifications/cancelled", {"requestId": request_id})
        (withdrawn,) = await heard(client, "notifications/cancelled")
        assert withdrawn["params"]["requestId"] == question["id"]
        await decide(client, question, "once")
        assert await client.request("ping") == {}
        assert not ears.of("call")


async def test_a_projected_result_is_asked_for_too(tmp_path, ears):
    async with open_client("serve", tmp_path, ears) as client:
        arguments = {"server_name": "s", "tool_name": "echo", "arguments": {"text": "hi"}, "select": "@"}
        request_id = await client.ask("tools/call", {"name": "exec", "arguments": arguments})
        (question,) = await heard(client, "elicitation/create")
        assert not ears.of("call")
        await decide(client, question, "once")
        assert "result" in await client.answer(request_id)
        assert len(ears.of("call")) == 1


def test_the_command_line_says_how_to_allow_it(tmp_path, ears):
    config = write_config(tmp_path, {"s": entry(ears, settings=RULES)})
    done = run_cli(tmp_path, "exec", "s", "echo", "text=hi", "--config", config)
    assert done.returncode != 0
    assert "mcpx approve s echo" in done.stdout + done.stderr
    assert not ears.of("call")
