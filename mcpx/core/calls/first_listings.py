"""Waits for what servers list first: what is known of them from last time may be so no more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import anyio

from mcpx.core.calls.tool_names import not_listed
from mcpx.core.servers.visible_server import VisibleServer

INSPECT_WAIT_S: Final = 5.0  # the state of a server that takes longer is an answer, too


async def await_listing(upstream: VisibleServer, tool_name: str | None) -> None:
    """Wait for the first listing of this run.

    Raises:
        CallError: `server_unavailable`: there is none, though it has listed last time.
    """
    if not upstream.has_listed:
        await upstream.await_catalogue(lambda _known: False)
        if not upstream.has_listed and upstream.catalogue is not None:
            raise not_listed(upstream.info(), tool_name or "")


async def await_first_listings(upstreams: Iterable[VisibleServer], within_s: float) -> None:
    """Wait for the first listing of each of these servers, as long as it has not failed."""
    with anyio.move_on_after(within_s):
        for each in list(upstreams):
            await each.await_first_attempt()
