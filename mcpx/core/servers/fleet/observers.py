"""Observers of changes of the servers, and waiting for the servers at the start.

`Observers` are called when what a server offers, or how it is shown, has changed. `Readiness` is waited for
after MCPX was started: until the servers are ready, are known, or have failed once. What is asleep is waited
for by nobody. Both are owned by the fleet, which reports to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import anyio

from mcpx.core.catalog.model import Diff
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.telemetry.contained import containing
from supervisors import Signal

Observer = Callable[[str, Diff], None]
"""Is given the server's name, or `NO_SERVER`, and what changed. What it raises is logged."""
NO_SERVER: Final = ""
"""Stands for the server where settings have changed, and no server is shown differently for it."""


class Observers:
    """The observers of one fleet."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []

    def add(self, observer: Observer) -> Callable[[], None]:
        """Have `observer` called from now on. Call the result to end that."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def announce(self, names: Iterable[str]) -> None:
        """Report that these servers are shown differently, though their catalogues are the same."""
        for name in names:
            self.notify(name, Diff(about=True))

    def notify(self, name: str, changed: Diff) -> None:
        """Report what has changed of a server."""
        for observer in list(self._observers):
            with containing("observer", server=name):  # it costs neither the server nor others
                observer(name, changed)


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
        """True if each server is ready or asleep, or has failed once."""
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
