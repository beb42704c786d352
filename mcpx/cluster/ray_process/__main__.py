"""`python -P -m mcpx.cluster.ray_process ADDRESS [--allow-open]`: the Ray process of a gateway.

It joins, looks at the nodes until its input ends, and answers requests.

Three threads share the work. The main one looks at the cluster every `LOOK_S` and says what has changed. One
reads requests, which a few others carry out. The third is the watch: Ray's calls can wait for minutes while
its GCS is away, so a process whose main thread has not looked for `SILENCE_S` says so and is gone. It never
waits for Ray in order to leave. Nothing is kept in it: the next process finds everything in Ray.

File descriptor 1 is kept for the protocol; whatever Ray prints goes to standard error.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, Final

import msgspec

from mcpx.cluster.ray_process.protocol import (
    ALLOW_OPEN,
    MAX_LINE_BYTES,
    Answer,
    Ended,
    Joined,
    JoinError,
    Request,
    Say,
)
from mcpx.core.text import one_line

if TYPE_CHECKING:
    from mcpx.cluster.ray_process.session import Session

LOOK_S: Final = 0.25  # between two looks at the nodes: they take 2 ms of Ray's GCS
SILENCE_S: Final = 6.0  # of the main thread, after which Ray's GCS counts as gone
JOIN_TIMEOUT_S: Final = 30.0  # a second on a quiet machine
MAX_REQUESTS: Final = 4  # at the same time; others wait
MAX_REASON: Final = 1_000  # characters
CONNECT_TIMEOUT_S: Final = 3.0
MAX_PORT: Final = 65_535


class Output:
    """Writes lines for the gateway, whole, from any thread. The process ends when nobody reads them."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def say(self, message: Say) -> None:
        """Write one line."""
        line = msgspec.json.encode(message) + b"\n"
        try:
            with self._lock:
                self._stream.write(line)
        except (OSError, ValueError):
            os._exit(0)  # the gateway is gone

    def end(self, reason: str, *, final: bool = False) -> None:
        """Say why, and be gone: Ray's own threads could hold an ordinary end up."""
        self.say(Ended(one_line(reason, MAX_REASON), final))
        os._exit(1)


class Watch:
    """Ends the process when `beat` has not been called for the time that was allowed last."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._doing = "start"
        self._until = time.monotonic() + JOIN_TIMEOUT_S
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def beat(self, doing: str, allowed: float = SILENCE_S) -> None:
        """Say what is done next, and how long that may take."""
        self._doing = doing
        self._until = time.monotonic() + allowed

    def _run(self) -> None:
        while True:
            left = self._until - time.monotonic()
            if left <= 0:
                self._output.end(f"Ray did not {self._doing} in time; its GCS may be gone")
            time.sleep(min(max(left, 0.05), 1.0))


def serve(address: str, *, allow_open: bool = False) -> None:
    """Be the Ray process until standard input ends; does not return."""
    requests, output = _take_streams()
    watch = Watch(output)
    try:
        try_address(address)
        joined = _join(address, watch, allow_open=allow_open)
    except JoinError as error:
        output.end(str(error), final=error.is_final)
        return
    except Exception as error:  # noqa: BLE001 - whatever Ray raises: the gateway is told, and starts the next
        output.end(f"{type(error).__name__}: {error}")
        return
    from mcpx.cluster.ray_process.session import Session  # noqa: PLC0415 - needs Ray

    output.say(joined)
    session = Session()
    threading.Thread(target=_read, args=(requests, session, output), name="requests", daemon=True).start()
    try:
        while True:
            watch.beat("answer")
            news = session.look()
            if news is not None:
                output.say(news)
            session.wait(LOOK_S)
    except Exception as error:  # noqa: BLE001 - whatever Ray raises: the gateway is told, and starts the next
        output.end(f"{type(error).__name__}: {error}")


def try_address(address: str) -> None:
    """Connect to the address of Ray's GCS and leave; `auto` is for Ray to find.

    Ray itself waits for minutes for a GCS that does not listen, and then ends its process without a word.

    Raises:
        JoinError: It is no address, or nothing listens there.
    """
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port) <= MAX_PORT:
        raise JoinError(f"{address} is no address: HOST:PORT of Ray's GCS, or auto", is_final=True)
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise JoinError(f"nothing listens at {address} ({reason}): is it Ray's GCS?") from error


def _join(address: str, watch: Watch, *, allow_open: bool) -> Joined:
    """Import Ray, and join, or raise JoinError."""
    try:
        from mcpx.cluster.ray_process.joining import join  # noqa: PLC0415 - Ray is an extra, and half a second
    except ImportError as error:
        raise JoinError(
            f"Ray is not installed ({error}): pip install 'mcpx-gateway[ray]'", is_final=True
        ) from error
    watch.beat(f"let this process join at {address}", JOIN_TIMEOUT_S)
    return join(address, allow_open=allow_open)


def _take_streams() -> tuple[IO[bytes], Output]:
    """The protocol's streams, out of the way of everybody else."""
    requests = os.fdopen(os.dup(0), "rb", 1 << 16)
    output = os.fdopen(os.dup(1), "wb", 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return requests, Output(output)


def _read(requests: IO[bytes], session: Session, output: Output) -> None:
    """Carry requests out until there are no more; then the gateway is gone, and so is this process."""
    decoder = msgspec.json.Decoder(Request)
    with ThreadPoolExecutor(MAX_REQUESTS, thread_name_prefix="request") as threads:
        while line := requests.readline(MAX_LINE_BYTES):
            try:
                request = decoder.decode(line)
            except msgspec.DecodeError as error:
                output.end(f"a request cannot be read: {error}")
                return
            threads.submit(_carry_out, request, session, output)
        os._exit(0)


def _carry_out(request: Request, session: Session, output: Output) -> None:
    try:
        answer = session.answer(request)
    except Exception as error:  # noqa: BLE001 - whatever Ray raises is the answer to this request
        answer = Answer(
            request.id, error=one_line(f"{type(error).__name__}: {error}", MAX_REASON), code="unavailable"
        )
    output.say(answer)


if __name__ == "__main__":
    serve(sys.argv[1] if len(sys.argv) > 1 else "auto", allow_open=ALLOW_OPEN in sys.argv[2:])
