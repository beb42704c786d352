"""What the command line asks of a daemon's cluster, which the composition root has made if there is one."""

from __future__ import annotations

from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.frontends.operations import ControlRequest, ReportStep
from mcpx.errors import MCPXError


async def perform(hub: Hub, request: ControlRequest, _report: ReportStep = lambda _step: None) -> JSON:
    """How the cluster is, after `request.do` was done there.

    Raises:
        MCPXError: There is no cluster, or it cannot be done.
    """
    if hub.cluster is None:
        raise MCPXError("this daemon is in no cluster; join one with: mcpx cluster start")
    return await hub.cluster.answer(request.do, request.node, request.timeout)
