"""What a page hears of everything: cards, clients, problems, and the last hour."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from mcpx.core.events import history
from tests.mcpx.page.signed_in import visiting
from tests.mcpx.scripted import config_of, entry, soon

pytestmark = pytest.mark.anyio
CARD = {
    *("name", "state", "described", "tone", "pid", "transport", "uptime_s", "restarts", "failures", "calls"),
    *(
        "running",
        "ok",
        "cached",
        "failed",
        "refused",
        "cancelled",
        "in_flight",
        "queued",
        "p50_ms",
        "p95_ms",
        "memory_bytes",
        "cpu_share",
        "tokens_direct",
    ),
    *("tokens_spent", "last_error", "next_attempt_in_s", "tools", "resources", "prompts", "changes"),
}


def cards(piece):
    return {card["name"]: card for card in piece.get("servers", ())}


async def test_it_begins_with_everything():
    servers = {"s": entry(), "off": {**entry(), "disabled": True}, "bad": {"command": "true", "args": 3}}
    async with visiting(config_of(servers)) as visitor, visitor.following("overview") as news:
        first = await news.next()
        assert first["order"] == ["s", "off", "bad"]
        assert (first["clients"], first["problems"], "removed" in first) == ([], [], False)
        assert first["daemon"]["pid"] == os.getpid()
        assert {"cpu_share", "memory_bytes", "uptime_s", "version", "tokens"} <= first["daemon"].keys()
        shown = cards(first)
        assert shown["s"].keys() == CARD
        assert {name: card["tone"] for name, card in shown.items()} == {
            "s": "good",
            "off": "off",
            "bad": "bad",
        }
        assert shown["bad"]["described"].startswith("invalid: ")


async def test_a_death_is_news_at_once_and_so_is_the_return():
    async with visiting(config_of({"s": entry(), "t": entry()})) as visitor:
        async with visitor.following("overview") as news:
            pid = cards(await news.next())["s"]["pid"]
            began = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            died = await news.until(
                lambda piece: "SIGKILL" in str(cards(piece).get("s", {}).get("last_error"))
            )
            assert time.monotonic() - began < 1.0
            is_back = lambda piece: cards(piece).get("s", {}).get("restarts") == 1  # noqa: E731
            back = died if is_back(died) else await news.until(is_back)
            assert cards(back)["s"]["pid"] not in {None, pid}
        assert all("t" not in cards(piece) or cards(piece)["t"]["pid"] for piece in news.heard[1:])


async def test_what_has_not_changed_is_not_sent_again():
    async with (
        visiting(config_of({"s": entry(), "t": entry()})) as visitor,
        visitor.following("overview") as news,
    ):
        await news.next()
        await visitor.watch.text("echo", {"text": "x"})
        called = await news.until(lambda piece: cards(piece).get("s", {}).get("calls") == 1)
        assert "order" not in called
        assert cards(called)["s"]["p95_ms"] > 0
        measured = await news.until(lambda piece: (cards(piece).get("t") or {}).get("memory_bytes"))
        assert cards(measured)["t"]["memory_bytes"] > 1 << 20


async def test_a_reload_adds_and_removes():
    base = entry()
    async with (
        visiting(config_of({"s": base, "gone": base})) as visitor,
        visitor.following("overview") as news,
    ):
        await news.next()
        await visitor.hub.reload(config_of({"s": base, "fresh": base}))
        removed = await news.until(lambda piece: "removed" in piece)
        assert removed["removed"] == ["gone"]
        assert any("fresh" in cards(piece) for piece in news.heard)
        orders = [piece["order"] for piece in news.heard if "order" in piece]
        assert orders[-1] == ["s", "fresh"]


async def test_the_last_hour_is_sent_whole_and_then_step_by_step(monkeypatch):
    monkeypatch.setattr(history, "STEP_S", 0.2)
    async with visiting(config_of({"s": entry()})) as visitor:
        await visitor.watch.text("echo", {"text": "x"})
        async with visitor.following("history") as news:
            first = await news.next()
            assert len(first["points"]) == history.STEPS
            called = sum(point[0] for point in first["points"])
            await visitor.watch.failure("fail", {"text": "x"})
            closed = await news.until(lambda piece: piece.get("point", [0, 0])[1] == 1)
            # a step may close between the calls, and within one
            assert called + sum(piece["point"][0] for piece in news.heard if "point" in piece) == 2
            assert closed["until"] > first["until"]


async def test_the_curves_begin_again_where_the_clock_is_set_back(monkeypatch):
    async with visiting(config_of({"s": entry()})) as visitor, visitor.following("history") as news:
        first = await news.next()
        now = history._now()
        monkeypatch.setattr(history, "_now", lambda: now - history.STEPS)
        again = await news.until(lambda piece: "points" in piece and piece is not first)
        assert again["until"] < first["until"]
        assert len(again["points"]) == history.STEPS


async def test_nothing_is_left_that_looks_for_nobody():
    async with visiting(config_of({"s": entry()})) as visitor:
        hub, page = visitor.hub, visitor.page
        async with visitor.following("overview") as news, visitor.following("calls") as calls:
            await news.next()
            await calls.next()
            assert hub.records.watch is not None
        await soon(lambda: not len(page.served.streams))
        assert (hub.records.watch, hub.meter.watch) == (None, None)


@pytest.mark.parametrize("audit", ["on", "off"])
async def test_what_failed_is_apart_from_what_was_refused(monkeypatch, tmp_path, audit):
    monkeypatch.setattr(history, "STEP_S", 0.2)
    shop = {"command": sys.executable, "args": ["-P", "-m", "mcpx.demo.tools"]}
    async with (
        visiting(config_of({"s": shop}, audit=audit), state=tmp_path) as visitor,
        visitor.following("overview") as news,
        visitor.following("history") as steps,
    ):
        first = cards(await news.next())["s"]
        assert (first["failed"], first["refused"]) == (0, 0)
        points = (await steps.next())["points"]
        await visitor.call("fail", {"message": "no luck"})  # the tool says so
        await visitor.call("fail", {})  # never sent
        await visitor.call("nothing", {})
        await visitor.call("list_orders", {})
        told = await news.until(lambda piece: cards(piece).get("s", {}).get("ok") == 1)
        shown = cards(told)["s"]
        assert (shown["calls"], shown["failed"], shown["refused"], shown["running"]) == (4, 1, 2, 0)
        heard = lambda: [piece["point"] for piece in steps.heard if "point" in piece]  # noqa: E731
        total = lambda index: sum(point[index] for point in [*points, *heard()])  # noqa: E731
        await steps.until(lambda _: (total(0), total(1), total(2)) == (4, 1, 2))
