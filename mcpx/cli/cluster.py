"""`mcpx cluster`: servers on the nodes of a Ray cluster."""

from __future__ import annotations

import sys

import click

from mcpx.cli.group import Group


@click.group(cls=Group, short_help="Servers on the nodes of a Ray cluster.")
def cluster() -> None:
    """Run servers on the nodes of a Ray cluster, with this MCPX as the gateway to them."""


@cluster.command(hidden=True)
def node() -> None:
    """Be a node: started by the cluster on each machine, with one line on standard input."""
    from mcpx.light_imports import import_structlog, light_sdk

    import_structlog()
    from mcpx.observe.log import configure

    configure()
    with light_sdk():
        from mcpx.cluster.node.process import main

    sys.exit(main())
