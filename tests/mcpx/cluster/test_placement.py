"""Decisions: which node a session goes to, which sessions must leave, and why there is no node."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from mcpx.cluster.placement import (
    LEAST_AT_ONCE,
    MOST_AT_ONCE,
    Demand,
    Move,
    NodeView,
    Session,
    candidates,
    misfit,
    moves,
    spread,
    starts_at_once,
)

GIB = 1 << 30
MIB = 1 << 20


def node(name: str, **more: object) -> NodeView:
    known: dict[str, object] = {"memory_total": 64 * GIB, "memory_free": 60 * GIB}
    return NodeView(id=f"id-{name}", name=name, **(known | more))  # type: ignore[arg-type]


def fill(nodes: list[NodeView], demand: Demand, number: int) -> Counter[str]:
    """Place so many sessions one after the other."""
    by_id = {each.id: each for each in nodes}
    placed: Counter[str] = Counter()
    for _ in range(number):
        chosen = spread(by_id.values(), demand)
        if chosen is None:
            break
        by_id[chosen.id] = replace(
            chosen, sessions=chosen.sessions + 1, memory_free=chosen.memory_free - demand.memory
        )
        placed[chosen.name] += 1
    return placed


def test_equal_nodes_get_equal_numbers() -> None:
    placed = fill([node("a"), node("b"), node("c")], Demand(memory=70 * MIB), 300)
    assert placed == {"a": 100, "b": 100, "c": 100}


def test_a_node_with_more_memory_takes_more_in_proportion() -> None:
    small = node("small", memory_total=16 * GIB, memory_free=15 * GIB)
    placed = fill([node("large"), small], Demand(memory=70 * MIB), 1000)
    assert placed["large"] == pytest.approx(800, abs=10)


def test_memory_that_is_hardly_different_does_not_send_all_to_one_node() -> None:
    nodes = [node("a", memory_free=60 * GIB), node("b", memory_free=60 * GIB - 100 * MIB)]
    placed = fill(nodes, Demand(), 100)
    assert abs(placed["a"] - placed["b"]) <= 1


def test_a_node_keeps_some_memory_free() -> None:
    placed = fill([node("a", memory_total=GIB, memory_free=GIB)], Demand(memory=100 * MIB), 100)
    assert placed == {"a": 9}


def test_nodes_of_unknown_memory_take_sessions_by_number() -> None:
    unknown = [NodeView(id=name, name=name) for name in "ab"]
    assert fill(unknown, Demand(memory=GIB), 10) == {"a": 5, "b": 5}


def test_resources_names_and_labels_are_held() -> None:
    gpu = node("gpu", total={"GPU": 1.0}, free={"GPU": 1.0}, labels={"zone": "lab"}, host="10.0.0.7")
    nodes = [node("a"), gpu]
    for demand in (
        Demand(resources={"gpu": 1}),
        Demand(node="gpu"),
        Demand(node="id-gpu"),
        Demand(node="10.0.0.7"),
        Demand(node="zone=lab"),
    ):
        assert candidates(nodes, demand) == [gpu]
    assert not candidates(nodes, Demand(resources={"gpu": 2}))
    assert not candidates(nodes, Demand(node="zone"))


def test_a_machine_that_has_come_back_is_meant_by_its_name_while_ray_has_it_twice() -> None:
    lost = node("lab-aaaaaa", given_name="lab", is_suspect=True)
    back = node("lab-bbbbbb", given_name="lab")
    assert candidates([lost, back, node("other")], Demand(node="lab")) == [back]


def test_draining_and_suspect_nodes_take_nothing_new() -> None:
    nodes = [node("a", is_draining=True), node("b", is_suspect=True)]
    assert spread(nodes, Demand()) is None


def test_what_is_on_a_dead_node_leaves_at_once_and_on_a_drained_one_when_idle() -> None:
    nodes = {each.id: each for each in (node("a"), node("b", is_draining=True))}
    sessions = [
        Session(name="stays", node="id-a", is_busy=True),
        Session(name="idle", node="id-b"),
        Session(name="busy", node="id-b", is_busy=True),
        Session(name="lost", node="id-c", is_busy=True),
    ]
    assert moves(sessions, nodes) == [
        Move(session="idle", node="id-b", cause="draining"),
        Move(session="lost", node="id-c", cause="dead"),
    ]


@pytest.mark.parametrize(
    ("nodes", "demand", "reason"),
    [
        ([], Demand(), "the cluster has no node"),
        ([node("a")], Demand(node="x"), "no node is called x"),
        ([node("a")], Demand(resources={"gpu": 1}), "no node has gpu: 1"),
        ([node("a")], Demand(memory=100 * GIB), "no node has 102400 MB of memory"),
        ([node("a", is_suspect=True)], Demand(), "a is not answering"),
        ([node("a", is_draining=True)], Demand(), "a is being drained"),
        (
            [node("a", total={"GPU": 1.0}, free={"GPU": 0.0})],
            Demand(resources={"gpu": 1}),
            "gpu: 1 is in use on a",
        ),
        ([node("a", memory_free=GIB), node("b", memory_free=0)], Demand(), "a, b are out of memory"),
    ],
)
def test_the_reason_says_what_is_lacking(nodes: list[NodeView], demand: Demand, reason: str) -> None:
    assert not candidates(nodes, demand)
    assert misfit(nodes, demand) == reason


def test_a_gateway_starts_as_many_at_a_time_as_the_nodes_can_within_bounds() -> None:
    assert starts_at_once([]) == starts_at_once([node("a")]) == LEAST_AT_ONCE
    many = [node(str(number), cpus=16) for number in range(4)]
    assert starts_at_once(many) == 4 * 64
    assert starts_at_once([*many, node("drained", is_draining=True), node("lost", is_suspect=True)]) == 4 * 64
    assert starts_at_once([node(str(number)) for number in range(1000)]) == MOST_AT_ONCE
