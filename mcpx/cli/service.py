"""`mcpx daemon install` and `uninstall`: commands for the `daemon` group."""

from __future__ import annotations

import click


@click.command(short_help="Have systemd or launchd run the daemon.")
@click.option("--config", "config_path", type=click.Path(), help="Configuration file.")
def install(config_path: str | None) -> None:
    """Have the user's service manager (systemd, launchd) run the daemon, now and at every login.

    Writes one file, says which, and asks the service manager to start it. Again with another configuration,
    it replaces the file. The service finds the servers' commands on the PATH that this command was run with.
    """
    from mcpx.config import load, locate
    from mcpx.daemon import service as units

    load(config_path)  # what cannot be used is told now, and not in a log
    for line in units.install(locate(config_path)):
        click.echo(line)


@click.command(short_help="Take the daemon from systemd or launchd.")
def uninstall() -> None:
    """End the daemon that the service manager runs, and remove the file that `install` wrote."""
    from mcpx.daemon import service as units

    for line in units.uninstall():
        click.echo(line)


COMMANDS = (install, uninstall)
