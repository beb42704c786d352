"""The progress of one sign-in: its states in one table, for the browser and for all who wait.

A sign-in is `unknown` while MCPX finds out where to sign in, `asked` once a person has its link, `answered`
when the browser has come back with its state, `exchanged` when the code has been given for tokens, and `kept`
when these are stored and in force. From each of these it may have `failed`, with an error that says why: no
such server, a person who said no, time, or nobody who wants it any more. Calls that show a link, the command
line, the page and the listener that the browser returns to look at the same `Progress`.

`NEXT` is all that can happen. A move that is not in it changes nothing: a second answer, a cancellation that
comes when the tokens are kept, or an answer to a sign-in that is over.
"""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import Final

import anyio

from mcpx.oauth.answers import Callback
from mcpx.oauth.errors import SignInError

OPENING_BYTES: Final = 32


class Stage(StrEnum):
    """A state of a sign-in."""

    UNKNOWN = "unknown"
    ASKED = "asked"
    ANSWERED = "answered"
    EXCHANGED = "exchanged"
    KEPT = "kept"
    FAILED = "failed"


NEXT: Final = {
    Stage.UNKNOWN: {Stage.ASKED, Stage.FAILED},
    Stage.ASKED: {Stage.ANSWERED, Stage.FAILED},
    Stage.ANSWERED: {Stage.EXCHANGED, Stage.FAILED},
    Stage.EXCHANGED: {Stage.KEPT, Stage.FAILED},
    Stage.KEPT: set[Stage](),
    Stage.FAILED: set[Stage](),
}


class Progress:
    """One sign-in on its way, at a server of that name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stage = Stage.UNKNOWN
        self.link: str | None = None
        """The address to open, once it is known."""
        self.opening = secrets.token_urlsafe(OPENING_BYTES)
        """The secret in the address that leads to the link."""
        self.strays = 0
        """The number of answers that have come meanwhile, and belong to no sign-in."""
        self.account: str | None = None
        """The name of the account, once it is signed in, where the authorization server tells it."""
        self.error: SignInError | None = None
        """The reason why it failed, once it has."""
        self._state = ""
        self._is_opened = False
        self._answer: Callback | None = None
        self._moved = anyio.Event()

    @property
    def is_over(self) -> bool:
        """True if nothing can change any more."""
        return not NEXT[self.stage]

    @property
    def is_answered(self) -> bool:
        """True if the answer has come, or is of no use any more."""
        return self.stage not in {Stage.UNKNOWN, Stage.ASKED}

    def enter(self, stage: Stage) -> bool:
        """Go to a state, if the table has that; return whether it has."""
        if stage not in NEXT[self.stage]:
            return False
        self.stage = stage
        moved, self._moved = self._moved, anyio.Event()
        moved.set()
        return True

    # --- what happens to it

    def ask(self, link: str, state: str) -> None:
        """Give a person the link; `state` is the one in it."""
        self.link, self._state = link, state
        self.enter(Stage.ASKED)

    def fits(self, state: str | None) -> bool:
        """Return True if this is the sign-in's state."""
        return state is not None and secrets.compare_digest(
            state.encode(errors="replace"), self._state.encode()
        )

    def opened(self, opening: str) -> str | None:
        """Return the link to the first who knows the address that leads there; None to anybody else."""
        if not secrets.compare_digest(opening.encode(errors="replace"), self.opening.encode()):
            return None
        is_first, self._is_opened = not self._is_opened, True
        return self.link if is_first else None

    def take(self, answer: Callback) -> None:
        """Take the answer, unless there is one already."""
        if self.enter(Stage.ANSWERED):
            self._answer = answer

    def end(self, error: SignInError | None) -> None:
        """Have it kept, or failed with an error."""
        if error is None:
            self.enter(Stage.KEPT)
        elif not self.is_over:
            self.error = error
            self.enter(Stage.FAILED)

    # --- for those who wait

    async def asked(self) -> str | None:
        """Return the link, once it is known; None if the sign-in ended before."""
        while self.stage is Stage.UNKNOWN:
            await self._moved.wait()
        return self.link

    async def answer(self) -> Callback:
        """Return the answer, when it has come."""
        while self._answer is None:
            await self._moved.wait()
        return self._answer

    async def ended(self) -> SignInError | None:
        """Wait until it is over; the error, or None where the tokens are kept."""
        while not self.is_over:
            await self._moved.wait()
        return self.error
