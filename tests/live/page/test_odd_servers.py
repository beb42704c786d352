"""What servers offer and answer to harm who looks at it: the page stays quick, whole, and of use."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from tests.live.page.houses import open_house
from tests.live.page.visits import Visit, visiting
from tests.mcpx.scripted import entry_of

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = [pytest.mark.anyio, pytest.mark.live]
SOON_S = (
    6.0  # until a view stands, on a machine that has other things to do; for ever, where this is not held
)
AGAIN = {"$ref": "#/$defs/A"}
ODD_WORD = {"toString": 1, "valueOf": None, "type": "img", "props": {"src": "x"}, "__proto__": None}


def members(count: int, schema: object) -> dict[str, Any]:
    names = [f"p{number}" for number in range(count)]
    return {"type": "object", "properties": dict.fromkeys(names, schema), "required": names}


def holding(schema: object, defined: object = None) -> dict[str, Any]:
    """A schema with one member that has to be there."""
    whole = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return whole if defined is None else {**whole, "$defs": {"A": defined}}


SCHEMAS: dict[str, dict[str, Any]] = {
    "doubles": holding(AGAIN, {"allOf": [AGAIN] * 10}),
    "is-itself-or-nothing": holding(AGAIN, {"anyOf": [AGAIN, {"type": "null"}]}),
    "is-itself-or-text": holding(AGAIN, {"anyOf": [AGAIN, {"type": "string"}, {"type": "number"}]}),
    "has-a-thousand-forms": holding(AGAIN, {"anyOf": [{"type": "array", "items": AGAIN}] * 1000}),
    "needs-itself-tenfold": holding(AGAIN, members(10, AGAIN)),
    "has-ten-thousand-members": members(10_000, {"type": "string", "description": "One of many"}),
    "has-many-choices": members(400, {"enum": [f"choice {number}" for number in range(450)]}),
    "has-odd-words": holding(
        {
            "type": "string",
            **dict.fromkeys(["title", "description", "format", "minimum", "maxLength", "default"], ODD_WORD),
        }
    ),
    "has-odd-parts": {
        "type": "object",
        "properties": {"a": [], "b": None, "c": {"anyOf": [5, "x", None]}, "d": {"items": [[[]]], "type": 5}},
        "required": [{"toString": 1}],
        "anyOf": [{"required": [ODD_WORD]}],
    },
}
INHERITED = ("__proto__", "constructor", "toString", "hasOwnProperty")


DEEP = "[" * 2000 + "1," * 90_000 + "1" + "]" * 2000
INTEGERS = json.dumps([10**19 + number for number in range(8000)])
RESULTS = {
    name: {"content": [{"type": "text", "text": text}]}
    for name, text in (("deep", DEEP), ("integers", INTEGERS))
}
TOOLS = {
    **SCHEMAS,
    "inherits": {
        "type": "object",
        "properties": {name: {"type": "string"} for name in INHERITED},
        "required": list(INHERITED[:2]),
    },
    **{name: {"type": "object"} for name in RESULTS},
}


@pytest.fixture(scope="module")
async def opened(browser: Browser) -> AsyncIterator[Visit]:
    """A visit to a daemon whose server has these tools."""
    with open_house() as house:
        file = house.folder / "odd.json"
        tools = [{"name": name, "inputSchema": schema} for name, schema in TOOLS.items()]
        answers = {f"tools/call {name}": result for name, result in RESULTS.items()}
        answers["tools/call *"] = "@{given:json}"
        file.write_text(json.dumps({"offers": {"tools": tools}, "answers": answers}), "utf-8")
        house.begin({"odd": entry_of(file)})
        async with visiting(house, browser) as visit:
            yield visit


@pytest.mark.parametrize("name", SCHEMAS)
async def test_a_schema_can_neither_hold_the_page_up_nor_break_it(visit: Visit, name: str) -> None:
    page = visit.page
    began = time.monotonic()
    await visit.go(f"servers/odd/tools/{name}")
    await expect(page.get_by_role("heading", name=name)).to_be_visible()
    await page.get_by_role("button", name="JSON", exact=True).click()
    await page.get_by_label("Arguments as JSON").fill('{"a": 1}')
    await page.get_by_role("button", name="Form", exact=True).click()
    assert time.monotonic() - began < SOON_S
    assert await page.locator("input, textarea, select").count() < 1000
    assert await page.locator("option").count() < 100_000
    assert await page.get_by_text("This cannot be shown").count() == 0


async def test_members_may_have_the_names_of_what_every_object_has(visit: Visit) -> None:
    page = visit.page
    await visit.go("servers/odd/tools/inherits")
    for name in INHERITED:
        field = page.get_by_label(name)
        await expect(field).to_have_value("")
        await field.fill(f"the {name}")
    await page.get_by_role("button", name="Run", exact=True).click()
    said = page.get_by_role("group", name="text", exact=True)
    await expect(said).to_contain_text('"__proto__": "the __proto__"')
    assert json.loads(await said.inner_text()) == {name: f"the {name}" for name in INHERITED}
    assert await page.evaluate("[{}.polluted, Object.keys(Object.prototype).length]") == [None, 0]


@pytest.mark.parametrize(("name", "end"), [("deep", "1]]]]]"), ("integers", "10000000000000007999")])
async def test_a_result_that_would_be_gigabytes_when_laid_out_is_shown_as_it_is(
    visit: Visit, name: str, end: str
) -> None:
    page = visit.page
    began = time.monotonic()
    await visit.go(f"servers/odd/tools/{name}")
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(page.get_by_role("group", name="text", exact=True)).to_contain_text(end)
    assert time.monotonic() - began < SOON_S
