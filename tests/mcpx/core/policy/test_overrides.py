"""Tools in the form that the configuration gives them: what is shown, and what cannot be."""

from __future__ import annotations

import json

import pytest

from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.config import parse
from mcpx.core.config.server_config import Override
from mcpx.core.policy.overrides import NOT_APPLIED, OverrideProblem, ToolOverrides, overridden

SEARCH = ToolInfo(
    server_name="s",
    name="search_issues",
    description="Searches.",
    input_schema={
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "repo": {"type": "string"},
            "limit": {"$ref": "#/$defs/count"},
            "state": {"enum": ["open", "closed"]},
            "labels": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        },
        "required": ["query", "repo", "limit"],
        "$defs": {"count": {"type": "integer"}},
    },
)
OTHER = ToolInfo(server_name="s", name="list", input_schema={"type": "object"})


def of(**given):
    return overridden(SEARCH, Override(**given))


def test_a_tool_is_shown_as_it_is_overridden():
    tool = of(
        name="find", description="Finds.", defaults={"limit": 5}, fixed={"repo": "me/x"}, hidden=("labels",)
    )
    assert (tool.name, tool.description, tool.own) == ("find", "Finds.", SEARCH)
    assert tool.input_schema["required"] == ["query"]
    assert tool.input_schema["properties"] == {
        "query": {"type": "string"},
        "limit": {"$ref": "#/$defs/count", "default": 5},
        "state": {"enum": ["open", "closed"]},
    }
    assert SEARCH.input_schema["required"] == ["query", "repo", "limit"]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"fixed": {"rep": "x"}}, "it has no argument 'rep'; did you mean 'repo'?"),
        ({"hidden": ("repo",)}, "'repo' is required, and hidden without a fixed value"),
        ({"defaults": {"limit": "5"}}, "'limit' is of type integer, and is given a value of type string"),
        ({"defaults": {"limit": 1.5}}, "'limit' is of type integer, and is given a value of type number"),
        (
            {"fixed": {"labels": "a"}},
            "'labels' is of type array or null, and is given a value of type string",
        ),
        ({"defaults": {"state": "gone"}}, "the value for 'state' is none of those that it takes"),
    ],
)
def test_what_does_not_fit_the_tool_is_said(given, problem):
    with pytest.raises(OverrideProblem) as caught:
        of(**given)
    assert str(caught.value).replace('"', "'") == problem


def with_more(**schema):
    return ToolInfo(server_name="s", name="t", input_schema=SEARCH.input_schema | schema)


def test_alternatives_no_longer_require_what_is_always_there():
    tool = with_more(required=["query"], anyOf=[{"required": ["repo"]}, {"required": ["state"]}])
    shown = overridden(tool, Override(fixed={"repo": "me/x"}))
    assert shown.input_schema["anyOf"] == [{"required": []}, {"required": ["state"]}]
    with pytest.raises(OverrideProblem, match="another part of the schema depends on it"):
        overridden(tool, Override(hidden=("repo",)))


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"properties": {"repo": {"pattern": "^me/"}}}]},
        {"dependentRequired": {"state": ["repo"]}},
        {"if": {"properties": {"repo": {"const": "me/x"}}}, "then": {"required": ["state"]}},
    ],
)
def test_an_argument_that_the_rest_of_the_schema_depends_on_cannot_be_hidden(schema):
    with pytest.raises(OverrideProblem, match="cannot be hidden"):
        overridden(with_more(**schema), Override(fixed={"repo": "me/x"}))


def test_an_override_on_top_of_another_sees_what_that_shows():
    first = of(name="find", defaults={"limit": 5}, fixed={"repo": "me/x"})
    second = overridden(first, Override(name="look_for", fixed={"limit": 7}))
    assert second.own is SEARCH
    assert (second.change.fixed, second.change.defaults) == ({"repo": "me/x", "limit": 7}, {})
    with pytest.raises(OverrideProblem, match="no argument"):
        overridden(first, Override(fixed={"repo": "them/y"}))


def catalogue(*tools):
    return Catalogue(generation=1, tools={tool.name: tool for tool in tools})


@pytest.mark.parametrize(
    ("given", "left", "reason"),
    [
        ({"search_issues": {"name": "list"}}, ["list"], "there is another tool with the name"),
        ({"search_isues": {"name": "x"}}, ["search_issues", "list"], "did you mean"),
        ({"list": {"name": "a"}, "search_issues": {"name": "a"}}, [], "there is another tool"),
        ({"list": {"fixed": {"x": 1}}}, ["search_issues"], "it has no argument"),
    ],
)
def test_an_override_that_cannot_be_applied_takes_its_tool_away_and_says_why(given, left, reason):
    known = catalogue(SEARCH, OTHER)
    overrides = ToolOverrides({name: Override(**each) for name, each in given.items()})
    shown = overrides.applied(known, known.tools)
    assert list(shown.tools) == left
    assert all(each.reason.startswith(NOT_APPLIED) and reason in each.reason for each in shown.left_out)
    assert {each.name for each in shown.left_out} == {*given} - {*left}


def test_a_catalogue_that_no_override_concerns_stays_the_same_object():
    known = catalogue(OTHER)
    assert ToolOverrides({}).applied(known, known.tools) is known


def read(entry, environ=None, **more):
    text = {"mcpServers": {"s": {"command": "x", "overrides": entry}, "t": {"command": "y"}}, **more}
    return parse(json.dumps(text), where="test", environ=environ or {})


def test_references_are_filled_in_and_those_without_a_value_are_named():
    config = read(
        {"t": {"fixed": {"a": "Bearer ${KEY}", "b": ["${project}"], "c": "${GONE}"}}}, {"KEY": "secret-1"}
    )
    fixed = config.servers["s"].overrides["t"].fixed
    assert (fixed["a"].text, fixed["a"].secrets) == ("Bearer secret-1", (("KEY", "secret-1"),))
    assert fixed["b"][0].text == "${project}"
    assert fixed["c"].problem == "environment variable GONE is not set"
    assert config.servers["s"].sessions == "shared"
    assert "secret-1" not in repr(config.servers["s"].overrides)


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ({"name": "a b"}, "the name of a tool has up to 128"),
        ({"fixed": {"a": 1}, "defaults": {"a": 2}}, '"a" stands in fixed as well'),
        ({"nam": "x"}, "nam"),
        ({"hidden": "a"}, "expected an array"),
    ],
)
def test_a_mistake_in_an_override_disables_its_server_alone(override, problem):
    config = read({"t": override})
    assert problem in config.servers["s"].disabled
    assert config.servers["t"].disabled is None
