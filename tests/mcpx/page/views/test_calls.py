"""What a page hears of calls, one of them whole, and the same call again."""

from __future__ import annotations

import json

import anyio
import pytest
from msgspec.structs import replace

from mcpx.core.events.call_watch import MAX_CALLS
from tests.mcpx.page.signed_in import visiting
from tests.mcpx.scripted import config_of, entry, soon

pytestmark = pytest.mark.anyio
WICKED = "<img src=x onerror=alert(1)>\x1b[2J"
READER = {
    "name": "read",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}
RESOURCE = {"uri": "memo://a", "name": "a", "mimeType": "text/plain", "description": "Known.", "text": "told"}


def config(tmp_path, *, audit="on", **script):
    (tmp_path / "tools.json").write_text(
        json.dumps([READER, {"name": "echo", "inputSchema": {"type": "object"}}])
    )
    return config_of({"s": entry(tools=str(tmp_path / "tools.json"), **script)}, audit=audit)


async def called(visitor, tool="echo", arguments=None):
    """The id of a call that was made while it was watched."""
    await visitor.watch.text(tool, arguments or {"text": "x"})
    return visitor.hub.call_watch.calls()[-1].shown["id"]


async def test_calls_are_news_while_they_run_and_when_they_end(tmp_path):
    async with visiting(config(tmp_path), state=tmp_path) as visitor:
        async with visitor.following("calls") as news:
            first = await news.next()
            assert first == {"calls": [], "whole": True, "running": [], "more_running": 0}
            await visitor.watch.text("echo", {"text": "x"})
            (call,) = (await news.until(lambda piece: piece["calls"]))["calls"]
            assert (call["server"], call["tool"], call["kind"]) == ("s", "echo", "tool")
            assert (call["outcome"], call["transport"]) == ("ok", "library")
        await soon(lambda: visitor.hub.records.watch is None)


async def test_calls_of_before_are_those_of_the_audit_log(tmp_path):
    async with visiting(config(tmp_path), state=tmp_path) as visitor:
        await visitor.watch.text("echo", {"text": "before"})
        await visitor.watch.failure("nothing")
        async with visitor.following("calls") as news:
            first = await news.next()
            assert [call["tool"] for call in first["calls"]] == ["echo", "nothing"]
            assert [call["outcome"] for call in first["calls"]] == ["ok", "not_sent"]
            whole = await visitor.get(f"/calls/{first['calls'][0]['id']}")
            assert (whole["arguments"], whole["values_kept"]) == (["text"], False)


async def test_a_call_that_ended_just_now_is_listed_however_many_began_after_it(tmp_path):
    async with (
        visiting(config_of({"s": entry()}), state=tmp_path) as visitor,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(visitor.watch.text, "hang")
        await soon(lambda: visitor.hub.records.running)
        for _ in range(MAX_CALLS + 10):
            await visitor.watch.text("echo", {"text": "x"})
        assert await visitor.watch.text("release") == "done"
        await soon(lambda: not visitor.hub.records.running)
        async with visitor.following("calls") as news:
            listed = (await news.next())["calls"]
        assert {call["tool"] for call in listed} == {"echo", "hang", "release"}


async def test_a_call_that_was_seen_running_is_listed_with_its_end_though_nobody_looked_then(tmp_path):
    off = config_of({"s": entry()}, audit="off")
    async with visiting(off, state=tmp_path) as visitor, anyio.create_task_group() as tasks:
        tasks.start_soon(visitor.watch.text, "hang")
        await soon(lambda: visitor.hub.records.running)
        async with visitor.following("calls") as news:
            (call,) = (await news.next())["calls"]
            assert call["end"] is None
        await soon(lambda: visitor.hub.meter.watch is None)
        await visitor.watch.text("echo", {"text": "unseen"})
        await visitor.watch.text("release")
        await soon(lambda: visitor.hub.records.watch is None)  # no call costs anything more
        async with visitor.following("calls") as news:
            listed = (await news.next())["calls"]
        assert [(each["id"], each["end"]) for each in listed] == [(call["id"], "ok")]


async def test_a_flood_is_bounded_and_counted(tmp_path):
    async with (
        visiting(config(tmp_path, audit="off"), state=tmp_path) as visitor,
        visitor.following("calls") as news,
    ):
        await news.next()
        for _ in range(300):
            await visitor.watch.text("echo", {"text": "x"})
        told = 0
        while told < 300:
            piece = await news.next()
            assert len(piece["calls"]) <= 50
            told += len([call for call in piece["calls"] if call["outcome"]]) + piece["skipped"]


@pytest.mark.parametrize(("audit", "kept"), [("on", False), ("full", True), ("off", False)])
async def test_values_are_shown_only_where_the_audit_log_has_them(tmp_path, audit, kept):
    async with visiting(config(tmp_path, audit=audit), state=tmp_path) as visitor:
        async with visitor.following("calls") as news:
            await news.next()
            number = await called(visitor, arguments={"text": WICKED})
            whole = await visitor.get(f"/calls/{number}")
            assert whole["values_kept"] is kept
            assert whole["arguments"] == ({"text": WICKED} if kept else ["text"])
            assert whole["bytes_in"] > 10
        if audit == "full":
            again = await visitor.get(f"/calls/{number}")  # from the log, where nobody keeps arguments
            assert again["id"] == number


async def test_one_that_only_reads_can_be_repeated_and_no_other(tmp_path):
    async with visiting(config(tmp_path, resources=[RESOURCE]), state=tmp_path) as visitor:
        async with visitor.following("calls") as news:
            await news.next()
            reads, changes = await called(visitor, "read", {}), await called(visitor)
            await visitor.hub.calls.read("s", "memo://a")
            resource = visitor.hub.call_watch.calls()[-1].shown["id"]
            await visitor.post(f"/calls/{reads}/repeat")
            repeated = visitor.hub.call_watch.calls()[-1].shown
            assert (repeated["tool"], repeated["transport"], repeated["outcome"]) == ("read", "page", "ok")
            assert "told" in (await visitor.post(f"/calls/{resource}/repeat"))["text"]
            refused = await visitor.post(f"/calls/{changes}/repeat", status=400)
            assert "changes nothing" in refused["error"]
        await soon(lambda: visitor.hub.records.watch is None)
        refused = await visitor.post(f"/calls/{reads}/repeat", fails=True)
        assert "not kept" in refused["error"]


async def test_a_tool_that_is_read_only_no_more_is_not_repeated(tmp_path):
    async with visiting(config(tmp_path), state=tmp_path) as visitor, visitor.following("calls") as news:
        await news.next()
        number = await called(visitor, "read", {})
        visitor.hub.upstreams["s"].catalogue.tools["read"] = _changing(visitor)
        refused = await visitor.post(f"/calls/{number}/repeat", fails=True)
        assert refused["outcome"] == "not_sent"
        assert "read-only" in refused["error"]


def _changing(visitor):
    return replace(visitor.hub.upstreams["s"].catalogue.tools["read"], annotations={})


async def test_a_call_that_is_not_known_is_not_found(tmp_path):
    async with visiting(config(tmp_path, audit="off"), state=tmp_path) as visitor:
        assert "not known" in (await visitor.get("/calls/4711", fails=True))["error"]
        assert "not known" in (await visitor.post("/calls/4711/repeat", fails=True))["error"]
        await visitor.get(f"/calls/{'9' * 400}", fails=True)
