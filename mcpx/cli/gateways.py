"""The gateways of a cluster, a line each: for `mcpx cluster status` and `mcpx reload --all`."""

from __future__ import annotations

import sys
from typing import Any, Final

from mcpx.cli.printing import echo
from mcpx.core.text import one_line

MAX_SHOWN: Final = 100


def show_gateways(answer: dict[str, Any]) -> None:
    """Print who they are, and whose configuration differs from that of the one that was asked."""
    rows = answer.get("gateways", [])
    for row in rows[:MAX_SHOWN]:
        differs = "" if row["same_config"] else f"configuration differs from {_name(rows[0])}"
        notes = [text for text in (differs, _problem(row)) if text]
        here = " (this one)" if row["self"] else ""
        text = f"gateway {_name(row)}{here}  MCPX {row['version']}"
        echo("  ".join([one_line(text), *map(one_line, notes)]), fg="yellow" if notes else None)
    if len(rows) > MAX_SHOWN:
        echo(f"and {len(rows) - MAX_SHOWN} more gateways; --json has all of them")
    if problem := answer.get("not_shared"):
        echo(f"nothing is shared with other gateways now: {one_line(problem)}", fg="yellow", err=True)


def show_reloaded(answer: dict[str, Any]) -> None:
    """Print which gateways have read their configurations again; exits with 1 if one has not."""
    rows = answer["gateways"]
    for row in rows:
        done = "reloaded" if row["reloaded"] else _problem(row) or "has not answered yet"
        differs = "" if row["same_config"] else f"; its configuration differs from that of {_name(rows[0])}"
        echo(one_line(f"{_name(row)}: {done}{differs}"), fg=None if row["reloaded"] else "red")
    if not all(row["reloaded"] for row in rows):
        sys.exit(1)


def _name(row: dict[str, Any]) -> str:
    return f"{row['host']}:{row['pid']} {row['id'][:8]}"


def _problem(row: dict[str, Any]) -> str:
    return f"its configuration cannot be used: {row['problem']}" if row.get("problem") else ""
