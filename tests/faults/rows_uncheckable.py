"""Rows of the hostile table: arguments and schemas that cannot be read, or not be checked in time."""

from __future__ import annotations

import json
from typing import Any

from tests.faults.hostile import Hostile, HostileFaults
from tests.faults.hostile_client import Answer

faults = HostileFaults()
TIMES = 4  # in a row: one more than the restarts that a supervisor allows in a minute
ONE_NUMBER = {"type": "object", "properties": {"a": {"type": "number"}}}
TREE = {"type": "object", "properties": {"items": {"type": "array", "items": {"$ref": "#"}}}}


def tool(schema: Any, name: str = "t") -> dict[str, Any]:
    """A tool as it is listed."""
    return {"name": name, "inputSchema": schema}


def nested(levels: int, key: str = "anyOf") -> Any:
    """A schema so many levels deep."""
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"properties": {"a": schema}} if key == "properties" else {key: [schema]}
    return {"type": "object", **schema}


@faults.row("nothing out of the ordinary")
async def ordinary(on: Hostile) -> None:
    await on.add(s=on.stdio())
    async with on.client() as client:
        on.answered(await client.exec("s", "echo"), "echo by")
    http = await on.http_client()
    on.answered(await http.exec("s", "echo"), "echo by")


# --- D1: what a client sends


async def unreadable(on: Hostile, arguments: bytes, schema: Any = ONE_NUMBER) -> None:
    """Arguments that cannot be read or checked; the tool beside them is called in between."""
    await on.add(s=on.stdio(tools=[tool(schema), tool({"type": "object"}, "other")]))
    async with on.client() as client:
        for _ in range(TIMES):
            answer = await client.exec_raw("s", "t", arguments)
            on.failed(answer, "invalid_arguments", "not_sent")
        await_answer = await client.exec("s", "other")
        on.check(await_answer.text.startswith("other by"), f"the other tool: {await_answer.text[:200]}")


@faults.row("arguments with the number 1e400")
async def huge_number(on: Hostile) -> None:
    await unreadable(on, b'{"a": 1e400}')


@faults.row("arguments with an integer of 5,000 digits")
async def long_integer(on: Hostile) -> None:
    await unreadable(on, b'{"a": ' + b"9" * 5000 + b"}")


@faults.row("arguments 1,000 levels deep")
async def deep_arguments(on: Hostile) -> None:
    await unreadable(on, b'{"a":' * 1000 + b"1" + b"}" * 1000)


@faults.row("arguments 100,000 levels deep")
async def very_deep_arguments(on: Hostile) -> None:
    await unreadable(on, b'{"a":' * 100_000 + b"1" + b"}" * 100_000)


@faults.row("the number 1e400 for a server that has not listed yet")
async def huge_number_at_start(on: Hostile) -> None:
    await on.add(s=on.stdio(tools=[tool(ONE_NUMBER)], code="import time; time.sleep(0.5)"), settled=False)
    async with on.client() as client:
        for _ in range(TIMES):
            answer = await client.exec_raw("s", "t", b'{"a": 1e400}')
            on.failed(answer, "invalid_arguments", "not_sent")


@faults.row("arguments 300 levels deep for an honest recursive schema")
async def deep_tree(on: Hostile) -> None:
    await on.add(s=on.stdio(tools=[tool(TREE)]))
    arguments = b'{"items":[' * 300 + b"]}" * 300
    async with on.client() as client:
        for _ in range(TIMES):
            sent_or_refused(on, await client.exec_raw("s", "t", arguments))


def sent_or_refused(on: Hostile, answer: Answer) -> None:
    """What cannot be checked in time goes out unchecked; or MCPX knows that it is wrong."""
    on.saw(answer.in_words)
    fine = {"the answer", "invalid_arguments, not_sent"}
    on.check(answer.in_words in fine, f"neither sent nor refused: {answer.in_words}: {answer.text[:200]}")
    on.check(len(answer.text) < 20_000, f"an answer of {len(answer.text)} characters")


# --- D1: what a server lists and answers

ODD_SCHEMAS: dict[str, Any] = {
    "a $ref to itself": {"type": "object", "$ref": "#"},
    "two $defs that name each other": {
        "type": "object",
        "$ref": "#/$defs/a",
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    },
    "draft-3 extends of itself": {
        "$schema": "http://json-schema.org/draft-03/schema#",
        "type": "object",
        "extends": {"$ref": "#"},
    },
    "enum of a number": {"type": "object", "properties": {"a": {"enum": 5}}},
    "enum of null": {"type": "object", "properties": {"a": {"enum": None}}},
    "required of a list": {"type": "object", "required": [["x"]]},
    "$schema of a list": {"$schema": [], "type": "object", "properties": {"a": {"minimum": 0}}},
    "$ref into a list": {"type": "object", "properties": {"a": {"$ref": "#/x/zz"}}, "x": [1]},
    "$ref into a text": {"type": "object", "properties": {"a": {"$ref": "#/x/zz"}}, "x": "text"},
    "$ref to a number": {"type": "object", "properties": {"a": {"$ref": "#/x"}}, "x": 5},
    "$ref to a list": {"type": "object", "properties": {"a": {"$ref": "#/x"}}, "x": [1]},
    "draft-3 required": {
        "$schema": "http://json-schema.org/draft-03/schema#",
        "type": "object",
        "properties": {"a": {"type": "number", "required": True}},
    },
    "$ref of a number": {"type": "object", "properties": {"a": {"$ref": 5}}},
    "anyOf of 100 levels": nested(100),
    "properties of 120 levels": nested(120, "properties"),
    "anyOf of 300 levels": nested(300),
}


async def odd_schemas(on: Hostile, chosen: list[str]) -> None:
    """Every one of them may go unchecked or be left out; a good tool on the same server works."""
    tools = [tool(ODD_SCHEMAS[name], f"t{n}") for n, name in enumerate(chosen)]
    await on.add(s=on.stdio(tools=[*tools, tool(ONE_NUMBER, "good")]))
    async with on.client() as client:
        for n, name in enumerate(chosen):
            for _ in range(TIMES):
                answer = await client.exec("s", f"t{n}", {"a": 1})
                on.saw(answer.in_words)
                right = answer.in_words in {"the answer", "unknown_tool, not_sent"}
                right = right or (name.startswith("anyOf") and answer.code == "invalid_arguments")
                on.check(right, f"{name}: {answer.in_words}: {answer.text[:200]}")
        on.answered(await client.exec("s", "good", {"a": 1}), "good by")
        on.failed(await client.exec("s", "good", {"a": "x"}), "invalid_arguments", "not_sent")


@faults.row("schemas that refer to themselves")
async def own_references(on: Hostile) -> None:
    await odd_schemas(on, list(ODD_SCHEMAS)[:3])


@faults.row("schemas whose keywords have odd values")
async def odd_values(on: Hostile) -> None:
    await odd_schemas(on, list(ODD_SCHEMAS)[3:13])


@faults.row("schemas of 100 to 300 levels")
async def deep_schemas(on: Hostile) -> None:
    await odd_schemas(on, list(ODD_SCHEMAS)[13:])


@faults.row("answers that ask for input in odd types")
async def odd_input_required(on: Hostile) -> None:
    results: list[Any] = [
        {"resultType": "input_required", "requestState": 5},
        {"resultType": "input_required", "requestState": {"a": []}},
        {"resultType": "input_required", "inputRequests": 5},
        {"resultType": "input_required", "inputRequests": {"a": 5}},
        {"resultType": "input_required", "inputRequests": {"a": {"method": 5, "params": []}}},
        {"resultType": 5, "content": []},
    ]
    code = f"""
        results = json.loads({json.dumps(json.dumps(results))})
        def on_tools_call(request_id, params):
            reply(request_id, results[params["arguments"]["n"]])
    """
    for modern in (True, False):
        await on.add(s=on.stdio(f"modern-{modern}", code=code, modern=modern))
        async with on.client() as client:
            for n in range(len(results)):
                for _ in range(TIMES):
                    answer = await client.exec("s", "echo", {"n": n})
                    on.saw(answer.in_words)
                    on.check(answer.error is None, f"{results[n]}: {answer.in_words}: {answer.text[:200]}")
                    on.check(answer.outcome != "not_sent", f"{results[n]}: was sent: {answer.text[:200]}")


# --- D2: schemas that take for ever


async def slow_check(on: Hostile, schema: Any, arguments: Any) -> None:
    await on.add(s=on.stdio(tools=[tool(schema)]))
    async with on.client() as client:
        for _ in range(TIMES):
            sent_or_refused(on, await client.exec("s", "t", arguments))


@faults.row("a pattern that backtracks for ever")
async def backtracking(on: Hostile) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+$"}}}
    await slow_check(on, schema, {"a": "a" * 40 + "!"})


@faults.row("patternProperties that backtrack for ever")
async def backtracking_names(on: Hostile) -> None:
    await slow_check(on, {"type": "object", "patternProperties": {"^(a|aa)+$": {}}}, {"a" * 60 + "!": 1})


@faults.row("allOf that doubles 26 times")
async def doubling(on: Hostile) -> None:
    defs: dict[str, Any] = {f"A{n}": {"allOf": [{"$ref": f"#/$defs/A{n + 1}"}] * 2} for n in range(26)}
    schema = {
        "type": "object",
        "allOf": [{"$ref": "#/$defs/A0"}],
        "$defs": {**defs, "A26": {"minProperties": 0}},
    }
    await slow_check(on, schema, {"a": 1})


@faults.row("uniqueItems over 3,000 objects")
async def many_unique(on: Hostile) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    await slow_check(on, schema, {"a": [{"n": n, "x": {"y": [n]}} for n in range(3000)]})


@faults.row("5,000 names that are nearly the one given")
async def many_names(on: Hostile) -> None:
    names = {f"{'a_long_name_of_a_property_' * 3}{n:05}": {} for n in range(5000)}
    given = {"a_long_name_of_a_property_" * 3 + "x0001": 1}
    await slow_check(on, {"type": "object", "properties": names, "additionalProperties": False}, given)


# --- D3: templates that take for ever


@faults.row("resource templates that backtrack for ever")
async def backtracking_template(on: Hostile) -> None:
    uris = ["{a}{b}{c}{d}{e}{f}{g}z", "x{a}{b}{c}{d}{e}{f}{g}z", "{+a}{+b}{+c}{+d}{+e}{+f}{+g}!"]
    templates = [{"uriTemplate": uri, "name": f"n{n}"} for n, uri in enumerate(uris)]
    lists = {
        "resources/list": {"resources": []},
        "resources/templates/list": {"resourceTemplates": templates},
    }
    await on.add(s=on.stdio(answers=lists))
    async with on.client() as client:
        for uri in ("https://example.org/" + "a" * 100, "x" * 100):
            for server in ("s", "neighbour"):
                answer = await client.tool("resources", server_name=server, uri=uri)
                on.saw(answer.in_words)
            native = await client.request("resources/read", {"uri": uri})
            on.saw(native.in_words)
        ref = {"type": "ref/resource", "uri": "{a}{b}{c}{d}{e}{f}{g}z"}
        asked = {"ref": ref, "argument": {"name": "a", "value": "x"}}
        on.saw((await client.request("completion/complete", asked)).in_words)
