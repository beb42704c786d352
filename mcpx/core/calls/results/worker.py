"""Large results in a worker: `run` is its task, and shapes one by the code that shapes small ones.

What goes back is small: where a piece of the shaped result is a part of the server's own bytes, it is a range
in them. Texts to be kept that are large are not sent back either: the result itself is kept, and pages of it
are made by running the same job again, with `at` for the place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mcpx.core.calls.results.parts import Limit, nothing_selected, selectable
from mcpx.core.calls.results.shaping import Order, ResultRenderer, ResultShaper
from mcpx.core.config import Config
from mcpx.core.events.costs import costs
from mcpx.core.protocol.result_address import ResultAddress
from mcpx.core.rendering.json_rows import find_rows
from mcpx.core.rendering.projection import project
from mcpx.core.rendering.result_members import Bytes
from mcpx.core.rendering.result_reading import InputRequired, UnknownResultType
from mcpx.core.rendering.results import ToolResult
from mcpx.errors import CallError, Code, Outcome

TASK: Final = "mcpx.core.calls.results.worker:run"
KIND_TASK: Final = "mcpx.core.calls.results.worker:kind"
LENGTH_BYTES: Final = 4  # before the job in a frame, behind which the result stands
_MAX_TEXTS: Final = 2 << 20  # characters of texts that are sent back to be kept
_MIN_RANGE: Final = 65_536  # bytes of a piece that is sent back as a range
_NO_COST: Final = (0, 0)


class Display(msgspec.Struct, frozen=True, array_like=True):
    """The settings by which results are shown."""

    enabled: bool
    min_saving: float
    min_size: int
    max_size: int


class ShapingJob(msgspec.Struct, frozen=True, array_like=True):
    """A task for the worker: shape a large result; `result_id` is for its texts, if they are kept.

    With `select`, the `limit` of the order is for the part that it gives, however large that is. With `at`,
    it is a page of the texts that were kept, or the part of them that it selects.
    """

    order: Order
    display: Display
    result_id: str
    select: str | None = None
    at: ResultAddress | None = None


class Shaped(msgspec.Struct, array_like=True):
    """The answer: pieces for the wire, a page, or an error; none of them where a question came."""

    pieces: list[bytes | tuple[int, int]] = []
    cost: tuple[int, int] = _NO_COST
    texts: list[str] | None = None
    """To be kept under `result_id`."""
    keeps_source: bool = False
    """Whether the result itself is to be kept, because its texts are large."""
    page: bytes = b""
    """A `ToolResult` in JSON."""
    error: tuple[str, str, str, bytes] | None = None
    """Its code, outcome, text and details, these in JSON."""
    no_result: bool = False


class _Keeper:
    """Remembers the texts that are to be kept."""

    def __init__(self, result_id: str) -> None:
        self.result_id = result_id
        self.texts: tuple[str, ...] | None = None

    def keep(self, texts: tuple[str, ...], _owner: object, _limit: Limit) -> str:
        self.texts = texts
        return self.result_id


class _Typed(msgspec.Struct, gc=False):
    result_type: str = msgspec.field(name="resultType", default="")


_decode_typed: Final = msgspec.json.Decoder(_Typed).decode
encode_job: Final = msgspec.msgpack.Encoder().encode
decode_shaped: Final = msgspec.msgpack.Decoder(Shaped).decode
decode_page: Final = msgspec.json.Decoder(ToolResult).decode
_decode_job: Final = msgspec.msgpack.Decoder(ShapingJob).decode


def run(frame: memoryview) -> bytes:
    """Do a job."""
    begins = LENGTH_BYTES + int.from_bytes(frame[:LENGTH_BYTES])
    job = _decode_job(frame[LENGTH_BYTES:begins])
    keeper = _Keeper(job.result_id)
    try:
        answer = _page(job, frame[begins:], keeper) if job.at else _shaped(job, frame[begins:], keeper)
    except (InputRequired, UnknownResultType):
        return msgspec.msgpack.encode(Shaped(no_result=True))
    except CallError as error:
        details = msgspec.json.encode(error.details)
        said = (str(error.code), str(error.outcome), str(error), details)
        return msgspec.msgpack.encode(Shaped(error=said))
    if keeper.texts is not None:
        if sum(map(len, keeper.texts)) <= _MAX_TEXTS:
            answer.texts = list(keeper.texts)
        else:
            answer.keeps_source = True
    return msgspec.msgpack.encode(answer)


def kind(frame: memoryview) -> bytes:
    """The task for a result that is passed on as it is: its type, "" or None as in `LargeResults.kind`."""
    try:
        found: str | None = _decode_typed(frame).result_type
    except (msgspec.DecodeError, RecursionError):
        found = None
    return msgspec.msgpack.encode(found)


def raise_error_in(shaped: Shaped, *, server: str) -> None:
    """Raise the error that a job has ended with, if any; from no frame that holds the result.

    Raises:
        CallError: As said.
    """
    if shaped.error is None:
        return
    code, outcome, text, details = shaped.error
    given = msgspec.json.decode(details)
    raise CallError(Code(code), text, server=server, outcome=Outcome(outcome), details=given)


def _shaped(job: ShapingJob, raw: memoryview, keeper: _Keeper) -> Shaped:
    pieces = _pieces(job, raw, _shaper(job, keeper), keeper)
    return Shaped(_in_ranges(pieces, raw), costs(msgspec.Raw(raw), pieces))


def _shaper(job: ShapingJob, keeper: _Keeper) -> ResultShaper:
    display = job.display
    settings = Config(
        source=TASK,
        servers={},
        toon_compression_enabled=display.enabled,
        toon_compression_min_saving=display.min_saving,
        toon_compression_min_size=display.min_size,
        toon_compression_max_size=display.max_size,
    )
    return ResultShaper(ResultRenderer(settings), keeper.keep, find_rows)


def _pieces(job: ShapingJob, raw: memoryview, shaper: ResultShaper, keeper: _Keeper) -> list[Bytes]:
    order, whole = job.order, msgspec.Raw(raw)
    found = None if job.select is None else selectable(whole, server=order.server)
    if job.select is None or found is None:
        return shaper.pieces(whole, order, None)
    projected = project(job.select, found.sources)
    if projected.problem or projected.hint:
        kept = keeper.keep(found.texts, None, order.further)
        return shaper.enveloped(nothing_selected(projected, kept, after_call=True), order)
    limit = order.limit.of_size(len(projected.value)) if order.limit else None
    return shaper.enveloped(
        shaper.part(projected.value, msgspec.structs.replace(order, limit=limit), None), order
    )


def _page(job: ShapingJob, raw: memoryview, keeper: _Keeper) -> Shaped:
    """A page of the texts that the job without `at` would have kept, or the part that is selected there."""
    shaper, order, at = _shaper(job, keeper), job.order, job.at or ResultAddress("")
    _pieces(job, raw, shaper, keeper)
    texts, keeper.texts = keeper.texts or (), None
    limit = order.further
    if at.select is None:
        return Shaped(page=_encoded(shaper.page(texts, at.id, limit, at)))
    return Shaped(page=_encoded(shaper.selected_page(project(at.select, texts), at, limit, None)))


def _encoded(result: ToolResult) -> bytes:
    return msgspec.json.encode(result)


def _in_ranges(pieces: Sequence[Bytes], raw: memoryview) -> list[bytes | tuple[int, int]]:
    """The pieces; those that stand in the result itself as where they do."""
    made: list[bytes | tuple[int, int]] = []
    whole: Any = raw.obj  # the buffer, which can be searched
    begins = len(whole) - len(raw)
    for piece in pieces:  # of which the beginning is searched: for all of it, that takes ten times as long
        start = whole.find(piece[:_MIN_RANGE], begins) if len(piece) >= _MIN_RANGE else -1
        found = start >= 0 and whole.startswith(piece, start)
        made.append((start - begins, start - begins + len(piece)) if found else bytes(piece))
    return made
