"""A table of faults: a row each, played by the tests and by `scripts/faults`.

A row is a coroutine that plays its fault and notes in `Seen` what it showed. The modules `rows_*` have one
table each; `rows` puts them together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from mcpx.errors import CallError
from tests.faults.stage import Seen

ROW_S = 50.0  # for one row; beyond, it has failed
Play = Callable[[Seen], Awaitable[None]]


class Faults(dict[str, Play]):
    """The rows under the words for their faults, in order."""

    def row(self, fault: str) -> Callable[[Play], Play]:
        """Register a row."""

        def register(play: Play) -> Play:
            self[fault] = play
            return play

        return register


async def perform(fault: str, play: Play, *, brief: bool = False) -> Seen:
    """Play one row. Whatever goes wrong is a problem of it."""
    seen = Seen(fault)
    seen.brief = brief
    try:
        with anyio.fail_after(ROW_S):
            await play(seen)
    except (AssertionError, TimeoutError, CallError, OSError, ExceptionGroup) as error:
        seen.problems += [f"{type(leaf).__name__}: {leaf}" for leaf in _leaves(error)]
    return seen


def _leaves(error: Exception) -> list[Exception]:
    if not isinstance(error, ExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in _leaves(each)]
