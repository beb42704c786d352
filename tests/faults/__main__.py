"""Plays the table of faults, or a soak, or a series of kills. Started by `scripts/faults`.

Progress goes to stderr, the table or the JSON to stdout; the exit code is 1 if anything falls short of what
MCPX promises, the promised times included.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import tempfile
from pathlib import Path

import anyio
import click
import msgspec
import structlog
from rich.console import Console

from tests.faults import report
from tests.faults.kills import Kills, judge_times, kill_again_and_again
from tests.faults.load import Load
from tests.faults.rows import ROWS
from tests.faults.soak import soak
from tests.faults.stage import Seen
from tests.faults.table import perform


@click.command(context_settings={"max_content_width": 110})
@click.option("--only", metavar="WORDS", help="Play the rows whose fault contains this.")
@click.option(
    "--soak",
    "seconds",
    type=click.FloatRange(min=5),
    metavar="SECONDS",
    help="Kill a random child about once a second under load from 16 callers, for so long.",
)
@click.option(
    "--kills",
    type=click.IntRange(min=10),
    metavar="NUMBER",
    help="Kill one server in a call, wait until it is back, and again, so many times.",
)
@click.option("--list", "as_list", is_flag=True, help="Name the rows and play none.")
@click.option("--markdown", is_flag=True, help="Print the table as the README has it.")
@click.option("--json", "as_json", is_flag=True, help="Print what was seen as JSON.")
def main(
    only: str | None,
    seconds: float | None,
    kills: int | None,
    *,
    as_list: bool,
    as_json: bool,
    markdown: bool,
) -> None:
    """Play every fault that MCPX must survive, with real processes, and print what its caller saw."""
    if as_list:
        click.echo("\n".join(ROWS))
        return
    with tempfile.TemporaryDirectory(prefix="mcpx-faults-") as state:
        os.environ["MCPX_STATE_DIR"] = str(Path(state))  # nothing of the user's is touched
        if seconds is not None:
            sys.exit(_soak(anyio.run(soak, seconds), as_json=as_json))
        if kills is not None:
            sys.exit(_kills(anyio.run(kill_again_and_again, kills), as_json=as_json))
        sys.exit(_table(only, as_json=as_json, as_markdown=markdown))


def _table(only: str | None, *, as_json: bool, as_markdown: bool) -> int:
    faults = [fault for fault in ROWS if (only or "").lower() in fault.lower()]
    if not faults:
        raise click.UsageError(f"no fault's name contains {only!r}; --list names them")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    table = anyio.run(_play, faults)
    if as_json:
        click.echo(msgspec.json.encode([dataclasses.asdict(seen) for seen in table]))
    elif as_markdown:
        click.echo(report.markdown(table))
    else:
        report.show_table(table, Console())
    return int(any(seen.problems for seen in table))


async def _play(faults: list[str]) -> list[Seen]:
    table = []
    for number, fault in enumerate(faults, 1):
        click.echo(f"{number}/{len(faults)} {fault}", err=True)
        seen = await perform(fault, ROWS[fault])
        seen.problems += seen.late()
        table.append(seen)
    return table


def _soak(load: Load, *, as_json: bool) -> int:
    if as_json:
        click.echo(msgspec.json.encode(load))
    else:
        report.show_load(load, Console())
    return int(bool(load.problems))


def _kills(kills: Kills, *, as_json: bool) -> int:
    late = judge_times(kills)
    if as_json:
        click.echo(msgspec.json.encode({**msgspec.to_builtins(kills), "late": late}))
    else:
        report.show_kills(kills, late, Console())
    return int(bool(kills.load.problems or late))


if __name__ == "__main__":
    main()
