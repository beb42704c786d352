"""The table of `mcpx daemon list`. Configurations are never read as markup, nor obeyed by a terminal."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from mcpx.cli.printing import console
from mcpx.core.text import one_line


def show(rows: list[dict[str, Any]]) -> None:
    """Print the daemons of `mcpx.core.daemon.lifecycle.report`, a row each, with their faults below."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("pid", justify="right")
    for header in ("since", "version"):
        table.add_column(header, no_wrap=True)
    for header in ("clients", "servers", "ready", "asleep"):
        table.add_column(header, justify="right")
    table.add_column("config", overflow="fold")
    for row in rows:
        since = row["since"][:16].replace("T", " ")
        numbers = [str(row.get(key, "-")) for key in ("version", "clients", "servers", "ready", "asleep")]
        table.add_row(*map(Text, (str(row["pid"]), since, *numbers, one_line(row["config"]))))
    output = console()
    output.print(table)
    for row in rows:
        if "error" in row:
            output.print(Text(one_line(f"pid {row['pid']}: {row['error']}"), style="red"))
