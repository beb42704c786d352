"""The events that a supervisor gives its observer: a closed union of frozen structs.

The library never logs; its user turns these events into logs or metrics. `child` is the
child's name, `generation` the incarnation's number (1 for the first), times are in seconds. Observers are
called synchronously, in order, on the supervisor's event loop; they must not block, and may call back
into the supervisor (`demand`, `resume`, `recycle`, `rest`).
"""

from __future__ import annotations

import msgspec


class Cause(msgspec.Struct, frozen=True):
    """Cause of the end of an incarnation. `retryable` is false for faults that another attempt cannot mend.

    `held` is for what only somebody outside can mend, who will say so: the child is not tried again by
    itself, but by a demand or `resume`. `passing` is for what may be over soon by itself, and is no trouble
    to try: what the child needs is away for a moment. `last_words` are what a child said that did not get
    ready; one that says the same again and again is not worth starting as often.
    """

    text: str
    normal: bool = False
    retryable: bool = True
    held: bool = False
    passing: bool = False
    last_words: str = ""
    error: BaseException | None = None


class ChildStarting(msgspec.Struct, frozen=True):
    """An attempt begins."""

    child: str
    generation: int


class ChildReady(msgspec.Struct, frozen=True):
    """The incarnation said that it serves. `took` is the time since its attempt began."""

    child: str
    generation: int
    took: float


class ChildInterrupted(msgspec.Struct, frozen=True):
    """The incarnation serves no more for now, and is getting by itself what it has lost."""

    child: str
    generation: int
    cause: Cause


class ChildFailed(msgspec.Struct, frozen=True):
    """The incarnation ended unasked; the next attempt is in `retry_in` seconds."""

    child: str
    generation: int
    cause: Cause
    failures: int
    retry_in: float


class ChildParked(msgspec.Struct, frozen=True):
    """The child is given up for now; it is probed in `probe_in` seconds."""

    child: str
    generation: int
    cause: Cause
    failures: int
    probe_in: float


class ChildHeld(msgspec.Struct, frozen=True):
    """The child is idle until somebody has mended the cause, and demands or resumes it."""

    child: str
    generation: int
    cause: Cause


class ChildRested(msgspec.Struct, frozen=True):
    """The incarnation has left because nobody needs it; the next demand starts another."""

    child: str
    generation: int


class ChildStopped(msgspec.Struct, frozen=True):
    """The child is over: it was asked to stop, or its restart kind says so."""

    child: str
    generation: int
    cause: Cause | None


class ChildStuck(msgspec.Struct, frozen=True):
    """The incarnation was cancelled and still runs after the limit."""

    child: str
    generation: int
    waited: float


Event = (
    ChildStarting
    | ChildReady
    | ChildInterrupted
    | ChildFailed
    | ChildParked
    | ChildHeld
    | ChildRested
    | ChildStopped
    | ChildStuck
)
