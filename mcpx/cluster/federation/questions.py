"""What another MCPX asks at an endpoint that shows it servers: `mcpx/servers`, `mcpx/restart`, `mcpx/log`.

JSON-RPC requests beside those of MCP, in both eras; clients do not know them. Which servers there are is said
to everybody whom the endpoint shows them to. Starting one again, and what it has logged, are for those whose
endpoint is not narrowed by a profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND

from mcpx.cluster.federation.directory import (
    LOG,
    RESTART,
    SERVERS,
    Directory,
    DirectoryRequest,
    LogRequest,
    LogTail,
    RestartRequest,
)
from mcpx.cluster.federation.own_directory import OwnDirectory
from mcpx.core.catalog.model import JSON, present
from mcpx.core.daemon.ports import Shown
from mcpx.core.gateway.peer.results import as_peer_error
from mcpx.core.rendering.result_members import enveloped
from mcpx.core.wire.enclosed import enclose
from mcpx.errors import CallError

Context = ServerRequestContext[Any, Any]
P = TypeVar("P", DirectoryRequest, RestartRequest, LogRequest)


async def answer(directory: OwnDirectory, view: Shown, ctx: Context, stamp: bytes | None) -> JSON:
    """The result of one of these requests, enclosed. `stamp` is as for `enveloped`.

    Raises:
        MCPError: There is no such method for this peer; its params are wrong; or it failed.
    """
    may_all = view.endpoint.profile is None
    try:
        match ctx.method:
            case method if method == SERVERS:
                result = _said(await directory.answer(view, _read(ctx, DirectoryRequest)))
            case method if method == RESTART and may_all:
                server = _read(ctx, RestartRequest).server
                view.registry.upstream(server)  # else an error, with the nearest
                await directory.hub.restart(server)
                result = {}
            case method if method == LOG and may_all:
                wanted = _read(ctx, LogRequest)
                view.registry.upstream(wanted.server)
                lines = await directory.hub.log_tail(wanted.server, wanted.lines)
                result = msgspec.to_builtins(LogTail(lines))
            case _:
                raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
    except CallError as error:
        raise as_peer_error(error) from None
    return enclose([enveloped(result, stamp)])


def _said(directory: Directory) -> JSON:
    """A directory as JSON; what is not known of a server is not there."""
    said: JSON = msgspec.to_builtins(directory)
    said["servers"] = [present(**server) for server in said["servers"]]
    return said


def _read(ctx: Context, kind: type[P]) -> P:
    given: Mapping[str, Any] = ctx.params or {}
    try:
        return msgspec.convert(dict(given), kind)
    except msgspec.ValidationError as error:
        raise MCPError(INVALID_PARAMS, f"Invalid params of {ctx.method}: {error}") from None
