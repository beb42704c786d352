"""Rows of the hostile table: arguments, schemas and what the router is given."""

from __future__ import annotations

import json
from typing import Any

from tests.faults.hostile import Hostile, HostileFaults
from tests.faults.rows_uncheckable import ONE_NUMBER, TIMES, sent_or_refused, tool

faults = HostileFaults()
ANY = {"type": "object"}
HANGS = {"a": "a" * 40 + "!"}
UNREADABLE = {
    "1e400": b'{"a":1e400}',
    "an integer of 5,000 digits": b'{"a":' + b"9" * 5000 + b"}",
    "900 levels": b'{"a":' + b"[" * 900 + b"]" * 900 + b"}",
    "30,000 levels": b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
}


@faults.row("arguments that cannot be read, over HTTP")
async def unreadable_over_http(on: Hostile) -> None:
    await on.add(s=on.stdio(tools=[tool(ONE_NUMBER)]))
    http = await on.http_client()
    for name, arguments in UNREADABLE.items():
        for _ in range(TIMES):
            answer = await http.exec_raw("s", "t", arguments)
            on.saw(answer.in_words)
            refused = answer.code == "invalid_arguments" or answer.error is not None
            on.check(refused, f"{name}: {answer.in_words}: {answer.text[:200]}")


@faults.row("arguments that cannot be read, from a terminal")
async def unreadable_from_terminal(on: Hostile) -> None:
    """With a name of its own: MCPX remembers of a server that checking its schemas took too long."""
    await on.add(terminal=on.stdio(tools=[tool(ONE_NUMBER)]))
    for name, arguments in UNREADABLE.items():
        line = b'{"mcpx":"exec","server":"terminal","tool":"t","arguments":' + arguments + b"}"
        async with on.client(greeted=False) as client:
            await client.send_bytes(line + b"\n")
            told = json.loads(await client.line())
        on.saw(f"{told.get('code')}, {told.get('outcome')}")
        right = (told.get("code"), told.get("outcome")) == ("invalid_arguments", "not_sent")
        on.check(right, f"{name}: {told}")


@faults.row("10 MB of arguments for a plain schema", memory_mb=160)
async def large_arguments(on: Hostile) -> None:
    schema = {
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"properties": {"n": {"type": "integer"}}}}},
    }
    await on.add(s=on.stdio(tools=[tool(schema)]))
    rows = [{"n": n, "name": f"the name of row {n}", "open": True} for n in range(180_000)]
    async with on.client() as client:
        sent_or_refused(on, await client.exec("s", "t", {"rows": rows}))
        sent_or_refused(on, await client.exec("s", "t", {"rows": [*rows, {"n": "x"}]}))


@faults.row("10 MB of arguments in a string", memory_mb=160)
async def large_text(on: Hostile) -> None:
    await on.add(s=on.stdio(tools=[tool(ANY)]))
    async with on.client() as client:
        sent_or_refused(on, await client.exec("s", "t", json.dumps({"a": "x" * 5_000_000}, indent=1)))
        answer = await client.exec("s", "t", json.dumps({"a": "x" * 10_000_000}))
        on.failed(answer, "invalid_arguments", "not_sent", "the object itself")


@faults.row("arguments that fit nothing, with names and values of 2 MB")
async def large_mistakes(on: Hostile) -> None:
    closed = {"type": "object", "properties": {"a": {"enum": ["x"]}}, "additionalProperties": False}
    await on.add(s=on.stdio(tools=[tool(closed)]))
    async with on.client() as client:
        for given in ({"a": "y" * 2_000_000}, {"z" * 2_000_000: 1}, {f"n{n}": 1 for n in range(50_000)}):
            sent_or_refused(on, await client.exec("s", "t", given))


@faults.row("20 tools whose checks do not end, called at once")
async def many_endless(on: Hostile) -> None:
    endless = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a|a)+$"}}}
    tools = [tool({**endless, "title": str(n)}, f"t{n}") for n in range(20)]
    honest = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^x"}}}
    await on.add(s=on.stdio(tools=tools), honest=on.stdio("honest", tools=[tool(honest)]))
    async with on.client() as client:
        ids = [
            await client.ask(
                "tools/call",
                {"name": "exec", "arguments": {"server_name": "s", "tool_name": f"t{n}", "arguments": HANGS}},
            )
            for n in range(20)
        ]
        on.answered(await client.exec("honest", "t", {"a": "x"}), "t by")
        for each in ids:
            on.answered(await client.answer(each), "by")
        told = await client.tool("inspect", server_name="s", tool_name="t0")
        on.check("unchecked" in told.text, f"inspect does not say that it is unchecked: {told.text[:300]}")


@faults.row("schemas of a hundred thousand values, and of 3 MB")
async def large_schemas(on: Hostile) -> None:
    schemas: list[Any] = [
        {"type": "object", "properties": {"a": {"enum": [f"v{n}" for n in range(100_000)]}}},
        {"type": "object", "properties": {"a": {"anyOf": [{"minLength": n} for n in range(20_000)]}}},
        {"type": "object", "properties": {"a": {"description": "x" * 3_000_000, "pattern": "^x"}}},
    ]
    for n, schema in enumerate(schemas):
        await on.add(s=on.stdio(f"s{n}", tools=[tool(schema), tool(ANY, "other")]))
        async with on.client() as client:
            answer = await client.exec("s", "t", {"a": "y"})
            on.saw(answer.in_words)
            fine = {"the answer", "invalid_arguments, not_sent", "unknown_tool, not_sent"}
            on.check(answer.in_words in fine, f"{answer.in_words}: {answer.text[:200]}")
            on.answered(await client.exec("s", "other"), "other by")


@faults.row("a process that checks arguments is killed over and over")
async def killed_checkers(on: Hostile) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^x"}}}
    deep = {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"pattern": "^x"}}}
    await on.add(s=on.stdio(tools=[tool(schema), tool(deep, "deep")]))
    nested: Any = {"b": "y"}
    for _ in range(900):
        nested = {"a": nested}
    async with on.client() as client:
        for _ in range(TIMES):
            on.failed(await client.exec("s", "t", {"a": "y"}), "invalid_arguments", "not_sent", "$.a")
            sent_or_refused(on, await client.exec_raw("s", "deep", json.dumps(nested).encode()))
