"""The root of the command line: all commands, and the help that stands above them.

Exit codes: 0, 1 for a failure at run time, 2 for usage and configuration, 130 for Ctrl-C. Standard output
belongs to the answer or to the protocol; everything else goes to standard error.
"""

from __future__ import annotations

import sys
from typing import Final

import click

from mcpx.cli.group import Cli
from mcpx.version import __version__

COMMANDS: Final = {
    "add": "cli.servers:add",
    "add-json": "cli.servers:add_json",
    "approve": "cli.approve:approve",
    "audit": "cli.audit:audit",
    "check": "cli.check:check",
    "cluster": "cli.cluster:cluster",
    "completion": "cli.completion:completion",
    "config": "cli.check:config",
    "daemon": "cli.daemon:daemon",
    "demo": "demo.tour.command:demo",
    "disable": "cli.servers:disable",
    "doctor": "cli.doctor:doctor",
    "enable": "cli.servers:enable",
    "exec": "cli.calls:exec_tool",
    "help": "cli.about:show_help",
    "import": "cli.importing:import_servers",
    "inspect": "cli.offers:inspect",
    "install": "cli.install:install",
    "list": "cli.servers:list_servers",
    "login": "cli.login:login",
    "logout": "cli.login:logout",
    "logs": "cli.running:logs",
    "mcp": "cli.servers:mcp",
    "prompts": "cli.offers:prompts",
    "reload": "cli.running:reload_config",
    "remove": "cli.servers:remove",
    "resources": "cli.offers:resources",
    "restart": "cli.running:restart",
    "secret": "cli.secret:secret",
    "serve": "cli.serve:serve",
    "stats": "cli.stats:stats",
    "status": "cli.running:status",
    "token": "cli.token:token",
    "top": "top.command:top",
    "ui": "cli.ui:ui",
    "undo": "cli.undo:undo",
    "uninstall": "cli.install:uninstall",
    "version": "cli.about:version",
}
"""Where each command is: a module of `mcpx`, and its name there. It is imported when it is used."""


@click.group(
    cls=Cli,
    places=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="mcpx")
def cli() -> None:
    """Three tools instead of hundreds: one gateway between AI clients and their MCP servers.

    A client is given inspect, exec and resources; MCPX keeps the servers of its configuration alive behind
    them. To see that: mcpx demo. To begin: mcpx import, then mcpx install.

    The configuration is the file given, or $MCPX_CONFIG, or config.json in your config folder for mcpx. Any
    client's own file will do (mcpServers, servers).
    """


@cli.command(short_help="Join a client to the daemon.", add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def attach(arguments: tuple[str, ...]) -> None:
    """Join standard input and output to the daemon, which is started if none runs.

    Listed here for its help; `mcpx attach` itself goes another way, that imports less.
    """
    from mcpx.attach.command import main

    sys.exit(main(list(arguments)))
