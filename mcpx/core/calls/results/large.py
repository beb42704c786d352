"""Large results and costly projections, made in workers: what `ResultViews` does with small ones at once.

The event loop hands a large result over and takes back what is small (`mcpx.core.calls.results.worker`); the
rest of what goes out are ranges of the server's own bytes. `Projector` applies expressions to results, on the
event loop where that is cheap.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from mcpx.core.calls.results import worker
from mcpx.core.calls.results.kept import KeptResult, KeptResults
from mcpx.core.calls.results.parts import no_turn, nothing_selected
from mcpx.core.calls.results.shaping import Order, ResultRenderer
from mcpx.core.config import CallLimits
from mcpx.core.events.costs import CountedPieces
from mcpx.core.protocol.context import ClientId
from mcpx.core.protocol.messages import Exec, Read
from mcpx.core.protocol.result_address import SERVER, ResultAddress
from mcpx.core.rendering import pictures, projection
from mcpx.core.rendering.large_results import MAX_QUESTION_BYTES
from mcpx.core.rendering.pictures import FIT_TASK, FitJob, PictureLimits, decode_fitted
from mcpx.core.rendering.projection import Projected
from mcpx.core.rendering.result_members import Bytes, enveloped
from mcpx.core.rendering.results import ToolResult, members_of
from mcpx.core.wire.intake import INTAKE
from mcpx.core.wire.workers.pool import Job, NoAnswer, WorkerPool
from mcpx.errors import CallError, Code, Outcome

T_co = TypeVar("T_co", covariant=True)

DEADLINE_S: Final = 10.0  # for one result: 60 MB take a second or two
PICTURES_DEADLINE_S: Final = 15.0  # for those of one result: one of 80 million pixels takes two seconds
_ROOM_BYTES: Final = 1 << 20  # of an answer, beside what is made of the result
SHARED_DEADLINE_S: Final = 2.0  # for one projection, while others wait for a process
MAX_VALUE_BYTES: Final = 64 << 20  # of a projection; one larger could not be kept
PATIENCE_S: Final = CallLimits().queue_timeout


class Apart(Generic[T_co]):
    """Something that is being made in a worker, once it is awaited."""

    def __init__(self, make: Callable[[], Awaitable[T_co]]) -> None:
        self._make = make

    def __await__(self) -> Generator[Any, None, T_co]:
        return self._make().__await__()

    def then(self, look: Callable[[T_co], None]) -> Apart[T_co]:
        """The same, with `look` called with it."""

        async def looked_at() -> T_co:
            made = await self
            look(made)
            return made

        return Apart(looked_at)


class LargeResults:
    """Shapes large results in the workers of `pool`."""

    def __init__(self, results: ResultRenderer, kept: KeptResults, pool: WorkerPool) -> None:
        self._results = results
        self._kept = kept
        self._pool = pool

    async def pieces(
        self, raw: msgspec.Raw, request: Exec | Read, order: Order, client: ClientId | None
    ) -> CountedPieces | None:
        """A result in pieces, or the part of it that the request selects; None for one that asks for input.

        Raises:
            CallError: `protocol_error`: it is not MCP; `response_too_large`: it takes too long, or too much
                memory; `overloaded`: others had all turns.
        """
        select = request.select if isinstance(request, Exec) else None
        job = worker.ShapingJob(order, self._display(), self._kept.new_id(client), select)
        shaped = await self._run(raw, job, client, order.server)
        if isinstance(shaped, NoAnswer):
            return self._not_selected(raw, job, shaped, client)
        if shaped.no_result:
            return None
        if shaped.keeps_source and self._kept.keep_source(raw, job, client):
            INTAKE.kept(raw)
        elif shaped.texts is not None:
            self._kept.keep_as(job.result_id, tuple(shaped.texts), client, order.further)
        whole = memoryview(raw)
        pieces = (whole[each[0] : each[1]] if isinstance(each, tuple) else each for each in shaped.pieces)
        return CountedPieces(pieces, shaped.cost)

    async def page(self, kept: KeptResult, at: ResultAddress, client: ClientId | None) -> ToolResult:
        """A page of a large result that is kept, or the part of it that the address selects.

        Raises:
            CallError: `invalid_arguments`: there is nothing at that place; or as from `pieces`.
        """
        assert kept.source is not None  # the caller has looked
        raw, job = kept.source
        result_id = self._kept.new_id(client)
        again = replace(job, at=replace(at, id=kept.id), result_id=result_id)
        shaped = await self._run(raw, again, client, SERVER)
        if isinstance(shaped, NoAnswer):
            if shaped.late:
                raise CallError(Code.OVERLOADED, f"select: {shaped.reason}; try again later", server=SERVER)
            return nothing_selected(Projected(problem=problem_of(shaped)), kept.id)
        if shaped.texts is not None:
            self._kept.keep_as(result_id, tuple(shaped.texts), client, kept.limit)
        return worker.decode_page(shaped.page)

    async def fitted(
        self, raw: msgspec.Raw, request: Exec | Read, limits: PictureLimits, *, as_resource: bool
    ) -> msgspec.Raw:
        """A result whose pictures a client and its model take; the originals are kept for the client.

        Raises:
            CallError: `response_too_large`, `overloaded`: as from `pieces`.
        """
        server, client = request.server_name, request.context.client
        job = FitJob(limits, self._kept.new_id(client), as_resource)
        answer = await self._fit(raw, job, client, server)
        if isinstance(answer, NoAnswer) and answer.began:  # one of them was too much for the worker
            answer = await self._fit(raw, replace(job, decodes=False), client, server)
        if isinstance(answer, NoAnswer):
            raise _not_made(answer, len(raw), server)
        made = decode_fitted(answer)
        if made.originals:
            self._kept.keep_pictures(job.result_id, made.originals, client)
        return raw if made.result is None else msgspec.Raw(made.result)

    async def _fit(
        self, raw: msgspec.Raw, fitting: FitJob, client: ClientId | None, server: str
    ) -> Bytes | NoAnswer:
        deadline_s = PICTURES_DEADLINE_S if fitting.decodes else DEADLINE_S
        return await self._work(
            FIT_TASK,
            raw,
            client,
            server,
            pictures.encode_job(fitting),
            deadline_s=deadline_s,
            exclusive=("pictures",),
            max_answer_bytes=3 * len(raw) + _ROOM_BYTES,
        )

    async def _work(
        self, task: str, raw: msgspec.Raw, client: ClientId | None, server: str, job: bytes = b"", **more: Any
    ) -> Bytes | NoAnswer:
        """The answer of a worker to a job about a result; `more` is for the `Job`."""
        head = (len(job).to_bytes(worker.LENGTH_BYTES) + job,) if job else ()
        more = {"deadline_s": DEADLINE_S, "exclusive": ("large",), "counted": False, **more}
        patience_s = patience_for(self._results, server)
        with INTAKE.at_work(raw):
            return await self._pool.run(
                Job(task, (*head, memoryview(raw)), patience_s=patience_s, client=client, **more)
            )

    async def kind(self, raw: msgspec.Raw, client: ClientId | None, server: str) -> str | None:
        """The `resultType` of a large result, "" where it has none, None where it cannot be read.

        Raises:
            CallError: As from `pieces`.
        """
        answer = await self._work(worker.KIND_TASK, raw, client, server)
        if isinstance(answer, NoAnswer):
            raise _not_made(answer, len(raw), server)
        kind: str | None = msgspec.msgpack.decode(answer, type=str | None)
        return kind

    async def _run(
        self, raw: msgspec.Raw, shaping: worker.ShapingJob, client: ClientId | None, server: str
    ) -> worker.Shaped | NoAnswer:
        """The answer of a worker; where there is none, an error, unless it was to select."""
        selects = shaping.select is not None or (shaping.at is not None and shaping.at.select is not None)
        answer = await self._work(
            worker.TASK,
            raw,
            client,
            shaping.order.server,
            worker.encode_job(shaping),
            exclusive=("large", ("select", client)) if selects else ("large",),
            shared_deadline_s=SHARED_DEADLINE_S if selects else None,
            max_answer_bytes=2 * len(raw) + _ROOM_BYTES,
        )
        if isinstance(answer, NoAnswer):
            if selects:
                return answer
            raise _not_made(answer, len(raw), server)
        shaped = worker.decode_shaped(answer)
        worker.raise_error_in(shaped, server=server)
        return shaped

    def _not_selected(
        self, raw: msgspec.Raw, job: worker.ShapingJob, answer: NoAnswer, client: ClientId | None
    ) -> CountedPieces:
        """Keep a result from which could not be selected in time, so that the call need not be repeated."""
        order = replace(job.order, limit=job.order.further)
        kept = self._kept.keep_source(raw, replace(job, select=None, order=order), client)
        if kept:
            INTAKE.kept(raw)
        result_id = job.result_id if kept else None
        if answer.late:
            raise no_turn(Exception(answer.reason), result_id, order.server)
        said = nothing_selected(Projected(problem=problem_of(answer)), result_id, after_call=True)
        shaped = enveloped(members_of(said, structured=order.structured), order.stamp)
        return CountedPieces([shaped], (0, 0))

    def _display(self) -> worker.Display:
        settings = self._results.settings
        return worker.Display(
            settings.toon_compression_enabled,
            settings.toon_compression_min_saving,
            settings.toon_compression_min_size,
            settings.toon_compression_max_size,
        )


def refuse_large_question(raw: msgspec.Raw, server: str) -> None:
    """Refuse what is given or asked in place of a result, where it is too large to be read at once.

    Raises:
        CallError: `response_too_large`.
    """
    if len(raw) > MAX_QUESTION_BYTES:
        text = f"{server}: what it gives or asks in place of a result is too large; it may have taken effect"
        raise CallError(Code.RESPONSE_TOO_LARGE, text, server=server)


def _not_made(answer: NoAnswer, size: int, server: str) -> CallError:
    text = f"{server}: its result of {size / 1e6:.0f} MB cannot be shown: {answer.reason}"
    if answer.late:
        text = f"{text}. The call was carried out: do not repeat it before others are done"
        return CallError(Code.OVERLOADED, text, server=server, outcome=Outcome.UNKNOWN)
    return CallError(Code.RESPONSE_TOO_LARGE, f"{text}; it may have taken effect", server=server)


# --- projections: on the event loop where they are cheap, else in a worker


def patience_for(results: ResultRenderer, server: str) -> float:
    """Seconds that work for a server waits for its turn: its `queue_timeout`."""
    config = results.settings.servers.get(server)
    return PATIENCE_S if config is None else config.call_limits.queue_timeout


class NoTurn(Exception):
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
        if projection.is_cheap(projection.parse(expression), texts):
            return projection.project(expression, texts)
        job = Job(
            projection.TASK,
            (projection.encode_job(expression, texts),),
            projection.DEADLINE_S,
            patience_s,
            client=client,
            exclusive=(("select", client),),
            shared_deadline_s=SHARED_DEADLINE_S,
            max_answer_bytes=MAX_VALUE_BYTES + 1024,
        )
        answer = await self._pool.run(job)
        if not isinstance(answer, NoAnswer):
            return decode(answer)
        if answer.late:
            raise NoTurn(answer.reason)
        return Projected(problem=problem_of(answer))


def problem_of(answer: NoAnswer) -> str:
    """Explain why a projection was given up."""
    if answer.slow:
        return f"{answer.reason}; take less, or begin with a filter or a slice"
    return "it takes too much memory, or gives too much" if answer.began else answer.reason


def decode(answer: bytes | memoryview) -> Projected:
    """Read the answer of the worker."""
    try:
        return projection.decode_answer(answer)
    except msgspec.DecodeError:
        return Projected(problem="it takes too much memory, or gives too much")
