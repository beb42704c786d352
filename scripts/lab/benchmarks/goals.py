"""The figures as ratios, and what they must show: pure.

A ratio of two targets is the median of the rounds' own ratios, so that both sides of it had the same minute
of a noisy machine. A goal whose part of the run was left out is left out too.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from measure_cluster import ATTACH, CLUSTER, HTTP
from targets import COMPRESSOR, DIRECT, FASTMCP, MCPX, NATIVE, RULED, UNAUDITED

IDLE_MB = 75
FIRST_CALL_MS = 50  # beyond the server's own start
ATTACH_MS = {"cold": 150, "warm": 100}  # from the start of a shim to the tools
SHIM_MB = 17
CLUSTER_MS = 1  # beyond a peer that was set up by hand
PAGE_PERCENT = 2  # of a core
NO_MORE = 1.05  # equal, but for the noise
MB = 1_000_000  # of memory and of payloads alike


@dataclass(frozen=True)
class Goal:
    """One row of the verdict. `at_most` tells on which side of `limit` the value must be."""

    measure: str
    value: float
    limit: float
    at_most: bool = True

    @property
    def holds(self) -> bool:
        """Whether the target is met."""
        return self.value <= self.limit if self.at_most else self.value >= self.limit


def ratio(over: list[float], under: list[float]) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def goals(figures: dict) -> list[Goal]:
    """What the run must show, as far as it was measured."""
    found: list[Goal] = []
    if calls := figures.get("calls"):
        ours = calls[MCPX]
        for peer, most, least in ((COMPRESSOR, 1.0, 1.5), (FASTMCP, 0.3, 12.0)):
            if (theirs := calls.get(peer)) is None:
                continue
            found += [
                Goal(f"exec, 1 in flight, p50, to {peer}", ratio(ours["p50_ms"], theirs["p50_ms"]), most),
                Goal(
                    f"exec, 32 in flight, rate, to {peer}",
                    ratio(ours["per_s"], theirs["per_s"]),
                    least,
                    at_most=False,
                ),
            ]
        if native := calls.get(NATIVE):
            found += [
                Goal("native, 1 in flight, p50, to exec", ratio(native["p50_ms"], ours["p50_ms"]), NO_MORE),
                Goal(
                    "native, 32 in flight, rate, to exec",
                    ratio(native["per_s"], ours["per_s"]),
                    1 / NO_MORE,
                    at_most=False,
                ),
            ]
        found += _of_trust(calls)
    if large := figures.get("large"):
        share = large[MCPX]["peak"] / figures["large_bytes"]
        found += [
            Goal("10 MB text, time, to direct", ratio(large[MCPX]["ms"], large[DIRECT]["ms"]), 1.5),
            Goal("10 MB text, peak memory above idle, to payload", share, 4.0),
        ]
    if start := figures.get("start"):
        found.append(
            Goal("70 servers ready, to the bare children", ratio(start["mcpx"], start["children"]), 1.3)
        )
        found.append(
            Goal("a call while they start, to all ready", ratio(start["mcpx_call"], start["mcpx"]), 0.7)
        )
        if theirs := start.get("compressor"):
            found.append(Goal(f"70 servers ready, to {COMPRESSOR}", ratio(start["mcpx"], theirs), 1.0))
    if looks := figures.get("inspect"):
        found.append(Goal("inspect with 527 tools, to 5 tools", ratio(looks["all"], looks["few"]), 1.2))
    found += _of_starts(figures.get("daemon", []))
    found += _of_attach(figures.get("attach", {}))
    found += _of_page(figures.get("page", {}))
    found += _of_cluster(figures.get("cluster", {}))
    if idle := figures.get("idle"):
        found.append(Goal("idle memory (RSS), MB", idle[MCPX]["rss"] / MB, IDLE_MB))
    return found


def _of_trust(calls: dict[str, dict[str, list[float]]]) -> list[Goal]:
    """What rules and the audit log may cost."""
    with_it, without = calls.get(RULED), calls.get(UNAUDITED)
    if with_it is None or without is None:
        return []
    return [
        Goal(
            "rules and audit, 1 in flight, p50, to neither", ratio(with_it["p50_ms"], without["p50_ms"]), 1.05
        ),
    ]


def _of_attach(figures: dict[str, list[float]]) -> list[Goal]:
    """What a shim must show whose client is known."""
    found = [
        Goal(f"attach of a known client, {which}, ms to the tools", statistics.median(times), limit)
        for which, limit in ATTACH_MS.items()
        if (times := figures.get(f"{which}_ms"))
    ]
    if memory := figures.get("rss"):
        found.append(Goal("memory of a shim (RSS), MB", statistics.median(memory) / MB, SHIM_MB))
    return found


def _of_page(figures: dict[str, dict[str, list[float]]]) -> list[Goal]:
    """What an open page may cost; the shares are of one core, in percent."""
    if not figures:
        return []
    closed, opened = figures["closed"], figures["open"]
    more = {
        name: statistics.median(a - b for a, b in zip(opened[name], closed[name], strict=True)) * 100
        for name in ("idle", "busy")
    }
    return [
        Goal("an open page, nothing called, % of a core", more["idle"], PAGE_PERCENT),
        Goal("an open page, 1,000 calls a second, % of a core", more["busy"], PAGE_PERCENT),
        Goal("a call with the page open, CPU, to closed", ratio(opened["cpu_us"], closed["cpu_us"]), NO_MORE),
    ]


def _of_cluster(figures: dict[str, dict[str, list[float]]]) -> list[Goal]:
    """What a call through a cluster may take beyond one to a peer; of each round, as for ratios."""
    if not figures:
        return []
    ours = figures[CLUSTER]["p50_ms"]
    return [
        Goal(
            f"a call through a cluster, p50, ms beyond one to {by_hand}",
            statistics.median(a - b for a, b in zip(ours, figures[by_hand]["p50_ms"], strict=True)),
            CLUSTER_MS,
        )
        for by_hand in (HTTP, ATTACH)
    ]


def _of_starts(rows: list[dict]) -> list[Goal]:
    """What a daemon must show whose servers are asleep."""
    found: list[Goal] = []
    for row in rows:
        if "first_call_ms" not in row:
            continue
        which = f"{row['servers']} {row['kind']} servers asleep, files {'cold' if row['cold'] else 'warm'}"
        beyond = statistics.median(a - b for a, b in zip(row["first_call_ms"], row["own_ms"], strict=True))
        found += [
            Goal(f"{which}: memory (RSS), MB", statistics.median(row["rss"]) / MB, IDLE_MB),
            Goal(f"{which}: first call, ms beyond its own start", beyond, FIRST_CALL_MS),
        ]
    return found
