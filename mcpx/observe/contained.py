"""Faults of MCPX itself that are contained where they arise: each kind is logged once, with its cause.

A fault that one odd message provokes comes again with each such message. So the first of a kind (the type of
the exception and the line that raised it) is logged with the end of its traceback, and the others are only
counted: a flood of them fills no log.
"""

from __future__ import annotations

import traceback
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Final

import structlog

log = structlog.get_logger()
KINDS: Final = 256  # that are told apart; beyond, faults are counted together
FRAMES: Final = 8  # of a traceback that are logged, the innermost: a recursion has a thousand
CAUSE: Final = 300  # characters

_seen: Counter[str] = Counter()


def contain(error: BaseException, place: str, **fields: object) -> None:
    """Note a fault that ends here. `place` says what was being done: `router`, `answer`, `observer`, ...

    The first of its kind is logged as `fault.contained`, with `fields`. Never raises.
    """
    kind = f"{place} {type(error).__name__} {_where(error.__traceback__)}"
    if kind not in _seen and len(_seen) >= KINDS:
        kind = "others"
    _seen[kind] += 1
    if _seen[kind] > 1:
        return
    try:
        cause = f"{type(error).__name__}: {error}"[:CAUSE]
    except Exception:  # noqa: BLE001 - an exception whose own text fails is to be noted all the same
        cause = type(error).__name__
    frames = traceback.format_tb(error.__traceback__, limit=-FRAMES)
    log.error("fault.contained", place=place, cause=cause, traceback="".join(frames), **fields)


def _where(trace: TracebackType | None) -> str:
    """The file and line that raised."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
