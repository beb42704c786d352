"""How the fleet changes while MCPX runs: a plan carried out, server by server.

Owned by the fleet, which says when. A server that leaves finishes its calls within the grace time. One that
changed is replaced, and what it offered is shown until the new one has listed. No other server is touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import anyio
import structlog
from msgspec.structs import replace

from mcpx.core.catalog.diff import diff
from mcpx.core.catalog.model import Catalogue
from mcpx.core.servers.actor import Upstream
from mcpx.core.servers.fleet.reload_plan import ReloadPlan
from mcpx.core.servers.fleet.supervision import TEARDOWN_S
from mcpx.core.telemetry.contained import contain

if TYPE_CHECKING:
    from mcpx.core.servers.fleet.fleet import Fleet
    from mcpx.core.servers.passthrough.session import DirectSession

log = structlog.get_logger()
REMOVED: Final = "it was removed from the configuration"
CHANGED: Final = "its configuration has changed"
OLD_ENDING: Final = "its process with the old configuration is ending"


class FleetChanges:
    """Changes a fleet, whose sessions `children` has by the supervisor's names for them."""

    def __init__(self, fleet: Fleet, children: dict[str, Upstream | DirectSession]) -> None:
        self._fleet = fleet
        self._children = children

    async def carry_out(self, plan: ReloadPlan, new: Mapping[str, Upstream]) -> dict[str, Exception]:
        """Add, replace and remove servers for the configuration in force; see `Fleet.change`."""
        fleet = self._fleet
        faults: dict[str, Exception] = {}
        old = {name: fleet.upstreams[name] for name in (*plan.removed, *plan.changed)}
        for name in plan.changed:
            if new[name].config.disabled is None:
                new[name].queue.pending_reason = OLD_ENDING
            with _noted(faults, name):
                new[name].inherit_from(old[name])  # shown as starting, until it has listed for itself
        fleet.readiness.expect(name for name in plan.added if self._is_awaited(new[name]))
        for name in plan.added:
            with _noted(faults, name):
                fleet.start(new[name], asleep=fleet.may_sleep(new[name]))
        staying = {name: new.get(name) or fleet.upstreams[name] for name in fleet.config.servers}
        fleet.publish(staying | {name: old[name] for name in plan.removed})
        fleet.observers.announce((*plan.added, *plan.changed))
        async with anyio.create_task_group() as tasks:
            for name in plan.removed:
                tasks.start_soon(self._removed, old[name], faults)
            for name in plan.changed:
                tasks.start_soon(self._replace, old[name], new[name], faults)
        fleet.publish(staying)
        for name in plan.removed:
            gone = diff(old[name].catalogue, Catalogue(generation=0))
            fleet.observers.notify(name, replace(gone, about=True))
        return faults

    def _is_awaited(self, upstream: Upstream) -> bool:
        """Whether whoever waits for the servers at the start waits for this one, which a peer has named."""
        server = upstream.config
        return server.peer is not None and server.disabled is None and not self._fleet.may_sleep(upstream)

    async def _removed(self, old: Upstream, faults: dict[str, Exception]) -> None:
        with _noted(faults, old.name):
            await self.retire(old, REMOVED)

    async def _replace(self, old: Upstream, new: Upstream, faults: dict[str, Exception]) -> None:
        was_asleep = old.queue.is_asleep
        with _noted(faults, old.name):
            await self.retire(old, CHANGED)
        with _noted(faults, old.name):
            self._fleet.start(new, asleep=was_asleep and self._fleet.may_sleep(new))
            if new.config.disabled is None:
                self._fleet.direct.carry_over(old, new)

    async def retire(self, upstream: Upstream, why: str) -> None:
        """End a server: refuse new calls, let the running ones finish within the grace time."""
        async with anyio.create_task_group() as tasks:
            for each in upstream.sessions():
                tasks.start_soon(self._retire_one, each, why)

    async def _retire_one(self, upstream: Upstream | DirectSession, why: str) -> None:
        upstream.retire(why)
        self._fleet.touch()
        if upstream.child not in self._children:
            return
        with anyio.move_on_after(self.stop_timeout_s) as scope:
            await self._fleet.supervisor.remove(upstream.child)
            self._children.pop(upstream.child, None)
        if scope.cancelled_caught:
            log.error("upstream.stuck", server=upstream.name, waited_s=self.stop_timeout_s)

    @property
    def stop_timeout_s(self) -> float:
        """For one session to end, calls that run included."""
        return self._fleet.config.shutdown_grace + 2 * TEARDOWN_S


@contextmanager
def _noted(faults: dict[str, Exception], server: str) -> Iterator[None]:
    """Note a fault of one server's change, so that the others are changed all the same."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the boundary: a server costs no other, and the reload names it
        faults.setdefault(server, error)
        contain(error, "reload", server=server)
