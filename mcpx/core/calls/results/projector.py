"""Projections of results: on the event loop where they are cheap, else in a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from mcpx.core.calls.results.results import ResultRenderer
from mcpx.core.config import CallLimits
from mcpx.core.protocol.context import ClientId
from mcpx.core.rendering.projection import (
    DEADLINE_S,
    TASK,
    Projected,
    decode_answer,
    encode_job,
    is_cheap,
    parse,
    project,
)
from mcpx.core.wire.workers.pool import Job, NoAnswer, WorkerPool

SHARED_DEADLINE_S: Final = 2.0  # for one projection, while others wait for a process
MAX_VALUE_BYTES: Final = 64 << 20  # of a projection; one larger could not be kept
PATIENCE_S: Final = CallLimits().queue_timeout
_ROOM_BYTES: Final = 1024  # of an answer, beside the value


def patience_for(results: ResultRenderer, server: str) -> float:
    """Seconds that work for a server waits for its turn: its `queue_timeout`."""
    config = results.settings.servers.get(server)
    return PATIENCE_S if config is None else config.call_limits.queue_timeout


class NoTurn(Exception):  # noqa: N818 - a condition
    """Other work had all turns for as long as this one may wait; `str()` says how long."""


class Projector:
    """Applies expressions to the JSON of results, in the workers of `pool` where that may take long."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool

    async def project(
        self,
        expression: str,
        texts: Sequence[str],
        client: ClientId | None = None,
        *,
        patience_s: float = PATIENCE_S,
    ) -> Projected:
        """The projection; a failure is one of its forms.

        Raises:
            BadExpression: The expression cannot be parsed.
            NoTurn: `patience_s` were not enough for a process to be free.
        """
        if is_cheap(parse(expression), texts):
            return project(expression, texts)
        job = Job(
            TASK,
            (encode_job(expression, texts),),
            DEADLINE_S,
            patience_s,
            client=client,
            exclusive=(("select", client),),
            shared_deadline_s=SHARED_DEADLINE_S,
            max_answer_bytes=MAX_VALUE_BYTES + _ROOM_BYTES,
        )
        answer = await self._pool.run(job)
        if not isinstance(answer, NoAnswer):
            return decode(answer)
        if answer.late:
            raise NoTurn(answer.reason)
        return Projected(problem=problem_of(answer))


def problem_of(answer: NoAnswer) -> str:
    """What to say of a projection that was given up."""
    if answer.slow:
        return f"{answer.reason}; take less, or begin with a filter or a slice"
    return "it takes too much memory, or gives too much" if answer.began else answer.reason


def decode(answer: bytes | memoryview) -> Projected:
    """Read the answer of the worker."""
    try:
        return decode_answer(answer)
    except msgspec.DecodeError:
        return Projected(problem="it takes too much memory, or gives too much")
