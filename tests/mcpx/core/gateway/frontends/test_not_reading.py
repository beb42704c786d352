"""Clients that do not read what they are sent, and servers that do not: what is kept for them is bounded."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest

from tests.mcpx.scripted import entry
from tests.mcpx.serving import serving, write_config

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]

LETTERS = {"@times": ["x", "@{given.size}"]}
SAID = {"level": "error", "data": LETTERS}
FLOODING = {
    "greeting": {"capabilities": {"tools": {}, "logging": {}}},
    "offers": {"tools": ["big", "chatter", "steps", "deaf", "echo"]},
    "answers": {
        "logging/setLevel": {},
        "tools/call big": [{"say": LETTERS}],
        "tools/call chatter": [
            {"notify": "notifications/message", "params": SAID, "times": "@{given.count}"},
            {"say": "chatter"},
        ],
        "tools/call steps": [{"progress": {"progress": "@{i}"}, "times": "@{given.count}"}, {"say": "steps"}],
        "tools/call deaf": [{"say": "deaf"}, {"deaf": True}],
        "tools/call echo": "echo",
    },
}
MEGABYTE = 1 << 20


def flooding(**settings):
    """A flooding server whose results go out whole."""
    return entry(settings={"result_token_budget": 0, **settings}, **FLOODING)


def memory(pid) -> int:
    """Megabytes that the process holds in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024


def call(number, tool, _meta=None, **arguments) -> bytes:
    given = {"server_name": "s", "tool_name": tool, "arguments": arguments}
    params = {"name": "exec", "arguments": given, **({"_meta": _meta} if _meta else {})}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return json.dumps(message).encode() + b"\n"


@pytest.fixture
def config(tmp_path):
    return write_config(tmp_path, {"s": flooding()}, startup_wait=20)


async def test_log_and_progress_pass_by_a_client_that_does_not_read(tmp_path, config):
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        await mcpx.request("logging/setLevel", {"level": "debug"})
        await mcpx.request("tools/list")
        before = memory(mcpx.process.pid)
        meta = {"progressToken": "t"}
        await mcpx.send_bytes(call("logs", "chatter", size=100_000, count=1500))
        await mcpx.send_bytes(call("steps", "steps", meta, count=30_000))
        await mcpx.logged("client.not_reading")
        assert (await mcpx.answer("logs"))["result"]
        assert (await mcpx.answer("steps"))["result"]
        assert memory(mcpx.process.pid) - before < 60
        assert await mcpx.request("ping") is not None
        await mcpx.close_input()
        await mcpx.logged("client.went_without")
        said = [line for line in mcpx.log if line["event"] == "client.not_reading"]
        assert len(said) == 1


async def test_with_too_much_unread_a_client_is_gone_and_its_calls_are_cancelled(tmp_path, ears):
    config = write_config(tmp_path, {"s": flooding(), "h": entry(ears)}, startup_wait=20)
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        await mcpx.request("tools/list")
        await mcpx.send_bytes(call("hangs", "hang").replace(b'"s"', b'"h"'))
        await ears.hear("call", tool="hang")
        for number in range(300):
            await mcpx.send_bytes(call(number, "big", size=MEGABYTE))
        gone = await mcpx.logged("client.gone")
        assert "30 MB unread" in gone["reason"]
        await ears.hear("cancelled")
        assert await mcpx.exit_code() == 0


async def test_a_client_that_reads_slowly_gets_every_answer(tmp_path, config):
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        await mcpx.request("tools/list")

        async def ask():
            for number in range(40):
                await mcpx.send_bytes(call(f"n{number}", "big", size=MEGABYTE))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            for number in range(40):
                text = (await mcpx.answer(f"n{number}"))["result"]["content"][0]["text"]
                assert len(text) == MEGABYTE


async def test_a_hundred_thousand_requests_of_a_client_that_reads_nothing_are_not_all_taken(tmp_path, config):
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        await mcpx.request("tools/list")
        before = memory(mcpx.process.pid)
        requests = b"".join(call(number, "echo", filler="x" * 100) for number in range(100_000))
        with anyio.move_on_after(5) as scope:
            await mcpx.send_bytes(requests)
        assert scope.cancelled_caught, "it reads on, though nothing is read"
        assert memory(mcpx.process.pid) - before < 60


async def test_calls_wait_for_a_server_that_does_not_read_and_are_bounded(tmp_path):
    limits = {"queue_timeout": 2, "call_timeout": 5, "health_check_enabled": False}
    config = write_config(tmp_path, {"s": flooding(**limits)}, startup_wait=20)
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        await mcpx.request("tools/list")
        await mcpx.call("exec", server_name="s", tool_name="deaf", arguments={})
        before = memory(mcpx.process.pid)
        for number in range(200):
            await mcpx.send_bytes(call(f"n{number}", "echo", filler="x" * MEGABYTE))
        highest = memory(mcpx.process.pid)
        answers = [await mcpx.answer(f"n{number}") for number in range(200)]
        codes = [answer["result"]["structuredContent"]["code"] for answer in answers]
        outcomes = {
            (answer["result"]["structuredContent"]["code"], answer["result"]["structuredContent"]["outcome"])
            for answer in answers
        }
        assert outcomes <= {("overloaded", "not_sent"), ("timeout", "unknown")}
        assert codes.count("overloaded") > 150
        assert max(highest, memory(mcpx.process.pid)) - before < 320
        await mcpx.close_input()
        assert await mcpx.exit_code() == 0  # and the server, which hears nothing any more, is not left behind
