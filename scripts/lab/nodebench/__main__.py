"""Measures each kind of server in turn, and prints the tables. Started by scripts/measure-node.

A kind that is not installed, or cannot be measured, is told with the reason, the others go on, and the exit
code is 1. Progress goes to stderr, the tables to stdout. A whole run takes some minutes, and a gigabyte for
each hundred sessions of a real server.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from scripts.lab.benchmarks.process import Unmeasured
from scripts.lab.nodebench import cluster_report, over_nodes
from scripts.lab.nodebench.measure import Node, measure
from scripts.lab.nodebench.people import allow_many
from scripts.lab.nodebench.report import PROCESS, SESSIONS, markdown, rows
from scripts.lab.nodebench.servers import KINDS

WAITING_ON_EACH = 12  # sessions on each node, of the server that waits
SMALLEST = 2  # clients: the first calls of one are timed alone


@click.command(context_settings={"max_content_width": 110})
@click.option("--sessions", type=click.IntRange(2), default=1000, show_default=True, help="Of the smallest.")
@click.option("--real", type=click.IntRange(2), default=40, show_default=True, help="Sessions of the others.")
@click.option("--people", type=click.IntRange(SMALLEST), default=50, show_default=True, help="Clients.")
@click.option("--only", multiple=True, help="Servers whose name holds this; may be repeated.")
@click.option("--seconds", type=float, default=5.0, show_default=True, help="Of calls.")
@click.option("--idle", type=float, default=60.0, show_default=True, help="Seconds of looking on, idle.")
@click.option("--cluster", "nodes", type=click.IntRange(0), default=0, help="Over so many nodes of Ray.")
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print two tables for scripts/docs.")
def main(
    *,
    sessions: int,
    real: int,
    people: int,
    only: tuple[str, ...],
    seconds: float,
    idle: float,
    nodes: int,
    as_json: bool,
    as_markdown: bool,
) -> None:
    """Measure what one MCPX process carries: sessions of single clients, and what each costs."""
    allow_many()
    if nodes:
        _over_nodes(nodes, sessions, people, seconds, as_json=as_json, as_markdown=as_markdown)
        return
    measured: list[Node] = []
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="mcpx-node-") as folder:
        for number, kind in enumerate(KINDS):
            if only and not any(word in kind.name for word in only):
                continue
            if not kind.installed:
                problems.append(f"{kind.name}: not installed")
                continue
            wanted = sessions if kind.many else real
            _say(f"{wanted} sessions with {kind.name} ...")
            clients = max(SMALLEST, min(people, wanted // 2))
            try:
                measured.append(
                    measure(
                        kind,
                        Path(folder) / str(number),
                        sessions=wanted,
                        people=clients,
                        seconds=seconds,
                        idle_s=idle,
                    )
                )
            except (Unmeasured, OSError) as error:
                problems.append(f"{kind.name}: {error}")
    if as_json:
        print(msgspec.json.format(msgspec.json.encode({"machine": _machine(), "nodes": measured})).decode())
    elif as_markdown:
        print(markdown(measured))
    else:
        _show(zip((SESSIONS, PROCESS), rows(measured), strict=True))
    for problem in problems:
        _say(f"not measured: {problem}")
    sys.exit(1 if problems else 0)


def _over_nodes(
    nodes: int, sessions: int, people: int, seconds: float, *, as_json: bool, as_markdown: bool
) -> None:
    """Measure a cluster of Ray on this machine, with the extra installed."""
    with tempfile.TemporaryDirectory(prefix="mcpx-nodes-") as folder:
        _say(f"{sessions} sessions over {nodes} nodes ...")
        found = over_nodes.measure_sessions(
            Path(folder) / "s", nodes=nodes, sessions=sessions, people=people, seconds=seconds
        )
        _say("calls of a server that waits ...")
        waiting = over_nodes.measure_waiting(
            Path(folder) / "w", nodes=nodes, on_each=WAITING_ON_EACH, seconds=seconds
        )
    if as_json:
        print(over_nodes.as_json(found, waiting))
    elif as_markdown:
        print(cluster_report.markdown(found, waiting))
    else:
        _show(cluster_report.tables(found, waiting))


def _show(tables: Iterable[tuple[tuple[str, ...], list[tuple[str, ...]]]]) -> None:
    console = Console()
    console.width = max(console.width, 150)
    for head, body in tables:
        table = Table(*head)
        for row in body:
            table.add_row(*row)
        console.print(table)


def _machine() -> dict[str, object]:
    return {
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
