"""A gateway's exchange with the others of its cluster, as one child of the hub's tree.

Made by whoever joins the hub to a cluster, before the hub runs. Every `ROUND_S` it asks the table once for
what has changed, and takes that in: pins (`pins`), the other gateways, and reloads of all. While the store is
away the gateway goes on by what it knows; that is logged once, and `problem` says it.

Each gateway writes who it is to the table every few seconds (`Gateway`); one that has not for `EXPIRY_S`, by
the clock of whoever looks, is not shown. A reload of all is an announcement there: each gateway reads its own
file again, and says which announcement it has carried out, and the digest of what is in force. The text of a
configuration, which may hold what only one machine should have, is never sent.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final

import anyio
import anyio.abc
import msgspec
import structlog
from msgspec.structs import replace

from mcpx.cluster.gateways.pins import PinExchange
from mcpx.cluster.gateways.table import VersionedTable
from mcpx.cluster.ray_client import RayProcess
from mcpx.core.catalog.model import JSON, present
from mcpx.core.daemon.hub import Hub
from mcpx.core.telemetry.contained import contain, containing
from mcpx.core.text import one_line
from mcpx.errors import ConfigError, MCPXError
from mcpx.version import __version__
from supervisors import ChildSpec, Incarnation

log = structlog.get_logger()
ROUND_S: Final = 0.5  # so that what one approves holds on all within 2 s
ROUND_TIMEOUT_S: Final = 30.0  # of one round; of each question to the store it is the Ray process's own
PATIENCE_S: Final = 5.0  # without a word of the store, before it counts as away
LEAVE_TIMEOUT_S: Final = 1.0
RELOAD_ALL_S: Final = 10.0  # for the others to read their files again
BEAT_S: Final = 5.0
EXPIRY_S: Final = 15.0
FORGOTTEN_S: Final = 3600.0  # then the entry of a gateway that is gone is removed
MAX_GATEWAYS: Final = 256
MAX_TEXT: Final = 300  # of what another gateway says of itself
_FOLDER: Final = "members/"
_RELOAD: Final = "reload"


class Gateway(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One gateway, as it describes itself. `digest`: of its configuration file's text that is in force.

    `reloaded` is the number of the reload of all that it has carried out last, `problem` why it could not.
    """

    id: str
    host: str
    pid: int
    version: str = ""
    config: str = ""
    digest: str = ""
    reloaded: int = 0
    problem: str | None = None


class _Seen(msgspec.Struct):
    version: int
    at: float
    """When that version was seen first, by the clock of the event loop."""
    gateway: Gateway | None


class Sharing:
    """Keeps the exchange with the store `below` up. `gateway` is the id of this one; it outlives restarts."""

    def __init__(self, hub: Hub, below: RayProcess, *, gateway: str) -> None:
        self.own = Gateway(
            id=gateway,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            config=hub.config.source,
        )
        self._hub = hub
        self._table = VersionedTable(below)
        self._pins = PinExchange(hub.fleet.pins, self._table, gateway)
        self._seen: dict[str, _Seen] = {}
        self._beat_at = float("-inf")
        self._announced: int | None = None  # the newest reload that is known, None before the first look
        self._news = anyio.Event()  # set and replaced whenever another gateway has said something
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
            await self._table.delete(_FOLDER + self.own.id)

    def status(self) -> JSON:
        """`{gateways: [...], not_shared?}`: the gateways that are known, and why nothing is shared now."""
        return present(gateways=self._listed(), not_shared=self.problem)

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
        origin, versions = await self._table.origin(), await self._table.versions()
        if self._is_to_reload(versions):
            tasks.start_soon(_contained, self._reload)  # it may wait for servers that end
        await self._meet(versions)
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

    # --- the other gateways

    async def _meet(self, versions: Mapping[str, int]) -> None:
        """Say that this gateway is there, and hear of the others."""
        now = anyio.current_time()
        if now >= self._beat_at + BEAT_S:
            await self.say(versions)
        await self._hear(versions, now)

    async def say(self, versions: Mapping[str, int] | None = None) -> None:
        """Write what this gateway is now.

        Raises:
            MCPXError: The store cannot be asked.
        """
        key = _FOLDER + self.own.id
        content = await self._hub.file.content_in_force()
        digest = "" if content is None else sha256(content).hexdigest()
        self.own = replace(self.own, digest=digest)
        version = (versions if versions is not None else await self._table.versions(key)).get(key, 0)
        if not await self._table.put(key, msgspec.json.encode(self.own).decode(), version + 1):
            self._beat_at = float("-inf")  # with the next round: it was said meanwhile, or by one of this id
            return
        self._beat_at = anyio.current_time()
        self._seen[self.own.id] = _Seen(version + 1, self._beat_at, self.own)

    async def _hear(self, versions: Mapping[str, int], now: float) -> None:
        found = {
            name.removeprefix(_FOLDER): number
            for name, number in versions.items()
            if name.startswith(_FOLDER)
        }
        for name in [name for name in self._seen if name not in found and name != self.own.id]:
            del self._seen[name]
        for name, number in list(found.items())[:MAX_GATEWAYS]:
            seen = self._seen.get(name)
            if name == self.own.id:
                continue
            if seen is None or seen.version != number:
                said = _gateway(name, await self._table.get(_FOLDER + name, number))
                self._seen[name] = _Seen(number, now, said)
                self._news.set()
                self._news = anyio.Event()
            elif now > seen.at + FORGOTTEN_S:
                await self._table.delete(_FOLDER + name)

    # --- reloads of all

    def _is_to_reload(self, versions: Mapping[str, int]) -> bool:
        """Return True if another gateway has announced a reload since the last look."""
        number, before = versions.get(_RELOAD, 0), self._announced
        self._announced = number
        if before is None or number < before:  # the first look, or at a store that was begun again
            self.own = replace(self.own, reloaded=number)
            return False
        return number > before and number > self.own.reloaded

    async def _reload(self) -> None:
        """Read the own file again, because another gateway has asked for that, and say how that went."""
        number, problem = self._announced or 0, None
        log.info("config.reload_requested", by="another gateway")
        try:
            await self._hub.file.reload()
        except ConfigError as error:
            problem = one_line(str(error), MAX_TEXT)  # logged where it was found
        except Exception as error:  # noqa: BLE001 - the boundary: what a file may hold does not end the exchange
            contain(error, "config")
            problem = type(error).__name__
        self.own = replace(self.own, reloaded=number, problem=problem)
        await self.say()

    async def reload_all(self) -> list[JSON]:
        """Read the own file again and have all others read theirs; return the list of all, with `reloaded`.

        Raises:
            ConfigError: The own file cannot be used; the others were not asked.
            MCPXError: The store cannot be asked; the own file was read.
        """
        await self._hub.file.reload()
        while True:
            number = 1 + (await self._table.versions(_RELOAD)).get(_RELOAD, 0)
            if await self._table.put(_RELOAD, self.own.id, number):
                break
        self.own = replace(self.own, reloaded=number, problem=None)
        self._announced = number
        await self.say()
        with anyio.move_on_after(RELOAD_ALL_S):
            while any(each.reloaded < number for each in self._live()):
                await self._news.wait()
        return self._listed(number)

    # --- the list

    def _live(self) -> list[Gateway]:
        """This gateway and those that were heard of lately, this one first, the others by host and id."""
        now = anyio.current_time()
        others = [
            seen.gateway
            for name, seen in self._seen.items()
            if name != self.own.id and seen.gateway is not None and now <= seen.at + EXPIRY_S
        ]
        return [self.own, *sorted(others, key=lambda each: (each.host, each.id))]

    def _listed(self, reload: int = 0) -> list[JSON]:
        """`[{id, host, pid, version, config, self, same_config, problem?, reloaded?}]`, this gateway first.

        `reloaded` is there where a `reload` was asked for: whether it was carried out.
        """
        live = self._live()
        return [
            present(
                id=each.id,
                host=each.host,
                pid=each.pid,
                version=each.version,
                config=each.config,
                self=each.id == self.own.id,
                same_config=each.digest == live[0].digest,
                problem=each.problem,
                reloaded=(each.reloaded >= reload and each.problem is None) if reload else None,
            )
            for each in live
        ]


def _gateway(name: str, text: str | None) -> Gateway | None:
    """Read what another gateway says; None where it cannot be read."""
    try:
        said = msgspec.json.decode(text or "", type=Gateway)
    except (msgspec.DecodeError, RecursionError):
        return None
    texts: dict[str, Any] = {
        member: one_line(value, MAX_TEXT)
        for member, value in msgspec.structs.asdict(said).items()
        if isinstance(value, str)
    }
    return replace(said, **texts | {"id": name[:MAX_TEXT]})


async def _contained(run: Callable[[], Awaitable[None]]) -> None:
    with containing("gateways"), suppress(MCPXError):  # the next round says that the store is away
        await run()
