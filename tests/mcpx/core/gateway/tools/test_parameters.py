"""What clients send to the three tools: read with the usual slips, or refused in words."""

from __future__ import annotations

import pytest

from mcpx.core.catalog.model import ToolInfo
from mcpx.core.gateway.tools.definitions import (
    WrongParameter,
    collect_arguments,
    parameter_names,
    read_exec,
    tool_names,
)
from mcpx.errors import CallError, Code, Outcome

SCHEMA = {
    "type": "object",
    "properties": {"repo_path": {"type": "string"}, "max_count": {"type": "integer"}},
    "required": ["repo_path"],
}
TOOL = ToolInfo(server_name="git", name="git_log", input_schema=SCHEMA)
NAMES = {"server_name": "git", "tool_name": "git_log"}


def collected(**members):
    return collect_arguments(read_exec({**NAMES, **members}), TOOL)


@pytest.mark.parametrize(
    ("members", "arguments"),
    [
        ({"arguments": {"repo_path": "."}}, {"repo_path": "."}),
        ({"arguments": '{"repo_path": "."}'}, '{"repo_path": "."}'),
        ({}, None),
        ({"repo_path": "."}, {"repo_path": "."}),
        ({"repo_path": ".", "max_count": 3}, {"repo_path": ".", "max_count": 3}),
        ({"arguments": {}, "repo_path": "."}, {"repo_path": "."}),
        ({"arguments": None, "repo_path": "."}, {"repo_path": "."}),
        ({"arguments": "", "repo_path": "."}, {"repo_path": "."}),
        ({"arguments": {"repo_path": "."}, "max_count": 3}, {"repo_path": ".", "max_count": 3}),
        ({"arguments": '{"repo_path": "."}', "max_count": 3}, {"repo_path": ".", "max_count": 3}),
        ({"arguments": {"repo_path": "."}, "repo_path": "."}, {"repo_path": "."}),
        ({"arguments": [1], "max_count": 3}, [1]),
        ({"arguments": "not json", "max_count": 3}, "not json"),
        ({"arguments": {"repo_path": "."}, "toolCallId": "x", "tool": "exec"}, {"repo_path": "."}),
        ({"arguments": {}, "chatInput": "hi", "sessionId": "s", "action": "sendMessage"}, {}),
    ],
)
def test_members_that_the_tool_knows_are_its_arguments(members, arguments):
    assert collected(**members) == arguments


@pytest.mark.parametrize(
    ("members", "path", "problem"),
    [
        ({"repo": "."}, "$.repo", "is no parameter of exec or of this tool"),
        ({"repopath": "."}, "$.repopath", "; did you mean repo_path?"),
        ({"arguments": {"repo_path": "."}, "why": "to see"}, "$.why", "is no parameter"),
        ({"arguments": {"repo_path": "."}, "repo_path": "/"}, "$.repo_path", "is given twice"),
        ({"tool": "x"}, "$.tool", "is no parameter"),
        ({"a\n\u202eb": 1}, "$.a b", "is no parameter"),
    ],
)
def test_members_that_nobody_knows_are_named_with_what_the_tool_takes(members, path, problem):
    with pytest.raises(CallError) as caught:
        collected(**members)
    error = caught.value
    assert (error.code, error.outcome) == (Code.INVALID_ARGUMENTS, Outcome.NOT_SENT)
    assert error.details["problems"][0]["path"] == path
    assert problem in error.details["problems"][0]["problem"]
    assert "It takes: {repo_path: string, max_count?: integer}" in str(error)


def test_the_names_of_parameters_are_found_in_alternatives_and_in_odd_schemas():
    either = {
        "anyOf": [{"properties": {"a": {}}}, {"allOf": [{"properties": {"b": {}}}]}],
        "properties": {"c": {}},
    }
    assert parameter_names(either) == {"a", "b", "c"}
    assert parameter_names({"properties": 3, "anyOf": {"x": 1}, "allOf": [None, True]}) == set()


@pytest.mark.parametrize(
    ("given", "read"),
    [(None, None), (5, 5), ("500", 500), (0, 0), (5.0, 5), ("", None)],
)
def test_max_tokens_is_a_whole_number(given, read):
    assert read_exec({**NAMES, "max_tokens": given}).max_tokens == read


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"server_name": 3}, "server_name must be a string"),
        ({"tool_name": ["x"]}, "tool_name must be a string"),
        ({"select": {}}, "select must be a string"),
        ({"max_tokens": -1}, "max_tokens must be a whole number, 0 or more, got -1"),
        ({"max_tokens": 1.5}, "got 1.5"),
        ({"max_tokens": True}, "got a boolean"),
        ({"max_tokens": "many"}, "got a string"),
        ({"max_tokens": "9" * 5000}, "got a string"),
    ],
)
def test_a_parameter_of_the_wrong_type_is_named(members, problem):
    with pytest.raises(WrongParameter, match=problem.replace(".", r"\.")):
        read_exec({**NAMES, **members})


def test_server_and_tool_are_names_where_there_are_no_others():
    given = read_exec({"server": "git", "tool": "git_log", "repo_path": "."})
    assert (given.server_name, given.tool_name, given.others) == ("git", "git_log", {"repo_path": "."})
    assert read_exec({**NAMES, "server": "x"}).others == {"server": "x"}
    assert tool_names({"tool": "a"}) == ("a",)
    assert tool_names({"tool": "inspect", "toolCallId": "x"}) == ()


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (None, ()),
        ("", ()),
        ("a", ("a",)),
        (["a", "b", "a", ""], ("a", "b")),
        ('["a", "b"]', ("a", "b")),
        ("[odd", ("[odd",)),
        ("a, b", ("a, b",)),
    ],
)
def test_tools_are_named_alone_or_together(given, names):
    assert tool_names({"tool_name": given}) == names


@pytest.mark.parametrize("given", [3, {"a": 1}, ["a", 1], "[1]"])
def test_tools_are_named_by_strings(given):
    with pytest.raises(WrongParameter, match="a string or an array of strings"):
        tool_names({"tool_name": given})
