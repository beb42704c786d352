"""What a model gets of a result: limits, pages, the last line, and what `select` takes."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import msgspec
import pytest

from mcpx.core.calls.results.kept import KeptResults
from mcpx.core.calls.results.parts import check_expression, selectable
from mcpx.core.calls.results.shaping import ResultRenderer
from mcpx.core.calls.results.views import CLAIM, ResultViews
from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.config import Config, ServerConfig
from mcpx.core.config.server_config import Stdio
from mcpx.core.protocol.context import ClientId
from mcpx.core.protocol.messages import Exec, Read
from mcpx.core.protocol.result_address import read_address
from mcpx.core.rendering.results import ToolResult
from mcpx.core.wire.workers.pool import WorkerPool
from mcpx.errors import CallError, Code
from tests.tokens import count

pytestmark = pytest.mark.anyio
LAST_LINE = re.compile(r'\n(\d+) more (\w+)(?:, then (\d+) more texts?)?: resources\("mcpx", "([^"]+)"\)$')
IMAGE = {"type": "image", "data": "aGk=" * 20_000, "mimeType": "image/png"}
ME = ClientId()
POOLS: list[WorkerPool] = []


@pytest.fixture(autouse=True)
async def no_process_is_left():
    yield
    while POOLS:
        POOLS.pop().close()


def views_with(*, budget=8000, claim=None):
    server = ServerConfig(name="s", transport=Stdio(command="x"), result_token_budget=budget)
    tool = ToolInfo(server_name="s", name="t", input_schema={}, meta=claim and {CLAIM: claim})
    upstream = SimpleNamespace(catalogue=Catalogue(generation=1, tools={"t": tool}))
    POOLS.append(WorkerPool())
    return ResultViews(
        ResultRenderer(Config(source="test", servers={"s": server})), {"s": upstream}, POOLS[-1]
    )


def call(**options):
    return Exec("s", "t", b"", **options)


def raw(*texts, **members):
    blocks = [each if isinstance(each, dict) else {"type": "text", "text": each} for each in texts]
    return msgspec.Raw(json.dumps({"content": blocks, **members}).encode())


def plain(value):
    """A part of a result that was not read further than it must be, read."""
    return msgspec.json.decode(msgspec.json.encode(value))


def shown(result: ToolResult) -> str:
    return "\n".join(block["text"] for block in result.content if "text" in block)


def table(rows):
    return json.dumps({"total": rows, "items": [{"id": n, "name": f"row {n};"} for n in range(rows)]})


def lines(count_):
    return "\n".join(f"line {n}; and some words" for n in range(count_))


async def all_pages(views, first: ToolResult, client=ME):
    """The texts of all pages, without their last lines; a page that adds nothing would never end."""
    texts, text = [], shown(first)
    while found := LAST_LINE.search(text):
        texts.append(text[: found.start()])
        text = shown(await views.read(read_address(found[4]), client))
        assert len(texts) < 2000
    return [*texts, text]


async def test_what_is_within_its_budget_is_what_it_was():
    views = views_with()
    result = raw(table(20), IMAGE)
    assert views.result(result, call(), ME) == views.results.tool(result, server="s")[1]
    assert views.kept.size == 0


@pytest.mark.parametrize(
    ("text", "unit", "mark"),
    [
        (table(20_000), "rows", r"row (\d+);"),
        (table(3000).replace(", ", ",\n  "), "rows", r"row (\d+);"),
        (lines(20_000), "lines", r"line (\d+);"),
    ],
    ids=["table", "pretty", "lines"],
)
async def test_every_row_can_be_read_by_following_the_last_lines(text, unit, mark):
    views = views_with()
    first = views.result(raw(text), call(), ME)
    left, said_unit, _, address = LAST_LINE.search(shown(first)).groups()
    pages = await all_pages(views, first)
    numbers = [int(number) for page in pages for number in re.findall(mark, page)]
    assert numbers == list(range(len(re.findall(mark, text))))
    start = len(re.findall(mark, pages[0]))
    assert (int(left), said_unit) == (len(numbers) - start, unit)
    assert re.fullmatch(rf"mcpx://result/[0-9a-f]{{4}}\?from={start}", address)
    assert max(count(pages)["o200k_base"]) <= 8000


async def test_images_are_neither_cut_nor_counted():
    result = views_with(budget=100).result(raw(IMAGE, "short", IMAGE), call(), ME)
    assert plain(result.content) == [IMAGE, {"type": "text", "text": "short"}, IMAGE]


async def test_several_texts_are_shown_in_order_and_all_can_be_read():
    views = views_with(budget=300)
    result = views.result(raw(lines(100), IMAGE, "between", IMAGE, table(60), "the end"), call(), ME)
    assert [block["type"] for block in result.content] == ["text", "image", "image"]
    assert re.search(r"\n\d+ more lines, then 3 more texts: ", result.content[0]["text"])
    pages = "\n".join(await all_pages(views, result))
    assert [int(n) for n in re.findall(r"line (\d+);", pages)] == list(range(100))
    assert [int(n) for n in re.findall(r"row (\d+);", pages)] == list(range(60))
    assert "between" in pages
    assert pages.endswith("the end")


async def test_the_text_of_an_embedded_resource_is_cut_in_its_place():
    block = {"type": "resource", "resource": {"uri": "a:b", "mimeType": "text/plain", "text": lines(1000)}}
    result = views_with(budget=300).result(raw(block), call(), ME)
    inner = result.content[0]["resource"]
    assert inner["uri"] == "a:b"
    assert LAST_LINE.search(inner["text"])


async def test_errors_of_tools_are_cut_too():
    result = views_with(budget=300).result(raw(lines(1000), isError=True), call(), ME)
    assert result.is_error
    assert LAST_LINE.search(shown(result))


async def test_what_the_call_asks_for_goes_before_the_claim_and_that_before_the_budget():
    text = lines(2000)
    sizes = {}
    for name, views, options in [
        ("budget", views_with(budget=1000), {}),
        ("less", views_with(budget=1000), {"max_tokens": 200}),
        ("all", views_with(budget=1000), {"max_tokens": 0}),
        ("off", views_with(budget=0), {}),
        ("claim", views_with(budget=1000, claim=1500), {}),
        ("more", views_with(budget=1000, claim=300_000), {}),
        ("over claim", views_with(budget=1000, claim=1500), {"max_tokens": 4000}),
    ]:
        sizes[name] = len(shown(views.result(raw(text), call(**options), ME)))
    assert sizes["all"] == sizes["off"] == sizes["more"] == len(text)
    assert sizes["less"] < sizes["claim"] <= 1500 < sizes["budget"] < sizes["over claim"] < len(text)


@pytest.mark.parametrize("claim", [0, -5, True, "500", 2.5, None])
async def test_a_claim_that_is_no_number_of_characters_claims_nothing(claim):
    assert LAST_LINE.search(shown(views_with(budget=500, claim=claim).result(raw(lines(500)), call(), ME)))


async def test_a_client_that_asked_for_little_reads_on_at_the_usual_budget():
    views = views_with(budget=2000)
    first = views.result(raw(lines(1000)), call(max_tokens=100), ME)
    second = await views.read(read_address(LAST_LINE.search(shown(first))[4]), ME)
    assert len(shown(second)) > 5 * len(shown(first))


async def test_a_resource_is_cut_as_well():
    views = views_with(budget=300)
    result = msgspec.Raw(json.dumps({"contents": [{"uri": "a:b", "text": lines(300)}]}).encode())
    pages = await all_pages(views, views.result(result, Read("s", "a:b"), ME))
    assert [int(n) for page in pages for n in re.findall(r"line (\d+);", page)] == list(range(300))


async def test_a_result_without_content_is_cut_as_its_structured_content():
    views = views_with(budget=300)
    first = views.result(raw(structuredContent=json.loads(table(200))), call(), ME)
    assert plain(first.structured_content)["total"] == 200
    pages = await all_pages(views, first)
    assert [int(n) for page in pages for n in re.findall(r"row (\d+);", page)] == list(range(200))


@pytest.mark.parametrize("text", ["see the data", table(3)])
async def test_structured_content_that_the_model_is_shown_has_the_same_limit(text):
    views = views_with(budget=300)
    small = raw(text, structuredContent={"a": 1})
    within = views.result(small, call(), ME, structured_is_shown=True)
    assert plain(within.structured_content) == {"a": 1}
    large = raw(text, structuredContent=json.loads(table(400)))
    assert views.result(large, call(), ME).structured_content is not None
    result = views.result(large, call(), ME, structured_is_shown=True)
    assert result.structured_content is None
    if text == "see the data":  # else it is the same data, as text
        pages = await all_pages(views, result)
        assert [int(n) for page in pages for n in re.findall(r"row (\d+);", page)] == list(range(400))


async def test_what_is_too_large_to_be_kept_says_so():
    views = views_with(budget=300)
    views.kept = KeptResults(max_bytes=2000)
    text = shown(views.result(raw(lines(300)), call(), ME))
    assert re.search(
        r"\n\d+ more lines, not kept \(over 64 MB\): call again with select or max_tokens$", text
    )


@pytest.mark.parametrize(
    ("uri", "code", "says"),
    [
        ("mcpx://result/0000", Code.UNKNOWN_RESOURCE, "kept for 60 minutes"),
        ("{}?from=300", Code.INVALID_ARGUMENTS, "300 lines, counted from 0, and from=300"),
        ("{}?block=2", Code.INVALID_ARGUMENTS, "block 2"),
        ("{}?select=items[", Code.INVALID_ARGUMENTS, "it is not complete"),
    ],
)
async def test_what_cannot_be_read_is_explained(uri, code, says):
    views = views_with(budget=300)
    first = LAST_LINE.search(shown(views.result(raw(lines(300)), call(), ME)))[4]
    with pytest.raises(CallError) as refused:
        await views.read(read_address(uri.format(first.partition("?")[0])), ME)
    assert (refused.value.code, says in str(refused.value)) == (code, True)


async def test_nobody_reads_the_results_of_another_client():
    views = views_with(budget=300)
    first = LAST_LINE.search(shown(views.result(raw(lines(300)), call(), ME)))[4]
    with pytest.raises(CallError):
        await views.read(read_address(first), ClientId())


async def test_a_count_ends_the_page():
    views = views_with(budget=300)
    address = LAST_LINE.search(shown(views.result(raw(lines(300)), call(), ME)))[4].partition("?")[0]
    text = shown(await views.read(read_address(f"{address}?from=7&count=2"), ME))
    assert re.findall(r"line (\d+);", text) == ["7", "8"]
    assert f'291 more lines: resources("mcpx", "{address}?from=9")' in text


# --- select


async def selected(views, result, expression, **options):
    request = call(select=expression, **options)
    check_expression(expression, server="s")
    return await views.project(selectable(result, server="s"), request, ME)


async def test_the_answer_is_the_selected_part_alone():
    result = await selected(views_with(), raw(table(20), IMAGE), "items[?id == `3`].id")
    assert result.content == [{"type": "text", "text": "[3]"}]
    assert result.structured_content == {"result": [3]}
    one = await selected(views_with(), raw(table(20)), "items[0].name")
    assert (shown(one), one.structured_content) == ("row 0;", {"result": "row 0;"})


async def test_structured_content_is_selected_from_first():
    result = raw("see there", structuredContent={"items": [{"id": 5}]})
    assert shown(await selected(views_with(), result, "items[0].id")) == "5"


async def test_a_part_over_its_budget_is_cut_and_kept():
    views = views_with(budget=300)
    first = await selected(views, raw(table(5000)), "items[].name")
    assert LAST_LINE.search(shown(first))
    pages = await all_pages(views, first)
    assert [int(n) for page in pages for n in re.findall(r"row (\d+);", page)] == list(range(5000))


@pytest.mark.parametrize("expression", ["itemz", "sort_by(items, &nope)", "items[].nope"])
async def test_a_result_is_kept_where_nothing_could_be_selected(expression):
    views = views_with()
    result = await selected(views, raw(table(20)), expression)
    text = shown(result)
    assert result.is_error is expression.startswith("sort_by")
    assert "For example: items[].{id: id, name: name}" in text
    assert "The call was carried out: do not repeat it." in text
    address = re.search(r'resources\("mcpx", "(mcpx://result/\w{4})\?select=\.\.\."\)$', text)[1]
    again = await views.read(read_address(f"{address}?select=items[3].name"), ME)
    assert shown(again) == "row 3;"


async def test_what_is_no_json_is_kept_as_well():
    views = views_with()
    result = await selected(views, raw("plain"), "a")
    assert "holds no JSON" in shown(result)
    address = re.search(r"mcpx://result/\w{4}", shown(result))[0]
    assert shown(await views.read(read_address(address), ME)) == "plain"


async def test_an_error_of_the_tool_is_not_selected_from():
    assert selectable(raw('{"a": 1}', isError=True), server="s") is None


async def test_a_wrong_expression_is_refused_before_anything_is_sent():
    with pytest.raises(CallError) as refused:
        check_expression("items[?a = 1]", server="s", tool="t")
    assert (refused.value.code, refused.value.outcome) == (Code.INVALID_ARGUMENTS, "not_sent")
    assert "equality is written ==, at character 10:\nitems[?a = 1]\n         ^\nFor example" in str(
        refused.value
    )
