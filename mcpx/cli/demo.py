"""`mcpx demo`: the whole product at work on the bundled servers, with no network and no configuration.

The exit code is 0 when every scene did what it says, 1 when one did not (the last lines say which and why),
and 128 plus the number of the signal that ended it. No process outlives it in any of these cases.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mcpx.demo.tour.scene import Ending


@click.command(short_help="See it at work; needs no configuration.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end, for programs.")
def demo(as_json: bool) -> None:  # noqa: FBT001 - click passes it by name
    """Show MCPX at work on three bundled servers, in a few seconds and without a network.

    The catalogue, an inspect, an exec and a resource, each with the tokens it costs; a list that changes
    while it runs; a server that is killed and the call that succeeds after it. Exit code 1 if any of it
    does not work.
    """
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(
            errors="replace"
        )  # one leaflet is Chinese, and not every terminal has the letters
    try:
        ending = _perform_as_json() if as_json else _perform_for_people()
    except BrokenPipeError:
        _write_no_more()
        sys.exit(1)
    sys.exit(ending.exit_code)


def _perform_for_people() -> Ending:
    from mcpx.demo.tour.performance import perform
    from mcpx.demo.tour.terminal import Terminal

    terminal = Terminal()
    terminal.open()
    ending = perform(terminal.show)
    terminal.close(ending)
    return ending


def _perform_as_json() -> Ending:
    import msgspec

    from mcpx.demo.tour.performance import perform

    ending = perform(lambda _scene: None)
    plain = {"ok": ending.ok, **msgspec.to_builtins(ending)}
    click.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2))
    return ending


def _write_no_more() -> None:
    """Whoever read the output has left (`mcpx demo | head`): nothing more may be written at exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
