"""The root of the command line: all commands, and the help that stands above them.

Exit codes: 0, 1 for a failure at run time, 2 for usage and configuration, 130 for Ctrl-C. Standard output
belongs to the answer or to the protocol; everything else goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Final

import click

from mcpx.cli.group import EVERY, Cli, imported, no_such_command
from mcpx.cli.printing import print_json
from mcpx.version import DISTRIBUTION, __version__

_MARKS: Final = {"pipx": "pipx_metadata.json", "uv tool": "uv-receipt.toml"}
"""Files that these keep in an environment of theirs."""
COMMANDS: Final = {
    "Get in": {
        "setup": ("cli.setup.setting_up:setup", "Put MCPX into your AI clients, with their servers."),
        "demo": ("demo.tour.command:demo", "See it at work; needs no configuration."),
        "import": ("cli.setup.importing:import_servers", "Take over the servers of your AI clients."),
        "install": ("cli.setup.install:install", "Put MCPX into your AI clients."),
        "uninstall": ("cli.setup.install:uninstall", "Take MCPX out of your AI clients."),
    },
    "Your servers": {
        "add": ("cli.setup.servers:add", "Add a server."),
        "add-json": ("cli.setup.servers:add_json", "Add a server, given as JSON."),
        "rename": ("cli.setup.servers:rename", "Give a server another name."),
        "remove": ("cli.setup.servers:remove", "Take servers out."),
        "enable": ("cli.setup.servers:enable", "Switch servers on."),
        "disable": ("cli.setup.servers:disable", "Switch servers off, and keep them."),
        "login": ("cli.trust.login:login", "Sign in to a server."),
        "logout": ("cli.trust.login:logout", "Sign out of a server."),
        "secret": ("cli.trust.secrets:secret", "Secrets in the keychain."),
    },
    "Every day": {
        "ui": ("cli.operations.ui:ui", "The daemon's page, in the browser."),
        "top": ("top.command:top", "The servers, live on the whole terminal."),
        "status": ("cli.operations.running:status", "The servers, a row each."),
        "inspect": ("cli.calls.offers:inspect", "What the servers offer."),
        "exec": ("cli.calls.exec:exec_tool", "Run a tool."),
        "resources": ("cli.calls.offers:resources", "List resources, or read one."),
        "prompts": ("cli.calls.offers:prompts", "List prompts, or get one."),
        "approve": ("cli.trust.approve:approve", "Agree to tools that changed."),
        "audit": ("cli.trust.audit:audit", "What was run, by whom, and how it ended."),
        "stats": ("cli.operations.stats:stats", "The tokens that MCPX has saved."),
        "daemon": ("cli.operations.daemon:daemon", "One process for all clients: start, stop, status."),
        "cluster": (
            "cli.operations.cluster:cluster",
            "Servers on the nodes of a Ray cluster: start, status, drain.",
        ),
    },
    "When something is wrong": {
        "doctor": ("cli.setup.doctor:doctor", "Say what is wrong, and what to type."),
        "check": ("cli.setup.check:check", "Check a configuration."),
        "logs": ("cli.operations.logs:logs", "What a server says on standard error."),
        "restart": ("cli.operations.running:restart", "Restart one server."),
        "undo": ("cli.setup.changing:undo", "Take back the last change of files."),
        "config": ("cli.setup.check:config", "About the configuration file."),
    },
    "For programs": {
        "attach": ("cli.main:attach", "Join a client to the daemon."),
        "serve": ("cli.operations.serve:serve", "Serve a client over stdio, or many over HTTP."),
        "token": ("cli.trust.secrets:token", "Tokens for HTTP clients."),
    },
    "More": {
        "completion": ("cli.setup.completion:completion", "Complete names in your shell."),
        "help": ("cli.main:show_help", "Show the help of a command."),
        "version": ("cli.main:version", "Print the version."),
    },
    "Under other names": {
        "list": ("cli.operations.running:status", "The same as status."),
        "mcp": (
            "cli.setup.servers:mcp",
            "mcpx mcp add is mcpx add, as claude mcp add; remove, list and so on.",
        ),
        "reload": (
            "cli.operations.running:reload_config",
            "Read the configuration again; the daemon does so by itself.",
        ),
    },
}
"""The commands by sections of the help: the place of each in `mcpx`, imported when used, and what it does."""
COMMON: Final = {
    "Begin": ("setup", "demo", "undo"),
    "Your servers": ("status", "add remove", "enable disable", "login"),
    "Every day": ("ui", "top", "inspect", "exec"),
    "When something is wrong": ("doctor", "logs", "restart"),
}
"""The commands of the help without --all: 23 lines at most, which leave one for the prompt."""

ALONE: Final = "cli.operations.running:overview"
"""The command that `mcpx` alone is, in a terminal."""


@click.group(
    cls=Cli,
    table=COMMANDS,
    common=COMMON,
    invoke_without_command=True,
    short_help="One gateway between AI clients and their MCP servers. To begin: mcpx setup",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="mcpx")
@click.option("--all", is_flag=True, expose_value=False, help="With --help: all commands.")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Three tools instead of hundreds: one gateway between AI clients and their MCP servers.

    A client is given inspect, exec and resources; MCPX keeps the servers of its configuration alive behind
    them. To see that: mcpx demo. To begin: mcpx setup.

    The configuration is the file given, or $MCPX_CONFIG, or config.json in your config folder for mcpx. Any
    client's own file will do (mcpServers, servers).
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(imported(ALONE))


@click.command(short_help="Join a client to the daemon.", add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def attach(arguments: tuple[str, ...]) -> None:
    """Join standard input and output to the daemon, which is started if none runs.

    Listed here for its help; `mcpx attach` itself goes another way, that imports less.
    """
    from mcpx.attach.command import main  # a client that starts this pays for nothing else

    sys.exit(main(list(arguments)))


@click.command("help", short_help="Show the help of a command.")
@click.argument("command", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All commands, the rare ones too.")
@click.pass_context
def show_help(ctx: click.Context, command: tuple[str, ...], *, every: bool) -> None:
    """Show what a COMMAND does and takes; without one, the common commands, or all."""
    shown = ctx.find_root()
    shown.meta[EVERY] = every
    for name in command:
        group = shown.command
        found = group.get_command(shown, name) if isinstance(group, click.Group) else None
        if found is None:
            known = group.list_commands(shown) if isinstance(group, click.Group) else ()
            raise no_such_command(name, known, ctx)
        shown = click.Context(found, info_name=name, parent=shown)
    if shown.command.name == "attach":
        from mcpx.attach.command import USAGE  # the modules of the shim, which no other command needs

        click.echo(USAGE, nl=False)
        return
    click.echo(shown.get_help())


@click.command(short_help="Print the version.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def version(*, as_json: bool) -> None:
    """Print the version of MCPX; with --json also its location, its installer, and that of the daemon."""
    if as_json:
        from mcpx.core.daemon.lifecycle import running_version  # likewise, and msgspec

        print_json(_installation() | {"daemon": running_version()})
    else:
        click.echo(f"mcpx, version {__version__}")


def _installation() -> dict[str, Any]:
    """Return what is installed, as `mcpx version --json` prints it, but for the daemon.

    `installed` names how (`by`: checkout, pipx, uv tool, or the installer, pip or uv), the file or address
    (`from`, null for a package index), and whether it is a checkout used as it stands (`editable`); null
    where MCPX was not installed. `path` is the folder of the code, `sdk` the version of the MCP SDK.
    """
    from importlib.metadata import PackageNotFoundError, distribution, version  # of one command

    try:
        found = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        installed = None
    else:
        origin = json.loads(found.read_text("direct_url.json") or "{}")  # PEP 610
        editable = origin.get("dir_info", {}).get("editable", False)
        by = "checkout" if editable else (found.read_text("INSTALLER") or "").strip() or None
        for name, mark in _MARKS.items():
            by = name if os.path.exists(f"{sys.prefix}/{mark}") else by
        installed = {"by": by, "from": origin.get("url"), "editable": editable}
    python = ".".join(map(str, sys.version_info[:3]))
    path = os.path.dirname(os.path.dirname(__file__))
    return {
        "version": __version__,
        "installed": installed,
        "path": path,
        "python": python,
        "sdk": version("mcp"),
    }
