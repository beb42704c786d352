"""`mcpx doctor`: one page that says what is wrong and what to type, and mends what can be mended safely."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Container
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from mcpx.cli.options import Manner, changing_options
from mcpx.cli.printing import console, counted, echo, print_json
from mcpx.core.text import one_line
from mcpx.errors import MCPXError
from mcpx.version import __version__

if TYPE_CHECKING:
    from mcpx.setup.doctor.examination import Section
    from mcpx.setup.doctor.installation import Finding, Fix


# --- the page, for people and as JSON

SIGNS: Final = {"ok": "ok   ", "note": "note ", "wrong": "WRONG"}
COLOURS: Final = {"ok": "green", "note": "yellow", "wrong": "red"}
INDENT: Final = " " * 8
START_TIMEOUT_S: Final = 30.0


def show_page(sections: list[Section]) -> None:
    """Print the page, and last what it comes to, where it is seen."""
    for section in sections:
        echo(section.title, bold=True)
        for finding in section.findings:
            show_finding(finding)
    echo(f"\n{_summary(sections)}", bold=True)
    if any(each.fix is not None for section in sections for each in section.findings):
        echo("mcpx doctor --fix mends what can be mended safely")


def show_finding(finding: Finding) -> None:
    """Print a finding, what is behind it, and what to do about it."""
    line = f"  {SIGNS[finding.level]} {finding.subject}: {one_line(finding.text)}"
    echo(line, fg=None if finding.level == "ok" else COLOURS[finding.level])
    for each in str(finding.details.get("excerpt") or "").splitlines():
        echo(f"{INDENT}{each}")
    if finding.advice is not None:
        echo(f"{INDENT}-> {one_line(finding.advice)}")
    if finding.fix is not None and finding.fix.description != finding.advice:
        echo(f"{INDENT}-> mcpx doctor --fix: {finding.fix.description}")


def _summary(sections: list[Section]) -> str:
    counts = Counter(each.level for section in sections for each in section.findings)
    if not counts["wrong"]:
        return f"all is well{_and_notes(counts['note'])}"
    things = "1 thing is" if counts["wrong"] == 1 else f"{counts['wrong']} things are"
    return f"{things} wrong{_and_notes(counts['note'])}"


def _and_notes(number: int) -> str:
    return f", {counted(number, 'note')}" if number else ""


def as_object(sections: list[Section], mended: dict[str, str | None]) -> dict[str, Any]:
    """Return the page as plain JSON; `mended` are the fixes that were tried, with what went wrong or None."""
    findings = [_finding(section.title, each) for section in sections for each in section.findings]
    counts = Counter(each["level"] for each in findings)
    page: dict[str, Any] = {"ok": not counts["wrong"], "version": __version__}
    page |= {"wrong": counts["wrong"], "notes": counts["note"]}
    if mended:
        page["mended"] = [what for what, problem in mended.items() if problem is None]
        page["not_mended"] = {what: problem for what, problem in mended.items() if problem is not None}
    return page | {"findings": findings}


def _finding(title: str, finding: Finding) -> dict[str, Any]:
    found: dict[str, Any] = {
        "section": title,
        "level": finding.level,
        "subject": finding.subject,
        "text": one_line(finding.text),
    }
    fix = None if finding.fix is None else finding.fix.description
    more = {"advice": finding.advice, "command": finding.command, "fix": fix, "details": finding.details}
    return found | {name: value for name, value in more.items() if value}


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
def doctor(*, config_path: str | None, mends: bool, no_start: bool, timeout: float, manner: Manner) -> None:
    """Check everything: versions, configuration, servers, client files, daemon, service, machine.

    Each server is started once, and each client's entry too, as the client does it; a daemon that does not
    run is started for that and ended again. Exit code 1 if anything is wrong; notes do not count.
    """
    sections = examined(config_path, starts=not no_start, timeout_s=timeout, quiet=manner.as_json)
    if not manner.as_json:
        show_page(sections)
    mended: dict[str, str | None] = {}
    fixes = _fixes(sections) if mends else []
    if fixes:
        mended = _mend(fixes, manner)
    elif mends and not manner.as_json:
        click.echo("nothing here can be mended by --fix")
    if None in mended.values():  # what was wrong because of it may be well now
        sections = examined(config_path, starts=not no_start, timeout_s=timeout, quiet=manner.as_json)
        if not manner.as_json:
            click.echo()
            show_page(sections)
    if manner.as_json:
        print_json(as_object(sections, mended))
    is_wrong = any(each.level == "wrong" for section in sections for each in section.findings)
    is_declined = bool(fixes) and not mended and not manner.dry_run
    sys.exit(1 if is_wrong or is_declined else 0)


def examined(
    config_path: str | None,
    *,
    starts: bool = True,
    timeout_s: float = START_TIMEOUT_S,
    quiet: bool,
    titles: Container[str] | None = None,
) -> list[Section]:
    """Run the checks, all or those of these titles, and say on a terminal which one runs."""
    from mcpx.core.telemetry.log import configure  # all that is examined: a quarter of a second
    from mcpx.setup.doctor.examination import CHECKS, examine  # likewise
    from mcpx.setup.doctor.installation import Installation  # likewise

    configure("error")  # what fails is on the page
    installation = Installation(config_path, starts=starts, timeout_s=timeout_s)
    checks = [check for check in CHECKS if titles is None or check.title in titles]
    run = partial(examine, installation, checks=checks)
    if quiet or not sys.stderr.isatty():
        return run()
    with console(err=True).status("") as progress:
        return run(on_check=lambda title: progress.update(f"looking at the {title} ..."))


def _fixes(sections: list[Section]) -> list[Fix]:
    """The fixes that were found, each once."""
    found = [each.fix for section in sections for each in section.findings if each.fix is not None]
    first: dict[str, Fix] = {}
    for fix in found:
        first.setdefault(fix.description, fix)
    return list(first.values())


def _mend(fixes: list[Fix], manner: Manner) -> dict[str, str | None]:
    """Apply the fixes, if the user agrees: what went wrong with each, None for success."""
    if not manner.as_json:
        click.echo("\nthis can be mended:")
        for fix in fixes:
            echo(f"  {fix.description}")
    if not manner.agrees("Mend it?"):
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
            if not manner.as_json:
                echo(f"done: {fix.description}")
    return mended
