"""Simulates a day, everybody at once, and the death of a rack, and prints a table of each.

Started by scripts/simulate. The second and third are of a quarter of the cluster, which differs in nothing
but its size. Exit code 1 if a session went where it must not, or was left without a node while there was
room.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
from rich.console import Console
from rich.table import Table as Shown

from scripts.lab.simulation.report import Table, day_table, herd_table, markdown, spare_table
from scripts.lab.simulation.scenarios import day, herd, part, without_a_rack
from scripts.lab.simulation.world import World

QUARTER = 4
WITHIN_S = 60.0
LIMITS = (32, 128, 0)  # 0: as many as the real gateway
SPARE = (0.0, 0.04, 0.08, 0.12)
GATEWAYS = (1, 8)
MAX_SHOWN = 20  # broken promises
DEFAULT = World()


@click.command(context_settings={"max_content_width": 110})
@click.option("--nodes", type=click.IntRange(4), default=DEFAULT.nodes, show_default=True)
@click.option("--rack", type=click.IntRange(1), default=DEFAULT.rack, show_default=True, help="Nodes of one.")
@click.option("--people", type=click.IntRange(1), default=DEFAULT.people, show_default=True)
@click.option("--gateways", type=click.IntRange(1), default=DEFAULT.gateways, show_default=True)
@click.option("--node-gb", type=float, default=DEFAULT.node_gb, show_default=True, help="Memory of a node.")
@click.option("--deaths", type=click.IntRange(0), default=DEFAULT.deaths, show_default=True)
@click.option("--drains", type=click.IntRange(0), default=DEFAULT.drains, show_default=True)
@click.option("--start-s", type=float, default=DEFAULT.start_s, show_default=True, help="Of one session.")
@click.option(
    "--starts-per-s", type=float, default=DEFAULT.starts_per_s, show_default=True, help="Of a node."
)
@click.option(
    "--max-starting",
    type=int,
    default=DEFAULT.max_starting,
    show_default=True,
    help="Of a gateway; 0: as MCPX.",
)
@click.option("--seed", type=int, default=DEFAULT.seed, show_default=True)
@click.option("--only", multiple=True, type=click.Choice(("day", "herd", "spare")), help="This alone.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the tables for scripts/docs.")
def main(*, only: tuple[str, ...], as_markdown: bool, **settings: int) -> None:
    """Simulate placement and failures of a large cluster with the decisions of the real one."""
    world = World(**settings)
    problems: list[str] = []
    printed: list[str] = []
    for table in _tables(world, only or ("day", "herd", "spare"), problems):
        if as_markdown:
            printed.append(markdown(table))
        else:
            _show(table)
    if as_markdown:
        print("\n\n".join(printed))
    for problem in problems[:MAX_SHOWN]:
        _say(problem)
    sys.exit(1 if problems else 0)


def _tables(world: World, wanted: tuple[str, ...], problems: list[str]) -> Iterator[Table]:
    quarter = part(world, QUARTER)
    if "day" in wanted:
        _say("a day ...")
        figures = day(world)
        problems += figures.problems
        yield day_table(world, figures)
    if "herd" in wanted:
        _say("everybody at once ...")
        herds = [herd(quarter, within_s=WITHIN_S, max_starting=limit) for limit in LIMITS]
        problems += [problem for each in herds for problem in each.figures.problems]
        yield herd_table(quarter, herds, WITHIN_S)
    if "spare" in wanted:
        _say("a rack dies ...")
        pairs = [(gateways, spare) for gateways in GATEWAYS for spare in SPARE]
        yield spare_table(
            [(gateways, without_a_rack(quarter, spare, gateways=gateways)) for gateways, spare in pairs]
        )


def _show(table: Table) -> None:
    head, rows = table
    console = Console()
    console.width = max(console.width, 120)
    shown = Shown(*head)
    for row in rows:
        shown.add_row(*row)
    console.print(shown)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
