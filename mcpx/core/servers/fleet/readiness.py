"""Waiting for the servers after MCPX was started: until they are ready, are known, or have failed once.

Owned by the fleet, which reports each server that was to be started and is ready now, or has failed. What is
asleep is waited for by nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import anyio

from supervisors import Signal

if TYPE_CHECKING:
    from mcpx.core.servers.visible_server import VisibleServer


class Readiness:
    """The servers that are being started with MCPX: `starting` are their names."""

    def __init__(self, starting: Iterable[str]) -> None:
        self._starting = set(starting)
        self._news = Signal()

    def expect(self, names: Iterable[str]) -> None:
        """Wait for these servers, too: they have become known only now."""
        self._starting.update(names)

    def report(self, name: str) -> None:
        """Note that a server is ready, or has failed."""
        self._starting.discard(name)
        self._news.pulse()

    @property
    def is_settled(self) -> bool:
        """Whether each server is ready or asleep, or has failed once."""
        return not self._starting

    async def settled(self, seconds: float) -> bool:
        """Wait until each server is ready or asleep, or has failed once, at most `seconds`; whether so."""
        with anyio.move_on_after(seconds):
            while self._starting:
                await self._news.wait()
        return self.is_settled

    async def listed(self, seconds: float, among: Mapping[str, VisibleServer]) -> None:
        """Wait until it is known what each of these offers, or it has failed once, at most `seconds`."""
        with anyio.move_on_after(seconds):
            while any(name in self._starting and each.catalogue is None for name, each in among.items()):
                await self._news.wait()


async def await_descriptions(upstreams: Mapping[str, VisibleServer], seconds: float) -> None:
    """Wait until the servers that are ready have descriptions for their resources, at most `seconds`."""
    with anyio.move_on_after(seconds):
        for upstream in list(upstreams.values()):
            await upstream.await_descriptions()
