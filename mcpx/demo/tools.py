"""The tools server: a handful of realistic tools, offline and deterministic, over stdio.

Run as `python -P -m mcpx.demo.tools`. Owns nothing but the note counter of one process. It shows what a
gateway must carry: tables of JSON, an image, a sound, progress, a call that may not be repeated, and a
failure.
"""

from __future__ import annotations

import base64
import io
import math
import struct
import wave
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Final, Literal, get_args

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import AudioContent, ImageContent, TextContent, ToolAnnotations
from pydantic import Field

# --- a bar chart as PNG and a tone as WAV: the same numbers give the same bytes

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


# --- units: each a factor and an offset to the base unit of its kind (metre, kilogram, kelvin)

Unit = Literal["m", "km", "mi", "ft", "kg", "g", "lb", "K", "C", "F"]
"""The units known, by their symbols; `C` and `F` are degrees."""

_BASE: Final[dict[Unit, tuple[str, float, float]]] = {
    "m": ("length", 1.0, 0.0),
    "km": ("length", 1000.0, 0.0),
    "mi": ("length", 1609.344, 0.0),
    "ft": ("length", 0.3048, 0.0),
    "kg": ("mass", 1.0, 0.0),
    "g": ("mass", 0.001, 0.0),
    "lb": ("mass", 0.45359237, 0.0),
    "K": ("temperature", 1.0, 0.0),
    "C": ("temperature", 1.0, 273.15),
    "F": ("temperature", 5 / 9, 459.67 * 5 / 9),
}


def convert(value: float, source: Unit, target: Unit) -> float:
    """Convert `value` into `target` units, to nine significant digits.

    Raises:
        ValueError: The two units measure different things; the text names those that fit.
    """
    kind, factor, offset = _BASE[source]
    target_kind, target_factor, target_offset = _BASE[target]
    if kind != target_kind:
        fitting = ", ".join(unit for unit in get_args(Unit) if _BASE[unit][0] == kind)
        raise ValueError(f"{source} is a {kind} and {target} a {target_kind}: choose one of {fitting}")
    return float(f"{(value * factor + offset - target_offset) / target_factor:.9g}")


# --- the shop: dataclasses, because the SDK derives output schemas from those; not with slots, whose
# descriptors it would take for defaults

Status = Literal["open", "paid", "shipped", "returned"]
"""Where an order stands."""


@dataclass(frozen=True)
class Order:
    """One order. `total` is in euros, `placed` an ISO 8601 date."""

    id: int
    customer: str
    city: str
    status: Status
    items: int
    total: float
    placed: str


@dataclass(frozen=True)
class OrderPage:
    """Some orders, and how many there are in all that match."""

    orders: list[Order]
    matching: int


ORDERS: Final = (
    Order(1001, "Ada Byron", "London", "shipped", 3, 74.50, "2026-01-05"),
    Order(1002, "Bao Nguyen", "Hanoi", "open", 1, 19.90, "2026-01-07"),
    Order(1003, "Carla Ruiz", "Sevilla", "paid", 2, 45.00, "2026-01-07"),
    Order(1004, "Dmitri Orlov", "Riga", "shipped", 7, 210.35, "2026-01-09"),
    Order(1005, "Emeka Obi", "Lagos", "returned", 1, 33.20, "2026-01-12"),
    Order(1006, "Fatima Zahra", "Rabat", "open", 4, 88.00, "2026-01-13"),
    Order(1007, "Grace Lin", "Taipei", "paid", 2, 52.75, "2026-01-13"),
    Order(1008, "Hugo Marchand", "Lyon", "shipped", 5, 131.10, "2026-01-15"),
    Order(1009, "Ingrid Dahl", "Bergen", "open", 1, 12.00, "2026-01-18"),
    Order(1010, "Jamal Khan", "Lahore", "shipped", 2, 61.40, "2026-01-20"),
    Order(1011, "Keiko Mori", "Osaka", "paid", 9, 305.99, "2026-01-21"),
    Order(1012, "Lucia Rossi", "Torino", "returned", 1, 27.80, "2026-01-22"),
)


def page(status: Status | None, limit: int) -> OrderPage:
    """The first `limit` orders of that status (of any, for `None`), oldest first."""
    matching = [order for order in ORDERS if status in (None, order.status)]
    return OrderPage(orders=matching[:limit], matching=len(matching))


def find(order_id: int) -> Order | None:
    """The order of that number, if there is one."""
    return next((order for order in ORDERS if order.id == order_id), None)


def count_by_status() -> dict[Status, int]:
    """Count the orders of each status, in order of first appearance."""
    return dict(Counter(order.status for order in ORDERS))


# The SDK resolves a tool's annotations at run time, so these imports and aliases are needed there.

INSTRUCTIONS: Final = (
    "A small shop to practise on. Start with list_orders, then get_order for one of them. "
    "The data never changes; only create_note has an effect, and calling it twice makes two notes."
)

_READ_ONLY: Final = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_ADDS: Final = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
_TICK_S: Final = 0.1  # how often `slow` reports progress

Limit = Annotated[int, Field(ge=1, le=100, description="The most orders to return")]
OrderId = Annotated[int, Field(ge=1, description="The number of the order, as list_orders gives it")]
StatusFilter = Annotated[Status | None, Field(description="Only orders of this status")]
Frequency = Annotated[float, Field(ge=20, le=3900, description="Pitch in hertz")]
ToneSeconds = Annotated[float, Field(gt=0, le=2, description="Length in seconds")]
SlowSeconds = Annotated[float, Field(ge=0, le=600, description="How long to take, in seconds")]
NoteText = Annotated[str, Field(min_length=1, max_length=2000, description="What to write down")]


def list_orders(status: StatusFilter = None, limit: Limit = 50) -> OrderPage:
    """List the shop's orders, oldest first, as a table."""
    return page(status, limit)


def get_order(id: OrderId) -> Order:  # noqa: A002 - the name that the model sees
    """Get one order by its number."""
    order = find(id)
    if order is None:
        first, last = ORDERS[0].id, ORDERS[-1].id
        raise ToolError(f"There is no order {id}: the numbers run from {first} to {last}")
    return order


def convert_units(
    value: Annotated[float, Field(description="The number to convert")],
    source: Annotated[Unit, Field(description="The unit it is in")],
    target: Annotated[Unit, Field(description="The unit wanted; it must measure the same thing")],
) -> str:
    """Convert a length, a mass or a temperature from one unit to another."""
    try:
        converted = convert(value, source, target)
    except ValueError as error:
        raise ToolError(str(error)) from error
    return f"{value:g} {source} = {converted:.9g} {target}"


def draw_chart(kind: Literal["orders_by_status"] = "orders_by_status") -> list[TextContent | ImageContent]:
    """Draw a bar chart of the orders by status: a line of text with the numbers, and a PNG."""
    counts = count_by_status()
    legend = ", ".join(f"{status} {number}" for status, number in counts.items())
    image = base64.b64encode(bar_chart(list(counts.values()))).decode()
    return [
        TextContent(type="text", text=f"{kind}, from left to right: {legend}"),
        ImageContent(type="image", data=image, mime_type="image/png"),
    ]


def play_tone(frequency: Frequency = 440.0, seconds: ToneSeconds = 0.1) -> AudioContent:
    """Make a short pure tone as a WAV sound."""
    data = base64.b64encode(tone(frequency, seconds)).decode()
    return AudioContent(type="audio", data=data, mime_type="audio/wav")


async def slow(seconds: SlowSeconds, ctx: Context) -> str:
    """Take some time, reporting progress about ten times a second, then say how long it took."""
    ticks = max(1, round(seconds / _TICK_S))
    for tick in range(1, ticks + 1):
        await anyio.sleep(seconds / ticks)
        await ctx.report_progress(tick, ticks, f"step {tick} of {ticks}")
    return f"done after {seconds:g} s"


def fail(message: Annotated[str, Field(description="The text of the failure")]) -> str:
    """Fail, always, with the message given."""
    raise ToolError(message)


def build() -> MCPServer:
    """A new server, its note counter at zero."""
    server = MCPServer(
        "mcpx-demo-tools", title="Demo tools", version="1.0.0", instructions=INSTRUCTIONS, log_level="ERROR"
    )
    numbers = count(1)

    def create_note(text: NoteText) -> str:
        """Write a note down. Each call makes a new note, with the next number."""
        return f"note {next(numbers)}: {text}"

    for structured in (list_orders, get_order):
        server.add_tool(structured, annotations=_READ_ONLY)
    for plain in (convert_units, draw_chart, play_tone, slow, fail):
        server.add_tool(plain, annotations=_READ_ONLY, structured_output=False)
    server.add_tool(create_note, annotations=_ADDS, structured_output=False)
    return server


if __name__ == "__main__":
    build().run("stdio")
