"""Rows of the hostile table: clients that do not read, and a server that floods them with questions."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, suppress

from tests.faults.hostile import Hostile, HostileFaults
from tests.faults.hostile_client import Client, HttpClient, exec_line

faults = HostileFaults()
UNSENT_MB = 64  # with which a client that does not read is disconnected
SLACK_MB = 40  # copies, pieces, the allocator's moods
HELD_MB = UNSENT_MB + SLACK_MB
KEPT_MB = 64  # of results over their budget, for the client to read the rest
LOGS = {"tools": {}, "logging": {}}
LOGGER = """
    def on_logging_setLevel(request_id, params):
        reply(request_id, {})

    def on_tools_call(request_id, params):
        if params["name"] != "flood":
            return say(request_id, "echo by")
        line = json.dumps({
            "jsonrpc": "2.0",
            "method": "notifications/message",
            "params": {"level": "error", "data": "x" * 10_000},
        }).encode() + b"\\n"
        for _ in range(300):
            write(line * 100)
        note("flooded")
        say(request_id, "flooded")

    server.tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "flood", "large")]
"""  # 300 MB of log messages
LARGE = """
    def on_tools_call(request_id, params):
        say(request_id, "x" * (1_000_000 if params["name"] == "large" else 1))
        note(params["name"])

    server.tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "large")]
"""


def call(request_id: int, tool: str) -> dict[str, object]:
    asked = {"server_name": "s", "tool_name": tool, "arguments": {}}
    params = {"name": "exec", "arguments": asked}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


FLOOD_S = 20.0  # for 300 MB to come through
NOTHING = "nothing: it does not read"


@faults.row(
    "socket: a client that does not read, and 300 MB of log messages", in_suite=False, memory_mb=HELD_MB
)
async def unread_logs(on: Hostile) -> None:
    await on.add(s=on.stdio(code=LOGGER, capabilities=LOGS, entry={"call_timeout": 30.0}))
    async with on.client() as deaf:
        await unread_flood(on, deaf)
    async with on.client() as other:
        on.answered(await other.exec("s", "echo", within_s=30.0), "echo by")


@faults.row(
    "stdio: a client that does not read, and 300 MB of log messages", in_suite=False, memory_mb=HELD_MB
)
async def unread_logs_on_stdio(on: Hostile) -> None:
    server = on.stdio(code=LOGGER, capabilities=LOGS, entry={"call_timeout": 30.0})
    async with on.serving(s=server) as (deaf, _pid):
        await deaf.exec("s", "echo")
        await unread_flood(on, deaf)


async def unread_flood(on: Hostile, deaf: Client) -> None:
    await deaf.request("logging/setLevel", {"level": "debug"})
    await deaf.send_bytes(exec_line(100, "s", "flood"))
    on.check(
        await on.noted("flooded", within_s=FLOOD_S), "the server is held up by a client that does not read"
    )
    on.saw(NOTHING)


@faults.row(
    "HTTP: a client that does not read, and 300 MB of log messages", in_suite=False, memory_mb=HELD_MB
)
async def unread_logs_on_http(on: Hostile) -> None:
    await on.add(s=on.stdio(code=LOGGER, capabilities=LOGS, entry={"call_timeout": 30.0}))
    client = await on.http_client()
    await client.request("logging/setLevel", {"level": "debug"})
    async with await client.open(call(100, "flood")):
        held_up = not await on.noted("flooded", within_s=FLOOD_S)
        on.check(not held_up, "the server is held up by a client that does not read")
        on.saw(NOTHING)


@faults.row("socket: 600 calls of 1 MB whose answers nobody reads", memory_mb=HELD_MB + KEPT_MB)
async def unread_answers(on: Hostile) -> None:
    await on.add(s=on.stdio(code=LARGE))
    async with on.client() as deaf:
        await unread_calls(on, deaf)


@faults.row(
    "stdio: 600 calls of 1 MB whose answers nobody reads", in_suite=False, memory_mb=HELD_MB + KEPT_MB
)
async def unread_answers_on_stdio(on: Hostile) -> None:
    async with on.serving(may_leave=True, s=on.stdio(code=LARGE)) as (deaf, _pid):
        await deaf.exec("s", "echo")
        await unread_calls(on, deaf)


async def unread_calls(on: Hostile, deaf: Client) -> None:
    """In bursts that the server's queue takes, until MCPX does not read any more."""
    with suppress(ConnectionError):
        for first in range(100, 700, 100):
            lines = b"".join(exec_line(first + n, "s", "large") for n in range(100))
            if not await deaf.send_bytes(lines, within_s=1.0):
                break
            await on.quiet()
    on.saw(NOTHING)


@faults.row(
    "HTTP: 20 calls of 20 MB whose answers nobody reads", in_suite=False, memory_mb=20 * 20 + SLACK_MB
)
async def unread_answers_on_http(on: Hostile) -> None:
    code = LARGE.replace("1_000_000", "20_000_000")
    await on.add(s=on.stdio(code=code))
    client: HttpClient = await on.http_client()
    async with AsyncExitStack() as stack:
        for request_id in range(100, 120):
            await stack.enter_async_context(await client.open(call(request_id, "large")))
        await on.quiet()
        on.saw(NOTHING)


@faults.row("a server that asks 20,000 times at once", in_suite=False, memory_mb=48)
async def flood_of_questions(on: Hostile) -> None:
    params = {"messages": [{"role": "user", "content": {"type": "text", "text": "x" * 1000}}], "maxTokens": 1}
    code = f"""
        asked = json.loads({json.dumps(json.dumps(params))})
        refused = [0]
        def on_response(message):
            refused[0] += "error" in message
            if refused[0] % 1000 == 1:
                note(json.dumps(message)[:300])
        def on_tools_call(request_id, params):
            if params["name"] == "ask":
                for _ in range(20_000):
                    ask("sampling/createMessage", asked)
            say(request_id, f"{{params['name']}} by")
        server.tools = [{{"name": n, "inputSchema": {{"type": "object"}}}} for n in ("ask", "echo")]
    """
    await on.add(s=on.stdio(code=code))
    async with on.client(capabilities={"sampling": {}}) as client:
        on.answered(await client.exec("s", "ask", within_s=30.0), "ask by")
        on.check(len(client.questions) <= 64, f"the client got {len(client.questions)} questions at once")
        on.answered(await client.exec("s", "echo"), "echo by")
