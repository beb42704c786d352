"""The control requests `login`, `login_answer` and `logout`, performed on a hub.

A sign-in that only the command line waits for ends with its connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mcpx.core.catalog.model import JSON
from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.frontends.operations import ControlRequest

SIGN_INS: Final = ("login", "login_answer", "logout")


async def perform(hub: Hub, request: ControlRequest, report: Callable[[JSON], None]) -> JSON:
    """The response to one of `SIGN_INS`.

    Raises:
        MCPXError: It cannot be carried out.
    """
    match request.mcpx:
        case "login":
            return await _login(hub, request, report)
        case "login_answer":
            return _answer(hub, request)
        case _:
            return await _logout(hub, request)


async def _login(hub: Hub, request: ControlRequest, report: Callable[[JSON], None]) -> JSON:
    """Sign in to a server, with a report of the address to open; or name those that need it."""
    if request.server is None:
        return {"needed": await hub.sign_ins.needed()}
    sign_in = hub.sign_ins.begin(request.server, scopes=request.scopes, timeout_s=request.timeout)
    try:
        await sign_in.url()
        report(sign_in.report())
        await sign_in.wait(request.timeout)
    finally:
        sign_in.leave()
    info = await hub.sign_ins.started(sign_in.name)
    described = info.cause if info.state is State.NEEDS_SIGN_IN and info.cause else info.describe_state()
    state = {"state": str(info.state), "described": described, "tools": len(info.tools)}
    return sign_in.result() | state


def _answer(hub: Hub, request: ControlRequest) -> JSON:
    """Take the address that a browser came back to, for the sign-in that waits for it."""
    name = request.server or ""
    hub.sign_ins.answer(name, request.address)
    return {"taken": name}


async def _logout(hub: Hub, request: ControlRequest) -> JSON:
    """Sign out of a server; or name those that are signed in to."""
    if request.server is None:
        return {"signed_in": await hub.sign_ins.signed_in()}
    return {"server": request.server, "signed_out": await hub.sign_ins.logout(request.server)}
