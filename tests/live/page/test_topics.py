"""What a view shows of its topic: all there is, and when that was true once no more news come."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import expect

from tests.live.page.houses import PageHouse
from tests.live.page.visits import Visit

pytestmark = [pytest.mark.anyio, pytest.mark.live]
LISTED = {
    "": ("overview", ".overview"),
    "calls": ("calls", "table"),
    "model": ("model", "[aria-labelledby=model-clients]"),
    "setup": ("setup", "[aria-labelledby=setup-text]"),
    "servers/shown": ("server:shown", "[aria-label=Figures]"),
    "servers/shown/log": ("log:shown", "[role=log]"),
}
"""By place: the topic that its view follows, and a part of what that shows."""
OTHER = {"": "calls", "servers/shown/log": "servers/shown"}
KEEP_STREAM = """() => {
    const own = EventTarget.prototype.addEventListener;
    EventSource.prototype.addEventListener = function (...given) {
        window.stream = this;
        return own.apply(this, given);
    };
}"""
FAIL = "(failed) => stream.dispatchEvent(new MessageEvent('failed', {data: failed}))"


async def shown(visit: Visit, place: str) -> None:
    """All that the view of that place shows of its topics is there."""
    await expect(visit.page.locator(".loading, .curves[aria-busy]")).to_have_count(0)
    await expect(visit.page.locator(LISTED[place][1]).first).to_be_visible()


@pytest.mark.parametrize("place", LISTED)
async def test_a_view_that_is_left_and_opened_again_between_two_frames_shows_all_there_is(
    visit: Visit, house: PageHouse, place: str
) -> None:
    assert house.run("exec", "shown", "echo", '{"text": "x"}').returncode == 0
    await visit.go(place)
    await shown(visit, place)
    await visit.hop(OTHER.get(place, ""), place)
    await shown(visit, place)


@pytest.mark.parametrize(
    ("place", "topic"), [*((place, topic) for place, (topic, _) in LISTED.items()), ("", "history")]
)
async def test_what_is_shown_of_a_topic_that_failed_is_said_to_be_no_longer_current(
    visit: Visit, house: PageHouse, place: str, topic: str
) -> None:
    page = visit.page
    assert house.run("exec", "shown", "echo", '{"text": "x"}').returncode == 0
    await page.evaluate(KEEP_STREAM)
    await visit.go(OTHER.get(place, ""))
    await visit.go(place)
    await shown(visit, place)
    await page.evaluate(FAIL, json.dumps({"topic": topic, "error": "a fault of its own"}))
    alert = page.get_by_role("alert").filter(has_text="This is no longer current. The last news came at ")
    await expect(alert).to_contain_text("a fault of its own")
    await shown(visit, place)
    assert not await visit.violations()
    await alert.get_by_role("button", name="Try again").click()
    await expect(alert).to_have_count(0)
    await shown(visit, place)


async def test_a_server_that_is_taken_out_is_said_to_be_gone_beside_how_it_was(
    visit: Visit, house: PageHouse
) -> None:
    house.begin({"shown": house.shown, "leaves": house.shown})
    await visit.go("servers/leaves")
    figures = visit.page.get_by_role("region", name="Figures")
    await expect(figures).to_be_visible()
    house.begin()
    alert = visit.page.get_by_role("alert").filter(has_text="This is no longer current.")
    await expect(alert).to_contain_text("leaves")
    await expect(figures).to_be_visible()
