"""What a series of losses has shown, as a table, and where it falls short of what MCPX promises."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from tests.cluster.kills.plays import Drain, GatewayKill
from tests.cluster.kills.tally import Call, Loss, Tally

KNOWN_S = 2.0  # callers know that a node is lost
ELSEWHERE_S = 10.0  # its servers answer on another
Row = tuple[str, str, str]


class Seen:
    """All that was played. `take` judges it. `far` is the number of nodes on which servers run.

    Callers are to know within `known_s` seconds that a node is lost, which takes longer on a busy machine.
    """

    def __init__(self, far: int, known_s: float = KNOWN_S) -> None:
        self._far = far
        self._known_s = known_s
        self.placed: list[tuple[str, str, str, str]] = []
        self.gateways: list[GatewayKill] = []
        self.drains: list[Drain] = []
        self.added: tuple[int, int, float] | None = None
        self.faults: list[str] = []
        self.rows: list[Row] = []
        self.why: Counter[str] = Counter()
        """Why calls were not sent."""

    def take(self, tally: Tally, losses: Sequence[Loss], deaths: dict[str, float]) -> None:
        """Judge what the tally has beside what was lost; `deaths` are those that Ray's table has shown."""
        self.faults += tally.faults()
        told = Counter(call.told for call in tally.calls)
        words = ", ".join(f"{number} {word}" for word, number in told.most_common())
        self.rows.append(("calls, and what they were told", str(len(tally.calls)), words))
        self.why = Counter(_cause(call) for call in tally.calls if call.told == "not_sent")
        runs = tally.runs()
        twice = sum(len(pids) > 1 for pids in runs.values())
        self.rows.append(("calls that ran twice", str(twice), f"of {len(runs)} that ran"))
        for session, *where in self.placed:
            if len(set(where)) != 1:
                self.faults.append(f"{session}: Ray, the gateway, the process's parents say {where}")
        if len(at := {where[1] for where in self.placed}) < min(self._far, len(self.placed)):
            self.faults.append(f"servers that are kept apart are on {at}")
        self._judge_losses(tally, losses, deaths)
        self._judge_others()

    def _judge_losses(self, tally: Tally, losses: Sequence[Loss], deaths: dict[str, float]) -> None:
        known = tally.known_after(losses)
        self.faults += [
            f"the caller of {call.name} knew after {after:.2f} s that {loss.node} was {loss.how}"
            for call, loss, after in known
            if after > self._known_s
        ]
        elsewhere: list[float] = []
        for loss in losses:
            for session, after in tally.elsewhere_after(loss).items():
                if after is None or after > ELSEWHERE_S:
                    self.faults.append(f"{session} after {loss.node} was {loss.how}: elsewhere {after} s")
                if after is not None:
                    elsewhere.append(after)
        if losses:
            how = Counter(loss.how for loss in losses)
            words = ", ".join(f"{number} {word}" for word, number in how.most_common())
            self.rows.append(("nodes lost in the middle of calls", str(len(losses)), words))
            self.rows.append(("callers in flight knew", *_distribution([after for _, _, after in known])))
            self.rows.append(("the same server answered elsewhere", *_distribution(elsewhere)))
        ray = [deaths[loss.id] - loss.at for loss in losses if loss.id in deaths and loss.how == "killed"]
        if ray:
            self.rows.append(("Ray's own table showed the death", *_distribution(ray)))

    def _judge_others(self) -> None:
        if self.gateways:
            self.faults += [odd for each in self.gateways for odd in each.odd]
            after = [each.answered_after for each in self.gateways]
            self.rows.append(
                ("gateway killed: all servers answered again, in the same processes", *_distribution(after))
            )
        if self.drains:
            self.faults += [odd for each in self.drains for odd in each.odd]
            calls, moved = sum(each.calls for each in self.drains), sum(each.moved for each in self.drains)
            worse = sum(bool(each.odd) for each in self.drains)
            number, took = _distribution([each.took for each in self.drains])
            words = (
                f"{calls} calls meanwhile, {moved} sessions moved, {worse} with a call lost or a session left"
            )
            self.rows.append(("nodes drained under load", number, f"{took}; {words}"))
        if self.added is not None:
            got, of, up = self.added
            self.rows.append(
                ("a node added: new sessions that it got", f"{got} of {of}", f"it was up after {up:.1f} s")
            )
            if not got:
                self.faults.append("a node that was added got no session")

    def as_text(self) -> str:
        """The rows, for a terminal."""
        lines = [f"{what:66} {number:>8}  {more}" for what, number, more in self.rows]
        return "\n".join(lines + [f"{number:6} not sent: {why}" for why, number in self.why.most_common(8)])

    def as_markdown(self) -> str:
        """The rows, for the documentation."""
        return "\n".join(["| what | number | how |", "|---|---|---|", *map(_line, self.rows)]) + "\n"


def _cause(call: Call) -> str:
    """The beginning of what was said, without what differs from call to call."""
    text = call.more.partition("'text': ")[2] or call.more
    return re.sub(r"[0-9][0-9.]*", "N", text)[:160]


def _line(row: Row) -> str:
    return f"| {' | '.join(row)} |"


def _distribution(seconds: list[float]) -> tuple[str, str]:
    """How many, and how they are distributed."""
    if not seconds:
        return "0", ""
    ordered = sorted(seconds)
    at = [ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.95)]
    return str(len(ordered)), f"p50 {at[0]:.2f} s, p95 {at[1]:.2f} s, longest {ordered[-1]:.2f} s"
