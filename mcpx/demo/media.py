"""A bar chart as PNG and a tone as WAV, from the standard library alone.

Called by `mcpx.demo.tools`. Pure and deterministic: the same numbers give the same bytes.
"""

from __future__ import annotations

import io
import math
import struct
import wave
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAPER: Final = b"\xff\xff\xff"
_INK: Final = b"\x2f\x6f\xb5"
_BAR_WIDTH: Final = 24
_GAP: Final = 8
_HEIGHT: Final = 96
_SAMPLE_RATE: Final = 8000


def bar_chart(values: Sequence[float]) -> bytes:
    """A PNG (RGB, 8 bits a channel), 96 pixels high: one bar a value, the largest to the top.

    Raises:
        ValueError: There is no value, or a negative one.
    """
    if not values or min(values) < 0:
        raise ValueError("a chart needs at least one value, and none below zero")
    top = max(values) or 1.0
    heights = [round(value / top * _HEIGHT) for value in values]
    rows = [_row(heights, level) for level in range(_HEIGHT, 0, -1)]
    return _png(width=len(rows[0]) // 3, rows=rows)


def _row(heights: Sequence[int], level: int) -> bytes:
    """The pixels of one row: ink where a bar reaches up to `level`."""
    gap = _PAPER * _GAP
    return gap + gap.join((_INK if height >= level else _PAPER) * _BAR_WIDTH for height in heights) + gap


def _png(width: int, rows: Sequence[bytes]) -> bytes:
    """The file as the PNG specification lays it out: signature, IHDR, IDAT, IEND."""
    header = struct.pack(">IIBBBBB", width, len(rows), 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), level=9)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", pixels), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def tone(frequency: float, seconds: float) -> bytes:
    """A WAV file (mono, 16 bits, 8 kHz): a sine of `frequency` hertz, at a quarter of full volume."""
    step = math.tau * frequency / _SAMPLE_RATE
    samples = (round(8191 * math.sin(step * n)) for n in range(round(seconds * _SAMPLE_RATE)))
    frames = b"".join(struct.pack("<h", sample) for sample in samples)
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(_SAMPLE_RATE)
        file.writeframes(frames)
    return buffer.getvalue()
