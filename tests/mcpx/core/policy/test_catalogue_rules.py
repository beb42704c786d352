"""Which annotations hold: those of the server, those that a person gives, and what neither may widen."""

from __future__ import annotations

import pytest

from mcpx.core.catalog.model import Catalogue, PromptInfo, ResourceInfo, TemplateInfo, ToolInfo, is_read_only
from mcpx.core.config.per_server import Hints
from mcpx.core.policy.catalogue_rules import AnnotationRules, unused_rules
from tests.mcpx.scripted import config_of

READ = {"readOnlyHint": True}


def tool(name="look", **annotations):
    return ToolInfo(server_name="git", name=name, input_schema={}, annotations=annotations or None)


def applied(given, rules, *, trusted=True, believed=True, name="look"):
    made = AnnotationRules("git", rules, trusted=trusted).apply(tool(name, **given), trusted=believed)
    return made.annotations


@pytest.mark.parametrize(
    ("annotations", "read_only"),
    [
        ({}, False),
        (READ, True),
        (READ | {"destructiveHint": False}, True),
        (READ | {"destructiveHint": True}, False),
        ({"readOnlyHint": "yes"}, False),
        ({"readOnlyHint": 1}, False),
        ({"destructiveHint": False}, False),
    ],
)
def test_a_tool_is_read_only_where_it_says_so_and_nothing_against_it(annotations, read_only):
    assert is_read_only(tool(**annotations)) is read_only


def test_what_a_person_says_stands_in_place_of_what_the_server_says():
    given = READ | {"title": "Look", "other": 1}
    assert applied(given, {"look": Hints(read_only_hint=False)}) == given | {"readOnlyHint": False}
    assert applied({}, {"git.l*": Hints(idempotent_hint=True)}) == {"idempotentHint": True}


def test_of_several_patterns_the_last_one_counts():
    rules = {"*": Hints(read_only_hint=False, open_world_hint=False), "look": Hints(read_only_hint=True)}
    assert applied({}, rules) == READ | {"openWorldHint": False}
    assert applied({}, rules, name="push") == {"readOnlyHint": False, "openWorldHint": False}


def test_no_tool_comes_by_its_name_under_what_is_said_of_another_servers_unless_that_restricts():
    assert applied({}, {"linear.look": Hints(read_only_hint=True)}, name="linear.look") is None
    rules = {"linear.look": Hints(read_only_hint=False, idempotent_hint=True)}
    assert applied(READ, rules, name="linear.look") == {"readOnlyHint": False}


@pytest.mark.parametrize("doubted", [{"trusted": False}, {"believed": False}])
def test_what_a_server_says_does_not_count_where_it_is_not_trusted(doubted):
    given = READ | {"idempotentHint": True, "title": "Look"}
    assert applied(given, {}, **doubted) == {"title": "Look"}
    assert applied(READ, {}, **doubted) is None
    assert applied(given, {"look": Hints(read_only_hint=True)}, **doubted) == READ | {"title": "Look"}


def test_a_tool_that_nothing_is_said_of_stays_the_same_object():
    one = tool(**READ)
    assert AnnotationRules("git", {"push": Hints(read_only_hint=False)}, trusted=True).apply(one) is one
    assert AnnotationRules("git", {"look": Hints(read_only_hint=True)}, trusted=True).apply(one) is one
    assert not AnnotationRules("git", {}, trusted=True).change


def offering(*tools, templates=()):
    return Catalogue(
        generation=1,
        tools={name: ToolInfo(server_name="s", name=name, input_schema={}) for name in tools},
        resources={"note:///a": ResourceInfo(server_name="s", uri="note:///a", name="a")},
        prompts=(PromptInfo(server_name="s", name="ask"),),
        templates=tuple(TemplateInfo(server_name="s", uri_template=each, name="t") for each in templates),
    )


def config(own=(), **for_all):
    return config_of({"s": {"command": "x", **dict(own)}, "t": {"command": "x"}}, **for_all)


def test_a_pattern_that_fits_nothing_is_named_once_all_servers_have_listed():
    rules = {"deny": ["wipe_al", "wipe*"], "ask": ["s.push"], "allow": ["*", "t.*"]}
    written = config(tools=rules)
    assert unused_rules(written, {"s": offering("wipe"), "t": None}) == []
    assert unused_rules(written, {"s": offering("wipe"), "t": offering("push")}) == [
        "tools.deny: s and t have no tool that fits 'wipe_al'",
        "tools.ask: s and t have no tool that fits 's.push'",
    ]


def test_a_pattern_of_one_servers_entry_is_for_that_server():
    own = {"tools": {"deny": ["s.a", "b", "*.c"]}, "prompts": {"allow": ["ask", "as"]}}
    found = unused_rules(config(own), {"s": offering("a", "c"), "t": None})
    assert found == [
        "tools.deny: s has no tool that fits 's.b'",
        "prompts.allow: s has no prompt that fits 's.as'",
    ]


def test_what_a_template_may_make_may_fit():
    own = {"resources": {"deny": ["file:*"]}}
    assert unused_rules(config(own), {"s": offering()}) == [
        "resources.deny: s has no resource that fits 'file:*'"
    ]
    assert unused_rules(config(own), {"s": offering(templates=["{+x}"])}) == []


def test_a_pattern_may_name_its_server_by_an_alias():
    own = {"aliases": ["u"], "tools": {"deny": ["u.a", "u.b"]}}
    found = unused_rules(
        config(own, prompts={"deny": ["u.ask", "u.as"]}), {"s": offering("a"), "t": offering()}
    )
    assert found == [
        "tools.deny: s has no tool that fits 's.b'",
        "prompts.deny: s and t have no prompt that fits 'u.as'",
    ]
