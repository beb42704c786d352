"""The figures of a node, for a person to read, and as the two tables of docs/scale.md."""

from __future__ import annotations

from collections.abc import Iterable

from scripts.nodebench.measure import Node

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


def markdown(nodes: list[Node]) -> str:
    """Both tables, with an empty line between them."""
    sessions, process = rows(nodes)
    return f"{_table(SESSIONS, sessions)}\n\n{_table(PROCESS, process)}"


def _table(head: tuple[str, ...], body: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" if column == head[0] else "---:" for column in head), *body]
    ruled = ("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join(line.replace("| --- |", "|---|").replace(" ---: ", "---:") for line in ruled)
