"""How long a node may be silent before it is given up."""

from __future__ import annotations

from msgspec.structs import replace

from mcpx.cluster.node.protocol import NodeReport
from mcpx.cluster.node_watch import MAX_SILENCE_S, SILENCE_S, Patience


def answers(patience: Patience, *seconds: float) -> float:
    """What is allowed after pings that were answered after so long, one after the other."""
    for number, each in enumerate(seconds):
        patience.pinged(number, 100.0 * number)
        patience.answered(number, 100.0 * number + each)
    return patience.allowed_s


def test_a_node_that_answers_at_once_has_the_usual_time() -> None:
    assert Patience().allowed_s == SILENCE_S
    assert answers(Patience(), 0.001, 0.4, 0.002) == SILENCE_S


def test_one_that_gets_slower_has_more_and_never_too_much() -> None:
    assert answers(Patience(), 0.5, 1.0) == 3.0
    assert answers(Patience(), 60.0) == MAX_SILENCE_S


def test_one_on_a_crowded_machine_has_more() -> None:
    patience = Patience()
    report = NodeReport(name="a", pid=1, version="1", uptime_s=1.0, connections=0, cpus=2)
    for load, allowed in ((None, SILENCE_S), (8.0, SILENCE_S), (16.0, 2 * SILENCE_S), (500.0, MAX_SILENCE_S)):
        patience.heard(replace(report, load=load))
        assert patience.allowed_s == allowed


def test_what_was_slow_once_is_forgotten() -> None:
    assert answers(Patience(), 3.0, *[0.001] * 20) == SILENCE_S


def test_an_answer_to_nothing_says_nothing() -> None:
    patience = Patience()
    patience.answered(7, 1e9)
    patience.pinged(1, 0.0)
    patience.answered(1, 0.01)
    patience.answered(1, 1e9)
    assert patience.allowed_s == SILENCE_S
