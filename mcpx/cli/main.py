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
    "add": "servers:add",
    "add-json": "servers:add_json",
    "approve": "approve:approve",
    "audit": "audit:audit",
    "check": "check:check",
    "cluster": "cluster:cluster",
    "completion": "completion:completion",
    "config": "check:config",
    "daemon": "daemon:daemon",
    "demo": "demo:demo",
    "disable": "servers:disable",
    "doctor": "doctor:doctor",
    "enable": "servers:enable",
    "exec": "calls:exec_tool",
    "help": "about:show_help",
    "import": "importing:import_servers",
    "inspect": "offers:inspect",
    "install": "install:install",
    "list": "servers:list_servers",
    "login": "login:login",
    "logout": "login:logout",
    "logs": "running:logs",
    "mcp": "servers:mcp",
    "prompts": "offers:prompts",
    "reload": "running:reload_config",
    "remove": "servers:remove",
    "resources": "offers:resources",
    "restart": "running:restart",
    "secret": "secret:secret",
    "serve": "serve:serve",
    "stats": "stats:stats",
    "status": "running:status",
    "token": "token:token",
    "top": "top.command:top",
    "ui": "ui:ui",
    "undo": "undo:undo",
    "uninstall": "install:uninstall",
    "version": "about:version",
}
"""Where each command is: a module of `mcpx.cli`, and its name there. It is imported when it is used."""


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
