"""The gateways of a cluster, and reading the configuration again on all of them.

Each gateway writes who it is to the store every few seconds (`Gateway`); one that has not for `EXPIRY_S`, by
the clock of whoever looks, is not shown. A reload of all is an announcement there: each gateway reads its own
file again, and says which announcement it has carried out, and the digest of what is in force. The text of a
configuration, which may hold what only one machine should have, is never sent.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
import msgspec
import structlog
from msgspec.structs import replace

from mcpx.cluster.gateways.store import SharedStore
from mcpx.core.catalog.model import JSON, present
from mcpx.core.telemetry.contained import contain
from mcpx.core.text import one_line
from mcpx.errors import ConfigError
from mcpx.version import __version__

log = structlog.get_logger()
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


class Members:
    """This gateway among the others. `reload` reads its file again, `digest` is that of what is in force."""

    def __init__(
        self,
        store: SharedStore,
        gateway: str,
        *,
        config: str,
        reload: Callable[[], Awaitable[object]],
        digest: Callable[[], Awaitable[str]],
    ) -> None:
        self.own = Gateway(
            id=gateway, host=socket.gethostname(), pid=os.getpid(), version=__version__, config=config
        )
        self._store = store
        self._reload = reload
        self._digest = digest
        self._seen: dict[str, _Seen] = {}
        self._beat_at = float("-inf")
        self._announced: int | None = None  # the newest reload that is known, None before the first look
        self.news = anyio.Event()
        """Set and replaced whenever another gateway has said something."""

    # --- what is called in each round

    async def round(self, versions: Mapping[str, int]) -> None:
        """Say that this gateway is there, and hear of the others.

        Raises:
            MCPXError: The store cannot be asked.
        """
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
        self.own = replace(self.own, digest=await self._digest())
        version = (versions if versions is not None else await self._store.versions(key)).get(key, 0)
        if not await self._store.put(key, msgspec.json.encode(self.own).decode(), version + 1):
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
                said = _gateway(name, await self._store.get(_FOLDER + name, number))
                self._seen[name] = _Seen(number, now, said)
                self.news.set()
                self.news = anyio.Event()
            elif now > seen.at + FORGOTTEN_S:
                await self._store.delete(_FOLDER + name)

    async def leave(self) -> None:
        """Take this gateway off the list.

        Raises:
            MCPXError: The store cannot be asked.
        """
        await self._store.delete(_FOLDER + self.own.id)

    # --- reloads of all

    def is_to_reload(self, versions: Mapping[str, int]) -> bool:
        """Return True if another gateway has announced a reload since the last look."""
        number, before = versions.get(_RELOAD, 0), self._announced
        self._announced = number
        if before is None or number < before:  # the first look, or at a store that was begun again
            self.own = replace(self.own, reloaded=number)
            return False
        return number > before and number > self.own.reloaded

    async def reload(self) -> None:
        """Read the own file again, because another gateway has asked for that, and say how that went."""
        number, problem = self._announced or 0, None
        log.info("config.reload_requested", by="another gateway")
        try:
            await self._reload()
        except ConfigError as error:
            problem = one_line(str(error), MAX_TEXT)  # logged where it was found
        except Exception as error:  # noqa: BLE001 - the boundary: what a file may hold does not end the exchange
            contain(error, "config")
            problem = type(error).__name__
        self.own = replace(self.own, reloaded=number, problem=problem)
        await self.say()

    async def reload_all(self, within_s: float) -> list[JSON]:
        """Read the own file again and have all others read theirs; the list of all, `within_s` later at most.

        Raises:
            ConfigError: The own file cannot be used; the others were not asked.
            MCPXError: The store cannot be asked; the own file was read.
        """
        await self._reload()
        number = 0
        while True:
            number = 1 + (await self._store.versions(_RELOAD)).get(_RELOAD, 0)
            if await self._store.put(_RELOAD, self.own.id, number):
                break
        self.own = replace(self.own, reloaded=number, problem=None)
        self._announced = number
        await self.say()
        with anyio.move_on_after(within_s):
            while any(each.reloaded < number for each in self._live()):
                await self.news.wait()
        return self.listed(number)

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

    def listed(self, reload: int = 0) -> list[JSON]:
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
