"""The tools server over real stdio, in both protocol eras."""

from __future__ import annotations

import base64
import io
import json
import struct
import wave
import zlib
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.demo.tools import Unit, bar_chart, convert, tone

# Unit conversion.


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (100, "C", "F", 212),
        (-40, "F", "C", -40),
        (0, "C", "K", 273.15),
        (1, "lb", "g", 453.59237),
        (1, "mi", "ft", 5280),
    ],
)
def test_known_conversions(value, source, target, expected):
    assert convert(value, source, target) == pytest.approx(expected, abs=1e-6)


@given(st.floats(-1e6, 1e6), st.sampled_from(get_args(Unit)))
def test_every_unit_converts_to_itself_unchanged(value, unit):
    assert convert(value, unit, unit) == pytest.approx(value, rel=1e-6, abs=1e-6)


# The chart and the tone as bytes.


def test_the_same_numbers_give_the_same_bytes():
    assert bar_chart([1, 2]) == bar_chart([1, 2]) != bar_chart([2, 1])
    assert tone(440, 0.1) == tone(440, 0.1) != tone(441, 0.1)


@pytest.mark.parametrize("values", [[], [-1.0]])
def test_a_chart_of_nothing_or_below_zero_is_refused(values):
    with pytest.raises(ValueError, match="at least one value, and none below zero"):
        bar_chart(values)


def test_a_chart_of_zeros_is_drawn():
    assert bar_chart([0, 0]).startswith(b"\x89PNG")


pytestmark = pytest.mark.anyio

READ_ONLY = {"list_orders", "get_order", "convert_units", "draw_chart", "play_tone", "slow", "fail"}


async def test_every_tool_says_what_it_does_and_whether_it_changes_anything(connect):
    async with connect("tools") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == READ_ONLY | {"create_note"}
    for name, tool in tools.items():
        assert tool.description
        assert tool.annotations.read_only_hint is (name in READ_ONLY)
    assert tools["create_note"].annotations.idempotent_hint is False
    assert all(
        tools["convert_units"].input_schema["properties"][k]["description"] for k in ("value", "source")
    )


async def test_the_server_carries_instructions(connect):
    async with connect("tools") as client:
        assert "list_orders" in client.instructions


async def test_list_orders_is_a_table_as_text_and_as_structured_content(connect):
    async with connect("tools") as client:
        result = await client.call_tool("list_orders", {"status": "shipped", "limit": 3})
    assert json.loads(result.content[0].text) == result.structured_content
    rows = result.structured_content["orders"]
    assert [row["id"] for row in rows] == [1001, 1004, 1008]
    assert {tuple(row) for row in rows} == {("id", "customer", "city", "status", "items", "total", "placed")}
    assert result.structured_content["matching"] == 4


async def test_get_order_gives_one_order_and_names_the_range_where_there_is_none(connect):
    async with connect("tools") as client:
        found = await client.call_tool("get_order", {"id": 1002})
        missing = await client.call_tool("get_order", {"id": 7})
    assert found.structured_content["customer"] == "Bao Nguyen"
    assert missing.is_error
    assert "from 1001 to 1012" in missing.content[0].text


async def test_the_chart_is_a_line_of_text_and_a_png_that_decodes(connect):
    async with connect("tools") as client:
        text, image = (await client.call_tool("draw_chart")).content
    assert "shipped 4, open 3, paid 3, returned 2" in text.text
    assert image.mime_type == "image/png"
    width, height, bits, colour, pixels = _decode(base64.b64decode(image.data, validate=True))
    assert (width, height, bits, colour) == (4 * 32 + 8, 96, 8, 2)
    assert len(pixels) == height * (1 + 3 * width)


async def test_the_tone_is_a_wav_file_of_the_length_asked_for(connect):
    async with connect("tools") as client:
        (sound,) = (await client.call_tool("play_tone", {"frequency": 880, "seconds": 0.25})).content
    assert (sound.type, sound.mime_type) == ("audio", "audio/wav")
    with wave.open(io.BytesIO(base64.b64decode(sound.data, validate=True))) as file:
        assert file.getnframes() / file.getframerate() == 0.25


async def test_each_call_of_create_note_makes_a_new_note(connect):
    async with connect("tools") as client:
        results = [await client.call_tool("create_note", {"text": "milk"}) for _ in range(2)]
    assert [result.content[0].text for result in results] == ["note 1: milk", "note 2: milk"]


async def test_slow_reports_progress_up_to_its_total(connect):
    seen: list[tuple[float, float | None]] = []

    async def progress(done: float, total: float | None, _: str | None) -> None:
        seen.append((done, total))

    async with connect("tools") as client:
        result = await client.call_tool("slow", {"seconds": 0.3}, progress_callback=progress)
    assert result.content[0].text == "done after 0.3 s"
    assert seen == [(1, 3), (2, 3), (3, 3)]


async def test_fail_answers_an_error_with_the_message(connect):
    async with connect("tools") as client:
        result = await client.call_tool("fail", {"message": "the printer is on fire"})
    assert result.is_error
    assert "the printer is on fire" in result.content[0].text


async def test_units_that_do_not_measure_the_same_are_refused_with_those_that_would_fit(connect):
    async with connect("tools") as client:
        converted = await client.call_tool("convert_units", {"value": 10, "source": "km", "target": "mi"})
        refused = await client.call_tool("convert_units", {"value": 1, "source": "km", "target": "kg"})
    assert converted.content[0].text == "10 km = 6.21371192 mi"
    assert refused.is_error
    assert "choose one of m, km, mi, ft" in refused.content[0].text


def _decode(png: bytes) -> tuple[int, int, int, int, bytes]:
    """Width, height, bits, colour type and raw pixel rows; every checksum is checked on the way."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, at = {}, 8
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", png, at + 8 + size) == (zlib.crc32(kind + body),)
        chunks[kind], at = body, at + 12 + size
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, bits, colour = struct.unpack_from(">IIBB", chunks[b"IHDR"])
    return width, height, bits, colour, zlib.decompress(chunks[b"IDAT"])
