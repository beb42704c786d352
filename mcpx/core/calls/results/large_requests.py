"""Large calls of clients, taken apart in a worker: the event loop reads all of them but their arguments.

`split` is the task. It reads the parameters once, and says where in them the arguments stand; what is left is
small, and is decoded as the parameters of a small call are. The arguments go on as the bytes that came.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import msgspec

from mcpx.core.wire.envelope import decode_members, encode
from mcpx.core.wire.intake import LARGE_BYTES
from mcpx.core.wire.workers.pool import Job, NoAnswer, WorkerPool

TASK: Final = "mcpx.core.calls.results.large_requests:split"
DEADLINE_S: Final = 10.0  # for one request: 60 MB take half a second
PATIENCE_S: Final = 10.0  # for its turn
_ARGUMENTS: Final = "arguments"
_NOTHING: Final = msgspec.Raw()

Place = tuple[int, int]


class _Split(msgspec.Struct, array_like=True):
    """The params without their arguments, these without arguments of their own, and where both stand."""

    rest: bytes = b"{}"
    place: Place | None = None
    rest_of_arguments: bytes = b""
    place_inside: Place | None = None
    unreadable: bool = False


_decode_split: Final = msgspec.msgpack.Decoder(_Split | None).decode


class LargeCall(msgspec.Struct):
    """A large call. Both params are small, and stand for themselves with their arguments added.

    `params` are those without `arguments`; in `exec_params`, the arguments lack those of the tool.
    """

    params: bytes
    arguments: msgspec.Raw
    exec_params: bytes
    tool_arguments: msgspec.Raw


class NotTakenApart(Exception):
    """A large call that is not read: it is `unreadable`, or nobody had the time to, for that `reason`."""

    def __init__(self, reason: str, *, unreadable: bool = False) -> None:
        super().__init__(reason)
        self.unreadable = unreadable


class LargeRequests:
    """Takes large calls apart in the workers of `pool`, one at a time."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool

    async def call(self, raw: msgspec.Raw, client: Hashable) -> LargeCall | None:
        """The call that these params are; None where something else in them is large.

        Raises:
            NotTakenApart: As it says.
        """
        whole = memoryview(raw)
        job = Job(
            TASK, (whole,), DEADLINE_S, PATIENCE_S, client=client, exclusive=("large request",), counted=False
        )
        job = msgspec.structs.replace(job, max_answer_bytes=2 * LARGE_BYTES)
        answer = await self._pool.run(job)
        if isinstance(answer, NoAnswer):
            raise NotTakenApart(answer.reason)
        found = _decode_split(answer)
        if found is None:
            return None
        if found.unreadable:
            raise NotTakenApart("", unreadable=True)
        arguments, inside = (
            _NOTHING if place is None else msgspec.Raw(whole[place[0] : place[1]])
            for place in (found.place, found.place_inside)
        )
        given = found.rest_of_arguments or b"{}"
        comma = b"" if found.rest == b"{}" else b","
        exec_params = b'%b%b"arguments":%b}' % (found.rest[:-1], comma, given)
        return LargeCall(found.rest, arguments, exec_params, inside)


def split(frame: memoryview) -> bytes:
    """Take the params of a call apart; None where what is left is large."""
    try:
        made = _split(frame)
    except (msgspec.DecodeError, RecursionError):
        made = _Split(unreadable=True)
    small = len(made.rest) + len(made.rest_of_arguments) <= LARGE_BYTES
    return msgspec.msgpack.encode(made if small else None)


def _split(frame: memoryview) -> _Split:
    members = decode_members(frame)
    arguments = members.pop(_ARGUMENTS, None)
    made = _Split(encode(members))
    if arguments is not None:
        made.place = _place(arguments, frame, 0)
        if bytes(memoryview(arguments)[:1]) == b"{":
            given = decode_members(arguments)
            inside = given.pop(_ARGUMENTS, None)
            if inside is not None:
                made.place_inside = _place(inside, frame, made.place[0])
                made.rest_of_arguments = encode(given)
            elif sum(map(len, given.values())) <= LARGE_BYTES:
                made.rest_of_arguments = encode(given)
    return made


def _place(part: msgspec.Raw, frame: memoryview, start: int) -> Place:
    """Find a part in the frame, behind a place."""
    whole: Any = frame.obj  # the buffer, which can be searched
    begins = len(whole) - len(frame)
    found = whole.find(part, begins + start) - begins
    return found, found + len(part)
