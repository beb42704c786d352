"""The view `calls`: what it asks for, and what it follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from starlette.routing import Route

from mcpx.page.events import Topic

if TYPE_CHECKING:
    from mcpx.page.page import Page

TOPICS: Final[Mapping[str, Topic]] = {}


def routes(page: Page) -> list[Route]:
    """Its requests."""
    del page
    return []
