"""The forms of a call of inspect, over snapshots: servers, a search, one tool or several, resources."""

from __future__ import annotations

import json

import pytest

from mcpx.core.calls.inspection import LISTING_TOKENS, WHOLE_TOKENS, Inspector
from mcpx.core.calls.results.shaping import ResultRenderer
from mcpx.core.catalog.model import ToolInfo
from mcpx.core.catalog.snapshot import State
from mcpx.core.config import Config, ServerConfig, Stdio
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.protocol.messages import Inspect
from mcpx.core.rendering.tokens import estimate
from mcpx.core.validation.arguments import ArgumentChecker
from mcpx.core.wire.workers.pool import WorkerPool
from mcpx.errors import CallError, Code
from tests.mcpx.core.rendering.snapshots import corpus, resource, server, template, tool

GIT = server(
    "git",
    ToolInfo(
        server_name="git",
        name="git_log",
        description="Shows the commit logs. Newest first.",
        input_schema={
            "type": "object",
            "properties": {
                "repo_path": {"type": "string"},
                "max_count": {"type": "integer", "default": 10},
            },
            "required": ["repo_path"],
        },
    ),
    tool("git_status", "Shows the working tree status", "repo_path"),
    instructions="# Git\n\nGit for repositories on this machine. Long words follow.",
)
FILES = server(
    "files", *(tool(f"tool_{i}") for i in range(5)), resource("file:///a"), template("file:///{x}")
)
LATE = server("late", listed=False, state=State.WAITING, cause="it was killed", retry_in_s=4)
SERVERS = [GIT, FILES, LATE]


class Known:
    """The handle of a server that is a snapshot."""

    def __init__(self, info):
        self.name, self.catalogue = info.name, info.catalogue
        self.policy = ServerPolicy(ServerConfig(name=info.name, transport=Stdio(command="x")))
        self.info = lambda: info
        self.warmed = 0

    def warm(self):
        self.warmed += 1


def inspector(servers=SERVERS, **settings):
    known = {info.name: Known(info) for info in servers}
    results = ResultRenderer(Config(source="test", servers={}, **settings))
    return Inspector(known, ArgumentChecker(WorkerPool()), results)


def inspected(server_name="", *tool_names, query="", servers=SERVERS, **settings):
    shaped = inspector(servers, **settings).inspect(Inspect(server_name, tool_names, query))
    (block,) = shaped.content
    return block["text"], shaped.structured_content


def refused(*names, **more):
    with pytest.raises(CallError) as caught:
        inspected(*names, **more)
    return caught.value


# --- all servers, and a search


def test_without_names_the_servers_are_listed_with_their_states():
    text, plain = inspected()
    head, *lines = text.splitlines()
    assert head.startswith("3 servers, 7 tools. inspect(server_name) lists")
    assert lines == [
        "git (2 tools): Git for repositories on this machine",
        "files (5 tools): tool_0, tool_1, tool_2, ...",
        "late (waiting, retry in 4 s: it was killed)",
    ]
    git, files, late = plain["servers"]
    assert (git["name"], git["state"], git["tools"]) == ("git", "ready", 2)
    assert git["about"] == "Git for repositories on this machine"
    assert (files["resources"], files["templates"]) == (1, 1)
    assert (late["state"], late["cause"], late["retry_in_s"]) == ("waiting", "it was killed", 4)


def test_very_many_servers_are_named_and_counted():
    text, _ = inspected(servers=corpus("Words of a server that are many. " * 9))
    assert estimate(text) <= LISTING_TOKENS
    assert text.count("Words of a server that are many") == 70
    text, plain = inspected(servers=[server(f"server-{i}", tool("echo")) for i in range(2000)])
    assert estimate(text) <= LISTING_TOKENS
    assert "server-0, server-1, " in text
    assert " more" in text[-20:]
    assert len(plain["servers"]) == 2000


def test_without_servers_that_is_said():
    assert inspected(servers=[]) == ("No servers are configured.", {"servers": []})


def test_a_query_searches_all_servers_or_one():
    text, plain = inspected(query="commit log")
    assert "git_log(repo_path: string, max_count?: integer)" in text
    assert plain["servers"][0]["server"] == "git"
    text, plain = inspected("files", query="tool_3")
    assert [each["server"] for each in plain["servers"]] == ["files"]
    assert refused("flies", query="tool").code is Code.UNKNOWN_SERVER


# --- tools


def test_one_tool_comes_with_an_example_of_a_call():
    text, plain = inspected("git", "git_log")
    line = text.splitlines()[-1]
    assert line.startswith("example: exec {")
    assert json.loads(line.removeprefix("example: exec ")) == {
        "server_name": "git",
        "tool_name": "git_log",
        "arguments": {"repo_path": "<repo_path>", "max_count": 10},
    }
    assert "example" not in plain
    assert "example" not in inspected("git", "git_status")[0]
    text, _ = inspected("git", "git_log", toon_compression_enabled=False)
    assert json.loads(text)["example"]["tool_name"] == "git_log"


@pytest.mark.parametrize(
    "names",
    [("git.git_log",), ("", "git_log"), ("", "git/git_log"), ("git_log", "git"), ("git", "git.git_log")],
)
def test_one_tool_is_found_by_names_that_are_nearly_right(names):
    assert inspected(*names) == inspected("git", "git_log")


@pytest.mark.parametrize(
    "names", [("git_log", "git_status"), ("git_log, git_status",), ("git_log,git.git_status",)]
)
def test_several_tools_are_shown_together(names):
    text, plain = inspected("git", *names)
    assert [each["name"] for each in plain["tools"]] == ["git_log", "git_status"]
    assert "Newest first" in text
    assert "repo_path: unknown" in text
    assert "not_found" not in text


def test_several_tools_can_be_on_several_servers():
    _, plain = inspected("", "git_log", "files.tool_3")
    assert [(each["server"], each["name"]) for each in plain["tools"]] == [
        ("git", "git_log"),
        ("files", "tool_3"),
    ]


def test_those_of_several_that_are_not_there_are_named_with_the_nearest():
    text, plain = inspected("git", "git_log", "git_stats", "nothing")
    assert plain["not_found"] == ["git_stats (did you mean git_status?)", "nothing"]
    assert "git_stats (did you mean git_status?)" in text
    assert [each["name"] for each in plain["tools"]] == ["git_log"]
    assert refused("git", "git_stats", "nothing").code is Code.UNKNOWN_TOOL


def test_a_name_that_none_has_is_an_error():
    assert refused("gti").code is Code.UNKNOWN_SERVER
    assert refused("git", "git_lgo").details["did_you_mean"] == ["git_log"]
    assert refused("", "nothing").code is Code.INVALID_ARGUMENTS
    assert "is a tool of a, b" in str(
        refused("", "echo", servers=[server("a", tool("echo")), server("b", tool("echo"))])
    )


def wide(name, parameters=200, words=300):
    properties = {
        f"parameter_{i}": {"type": "string", "description": "Many different words. " * (words // 22)}
        for i in range(parameters)
    }
    return ToolInfo(
        server_name="s",
        name=name,
        description="What it does. " * 2000,
        input_schema={"type": "object", "properties": properties},
        output_schema={"type": "object", "properties": properties},
    )


@pytest.mark.parametrize("types", [True, False])
@pytest.mark.parametrize("parameters", [20, 200, 1000])
def test_a_tool_that_is_too_long_is_shortened_and_says_so(parameters, types):
    text, plain = inspected(
        "s", "wide", servers=[server("s", wide("wide", parameters))], schema_compression_enabled=types
    )
    assert estimate(text) <= WHOLE_TOKENS + 20
    assert "Too long for one answer" in text
    assert "parameter_0" in text
    assert len(plain["input_schema"]["properties"]) == parameters
    assert plain["output_schema"]


def test_several_that_are_too_long_together_are_partly_shown_as_signatures():
    tools = [wide(f"wide_{i}", parameters=40) for i in range(6)]
    text, _ = inspected("s", *(each.name for each in tools), servers=[server("s", *tools)])
    assert estimate(text) <= WHOLE_TOKENS * 1.1
    assert "To see these whole, ask for fewer at once: " in text
    assert "wide_5(parameter_0?: string" in text


def test_the_longest_instructions_leave_room_for_the_tools():
    text, plain = inspected(
        "s", servers=[server("s", *GIT.tools.values(), instructions="Some words. " * 5000)]
    )
    assert estimate(text) <= LISTING_TOKENS
    assert "git_log,Shows the commit logs" in text
    assert "words. ..." in text
    assert len(plain["instructions"]) == 60_000


@pytest.mark.corpus
def test_the_listing_of_every_real_server_is_within_its_budget():
    servers = corpus()
    for info in servers:
        text, plain = inspected(info.name, servers=servers)
        assert estimate(text) <= LISTING_TOKENS, info.name
        assert all(name in text for name in info.tools)
        assert [each["name"] for each in plain["tools"]] == list(info.tools)


# --- resources


def test_resources_without_a_uri_are_listed():
    shaped = inspector().resources("files")
    (block,) = shaped.content
    assert "file:///a" in block["text"]
    assert "file:///{x}" in block["text"]
    assert shaped.structured_content["servers"]["files"]["resources"][0]["uri"] == "file:///a"
    every = inspector().resources("")
    assert list(every.structured_content["servers"]) == ["files"]
    assert "No resources" in inspector().resources("git").content[0]["text"]
    assert "has not listed its resources yet" in inspector().resources("late").content[0]["text"]
    with pytest.raises(CallError):
        inspector().resources("flies")
