"""`mcpx help` and `mcpx version`: for those who type what other programs have as commands."""

from __future__ import annotations

import click

from mcpx.cli.group import all_commands, no_such_command
from mcpx.version import __version__


@click.command("help", short_help="Show the help of a command.")
@click.argument("command", nargs=-1)
@click.pass_context
def show_help(ctx: click.Context, command: tuple[str, ...]) -> None:
    """Show what a COMMAND does and takes; without one, all commands."""
    shown = ctx.find_root()
    for name in command:
        group = shown.command
        known = all_commands(group, shown) if isinstance(group, click.Group) else {}
        if name not in known:
            raise no_such_command(name, known, ctx)
        shown = click.Context(known[name], info_name=name, parent=shown)
    if shown.command.name == "attach":
        from mcpx.attach.command import USAGE

        click.echo(USAGE, nl=False)
        return
    click.echo(shown.get_help())


@click.command(short_help="Print the version.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def version(as_json: bool) -> None:  # noqa: FBT001 - click passes it by name
    """Print the version of MCPX."""
    if as_json:
        from mcpx.cli.printing import print_json

        print_json({"version": __version__})
    else:
        click.echo(f"mcpx, version {__version__}")
