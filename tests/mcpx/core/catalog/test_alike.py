"""Which servers have the same tools, and how that is told on each surface."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from mcpx.core.catalog.alike import Alike, grouped, others_like, same_tools
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.config import ServerConfig, Stdio
from mcpx.core.config.per_server import Hints, ToolRules
from mcpx.core.policy.catalogue_rules import Rules
from mcpx.core.policy.policy import NarrowedPolicy, ServerPolicy
from mcpx.core.rendering.descriptions import describe, describe_tools
from mcpx.core.rendering.inspection.servers import servers_listing
from mcpx.core.rendering.search_answer import best_tools, search_answer
from tests.mcpx.core.rendering.snapshots import corpus, resource, server, tool

PLENTY = 100_000
NAMES = ("query", "query_range", "series", "labels", "targets", "rules", "alerts", "metadata")


def tools_of(name: str, *, without: str = "", **changed: str):
    """The eight tools of a cluster, whose descriptions name it, with other descriptions where `changed`."""
    return [
        tool(each, changed.get(each, f"Ask {name} for its {each} of metrics"), "text")
        for each in NAMES
        if each != without
    ]


def cluster(name: str, *more, without: str = "", changed=(), **fields) -> ServerInfo:
    return server(name, *tools_of(name, without=without, **dict(changed)), *more, **fields)


EIGHT = [cluster(f"prom-{region}") for region in ("us", "eu", "ap", "cn", "sa", "af", "me", "au")]
OTHERS = [
    server("loki", tool("query_logs", "Query metrics of logs", "text")),
    server("tempo", tool("query_traces", "Query metrics of traces", "text")),
]


def alike_of(*servers: ServerInfo) -> dict[str, Alike]:
    return same_tools({each.name: each.tools for each in servers})


# --- the comparison


def test_servers_with_the_same_names_and_schemas_are_alike_though_each_says_its_own_name():
    assert alike_of(*EIGHT[:3]) == {"prom-eu": Alike("prom-us"), "prom-ap": Alike("prom-us")}


def test_words_of_the_name_that_both_say_are_no_difference():
    """`us` is in the name of the one, and stands in the descriptions of both."""
    both = [server(name, tool("ask", "Let us ask")) for name in ("prom-us", "prom-eu")]
    assert alike_of(*both) == {"prom-eu": Alike("prom-us")}


@pytest.mark.parametrize(
    "other",
    [
        cluster("prom-eu", changed={name: f"Something else {name}" for name in NAMES}),
        server("prom-eu", *(tool(name, f"Ask prom-eu for its {name} of metrics", "other") for name in NAMES)),
        server("prom-eu", *(tool(f"{name}_2", f"Ask prom-eu for its {name} of metrics") for name in NAMES)),
        server("prom-eu"),
        server("prom-eu", listed=False),
    ],
)
def test_other_descriptions_schemas_and_names_are_other_tools(other):
    assert alike_of(EIGHT[0], other) == {}


def test_annotations_and_output_schemas_count_and_icons_do_not():
    def with_(**fields):
        return server("prom-eu", *(replace(each, **fields) for each in tools_of("prom-eu")))

    assert alike_of(EIGHT[0], with_(icons=[{"src": "data:,"}])) == {"prom-eu": Alike("prom-us")}
    assert alike_of(EIGHT[0], with_(annotations={"readOnlyHint": True})) == {}
    assert alike_of(EIGHT[0], with_(output_schema={"type": "object"})) == {}


def test_a_few_tools_may_differ_and_are_named():
    lacking = cluster("prom-cn", without="rules")
    having = cluster("prom-af", tool("af_only"))
    other = cluster("prom-me", changed={"rules": "Rules the world"})
    assert alike_of(EIGHT[0], lacking, having, other) == {
        "prom-cn": Alike("prom-us", lacks=("rules",)),
        "prom-af": Alike("prom-us", own=("af_only",)),
        "prom-me": Alike("prom-us", own=("rules",)),
    }
    assert alike_of(EIGHT[0], cluster("prom-cn", *(tool(f"t{n}") for n in range(4)))) == {}


def test_the_order_of_the_tools_does_not_count():
    turned = server("prom-eu", *tools_of("prom-eu")[::-1])
    assert alike_of(EIGHT[0], turned) == {"prom-eu": Alike("prom-us")}


def test_in_the_corpus_nothing_is_alike():
    assert same_tools({each.name: each.tools for each in corpus()}) == {}


def test_the_most_usual_of_a_group_stands_for_it():
    odd = cluster("prom-aa", tool("more"))
    (leader, same), *_ = grouped([odd, *EIGHT])
    assert (leader.name, [other.name for other, _ in same][:2]) == ("prom-us", ["prom-aa", "prom-eu"])
    assert [other.name for other, _ in others_like(EIGHT[1], EIGHT)] == [
        each.name for each in EIGHT if each is not EIGHT[1]
    ]


def test_many_servers_with_huge_catalogues_are_compared_within_bounds():
    text = "word " * 20_000
    huge = [server(f"h{n}", *(tool(f"tool_{i}", text) for i in range(2_000))) for n in range(5)]
    long = [server(f"l{n}", *(tool(f"tool_{i}", text) for i in range(20))) for n in range(20)]
    started = time.process_time()
    assert len(alike_of(*huge, *long)) == 19
    assert time.process_time() - started < 5  # generous: it takes some 100 ms


# --- what rules, profiles and pins make of it


def rules(name: str, *denied: str) -> Rules:
    config = ServerConfig(name=name, transport=Stdio(command="x"))
    return Rules(name, ToolRules(deny=denied), config.resources, config.prompts)


def seen(info: ServerInfo, policy: ServerPolicy) -> ServerInfo:
    return replace(info, catalogue=policy.shown(info.catalogue))


@pytest.mark.parametrize("profile", [False, True])
def test_what_rules_or_a_profile_hide_of_one_is_a_difference(profile):
    config = ServerConfig(name="prom-eu", transport=Stdio(command="x"))
    if profile:
        policy = NarrowedPolicy(ServerPolicy(config), lambda: rules("prom-eu", "rules"))
    else:
        policy = ServerPolicy(replace(config, tools=ToolRules(deny=("rules",))))
    narrowed = seen(EIGHT[1], policy)
    assert alike_of(EIGHT[0], narrowed) == {"prom-eu": Alike("prom-us", lacks=("rules",))}
    text = describe_tools([EIGHT[0], narrowed, EIGHT[2]], budget=PLENTY)
    assert "same tools as prom-ap: prom-us\nsame tools as prom-ap, without rules: prom-eu" in text


def test_where_most_is_hidden_of_one_it_is_alike_no_more():
    config = ServerConfig(name="prom-eu", transport=Stdio(command="x"), tools=ToolRules(allow=("query",)))
    narrowed = seen(EIGHT[1], ServerPolicy(config))
    assert alike_of(EIGHT[0], narrowed) == {}
    assert "## prom-eu\nquery(" in describe_tools([EIGHT[0], narrowed], budget=PLENTY)


def test_annotations_by_configuration_make_a_difference():
    config = ServerConfig(
        name="prom-eu", transport=Stdio(command="x"), annotations={"*": Hints(read_only_hint=True)}
    )
    assert alike_of(EIGHT[0], seen(EIGHT[1], ServerPolicy(config))) == {}


# --- search


def test_eight_clusters_take_the_place_of_one_and_the_others_are_shown():
    text, plain = search_answer([*EIGHT, *OTHERS], "query metrics over a range of time")
    heads = [line for line in text.split("\n") if line.startswith("## ")]
    assert heads[0] == "## prom-us (8 tools)"
    assert {"## loki (1 tool)", "## tempo (1 tool)"} < set(heads)
    (line,) = (line for line in text.split("\n") if line.startswith("same tools as "))
    assert set(line.removeprefix("same tools as prom-us: ").split(", ")) == {e.name for e in EIGHT[1:]}
    assert "left_out" not in plain
    assert {each["server"] for each in plain["servers"][0]["same_tools"]} == {e.name for e in EIGHT[1:]}
    assert all("same_tools" not in each for each in plain["servers"][1:])


def test_the_server_that_is_asked_for_stands_for_the_others():
    assert search_answer([*EIGHT, *OTHERS], "metrics of prom-cn")[0].startswith("## prom-cn (8 tools)\n")
    assert search_answer([*EIGHT, *OTHERS], "prom-cn.query_range")[0].startswith(
        "## prom-cn (8 tools)\nquery_r"
    )


def test_an_available_server_stands_for_one_that_is_not_and_states_are_said():
    parked = replace(EIGHT[0], state=State.PARKED, cause="gone")
    text, plain = search_answer([parked, *EIGHT[1:]], "query metrics")
    assert not text.startswith("## prom-us")
    assert "prom-us (parked)" in text
    assert {"server": "prom-us", "state": "parked"} in plain["servers"][0]["same_tools"]


def test_what_a_server_has_alone_is_found_at_that_server():
    special = cluster(
        "prom-af", tool("savanna", "Giraffes of Africa"), resource("doc://zebra", "Zebra herds")
    )
    known = [*EIGHT[:5], special]
    text, plain = search_answer(known, "giraffes, metrics")
    assert "## prom-af (9 tools" in text
    assert "savanna(): Giraffes of Africa" in text
    assert "query_range" in text
    text, _ = search_answer(known, "zebra or metrics")
    assert "resource doc://zebra (Zebra herds)" in text.split("## prom-af")[1]
    text, plain = search_answer(known, "query_range")
    first, *rest = plain["servers"]
    assert first["tools"][0]["name"] == "query_range"
    assert not any(each["name"] in NAMES for one in rest for each in one["tools"])


def test_what_is_missing_is_said_where_it_is_named():
    text, plain = search_answer([*EIGHT[:3], cluster("prom-cn", without="rules")], "alerts and rules")
    assert "same tools as prom-us, without rules: prom-cn" in text
    assert {"server": "prom-cn", "without": ("rules",)} in plain["servers"][0]["same_tools"]


def test_more_servers_than_fit_are_counted():
    many = [cluster(f"prom-{n}") for n in range(50)]
    text, plain = search_answer(many, "query metrics")
    assert text.count("prom-") < 20
    assert ", +37" in text
    assert len(plain["servers"][0]["same_tools"]) == 49


def test_where_nothing_matches_and_in_errors_the_same_tools_are_said_once():
    text, _ = search_answer([*EIGHT, *OTHERS], "xyzzy")
    assert text.count("query_range") == 1
    assert "prom-us (same on prom-eu, prom-ap, prom-cn, +4): query" in text
    hints = best_tools([*EIGHT, cluster("prom-x", without="series"), *OTHERS], "serie")
    assert [hint.partition("(")[0].partition(".")[2] for hint in hints] == ["series"]
    assert "prom-x" not in hints[0]
    assert hints[0].endswith("+4)")


# --- descriptions and listings


def test_a_description_lists_the_same_tools_once():
    lines = describe_tools([*OTHERS, *EIGHT], budget=PLENTY).split("\n")
    assert lines[0] == "## loki"
    assert lines[2] == "## prom-af"
    assert lines[-3] == "same tools as prom-af: prom-ap, prom-au, prom-cn, prom-eu, prom-me, prom-sa, prom-us"
    assert sum(line.startswith("query(") for line in lines) == 1


@pytest.mark.parametrize("state", [State.WAITING, State.PARKED, State.NEEDS_SIGN_IN])
def test_a_state_that_passes_changes_no_byte_and_one_that_lasts_is_said(state):
    now = [*EIGHT[:3], replace(EIGHT[3], state=state, cause="gone", retry_in_s=2.0)]
    for budget in (300, 500, 4000):
        assert describe(now, budget=budget) == describe(EIGHT[:4], budget=budget)
    setup = cluster("prom-zz", state=State.NEEDS_SETUP, cause="no key")
    assert "prom-us, prom-zz (needs setup)" in describe_tools([*EIGHT, setup], budget=PLENTY)


def test_another_order_changes_no_byte():
    odd = [*EIGHT, cluster("prom-zz", tool("zz")), cluster("prom-aa", without="rules"), *OTHERS]
    turned = [
        replace(each, catalogue=replace(each.catalogue, tools=dict([*each.tools.items()][::-1])))
        for each in odd[::-1]
    ]
    for budget in (300, 500, 4000):
        assert describe(turned, budget=budget) == describe(odd, budget=budget)


def test_instructions_of_each_server_stay():
    us = cluster("prom-us", instructions="Metrics of prom-us.")
    eu = cluster("prom-eu", instructions="Metrics of prom-eu.")
    cn = cluster("prom-cn", instructions="Ask before you query.")
    lines = describe_tools([us, eu, cn], budget=PLENTY).split("\n")
    assert lines[0] == "## prom-cn: Ask before you query."
    assert lines[-2:] == [
        "## prom-eu (same tools as prom-cn): Metrics of prom-eu.",
        "## prom-us (same tools as prom-cn): Metrics of prom-us.",
    ]
    lines = describe_tools([us, eu], budget=PLENTY).split("\n")
    assert (lines[0], lines[-1]) == ("## prom-eu: Metrics of prom-eu.", "same tools as prom-eu: prom-us")


def test_servers_that_are_left_out_are_counted_with_those_that_they_stand_for():
    texts = {describe_tools([*EIGHT, *OTHERS], budget=budget) for budget in range(20, 100)}
    assert {text.rpartition("\n")[2].partition(" more")[0] for text in texts if " more server" in text} == {
        "and 10",
        "and 9",
    }


def test_the_budget_is_kept_and_what_is_saved_goes_to_other_servers():
    known = [*EIGHT, *OTHERS]
    text = describe_tools(known, budget=230)
    assert "query_logs(text): Query metrics of logs" in text
    assert "query_range(text): Ask prom-af for its query_range of metrics" in text


def test_inspect_lists_them_on_one_line_with_their_states():
    waiting = replace(EIGHT[1], state=State.WAITING, cause="died", retry_in_s=4.0)
    lacking = cluster("prom-x", without="rules", instructions="Only old metrics.")
    text, plain = servers_listing([EIGHT[0], waiting, EIGHT[2], lacking, *OTHERS], room=4000)
    assert text.split("\n")[1:4] == [
        "prom-us (8 tools): alerts, labels, metadata, ...",
        "same tools as prom-us: prom-eu (waiting, retry in 4 s: died), prom-ap",
        "prom-x (same tools as prom-us, without rules): Only old metrics",
    ]
    assert text.startswith("6 servers, 33 tools. ")
    assert [each.get("same_tools") for each in plain["servers"]] == [
        None,
        {"as": "prom-us"},
        {"as": "prom-us"},
        {"as": "prom-us", "without": ("rules",)},
        None,
        None,
    ]
