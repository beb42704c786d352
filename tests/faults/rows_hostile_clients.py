"""Rows of the hostile table: clients that do not read, flood, or stay silent."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress

import anyio
import anyio.streams.stapled
import anyio.to_thread

from tests.faults import traces
from tests.faults.hostile import Hostile, HostileFaults
from tests.faults.hostile_client import Client, exec_line
from tests.faults.hostile_mcpx import Memory

faults = HostileFaults()
MANY = 2000
IN_BRIEF = 1100  # more than a process may have files open
NOTHING = "nothing: it does not read"
CHATTY = """
    def on_logging_setLevel(request_id, params):
        reply(request_id, {})

    def on_tools_call(request_id, params):
        name = params["name"]
        if name == "steps":
            token = params["_meta"]["progressToken"]
            for step in range(200_000):
                notify("notifications/progress", {"progressToken": token, "progress": step})
            note("flooded")
        if name == "logs":
            line = json.dumps({
                "jsonrpc": "2.0",
                "method": "notifications/message",
                "params": {"level": "error", "data": "x" * 100_000},
            }).encode() + b"\\n"
            for _ in range(1500):
                write(line)
            note("flooded")
        say(request_id, f"{name} by")

    server.tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "logs", "steps")]
"""
LOGS = {"tools": {}, "logging": {}}


@asynccontextmanager
async def attached(on: Hostile) -> AsyncIterator[tuple[Client, Memory]]:
    """A client behind a shim, and how the shim's memory grows."""
    command = [sys.executable, "-P", "-m", "mcpx", "attach", "--config", on.mcpx.config]
    environment = {**os.environ, "MCPX_STATE_DIR": str(on.mcpx.state), traces.MARK: on.mark}
    async with await anyio.open_process(command, stderr=None, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            client = Client(anyio.streams.stapled.StapledByteStream(process.stdin, process.stdout))
            await client.hello()
            yield client, Memory(process.pid)
        finally:
            with suppress(ProcessLookupError):
                process.kill()


@faults.row("100,000 requests of a client that reads nothing", memory_mb=48)
async def pipelined(on: Hostile) -> None:
    await on.add(s=on.stdio())
    async with on.client() as deaf:
        many, within_s = (40_000, 3.0) if on.brief else (100_000, 4.0)
        requests = b"".join(exec_line(number, "s", "echo") for number in range(many))
        on.check(not await deaf.send_bytes(requests, within_s=within_s), "all of them were read")
        on.saw(NOTHING)


@faults.row("100,000 tools/list of a client that reads nothing", memory_mb=64)
async def pipelined_lists(on: Hostile) -> None:
    async with on.client() as deaf:
        line = b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n'
        many, within_s = (10_000, 1.5) if on.brief else (100_000, 4.0)
        requests = b"".join(line % number for number in range(many))
        on.check(not await deaf.send_bytes(requests, within_s=within_s), "all of them were read")
        on.saw(NOTHING)


@faults.row("progress that nobody reads", memory_mb=32)
async def unread_progress(on: Hostile) -> None:
    code = CHATTY.replace("200_000", "40_000") if on.brief else CHATTY
    await on.add(s=on.stdio(code=code, capabilities=LOGS, entry={"call_timeout": 30.0}))
    async with on.client() as deaf:
        asked = {"server_name": "s", "tool_name": "steps", "arguments": {}}
        await deaf.ask("tools/call", {"name": "exec", "arguments": asked, "_meta": {"progressToken": "t"}})
        on.check(await on.noted("flooded", within_s=25.0), "the server is held up")
        on.saw(NOTHING)
    dropped = (await on.control("status"))["daemon"].get("dropped", 0)
    on.check(dropped > 1000, f"status says that {dropped} messages were dropped")


@faults.row("a client behind a shim that does not read", memory_mb=48)
async def unread_behind_a_shim(on: Hostile) -> None:
    await on.add(s=on.stdio(code=CHATTY, capabilities=LOGS, entry={"call_timeout": 30.0}))
    async with attached(on) as (deaf, memory):
        await deaf.request("logging/setLevel", {"level": "debug"})
        await deaf.send_bytes(exec_line(100, "s", "logs"))
        on.check(await on.noted("flooded", within_s=25.0), "the server is held up")
        risen = memory.risen_mb()
        on.check(risen < 16, f"the shim's memory rose by {risen:.0f} MB")
        on.answered(await deaf.answer(100), "logs by")


@faults.row("a client behind a shim that sends 200 MB for a server that hangs", memory_mb=240)
async def too_much_for_a_server(on: Hostile) -> None:
    code = """
        import time
        def on_tools_call(request_id, params):
            say(request_id, "deaf by")
            time.sleep(1000)
    """
    await on.add(s=on.stdio(code=code, entry={"queue_timeout": 2.0, "health_check_enabled": False}))
    async with attached(on) as (client, memory):
        on.answered(await client.exec("s", "echo"), "deaf by")
        filler = b'{"x":"%s"}' % (b"x" * (1 << 20))
        many = 120 if on.brief else 200
        for number in range(1000, 1000 + many):
            await client.send_bytes(exec_line(number, "s", "echo", filler))
        answers = [await client.answer(number) for number in range(1000, 1000 + many)]
        refused = [answer for answer in answers if answer.code == "overloaded"]
        on.check(len(refused) > many // 2 - 20, f"{len(refused)} of {many} calls are refused")
        on.failed(refused[0], "overloaded", "not_sent")
        risen = memory.risen_mb()
        on.check(risen < 32, f"the shim's memory rose by {risen:.0f} MB")


async def answers_and_restarts(on: Hostile) -> None:
    """While connections stand that say nothing: control, a restart, and a client."""
    told = await on.control("restart", server="s")
    on.check(told.get("restarted") == "s", f"the server is not restarted: {told}")
    await on.becomes("ready")
    on.check("daemon" in await on.control("status"), "status is not answered")
    async with on.client() as client:
        on.answered(await client.exec("s", "echo"), "echo by")


@asynccontextmanager
async def crowd(on: Hostile, family: int, address: object, said: bytes = b"") -> AsyncIterator[None]:
    """Connections that say that and no more; those that find no place are not waited for."""
    with ExitStack() as stack:

        def connect() -> None:
            for _ in range(IN_BRIEF if on.brief else MANY):
                joined = stack.enter_context(socket.socket(family))
                joined.setblocking(family == socket.AF_UNIX)
                joined.connect_ex(address)
                with suppress(OSError):
                    if said:
                        joined.send(said)

        await anyio.to_thread.run_sync(connect)
        yield


@faults.row("2,000 silent connections to the socket, and a restart", log_lines=50)
async def silent_on_the_socket(on: Hostile) -> None:
    await on.add(s=on.stdio())
    async with crowd(on, socket.AF_UNIX, str(on.mcpx.place.socket)):
        await answers_and_restarts(on)


@faults.row("2,000 halves of a control request, and a restart", log_lines=50)
async def half_said_on_the_socket(on: Hostile) -> None:
    await on.add(s=on.stdio())
    async with crowd(on, socket.AF_UNIX, str(on.mcpx.place.socket), b'{"mcpx": "sta'):
        await answers_and_restarts(on)


@faults.row("2,000 clients that say one byte, and a restart", memory_mb=96, log_lines=5000)
async def one_byte_on_the_socket(on: Hostile) -> None:
    await on.add(s=on.stdio())
    async with crowd(on, socket.AF_UNIX, str(on.mcpx.place.socket), b"{"):
        await answers_and_restarts(on)


@faults.row("2,000 silent connections to the HTTP endpoint, and a restart", log_lines=50)
async def silent_on_http(on: Hostile) -> None:
    await on.add(s=on.stdio())
    port, _token = on.mcpx.http()
    async with crowd(on, socket.AF_INET, ("127.0.0.1", port)):
        await answers_and_restarts(on)
        client = await on.http_client()
        on.answered(await client.exec("s", "echo"), "echo by")


@faults.row("12 bodies of 60 MB that never end", memory_mb=400, log_lines=50)
async def half_bodies(on: Hostile) -> None:
    port, token = on.mcpx.http()
    lines = [
        "POST /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {61 << 20}",
    ]
    client = await on.http_client()
    refused = 0

    async def send() -> None:
        nonlocal refused
        try:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send("\r\n".join([*lines, "", ""]).encode())
                for _ in range(60):
                    await stream.send(b"x" * (1 << 20))
                await anyio.sleep(1.0)
        except (anyio.BrokenResourceError, OSError):
            refused += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(12):
            tasks.start_soon(send)
    on.saw("the connection is closed")
    on.check(refused >= 6, f"{refused} of 12 were refused")
    on.answered(await client.exec("neighbour", "echo"), "echo by")


@faults.row("lines that are no requests, behind a shim", log_lines=50)
async def unreadable_behind_a_shim(on: Hostile) -> None:
    lines = [
        (b'{"jsonrpc":"2.0","id":901,"method":"ping","params":{"a":"\\ud800"}}', 901),
        (b'{"jsonrpc":"2.0","id":902,"method":7}', 902),
        (b'{"jsonrpc":"2.0","id":903,"method":"ping","params":{', None),
        (b'[{"jsonrpc":"2.0","id":904,"method":"ping"}]', None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None),
        (b"\xff\xfe", None),
    ]
    async with attached(on) as (client, _memory):
        for line, request_id in lines:
            await client.send_bytes(line + b"\n")
            answer = await client.answer(request_id)
            on.saw(answer.in_words)
            on.check(answer.error in {-32700, -32600}, f"{line!r} gets {answer.message}")
        on.check((await client.request("ping")).result == {}, "the session is lost")
        on.check(not client.others, f"answered twice: {json.dumps(client.others)}")
