"""Counts how often a person has to sign in, in a week of MCPX and of others. Started by `scripts/sign-ins`.

Progress goes to stderr, a table to stdout, as text, Markdown or JSON. The exit code is 1 if MCPX asked more
than once, or a call through it failed.
"""

from __future__ import annotations

import sys
from typing import Final

import anyio
import click
import msgspec
from rich.console import Console
from rich.table import Table

from tests.live.sign_ins.clients import ALL, MCPX, Compared
from tests.live.sign_ins.week import Week, live

COLUMNS: Final = ("client", "asked", "calls", "failed", "refreshes", "tokens used twice")


@click.command(context_settings={"max_content_width": 110})
@click.option("--days", default=7, show_default=True, type=click.IntRange(1, 30))
@click.option("--only", metavar="WORDS", default="", help="The clients whose name contains this.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown, for docs/security.md.")
@click.option("--json", "as_json", is_flag=True, help="Print what was seen as JSON.")
def main(days: int, only: str, *, markdown: bool, as_json: bool) -> None:
    """Live a week with each client, all at the same time, and print how often a person was asked."""
    clients = [each for each in ALL if only.lower() in each.name.lower()]
    if not clients:
        raise click.UsageError(f"no client's name contains {only!r}")
    weeks = anyio.run(_live, clients, days)
    if as_json:
        click.echo(msgspec.json.encode(weeks))
    elif markdown:
        click.echo("\n".join(_markdown(weeks)))
    else:
        _show(weeks)
    ours = [week for week in weeks if week.client == MCPX.name]
    sys.exit(int(any(week.asked > 1 or week.failed for week in ours)))


async def _live(clients: list[type[Compared]], days: int) -> list[Week]:
    weeks: dict[str, Week] = {}

    async def one(client: type[Compared]) -> None:
        weeks[client.name] = week = await live(client, days)
        click.echo(f"{week.client}: {week.seconds:.0f} s", err=True)
        for error in week.errors:
            click.echo(f"  {error}", err=True)

    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(one, client)
    return [weeks[client.name] for client in clients]


def _cells(week: Week) -> list[str]:
    counted = (week.asked, week.calls, week.failed, week.refreshes, week.reuses)
    return [week.client, *(str(each) for each in counted)]


def _markdown(weeks: list[Week]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (COLUMNS, ["---"] * len(COLUMNS), *map(_cells, weeks))]


def _show(weeks: list[Week]) -> None:
    table = Table()
    for column in COLUMNS:
        table.add_column(column)
    for week in weeks:
        table.add_row(*_cells(week))
    Console().print(table)


if __name__ == "__main__":
    main()
