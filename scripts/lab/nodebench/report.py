"""The figures of a node, for a person to read, and as the tables of docs/scale.md."""

from __future__ import annotations

import math
from collections.abc import Iterable

from mcpx.cluster.placement import MEMORY_RESERVE
from scripts.lab.nodebench.measure import Node

MB = 1 << 20
KB = 1 << 10
SESSIONS = (
    "server",
    "sessions",
    "memory of its process",
    "its threads",
    "memory of MCPX",
    "descriptors of MCPX",
    "tasks of MCPX",
    "first call, one alone",
    "started a second",
    "without MCPX",
    "CPU of MCPX a start",
)
MODEL = (
    "people",
    "sessions, all private",
    "memory",
    "nodes of 64 GB",
    "sessions, a few private",
    "memory",
    "nodes of 64 GB",
    "started by these nodes in",
)
PEOPLE = (100, 1_000, 100_000)
SERVERS = 20
A_FEW = 0.2 * 0.6  # of the servers are private; of these a person uses so many
NODE_GB = 64
SPARE = 0.08  # what the simulation shows that the death of a rack takes
PROCESS = (
    "server",
    "sessions",
    "MCPX before them",
    "threads",
    "CPU while idle",
    "calls a second",
    "CPU of MCPX a call",
    "all ended after",
)


def rows(nodes: Iterable[Node]) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The cells of both tables: what a session costs, and how the process does that carries them."""
    sessions, process = [], []
    for node in nodes:
        sessions.append(
            (
                node.kind,
                f"{node.sessions:,}",
                f"{node.server_pss / MB:.1f} MB",
                f"{node.server_threads:.0f}",
                f"{node.mcpx_pss / KB:.0f} kB",
                f"{node.descriptors:.1f}",
                f"{node.tasks:.1f}",
                f"{node.first_call_s * 1000:.0f} ms",
                f"{node.starts_per_s:.0f}",
                f"{node.bare_starts_per_s:.0f}",
                f"{node.mcpx_cpu_per_start_s * 1000:.1f} ms",
            )
        )
        process.append(
            (
                node.kind,
                f"{node.sessions:,}",
                f"{node.base_pss / MB:.0f} MB",
                str(node.threads),
                f"{node.idle_cpu:.1%} of a core",
                f"{node.calls_per_s:,.0f}",
                f"{node.call_cpu_s * 1e6:.0f} µs",
                f"{node.ended_s:.1f} s",
            )
        )
    return sessions, process


def model(nodes: Iterable[Node]) -> list[tuple[str, ...]]:
    """What people need, if their servers are as the real ones that were measured (the mean of these)."""
    real = [node for node in nodes if not node.kind.startswith("small")]
    if not real:
        return []
    session = sum(node.server_pss + node.mcpx_pss for node in real) / len(real)
    start = sum(node.starts_per_s for node in real) / len(real)
    found = []
    for people in PEOPLE:
        every, few = people * SERVERS, round(people * SERVERS * A_FEW)
        most, least = (_nodes(sessions * session) for sessions in (every, few))
        cells = (f"{every:,}", _memory(every * session), f"{most:,}")
        cells += (f"{few:,}", _memory(few * session), f"{least:,}", f"{few / least / start:,.0f} s")
        found.append((f"{people:,}", *cells))
    return found


def _nodes(memory: float) -> int:
    return math.ceil(memory / (NODE_GB * (1 << 30) * (1 - MEMORY_RESERVE) * (1 - SPARE)))


def _memory(size: float) -> str:
    gigabytes = size / (1 << 30)
    return f"{gigabytes:,.0f} GB" if gigabytes < 10_000 else f"{gigabytes / 1024:,.0f} TB"  # noqa: PLR2004


def markdown(nodes: list[Node]) -> str:
    """The tables, with an empty line between them; without the last, if no real server was measured."""
    sessions, process = rows(nodes)
    tables = [(SESSIONS, sessions), (PROCESS, process), *([(MODEL, made)] if (made := model(nodes)) else [])]
    return "\n\n".join(table(head, body) for head, body in tables)


def table(head: tuple[str, ...], body: list[tuple[str, ...]]) -> str:
    """As Markdown."""
    lines = [head, tuple("---" if column == head[0] else "---:" for column in head), *body]
    ruled = ("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join(line.replace("| --- |", "|---|").replace(" ---: ", "---:") for line in ruled)
