"""Servers are added, edited, renamed, switched and taken out on the page: shown first, made, undone."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from tests.live.page.houses import PageHouse, open_house
from tests.live.page.visits import Visit

if TYPE_CHECKING:
    from playwright.async_api import Locator

pytestmark = [pytest.mark.anyio, pytest.mark.live]
MADE_MS = 45_000
"""Within this an edit is made, and what the daemon made of it is said: two commands, and a server's start."""
SECRET = "hunter2hunter2"


@pytest.fixture(scope="module")
def house() -> Iterator[PageHouse]:
    with open_house() as house:
        house.begin({})
        yield house


def servers(house: PageHouse) -> dict[str, Any]:
    """The servers of the file."""
    return dict(json.loads((house.folder / "config.json").read_text("utf-8"))["mcpServers"])


def command(house: PageHouse) -> list[str]:
    """The command line of the server `shown`."""
    return [house.shown["command"], *house.shown["args"]]


async def made(visit: Visit, yes: str, said: str) -> Locator:
    """Confirm the edit that is shown; the dialog, which says what came of it."""
    dialog = visit.page.get_by_role("dialog")
    await expect(dialog.get_by_role("group", name="What changes in the configuration")).to_be_visible(
        timeout=MADE_MS
    )
    assert not await visit.violations()
    assert SECRET not in await dialog.inner_text()
    await dialog.get_by_role("button", name=yes, exact=True).click()
    await expect(dialog.get_by_role("status")).to_contain_text(said, timeout=MADE_MS)
    return dialog


async def test_one_is_added_where_there_is_none(visit: Visit, house: PageHouse) -> None:
    page = visit.page
    before = (house.folder / "config.json").read_text("utf-8")
    await visit.go("")
    await page.get_by_role("link", name="add a server", exact=True).click()
    form = page.get_by_role("form", name="Add a server")
    await form.get_by_label("Name", exact=True).fill("errands")
    await form.get_by_label("Command or address").fill(shlex.join(command(house)))
    await form.get_by_label("Environment variables").fill(f"API_KEY={SECRET}\nHOME")
    await form.get_by_role("button", name="Preview the change").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text('"API_KEY": "***"', timeout=MADE_MS)
    await dialog.get_by_role("button", name="Cancel").click()
    assert (house.folder / "config.json").read_text("utf-8") == before
    await form.get_by_role("button", name="Preview the change").click()
    dialog = await made(visit, "Add", "Now: ready")
    assert house.server("errands")["state"] == "ready"
    assert servers(house)["errands"] == {
        "command": house.shown["command"],
        "args": house.shown["args"],
        "env": {"API_KEY": SECRET, "HOME": "${HOME}"},
    }
    await dialog.get_by_role("button", name="Close").click()
    await expect(page.get_by_role("heading", name="errands", exact=True)).to_be_visible()
    await expect(page.get_by_role("link", name="echo")).to_be_visible()


async def test_it_is_edited_renamed_and_taken_out_and_that_is_undone(visit: Visit, house: PageHouse) -> None:
    page = visit.page
    await visit.go("servers/errands/entry")
    text = page.get_by_label("The entry in the configuration")
    await expect(text).to_have_value(re.compile(re.escape('"API_KEY": "***"')))
    assert SECRET not in await page.content()
    await text.fill((await text.input_value()).replace('"${HOME}"', '"/somewhere"'))
    await page.get_by_role("button", name="Preview the change").click()
    dialog = await made(visit, "Write it", "Now: ready")
    assert servers(house)["errands"]["env"] == {"API_KEY": SECRET, "HOME": "/somewhere"}
    await dialog.get_by_role("button", name="Close").click()
    await text.fill('{"command": ')
    await page.get_by_role("button", name="Preview the change").click()
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("JSON:1", timeout=MADE_MS)
    await page.keyboard.press("Escape")

    await page.get_by_role("form", name="Name").get_by_label("Name", exact=True).fill("chores")
    await page.get_by_role("button", name="Preview the new name").click()
    dialog = await made(visit, "Rename", "Now: ready")
    await dialog.get_by_role("button", name="Close").click()
    await expect(page.get_by_role("heading", name="chores", exact=True)).to_be_visible()
    assert house.server("chores")["state"] == "ready"
    assert house.run("exec", "errands", "echo", '{"text": "by its old name"}').returncode == 0

    await page.get_by_role("button", name="Remove").click()
    dialog = await made(visit, "Remove", "It is taken out.")
    assert servers(house) == {}
    await dialog.get_by_role("link", name="Undo").click()
    await page.get_by_role("button", name="Take back").click()
    await page.get_by_role("dialog").get_by_role("button", name="Take back").click()
    await expect(page.get_by_text("was taken back")).to_be_visible(timeout=MADE_MS)
    assert list(servers(house)) == ["chores"]


async def test_what_is_missing_is_set_from_the_row_of_the_fault(visit: Visit, house: PageHouse) -> None:
    page = visit.page
    lacking = house.shown | {"env": {"KEY": "key ${NO_SUCH_KEY}", "OTHER": "${HOME}"}}
    house.write({"key": lacking})
    assert house.run("reload").returncode == 0
    await visit.go("")
    await page.get_by_role("region", name="Faults").get_by_role("link", name="Set NO_SUCH_KEY: key").click()
    form = page.get_by_role("form", name="What is missing")
    await form.get_by_label("NO_SUCH_KEY").fill(SECRET)
    await form.get_by_role("button", name="Preview the change").click()
    dialog = await made(visit, "Write it", "Now: ready")
    assert servers(house)["key"]["env"] == {"KEY": f"key {SECRET}", "OTHER": "${HOME}"}
    await dialog.get_by_role("button", name="Close").click()
    await expect(form).to_have_count(0)


async def test_what_does_not_start_is_not_called_a_success(visit: Visit) -> None:
    page = visit.page
    await visit.go("setup/add")
    form = page.get_by_role("form", name="Add a server")
    await form.get_by_label("Name", exact=True).fill("gone")
    await form.get_by_label("Command or address").fill("no-such-command-anywhere")
    await form.get_by_role("button", name="Preview the change").click()
    dialog = await made(visit, "Add", "command not found")
    await expect(dialog.get_by_role("status")).to_have_class(re.compile("tone-ask"))
