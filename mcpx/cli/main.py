"""The root of the command line: all commands, and the help that stands above them.

Exit codes: 0, 1 for a failure at run time, 2 for usage and configuration, 130 for Ctrl-C. Standard output
belongs to the answer or to the protocol; everything else goes to standard error.
"""

from __future__ import annotations

import sys

import click

from mcpx.cli.about import show_help, version
from mcpx.cli.calls import exec_tool
from mcpx.cli.check import check, config
from mcpx.cli.completion import completion
from mcpx.cli.daemon import daemon
from mcpx.cli.demo import demo
from mcpx.cli.doctor import doctor
from mcpx.cli.group import Cli
from mcpx.cli.importing import import_servers
from mcpx.cli.install import install, uninstall
from mcpx.cli.offers import inspect, prompts, resources
from mcpx.cli.running import logs, reload_config, restart, status
from mcpx.cli.secret import secret
from mcpx.cli.serve import serve
from mcpx.cli.servers import add, add_json, disable, enable, list_servers, mcp, remove
from mcpx.cli.stats import stats
from mcpx.cli.undo import undo
from mcpx.version import __version__


@click.group(cls=Cli, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="mcpx")
def cli() -> None:
    """Three tools instead of hundreds: one gateway between AI clients and their MCP servers.

    A client is given inspect, exec and resources; MCPX keeps the servers of its configuration alive behind
    them. To see that: mcpx demo. To begin: mcpx import, then mcpx install.

    The configuration is the file given, or $MCPX_CONFIG, or config.json in your config folder for mcpx. Any
    client's own file will do (mcpServers, servers).
    """


@click.command(short_help="Join a client to the daemon.", add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def attach(arguments: tuple[str, ...]) -> None:
    """Join standard input and output to the daemon, which is started if none runs.

    Listed here for its help; `mcpx attach` itself goes another way, that imports less.
    """
    from mcpx.attach.command import main

    sys.exit(main(list(arguments)))


for command in (
    add,
    add_json,
    attach,
    check,
    completion,
    config,
    daemon,
    demo,
    disable,
    doctor,
    enable,
    exec_tool,
    show_help,
    import_servers,
    inspect,
    install,
    list_servers,
    logs,
    mcp,
    prompts,
    reload_config,
    remove,
    resources,
    restart,
    secret,
    serve,
    stats,
    status,
    undo,
    uninstall,
    version,
):
    cli.add_command(command)
