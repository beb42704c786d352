"""The nodes of the cluster in the table of `mcpx status`. Pure, as `status_table`, which shows them."""

from __future__ import annotations

from typing import Final

from rich.table import Table
from rich.text import Text

from mcpx.core.daemon.status import NodeStatus
from mcpx.core.text import cut, one_line

STYLES: Final = {"ready": "green", "draining": "yellow", "starting": "cyan", "lost": "red"}
MAX_SHOWN: Final = 50  # the JSON has them all
MAX_PROBLEM_CHARS: Final = 200
MIB: Final = 1 << 20


def nodes_table(nodes: list[NodeStatus]) -> Table:
    """A row for each node; those that are not ready come first where there are too many."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("node", overflow="fold")
    table.add_column("state", no_wrap=True)
    for header in ("servers", "sessions", "memory MB", "free MB", "load"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("")
    shown = nodes if len(nodes) <= MAX_SHOWN else sorted(nodes, key=lambda node: node.state == "ready")
    for node in shown[:MAX_SHOWN]:
        table.add_row(*_row(node))
    if len(nodes) > MAX_SHOWN:
        table.add_row(Text(f"and {len(nodes) - MAX_SHOWN} more", style="dim"))
    return table


def _row(node: NodeStatus) -> list[Text]:
    figures = (
        str(node.servers),
        str(node.sessions),
        _mib(node.servers_memory_bytes or None),
        _mib(node.memory_free_bytes),
        "-" if node.load is None else f"{node.load:.1f}",
    )
    style = STYLES.get(node.state, "")
    problem = Text(cut(one_line(node.problem), MAX_PROBLEM_CHARS) if node.problem else "", style=style)
    return [Text(one_line(node.name)), Text(one_line(node.state), style=style), *map(Text, figures), problem]


def _mib(amount: int | None) -> str:
    return "-" if amount is None else f"{amount / MIB:.0f}"


def nodes_ready(nodes: list[NodeStatus]) -> str:
    """`, 2 of 3 nodes ready`."""
    return f", {sum(node.state == 'ready' for node in nodes)} of {len(nodes)} nodes ready"
