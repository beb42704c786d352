"""`mcpx ui`: the page of the running daemon, in the browser."""

from __future__ import annotations

import click

from mcpx.cli.daemon import with_config
from mcpx.cli.printing import echo


@click.command(short_help="The daemon's page, in the browser.")
@with_config
@click.option("--print", "only_print", is_flag=True, help="Print the address, and open nothing.")
def ui(config_path: str | None, only_print: bool) -> None:  # noqa: FBT001 - click passes it by name
    """Open the page of the running daemon: servers, calls, what the model sees, setup.

    The address is for this computer, and opens the page once. The page stays open until you sign out of it.
    """
    from mcpx.cli.browser import has_browser, open_browser
    from mcpx.daemon.control_client import request_or_fail
    from mcpx.daemon.paths import daemon_paths

    url = request_or_fail(daemon_paths(config_path), {"mcpx": "ui"})["url"]
    if only_print:
        echo(url)
        return
    if has_browser():
        open_browser(url)
        echo("the page is opened in the browser; if none appears: mcpx ui --print", err=True)
    else:
        echo("no browser here; open this address, once, on this computer:", err=True)
        echo(url)
