"""Plays the two tables of faults, or a soak, or a series of kills. Started by `scripts/faults`.

Progress goes to stderr, the table or the JSON to stdout; the exit code is 1 if anything falls short of what
MCPX promises, the promised times included.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio
import click
import msgspec
import structlog
from rich.console import Console

from tests.faults import report
from tests.faults.audit_soak import AuditSoak, audit_soak
from tests.faults.hostile import MANY_CALLS, HostileSeen, perform_hostile
from tests.faults.hostile_mcpx import House
from tests.faults.kills import Kills, judge_times, kill_again_and_again
from tests.faults.load import Load
from tests.faults.long_lives import LongLife, expiries, leaks
from tests.faults.rows import ROWS
from tests.faults.rows_hostile import HOSTILE_ROWS
from tests.faults.soak import soak
from tests.faults.stage import Seen
from tests.faults.table import Play, perform

S = TypeVar("S", Load, AuditSoak, LongLife)


@click.command(context_settings={"max_content_width": 110})
@click.option("--only", metavar="WORDS", help="Play the rows whose fault contains this.")
@click.option("--hostile", is_flag=True, help="Play the second table alone: what is hostile and odd.")
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
@click.option(
    "--audit",
    "audited",
    type=click.IntRange(min=100),
    metavar="CALLS",
    help="Make so many calls from eight clients, kill servers and the daemon, and look into the audit log.",
)
@click.option(
    "--leaks",
    "leaky",
    type=click.IntRange(min=100),
    metavar="CALLS",
    help="Have a server leak 10 MB at each of so many calls, with limits.memory; an hour has 36000.",
)
@click.option(
    "--expiries",
    "expiring",
    type=click.FloatRange(min=5),
    metavar="SECONDS",
    help="Make 20 calls a second, for so long, to a server whose tokens expire after 5 s.",
)
@click.option("--list", "as_list", is_flag=True, help="Name the rows and play none.")
@click.option("--markdown", is_flag=True, help="Print the tables as Markdown, for docs/faults.md.")
@click.option("--json", "as_json", is_flag=True, help="Print what was seen as JSON.")
def main(
    only: str | None,
    seconds: float | None,
    kills: int | None,
    audited: int | None,
    *,
    leaky: int | None,
    expiring: float | None,
    hostile: bool,
    as_list: bool,
    as_json: bool,
    markdown: bool,
) -> None:
    """Play every fault that MCPX must survive, with real processes, and print what its caller saw."""
    rows = {} if hostile else ROWS
    if as_list:
        click.echo("\n".join([*rows, *HOSTILE_ROWS]))
        return
    with tempfile.TemporaryDirectory(prefix="mcpx-faults-") as state:
        os.environ["MCPX_STATE_DIR"] = str(Path(state))  # nothing of the user's is touched
        if seconds is not None:
            sys.exit(_show(anyio.run(soak, seconds), report.show_load, as_json=as_json))
        if kills is not None:
            sys.exit(_kills(anyio.run(kill_again_and_again, kills), as_json=as_json))
        if audited is not None:
            sys.exit(_show(anyio.run(audit_soak, audited), report.show_audit, as_json=as_json))
        if leaky is not None:
            sys.exit(_show(anyio.run(leaks, leaky), report.show_long_life, as_json=as_json))
        if expiring is not None:
            sys.exit(_show(anyio.run(expiries, expiring), report.show_long_life, as_json=as_json))
        sys.exit(_tables(only or "", rows, as_json=as_json, as_markdown=markdown))


def _tables(only: str, rows: dict[str, Play], *, as_json: bool, as_markdown: bool) -> int:
    faults = [fault for fault in rows if only.lower() in fault.lower()]
    odd = [fault for fault in HOSTILE_ROWS if only.lower() in fault.lower()]
    if not faults and not odd:
        raise click.UsageError(f"no fault's name contains {only!r}; --list names them")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    table, hostile = anyio.run(_play, faults, odd)
    console = Console()
    if as_json:
        click.echo(msgspec.json.encode([dataclasses.asdict(seen) for seen in (*table, *hostile)]))
    elif as_markdown:
        shown = [report.markdown(table)] * bool(table) + [report.hostile_markdown(hostile)] * bool(hostile)
        click.echo("\n\n".join(shown))
    else:
        if table:
            report.show_table(table, console)
        if hostile:
            report.show_hostile_table(hostile, console)
    return int(any(seen.problems for seen in (*table, *hostile)))


async def _play(faults: list[str], odd: list[str]) -> tuple[list[Seen], list[HostileSeen]]:
    table: list[Seen] = []
    hostile: list[HostileSeen] = []
    house = House()
    try:
        for number, fault in enumerate([*faults, *odd], 1):
            click.echo(f"{number}/{len(faults) + len(odd)} {fault}", err=True)
            if number <= len(faults):
                table.append(seen := await perform(fault, ROWS[fault]))
                seen.problems += seen.late()
            else:
                attack = HOSTILE_ROWS[fault]
                hostile.append(shown := await perform_hostile(fault, attack, house, calls=MANY_CALLS))
                shown.problems += shown.late()
    finally:
        house.close()
    return table, hostile


def _show(seen: S, show: Callable[[S, Console], None], *, as_json: bool) -> int:
    if as_json:
        click.echo(msgspec.json.encode(seen))
    else:
        show(seen, Console())
    return int(bool(seen.problems))


def _kills(kills: Kills, *, as_json: bool) -> int:
    late = judge_times(kills)
    if as_json:
        click.echo(msgspec.json.encode({**msgspec.to_builtins(kills), "late": late}))
    else:
        report.show_kills(kills, late, Console())
    return int(bool(kills.load.problems or late))


if __name__ == "__main__":
    main()
