"""The two generated lists, as functions of a registry: part of the public API.

They are the lists alone; the whole descriptions of the three tools, which share one budget, are made by
`mcpx.rendering.descriptions`.
"""

from __future__ import annotations

from typing import Final

from mcpx.core.registry import Registry
from mcpx.rendering.descriptions import describe_resources, describe_tools

DEFAULT_BUDGET: Final = 4000  # tokens


def generate_tools_description(registry: Registry, *, budget: int = DEFAULT_BUDGET) -> str:
    """Every server and its tools with a short line each, within `budget` tokens."""
    return describe_tools(registry.list_servers(), budget=budget)


def generate_resources_description(registry: Registry, *, budget: int = DEFAULT_BUDGET) -> str:
    """The resources of every server that has some, within `budget` tokens."""
    return describe_resources(registry.list_servers(), budget=budget)
