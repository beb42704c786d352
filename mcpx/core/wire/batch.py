"""JSON-RPC batches: an array of messages, whose responses go back as one array. Pure.

Revision 2025-03-26 of MCP demands that a batch is received; no other revision has them. A batch is taken or
refused as a whole; its requests are served concurrently. Imported by `mcpx attach`, so standard library and
msgspec only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import Bytes, RequestId, RPCMessage

BATCH_REVISION: Final = "2025-03-26"
MAX_BATCH_MESSAGES: Final = 1000  # each request is a task, of which a peer may have 1024
NOT_IN_REVISION: Final = f"batches are for revision {BATCH_REVISION} only; send one message at a time"
NESTED: Final = "a batch in a batch"
_EMPTY: Final = "a batch of no messages"
_INITIALIZE: Final = "initialize must not be part of a batch"
_TOO_MANY: Final = f"a batch of more than {MAX_BATCH_MESSAGES} messages; send them in smaller ones"


def is_batch(line: bytes) -> bool:
    """Return True if a line without leading blanks can be a batch only."""
    return line[:1] == b"["


def split(line: bytes) -> list[bytes]:
    """Split a batch into its messages.

    Raises:
        msgspec.DecodeError: It is no JSON.
        RecursionError: It is nested too deeply.
    """
    return [bytes(each) for each in msgspec.json.decode(line, type=list[msgspec.Raw])]


def split_if_any(line: bytes) -> list[bytes]:
    """Split a batch into its messages; no messages for anything else."""
    try:
        return split(line) if is_batch(line) else []
    except (msgspec.DecodeError, RecursionError):
        return []


def messages(line: bytes) -> list[RPCMessage]:
    """The message of a line, or those of a batch, as far as they can be read."""
    return [message for each in split_if_any(line) or [line] if (message := read(each)) is not None]


def read(line: bytes) -> RPCMessage | None:
    """Decode one message; None where it cannot be read."""
    try:
        return envelope.decode_message(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def why_refused(lines: Sequence[bytes]) -> str | None:
    """Return why a batch is refused as a whole in the revision that has batches; None if it is taken."""
    if not lines:
        return _EMPTY
    if len(lines) > MAX_BATCH_MESSAGES:
        return _TOO_MANY
    read_ones = (read(each) for each in lines if b"initialize" in each)
    return _INITIALIZE if any(each and each.method == "initialize" for each in read_ones) else None


def join(lines: Iterable[Bytes]) -> bytes:
    """Make an array of encoded messages, which may end in a newline."""
    return b"[" + b",".join(bytes(each).rstrip(b"\n") for each in lines) + b"]"


class Batch:
    """Collects the responses to one batch until all its requests are settled, and has them written.

    It counts as open until `close` has been called once for its own sake and once for each `open`. `write`
    gets the array, without a newline, unless there are no responses; it must not raise. The responses hold
    at most `max_bytes`: one beyond is left out, and an error takes its place.
    """

    def __init__(self, write: Callable[[bytes], None], max_bytes: int) -> None:
        self._write = write
        self._max_bytes = max_bytes
        self._responses: list[bytes] = []
        self._bytes = 0
        self._open = 1

    @property
    def is_open(self) -> bool:
        """True if a request is not settled, or not all messages have been taken."""
        return self._open > 0

    def open(self) -> None:
        """Wait for one more request."""
        self._open += 1

    def add(self, request_id: RequestId | None, response: Iterable[Bytes]) -> None:
        """Add a response in pieces, with the id that it has."""
        whole = b"".join(response).rstrip(b"\n")
        if self._bytes + len(whole) > self._max_bytes:
            text = f"The responses to this batch exceed {self._max_bytes} bytes. This request was carried out"
            error = {"code": -32603, "message": f"{text}, but its response is left out"}
            whole = b"".join(envelope.failure(request_id, envelope.encode(error))).rstrip(b"\n")
        self._bytes += len(whole)
        self._responses.append(whole)

    def close(self) -> None:
        """One request is settled, or all messages have been taken; write the array if nothing is open."""
        self._open -= 1
        if not self._open and self._responses:
            self._write(join(self._responses))
            self._responses.clear()
