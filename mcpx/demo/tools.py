"""The tools server: a handful of realistic tools, offline and deterministic, over stdio.

Run as `python -P -m mcpx.demo.tools`. Owns nothing but the note counter of one process. It shows what a
gateway must carry: tables of JSON, an image, a sound, progress, a call that may not be repeated, and a
failure.
"""

from __future__ import annotations

import base64
from itertools import count
from typing import Annotated, Final, Literal

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import AudioContent, ImageContent, TextContent, ToolAnnotations
from pydantic import Field

from mcpx.demo import media, orders, units

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
StatusFilter = Annotated[orders.Status | None, Field(description="Only orders of this status")]
Frequency = Annotated[float, Field(ge=20, le=3900, description="Pitch in hertz")]
ToneSeconds = Annotated[float, Field(gt=0, le=2, description="Length in seconds")]
SlowSeconds = Annotated[float, Field(ge=0, le=600, description="How long to take, in seconds")]
NoteText = Annotated[str, Field(min_length=1, max_length=2000, description="What to write down")]


def list_orders(status: StatusFilter = None, limit: Limit = 50) -> orders.OrderPage:
    """List the shop's orders, oldest first, as a table."""
    return orders.page(status, limit)


def get_order(id: OrderId) -> orders.Order:  # noqa: A002 - the name that the model sees
    """Get one order by its number."""
    order = orders.find(id)
    if order is None:
        first, last = orders.ORDERS[0].id, orders.ORDERS[-1].id
        raise ToolError(f"There is no order {id}: the numbers run from {first} to {last}")
    return order


def convert_units(
    value: Annotated[float, Field(description="The number to convert")],
    source: Annotated[units.Unit, Field(description="The unit it is in")],
    target: Annotated[units.Unit, Field(description="The unit wanted; it must measure the same thing")],
) -> str:
    """Convert a length, a mass or a temperature from one unit to another."""
    try:
        converted = units.convert(value, source, target)
    except ValueError as error:
        raise ToolError(str(error)) from error
    return f"{value:g} {source} = {converted:.9g} {target}"


def draw_chart(kind: Literal["orders_by_status"] = "orders_by_status") -> list[TextContent | ImageContent]:
    """Draw a bar chart of the orders by status: a line of text with the numbers, and a PNG."""
    counts = orders.count_by_status()
    legend = ", ".join(f"{status} {number}" for status, number in counts.items())
    image = base64.b64encode(media.bar_chart(list(counts.values()))).decode()
    return [
        TextContent(type="text", text=f"{kind}, from left to right: {legend}"),
        ImageContent(type="image", data=image, mime_type="image/png"),
    ]


def play_tone(frequency: Frequency = 440.0, seconds: ToneSeconds = 0.1) -> AudioContent:
    """Make a short pure tone as a WAV sound."""
    data = base64.b64encode(media.tone(frequency, seconds)).decode()
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
