"""The loop: takes an input that did something new, alters it, and has the target look at what comes of it.

A target says what an input did as a value, its shape: an input with a new shape is kept and altered
further. That stands in for coverage, and costs nothing. Besides what a target itself promises, no input
may take more than `MAX_SECONDS` of the processor, nor let the process grow by more than
`MAX_GROWTH_BYTES`. The same seed alters the same inputs in the same way.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

MAX_INPUT_BYTES: Final = 16_384
MAX_SECONDS: Final = 2.0
A_WHILE_S: Final = 0.02
MAX_GROWTH_BYTES: Final = 256 << 20
MAX_KEPT: Final = 2000  # inputs that are altered further
SMALLER_TRIES: Final = 400  # to make what was found smaller
SMALLER_SECONDS: Final = 20.0
_ODD: Final = (
    *(b"\0", b"\r", b"\n", b"\r\n", b"\t", b"\x7f", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\u0000"),
    *(b"\\ud800", b"%00", b"%2e%2e", b"-1", b"0", b"1e999", b"18446744073709551616", b"9" * 400),
    *("é".encode(), "\u2028".encode(), "\uff0e".encode(), "\u202e".encode()),
)


class Target(NamedTuple):
    """A parser: `check` gives the shape of an input, and raises where a promise is broken."""

    name: str
    what: str
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...]
    check: Callable[[bytes], Hashable]


class Finding(NamedTuple):
    """An input that broke a promise, as small as it could be made, and what it raised."""

    data: bytes
    error: BaseException


class Report(NamedTuple):
    """What a run did: executions, shapes that were seen, and what it found, which ends it."""

    runs: int
    shapes: int
    finding: Finding | None


class TooMuch(AssertionError):
    """An input that takes too long, or too much memory."""


def run(target: Target, *, seconds: float, seed: int = 0, at_most: int = sys.maxsize) -> Report:
    """Alter inputs for so long, or so often; all seeds are tried first."""
    chance = random.Random(f"{target.name} {seed}")
    shapes: set[Hashable] = set()
    kept: list[bytes] = []
    end, runs = time.monotonic() + seconds, 0
    waiting = list(reversed(target.seeds))
    while runs < at_most and (waiting or time.monotonic() < end):
        data = waiting.pop() if waiting else altered(chance, kept, target.words)
        runs += 1
        try:
            shape = bounded(target, data)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
            return Report(runs, len(shapes), smaller(target, data, error))
        if shape not in shapes:
            shapes.add(shape)
            kept.append(data)
            if len(kept) > MAX_KEPT:
                del kept[chance.randrange(len(kept))]
    return Report(runs, len(shapes), None)


def bounded(target: Target, data: bytes) -> Hashable:
    """The shape of an input; raises `TooMuch`, too.

    The system is asked for times and memory only where it took a while: that costs more than most inputs do.
    """
    began = time.perf_counter()
    shape = target.check(data)
    if time.perf_counter() - began < A_WHILE_S:
        return shape
    if (grown := _grown_bytes()) > MAX_GROWTH_BYTES:
        raise TooMuch(f"{len(data)} bytes took {grown >> 20} MB")
    if time.perf_counter() - began > MAX_SECONDS:  # of a machine that may have been busy with other things
        began = time.thread_time()
        target.check(data)
        if (took := time.thread_time() - began) > MAX_SECONDS:
            raise TooMuch(f"{len(data)} bytes took {took:.1f} s")
    return shape


_peaks = [sys.maxsize]


def _grown_bytes() -> int:
    """The growth of the most that this process has held, since it was asked for last."""
    _peaks.append(_peak_bytes())
    return _peaks[-1] - _peaks.pop(0)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def smaller(target: Target, data: bytes, error: Exception) -> Finding:
    """The smallest part of an input that raises the same kind of error."""
    size, tries, end = max(1, len(data) // 2), 0, time.monotonic() + SMALLER_SECONDS
    while size and tries < SMALLER_TRIES:
        at = 0
        while at < len(data) and tries < SMALLER_TRIES and time.monotonic() < end:
            less, tries = data[:at] + data[at + size :], tries + 1
            try:
                bounded(target, less)
            except Exception as other:  # noqa: BLE001 - as above
                if type(other) is type(error):
                    data, error = less, other
                    continue
            at += size
        size //= 2
    return Finding(data, error)


def altered(chance: random.Random, kept: list[bytes], words: tuple[bytes, ...]) -> bytes:
    """One of the inputs that were kept, altered in one to six places."""
    data = bytearray(chance.choice(kept))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        at = chance.randint(0, len(data))
        part = bytes(data[at : at + chance.choice((1, 2, 4, 16, 64, 400))])
        match chance.randrange(9):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del data[at : at + len(part)]
            case 2:
                data[at:at] = part
            case 3:
                data[at:at] = part * chance.choice((2, 10, 200))
            case 4:
                data[at:at] = chance.choice(_ODD)
            case 5 | 6 if words:
                data[at : at + chance.choice((0, 0, len(part)))] = chance.choice(words)
            case 7:
                other = chance.choice(kept)
                data[at:] = other[chance.randint(0, len(other)) :]
            case _:
                del data[at:]
    return bytes(data[:MAX_INPUT_BYTES])


def pieces(data: bytes) -> list[bytes]:
    """The input cut into pieces, the same way each time."""
    chance = random.Random(data)
    cut, at = [], 0
    while at < len(data):
        size = chance.choice((1, 1, 2, 3, 7, 30, 200))
        cut.append(data[at : at + size])
        at += size
    return cut
