"""`mcpx demo`: the whole product at work on the bundled servers, with no network and no configuration.

The exit code is 0 when every step did what it says, 1 when one did not (the last lines say which and why),
and 128 plus the number of the signal that ended it. No process outlives it in any of these cases.
"""

from __future__ import annotations

import os
import sys

import click
import msgspec

from mcpx.demo.tour.report import Printer


@click.command(short_help="See it at work; needs no configuration.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end, for programs.")
def demo(*, as_json: bool) -> None:
    """Show MCPX at work on three bundled servers, in a few seconds and without a network.

    The catalogue, an inspect, an exec and a resource, each with the tokens it costs; a list that changes
    while it runs; a server that is killed and the call that succeeds after it. Exit code 1 if any of it
    does not work.
    """
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # for terminals without Chinese letters
    from mcpx.demo.tour.runner import run  # noqa: PLC0415 - half a second that help and completion do not pay

    printer = None if as_json else Printer()
    try:
        report = run((lambda _step: None) if printer is None else printer.show_step)
        if printer is None:
            plain = {"ok": report.ok, **msgspec.to_builtins(report)}
            click.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2))
        else:
            printer.show_report(report)
    except BrokenPipeError:  # the reader has gone (`mcpx demo | head`): write nothing more, at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(report.exit_code)
