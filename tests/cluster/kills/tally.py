"""What clients were told of their calls, beside what the servers have counted, and what follows from both.

A call has an id of its own, which its server writes down, with its own process, before it does anything.
`Tally.faults` says where the two do not fit; `known_after` and `elsewhere_after` are the times that a loss
took: until the callers in flight knew, and until the same server answered in another process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec

HONEST = frozenset({"done", "unknown", "not_sent"})


class Call(msgspec.Struct):
    """One call. Times are of the clock on the wall, `told` is `done` or an outcome."""

    name: str
    session: str
    """The server, with the client where each has a process of its own."""
    sent: float
    told_at: float = 0.0
    told: str = ""
    more: str = ""
    pid: int = 0
    """The process that has answered."""


class Loss(msgspec.Struct):
    """A node that was lost. `pids` are all its processes."""

    node: str
    id: str
    how: str
    at: float
    pids: frozenset[int]


class Tally:
    """All calls."""

    def __init__(self, counted: Path) -> None:
        self._counted = counted
        self.calls: list[Call] = []

    def runs(self) -> dict[str, list[int]]:
        """The processes in which each call has run."""
        found: dict[str, list[int]] = defaultdict(list)
        for line in self._counted.read_text().splitlines():
            name, pid = line.split()
            found[name].append(int(pid))
        return found

    def faults(self) -> list[str]:
        """Where what was told does not fit what was counted, or is nothing that may be told."""
        runs, found = self.runs(), []
        for call in self.calls:
            times = len(runs.get(call.name, ()))
            if times > 1:
                found.append(f"{call.name} ran {times} times")
            if call.told == "done" and times != 1:
                found.append(f"{call.name} was answered, and ran {times} times")
            if call.told == "not_sent" and times:
                found.append(f"{call.name} was not sent, and ran: {call.more}")
            if call.told not in HONEST:
                found.append(f"{call.name} on {call.session}: {call.told} {call.more}")
        return found

    def pids(self, before: float) -> dict[str, int]:
        """The process of each session, as of the last answer before that time."""
        done = [call for call in self.calls if call.told == "done" and call.told_at < before]
        return {call.session: call.pid for call in sorted(done, key=lambda call: call.told_at)}

    def told_between(self, begin: float, end: float) -> list[Call]:
        """The calls that were in flight between these times."""
        return [call for call in self.calls if call.told_at > begin and call.sent < end]

    def known_after(self, losses: Sequence[Loss]) -> list[tuple[Call, Loss, float]]:
        """The calls whose outcome is unknown by a loss, and how long their callers have not known of it.

        It is the loss of the process in which a call ran, or for one that never did the last before its end.
        """
        runs, found = self.runs(), []
        for call in self.calls:
            pids = set(runs.get(call.name, ()))
            before = [loss for loss in losses if loss.at < call.told_at]
            cause = [loss for loss in before if pids & loss.pids] if pids else before
            if call.told == "unknown" and cause:
                loss = max(cause, key=lambda loss: loss.at)
                found.append((call, loss, call.told_at - max(loss.at, call.sent)))
        return found

    def elsewhere_after(self, loss: Loss) -> dict[str, float | None]:
        """By session that was there: how long until another process has answered; None for never."""
        here = {name: pid for name, pid in self.pids(loss.at).items() if pid in loss.pids}
        found: dict[str, float | None] = {}
        for name in here:
            answered = [
                call.told_at - loss.at
                for call in self.calls
                if call.session == name
                and call.told == "done"
                and call.sent > loss.at
                and (loss.how == "killed" or call.pid not in loss.pids)  # ids of processes come again
            ]
            found[name] = min(answered, default=None)
        return found
