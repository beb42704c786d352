"""The configuration file is read again when it has changed, and what cannot be used changes nothing."""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
import watchfiles
from structlog.testing import capture_logs

from mcpx.core.config import load
from mcpx.core.daemon import config_file
from mcpx.core.daemon.config_file import ConfigFile, watched_paths
from mcpx.core.servers.fleet.reload import ReloadPlan
from mcpx.core.system import file_events
from mcpx.errors import ConfigError
from supervisors import Incarnation
from tests.mcpx.scripted import PATIENCE_S, one_server

pytestmark = pytest.mark.anyio
LONG_S = 3600.0


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Only events cause a look, but for the first one."""
    monkeypatch.setattr(config_file, "START_DELAY_S", 0.0)
    monkeypatch.setattr(config_file, "RELOAD_PAUSE_S", 0.0)
    monkeypatch.setattr(config_file, "QUIET_S", 0.02)
    monkeypatch.setattr(file_events, "EVENT_STEP_MS", 20)
    monkeypatch.setattr(config_file, "FIRST_LOOK_S", 0.2)
    monkeypatch.setattr(config_file, "LOOK_INTERVAL_S", LONG_S)


def written(file: Path, *servers: str, **settings) -> str:
    text = json.dumps({"mcpServers": {name: {"command": "c"} for name in servers}, **settings})
    file.write_text(text)
    return text


class Watched:
    """A file that is watched, and what was put in force of it."""

    def __init__(self, path: Path) -> None:
        self.config = load(path)
        self.done: list[list[str]] = []
        self.file = ConfigFile(str(path), lambda: self.config, self._reload)
        self._news = anyio.Event()

    async def _reload(self, config):
        self.config = config
        self.done.append(list(config.servers))
        return ReloadPlan(untouched=tuple(config.servers))

    async def until(self, holds) -> None:
        with anyio.fail_after(PATIENCE_S):
            while not holds():  # noqa: ASYNC110 - it is a file that is waited for
                await anyio.sleep(0.005)

    async def looked_again(self, path: Path) -> None:
        """Wait until the file as it is now was read."""
        await self.until(lambda: self.file._watch.seen == config_file.signature(path))


@asynccontextmanager
async def watched(path: Path):
    one = Watched(path)
    incarnation = Incarnation("config", 1, lambda _: None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.file.watch, incarnation)
        await one.until(lambda: one.file._used is not None)
        yield one
        incarnation.stop()


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "mcpx.json"
    written(file, "a")
    return file


async def test_a_file_that_is_written_to_is_put_in_force(path):
    async with watched(path) as one:
        written(path, "a", "b")
        await one.until(lambda: one.done == [["a", "b"]])


async def test_a_file_that_another_takes_the_place_of_is_put_in_force(path):
    async with watched(path) as one:
        for servers in (["a", "b"], ["c"]):
            written(path.with_name("new~"), *servers)
            path.with_name("new~").replace(path)
            await one.until(lambda servers=servers: one.done[-1:] == [servers])
    assert one.done == [["a", "b"], ["c"]]


async def test_the_same_bytes_again_are_no_change(path):
    async with watched(path) as one:
        path.write_bytes(path.read_bytes())
        os.utime(path, ns=(1, 1))
        await one.looked_again(path)
        written(path, "b")
        await one.until(lambda: one.done)
    assert one.done == [["b"]]


async def test_what_has_changed_before_the_watch_began_counts(path):
    one = Watched(path)
    written(path, "b")
    incarnation = Incarnation("config", 1, lambda _: None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.file.watch, incarnation)
        await one.until(lambda: one.done == [["b"]])
        incarnation.stop()


async def test_a_broken_file_is_named_once_until_a_good_one_is_read(path):
    good = path.read_text()
    with capture_logs() as logs:
        async with watched(path) as one:
            path.write_text('{"mcpServers": {,')
            await one.until(lambda: one.file.problem)
            assert f"{path}:1:17: not JSON" in one.file.problem
            os.utime(path, ns=(1, 1))
            await one.looked_again(path)
            path.unlink()
            await one.until(lambda: "no such file" in one.file.problem)
            path.write_text(good)
            await one.until(lambda: one.file.problem is None)
            assert one.done == []
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["config.unusable"] * 2


async def test_a_link_that_is_turned_to_another_file_is_followed(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        written(tmp_path / name / "mcpx.json", name)
    (tmp_path / "data").symlink_to("one")
    link = tmp_path / "mcpx.json"
    link.symlink_to("data/mcpx.json")
    async with watched(link) as one:
        (tmp_path / "new").symlink_to("two")
        (tmp_path / "new").replace(tmp_path / "data")
        await one.until(lambda: one.done == [["two"]])
        written(tmp_path / "two" / "mcpx.json", "two", "three")
        await one.until(lambda: one.done[-1] == ["two", "three"])


async def test_the_setting_ends_the_watch_and_a_reload_begins_it_again(path):
    async with watched(path) as one:
        written(path, "a", watch_config=False)
        await one.until(lambda: one.done == [["a"]])
        written(path, "b", watch_config=True)
        assert await one.file.reload() == ReloadPlan(untouched=("b",))
        written(path, "c")
        await one.until(lambda: one.done == [["a"], ["b"], ["c"]])


async def test_a_reload_on_request_notes_a_broken_file_and_carries_the_error(path):
    one = Watched(path)
    path.write_text("{}")
    with pytest.raises(ConfigError, match="no servers"):
        await one.file.reload()
    assert "no servers" in one.file.problem
    written(path, "a")
    await one.file.reload()
    assert one.file.problem is None
    assert one.done == [["a"]]


async def test_where_nothing_can_be_watched_the_file_is_looked_at_now_and_then(path, monkeypatch):
    def refused(*_, **__):
        raise OSError(28, "OS file watch limit reached")

    monkeypatch.setattr(watchfiles, "watch", refused)
    monkeypatch.setattr(config_file, "POLL_INTERVAL_S", 0.02)
    with capture_logs() as logs:
        async with watched(path) as one:
            written(path, "a", "b")
            await one.until(lambda: one.done == [["a", "b"]])
            written(path, "c")
            await one.until(lambda: one.done[-1] == ["c"])
    assert [line["event"] for line in logs] == ["config.not_watched"]
    assert "watch limit" in logs[0]["reason"]


async def test_a_watch_that_cannot_begin_is_tried_again(path, monkeypatch):
    class Refused:
        def __init__(self, **_):
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(config_file, "POLL_INTERVAL_S", 0.02)
    monkeypatch.setattr(file_events.threading, "Thread", Refused)
    async with watched(path) as one:
        written(path, "b")
        await one.until(lambda: one.done == [["b"]])


async def test_a_file_that_becomes_a_pipe_is_an_error_and_holds_nobody_up(path):
    async with watched(path) as one:
        path.unlink()
        os.mkfifo(path)
        await one.until(lambda: "not a regular file" in (one.file.problem or ""))
        path.unlink()
        written(path, "b")
        await one.until(lambda: one.done == [["b"]])


async def test_a_file_that_others_may_write_to_is_put_in_force_on_request_only(path, monkeypatch):
    monkeypatch.setattr(config_file, "LOOK_INTERVAL_S", 0.2)  # polling sees no change of a mode
    async with watched(path) as one:
        path.chmod(0o666)
        written(path, "b")
        await one.until(lambda: "others may write to it" in (one.file.problem or ""))
        assert one.done == []
        await one.file.reload()
        assert one.file.problem is None
        written(path, "c")
        await one.until(lambda: one.file.problem)
        path.chmod(0o600)
        await one.until(lambda: one.file.problem is None)
    assert one.done == [["b"], ["c"]]


def test_every_link_on_the_way_is_watched_where_it_is(tmp_path):
    real = tmp_path / "real" / "deep"
    real.mkdir(parents=True)
    (real / "c.json").symlink_to("../c2.json")
    (tmp_path / "short").symlink_to(real)
    here = tmp_path.resolve()
    found = watched_paths(tmp_path / "short" / "x" / ".." / "c.json")
    assert found[-3:] == [here / "short", here / "real/deep/c.json", here / "real/c2.json"]


def test_links_in_a_circle_end(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert len(watched_paths(tmp_path / "a")) <= config_file.MAX_LINKS + 1


async def test_inspect_says_that_the_file_cannot_be_used(tmp_path):
    async with one_server() as watch:
        before = await watch.hub.calls.inspect("s")
        watch.hub.file.problem = "c.json: not\nJSON"
        noted = await watch.hub.calls.inspect("s")
        watch.hub.file.problem = None
        assert await watch.hub.calls.inspect("s") == before
    assert noted.content[:-1] == before.content
    assert "cannot be used" in noted.content[-1]["text"]
    assert "c.json: not JSON" in noted.content[-1]["text"]
    assert noted.structured_content == {**before.structured_content, "config_error": "c.json: not\nJSON"}


async def test_clients_that_do_not_see_all_servers_are_not_told_which_one_is_wrong():
    async with one_server() as watch:
        watch.hub.file.problem = "c.json: $.mcpServers.vault: expected an object"
        _, calls = watch.hub.faces.among(watch.hub.upstreams)
        noted = await calls.inspect("s")
    assert "vault" not in str(noted)
    assert noted.structured_content["config_error"] == "mcpx status says why"
