"""`mcpx ui`: the page of the daemon, in the browser. Starts the daemon where none runs, as a client does."""

from __future__ import annotations

import os
import subprocess
import sys
import webbrowser
from collections.abc import Mapping
from socket import gethostname
from urllib.parse import urlsplit

import click

from mcpx.cli.options import with_config
from mcpx.cli.printing import echo
from mcpx.core.config import load
from mcpx.core.daemon import lifecycle
from mcpx.core.daemon.control_client import request, request_or_fail
from mcpx.core.store.paths import DaemonPaths, daemon_paths
from mcpx.core.system.linux import PLATFORM
from mcpx.errors import MCPXError
from mcpx.paths import config_hint

# --- the person's browser


def has_browser(environ: Mapping[str, str] = os.environ, platform: str = PLATFORM) -> bool:
    """Return True if a browser would open on this screen, or `BROWSER` names one."""
    if environ.get("BROWSER"):
        return True
    if platform == "darwin":
        return not environ.get("SSH_CONNECTION")  # else it opens on the other computer's screen
    if not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def open_browser(url: str) -> None:
    """Have the browser open an address, without waiting for it: a program of `BROWSER` may run for long.

    It neither prints into what this command prints, nor ends with it.
    """
    command = [sys.executable, "-I", "-m", "webbrowser", url]
    nothing = subprocess.DEVNULL
    subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)


@click.command(short_help="The daemon's page, in the browser.")
@with_config
@click.option("--print", "only_print", is_flag=True, help="Print the address, and open nothing.")
def ui(*, config_path: str | None, only_print: bool) -> None:
    """Open the page of the daemon: servers, calls, what the model sees, setup. Starts it if none runs.

    The address is for you on this computer, and opens the page once, within two minutes. The page stays open
    until you sign out of it.
    """
    url = _link(daemon_paths(config_path))
    if only_print:
        echo(url)
    elif has_browser():
        open_browser(url)
        echo("the page opens in your browser; if it does not: mcpx ui --print", err=True)
    else:
        echo("there is no browser here; open this address, once, on this computer:", err=True)
        _explain_tunnel(url)
        echo(url)


def _link(paths: DaemonPaths) -> str:
    """The address that opens the page, of a daemon that is started if need be."""
    question = {"mcpx": "ui"}
    answer = request(paths, question)
    if answer is None:
        config = load(paths.config, resolve=False)  # a mistake in it is reported here, not in the log
        if not config.ui:
            off = f'the page is off: take "ui": false out of {paths.config}'
            raise MCPXError(f"{off}, then: mcpx ui{config_hint(paths.config)}")
        if lifecycle.start(paths):
            echo(f"no daemon ran; one is started, serving {paths.config}", err=True)
        answer = request_or_fail(paths, question)
    return str(answer["url"])


def _explain_tunnel(url: str) -> None:
    """Say how a browser on another computer gets here, to somebody who has come by ssh."""
    if not os.environ.get("SSH_CONNECTION"):
        return
    parts = urlsplit(url)
    tunnel = f"{parts.port}:{parts.netloc}"
    echo(f"or on your own, while this runs there: ssh -L {tunnel} {gethostname()}", err=True)
