"""A gateway's exchange with the others of its cluster, as one child of the hub's tree.

Made by whoever joins the hub to a cluster, before the hub runs. Every `ROUND_S` it asks the store once for
what has changed, and passes that on to the pins and to the list of gateways. While the store is away the
gateway goes on by what it knows; that is logged once, and `problem` says it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from hashlib import sha256
from typing import Final

import anyio
import anyio.abc
import structlog

from mcpx.cluster.gateways.members import Members
from mcpx.cluster.gateways.pins import PinExchange
from mcpx.cluster.gateways.store import KeyValue, SharedStore
from mcpx.core.catalog.model import JSON, present
from mcpx.core.daemon.hub import Hub
from mcpx.core.telemetry.contained import contain
from mcpx.errors import MCPXError
from supervisors import ChildSpec, Incarnation

log = structlog.get_logger()
ROUND_S: Final = 0.5  # so that what one approves holds on all within 2 s
ROUND_TIMEOUT_S: Final = 30.0  # of one round; of each question to the store it is the Ray process's own
PATIENCE_S: Final = 5.0  # without a word of the store, before it counts as away
LEAVE_TIMEOUT_S: Final = 1.0
RELOAD_ALL_S: Final = 10.0  # for the others to read their files again


class Sharing:
    """Keeps the exchange with the store `below` up. `gateway` is the id of this one; it outlives restarts."""

    def __init__(self, hub: Hub, below: KeyValue, *, gateway: str) -> None:
        store = SharedStore(below)
        self._hub = hub
        self._store = store
        self._pins = PinExchange(hub.fleet.pins, store, gateway)
        self.members = Members(
            store, gateway, config=hub.config.source, reload=hub.file.reload, digest=self._digest
        )
        self.problem: str | None = None
        """Why the store is away, if it is."""
        self._heard_at: float | None = None
        hub.fleet.pins.await_others(awaited=True)

    def child(self) -> ChildSpec:
        """For the hub's root."""
        return ChildSpec(name="gateways", run=self.run)

    async def run(self, incarnation: Incarnation) -> None:
        """Keep it up until the supervisor asks this child to stop; then leave the list of gateways."""
        incarnation.ready()
        self._heard_at = anyio.current_time()
        await incarnation.while_wanted(self._rounds)
        with anyio.move_on_after(LEAVE_TIMEOUT_S, shield=True), suppress(MCPXError):
            await self.members.leave()

    async def reload_all(self) -> list[JSON]:
        """Read the configuration again here and on all other gateways; the list of all, with `reloaded`.

        Raises:
            ConfigError: The own file cannot be used; the others were not asked.
            MCPXError: The others cannot be asked; the own file was read.
        """
        return await self.members.reload_all(RELOAD_ALL_S)

    def status(self) -> JSON:
        """`{gateways: [...], not_shared?}`: the gateways that are known, and why nothing is shared now."""
        return present(gateways=self.members.listed(), not_shared=self.problem)

    async def _rounds(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    with anyio.fail_after(ROUND_TIMEOUT_S):
                        await self._round(tasks)
                    self._heard()
                except (MCPXError, TimeoutError) as error:
                    self._missed(str(error) or f"it did not answer within {ROUND_TIMEOUT_S:g} s")
                except Exception as error:  # noqa: BLE001 - the boundary: what others write costs itself
                    contain(error, "gateways")
                    self._missed(type(error).__name__)
                await anyio.sleep(ROUND_S)

    async def _round(self, tasks: anyio.abc.TaskGroup) -> None:
        origin, versions = await self._store.origin(), await self._store.versions()
        if self.members.is_to_reload(versions):
            tasks.start_soon(_contained, self.members.reload)  # it may wait for servers that end
        await self.members.round(versions)
        await self._pins.round(versions, origin)

    def _heard(self) -> None:
        self._heard_at = anyio.current_time()
        if self.problem is not None:
            self.problem = None
            log.info("gateways.store_back")
            self._hub.fleet.pins.await_others(awaited=True)

    def _missed(self, why: str) -> None:
        """Go on alone, if the store has not answered for long enough."""
        now = anyio.current_time()
        if self.problem is None and now > (self._heard_at or now) + PATIENCE_S:
            self.problem = why
            log.warning("gateways.store_away", problem=why, serving="by what is known here")
            self._hub.fleet.pins.await_others(awaited=False)

    async def _digest(self) -> str:
        content = await self._hub.file.content_in_force()
        return "" if content is None else sha256(content).hexdigest()


async def _contained(run: Callable[[], Awaitable[None]]) -> None:
    try:
        await run()
    except MCPXError:
        pass  # the store is away: the next round says so
    except Exception as error:  # noqa: BLE001 - the boundary: one reload does not end the exchange
        contain(error, "gateways")
