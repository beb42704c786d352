"""The figures as ratios, and what they must show: pure.

A ratio of two targets is the median of the rounds' own ratios, so that both sides of it had the same minute
of a noisy machine. A goal whose part of the run was left out is left out too.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from http_targets import MCP_PROXY, OWN, SUPERGATEWAY, TO_HTTP, TO_STDIO
from measure_cluster import ATTACH, CLUSTER, HTTP
from measure_hops import NO_HOP, ONE_HTTP
from targets import AUDITS, COMPRESSOR, DIRECT, FASTMCP, MCPX, NATIVE, RULED, UNAUDITED

IDLE_MB = 75
ASLEEP_MB = 55  # of a daemon whose servers are asleep
FIRST_CALL_MS = 50  # beyond the server's own start
ATTACH_MS = {"cold": 150, "warm": 100}  # from the start of a shim to the tools
SHIM_MB = 17
CLUSTER_MS = 1  # beyond a peer that was set up by hand
PAGE_PERCENT = 2  # of a core
NO_MORE = 1.05  # equal, but for the noise
EVERYTHING_ON = {"p50_ms": 0.85, "per_s": 2.5}  # calls on stdio, to mcp-compressor
AUDIT = {"p50_ms": NO_MORE, "cpu_us": 1.15}  # on, to off
HTTP_RATES = {SUPERGATEWAY: 6.0, FASTMCP: 15.0}  # with 32 in flight, to the best that each of them shows
HTTP_P50 = {MCP_PROXY: 0.4}
SERVER_MS, SERVER_RATE = 0.6, 0.8  # before an HTTP server: beyond it, and to it
HOP_MS = 0.8  # of federation over HTTP
IDLE_BYTES, IDLE_P99 = 8_000, 3.0  # of an idle HTTP client; of one that works, beside them to alone
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
    makers = {
        "calls": _of_calls,
        "audit": _of_audit,
        "large": lambda large: _of_large(large, figures["large_bytes"]),
        "start": _of_start,
        "inspect": lambda looks: [
            Goal("inspect with 527 tools, to 5 tools", ratio(looks["all"], looks["few"]), 1.2)
        ],
        "daemon": _of_starts,
        "attach": _of_attach,
        "page": _of_page,
        "cluster": _of_cluster,
        "hops": _of_hops,
        "http": _of_http,
        "http-idle": _of_idle_http,
        "idle": lambda idle: [Goal("idle memory (RSS), MB", idle[MCPX]["rss"] / MB, IDLE_MB)],
    }
    return [goal for part, make in makers.items() if figures.get(part) for goal in make(figures[part])]


def _of_calls(calls: dict[str, dict[str, list[float]]]) -> list[Goal]:
    """What small calls on stdio must show."""
    found: list[Goal] = []
    ours = calls[MCPX]
    for peer, most, least in ((COMPRESSOR, *EVERYTHING_ON.values()), (FASTMCP, 0.3, 12.0)):
        if (theirs := calls.get(peer)) is not None:
            found += _quicker("exec", ours, peer, theirs, most=most, least=least)
    if native := calls.get(NATIVE):
        found += _quicker("native", native, "exec", ours, most=NO_MORE, least=1 / NO_MORE)
    return [*found, *_of_trust(calls)]


def _quicker(what: str, ours: dict, peer: str, theirs: dict, *, most: float, least: float) -> list[Goal]:
    """The p50 of one target to another's, and its rate."""
    rate = ratio(ours["per_s"], theirs["per_s"])
    return [
        Goal(f"{what}, 1 in flight, p50, to {peer}", ratio(ours["p50_ms"], theirs["p50_ms"]), most),
        Goal(f"{what}, 32 in flight, rate, to {peer}", rate, least, at_most=False),
    ]


def _of_large(large: dict[str, dict], size: int) -> list[Goal]:
    """What 10 MB of text must show."""
    share = large[MCPX]["peak"] / size
    return [
        Goal("10 MB text, time, to direct", ratio(large[MCPX]["ms"], large[DIRECT]["ms"]), 1.5),
        Goal("10 MB text, peak memory above idle, to payload", share, 4.0),
    ]


def _of_start(start: dict[str, list[float]]) -> list[Goal]:
    """What the start of 70 servers must show."""
    found = [
        Goal("70 servers ready, to the bare children", ratio(start["mcpx"], start["children"]), 1.3),
        Goal("a call while they start, to all ready", ratio(start["mcpx_call"], start["mcpx"]), 0.7),
    ]
    if theirs := start.get("compressor"):
        found.append(Goal(f"70 servers ready, to {COMPRESSOR}", ratio(start["mcpx"], theirs), 1.0))
    return found


def _of_trust(calls: dict[str, dict[str, list[float]]]) -> list[Goal]:
    """What rules may cost, with the audit log."""
    ruled, without = (calls.get(name) for name in (RULED, UNAUDITED))
    if ruled is None or without is None:
        return []
    both = ratio(ruled["p50_ms"], without["p50_ms"])
    found = [Goal("rules and audit, 1 in flight, p50, to neither", both, NO_MORE)]
    if theirs := calls.get(COMPRESSOR):
        most, least = EVERYTHING_ON.values()
        found += _quicker("rules and audit", ruled, COMPRESSOR, theirs, most=most, least=least)
    return found


def _of_audit(calls: dict[str, dict[str, list[float]]]) -> list[Goal]:
    """What the audit log may cost, by all pairs of daemons in all rounds."""
    found = []
    for figure, what in (("p50_ms", "1 in flight, p50"), ("cpu_us", "32 in flight, CPU")):
        on, off = (
            [value for name, its in calls.items() if f" {audit}," in name for value in its[figure]]
            for audit in AUDITS
        )
        found.append(Goal(f"audit, {what}, to none", ratio(on, off), AUDIT[figure]))
    return found


def _of_hops(hops: dict[str, dict[str, list[float]]]) -> list[Goal]:
    """What another MCPX on the way may cost."""
    return [Goal("a hop over HTTP, p50, ms", _beyond(hops[ONE_HTTP], hops[NO_HOP]), HOP_MS)]


def _of_http(calls: dict[str, dict]) -> list[Goal]:
    """What calls over HTTP must show in each way that MCPX is asked, beside the best that a peer shows."""
    found: list[Goal] = []
    there = {name: its for name, its in calls.items() if "missing" not in its}
    for name, its in there.items():
        if its["target"] == TO_STDIO:
            for peer, least in HTTP_RATES.items():
                if rows := [row["per_s"] for row in there.values() if row["target"] == peer]:
                    value = ratio(its["per_s"], max(rows, key=statistics.median))
                    found.append(Goal(f"{name}, 32 in flight, rate, to {peer}", value, least, at_most=False))
            for peer, most in HTTP_P50.items():
                if rows := [row["p50_ms"] for row in there.values() if row["target"] == peer]:
                    value = ratio(its["p50_ms"], min(rows, key=statistics.median))
                    found.append(Goal(f"{name}, 1 in flight, p50, to {peer}", value, most))
        for own in there.values():
            if (its["target"], own["target"], own["era"]) == (TO_HTTP, OWN, its["era"]):
                rate = ratio(its["per_s"], own["per_s"])
                found += [
                    Goal(f"{name}, p50, ms beyond the server's own", _beyond(its, own), SERVER_MS),
                    Goal(f"{name}, 32 in flight, rate, to its own", rate, SERVER_RATE, at_most=False),
                ]
    return found


def _of_idle_http(kinds: dict[str, dict]) -> list[Goal]:
    """What idle HTTP clients may cost the daemon, and the one that works."""
    found: list[Goal] = []
    for kind, its in kinds.items():
        slower = ratio(its["beside"]["p99_ms"], its["alone"]["p99_ms"])
        found.append(Goal(f"1,000 idle ({kind}), bytes each", its["bytes"], IDLE_BYTES))
        found.append(Goal(f"1,000 idle ({kind}), p99 of one that works, to alone", slower, IDLE_P99))
    return found


def _beyond(ours: dict, theirs: dict) -> float:
    """Milliseconds at p50 beyond another way; the median of the rounds' own differences."""
    return statistics.median(a - b for a, b in zip(ours["p50_ms"], theirs["p50_ms"], strict=True))


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
    return [
        Goal(
            f"a call through a cluster, p50, ms beyond one to {by_hand}",
            _beyond(figures[CLUSTER], figures[by_hand]),
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
            Goal(f"{which}: memory (RSS), MB", statistics.median(row["rss"]) / MB, ASLEEP_MB),
            Goal(f"{which}: first call, ms beyond its own start", beyond, FIRST_CALL_MS),
        ]
    return found
