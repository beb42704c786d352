"""Input and output of `lifecycle.step`: facts, and the commands that follow from them.

Closed unions of frozen structs. Times are clock readings in seconds; a `generation` is the number of the
incarnation that a fact or command is about.
"""

from __future__ import annotations

import msgspec

from supervisors.events import Cause, Event

# --- facts: what has happened


class Start(msgspec.Struct, frozen=True):
    """The child is wanted."""


class Ready(msgspec.Struct, frozen=True):
    """The incarnation says that it serves."""

    generation: int


class Proven(msgspec.Struct, frozen=True):
    """The incarnation has done real work for a caller."""

    generation: int


class Exited(msgspec.Struct, frozen=True):
    """The incarnation has ended."""

    generation: int
    cause: Cause


class Interrupted(msgspec.Struct, frozen=True):
    """The incarnation serves no more for now: it has lost something that it is getting again by itself."""

    generation: int
    cause: Cause


class Due(msgspec.Struct, frozen=True):
    """The timer armed after that generation has run out."""

    generation: int


class Demand(msgspec.Struct, frozen=True):
    """A caller needs the child now."""


class Resume(msgspec.Struct, frozen=True):
    """The reasons for earlier failures may be gone: try now."""


class Recycle(msgspec.Struct, frozen=True):
    """End this incarnation and start another, no earlier than `at`."""

    at: float = 0.0


class Rest(msgspec.Struct, frozen=True):
    """Nobody needs the child for now: end this incarnation, and wait for a demand."""


class Stop(msgspec.Struct, frozen=True):
    """The child is no longer wanted."""


Fact = Start | Ready | Proven | Interrupted | Exited | Due | Demand | Resume | Recycle | Rest | Stop


# --- commands: what must be done


class Spawn(msgspec.Struct, frozen=True):
    """Run a new incarnation with this number."""

    generation: int


class Halt(msgspec.Struct, frozen=True):
    """Ask the running incarnation to leave, and see that it does."""

    generation: int


class Arm(msgspec.Struct, frozen=True):
    """Feed `Due(generation)` when the clock reads `at`; replaces an earlier timer."""

    generation: int
    at: float


class Disarm(msgspec.Struct, frozen=True):
    """Forget the timer."""


class Announce(msgspec.Struct, frozen=True):
    """Tell the observer."""

    event: Event


Command = Spawn | Halt | Arm | Disarm | Announce
