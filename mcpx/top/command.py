"""`mcpx top`: the command. It asks once, so that a daemon that is not there is one plain line."""

from __future__ import annotations

import codecs
import os
import sys
from typing import Final

import click

from mcpx.cli.options import with_config
from mcpx.core.store.paths import daemon_paths
from mcpx.errors import MCPXError

DUMB_TERMINALS: Final = frozenset({"", "dumb", "unknown"})


@click.command(short_help="The servers, live on the whole terminal.")
@with_config
def top(config_path: str | None) -> None:
    """Show the daemon, its servers and what they do, live, until q is pressed.

    Keys: arrows choose a server, Enter shows all of it, l its log, r restarts it, e switches it off or on; /
    filters, s sorts, c shows the clients, ? explains the columns. Colours are those of the terminal; NO_COLOR
    does without.

    Calls are the requests of clients to a server, since the daemon's start: failed are those that were sent
    and have no good answer, refused those of which nothing was sent. Saved tokens reached no model.
    """
    _check_terminal()
    from mcpx.top.polling import Polling  # rich

    polling = Polling(daemon_paths(config_path))
    first = polling.ask()  # before textual is imported: that there is no daemon is said at once
    if not os.environ.get("NO_COLOR"):
        os.environ.pop("NO_COLOR", None)  # empty, it says nothing (no-color.org), but textual obeys it
    from mcpx.top.app import Top  # textual: a third of a second

    app = Top(polling, first)
    app.run()
    sys.exit(app.return_code or 0)


def _check_terminal() -> None:
    """Refuse what is no terminal."""
    instead = "mcpx status shows the same once, mcpx status --watch again every second"
    streams = {"input": sys.stdin, "output": sys.stdout, "error": sys.stderr}
    if other := [name for name, stream in streams.items() if stream is None or not stream.isatty()]:
        raise MCPXError(f"mcpx top needs a terminal, and standard {other[0]} is none; {instead}")
    if (encoding := codecs.lookup(sys.stderr.encoding).name) != "utf-8":
        raise MCPXError(f"mcpx top needs UTF-8, and the terminal is said to have {encoding}; {instead}")
    if (terminal := os.environ.get("TERM", "")) in DUMB_TERMINALS:
        raise MCPXError(f"mcpx top cannot draw on this terminal (TERM={terminal or 'is not set'}); {instead}")
