"""`mcpx doctor`: one page that says what is wrong and what to type, and mends what can be mended safely."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mcpx.cli.consent import changing_options, may_go_on
from mcpx.cli.printing import echo, print_json

if TYPE_CHECKING:
    from mcpx.setup.doctor.examination import Section
    from mcpx.setup.doctor.installation import Fix

START_TIMEOUT_S = 30.0


@click.command(short_help="Say what is wrong, and what to type.")
@changing_options
@click.option("--fix", "mends", is_flag=True, help="Mend what can be mended safely.")
@click.option("--no-start", is_flag=True, help="Start no server, no client's command and no daemon.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1, max=3600),
    default=START_TIMEOUT_S,
    show_default=True,
    help="Seconds that a server may take to start.",
)
def doctor(
    *,
    config_path: str | None,
    mends: bool,
    no_start: bool,
    timeout: float,
    dry_run: bool,
    as_json: bool,
    yes: bool,
) -> None:
    """Examine everything: versions, configuration, servers, client files, daemon, service, machine.

    Each server is started once, and each client's entry too, as the client does it; a daemon that does not
    run is started for that and ended again. Exit code 1 if anything is wrong; notes do not count.
    """
    from mcpx.cli.doctor_page import as_object, show

    sections = _examined(config_path, starts=not no_start, timeout_s=timeout, quiet=as_json)
    if not as_json:
        show(sections)
    mended: dict[str, str | None] = {}
    fixes = _fixes(sections) if mends else []
    if fixes:
        mended = _mend(fixes, yes=yes, dry_run=dry_run, as_json=as_json)
    elif mends and not as_json:
        click.echo("nothing here can be mended by --fix")
    if None in mended.values():  # what was wrong because of it may be well now
        sections = _examined(config_path, starts=not no_start, timeout_s=timeout, quiet=as_json)
        if not as_json:
            click.echo()
            show(sections)
    if as_json:
        print_json(as_object(sections, mended))
    is_wrong = any(each.level == "wrong" for section in sections for each in section.findings)
    is_declined = bool(fixes) and not mended and not dry_run
    sys.exit(1 if is_wrong or is_declined else 0)


def _examined(config_path: str | None, *, starts: bool, timeout_s: float, quiet: bool) -> list[Section]:
    """Run the checks, and say on a terminal which one runs."""
    from mcpx.core.system.light_imports import import_structlog
    from mcpx.setup.doctor.examination import examine
    from mcpx.setup.doctor.installation import Installation

    import_structlog()
    from mcpx.core.telemetry.log import configure

    configure("error")  # what fails is on the page
    installation = Installation(config_path, starts=starts, timeout_s=timeout_s)
    if quiet or not sys.stderr.isatty():
        return examine(installation)
    from rich.console import Console

    with Console(stderr=True).status("") as progress:
        return examine(installation, on_check=lambda title: progress.update(f"looking at the {title} ..."))


def _fixes(sections: list[Section]) -> list[Fix]:
    """The fixes that were found, each once."""
    found = [each.fix for section in sections for each in section.findings if each.fix is not None]
    first: dict[str, Fix] = {}
    for fix in found:
        first.setdefault(fix.description, fix)
    return list(first.values())


def _mend(fixes: list[Fix], *, yes: bool, dry_run: bool, as_json: bool) -> dict[str, str | None]:
    """Apply the fixes, if the user agrees: what went wrong with each, None for success."""
    from mcpx.errors import MCPXError

    if not as_json:
        click.echo("\nthis can be mended:")
        for fix in fixes:
            echo(f"  {fix.description}")
    if not may_go_on("Mend it?", yes=yes, dry_run=dry_run, as_json=as_json):
        return {}
    mended: dict[str, str | None] = {}
    for fix in fixes:
        try:
            fix.apply()
        except (OSError, MCPXError) as error:
            mended[fix.description] = str(error)
            echo(f"not done: {fix.description}: {error}", err=True, fg="red")
        else:
            mended[fix.description] = None
            if not as_json:
                echo(f"done: {fix.description}")
    return mended
