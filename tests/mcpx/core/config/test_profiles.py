"""Profiles in the configuration: what they may say, and what is wrong with the others."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from mcpx.core.config import Profile, json_schema, parse
from mcpx.core.config.per_server import ToolRules
from mcpx.errors import ConfigError

SERVERS = {"git": {"command": "x"}, "linear": {"command": "x"}, "db-[1]": {"command": "x", "disabled": True}}


def document(profiles):
    return {"mcpServers": SERVERS, "profiles": profiles}


def read(profiles):
    return parse(json.dumps(document(profiles)), where="c.json", environ={})


def test_a_profile_has_servers_their_tools_and_how_they_are_shown():
    work = {"servers": ["git"], "tools": {"git": ["git_log*"]}, "expose": "all", "pinned": ["git.*"]}
    config = read({"work": {**work, "_why": "a comment"}, "all": {}})
    tools = {"git": ("git_log*",)}
    made = Profile(servers=("git",), tools=tools, expose="all", pinned=("git.*",))
    assert config.profiles == {"work": made, "all": Profile()}
    assert config.notices == ()
    Draft202012Validator(json_schema()).validate(document({"work": work}))


@pytest.mark.parametrize(
    "profile",
    [
        {"servers": ["*"]},
        {"servers": ["db-[1]"]},
        {"servers": []},
        {"tools": {"git": []}},
        {"tools": {"git": {"deny": ["git_push"], "ask": ["git_*"]}, "deny": ["*_all"], "allow": ["git.*"]}},
        {"tools": ["git_*"]},
        {"tools": []},
        {"resources": {"deny": ["file:///*"]}, "prompts": ["a"]},
        {"expose": None},
    ],
)
def test_what_a_profile_may_say(profile):
    assert read({"work": profile}).notices == ()
    Draft202012Validator(json_schema()).validate(document({"work": profile}))


def test_a_list_of_tools_is_what_a_profile_allows_of_all_servers():
    (listed, said) = (read({"w": {"tools": tools}}).profiles["w"] for tools in (["a*"], {"allow": ["a*"]}))
    assert listed.tool_rules("git") == said.tool_rules("git")


def test_an_array_of_tools_allows_them_for_all_servers_of_the_profile():
    profile = read({"work": {"tools": ["git_*"]}}).profiles["work"]
    assert profile == Profile(tools={"allow": ("git_*",)})
    assert profile.tool_rules("linear") == ToolRules(allow=("git_*",))


@pytest.mark.parametrize(
    ("profiles", "problem"),
    [
        (
            {"w": {"servers": ["gti"]}},
            'w.servers[0]: there is no server "gti"; did you mean "git"?',
        ),
        (
            {"w": {"servers": ["zz"]}},
            ': there is no server "zz"; there is "git", "linear", "db-[1]"',
        ),
        ({"w": {"servers": "git"}}, "$.profiles.w.servers: expected an array of strings, got a string"),
        ({"w": {"servers": [1]}}, "$.profiles.w.servers[0]: expected a string, got a number"),
        ({"w": {"server": ["git"]}}, '$.profiles.w.server: unknown key; did you mean "servers"?'),
        ({"w": {"zz": 1}}, "$.profiles.w.zz: unknown key; the keys are servers, tools, resources, prompts"),
        (
            {"w": {"tools": {"lineal": []}}},
            'lineal: there is no server "lineal"; did you mean "linear"?',
        ),
        (
            {"w": {"tools": {"git": "x"}}},
            "w.tools.git: expected an array of strings, got a string",
        ),
        ({"w": {"tools": {"git": {"x": []}}}}, "w.tools.git.x: unknown key; the keys are allow, deny, ask"),
        ({"w": {"resources": {"ask": []}}}, "w.resources.ask: unknown key; the keys are allow, deny"),
        ({"w": {"tools": {"git": [""]}}}, "$.profiles.w.tools.git[0]: expected a string, got an empty one"),
        ({"w": {"tools": ["a", 1]}}, "$.profiles.w.tools[1]: expected a string, got a number"),
        ({"w": {"tools": [""]}}, "$.profiles.w.tools[0]: expected a string, got an empty one"),
        (
            {"w": {"servers": ["git"], "tools": {"linear": ["a"]}}},
            "$.profiles.w.tools.linear: this server is not among those of the profile",
        ),
        ({"w": {"expose": "x"}}, '$.profiles.w.expose: expected one of "all", "both", "three", got "x"'),
        ({"w": {"pinned": "x"}}, "$.profiles.w.pinned: expected an array of strings, got a string"),
        ({"w": []}, "$.profiles.w: expected an object, got an array"),
        ([], "$.profiles: expected an object, got an array"),
        ({"servers": {}}, '$.profiles.servers: "servers" cannot be a profile\'s name'),
        *(({name: {}}, "a profile's name has up to 64") for name in ("", "a/b", "a b", ".", "-x", "x" * 65)),
    ],
)
def test_what_is_wrong_with_a_profile(profiles, problem):
    with pytest.raises(ConfigError) as error:
        read(profiles)
    assert problem in str(error.value)
