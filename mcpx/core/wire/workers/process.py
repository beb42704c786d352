"""A worker process: jobs on standard input, answers on standard output, one at a time.

Started by `mcpx.core.wire.workers.pool`, and killed by it when a job takes too long. It ends by itself when
its input ends and, wherever it hangs, by an alarm signal: it never outlives MCPX. It holds no descriptor but
its three, and imports what its jobs name, which is neither the SDK nor an event loop.

A frame is a length and bytes. A job's frame begins with its header. An empty frame out says that all is
imported (at the start, and where a job needed another module), so that imports do not count as the job's
time; no answer is empty.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import BinaryIO, Final

import msgspec

from mcpx.core.system.reaping import limit_this_process, set_alarm, take_alarms

LENGTH_BYTES: Final = 4  # before each frame, and before a job's header in it
MAX_MEMORY_BYTES: Final = 1 << 30  # of address space: 16 MB of arguments take a quarter of that
RECURSION_LIMIT: Final = 9000  # arguments of 900 levels against a recursive schema
ALARM_FACTOR: Final = 2  # of the deadline; MCPX kills it before that, unless MCPX itself is gone

Task = Callable[[memoryview], bytes]


class Header(msgspec.Struct, frozen=True, array_like=True):
    """A worker's task: `task` is `module:function`, which is given the rest of the frame."""

    task: str
    deadline_s: float


encode_header = msgspec.msgpack.Encoder().encode
decode_header = msgspec.msgpack.Decoder(Header).decode


class Tasks:
    """The functions that were asked for so far."""

    def __init__(self) -> None:
        self._known: dict[str, Task] = {}

    def has(self, name: str) -> bool:
        """Return True if a task needs no import."""
        return name in self._known

    def get(self, name: str) -> Task:
        """Import a task: `module:function`."""
        if name not in self._known:
            module, _, function = name.partition(":")
            self._known[name] = getattr(import_module(module), function)
        return self._known[name]


def serve(jobs: BinaryIO, answers: BinaryIO, first: str) -> None:
    """Answer jobs until there are no more. `first` is the task to import before any job."""
    tasks = Tasks()
    tasks.get(first)
    _write(answers, b"")
    while (frame := _read(jobs)) is not None:
        _serve_one(tasks, frame, answers)
        set_alarm(0)
        del frame
        gc.collect()


def _serve_one(tasks: Tasks, frame: bytearray, answers: BinaryIO) -> None:
    begins = LENGTH_BYTES + int.from_bytes(frame[:LENGTH_BYTES])
    header = decode_header(frame[LENGTH_BYTES:begins])
    set_alarm(ALARM_FACTOR * header.deadline_s)
    imported = tasks.has(header.task)
    task = tasks.get(header.task)
    if not imported:
        _write(answers, b"")
    _write(answers, task(memoryview(frame)[begins:]))


def _read(stream: BinaryIO) -> bytearray | None:
    length = stream.read(LENGTH_BYTES)
    if len(length) < LENGTH_BYTES:
        return None
    frame = bytearray(int.from_bytes(length))
    rest = memoryview(frame)
    while rest:
        count = stream.readinto(rest)  # type: ignore[attr-defined]  # a buffered reader
        if not count:
            return None
        rest = rest[count:]
    return frame


def _write(stream: BinaryIO, frame: bytes) -> None:
    stream.write(len(frame).to_bytes(LENGTH_BYTES))
    stream.write(frame)
    stream.flush()


def main() -> None:
    """Run the process."""
    take_alarms()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_this_process(address_space=MAX_MEMORY_BYTES)
    sys.setrecursionlimit(RECURSION_LIMIT)
    gc.disable()  # between the jobs only
    with suppress(BrokenPipeError, KeyboardInterrupt):
        serve(sys.stdin.buffer, sys.stdout.buffer, sys.argv[2])
