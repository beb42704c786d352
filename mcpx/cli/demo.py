"""`mcpx demo`: a placeholder until the demonstration is written."""

from __future__ import annotations

import click


@click.command()
def demo() -> None:
    """Show it."""
