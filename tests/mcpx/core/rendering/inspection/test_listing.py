"""How a server's tools are shown when they are too many or too large for one answer."""

from __future__ import annotations

import msgspec
import pytest

from mcpx.core.calls.inspection import Inspector
from mcpx.core.calls.results.shaping import ResultRenderer
from mcpx.core.config import Config, ServerConfig, Stdio
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.protocol.messages import Inspect
from mcpx.core.rendering.inspection.listing import LISTING_TOKENS, MAX_SCHEMA_CHARS, PROGRAM_BYTES
from mcpx.core.rendering.tokens import estimate
from mcpx.core.rendering.toon import encode
from mcpx.core.validation.arguments import ArgumentChecker
from mcpx.core.wire.workers.pool import WorkerPool
from tests.mcpx.core.rendering.snapshots import server, tool

HIDDEN = "\u202e\u00ad\u3164\U000e0041\x1b[2J"


class Known:
    """The handle of a server that is a snapshot."""

    def __init__(self, *tools, **fields):
        self._info = server("s", *tools, **fields)
        self.policy = ServerPolicy(ServerConfig(name="s", transport=Stdio(command="true")))

    def info(self):
        return self._info

    def warm(self):
        """Start nothing."""


def inspected(*tools, tool_name=None, **fields):
    results = ResultRenderer(Config(source="test", servers={}))
    return Inspector({"s": Known(*tools, **fields)}, ArgumentChecker(WorkerPool()), results).inspect(
        Inspect("s", (tool_name,) if tool_name else ())
    )


def text_of(shaped):
    (block,) = shaped.content
    return block["text"]


def tools_of(count, description="Does the thing. And more. " * 10, name="tool_number_{}"):
    return [tool(name.format(i), description, "path", "limit") for i in range(count)]


def test_a_few_tools_are_shown_whole():
    shaped = inspected(*tools_of(30))
    assert "shortened" not in text_of(shaped)
    assert text_of(shaped).count("path: unknown") == 30
    assert [each["name"] for each in shaped.structured_content["tools"]] == [
        f"tool_number_{i}" for i in range(30)
    ]


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (120, 'tool_number_119,Does the thing,"{path: unknown'),
        (200, '"tool_number_199(path, limit?)",Does the thing'),
        (320, '"tool_number_319(path, limit?)"'),
        (600, "tool_number_599"),
        (10_000, "tool_number_600"),
    ],
)
def test_very_many_are_shown_as_fully_as_fits(count, shown):
    shaped = inspected(*tools_of(count))
    text = text_of(shaped)
    assert shown in text
    assert f"tools_total: {count}" in text
    assert "inspect(server_name, tool_name) shows one tool whole" in text
    assert estimate(text) <= LISTING_TOKENS
    plain = shaped.structured_content
    assert len(msgspec.json.encode(plain)) < PROGRAM_BYTES + 10_000
    if count < 10_000:
        assert len(plain["tools"]) == count


def test_names_that_do_not_fit_are_counted():
    shaped = inspected(*tools_of(10_000, name="n" * 100 + "{}"))
    assert "not_shown: " in text_of(shaped)
    plain = shaped.structured_content
    assert plain["not_shown"] + len(plain["tools"]) == plain["tools_total"] == 10_000


def test_a_monstrous_name_hides_no_other():
    shaped = inspected(tool("x" * 2_000_000), *tools_of(20))
    assert "tool_number_19" in text_of(shaped)
    assert len(text_of(shaped)) < 10_000
    assert len(shaped.structured_content["tools"]) == 20


def test_a_monstrous_schema_is_named_alone_and_its_neighbours_are_shown_whole():
    huge = tool("huge", "Takes much", " ".join(f"name_{i}" for i in range(60_000)))
    shaped = inspected(huge, *tools_of(20))
    assert text_of(shaped).count("path: unknown") == 20
    assert "too large to be shown" in text_of(shaped)
    plain = shaped.structured_content["tools"]
    assert plain[0]["input_schema"] == {"$comment": "too large to be shown"}
    assert plain[1]["input_schema"]["required"] == ["path"]
    alone = inspected(huge, tool_name="huge")
    assert len(text_of(alone)) < 2 * MAX_SCHEMA_CHARS


def test_long_texts_are_cut():
    shaped = inspected(tool("t", "d" * 1_000_000), instructions="i" * 1_000_000, tool_name="t")
    assert len(text_of(shaped)) < 100_000
    shaped = inspected(tool("t", "d" * 1_000_000), instructions="i" * 1_000_000)
    assert len(text_of(shaped)) < 100_000


def test_what_servers_say_is_clean_for_the_model_and_for_programs():
    schema = {
        "type": "object",
        "properties": {"p": {"type": "string", "description": f"a{HIDDEN}b", "enum": [f"e{HIDDEN}"]}},
    }
    evil = msgspec.structs.replace(
        tool(f"n{HIDDEN}", f"line one{HIDDEN}\nline two"),
        input_schema=schema,
        title=f"t{HIDDEN}",
        annotations={"title": f"t{HIDDEN}"},
    )
    for name in (None, evil.name):
        shaped = inspected(evil, tool_name=name, instructions=f"i{HIDDEN}")
        text = text_of(shaped)
        assert text.replace("\n", "").isprintable()
        assert not set(HIDDEN[:4]) & set(text)
        assert "\\u202e" in text  # the name, and the value of the enum
        plain = shaped.structured_content["tools"][0] if name is None else shaped.structured_content
        assert plain["name"] == evil.name
        assert plain["description"] == "line one[2J\nline two"
        assert plain["title"] == plain["annotations"]["title"] == "t[2J"
        parameter = plain["input_schema"]["properties"]["p"]
        assert parameter == {"type": "string", "description": "a[2Jb", "enum": [f"e{HIDDEN}"]}


def test_what_was_rendered_is_rendered_anew_by_other_settings():
    tools = tools_of(3)
    results = ResultRenderer(Config(source="test", servers={}))
    inspector = Inspector({"s": Known(*tools)}, ArgumentChecker(WorkerPool()), results)
    long = text_of(inspector.inspect(Inspect("s")))
    results.settings = Config(source="test", servers={}, max_description_len=10)
    assert len(text_of(inspector.inspect(Inspect("s")))) < len(long)
    assert "Does the t..." in text_of(inspector.inspect(Inspect("s")))


def test_toon_of_a_shortened_listing_is_data():
    assert encode({"tools": ["a(b)"]}).startswith("tools[1]:")
