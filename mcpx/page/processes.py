"""What the servers' processes and the daemon's use, for all who look at the page together.

Nobody looks by itself: whoever shows the figures asks for a look with `refresh` each time, and shows what the
last one has found. A look is had in a thread, and costs at most `SHARE` of a core, however many processes
there are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from mcpx.core.servers.fleet.process_figures import ProcessFigures, Use, own_memory
from mcpx.core.telemetry.contained import contain

EVERY_S: Final = 3.0
SECOND_LOOK_S: Final = 1.0  # after the first: only then there is a share of the processor
SHARE: Final = 0.004  # of a core
FORGET_S: Final = 30.0  # without a look, after which a share would be of a time that nobody saw
_Look = tuple[dict[int, Use], int | None, float]


class Processes:
    """The figures that were found last."""

    def __init__(self) -> None:
        self.uses: Mapping[int, Use] = {}
        """By process group."""
        self.own_memory: int | None = None
        self.own_cpu: float | None = None
        """The share of a core that the daemon used between the last two looks."""
        self._figures = ProcessFigures()
        self._looking = False
        self._due = self._looked_at = 0.0
        self._own_time: float | None = None

    def refresh(self, groups: list[int]) -> None:
        """Have these process groups looked at, if it is time; returns at once."""
        now = time.monotonic()
        if self._looking or now < self._due:
            return
        if now - self._looked_at > FORGET_S:
            self._figures, self._own_time = ProcessFigures(), None
        self._looking = True
        looking = asyncio.get_running_loop().run_in_executor(None, self._look, self._figures, groups)
        looking.add_done_callback(self._looked)

    @staticmethod
    def _look(figures: ProcessFigures, groups: list[int]) -> _Look:
        began = time.thread_time()
        return figures.look(groups), own_memory(), time.thread_time() - began

    def _looked(self, looking: asyncio.Future[_Look]) -> None:
        self._looking = False
        now, own_time, cost_s = time.monotonic(), time.process_time(), 0.0
        if looking.cancelled():
            return
        if (error := looking.exception()) is not None:
            contain(error, "processes")
        else:
            self.uses, self.own_memory, cost_s = looking.result()
        before = self._own_time
        if before is not None and now > self._looked_at:
            self.own_cpu = round((own_time - before) / (now - self._looked_at), 4)
        pause_s = EVERY_S if before is not None else SECOND_LOOK_S
        self._own_time, self._looked_at = own_time, now
        self._due = now + max(pause_s, cost_s / SHARE)
