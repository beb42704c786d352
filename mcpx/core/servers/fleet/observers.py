"""The observers of the fleet: called when what a server offers, or how it is shown, has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from mcpx.core.catalog.diff import Diff
from mcpx.core.telemetry.contained import contain

Observer = Callable[[str, Diff], None]
"""Is given the server's name, or `NO_SERVER`, and what changed. What it raises is logged."""
NO_SERVER: Final = ""
"""Stands for the server where settings have changed, and no server is shown differently for it."""


class Observers:
    """Those of one fleet."""

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
            try:
                observer(name, changed)
            except Exception as error:  # noqa: BLE001 - an observer must not cost the server, nor the other observers
                contain(error, "observer", server=name)
