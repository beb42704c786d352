"""The attempts to open a session with one server: which question its next process is asked first.

Owned by the server's `Upstream`, whose incarnations come and go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from mcpx.core.config import Era
from mcpx.core.servers.errors import EraRefused, NoAnswer
from mcpx.core.servers.session.handshake import Handshake
from mcpx.core.servers.transport.loss import ConnectionLost
from supervisors import Incarnation

log = structlog.get_logger()


class Attempts:
    """Runs sessions, each with a handshake that asks in the order of `eras`."""

    def __init__(self, server: str, eras: Callable[[], tuple[Era, ...]]) -> None:
        self._server = server
        self._eras = eras
        self._next: Handshake | None = None

    async def run(self, incarnation: Incarnation, live: Callable[[Handshake], Awaitable[None]]) -> None:
        """Run `live`, once more with another process where the first has ended at the question.

        Raises:
            Exception: What `live` has raised.
        """
        handshake, self._next = self._next or Handshake(self._eras()), None
        try:
            await live(handshake)
        except (ConnectionLost, NoAnswer) as error:
            again = handshake.in_another_process()
            if again is None or incarnation.stopping.is_set():
                raise
            if isinstance(error, NoAnswer):
                self._next = again
                raise
            # some servers end at a question that they do not know: asking a fresh one is no failure
            log.info("upstream.greeted_again", server=self._server, reason=str(error))
            try:
                await live(again)
            except (EraRefused, ConnectionLost):
                if again.agreed is not None:
                    raise
                raise error from None  # it ends at either question: what it said to the first counts
