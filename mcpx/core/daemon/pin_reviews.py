"""The changes that wait for approval in a running MCPX, and carrying an approval out: for `mcpx approve`."""

from __future__ import annotations

from collections.abc import Sequence

import anyio.to_thread

from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub import Hub
from mcpx.core.policy.pin_review import Agreed, agreed_to, edit_of, review, reviewed
from mcpx.errors import MCPXError


def waiting(hub: Hub, server: str | None, tool: str | None) -> JSON:
    """`{waiting: [{server, started_by, changes}]}`: of all servers, of one, or of one tool.

    Raises:
        CallError: `unknown_server`, with the nearest names.
        NothingToApproveError: There is no such tool.
    """
    names = list(hub.upstreams) if server is None else [hub.upstream(server).name]
    found = []
    for name in names:
        policy = hub.upstreams[name].policy
        if policy.pins is not None and (changes := review(policy.pins, policy, tool)):
            found.append(reviewed(policy.pins, changes))
    return {"waiting": found}


async def approve(hub: Hub, agreed: Sequence[Agreed], *, of_all: bool) -> JSON:
    """Put in force what was agreed to: `{approved: [{server, kind, tool?}]}`.

    Raises:
        CallError: `unknown_server`.
        MCPXError: It cannot be written down.
    """
    by_server: dict[str, list[Agreed]] = {}
    for each in agreed:
        by_server.setdefault(hub.upstream(each.server).name, []).append(each)
    store = hub.fleet.pins
    try:
        for name, its in by_server.items():
            await store.approve(hub.config.servers[name], edit_of(its))
        if of_all:
            await anyio.to_thread.run_sync(store.files.forget_losses)
    except OSError as error:
        raise MCPXError(f"{store.files.folder}: {error.strerror}; nothing was approved") from None
    return agreed_to(agreed)
