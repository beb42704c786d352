"""Large results, which workers shape: the same answers as on the event loop, pages, and what goes wrong."""

from __future__ import annotations

import json

import anyio
import msgspec
import pytest

from mcpx.core.calls.results import large
from mcpx.core.calls.results.kept import KeptResults
from mcpx.core.calls.results.shaping import ResultRenderer
from mcpx.core.calls.results.views import ResultViews
from mcpx.core.config import Config, ServerConfig
from mcpx.core.config.server_config import Stdio
from mcpx.core.gateway.tools.encoding import ResultEncoder
from mcpx.core.protocol.context import ClientId
from mcpx.core.protocol.messages import Exec
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.protocol.result_address import read_address
from mcpx.core.wire import envelope
from mcpx.core.wire.intake import INTAKE, LARGE_BYTES, LargeMessage, Reader
from mcpx.core.wire.malformed import Mender
from mcpx.core.wire.workers.pool import WorkerPool
from mcpx.errors import CallError

pytestmark = pytest.mark.anyio
ME = ClientId()
LINES = "".join(f"line {n}\n" for n in range(300_000))
ROWS = json.dumps({"rows": [{"n": n, "text": "t" * 40} for n in range(40_000)]})


@pytest.fixture
async def pool():
    made = WorkerPool()
    yield made
    made.close()


@pytest.fixture
def views(pool):
    server = ServerConfig(name="s", transport=Stdio(command="x"))
    return ResultViews(ResultRenderer(Config(source="test", servers={"s": server})), {}, pool)


def raw(*blocks, **members):
    content = [each if isinstance(each, dict) else {"type": "text", "text": each} for each in blocks]
    made = msgspec.Raw(json.dumps({"content": content, **members}).encode())
    assert len(made) > LARGE_BYTES
    return made


async def shown(views, result, **options):
    request = Exec("s", "t", b"", RequestContext(client=ME), **options)
    with anyio.fail_after(50):
        pieces = await ResultEncoder(views, structured=True).tool(result, request)
    return json.loads(b"".join(pieces))


def address_in(text):
    return read_address(text[text.rindex("mcpx://") :].removesuffix('")'))


async def read_on(views, text):
    with anyio.fail_after(50):
        page = await views.read(address_in(text), ME)
    return page.content[0]["text"]


@pytest.mark.parametrize("text", [LINES, ROWS], ids=["lines", "rows"])
async def test_its_pages_are_those_of_the_event_loop(views, pool, text, monkeypatch):
    first = (await shown(views, raw(text)))["content"][0]["text"]
    second = await read_on(views, first)
    assert pool.workers or views.kept.size > LARGE_BYTES
    monkeypatch.setattr("mcpx.core.gateway.tools.encoding.LARGE_BYTES", 1 << 30)
    views.kept = views.large._kept = KeptResults()
    request = Exec("s", "t", b"", RequestContext(client=ME))
    pieces = ResultEncoder(views, structured=True).tool(raw(text), request)
    there = json.loads(b"".join(pieces))["content"][0]["text"]
    without_address = first[: first.rindex("mcpx://")]
    assert there[: there.rindex("mcpx://")] == without_address
    assert second[:1000] == (await read_on(views, there))[:1000]


async def test_what_need_not_change_is_the_bytes_that_came(views):
    image = {"type": "image", "data": "aGk=" * 800_000, "mimeType": "image/png"}
    given = raw(image)
    request = Exec("s", "t", b"", RequestContext(client=ME))
    with anyio.fail_after(50):
        pieces = await ResultEncoder(views, structured=True).tool(given, request)
    largest = max(pieces, key=len)
    assert isinstance(largest, memoryview)
    assert largest.obj is memoryview(given).obj
    assert json.loads(b"".join(pieces)) == {"content": [image], "isError": False}


async def test_a_part_is_selected_from_it_and_from_what_is_kept(views):
    given = raw("see there", structuredContent=json.loads(ROWS))
    found = await shown(views, given, select="rows[-1].n")
    assert found["structuredContent"] == {"result": 39_999}
    first = await shown(views, raw(ROWS))
    text = first["content"][0]["text"]
    address = msgspec.structs.replace(address_in(text), select="rows[7].n", start=0, block=1)
    with anyio.fail_after(50):
        assert (await views.read(address, ME)).content[0]["text"] == "7"
    nothing = await shown(views, given, select="nope")
    assert "do not repeat" in nothing["content"][0]["text"]
    with anyio.fail_after(50):
        again = await views.read(read_address(f"mcpx://result/{_id_in(nothing)}?select=rows[3].n"), ME)
    assert again.content[0]["text"] == "3"


def _id_in(result):
    return result["content"][0]["text"].rpartition("mcpx://result/")[2].partition("?")[0]


async def test_one_that_takes_too_long_fails_by_itself(views, monkeypatch):
    monkeypatch.setattr(large, "DEADLINE_S", 0.001)
    with pytest.raises(CallError) as failed:
        await shown(views, raw(LINES))
    assert failed.value.code == "response_too_large"
    text = (await shown(views, raw(ROWS), select="rows[0].n"))["content"][0]["text"]
    monkeypatch.undo()
    assert "select failed: it took over 0.001 s" in text
    with anyio.fail_after(50):
        again = await views.read(read_address(f"mcpx://result/{_id_of(text)}?select=rows[3].n"), ME)
    assert again.content[0]["text"] == "3"


def _id_of(text):
    return text.rpartition("mcpx://result/")[2].partition("?")[0]


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (b'{"content":[' + b'{"type":"text","text":"x"},' * 100_000, "protocol_error"),
        (b'{"content":[' + b'{"type":"text","text":"x"},' * 100_000 + b"{}]}", "response_too_large"),
        (b"[" * 3_000_000, "protocol_error"),
    ],
    ids=["cut off", "100,000 blocks", "brackets"],
)
async def test_one_that_cannot_be_shown_says_why_and_is_let_go_of(views, result, code):
    with pytest.raises(CallError) as failed:
        await shown(views, msgspec.Raw(result))
    assert failed.value.code == code
    assert not views.kept.size


# --- without a worker: what passes as it came


def as_it_comes(result):
    """The same result as a server's message carries it."""
    message = LargeMessage(Reader(), Mender())
    line = b'{"jsonrpc":"2.0","id":1,"result":%b}' % bytes(result)
    for at in range(0, len(line), 1 << 16):
        message.add(line[at : at + (1 << 16)])
    message.end()
    carried = envelope.split_large(message).result
    INTAKE.carries(message, carried)
    return carried


PICTURE = {"type": "audio", "data": "QUJD" * 600_000, "mimeType": "audio/wav"}
LINK = {"type": "resource", "resource": {"uri": "x:///y", "text": LINES}}
PASSING = {
    "text": raw(LINES),
    "texts": raw(LINES, "short", LINES, isError=True),
    "structured": raw(LINES, structuredContent={"rows": [1, 2], "text": LINES}, _meta={"a": {"b": LINES}}),
    "audio": raw("short", PICTURE, note="x" * 5000),
    "resource": raw(LINK),
}


@pytest.mark.parametrize("result", PASSING.values(), ids=PASSING)
@pytest.mark.parametrize("structured", [True, False])
async def test_what_passes_needs_no_worker_and_is_what_a_worker_makes(views, pool, result, structured):
    request = Exec("s", "t", b"", RequestContext(client=ME), max_tokens=0)
    encoder = ResultEncoder(views, structured=structured)
    passed = encoder.tool(as_it_comes(result), request)
    assert not pool.workers
    with anyio.fail_after(50):
        made = await encoder.tool(result, request)
    assert b"".join(passed) == b"".join(made)
    assert passed.cost == made.cost


async def test_audio_beside_a_text_that_is_cut_needs_no_worker(views, pool):
    result = as_it_comes(raw("".join(f"row {n}\n" for n in range(120)), PICTURE))
    request = Exec("s", "t", b"", RequestContext(client=ME), max_tokens=80)
    made = ResultEncoder(views, structured=True).tool(result, request)
    text, audio = json.loads(b"".join(made))["content"]
    assert audio == PICTURE
    assert "row 119" in await read_on(views, text["text"])
    assert not pool.workers


@pytest.mark.parametrize(
    ("result", "options"),
    [
        (raw(LINES), {}),
        (raw(structuredContent={"text": LINES}), {"max_tokens": 0}),
        (raw(ROWS), {"select": "rows[0].n"}),
    ],
    ids=["a text that is cut", "structured content in the place of a text", "a part"],
)
async def test_what_has_to_be_read_goes_to_a_worker(views, pool, result, options):
    told = await shown(views, as_it_comes(result), **options)
    assert pool.workers
    again = await shown(views, result, **options)
    texts = [each["content"][0]["text"].partition("mcpx://")[0] for each in (told, again)]
    assert texts[0] == texts[1]


async def test_a_worker_is_there_for_the_next_large_result(views, pool):
    await shown(views, raw(LINES))
    (worker,) = (each for each in pool.workers if each.is_ready)
    await shown(views, raw(LINES))
    assert worker in pool.workers
