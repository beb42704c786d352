"""The definitions of MCPX's own tools, through the converters that real hosts put before a model.

They come from PyPI and have a virtual environment of their own, in which `converters/convert.py` opens a real
session with `mcpx serve`. What providers refuse is held against their published rules.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.forking.client import command
from tests.live.servers import absent
from tests.mcpx.scripted import entry, entry_of
from tests.mcpx.serving import environment
from tests.tokens import corpus

pytestmark = [pytest.mark.live, pytest.mark.timeout(450)]
HERE = Path(__file__).parent
PYTHON = HERE / ".venv-converters" / "bin" / "python"
TOOL = {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}
READ = TOOL | {"name": "read", "annotations": {"readOnlyHint": True}}
GIVEN = {"text": 'grüße "\\\n'}
CALLS = [
    {"arguments": GIVEN},
    {"arguments": json.dumps(GIVEN)},
    {
        "arguments": json.dumps(GIVEN),
        "select": "",
        "max_tokens": "",
        "fresh": False,
    },  # what a strict schema has a model write
]
NAMES = ["", "claude-code", "gemini-cli-mcp-client", "somebody"]
OPENAI = ["openai-agents, strict", "ensure_strict_json_schema", "langchain, strict"]
STRICT = [*OPENAI, "anthropic, strict", "mistralai, strict"]
AS_THEY_ARE = ["google-genai, JSON schema", "openai-agents", "langchain", "anthropic", "bedrock"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What the converters make of MCPX's own tools, by the names of clients, and of the corpus."""
    absent(None if PYTHON.exists() else "the converters are missing; scripts/test --all installs them")
    folder = tmp_path_factory.mktemp("converters")
    kept = {"cache": {"read": 60}}  # so that exec has `fresh`, too
    own = {"mcpServers": {"s": entry(offers={"tools": [TOOL, READ]}, settings=kept)}}
    script = folder / "script.json"
    script.write_text(json.dumps({"offers": {"tools": corpus_tools()}}))
    native = {"mcpServers": {"s": entry_of(script)}, "expose": "all", "sanitize": "on"}
    calls = [{"server_name": "s", "tool_name": "echo"} | each for each in CALLS]
    jobs = []
    for name, config, names, its_calls in (("own", own, NAMES, calls), ("native", native, [""], [])):
        file = folder / f"{name}.json"
        file.write_text(json.dumps(config))
        mcpx = command("-m", "mcpx", "serve", str(file))
        jobs.append({"names": names, "command": mcpx, "calls": its_calls})
    done = subprocess.run(
        [PYTHON, HERE / "converters" / "convert.py"],
        input=json.dumps(jobs),
        env=environment(folder) | {"OPENAI_AGENTS_DISABLE_TRACING": "1"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def corpus_tools():
    rows = [row for each in corpus().values() for row in each]
    return [
        {
            "name": f"{row['tool']}-{number}",
            "description": row["description"],
            "inputSchema": row["inputSchema"],
        }
        for number, row in enumerate(rows)
    ]


@pytest.fixture(scope="module")
def converted(made):
    """What a client of a name is shown; "" is that of the Python SDK."""
    return made[0]


@pytest.mark.parametrize("name", NAMES)
def test_every_converter_takes_every_form(converted, name):
    found = converted[name]
    assert not found["failed"]
    assert list(found["tools"]) == [
        "inspect",
        *(["query"] if name in NAMES[1:3] else []),
        "exec",
        "resources",
    ]
    assert all(tools.keys() == found["tools"].keys() for tools in found["converted"].values())
    for converter in AS_THEY_ARE:
        for tool, schema in found["converted"][converter].items():
            assert _same(schema, found["tools"][tool]), (converter, tool)
    assert found["tools"]["exec"]["properties"]["fresh"]["type"] == "boolean"
    assert found["answers"] == [[False, GIVEN["text"]]] * len(CALLS)


def _same(made, given):
    """What a converter adds beside the members that were given does not count."""
    return all(made.get(key) == value for key, value in given.items())


def test_the_arguments_of_exec_can_still_be_said_in_every_strict_form(converted):
    found = converted[""]
    assert not found["failed"]
    for converter in STRICT:
        for tool, schema in found["converted"][converter].items():
            if converter != "mistralai, strict":  # which passes it on as it is
                assert not list(_not_strict(schema, all_required=converter in OPENAI)), (converter, tool)
            if tool == "exec":
                assert schema["properties"]["arguments"]["type"] == "string", converter


def _not_strict(schema, *, all_required):
    """What the strict mode of OpenAI refuses in a schema (Structured Outputs, Supported schemas).

    That of Anthropic is the same, but for the required properties.
    """
    if not isinstance(schema.get("type"), str):
        yield "a schema must have a type"
    properties = schema.get("properties", {})
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            yield "additionalProperties must be false"
        if all_required and {*schema.get("required", ())} != {*properties}:
            yield "every property must be required"
    for each in properties.values():
        yield from _not_strict(each, all_required=all_required)


def test_gemini_takes_the_declarations_of_its_own_support_for_mcp(converted):
    found = converted[""]
    for schema in found["converted"]["google-genai"].values():
        assert not list(_not_of_gemini(schema))
    (refused,) = _not_of_gemini(converted["somebody"]["converted"]["google-genai"]["exec"])
    assert refused == "should be non-empty for OBJECT type"  # so the form of others would not do


def _not_of_gemini(schema):
    """What the Gemini API refuses in the `parameters` of a function (home-assistant/core #122403)."""
    if "type" not in schema:
        yield "must be specified"
    properties = schema.get("properties", {})
    if schema.get("type") == "OBJECT" and not properties:
        yield "should be non-empty for OBJECT type"
    for each in properties.values():
        yield from _not_of_gemini(each)


def test_an_object_is_never_closed_where_it_is_left_to_the_converter(converted):
    for name in NAMES[1:]:
        for converter in ("openai-agents", "openai-agents, strict", "langchain", "anthropic", "bedrock"):
            arguments = converted[name]["converted"][converter]["exec"]["properties"]["arguments"]
            assert arguments["type"] == "object"
            assert arguments.get("additionalProperties") is not False, (name, converter)


def test_no_converter_refuses_a_native_tool_of_the_corpus(made):
    found = made[1][""]
    assert len(found["tools"]) == 527
    assert not found["failed"]
    for converter in OPENAI:
        for tool, schema in found["converted"][converter].items():
            assert not list(_not_taken_strictly(schema)), (converter, tool)


def _not_taken_strictly(schema):
    """As `_not_strict`, of schemas with alternatives."""
    if not isinstance(schema.get("type"), str) and "anyOf" not in schema:
        yield "a schema must have a type"
    properties = schema.get("properties", {})
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield "additionalProperties must be false"
    if {*schema.get("required", ())} != {*properties}:
        yield "every property must be required"
    for each in (*properties.values(), *schema.get("anyOf", ()), *filter(None, [schema.get("items")])):
        yield from _not_taken_strictly(each)
