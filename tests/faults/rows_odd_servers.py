"""Rows of the hostile table: odd servers."""

from __future__ import annotations

import json
from typing import Any

import anyio

from tests.faults.hostile import Hostile, HostileFaults
from tests.faults.hostile_client import exec_line

faults = HostileFaults()
PLAIN = {"type": "object"}
EVERYTHING = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "logging": {}, "completions": {}}


def literal(value: Any) -> str:
    """An expression for a value inside a script."""
    return f"json.loads({json.dumps(json.dumps(value))})"


# --- the handshake

ABOUT: list[dict[str, Any]] = [
    {"serverInfo": 5}, {"serverInfo": None}, {"serverInfo": {"name": 5, "version": []}}, {"serverInfo": {}},
    {"serverInfo": {"name": "x" * 1_000_000, "version": "\x1b[31m" * 1000}}, {"instructions": 5},
    {"instructions": ["x"]}, {"instructions": None}, {"capabilities": []}, {"capabilities": 5}, {"capabilities": None},
    {"capabilities": {"tools": True}}, {"capabilities": {"tools": []}}, {"capabilities": {"tools": {}, "resources": "yes"}},
    {"capabilities": {"tools": {}, "logging": 5, "completions": [], "experimental": 5}}, {"protocolVersion": 5},
    {"protocolVersion": None}, {"protocolVersion": "9999-99-99"}, {"protocolVersion": "x" * 1_000_000}, {"_meta": 5},
    {"serverInfo": {"name": "x", "version": "1", "icons": 5, "title": 5, "websiteUrl": 5}},
]  # fmt: skip


@faults.row("handshakes with members of odd types", in_suite=False, log_lines=400)
async def odd_handshakes(on: Hostile) -> None:
    """They are served or parked, and what stands in the message of the one is not in the other's."""
    for modern in (False, True):
        servers = {}
        for n, about in enumerate(ABOUT):
            method = "server_discover" if modern else "initialize"
            good: dict[str, Any] = {
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "x", "version": "1"},
            }
            good |= {"supportedVersions": ["2026-07-28"]} if modern else {"protocolVersion": "2025-11-25"}
            code = f"""
                def on_{method}(request_id, params):
                    reply(request_id, {literal({**good, **about})})
            """
            name = f"s{n}-{modern}"
            servers[name] = on.stdio(name, code=code, modern=modern, entry={"restart": {"park_after": 1}})
        await on.add(**servers)
        async with on.client() as client:
            for name in servers:
                on.saw((await client.exec(name, "echo", within_s=20.0)).in_words)
                told = await client.tool("inspect", server_name=name)
                on.check(len(told.text) < 20_000, f"{name}: inspect shows {len(told.text)} characters")
            shown = json.dumps((await client.request("tools/list")).message)
            on.check(len(shown) < 100_000, f"tools/list has {len(shown)} characters")


@faults.row("instructions of 20 MB", memory_mb=160)
async def long_instructions(on: Hostile) -> None:
    code = """
        def on_initialize(request_id, params):
            about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                     "serverInfo": {"name": "x", "version": "1"}, "instructions": "a b " * 5_000_000}
            reply(request_id, about)
    """
    await on.add(s=on.stdio(code=code))
    async with on.client() as client:
        for _ in range(4):
            told = await client.tool("inspect", server_name="s")
            on.check(len(told.text) < 200_000, f"inspect shows {len(told.text)} characters")
            shown = json.dumps((await client.request("tools/list")).message)
            on.check(len(shown) < 100_000, f"tools/list has {len(shown)} characters")
        on.answered(await client.exec("s", "echo"), "echo by")


# --- what it says unasked

NOTES: list[tuple[str, Any]] = [
    ("notifications/progress", {"progressToken": token, "progress": progress, "total": total, "message": message})
    for token in (1, "x", None, {}, [1], 1.5, True)
    for progress, total, message in ((1, 2, "x"), ("1", "2", 5), (None, None, None), ([], {}, []))
] + [
    ("notifications/message", {"level": 5, "data": 1}), ("notifications/message", {"level": [], "data": 1}),
    ("notifications/message", {"level": "loud", "data": 1}), ("notifications/message", 5),
    ("notifications/message", {"level": "error"}), ("notifications/message", {"level": "error", "data": "x" * 5_000_000}),
    ("notifications/message", {"level": "error", "data": 1, "logger": 5, "_meta": 5}),
    ("notifications/resources/updated", {"uri": 5}), ("notifications/resources/updated", {}),
    ("notifications/resources/updated", {"uri": "x" * 5_000_000}), ("notifications/resources/updated", [1]),
    ("notifications/cancelled", {"requestId": {}}), ("notifications/cancelled", {"requestId": "q1"}),
    ("notifications/cancelled", {"requestId": 1, "reason": 5}), ("notifications/cancelled", None),
    ("notifications/tools/list_changed", 5), ("notifications/tools/list_changed", {"_meta": []}),
    ("notifications/roots/list_changed", {}), ("notifications/initialized", {}), ("notifications/unknown", "x" * 5_000_000),
    ("notifications/elicitation/complete", {"elicitationId": 5}), ("notifications/tasks/status", {"taskId": 5}),
    ("notifications/subscriptions/acknowledged", {"notifications": 5}), ("", {}), ("x" * 5_000_000, {}),
]  # fmt: skip


@faults.row("notifications with params of odd types and sizes", in_suite=False, memory_mb=160, log_lines=200)
async def odd_notifications(on: Hostile) -> None:
    code = f"""
        notes = {literal(NOTES)}
        def on_logging_setLevel(request_id, params):
            reply(request_id, {{}})
        def on_tools_call(request_id, params):
            for method, more in notes:
                token = (params.get("_meta") or {{}}).get("progressToken")
                if method.endswith("progress") and more["progressToken"] == 1:
                    more = {{**more, "progressToken": token}}
                notify(method, more)
            for raw_line in (b'{{"jsonrpc":"2.0","method":5}}', b'{{"jsonrpc":"2.0","method":null,"id":null}}',
                             b'{{"method":"notifications/progress","params":{{"progressToken":1,"progress":1e400}}}}',
                             b'{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"error","data":"\\\\ud800"}}}}',
                             b'{{"jsonrpc":"2.0","method":"x","method":"y"}}'):
                write(raw_line + b"\\n")
            say(request_id, "echo by")
    """
    await on.add(s=on.stdio(code=code, capabilities=EVERYTHING))
    async with on.client() as client:
        await client.request("logging/setLevel", {"level": "debug"})
        for token in (7, "token"):
            asked = {"server_name": "s", "tool_name": "echo", "arguments": {}}
            params = {"name": "exec", "arguments": asked, "_meta": {"progressToken": token}}
            on.answered(await client.request("tools/call", params), "echo by")
    http = await on.http_client()
    on.answered(await http.exec("s", "echo"), "echo by")


FLOODS = {
    "pings that nobody's answers are read of": '{"jsonrpc":"2.0","id":"p%d","method":"ping"}',
    "requests of unknown methods": '{"jsonrpc":"2.0","id":"p%d","method":"who/knows","params":{}}',
    "roots/list": '{"jsonrpc":"2.0","id":"p%d","method":"roots/list"}',
    "progress": '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d}}',
    "updates": '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:%d"}}',
    "cancellations": '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"p%d"}}',
    "answers that nobody waits for": '{"jsonrpc":"2.0","id":"p%d","result":{}}',
    "rubbish": "rubbish %d",
    "elicitations": '{"jsonrpc":"2.0","id":"p%d","method":"elicitation/create","params":{"message":"x","requestedSchema":{"type":"object","properties":{}}}}',
}  # fmt: skip


async def flood(on: Hostile, what: str) -> None:
    """30,000 of them, by a server that does not read meanwhile."""
    code = f"""
        line = {FLOODS[what]!r} + "\\n"
        def on_tools_call(request_id, params):
            if params["name"] == "flood":
                for first in range(0, 30_000, 1000):
                    numbered = [line % n if "%d" in line else line for n in range(first, first + 1000)]
                    write("".join(numbered).encode())
                note("flooded")
            say(request_id, params["name"] + " by")
        server.tools = [{{"name": n, "inputSchema": {{"type": "object"}}}} for n in ("flood", "echo")]
    """
    await on.add(s=on.stdio(code=code, capabilities=EVERYTHING, entry={"call_timeout": 25.0}))
    async with on.client(capabilities={"elicitation": {}, "roots": {}, "sampling": {}}) as client:
        on.saw((await client.exec("s", "flood", within_s=30.0)).in_words)
        on.check(len(client.questions) <= 64, f"the client got {len(client.questions)} questions at once")
        on.saw((await client.exec("s", "echo")).in_words)


def _flood_row(what: str) -> None:
    @faults.row(
        f"30,000 at once: {what}",
        memory_mb=64,
        log_lines=200,
        in_suite=what in {"progress", "rubbish", "elicitations"},
    )
    async def flooded(on: Hostile) -> None:
        await flood(on, what)


for _what in FLOODS:
    _flood_row(_what)


@faults.row("a server that never reads, and 300 calls with 1 MB of arguments", in_suite=False, memory_mb=400)
async def server_never_reads(on: Hostile) -> None:
    code = """
        import time
        def on_tools_call(request_id, params):
            time.sleep(60)
    """
    await on.add(s=on.stdio(code=code, entry={"call_timeout": 1.0, "queue_timeout": 1.0}))
    async with on.client() as client:
        arguments = b'{"a":"' + b"x" * 1_000_000 + b'"}'
        for n in range(300):
            await client.send_bytes(exec_line(1000 + n, "s", "echo", arguments))
        for n in range(300):
            on.saw((await client.answer(1000 + n)).in_words)


@faults.row("200 MB on standard error in one line", in_suite=False, memory_mb=32)
async def long_error_line(on: Hostile) -> None:
    code = """
        def on_tools_call(request_id, params):
            for _ in range(200):
                rest = b"x" * 1_000_000
                while rest:
                    rest = rest[os.write(2, rest):]
            say(request_id, "echo by")
    """
    await on.add(s=on.stdio(code=code, entry={"call_timeout": 20.0}))
    async with on.client() as client:
        on.answered(await client.exec("s", "echo", within_s=20.0), "echo by")


@faults.row("a list of 5,000 tools that changes all the time", in_suite=False, memory_mb=160, log_lines=300)
async def changing_list(on: Hostile) -> None:
    code = """
        import threading, time
        turn = [0]
        def on_tools_list(request_id, params):
            turn[0] += 1
            schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5)}}
            reply(request_id, {"tools": [{"name": f"t{turn[0]}_{n}", "inputSchema": schema} for n in range(5000)]
                                        + [{"name": "echo", "inputSchema": {"type": "object"}}]})
            notify("notifications/tools/list_changed")
    """
    await on.add(s=on.stdio(code=code))
    async with on.client() as client:
        for _ in range(5):
            on.saw((await client.exec("s", "echo")).in_words)
            await client.request("tools/list")
            await anyio.sleep(0.4)  # it changes
