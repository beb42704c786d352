"""`mcpx demo`: the whole product at work on the bundled servers, with no network and no configuration.

The exit code is 0 when every step did what it says, 1 when one did not (the last lines say which and why),
and 128 plus the number of the signal that ended it. No process outlives it in any of these cases.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mcpx.demo.tour.report import Report


@click.command(short_help="See it at work; needs no configuration.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end, for programs.")
def demo(as_json: bool) -> None:  # noqa: FBT001 - click passes it by name
    """Show MCPX at work on three bundled servers, in a few seconds and without a network.

    The catalogue, an inspect, an exec and a resource, each with the tokens it costs; a list that changes
    while it runs; a server that is killed and the call that succeeds after it. Exit code 1 if any of it
    does not work.
    """
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # for terminals without Chinese letters
    try:
        report = _run_as_json() if as_json else _run_for_people()
    except BrokenPipeError:
        _discard_output()
        sys.exit(1)
    sys.exit(report.exit_code)


def _run_for_people() -> Report:
    from mcpx.demo.tour.report import Printer
    from mcpx.demo.tour.runner import run

    printer = Printer()
    report = run(printer.show_step)
    printer.show_report(report)
    return report


def _run_as_json() -> Report:
    import msgspec

    from mcpx.demo.tour.runner import run

    report = run(lambda _step: None)
    plain = {"ok": report.ok, **msgspec.to_builtins(report)}
    click.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2))
    return report


def _discard_output() -> None:
    """Write nothing more, at exit either: the reader has gone (`mcpx demo | head`)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
