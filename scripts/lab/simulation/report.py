"""The figures of a simulation: tables for a person to read, and the same as Markdown for docs/scale.md."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.lab.simulation.figures import Figures, Recovery, median, quantile
from scripts.lab.simulation.scenarios import Herd, Spare
from scripts.lab.simulation.world import World

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def day_table(world: World, figures: Figures) -> Table:
    """A row for each thing that the day showed."""
    single = [each for each in figures.recoveries if each.nodes == 1]
    racks = [each for each in figures.recoveries if each.nodes > 1]
    decisions = figures.decisions_s
    each_s = sum(decisions) / len(decisions) if decisions else 0.0
    rows = [
        ("nodes, people, gateways", f"{world.nodes:,}, {world.people:,}, {world.gateways}"),
        ("sessions opened; most at a time", f"{figures.opened:,}; {figures.peak_sessions:,}"),
        ("placed; of them again, after a death or for a drain", f"{figures.placed:,}; {figures.again:,}"),
        (
            "processor time of a decision, p50 and p99",
            f"{_ms(quantile(decisions, 0.5))}, {_ms(quantile(decisions, 0.99))}",
        ),
        ("decisions a second of one processor", f"{1 / each_s:,.0f}" if each_s else "-"),
        ("refused because there was no room", f"{figures.refused:,}"),
        ("placed on a node that was dead, before that was known", f"{figures.to_the_dead:,}"),
        ("memory in use at the peak, of all there is", f"{figures.peak_used:.0%}"),
        ("the fullest node to the mean, at the peak", f"{figures.peak_balance:.2f}"),
        ("the fullest that any node was", f"{figures.fullest:.0%}"),
        ("from being needed to the first answer, p50 and p99", _both(figures.waits, 0.5, 0.99)),
        ("later than a call waits", f"{figures.late:,}"),
        *_deaths("a node", single),
        *_deaths(f"a rack of {world.rack}", racks),
        ("a drained node was empty after, median and most", _most(figures.drained_s)),
        ("promises broken", f"{figures.broken:,}"),
    ]
    return ("a day", "simulated"), rows


def _deaths(what: str, deaths: list[Recovery]) -> list[tuple[str, str]]:
    if not deaths:
        return []
    lost = [each.lost for each in deaths]
    in_call = [each.in_call for each in deaths]
    run = [each.placed_s for each in deaths]
    return [
        (f"{what} dies, {len(deaths)} times: sessions lost, median and most", _numbers(lost)),
        ("of them with a call in flight (`unknown`)", _numbers(in_call)),
        ("from the death until all ran again elsewhere", _most(run)),
        ("of them later than a call waits", f"{sum(each.late for each in deaths):,}"),
    ]


def herd_table(world: World, herds: Sequence[Herd], within_s: float) -> Table:
    """A row for each limit of starts."""
    best = world.nodes * world.starts_per_s
    head = (
        "starts of each gateway at a time",
        f"sessions wanted within {within_s:.0f} s",
        "all ran after",
        f"nodes alone ({best:,.0f} starts a second)",
        "wait, p50",
        "p99",
        "later than a call waits",
    )
    rows = [
        (
            f"{each.max_starting:,}" if each.max_starting else "as MCPX has it",
            f"{each.sessions:,}",
            f"{each.all_up_s:.0f} s",
            f"{max(within_s, each.sessions / best):.0f} s",
            f"{each.figures.wait(0.5):.1f} s",
            f"{each.figures.wait(0.99):.1f} s",
            f"{each.figures.late:,}",
        )
        for each in herds
    ]
    return head, rows


def spare_table(spares: Sequence[tuple[int, Spare]]) -> Table:
    """A row for each number of gateways and share of memory to spare."""
    head = (
        "gateways",
        "to spare",
        "sessions",
        "lost with a rack",
        "refused",
        "fullest node",
        "nodes too full",
    )
    rows = [
        (
            str(gateways),
            f"{each.spare:.0%}",
            f"{each.sessions:,}",
            f"{each.lost:,}",
            f"{each.refused:,}",
            f"{each.figures.fullest:.1%}",
            f"{each.figures.too_full:,}",
        )
        for gateways, each in spares
    ]
    return head, rows


def markdown(table: Table) -> str:
    """A table as the page has it: the first column to the left, the others to the right."""
    head, rows = table
    rule = "|---|" + "---:|" * (len(head) - 1)
    return "\n".join([_line(head), rule, *map(_line, rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


def _both(values: list[float], *shares: float) -> str:
    return ", ".join(f"{quantile(values, share):.1f} s" for share in shares)


def _most(values: list[float]) -> str:
    return f"{median(values):.0f} s, {max(values, default=0.0):.0f} s"


def _numbers(values: list[int]) -> str:
    return f"{median([float(value) for value in values]):,.0f}, {max(values):,}"
