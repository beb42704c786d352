"""Faults of MCPX itself that end at a boundary: each kind is logged once, with its cause.

A fault that one odd message provokes comes again with every such message. So the first of a kind (the type of
the exception and the line that raised it) is logged with the end of its traceback, and the others are only
counted: a flood of them does not fill the log. The counts are in `mcpx status` and in the metrics.
"""

from __future__ import annotations

import traceback
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Final

import structlog

log = structlog.get_logger()
MAX_KINDS: Final = 256  # counted separately; faults beyond are counted together
MAX_FRAMES: Final = 8  # of a traceback, the innermost: a recursion has a thousand
MAX_CAUSE: Final = 300  # characters

_seen: Counter[str] = Counter()
_by_place: Counter[str] = Counter()


def contained() -> dict[str, int]:
    """The number of faults that have ended at each boundary since this process has started."""
    return dict(_by_place)


def contain(error: BaseException, place: str, **fields: object) -> None:
    """Log or count a fault that ends here. `place` names the boundary: `router`, `answer`, `observer`, ...

    The first of its kind is logged as `fault.contained`, with `fields`. Never raises.
    """
    kind = f"{place} {type(error).__name__} {_where(error.__traceback__)}"
    if kind not in _seen and len(_seen) >= MAX_KINDS:
        kind = "others"
    _seen[kind] += 1
    _by_place[place] += 1
    if _seen[kind] > 1:
        return
    try:
        cause = f"{type(error).__name__}: {error}"[:MAX_CAUSE]
    except Exception:  # noqa: BLE001 - an exception whose own text fails is to be noted all the same
        cause = type(error).__name__
    frames = traceback.format_tb(error.__traceback__, limit=-MAX_FRAMES)
    log.error("fault.contained", place=place, cause=cause, traceback="".join(frames), **fields)


class containing:  # noqa: N801 - read as a statement, as `suppress`
    """Contain what a block raises: each fault in it ends there, and is logged or counted (`contain`)."""

    __slots__ = ("_fields", "_place")

    def __init__(self, place: str, **fields: object) -> None:
        self._place = place
        self._fields = fields

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            contain(error, self._place, **self._fields)
            return True
        return False


def _where(trace: TracebackType | None) -> str:
    """The file and line that raised."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
