"""Rows of the hostile table: odd and hostile clients."""

from __future__ import annotations

import json
from typing import Any

from tests.faults.hostile import Hostile, HostileFaults
from tests.faults.hostile_client import HELLO, Client

faults = HostileFaults()
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "odd", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
EVERYTHING = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "logging": {}, "completions": {}}
LISTED = {"resources/list": {"resources": [{"uri": "x:1", "name": "x"}]}}


async def ended(client: Client, request_id: Any, within_s: float = 5.0) -> bool:
    """Whether the request was answered at all."""
    try:
        await client.answer(request_id, within_s=within_s)
    except TimeoutError:
        return False
    return True


HELLOS: list[Any] = [
    {}, 5, [], None, {**HELLO, "protocolVersion": 5}, {**HELLO, "protocolVersion": "x" * 100_000}, {**HELLO, "clientInfo": 5},
    {**HELLO, "capabilities": 5}, {**HELLO, "capabilities": []}, {**HELLO, "capabilities": {"sampling": 5, "roots": "x"}},
    {**HELLO, "capabilities": {"elicitation": [], "experimental": 5}}, {**HELLO, "clientInfo": {"name": 5, "version": {}}},
    {**HELLO, "clientInfo": {"name": "n\x1b[31m\u202e" * 100_000, "version": "\n" * 1000}}, {**HELLO, "_meta": 5},
    {**HELLO, "capabilities": {"experimental": {"x": ["y"] * 1_000_000}}}, {**HELLO, "junk": "x" * 10_000_000},
]  # fmt: skip


@faults.row("clients that shake hands oddly, and twice", in_suite=False, memory_mb=200, log_lines=150)
async def odd_hellos(on: Hostile) -> None:
    await on.add(s=on.stdio())
    for hello in HELLOS:
        async with on.client(greeted=False) as client:
            for n, params in ((1, hello), (2, HELLO), (3, hello), (4, HELLO)):
                await client.send("initialize", params, id=n)
                on.check(await ended(client, n), f"initialize with {str(hello)[:80]} was not answered")
            await client.send("notifications/initialized")
            await client.send("tools/list", id=5)
            on.check(await ended(client, 5), f"tools/list after {str(hello)[:80]} was not answered")
    async with on.client(greeted=False) as client:
        for n, method in enumerate(
            ("tools/list", "tools/call", "resources/read", "ping", "logging/setLevel")
        ):
            await client.send(method, {}, id=n)
            on.check(await ended(client, n), f"{method} before initialize was not answered")
    on.saw("each is answered")


METAS: list[Any] = [
    5, [], "x", None, {"progressToken": {}}, {"progressToken": []}, {"progressToken": 1.5}, {"progressToken": None},
    {"progressToken": "x" * 1_000_000}, {"progressToken": True}, {"progressToken": -1}, {"progressToken": 10**30},
    {**META, "io.modelcontextprotocol/protocolVersion": 5}, {**META, "io.modelcontextprotocol/clientInfo": 5},
    {**META, "io.modelcontextprotocol/clientCapabilities": 5}, {"io.modelcontextprotocol/logLevel": 5},
    {**META, "io.modelcontextprotocol/clientCapabilities": {"sampling": 5}}, {**META, "io.modelcontextprotocol/logLevel": "loud"},
    {"traceparent": 5, "x": {"y": [1] * 100_000}}, {"io.modelcontextprotocol/related-task": 5}, {"x" * 1_000_000: 1},
]  # fmt: skip


async def odd_metas(on: Hostile, base: dict[str, Any] | None) -> None:
    await on.add(s=on.stdio(answers=LISTED, capabilities=EVERYTHING))
    async with on.client(greeted=base is None) as client:
        request_id = 100
        for meta in METAS:
            whole = {**base, **meta} if base is not None and isinstance(meta, dict) else meta
            for method, params in (
                ("tools/call", {"name": "exec", "arguments": {"server_name": "s", "tool_name": "echo"}}),
                ("tools/call", {"name": "resources", "arguments": {"server_name": "s", "uri": "x:1"}}),
                ("tools/list", {}),
                ("resources/list", {}),
            ):
                request_id += 1
                await client.send(method, {**params, "_meta": whole}, id=request_id)
                done = await ended(client, request_id)
                on.check(done, f"{method} with _meta {str(meta)[:80]} was not answered")
        on.saw("each is answered")


@faults.row("_meta and progress tokens of odd types", memory_mb=96, log_lines=200)
async def older_metas(on: Hostile) -> None:
    await odd_metas(on, None)


@faults.row("_meta of odd types in 2026-07-28", memory_mb=96, log_lines=200)
async def newer_metas(on: Hostile) -> None:
    await odd_metas(on, META)


@faults.row("tools/call with members of odd types", log_lines=200)
async def odd_calls(on: Hostile) -> None:
    await on.add(s=on.stdio())
    odd: list[Any] = [5, None, [], {}, "x" * 1_000_000, "\x1b[31m\u202e", True, 1.5, "", [[[]]]]
    async with on.client() as client:
        request_id = 100
        good = {"server_name": "s", "tool_name": "echo", "arguments": {}}
        for name, asked in (
            *(("exec", {**good, key: value}) for key in good for value in odd),
            *(("inspect", {key: value}) for key in ("server_name", "tool_name") for value in odd),
            *(("inspect", {"server_name": "s", "tool_name": value}) for value in odd),
            *(("resources", {"server_name": "s", "uri": value}) for value in odd),
            *((value, {}) for value in odd),
            *(("exec", value) for value in odd),
            ("exec", {**good, "junk": 5}),
        ):
            request_id += 1
            await client.send("tools/call", {"name": name, "arguments": asked}, id=request_id)
            done = await ended(client, request_id)
            on.check(done, f"{str(name)[:50]} with {str(asked)[:120]} was not answered")
        on.saw("each is answered")


@faults.row("names of 10 MB that are asked for", in_suite=False, memory_mb=300, log_lines=200)
async def long_names(on: Hostile) -> None:
    tools = [{"name": f"{'a1Ba1B' * 10}{n}", "inputSchema": {"type": "object"}} for n in range(2000)]
    await on.add(s=on.stdio(tools=tools, answers=LISTED, capabilities=EVERYTHING))
    long = "a1Ba1B" * 1_600_000
    async with on.client() as client:
        for tool, asked in (
            ("exec", {"server_name": "s", "tool_name": long}), ("exec", {"server_name": long, "tool_name": "x"}),
            ("inspect", {"server_name": long}), ("inspect", {"server_name": "s", "tool_name": long}),
            ("resources", {"server_name": "s", "uri": long}), ("resources", {"server_name": long, "uri": "x"}),
            (long, {}),
        ):  # fmt: skip
            answer = await client.tool(tool, **asked)
            on.saw(answer.in_words)
            size = len(json.dumps(answer.message))
            on.check(size < 100_000, f"{tool[:20]}: an answer of {size} characters")
        for method, params in (
            ("resources/read", {"uri": long}), ("resources/subscribe", {"uri": long}), (long, {}),
            ("prompts/get", {"name": long}), ("logging/setLevel", {"level": long}), ("tools/list", {"cursor": long}),
            ("completion/complete", {"ref": {"type": "ref/resource", "uri": long}, "argument": {"name": "a", "value": "b"}}),
        ):  # fmt: skip
            answer = await client.request(method, params)
            size = len(json.dumps(answer.message))
            on.check(size < 100_000, f"{method[:20]}: an answer of {size} characters")
