"""Runs the official conformance suite directly and through MCPX, and compares: `scripts/conformance`.

Progress goes to stderr, the table to stdout. The exit code is 1 if a reference server fails something, or a
check comes out otherwise through MCPX, that the baseline does not name.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import anyio
import click
from rich.console import Console
from rich.table import Table

from tests.live.conformance.clients import ENDPOINTS, SCENARIOS, SIGN_INS, check_mcpx, check_sign_ins
from tests.live.conformance.runs import (
    PLAN,
    Entry,
    Run,
    baseline,
    differences,
    failures,
    unexplained,
)
from tests.live.conformance.suite import REVISIONS, Check, Found, check_server, missing
from tests.live.conformance.targets import DIRECT, TARGETS, Reference, Target, opened

CLIENT = Reference(name="MCPX as a client", python="", script="", modern=True)


@click.command(context_settings={"max_content_width": 110})
@click.option(
    "--only", metavar="WORDS", help="Make the runs whose name contains this; always the direct ones."
)
@click.option("--scenario", "scenarios", multiple=True, help="Play this scenario alone; may be given often.")
@click.option("--no-clients", is_flag=True, help="Leave out MCPX as the client under test.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown, for docs/protocol.md.")
@click.option("--list", "as_list", is_flag=True, help="Name the runs and make none.")
def main(
    only: str | None, scenarios: tuple[str, ...], *, no_clients: bool, markdown: bool, as_list: bool
) -> None:
    """Run the conformance suite against the reference servers, directly and through MCPX."""
    plan = [run for run in PLAN if only is None or only in str(run) or run.target == DIRECT]
    if as_list:
        click.echo("\n".join(map(str, plan)))
        return
    absent = [reason for revision in REVISIONS if (reason := missing(revision)) is not None]
    if absent:
        raise click.ClickException(absent[0])
    report = anyio.run(_make, plan, list(scenarios), not no_clients)
    report.show(markdown=markdown)
    sys.exit(1 if report.bad else 0)


async def _make(plan: list[Run], scenarios: list[str], clients: bool) -> Report:
    known, report = baseline(), Report()
    alone: dict[tuple[str, str], Found] = {}
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        for number, run in enumerate(plan):
            click.echo(str(run), err=True)
            async with opened(run.reference, run.target, Path(folder) / str(number)) as url:
                found = await check_server(run.revision, url, scenarios)
            key = (run.reference.name, run.revision.name)
            if run.target == DIRECT:
                alone[key] = found
                report.add(run, found, failures(found), known.reference)
            else:
                report.add(run, found, differences(alone[key], found), known.difference)
    for revision in REVISIONS if clients else ():
        for endpoint in ENDPOINTS:
            wanted = [name for name in SCENARIOS[revision.name] if not scenarios or name in scenarios]
            if wanted:
                run = Run(CLIENT, revision, Target(name=endpoint, through=endpoint))
                click.echo(str(run), err=True)
                found = await check_mcpx(revision, endpoint, wanted)
                report.add(run, found, failures(found), known.client)
        wanted = [name for name in SIGN_INS[revision.name] if not scenarios or name in scenarios]
        if wanted:
            run = Run(CLIENT, revision, Target(name="signing in", through="exec"))
            click.echo(str(run), err=True)
            found = await check_sign_ins(revision, wanted)
            report.add(run, found, failures(found), known.client)
    return report


class Report:
    """The counts of each run, and what is behind them."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], dict[str, str]] = {}
        self._notes: list[str] = []
        self.bad = False

    def add(self, run: Run, found: Found, checks: list[Check], entries: list[Entry]) -> None:
        """Take in one run, and the checks of it that want an explanation."""
        open_ones = unexplained(run, checks, entries)
        self.bad = self.bad or bool(open_ones) or not found.checks
        passed, failed, _ = found.counts()
        differing = f" ({len(checks)} differ)" if checks and run.target.through != "nothing" else ""
        row = self._rows.setdefault((run.reference.name, run.revision.name), {})
        row[run.target.name] = f"{passed}/{failed}{differing}"
        for check in checks:
            mark = "UNEXPLAINED" if check in open_ones else "explained"
            because = found.reasons.get((check.scenario, check.id), "")
            self._notes.append(f"{mark}: {run}: {check.scenario} {check.id} {check.status}: {because[:300]}")

    def show(self, *, markdown: bool) -> None:
        """Print a table for the servers and one for MCPX as a client, and every difference on stderr."""
        for note in self._notes:
            click.echo(note, err=True)
        servers = {key: row for key, row in self._rows.items() if key[0] != CLIENT.name}
        clients = {key: row for key, row in self._rows.items() if key[0] == CLIENT.name}
        for rows in filter(None, (servers, clients)):
            known = [target.name for target in (DIRECT, *TARGETS)] if rows is servers else []
            found = [way for row in rows.values() for way in row]
            ways = [way for way in dict.fromkeys(known + found) if way in found]
            head = ("tested", "suite", *ways)
            lines = [(*key, *(row.get(way, "") for way in ways)) for key, row in rows.items()]
            if markdown:
                for line in (head, ("---",) * len(head), *lines):
                    click.echo(f"| {' | '.join(line)} |")
                click.echo()
                continue
            table = Table(*head, title="checks passed/failed")
            for line in lines:
                table.add_row(*line)
            Console(width=180).print(table)


if __name__ == "__main__":
    main()
