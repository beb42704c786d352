"""What a page hears of one server while it looks at it: state, timeline, catalogue, log."""

from __future__ import annotations

import os
import signal
import time

import pytest

from mcpx.core.telemetry.log_files import ServerLog
from mcpx.page.views import server_topics
from tests.mcpx.page.signed_in import visiting
from tests.mcpx.scripted import config_of, entry, soon

pytestmark = pytest.mark.anyio


async def test_a_death_and_the_return_are_told_at_once():
    async with visiting(config_of({"s": entry()})) as visitor, visitor.following("server:s") as news:
        first = await news.next()
        assert first["card"]["state"] == "ready"
        assert [each["event"] for each in first["timeline"]] == ["started", "ready"]
        pid = first["card"]["pid"]
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        died = await news.until(lambda piece: any(each["event"] == "died" for each in piece.get("new", ())))
        assert time.monotonic() - began < 1.0
        assert next(each for each in died["new"] if each["event"] == "died")["pid"] == pid
        back = await news.until(lambda piece: piece.get("card", {}).get("pid") not in {None, pid})
        assert back["card"]["state"] == "ready"
        assert "timeline" not in back


async def test_what_a_server_offers_has_another_version_when_it_changes():
    async with visiting(config_of({"s": entry()})) as visitor:
        async with visitor.following("server:s") as news:
            before = (await news.next())["offers"]
            await visitor.call("add", {"name": "new", "times": 1})
            changed = await news.until(lambda piece: "offers" in piece)
            assert changed["offers"] > before
            assert "new" in [each["name"] for each in (await visitor.get("/servers/s"))["tools"]]
        async with visitor.following("server:s") as news:
            assert (await news.next())["offers"] > changed["offers"]  # whoever begins anew asks again


async def test_nobody_is_left_who_listens_when_a_page_looks_elsewhere():
    async with visiting(config_of({"s": entry()})) as visitor:
        hub, log = visitor.hub, visitor.hub.upstreams["s"].server_log
        before = list(hub.fleet.observers._observers)
        async with visitor.following("server:s") as news, visitor.following("log:s") as lines:
            await news.next()
            await lines.next()
            assert log.followers
        await soon(lambda: not log.followers and hub.fleet.observers._observers == before)


async def test_an_unknown_server_is_said_to_be_unknown():
    async with visiting(config_of({"s": entry()})) as visitor:
        for topic in ("server:t", "log:t"):
            async with visitor.following(topic) as news:
                assert "no server" in (await news.next())["error"].lower()


async def test_a_log_begins_with_its_last_lines_and_goes_on_live(tmp_path):
    said = "".join(f"\x1b[31mline {number}\x1b[0m\n" for number in range(500))
    async with visiting(config_of({"s": entry(stderr=said)}), state=tmp_path) as visitor:
        log = visitor.hub.upstreams["s"].server_log
        await soon(lambda: log.path.exists() and "line 499" in log.path.read_text())
        async with visitor.following("log:s") as news:
            first = await news.next()
            assert first["from_start"] is True
            assert len(first["lines"]) in {200, 201}
            assert first["lines"][-1].endswith("line 499")
            log.write(b"<script>alert(1)</script>\x1b[2J\nanother")
            first_line, second = (await news.next())["lines"]
            assert first_line[20:] == "<script>alert(1)</script>\\x1b[2J"
            assert second == "another"


async def test_the_log_of_a_server_that_is_replaced_goes_on(tmp_path):
    config = config_of({"s": entry(stderr="first\n")})
    async with visiting(config, state=tmp_path) as visitor, visitor.following("log:s") as news:
        assert (await news.next())["from_start"]
        await visitor.hub.reload(config_of({"s": entry(stderr="second\n")}))
        found = await news.until(lambda piece: any("second" in line for line in piece["lines"]))
        assert "from_start" not in found


async def test_of_a_flood_the_last_lines_are_kept_and_the_others_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(server_topics, "MAX_LINES", 3)
    monkeypatch.setattr(server_topics, "MAX_LINE_CHARS", 40)
    config = config_of({"s": entry()})
    async with visiting(config, state=tmp_path) as visitor, visitor.following("log:s") as news:
        await news.next()
        log: ServerLog = visitor.hub.upstreams["s"].server_log
        for number in range(10):
            log.write(f"line {number} {'x' * 100}".encode())
        piece = await news.next()
        assert piece["skipped"] == 7
        assert [line[20:26] for line in piece["lines"]] == ["line 7", "line 8", "line 9"]
        assert max(map(len, piece["lines"])) == 43


@pytest.mark.parametrize(("lines", "long"), [(1, "FLOOD_PAUSE_S"), (2 * server_topics.MAX_LINES, "PAUSE_S")])
async def test_the_pause_after_a_flood_is_one_of_its_own(tmp_path, monkeypatch, lines, long):
    for pause in ("PAUSE_S", "FLOOD_PAUSE_S"):
        monkeypatch.setattr(server_topics, pause, 600.0 if pause == long else 0.0)
    config = config_of({"s": entry()})
    async with visiting(config, state=tmp_path) as visitor, visitor.following("log:s") as news:
        await news.next()
        log: ServerLog = visitor.hub.upstreams["s"].server_log
        for _ in range(3):
            log.write("\n".join(["said"] * lines).encode())
            assert ("skipped" in await news.next()) == (lines > 1)
