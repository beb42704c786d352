"""Waiting for file descriptors, whatever their numbers.

`select.select` raises for a descriptor above 1023, and MCPX raises its own limit far beyond that. So nothing
in MCPX calls it (ruff's `banned-api`), and whoever blocks on a few descriptors does it here.
"""

from __future__ import annotations

import math
import select
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

_MAX_WAIT_MS: Final = (1 << 31) - 1  # of poll(2), 24 days


class HasDescriptor(Protocol):
    """A file, pipe or socket."""

    def fileno(self) -> int: ...


D = TypeVar("D", bound="HasDescriptor | int")


def readable(sources: Sequence[D], timeout_s: float | None = None) -> list[D]:
    """Wait until one can be read, or is at its end; those of which that is true. Empty at the time-out.

    Without `timeout_s` it waits until then. Blocks.

    Raises:
        OSError: One is closed.
    """
    poll = select.poll()
    by_number = {each if isinstance(each, int) else each.fileno(): each for each in sources}
    for number in by_number:
        poll.register(number, select.POLLIN)
    wait_ms = None if timeout_s is None else min(max(0, math.ceil(timeout_s * 1000)), _MAX_WAIT_MS)
    ready = dict(poll.poll(wait_ms))
    if closed := [number for number, event in ready.items() if event & select.POLLNVAL]:
        raise OSError(f"descriptor {closed[0]} is closed")
    return [each for number, each in by_number.items() if number in ready]
