"""Rows of the hostile table: schemas, with arguments that try them."""

from __future__ import annotations

from typing import Any

from tests.faults.hostile import Hostile, HostileFaults

faults = HostileFaults()
FINE = {"the answer", "invalid_arguments, not_sent", "unknown_tool, not_sent"}
TIMES = 4


async def all_end(on: Hostile, cases: dict[str, tuple[Any, Any]], *, times: int = TIMES) -> None:
    """Each call is answered, refused as wrong, or its tool was left out; and a good tool works to the end."""
    tools = [{"name": f"t{n}", "inputSchema": schema} for n, (schema, _) in enumerate(cases.values())]
    await on.add(s=on.stdio(tools=[*tools, {"name": "good", "inputSchema": {"type": "object"}}]))
    async with on.client() as client:
        for n, (name, (_, arguments)) in enumerate(cases.items()):
            for _ in range(times):
                answer = await client.exec("s", f"t{n}", arguments)
                on.saw(answer.in_words)
                on.check(answer.in_words in FINE, f"{name}: {answer.in_words}: {answer.text[:200]}")
                on.check(len(answer.text) < 20_000, f"{name}: an answer of {len(answer.text)} characters")
            inspected = await client.tool("inspect", server_name="s", tool_name=f"t{n}")
            told = inspected.in_words
            on.check(told in FINE, f"inspect of {name}: {told}: {inspected.text[:200]}")
        on.answered(await client.exec("s", "good"), "good by")


def given(schema: Any, value: Any = 1) -> tuple[Any, Any]:
    """A schema for the one property `a`, and a value for it."""
    return {"type": "object", "properties": {"a": schema}}, {"a": value}


ODD_KEYWORDS: dict[str, tuple[Any, Any]] = {
    f"{keyword}: {value!r}": given({keyword: value}, tried)
    for keyword, value, tried in [
        ("type", 5, 1), ("type", ["x"], 1), ("type", [], 1), ("type", {}, 1), ("type", [["a"]], 1),
        ("properties", [], {}), ("properties", {"a": 5}, {"a": 1}), ("properties", {"a": None}, {"a": 1}),
        ("required", 5, {}), ("required", "a", {}), ("required", [None], {}), ("required", [5], {}),
        ("additionalProperties", 5, {"b": 1}), ("additionalProperties", "x", {"b": 1}),
        ("patternProperties", {"(": {}}, {"b": 1}), ("patternProperties", [], {"b": 1}),
        ("pattern", "(", "x"), ("pattern", 5, "x"), ("pattern", "(?P<a>x)(?P=a)", "xx"), ("pattern", "\\p{L}", "x"),
        ("pattern", "a{1,1000000000}", "x"), ("pattern", "x" * 100_000, "x"), ("pattern", "(?<!a*)b", "b"),
        ("format", 5, "x"), ("format", "regex", "("), ("format", "date-time", "x"), ("format", [], "x"),
        ("minLength", "x", "x"), ("maxLength", -1, "x"), ("minLength", 10**30, "x"), ("minItems", None, [1]),
        ("minimum", "x", 1), ("maximum", None, 1), ("exclusiveMinimum", True, 1), ("minimum", [], 1),
        ("multipleOf", 0, 1), ("multipleOf", 1e-300, 1e308), ("multipleOf", "x", 1), ("multipleOf", -1, 1),
        ("multipleOf", 0.0001, 1e308), ("enum", {"a": 1}, 1), ("enum", [], 1), ("enum", "abc", "a"),
        ("items", 5, [1]), ("items", [5], [1]), ("prefixItems", {}, [1]), ("prefixItems", 5, [1]),
        ("contains", 5, [1]), ("minContains", "x", [1]), ("uniqueItems", "yes", [1, 1]),
        ("allOf", {}, 1), ("allOf", [], 1), ("anyOf", [5], 1), ("oneOf", "x", 1), ("not", 5, 1), ("if", 5, 1),
        ("dependentRequired", 5, {"a": 1}), ("dependentRequired", {"a": 5}, {"a": 1}),
        ("dependentSchemas", {"a": 5}, {"a": 1}), ("dependencies", {"a": [5]}, {"a": 1}),
        ("propertyNames", 5, {"a": 1}), ("unevaluatedProperties", 5, {"a": 1}), ("unevaluatedItems", 5, [1]),
        ("$ref", "", 1), ("$ref", "#/%", 1), ("$ref", "#/$defs/~5", 1), ("$ref", "http://[", 1), ("$ref", None, 1),
        ("$ref", "http://127.0.0.1:9/x", 1), ("$ref", "file:///etc/passwd", 1), ("$ref", "x" * 100_000, 1),
        ("$dynamicRef", "#", 1), ("$dynamicRef", 5, 1), ("$recursiveRef", "#", 1), ("$anchor", 5, 1),
        ("$id", 5, 1), ("$id", "http://[", 1), ("$id", "#x", 1), ("$schema", 5, 1), ("$schema", "http://[", 1),
        ("$schema", "urn:unknown", 1), ("$defs", 5, 1), ("definitions", [], 1), ("$vocabulary", 5, 1),
        ("description", 5, 1), ("title", [], 1), ("default", {}, 1), ("examples", 5, 1), ("$comment", 5, 1),
        ("const", {"a": [1e308]}, 1), ("nullable", "x", None), ("discriminator", 5, 1), ("readOnly", [], 1),
    ]
}  # fmt: skip


@faults.row("a hundred keywords with odd values", in_suite=False, log_lines=250)
async def odd_keywords(on: Hostile) -> None:
    await all_end(on, ODD_KEYWORDS, times=1)


@faults.row("schemas that refer to themselves in other ways", in_suite=False)
async def other_cycles(on: Hostile) -> None:
    newest = "https://json-schema.org/draft/2020-12/schema"
    cases: dict[str, tuple[Any, Any]] = {
        "$dynamicRef": ({"$schema": newest, "type": "object", "$dynamicAnchor": "x", "$dynamicRef": "#x"}, {"a": 1}),
        "$recursiveRef": (
            {"$schema": "https://json-schema.org/draft/2019-09/schema", "type": "object", "$recursiveRef": "#"},
            {"a": 1},
        ),
        "not": given({"$ref": "#/$defs/a"})[0] | {"$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}},
        "if": {"type": "object", "if": {"$ref": "#"}},
        "anyOf": {"type": "object", "anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        "propertyNames": {"type": "object", "propertyNames": {"$ref": "#/$defs/a"}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
        "dependentSchemas": {"type": "object", "dependentSchemas": {"a": {"$ref": "#"}}},
        "unevaluatedProperties": {"type": "object", "unevaluatedProperties": {"$ref": "#/$defs/a"}, "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}},
        "$id": {"$id": "http://x/y", "type": "object", "$ref": "http://x/y"},
        "$anchor": {"type": "object", "$anchor": "a", "$ref": "#a"},
    }  # fmt: skip
    whole = {name: case if isinstance(case, tuple) else (case, {"a": 1}) for name, case in cases.items()}
    await all_end(on, whole)


def doubling(keyword: str, levels: int = 30) -> tuple[Any, Any]:
    """A schema of which each level asks for the next one twice."""
    defs: dict[str, Any] = {f"A{n}": {keyword: [{"$ref": f"#/$defs/A{n + 1}"}] * 2} for n in range(levels)}
    defs[f"A{levels}"] = {"type": "number"}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/A0"}}, "$defs": defs}, {"a": "x"}


@faults.row("schemas that double in other ways")
async def other_doublings(on: Hostile) -> None:
    tree: dict[str, Any] = {
        f"A{n}": {"properties": {"l": {"$ref": f"#/$defs/A{n + 1}"}}, "if": {"$ref": f"#/$defs/A{n + 1}"}, "else": {"$ref": f"#/$defs/A{n + 1}"}}
        for n in range(30)
    }  # fmt: skip
    tree["A30"] = {"type": "number"}
    cases = {
        "anyOf": doubling("anyOf"),
        "oneOf": doubling("oneOf"),
        "if and else": ({"type": "object", "properties": {"a": {"$ref": "#/$defs/A0"}}, "$defs": tree}, {"a": "x"}),
    }  # fmt: skip
    await all_end(on, cases, times=2)


@faults.row("schemas and arguments that are merely large", in_suite=False, memory_mb=160)
async def large_schemas(on: Hostile) -> None:
    objects = [{"n": n, "x": [n, {"y": n}]} for n in range(20_000)]
    cases = {
        "enum of 20,000 objects": given({"enum": objects}, {"n": -1}),
        "oneOf of 5,000": given({"oneOf": [{"properties": {f"p{n}": {"const": n}}} for n in range(5000)]}, {"p1": 2}),
        "anyOf of 5,000 patterns": given({"anyOf": [{"pattern": f"^(a|b|ab)*{n}$"} for n in range(5000)]}, "ab" * 30),
        "an array of 200,000": given({"type": "array", "items": {"type": "object", "required": ["a"]}}, [{}] * 200_000),
        "200,000 unknown names": (
            {"type": "object", "additionalProperties": False},
            {f"name{n}": n for n in range(200_000)},
        ),
        "required of 50,000": ({"type": "object", "required": [f"name{n}" for n in range(50_000)]}, {}),
        "contains over 100,000": given({"contains": {"type": "object"}, "minContains": 5}, [1] * 100_000),
        "uniqueItems of 50,000 lists": given({"uniqueItems": True}, [[n] for n in range(50_000)]),
        "a text of 1 MB against a pattern": given({"pattern": "^(.*a.*b.*c.*)$"}, "a" * 1_000_000),
        "const of 1 MB": given({"const": objects[:10_000]}, objects[:9_999]),
    }  # fmt: skip
    await all_end(on, cases, times=1)


@faults.row("arguments in a string that cannot be read", in_suite=False)
async def arguments_in_a_string(on: Hostile) -> None:
    tree = {"type": "object", "properties": {"items": {"type": "array", "items": {"$ref": "#"}}}}
    await on.add(s=on.stdio(tools=[{"name": "t", "inputSchema": tree}]))
    strings = ['{"a": 1e400}', "9" * 5000, "[" * 5000 + "]" * 5000, '{"a":' * 990 + "1" + "}" * 990, '{"a": "\\ud800"}',
               '{"items":[' * 300 + "]}" * 300, "NaN", '{"a": NaN}', "{" * 100_000]  # fmt: skip
    async with on.client() as client:
        for string in strings:
            for _ in range(TIMES):
                answer = await client.exec("s", "t", string)
                on.saw(answer.in_words)
                on.check(answer.in_words in FINE, f"{string[:30]}: {answer.in_words}: {answer.text[:200]}")
