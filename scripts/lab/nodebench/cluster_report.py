"""The figures of a cluster, for a person to read, and as the tables of docs/scale.md."""

from __future__ import annotations

from scripts.lab.nodebench.over_nodes import OverNodes, Waiting
from scripts.lab.nodebench.report import KB, MB, table

GROUPS = ("", "processes", "memory before", "memory with all sessions", "a session", "descriptors a session")
FIGURES = ("sessions over a cluster", "measured")
WAITING = ("nodes", "sessions", "calls a second", "if only the server took time", "p50 of a call")


def tables(found: OverNodes, waiting: list[Waiting]) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Heads and cells: what each group of processes takes, what else was measured, and calls over nodes."""
    groups = []
    for name, after in found.groups.items():
        before = found.before[name]
        # of its servers a session has one process; the others serve all sessions
        number = after.processes - before.processes if name == "servers" else found.sessions
        memory = (after.pss - before.pss) / max(1, number)
        groups.append(
            (
                name,
                f"{after.processes:,}",
                f"{before.pss / MB:,.0f} MB",
                f"{after.pss / MB:,.0f} MB",
                f"{memory / MB:.1f} MB" if memory >= MB else f"{memory / KB:.0f} kB",
                f"{(after.descriptors - before.descriptors) / max(1, number):.1f}",
            )
        )
    figures = [
        ("nodes; people; sessions", f"{found.nodes}; {found.people}; {found.sessions:,}"),
        ("servers' processes on each node", ", ".join(map(str, found.on_each))),
        ("first call, the others quiet", f"{found.first_call_s * 1000:,.0f} ms"),
        ("all asked at once: started a second", f"{found.starts_per_s:.0f}"),
        ("the last of them answered after", f"{found.last_call_s:.0f} s"),
        ("CPU of the gateway a start", f"{found.gateway_cpu_per_start_s * 1000:.1f} ms"),
        ("calls a second over all sessions", f"{found.calls_per_s:,.0f}"),
        ("CPU of a call: gateway, node", _both(found)),
        ("all sessions ended after", f"{found.ended_s:.1f} s"),
    ]
    calls = [
        (
            str(each.nodes),
            str(each.sessions),
            f"{each.calls_per_s:,.0f}",
            f"{each.most_per_s:,.0f}",
            f"{each.call_p50_s * 1000:.0f} ms",
        )
        for each in waiting
    ]
    return [(GROUPS, groups), (FIGURES, figures), (WAITING, calls)]


def _both(found: OverNodes) -> str:
    return f"{found.gateway_cpu_per_call_s * 1e6:.0f} µs, {found.node_cpu_per_call_s * 1e6:.0f} µs"


def markdown(found: OverNodes, waiting: list[Waiting]) -> str:
    """The tables, with an empty line between them."""
    return "\n\n".join(table(head, body) for head, body in tables(found, waiting))
