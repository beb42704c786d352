"""Rules for tools, resources and prompts: how they are written, and how those of two places are joined."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from mcpx.core.config import Profile, json_schema, parse
from mcpx.core.config.per_server import Hints, ToolRules
from mcpx.errors import ConfigError


def document(own=(), **for_all):
    return {"mcpServers": {"git": {"command": "x", **dict(own)}, "other": {"command": "x"}}, **for_all}


def read(own=(), **for_all):
    return parse(json.dumps(document(own, **for_all)), where="c.json", environ={})


def tools(own=(), **for_all):
    return read({"tools": own} if own else (), **for_all).servers["git"].tools


def test_what_is_denied_or_asked_for_all_holds_beside_what_a_server_says():
    common = {"deny": ["wipe*"], "ask": ["push"]}
    found = tools({"deny": ["log"], "ask": ["status"]}, tools=common)
    assert found == ToolRules(deny=("wipe*", "git.log"), ask=("push", "git.status"))
    assert read(tools=common).servers["other"].tools == ToolRules(deny=("wipe*",), ask=("push",))


def test_a_servers_own_allow_takes_the_place_of_the_one_for_all():
    assert tools({"allow": ["status"]}, tools={"allow": ["*"]}).allow == ("git.status",)
    assert tools({"deny": ["status"]}, tools={"allow": ["s*"]}).allow == ("s*",)


def test_what_is_asked_is_allowed_by_an_allow_of_the_same_place_alone():
    assert tools({"allow": ["status"]}, tools={"ask": ["*"]}).allow == ("git.status",)
    assert tools({"allow": ["status"], "ask": ["push"]}).allow == ("git.status", "git.push")
    assert tools({"ask": ["push"]}, tools={"allow": ["log"], "ask": ["pull"]}).allow == (
        "log",
        "pull",
        "git.push",
    )
    profile = Profile(tools={"allow": ("log",), "ask": ("pull",), "git": {"allow": ("status",)}["allow"]})
    assert profile.tool_rules("git").allow == ("git.status",)
    assert profile.tool_rules("other") == ToolRules(allow=("log", "pull"), ask=("pull",))


def test_a_servers_own_name_in_a_pattern_is_understood_as_either():
    assert tools(["git.status", "*.log", "push"]).allow == (
        "git.status",
        "git.git.status",
        "*.log",
        "git.*.log",
        "git.push",
    )


@pytest.mark.parametrize("key", ["tools", "resources", "prompts"])
def test_an_array_is_what_is_allowed(key):
    for config in (read({key: ["a"]}), read(**{key: ["a"]})):
        assert getattr(config.servers["git"], key).allow in {("a",), ("git.a",)}
    validator = Draft202012Validator(json_schema())
    for given in (document({key: ["a"]}), document(**{key: ["a"]}), document({key: {"_why": 1, "deny": []}})):
        assert validator.is_valid(given)


@pytest.mark.parametrize(
    ("given", "path", "problem"),
    [
        ({"tools": {"dny": ["a"]}}, "tools.dny", 'unknown key; did you mean "deny"?'),
        ({"prompts": {"ask": ["a"]}}, "prompts.ask", "unknown key; the keys are allow, deny"),
        ({"tools": {"deny": "a"}}, "tools.deny", "expected an array of strings, got a string"),
        ({"tools": "a"}, "tools", "expected an object, got a string"),
        ({"tools": [1]}, "tools[0]", "expected a string, got a number"),
        ({"annotations": {"a": {"readOnly": True}}}, "annotations.a.readOnly", "unknown key"),
        (
            {"annotations": {"a": {"readOnlyHint": 1}}},
            "annotations.a.readOnlyHint",
            "expected true or false, got a number",
        ),
        ({"limits": {"cpu": 1}}, "limits.cpu", "unknown key; the keys are"),
        ({"limits": {"nice": 20}}, "limits.nice", "expected a whole number from 0 to 19, got 20"),
    ],
)
def test_a_slip_in_a_rule_disables_the_server_or_at_the_top_the_file(given, path, problem):
    config = read(given)
    assert problem in config.servers["git"].disabled
    assert f"(in $.mcpServers.git.{path})" in config.servers["git"].disabled
    assert config.servers["other"].disabled is None
    with pytest.raises(ConfigError) as error:
        read(**given)
    assert f"$.{path}: {problem}" in str(error.value)
    validator = Draft202012Validator(json_schema())
    assert not validator.is_valid(document(**given))
    assert not validator.is_valid(document(given))


def test_a_servers_own_annotations_come_after_those_for_all():
    for_all = {"git.a": {"readOnlyHint": True}, "*": {"readOnlyHint": False}}
    found = read({"annotations": {"a": {"readOnlyHint": True}}}, annotations=for_all).servers["git"]
    assert list(found.annotations) == ["*", "git.a"]
    assert found.annotations["git.a"] == Hints(read_only_hint=True)


def test_a_profiles_rule_for_all_and_a_server_of_that_name_are_told_apart():
    servers = {"deny": {"command": "x"}}
    rules = {"deny": {"allow": ["a"]}}
    config = parse(
        json.dumps({"mcpServers": servers, "profiles": {"p": {"tools": rules}}}), where="c", environ={}
    )
    assert config.profiles["p"].tool_rules("deny").allow == ("deny.a",)
    with pytest.raises(ConfigError, match="this is a rule for all servers"):
        parse(
            json.dumps({"mcpServers": servers, "profiles": {"p": {"tools": {"deny": ["a"]}}}}),
            where="c",
            environ={},
        )


def test_calls_cannot_have_to_be_in_an_audit_log_that_is_off():
    assert read(audit_required=True, audit="full").audit_required
    with pytest.raises(ConfigError, match=r'audit_required: no call can be written: audit is "off"'):
        read(audit_required=True, audit="off")
