"""Which of many pending children may start: as by ranking all of them, and without asking all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter

from hypothesis import given
from hypothesis import strategies as st

from supervisors import ChildSpec
from supervisors.lifecycle import ChildState, Phase
from supervisors.starts import StartLimit, Starts, may_start


@dataclass(eq=False)
class Child:
    """What the limit reads of a `ManagedChild`, which itself cannot be without an event loop."""

    spec: ChildSpec
    state: ChildState
    pending: int | None
    spawned_at: float = 10.0


async def never_run(_incarnation: object) -> None:
    raise AssertionError


def child(
    name: str, rank: Callable[[], int] = lambda: 0, *, runs: bool = False, elsewhere: bool = False
) -> Child:
    """A child that is starting: its process runs already, or it is held back."""
    spec = ChildSpec(name=name, run=never_run, priority=rank, starts_elsewhere=elsewhere)
    state = ChildState(child=name, policy=spec.policy, phase=Phase.STARTING)
    return Child(spec, state, pending=None if runs else 1)


ranks = st.lists(st.integers(0, 3), max_size=12)


@given(waiting=ranks, running=ranks, limit=st.integers(1, 6))
def test_those_start_that_ranking_all_of_them_gives(
    waiting: list[int], running: list[int], limit: int
) -> None:
    held = [
        child(f"held-{number}", lambda rank=rank: rank, runs=False) for number, rank in enumerate(waiting)
    ]
    run = [child(f"run-{number}", lambda rank=rank: rank, runs=True) for number, rank in enumerate(running)]
    ranked = sorted(((each.spec.priority(), each) for each in held), key=itemgetter(0))
    count = may_start([rank for rank, _ in ranked], running, limit)
    admitted, again_at = StartLimit(limit, 20.0).admit([*run, *held], now=11.0)
    assert admitted == [each for _, each in ranked[:count]]
    later = 30.0 if running else 31.0
    assert again_at == (later if held and count < len(held) else None)


def test_thousands_that_wait_are_not_asked_for_their_rank_at_each_start() -> None:
    asked = 0

    def first() -> int:
        nonlocal asked
        asked += 1
        return 0

    held = [child(f"held-{number}", first, runs=False) for number in range(5000)]
    run = [child(f"run-{number}", first, runs=True) for number in range(8)]
    limit = StartLimit(8, 20.0)
    assert limit.admit([*run, *held], now=11.0)[0] == []
    assert limit.admit([*run[1:], *held], now=11.0)[0] == held[:1]
    assert asked < 30


def test_where_all_had_to_be_looked_at_the_next_look_is_a_little_later() -> None:
    held = [child(f"held-{number}", lambda: 3, runs=False) for number in range(1000)]
    limit = StartLimit(1, 20.0)
    assert limit.admit(held, now=11.0) == (held[:1], 11.05)
    held[0].pending = None  # it has been started, and failed at once
    assert limit.admit(held[1:], now=11.04) == ([], 11.05)
    assert limit.admit(held[1:], now=11.05)[0] == held[1:2]


def test_starts_elsewhere_take_no_place_here_and_have_a_limit_of_their_own_that_may_change() -> None:
    remote = [child(f"remote-{number}", elsewhere=True) for number in range(5)]
    local = [child(f"local-{number}") for number in range(3)]
    allowed = 2
    starts = Starts(1, lambda: allowed, 20.0)
    assert starts.admit([*remote, *local], now=11.0)[0] == [local[0], *remote[:2]]
    for each in (local[0], *remote[:2]):
        each.pending = None
    assert starts.admit([*remote, *local], now=12.0) == ([], 30.0)
    allowed = 4
    assert starts.admit([*remote, *local], now=12.0)[0] == remote[2:4]
