"""Which children start now, where a supervisor limits how many start at the same time.

Read by `Supervisor` whenever a child's state or priority has changed. Decides only; nothing here waits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Final

from supervisors.lifecycle import Phase
from supervisors.managed_child import ManagedChild

FIRST_RANK: Final = 0
CROWD: Final = 64  # pending children; a look at a thousand takes a millisecond, and each has several events
LOOK_PAUSE_S: Final = 50e-6  # after such a look, for each child that was looked at
Limit = int | Callable[[], int]


class Starts:
    """The children of one supervisor: those whose starts are this machine's work, and those of others.

    The ones do not count for the limit of the others.
    """

    def __init__(self, here: Limit | None, elsewhere: Limit | None, slow_after: float) -> None:
        self._here = StartLimit(here, slow_after)
        self._elsewhere = StartLimit(elsewhere, slow_after)

    def admit(self, children: Iterable[ManagedChild], now: float) -> tuple[list[ManagedChild], float | None]:
        """Return what may start of the pending children, and when to ask again; see `StartLimit.admit`."""
        starting = [child for child in children if child.state.phase is Phase.STARTING]
        remote = [child for child in starting if child.spec.starts_elsewhere]
        if not remote:
            return self._here.admit(starting, now)
        local = [child for child in starting if not child.spec.starts_elsewhere]
        admitted, again_at = self._here.admit(local, now)
        more, more_at = self._elsewhere.admit(remote, now)
        return admitted + more, min((at for at in (again_at, more_at) if at is not None), default=None)


class StartLimit:
    """At most `limit` starts at the same time, or what it gives at the moment; None is no limit.

    A start that takes longer than `slow_after` seconds no longer counts: it waits for something other than
    the processor. With `by_priority` the children with the lowest priority go first, else the oldest; no
    priority is below `FIRST_RANK`.
    """

    def __init__(
        self, limit: Limit | None, slow_after: float = math.inf, *, by_priority: bool = True
    ) -> None:
        self._limit = limit
        self._slow_after = slow_after
        self._by_priority = by_priority
        self._next_look_at = -math.inf

    def admit(self, children: Iterable[ManagedChild], now: float) -> tuple[list[ManagedChild], float | None]:
        """Return what may start of the pending children, and when to ask again, if time lets others.

        Where a whole crowd had to be looked through, the next look is not at once.
        """
        if now < self._next_look_at:
            return [], self._next_look_at
        starting = [child for child in children if child.state.phase is Phase.STARTING]
        pending = [child for child in starting if child.pending is not None]
        if self._limit is None or not pending:
            return pending, None
        counted = [
            child for child in starting if child.pending is None and child.spawned_at > now - self._slow_after
        ]
        limit = self._limit if isinstance(self._limit, int) else self._limit()
        admitted, looked = self._first_of(pending, [self._rank(each) for each in counted], limit)
        left = len(pending) - len(admitted)
        first = min((child.spawned_at for child in counted), default=now) + self._slow_after
        again_at = first if left and first < math.inf else None
        if left and looked > CROWD:
            again_at = self._next_look_at = now + LOOK_PAUSE_S * looked
        return admitted, again_at

    def _first_of(
        self, pending: list[ManagedChild], starting: list[int], limit: int
    ) -> tuple[list[ManagedChild], int]:
        """Return what may start of the pending children, and how many were looked at for that.

        Nothing goes before rank 0. So when the first of that rank have taken all places, or there are none
        left for it, the others need not be looked at: thousands may wait.
        """
        places = limit - starting.count(FIRST_RANK)
        if places <= 0:
            return [], 0
        ranked: list[tuple[int, ManagedChild]] = []
        firsts: list[ManagedChild] = []
        for child in pending:
            ranked.append((rank := self._rank(child), child))
            if rank == FIRST_RANK:
                firsts.append(child)
                if len(firsts) == places:
                    return firsts, len(ranked)
        ranked.sort(key=itemgetter(0))
        count = may_start([rank for rank, _ in ranked], starting, limit)
        return [child for _, child in ranked[:count]], len(ranked)

    def _rank(self, child: ManagedChild) -> int:
        return child.spec.priority() if self._by_priority else 0


def may_start(pending: Sequence[int], starting: Sequence[int], limit: int) -> int:
    """Return how many children may start beside those that are starting, by their priorities.

    `pending` is in the order in which they start: the lowest first. Each needs fewer than `limit` that are
    starting with its priority or a lower one, so that none is held back by those that matter less.
    """
    for number, rank in enumerate(pending):
        if number + sum(1 for other in starting if other <= rank) >= limit:
            return number
    return len(pending)
