"""The supervision tree of a hub: its root, and the parts of MCPX that every hub has as its children.

Called by the hub when it is made. The order counts: what was added last is stopped first, so that what is
kept in files is written when the servers have ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from mcpx.core.servers.fleet.supervision import TEARDOWN_S
from mcpx.core.servers.health import distrust_all
from mcpx.core.telemetry.suspend import SuspendWatch
from supervisors import ChildFailed, ChildSpec, ChildStuck, Event, Intensity, Shutdown, Supervisor

if TYPE_CHECKING:
    from mcpx.core.daemon.hub import Hub

log = structlog.get_logger()
INFRASTRUCTURE: Final = Intensity(restarts=3, within=60.0)


def root_supervisor() -> Supervisor:
    """The root of a tree: too many failures of its children end it."""
    return Supervisor(intensity=INFRASTRUCTURE, observe=_log_event)


def add_children(hub: Hub) -> None:
    """Add the parts of a hub to its root."""
    fleet, root = hub.fleet, hub.root
    shutdown = Shutdown(grace=hub.config.shutdown_grace + TEARDOWN_S, limit=TEARDOWN_S)
    root.add(ChildSpec(name="catalogues", run=fleet.catalogues.run))
    root.add(ChildSpec(name="pins", run=fleet.pins.run))
    root.add(ChildSpec(name="accounts", run=fleet.accounts.run))
    root.add(ChildSpec(name="sign-ins", run=hub.sign_ins.run))
    root.add(ChildSpec(name="sign-in links", run=hub.links.run))
    root.add(ChildSpec(name="upstreams", run=hub.supervisor.run_as_child, shutdown=shutdown))
    suspend = SuspendWatch(lambda _seconds: distrust_all(fleet.children()))
    root.add(ChildSpec(name="suspend", run=suspend.run))


def _log_event(event: Event) -> None:
    match event:
        case ChildFailed(child, _, cause, failures, retry_in):
            log.error("part.failed", part=child, cause=cause.text, failures=failures, exc_info=cause.error)
            log.info("part.restarting", part=child, retry_in_s=retry_in)
        case ChildStuck(child, _, waited):
            log.error("part.stuck", part=child, waited_s=waited)
        case _:
            log.debug("part.event", event_type=type(event).__name__, part=event.child)
