"""The table of `mcpx cluster status`. Names of nodes are never read as markup, nor obeyed by a terminal."""

from __future__ import annotations

from typing import Any, Final

from rich.table import Table
from rich.text import Text

from mcpx.cli.printing import console
from mcpx.core.text import one_line

MAX_PROBLEM: Final = 500  # characters
OPEN: Final = (
    "Ray answers without a token: whoever reaches it, other users of its machines too, owns this cluster."
    " docs/cluster.md, Security, says how to close it"
)
_STYLES: Final = {"up": "green", "failing": "red", "not answering": "red"}
_PLAIN: Final = frozenset({"memory", "object_store_memory"})


def show(answer: dict[str, Any]) -> None:
    """Print the link to Ray, and the nodes, a row each; what is wrong with one stands below."""
    about, output = answer["cluster"], console()
    if about["joined"]:
        output.print(Text(f"Ray {about['ray']} at {one_line(about['gcs'])}"))
        if about.get("open"):
            output.print(Text(OPEN, style="yellow"))
    else:
        problem = one_line(about.get("problem", "it was not asked yet"), MAX_PROBLEM)
        output.print(Text(f"Ray at {one_line(about['address'])} cannot be asked: {problem}", style="red"))
    if not answer["nodes"]:
        output.print(Text("no nodes are known"))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in ("node", "host", "state"):
        table.add_column(header, no_wrap=True)
    for header in ("sessions", "free memory"):
        table.add_column(header, justify="right")
    table.add_column("free resources", overflow="fold")
    table.add_column("version", no_wrap=True)
    for row in answer["nodes"]:
        state = "draining" if row["draining"] and row["state"] == "up" else row["state"]
        table.add_row(
            Text(one_line(row["name"])),
            Text(one_line(row["host"])),
            Text(state, style=_STYLES.get(state, "")),
            str(row["sessions"]),
            _memory(row),
            Text(_resources(row)),
            Text(one_line(row.get("version", "-"))),
        )
    output.print(table)
    for row in answer["nodes"]:
        if "problem" in row:
            text = f"{row['name']}: {row['problem']}"
            output.print(Text(one_line(text, MAX_PROBLEM), style="red"))


def _memory(row: dict[str, Any]) -> str:
    free, total = row.get("memory_free_bytes"), row.get("memory_bytes")
    if not free or not total:
        return "-"
    return f"{free / (1 << 30):.1f} of {total / (1 << 30):.1f} GB"


def _resources(row: dict[str, Any]) -> str:
    total, free = row["resources"], row["free"]
    parts = [
        f"{name} {free.get(name, 0):g}/{amount:g}"
        for name, amount in sorted(total.items())
        if name not in _PLAIN
    ]
    return one_line(", ".join(parts))
