"""The policy of a server: what it shows of a catalogue, and that it shows the same object while it can."""

from __future__ import annotations

from msgspec.structs import replace

from mcpx.core.catalog.model import Catalogue, LeftOut, ToolInfo
from mcpx.core.config import ServerConfig, Stdio
from mcpx.core.config.per_server import AccessRules, Hints, ToolRules
from mcpx.core.policy.catalogue_rules import Rules
from mcpx.core.policy.policy import MAX_KEPT, WRITES, NarrowedPolicy, ServerPolicy


def server(**settings):
    return ServerConfig(name="s", transport=Stdio(command="x"), **settings)


def catalogue(*names, **more):
    tools = {name: ToolInfo(server_name="s", name=name, input_schema={}) for name in names}
    return Catalogue(generation=1, tools=tools, **more)


def test_without_rules_the_catalogue_itself_is_shown():
    whole = catalogue("a")
    assert ServerPolicy(server()).shown(whole) is whole
    assert ServerPolicy(server(tools=ToolRules(deny=("b",)))).shown(whole) is whole
    assert ServerPolicy(server()).shown(None) is None


def test_what_is_shown_stays_the_same_object_until_something_changes():
    policy, whole = ServerPolicy(server(tools=ToolRules(deny=("b",)))), catalogue("a", "b")
    shown = policy.shown(whole)
    other = policy.shown(catalogue("b"))
    assert (list(shown.tools), list(other.tools)) == (["a"], [])
    assert policy.shown(whole) is shown
    before = policy.revision
    policy.configure(server(tools=ToolRules(deny=("b",)), expose="all"))
    assert (policy.shown(whole), policy.revision) == (shown, before)
    assert policy.shown(whole) is shown
    policy.configure(server())
    assert policy.shown(whole) is whole
    assert policy.revision > before


def test_a_tool_keeps_its_object_from_listing_to_listing():
    policy = ServerPolicy(server(annotations={"*": Hints(read_only_hint=True)}))
    whole = catalogue("a", "b")
    again = replace(whole, tools={**whole.tools, "c": whole.tools["a"]})
    assert policy.shown(whole).tools["a"] is policy.shown(again).tools["a"]
    assert policy.shown(whole).tools["a"].annotations == {"readOnlyHint": True}


def test_what_is_kept_of_a_server_that_renames_its_tools_for_ever_is_bounded():
    policy = ServerPolicy(server(trust_annotations=False))
    for number in range(500):
        policy.shown(catalogue(f"tool{number}"))
    assert len(policy._tools) < 100
    assert len(policy._kept) <= MAX_KEPT


def test_nothing_that_was_kept_with_the_whole_catalogue_is_shown_of_a_part():
    whole = catalogue("a", "b")
    whole.__dict__["inspected"] = "a and b"
    assert not ServerPolicy(server(tools=ToolRules(deny=("b",)))).shown(whole).__dict__


def test_a_remark_on_what_is_left_out_names_nothing_that_is_denied():
    def left_out(kind, name):
        return LeftOut(kind=kind, name=name, reason="odd")

    kept = (left_out("tool", "a"), left_out("tools/list", None), left_out("resource", "b..."))
    gone = (left_out("tool", "b"), left_out("tool", "x..."))
    shown = ServerPolicy(server(tools=ToolRules(deny=("b",)))).shown(catalogue("a", left_out=kept + gone))
    assert shown.left_out == kept


def test_a_person_is_asked_by_a_rule_or_before_any_tool_that_is_not_read_only():
    reads = ToolInfo(server_name="s", name="r", input_schema={}, annotations={"readOnlyHint": True})
    writes = ToolInfo(server_name="s", name="w", input_schema={})
    policy = ServerPolicy(server(approve="writes", tools=ToolRules(ask=("x",))))
    assert [policy.asks(each) for each in (reads, writes)] == [None, WRITES]
    assert policy.asks(replace(reads, name="x")) == "tools.ask: x"
    assert ServerPolicy(server()).asks(writes) is None
    believed = ServerPolicy(server(approve="writes", trust_annotations=False))
    shown = believed.shown(Catalogue(generation=1, tools={"r": reads})).tools["r"]
    assert believed.asks(shown) == WRITES


def test_a_profile_narrows_and_never_widens():
    none, both = AccessRules(), catalogue("a", "b", "c", "d")
    base = ServerPolicy(server(tools=ToolRules(deny=("a",), ask=("b",))))
    rules = [Rules("s", ToolRules(allow=("a", "b", "c"), ask=("c",)), none, none)]
    narrow = NarrowedPolicy(base, lambda: rules[0])
    assert list(narrow.shown(both).tools) == ["b", "c"]
    assert narrow.shown(both) is narrow.shown(both)
    assert [narrow.asks(both.tools[name]) for name in "bc"] == ["tools.ask: b", "tools.ask: c"]
    assert narrow.rule_against_tool("a") == "tools.deny: a"
    assert narrow.rule_against_tool("d") == "tools.allow"
    before = narrow.revision
    rules[0] = Rules("s", ToolRules(allow=("*",)), none, none)
    assert list(narrow.shown(both).tools) == ["b", "c", "d"]
    assert narrow.revision > before
