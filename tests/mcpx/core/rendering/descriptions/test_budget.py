from __future__ import annotations

import re
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpx.core.catalog.snapshot import State
from mcpx.core.rendering.descriptions import describe, describe_resources, describe_tools
from mcpx.core.rendering.tokens import estimate
from tests import tokens
from tests.mcpx.core.rendering.snapshots import corpus, resource, server, template, tool

SMALL = server(
    "small", *(tool(f"s{i}", "Does a small thing", "a") for i in range(3)), instructions="Say so. " * 30
)
LARGE = server(
    "large", *(tool(f"l{i}", "Does a large thing", "a") for i in range(30)), instructions="Say it. " * 30
)
HINT = "inspect(server_name) shows all tools"


def total(made):
    return estimate(made.inspect) + estimate(made.exec) + estimate(made.resources)


def names_of(line):
    return line.split(", " if ", " in line else " ")


def shown_tools(text):
    """The tool names that a listing shows, by server; of a server with a count alone, none."""
    found = {}
    for block in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        head, *lines = block.rstrip("\n").split("\n")
        parts = [part for line in lines for part in ([line] if "(" in line else names_of(line))]
        found[re.split(r"[:(]", head)[0].strip()] = {part.partition("(")[0] for part in parts}
    return found


def rung(text, name):
    """How fully a listing shows a server: 0 is whole, 5 is a count."""
    block = re.search(rf"^## {name}\b[^\n]*(\n(?!## )[^\n]*)*", text, flags=re.MULTILINE).group()
    head, *lines = block.split("\n")
    if not lines:
        return 5
    if "(" not in lines[0]:
        told = len(head.partition(": ")[2])
        return 2 if told > 150 else 3 if told else 4
    return 0 if "): " in lines[0] else 1


def test_with_room_enough_nothing_is_shortened_and_no_hint_is_given():
    text = describe_tools([SMALL, LARGE], budget=4000)
    assert (rung(text, "small"), rung(text, "large")) == (0, 0)
    assert HINT not in text


def test_a_listing_that_fits_exactly_is_not_shortened():
    whole = describe_tools([SMALL, LARGE], budget=4000)
    exact = sum(estimate(block) + 1 for block in re.split(r"\n(?=## )", whole))
    assert describe_tools([SMALL, LARGE], budget=exact) == whole
    assert describe_tools([SMALL, LARGE], budget=exact - 1) != whole


def test_servers_step_down_one_rung_at_a_time_the_largest_first():
    seen = []
    for budget in range(700, 20, -1):
        text = describe_tools([SMALL, LARGE], budget=budget)
        if "more server" in text or not text:
            break
        step = (rung(text, "small"), rung(text, "large"))
        if not seen or seen[-1] != step:
            seen.append(step)
    assert seen == [(k // 2, (k + 1) // 2) for k in range(len(seen))]
    assert seen[-1] == (5, 5)


def test_a_shortened_list_says_how_to_see_the_rest():
    assert HINT in describe_tools([SMALL, LARGE], budget=300)


def test_a_smaller_budget_never_shows_more():
    lengths = [len(describe_tools([LARGE, SMALL], budget=budget)) for budget in range(100, 900, 50)]
    assert len(set(lengths)) > 4
    assert all(shorter <= longer for shorter, longer in pairwise(lengths))


def test_two_thousand_servers_are_cut_with_a_count_that_is_right():
    servers = [server(f"server-{i}", *(tool(f"t{i}_{j}") for j in range(20))) for i in range(2000)]
    text = describe(servers, budget=4000).inspect
    more = int(re.search(r"and ([\d,]+) more servers: inspect\(", text).group(1).replace(",", ""))
    shown = re.findall(r"^## server-\d+: 20 tools$", text, flags=re.MULTILINE)
    assert len(shown) + more == 2000
    assert len(shown) > 200
    assert "\n## server-0: 20 tools\n## server-1: 20 tools\n" in text
    assert len(text.partition("\nTools by server")[0]) <= 1000


def test_one_server_with_more_tools_than_tokens_is_shown_as_a_count():
    text = describe_tools([server("big", *(tool(f"t{i}") for i in range(5000)))], budget=1000)
    assert text.endswith("## big: 5,000 tools")


@pytest.mark.parametrize("tools", [300, 700, 800, 900, 2000, 9000])
def test_a_server_with_very_many_tools_steps_down_alone(tools):
    others = [server(f"s{i}", *(tool(f"a_{i}_{j}", "Does it", "a") for j in range(5))) for i in range(12)]
    big = server("big", *(tool(f"one_of_many_tools_{i}", "Does it") for i in range(tools)))
    text = describe_tools([*others[:6], big, *others[6:]], budget=4000)
    assert {rung(text, one.name) for one in others} == {0}
    assert rung(text, "big") == (5 if tools > 400 else 1)


def test_a_server_with_a_monstrous_name_steps_down_alone():
    others = [server(f"s{i}", tool(f"a_{i}", "Does it", "a")) for i in range(5)]
    text = describe_tools([server("evil", tool("x" * 200_000)), *others], budget=4000)
    assert {rung(text, one.name) for one in others} == {0}
    assert "\n## evil: 1 tool\n" in text


def test_a_server_with_monstrous_resources_steps_down_alone():
    docs = server("docs", resource("f:///guide", "Guide", description="How to start"))
    evil = server("evil", *(resource(f"f:///{i}" + "x" * 300) for i in range(5000)))
    text = describe_resources([evil, docs], budget=1000)
    assert "\n## evil: 5,000 resources\n" in text
    assert text.endswith("\nf:///guide (Guide): How to start")


def test_the_work_of_a_listing_follows_the_budget_and_not_the_catalogue():
    words = "word " * 20_000
    huge = [
        server(f"h{i}", *(tool(f"tool_{j}", words) for j in range(10_000)), instructions=words)
        for i in range(5)
    ]
    started = time.perf_counter()
    describe(huge, budget=4000)
    assert time.perf_counter() - started < 2  # generous: it takes some 20 ms; reading all takes a minute


def test_a_count_shows_no_momentary_state():
    big = server("big", *(tool(f"t{i}") for i in range(500)), state=State.PARKED, cause="no such command")
    assert describe_tools([big], budget=200).endswith("## big: 500 tools")
    off = server("off", state=State.NEEDS_SETUP, listed=False)
    assert "\n## off (needs setup)\n" in describe_tools([big, off, server("on", tool("t"))], budget=100)


def test_resources_lose_descriptions_then_facts_then_lines():
    docs = [resource(f"f:///{i}", "n", size=5, description="About it. " * 20) for i in range(10)]
    known = [server("docs", *docs, template("f:///{x}", "any"))]
    steps = [describe_resources(known, budget=budget) for budget in (900, 500, 200, 120, 60)]
    assert "About it. " * 19 in steps[0]
    assert "About it." in steps[1]
    assert "..." in steps[1]
    assert "f:///9 (n, 5 B)\n" in steps[2]
    assert "f:///9 (n)\n" in steps[3]
    assert steps[4].endswith("## docs: 10 resources, 1 template, e.g. f:///0")
    assert all("Shortened to fit" in text for text in steps[1:])


def test_resources_are_sure_of_a_quarter_when_tools_want_everything():
    docs = [resource(f"f:///{i}", f"page {i}", description="Some words about it") for i in range(500)]
    busy = [server(f"s{i}", *(tool(f"a_tool_{i}_{j}", "Does it") for j in range(10))) for i in range(60)]
    small = [server("docs", *docs[:20])]
    made = describe([*busy, *small], budget=4000)
    assert "f:///19 (page 19): Some words about it" in made.resources
    assert total(made) <= 4000


def test_resources_take_what_the_tools_leave():
    docs = [resource(f"f:///{i}", f"page {i}", description="Some words about it") for i in range(150)]
    made = describe([server("docs", *docs)], budget=4000)
    assert "f:///149 (page 149): Some words about it" in made.resources
    assert estimate(made.resources) > 1500


@pytest.mark.parametrize("budget", [0, 1, 100, 250])
def test_a_budget_that_is_too_small_leaves_the_fixed_sentences(budget):
    made = describe([SMALL, LARGE], budget=budget)
    assert "inspect(server_name)" in made.inspect
    assert total(made) < 300


words = st.text(alphabet="abcdefgXYZ_- .\n高血压é😀0123", max_size=120)
names = st.text(alphabet="abcXY_-9 工\n", min_size=1, max_size=20)
tools = st.builds(
    tool, names, words, st.sampled_from(["", "a", "path id"]), st.sampled_from(["", "limit cursor"])
)
resources = st.builds(resource, names, names, description=words, size=st.none() | st.integers(0, 10**9))
templates = st.builds(template, names, names, description=words)
states = st.sampled_from(State)
servers = st.builds(
    lambda name, offered, times, state, instructions: server(
        name,
        *offered,
        *(tool(f"{name}{i}", "Does a thing") for i in range(times)),
        state=state,
        cause=instructions,
        instructions=instructions,
    ),
    names,
    st.lists(tools | resources | templates, max_size=12),
    st.sampled_from([0, 0, 3, 80]),
    states,
    words.map(lambda text: text * 5),
)


@settings(deadline=None)  # a machine that is busy is no failure
@given(
    st.lists(servers, max_size=12, unique_by=lambda info: info.name),
    st.sampled_from([1, 1, 1, 30]),
    st.integers(600, 5000),
)
def test_any_catalogue_stays_within_any_budget(known, times, budget):
    assert total(describe(known * times, budget=budget)) <= budget


def real_total(made):
    counts = tokens.count([made.inspect, made.exec, made.resources])
    return {encoding: sum(numbers) for encoding, numbers in counts.items()}


@pytest.mark.corpus
@pytest.mark.parametrize("instructions", [None, "Call search first and then fetch. " * 12])
def test_the_corpus_fits_4000_real_tokens_with_every_tool_name(instructions):
    known = corpus(instructions)
    made = describe(known, budget=4000)
    assert all(number < 4000 for number in real_total(made).values())
    assert shown_tools(made.inspect) == {one.name: set(one.tools) for one in known}
    assert sum(map(len, shown_tools(made.inspect).values())) == 527


@pytest.mark.corpus
@pytest.mark.parametrize("budget", [500, 1000, 2000, 4000, 8000, 16000])
@pytest.mark.parametrize("instructions", [None, "Call search first and then fetch. " * 12])
def test_every_budget_holds_in_real_tokens(budget, instructions):
    made = describe(corpus(instructions), budget=budget)
    assert all(number <= budget for number in real_total(made).values())


@pytest.mark.corpus
@pytest.mark.parametrize("first", range(0, 70, 5))
def test_five_servers_show_every_summary(first):
    known = corpus()[first : first + 5]
    made = describe(known, budget=4000)
    described = [item for one in known for item in one.tools.values() if item.description]
    assert described
    assert made.inspect.count("): ") >= len(described)
    assert HINT not in made.inspect
