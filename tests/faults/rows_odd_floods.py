"""Rows of the hostile table: clients that flood."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, suppress
from typing import Any

import anyio

from tests.faults.hostile import Hostile, HostileFaults
from tests.faults.hostile_client import HELLO, exec_line
from tests.faults.rows_odd_clients import EVERYTHING, LISTED, META, ended

faults = HostileFaults()


async def unread(on: Hostile, line: bytes, times: int) -> None:
    """So many requests, numbered, by a client that never reads."""
    async with on.client() as client:
        with suppress(ConnectionError):
            for first in range(0, times, 1000):
                numbered = b"".join(line % (1000 + first + n) for n in range(1000))
                if not await client.send_bytes(numbered, within_s=2.0):
                    break
        on.saw("nothing: it does not read")
        await anyio.sleep(1.0)  # what it has sent is worked off


UNREAD: dict[str, bytes] = {
    "pings": b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n',
    "tools/list": b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n',
    "calls": b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"exec","arguments":{"server_name":"neighbour","tool_name":"none"}}}\n',
    "inspects": b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"inspect","arguments":{}}}\n',
    "requests that cannot be read": b'{"jsonrpc":"2.0","id":%d,"method":5}\n',
    "subscriptions": b'{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"x:1"}}\n',
}  # fmt: skip


def _unread_row(what: str, line: bytes) -> None:
    @faults.row(f"20,000 {what} by a client that never reads", memory_mb=104, log_lines=200, in_suite=False)
    async def unread_flood(on: Hostile) -> None:
        await unread(on, line, 20_000)


for _what, _line in UNREAD.items():
    _unread_row(_what, _line)


@faults.row(
    "40,000 notifications, answers and cancellations that mean nothing",
    in_suite=False,
    memory_mb=64,
    log_lines=200,
)
async def meaningless(on: Hostile) -> None:
    await on.add(s=on.stdio())
    lines = [b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}\n',
             b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{"n":%d}}\n',
             b'{"jsonrpc":"2.0","method":"notifications/initialized","params":{"n":%d}}\n',
             b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}\n',
             b'{"jsonrpc":"2.0","id":%d,"result":{}}\n', b'{"jsonrpc":"2.0","id":%d,"error":5}\n',
             b'{"jsonrpc":"2.0","method":"notifications/unknown/%d"}\n', b"rubbish %d\n"]  # fmt: skip
    async with on.client(capabilities={"roots": {"listChanged": True}}) as client:
        for line in lines:
            for first in range(0, 5000, 1000):
                await client.send_bytes(b"".join(line % (first + n) for n in range(1000)))
        on.answered(await client.exec("s", "echo"), "echo by")


@faults.row("cancellations of the requests of others, and of odd ids")
async def foreign_cancellations(on: Hostile) -> None:
    code = """
        import time
        def on_tools_call(request_id, params):
            if params["name"] == "slow":
                time.sleep(1.0)
            say(request_id, params["name"] + " by")
        server.tools = [{"name": n, "inputSchema": {"type": "object"}} for n in ("slow", "echo")]
    """
    await on.add(s=on.stdio(code=code))
    async with on.client() as victim, on.client() as attacker:
        await victim.send_bytes(exec_line(77, "s", "slow"))
        odd = [77, "77", None, {}, [], 1.5, True, -1, 10**30, "x" * 1_000_000]
        for request_id in odd:
            await attacker.send("notifications/cancelled", {"requestId": request_id, "reason": 5})
            if request_id not in (77, "77"):
                await victim.send("notifications/cancelled", {"requestId": request_id})
        on.answered(await victim.answer(77), "slow by")


@faults.row("one id for 1,000 requests at once", memory_mb=48)
async def one_id(on: Hostile) -> None:
    await on.add(s=on.stdio(answers=LISTED, capabilities=EVERYTHING))
    async with on.client() as client:
        await client.send_bytes(exec_line(5, "s", "echo") * 1000)
        for method in ("ping", "tools/list", "resources/list"):
            for _ in range(100):
                await client.send(method, {}, id=5)
        on.answered(await client.exec("s", "echo"), "echo by")


@faults.row("5,000 subscriptions of one client", memory_mb=96, log_lines=200, in_suite=False)
async def many_subscriptions(on: Hostile) -> None:
    code = """
        def on_resources_subscribe(request_id, params):
            reply(request_id, {})
    """
    many = {"resources/list": {"resources": [{"uri": f"x:{n}", "name": f"x{n}"} for n in range(4000)]}}
    await on.add(s=on.stdio(code=code, answers=many, capabilities=EVERYTHING))
    async with on.client() as client:
        for n in range(5000):
            await client.send("resources/subscribe", {"uri": f"mcpx://s/x:{n % 4000}"}, id=1000 + n)
        for n in range(5000):
            await client.answer(1000 + n)
        on.saw("each is answered")


@faults.row("200 unknown names at once, beside 4,000 that are listed", in_suite=False)
async def unknown_names(on: Hostile) -> None:
    many = {"resources/list": {"resources": [{"uri": f"x:{n}", "name": f"x{n}"} for n in range(4000)]}}
    tools = [{"name": f"tool_{n}", "inputSchema": {"type": "object"}} for n in range(4000)]
    await on.add(s=on.stdio(tools=tools, answers=many, capabilities=EVERYTHING))
    async with on.client() as client:
        for n in range(200):
            await client.send("resources/read", {"uri": f"mcpx://s/x%3A{n}x:{n}"}, id=1000 + n)
        for n in range(200):
            await client.send_bytes(exec_line(2000 + n, "s", f"tool_{n}_"))
        for n in range(200):
            on.refused(await client.answer(1000 + n), -32002)
            on.failed(await client.answer(2000 + n), "unknown_tool", "not_sent")


@faults.row("1,000 streams of updates of one client", in_suite=False, memory_mb=96, log_lines=200)
async def many_streams(on: Hostile) -> None:
    await on.add(s=on.stdio(answers=LISTED, capabilities=EVERYTHING))
    async with on.client(greeted=False) as modern:
        for n in range(1000):
            wanted = {"toolsListChanged": True, "resourceSubscriptions": [f"x:{n}"] * 10}
            params = {"notifications": wanted, "_meta": META}
            await modern.send("subscriptions/listen", params, id=n)
        await modern.send("tools/list", {"_meta": META}, id=5000)
        on.check(await ended(modern, 5000), "tools/list beside 1,000 streams was not answered")
        on.saw("each is answered")


@faults.row(
    "1,000 silent connections to the socket, and 500 half lines", in_suite=False, memory_mb=64, log_lines=2500
)
async def silent_on_socket(on: Hostile) -> None:
    await on.add(s=on.stdio())
    path = str(on.mcpx.place.socket)
    async with AsyncExitStack() as stack:
        for n in range(1000):
            stream = await stack.enter_async_context(await anyio.connect_unix(path))
            if n % 2:
                with suppress(anyio.BrokenResourceError):
                    await stream.send([b'{"mcpx"', b'{"jsonrpc":"2.0"', b"{", b"\n"][n % 8 // 2])
        on.check("servers" in await on.control("status"), "status is not answered")
        told = await on.control("restart", server="s")
        on.check(told.get("restarted") == "s", f"the server is not restarted: {told}")
        async with on.client() as client:
            on.answered(await client.exec("s", "echo"), "echo by")


@faults.row(
    "control requests of odd types, and 20 of 15 MB without an end",
    in_suite=False,
    memory_mb=400,
    log_lines=300,
)
async def odd_control(on: Hostile) -> None:
    await on.add(s=on.stdio())
    path = str(on.mcpx.place.socket)
    odd: list[Any] = [5, None, [], {}, "x" * 100_000, "\x1b"]
    lines = [json.dumps({"mcpx": what, key: value}, separators=(",", ":")).encode()
             for what in ("restart", "inspect", "exec", "resources", "status", "nothing")
             for key in ("server", "tool", "uri", "arguments", "server_name", "tool_name", "timeout") for value in odd]  # fmt: skip
    lines += [b'{"mcpx":5}', b'{"mcpx":[]}', b'{"mcpx"', b'{"mcpx":"exec","arguments":{"a":1e400}}',
              b'{"mcpx":"exec","server":"s","tool":"echo","arguments":' + b"[" * 5000 + b"]" * 5000 + b"}"]  # fmt: skip
    for line in lines:
        async with await anyio.connect_unix(path) as stream:
            await stream.send(line + b"\n")
            with anyio.move_on_after(7.0) as scope, suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await stream.receive()
            on.check(not scope.cancelled_caught, f"control request {line[:80]!r} was not answered")
    async with AsyncExitStack() as stack:
        for _ in range(20):
            stream = await stack.enter_async_context(await anyio.connect_unix(path))
            with anyio.move_on_after(2.0), suppress(anyio.BrokenResourceError):
                await stream.send(b'{"mcpx":"exec","arguments":"' + b"x" * 15_000_000)
        on.check("servers" in await on.control("status"), "status is not answered")
    on.saw("each is answered")


@faults.row("2,000 connections to the socket that come and go", in_suite=False, memory_mb=32, log_lines=5000)
async def fleeting(on: Hostile) -> None:
    path = str(on.mcpx.place.socket)
    for n in range(2000):
        async with await anyio.connect_unix(path) as stream:
            if n % 3:
                with suppress(anyio.BrokenResourceError):
                    await stream.send(
                        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n'[: n % 60]
                    )
    on.saw("nothing: they are gone")


@faults.row("a call with 60 MB of arguments", in_suite=False, memory_mb=500)
async def large_arguments(on: Hostile) -> None:
    await on.add(s=on.stdio(code="def on_tools_call(i, p): say(i, 'echo by')"))
    async with on.client() as client:
        for arguments in (b'{"a":"' + b"x" * 60_000_000 + b'"}', b'{"a":[' + b"[[1]]," * 5_000_000 + b"1]}"):
            on.saw((await client.exec_raw("s", "echo", arguments, within_s=30.0)).in_words)


HTTP_BODIES: list[bytes] = [
    b"", b"5", b"null", b"[]", b"{}", b"[" * 100_000 + b"]" * 100_000, b'{"jsonrpc":"2.0","id":1,"method":"ping"' , b"\xff\xfe",
    b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}', b'{"jsonrpc":"2.0","id":[],"method":"ping"}', b"[" + b'{"jsonrpc":"2.0","id":1,"method":"ping"},' * 10_000 + b"5]",
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":{"server_name":"s","tool_name":"echo","arguments":{"a":1e400}}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":{"server_name":"s","tool_name":"echo","arguments":{"a":' + b"9" * 5000 + b"}}}}",
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":{"server_name":"s","tool_name":"echo","arguments":{"a":' + b"[" * 900 + b"]" * 900 + b"}}}}",
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":{"server_name":"s","tool_name":"echo","arguments":{"a":"\\ud800"}}}}',
    b'{"jsonrpc":"2.0","id":"' + b"x" * 1_000_000 + b'","method":"ping"}',
]  # fmt: skip


@faults.row("HTTP: bodies that are no requests", in_suite=False, memory_mb=64, log_lines=100)
async def odd_bodies(on: Hostile) -> None:
    await on.add(
        s=on.stdio(tools=[{"name": "echo", "inputSchema": {"type": "object", "properties": {"b": {}}}}])
    )
    client = await on.http_client()
    for body in HTTP_BODIES:
        for _ in range(4):
            stream = await client.open_raw(body)
            with anyio.move_on_after(7.0) as scope, suppress(anyio.EndOfStream):
                await stream.receive()
            await stream.aclose()
            on.check(not scope.cancelled_caught, f"{body[:80]!r} was not answered")
    on.answered(await client.exec("s", "echo"), "echo by")


@faults.row("HTTP: 500 sessions, and 200 streams that nobody reads", in_suite=False, memory_mb=96)
async def many_sessions(on: Hostile) -> None:
    await on.add(s=on.stdio())
    async with AsyncExitStack() as stack:
        for n in range(500):
            client = await on.http_client(greeted=False)
            await client.request("initialize", HELLO)
            if n < 200:
                await stack.enter_async_context(await client.open(None, method="GET"))
        on.check("servers" in await on.control("status"), "status is not answered")
    http = await on.http_client()
    on.answered(await http.exec("s", "echo"), "echo by")
