"""Pictures in results: what a model gets of those that are too large, broken or wicked, and the originals."""

from __future__ import annotations

import base64
import io
import json
import random
import struct
import time
import zlib

import anyio
import msgspec
import pytest
from PIL import Image

from mcpx.core.calls.results.picture_work import fit as fit_task
from mcpx.core.calls.results.picture_work import fitted
from mcpx.core.calls.results.shaping import ResultRenderer
from mcpx.core.calls.results.views import ResultViews
from mcpx.core.config import Config, ServerConfig
from mcpx.core.config.server_config import Stdio
from mcpx.core.gateway.tools.encoding import ResultEncoder
from mcpx.core.protocol.context import ClientId
from mcpx.core.protocol.messages import Exec, Read
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.protocol.result_address import read_address
from mcpx.core.rendering.pictures import USUAL, FitJob, PictureLimits
from mcpx.core.wire.workers.pool import WorkerPool

pytestmark = pytest.mark.anyio
ME = ClientId()
NOISE = bytes(range(256)) * 5000


def drawn(width, height, form="PNG", mode="RGB", **options):
    """A picture of one colour, encoded."""
    out = io.BytesIO()
    Image.new(mode, (width, height)).save(out, form, **options)
    return out.getvalue()


def noisy(side):
    """A picture that no encoding makes small."""
    out = io.BytesIO()
    Image.frombytes("RGB", (side, side), random.Random(1).randbytes(side * side * 3)).save(
        out, "PNG", compress_level=0
    )
    return out.getvalue()


def animated(width, height, frames=3):
    out = io.BytesIO()
    pictures = [Image.new("RGB", (width, height), (40 * n, 0, 0)) for n in range(frames)]
    pictures[0].save(out, "GIF", save_all=True, append_images=pictures[1:], duration=50)
    return out.getvalue()


def bomb(width, height):
    """A PNG whose header promises more than it holds."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(100_000))), (b"IEND", b"")]
    parts = [struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def block(data, mime="image/png"):
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": mime, "vendor": [1.50]}


def raw(*blocks, key="content", **members):
    return msgspec.Raw(json.dumps({key: blocks, **members}).encode())


def fit(result, limits=USUAL, **options):
    made = fitted(FitJob(limits, "abcd", as_resource=False, **options), memoryview(result))
    return made, (None if made.result is None else json.loads(made.result))


def opened(block):
    return Image.open(io.BytesIO(base64.b64decode(block["data"])))


@pytest.fixture
async def pool():
    made = WorkerPool()
    yield made
    made.close()


def views_of(pool, **settings):
    server = ServerConfig(name="s", transport=Stdio(command="x"), **settings)
    return ResultViews(ResultRenderer(Config(source="test", servers={"s": server})), {}, pool)


@pytest.fixture
def views(pool):
    return views_of(pool)


async def shown(views, result, name=None, **options):
    request = Exec("s", "t", b"", RequestContext(client=ME), **options)
    with anyio.fail_after(50):
        pieces = ResultEncoder.for_client(views, name, None).tool(result, request)
        pieces = pieces if isinstance(pieces, list) else await pieces
    return json.loads(b"".join(pieces))


def miscounted(data):
    """A PNG with a chunk whose checksum is wrong, as the picture of the reference server has."""
    profile = b"p\0\0" + zlib.compress(b"profile")
    chunk = struct.pack(">I", len(profile)) + b"iCCP" + profile + b"\0\0\0\0"
    return data[:33] + chunk + data[33:]


FITS = {
    "miscounted": (lambda: miscounted(drawn(20, 20)), "image/png"),
    "png": (lambda: drawn(2000, 10), "image/png"),
    "jpeg": (lambda: drawn(10, 2000, "JPEG"), "image/jpeg"),
    "gif": (lambda: animated(20, 20), "image/gif"),
    "webp": (lambda: drawn(9, 9, "WEBP"), "image/webp"),
    "grey": (lambda: drawn(9, 9, mode="L"), "image/png"),
    "svg": (lambda: b"<svg xmlns='http://www.w3.org/2000/svg' width='9000'>" + b" " * 99, "image/svg+xml"),
    "unknown": (lambda: b"\x00\x00\x00\x18ftypheic" + bytes(99), "image/heic"),
    "stands-for-one": (lambda: b"hi" * 500, "image/png"),
}


@pytest.mark.parametrize(("draw", "mime"), FITS.values(), ids=FITS)
async def test_what_fits_stays_byte_for_byte(views, draw, mime):
    given = raw(block(draw(), mime), {"type": "text", "text": "beside an image"}, _meta={"n": 1e2})
    assert fit(given)[0].result is None
    assert (await shown(views, given))["content"] == json.loads(bytes(given))["content"]
    assert not views.kept.size


SCALED = {
    "miscounted": (lambda: miscounted(drawn(4000, 20)), "image/png", (2000, 10)),
    "png": (lambda: drawn(9000, 4500), "image/png", (2000, 1000)),
    "high": (lambda: drawn(10, 2001), "image/png", (10, 2000)),
    "thin": (lambda: drawn(9000, 1), "image/png", (2000, 1)),
    "palette": (lambda: drawn(3000, 3000, mode="P"), "image/png", (2000, 2000)),
    "clear": (lambda: drawn(3000, 3000, mode="RGBA"), "image/png", (2000, 2000)),
    "deep": (lambda: drawn(3000, 3000, mode="I;16"), "image/png", (2000, 2000)),
    "one-bit": (lambda: drawn(4000, 4000, mode="1"), "image/png", (2000, 2000)),
    "jpeg": (lambda: drawn(6000, 3000, "JPEG"), "image/jpeg", (2000, 1000)),
    "cmyk": (lambda: drawn(3000, 3000, "JPEG", mode="CMYK"), "image/jpeg", (2000, 2000)),
    "gif": (lambda: animated(2500, 250), "image/gif", (2000, 200)),
    "webp": (lambda: drawn(2500, 2500, "WEBP"), "image/webp", (2000, 2000)),
    "bmp": (lambda: drawn(2500, 2500, "BMP"), "image/bmp", (2000, 2000)),
}


@pytest.mark.parametrize(("draw", "mime", "size"), SCALED.values(), ids=SCALED)
def test_a_larger_one_is_scaled_and_said_to_be(draw, mime, size):
    given = raw({"type": "text", "text": "first"}, block(draw(), mime), {"type": "text", "text": "last"})
    made, result = fit(given)
    first, picture, note, last = result["content"]
    assert (first["text"], last["text"]) == ("first", "last")
    with opened(picture) as image:
        assert image.size == size
        assert picture["mimeType"] == Image.MIME[image.format]
        image.load()
    assert picture["vendor"] == [1.50]
    assert "mcpx://result/abcd" in note["text"] and ("animation" in note["text"]) == (mime == "image/gif")
    assert [json.loads(each) for each in made.originals] == [json.loads(bytes(given))["content"][1]]


def test_the_right_way_up():
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    data = drawn(3000, 1500, "JPEG", exif=exif)
    _, result = fit(raw(block(data, "image/jpeg")))
    assert opened(result["content"][0]).size == (1000, 2000)


def test_a_wrong_media_type_is_put_right_and_nothing_else():
    data = drawn(5, 5, "JPEG")
    made, result = fit(raw(block(data, "image/png")))
    assert result["content"] == [block(data, "image/jpeg")]
    assert not made.originals


@pytest.mark.parametrize("side", [1500, 2600])
def test_bytes_within_the_limit_of_a_result(side):
    texts = {"type": "text", "text": "x" * 300_000}
    given = raw(block(noisy(side)), texts, block(noisy(1200)))
    made, result = fit(given, PictureLimits(of_result=1_000_000))
    assert len(made.result) <= 1_000_000
    first, note, text, second, other = result["content"]
    assert text == texts and "to fit" in note["text"] and "block=2" in other["text"]
    assert min(opened(first).size) > 200 and min(opened(second).size) > 200
    assert len(made.originals) == 2


def test_no_room_at_all():
    made, result = fit(
        raw(block(noisy(800)), {"type": "text", "text": "x" * 999_990}), PictureLimits(of_result=1_000_000)
    )
    note = result["content"][0]
    assert note["type"] == "text" and "is not shown: there is room for" in note["text"]
    assert made.originals


BROKEN = {
    "truncated": (lambda: noisy(400)[:100_000], "broken"),
    "cut-in-its-head": (lambda: drawn(400, 400)[:70], "broken"),
    "rubbish": (lambda: b"\x89PNG\r\n\x1a\n" + NOISE[:500], "broken"),
    "bomb": (lambda: bomb(10_000, 10_000), "10,000 x 10,000 px are more than 89 million"),
    "short-of-data": (lambda: bomb(3000, 3000), "broken"),
}


@pytest.mark.parametrize(("draw", "why"), BROKEN.values(), ids=BROKEN)
async def test_what_cannot_be_shown_is_said_and_kept(views, draw, why):
    result = await shown(views, raw(block(draw()), {"type": "text", "text": "after"}))
    note, after = result["content"]
    assert note["type"] == "text" and why in note["text"]
    assert after["text"] == "after"
    address = read_address(note["text"][note["text"].rindex("mcpx://") :].split('"')[0])
    kept = await views.read(address, ME)
    assert kept.content == [block(draw())]


ODD = [
    {**block(b""), "data": "?" * 200},
    {**block(b""), "data": 5},
    {"type": "image"},
    {"type": "image", "data": "A" * 99, "mimeType": [1]},
    {"type": "resource", "resource": {"uri": "a:b", "blob": 5, "mimeType": "image/png"}},
    {"type": "resource", "resource": ["image"]},
    {"type": ["image"], "data": "A" * 99},
]


@pytest.mark.parametrize("given", ODD, ids=range(len(ODD)))
async def test_what_is_no_picture_passes_as_it_came(views, given):
    made, result = fit(raw(given, block(drawn(2001, 1))))
    assert result["content"][0] == given
    assert len(made.originals) == 1
    assert (await shown(views, raw(given)))["content"] == [given]


def test_members_that_nobody_knows_are_the_bytes_that_came():
    odd = b'"z":{"b":1e400,"f":1' + b"0" * 30 + b',"a":null},"":"\\u2028"'
    shape = b'{"content":[{"type":"image","mimeType":"image/png",%s,"data":"%s"}],%s}'
    data = base64.b64encode(drawn(2100, 3))
    made, _ = fit(msgspec.Raw(shape % (odd, data, odd)))
    assert made.result.count(odd) == 2


def test_json_that_is_no_result():
    job = msgspec.msgpack.encode(FitJob(USUAL, "abcd", as_resource=False))
    for given in (b"[1]", b'{"content":5,"image":1}', b'{"content":[5,null,"image"]}', b"{"):
        answer = fit_task(memoryview(len(job).to_bytes(4) + job + given))
        assert msgspec.msgpack.decode(answer) == [None, []]


async def test_the_original_is_read_by_its_address_and_by_nobody_else(views):
    one, two = drawn(2400, 5), drawn(5, 2500, "JPEG")
    result = await shown(views, raw(block(one), block(two, "image/jpeg")))
    notes = [each["text"] for each in result["content"] if each["type"] == "text"]
    addresses = [read_address(each[each.rindex("mcpx://") :].split('"')[0]) for each in notes]
    assert [(await views.read(each, ME)).content for each in addresses] == [
        [block(one)],
        [block(two, "image/jpeg")],
    ]
    assert not views.has(addresses[0], ClientId())


async def test_who_is_asked(pool):
    large = raw(block(drawn(3000, 3000)))
    assert len((await shown(views_of(pool), large))["content"]) == 2
    assert (await shown(views_of(pool, fit_images="never"), large))["content"] == [block(drawn(3000, 3000))]
    native = {"rest_as_resource": True}
    assert len((await shown(views_of(pool), large, "somebody", **native))["content"]) == 1
    fits = (await shown(views_of(pool), large, "claude-code", **native))["content"]
    assert "read the resource mcpx://result/" in fits[1]["text"]


async def test_a_resource(views):
    item = {"uri": "a:b", "mimeType": "image/png", "blob": base64.b64encode(drawn(4000, 20)).decode()}
    request = Read("s", "a:b", RequestContext(client=ME))
    made = ResultEncoder.for_client(views, None, None).resource(raw(item, key="contents"), request)
    with anyio.fail_after(50):
        content = json.loads(b"".join(await made))["content"]
    assert [each["type"] for each in content] == ["image", "text"]
    assert opened(content[0]).size == (2000, 10)


async def test_an_embedded_resource():
    inner = {"uri": "a:b", "mimeType": "image/png", "blob": base64.b64encode(drawn(4000, 20)).decode()}
    _, result = fit(raw({"type": "resource", "resource": inner}))
    blob = result["content"][0]["resource"]["blob"]
    assert opened({"data": blob}).size == (2000, 10)


async def test_a_picture_that_the_worker_does_not_survive(views, monkeypatch):
    monkeypatch.setattr("mcpx.core.calls.results.large.PICTURES_DEADLINE_S", 0.01)
    result = await shown(views, raw(block(noisy(2600)), {"type": "text", "text": "after"}))
    assert [each["type"] for each in result["content"]] == ["text", "text"]
    assert "it takes too long, or too much memory" in result["content"][0]["text"]


async def test_text_that_mentions_an_image_is_not_sent_to_a_worker(views, pool):
    result = await shown(views, raw({"type": "text", "text": "an image/png of 9,000 px"}))
    assert result["content"][0]["text"] == "an image/png of 9,000 px"
    assert not pool.workers


def test_nine_thousand_by_nine_thousand_in_bounded_time():
    begun = time.monotonic()
    _, result = fit(raw(block(drawn(9000, 9000))))
    assert opened(result["content"][0]).size == (2000, 2000)
    assert time.monotonic() - begun < 20  # a hang; 2 s on a quiet machine
