"""What waits for approval in a running MCPX, and carrying an approval out: for `mcpx approve`."""

from __future__ import annotations

from collections.abc import Iterable

import anyio.to_thread

from mcpx.catalog.model import JSON
from mcpx.core.hub import Hub
from mcpx.errors import MCPXError
from mcpx.trust.pin_review import Agreed, edit_of, review, reviewed


def waiting(hub: Hub, server: str | None, tool: str | None) -> JSON:
    """`{waiting: [{server, started_by, changes}]}`: of all servers, of one, or of one tool.

    Raises:
        CallError: `unknown_server`, with the nearest names.
        NothingToApproveError: There is no such tool.
    """
    names = list(hub.upstreams) if server is None else [hub.registry.upstream(server).name]
    found = []
    for name in names:
        upstream = hub.upstreams[name]
        pins = upstream.policy.pins
        if pins is not None:
            shown = upstream.catalogue
            its = shown.tools.get(tool) if shown and tool else None
            asked = its is not None and upstream.policy.asks(its) is not None
            if changes := review(pins, tool, asked=asked):
                found.append(reviewed(pins, changes))
    return {"waiting": found}


async def approve(hub: Hub, agreed: Iterable[Agreed], *, of_all: bool) -> JSON:
    """Put in force what was agreed to: `{approved: [{server, kind, tool?}]}`.

    Raises:
        CallError: `unknown_server`.
        MCPXError: It cannot be written down.
    """
    by_server: dict[str, list[Agreed]] = {}
    for each in agreed:
        by_server.setdefault(hub.registry.upstream(each.server).name, []).append(each)
    store = hub.fleet.pins
    try:
        for name, its in by_server.items():
            await store.approve(hub.config.servers[name], edit_of(its))
        if of_all:
            await anyio.to_thread.run_sync(store.files.forget_losses)
    except OSError as error:
        raise MCPXError(f"{store.files.folder}: {error.strerror}; nothing was approved") from None
    done = [{"server": each.server, "kind": each.kind, "tool": each.tool} for each in agreed]
    return {"approved": [{key: value for key, value in each.items() if value} for each in done]}
