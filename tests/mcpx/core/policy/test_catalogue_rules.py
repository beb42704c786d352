"""Which annotations hold: those of the server, those that a person gives, and what neither may widen."""

from __future__ import annotations

import pytest

from mcpx.core.catalog.model import ToolInfo, is_read_only
from mcpx.core.config.per_server import Hints
from mcpx.core.policy.catalogue_rules import AnnotationRules

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
