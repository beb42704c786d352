"""The patterns of rules that fit nothing are named, once what they are for is known."""

from __future__ import annotations

from mcpx.core.catalog.model import Catalogue, PromptInfo, ResourceInfo, TemplateInfo, ToolInfo
from mcpx.core.policy.catalogue_rules import unused_rules
from tests.mcpx.scripted import config_of


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
