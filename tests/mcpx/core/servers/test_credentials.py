"""Credentials that age: fetched again at each start, and when a server over HTTP refuses them."""

from __future__ import annotations

import json
import threading

import anyio
import pytest

from mcpx.core.config import load
from mcpx.core.servers import credentials
from mcpx.errors import CallError, Code
from mcpx.parts import open_hub
from tests.mcpx.core.servers.raw_http import raw_http
from tests.mcpx.scripted import Watch, entry

pytestmark = pytest.mark.anyio


class Vault:
    """A command that prints the token of now, and counts how often it is asked."""

    def __init__(self, folder):
        self.token, self.asked = folder / "token", folder / "asked"
        self.command = f"${{cmd:echo x >> {self.asked}; cat {self.token}}}"
        self.asked.touch()

    def holds(self, text):
        self.token.write_text(text)

    @property
    def times(self):
        return len(self.asked.read_text().split())


@pytest.fixture
def vault(tmp_path):
    made = Vault(tmp_path)
    made.holds("one")
    return made


async def opened(tmp_path, server):
    file = tmp_path / "mcpx.json"
    file.write_text(json.dumps({"shutdown_grace": 0.2, "login_shell": False, "mcpServers": {"s": server}}))
    config = await anyio.to_thread.run_sync(lambda: load(file))
    return open_hub(config, state=tmp_path / "state")


async def test_a_process_gets_the_value_of_its_start(tmp_path, vault, monkeypatch):
    monkeypatch.setattr(credentials, "FRESH_S", 0)
    server = entry(answers={"tools/call count": [{"exit": 3}]}) | {"env": {"T": vault.command}}
    async with await opened(tmp_path, server) as hub:
        watch = Watch(hub)
        await hub.settled(15)
        assert hub.upstreams["s"].credentials.entry.transport.env["T"] == "one"
        vault.holds("two")
        await watch.failure("count")
        await watch.text("echo", {"text": "again"})
        assert hub.upstreams["s"].credentials.entry.transport.env["T"] == "two"
        assert b"T=two" in await anyio.Path(f"/proc/{hub.upstreams['s'].pid}/environ").read_bytes()


async def test_a_value_that_is_fresh_is_not_fetched_again(tmp_path, vault):
    server = entry(answers={"tools/call count": [{"exit": 3}]}) | {"env": {"T": vault.command}}
    async with await opened(tmp_path, server) as hub:
        watch = Watch(hub)
        await hub.settled(15)
        await watch.failure("count")
        await watch.text("echo", {"text": "again"})
        assert vault.times == 1


def guarded(raw, vault):
    """Have a server admit who has the token of now."""
    raw.admits = lambda headers: headers.get("x-api-key") == vault.token.read_text()


async def test_a_refusal_over_http_is_answered_with_a_value_of_now(tmp_path, vault):
    with raw_http({}) as raw:
        guarded(raw, vault)
        server = {"url": raw.url, "headers": {"X-Api-Key": vault.command}, "era": "handshake"}
        async with await opened(tmp_path, server) as hub:
            watch = Watch(hub)
            await hub.settled(15)
            for token in ("two", "three", "four"):
                vault.holds(token)
                assert await watch.text("echo") == "pong"
            assert vault.times == 4
            assert raw.refused == 3
            assert hub.upstreams["s"].queue.lifecycle().failures == 0


async def test_one_fetch_for_all_calls_that_are_refused_together(tmp_path, vault):
    with raw_http({}) as raw:
        guarded(raw, vault)
        server = {"url": raw.url, "headers": {"X-Api-Key": vault.command}, "era": "handshake"}
        async with await opened(tmp_path, server) as hub:
            watch = Watch(hub)
            await hub.settled(15)
            vault.holds("two")
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(watch.text, "echo")
            assert vault.times == 2


async def test_a_value_that_stays_wrong_parks_the_server_and_says_what_was_tried(tmp_path, vault):
    with raw_http({}) as raw:
        guarded(raw, vault)
        server = {"url": raw.url, "headers": {"X-Api-Key": vault.command}, "era": "handshake"}
        async with await opened(tmp_path, server) as hub:
            watch = Watch(hub)
            await hub.settled(15)
            raw.admits = lambda _headers: False
            with pytest.raises(CallError) as caught:
                await hub.calls.exec("s", "echo", None)
            assert caught.value.code is Code.SERVER_UNAVAILABLE
            for _ in range(5):
                await watch.failure("echo")
            assert vault.times <= 3
            assert "which were fetched again" in str(caught.value)
            assert "one" not in str(caught.value)


async def test_a_token_that_expires_all_the_time_fails_no_call(tmp_path, vault):
    """Twenty calls at a time; one fetch for each expiry."""
    stop, expired = threading.Event(), []

    def expire():
        while not stop.wait(0.2):
            expired.append(f"token-{len(expired)}")
            vault.holds(expired[-1])

    with raw_http({}) as raw:
        guarded(raw, vault)
        server = {"url": raw.url, "headers": {"X-Api-Key": vault.command}, "era": "handshake"}
        async with await opened(tmp_path, server) as hub:
            watch, said = Watch(hub), []
            await hub.settled(15)

            async def caller():
                for _ in range(15):
                    said.append(await watch.outcome("echo"))
                    await anyio.sleep(0.1)

            thread = threading.Thread(target=expire)
            thread.start()
            async with anyio.create_task_group() as tasks:
                for _ in range(4):
                    tasks.start_soon(caller)
            stop.set()
            thread.join()
    assert said == [None] * 60
    assert vault.times <= len(expired) + 2


async def test_a_reload_does_not_take_a_renewed_value_for_a_change(tmp_path, vault):
    with raw_http({}) as raw:
        guarded(raw, vault)
        server = {"url": raw.url, "headers": {"X-Api-Key": vault.command}, "era": "handshake"}
        async with await opened(tmp_path, server) as hub:
            watch = Watch(hub)
            await hub.settled(15)
            vault.holds("two")
            await watch.text("echo")
            plan = await hub.reload(load(tmp_path / "mcpx.json"))
            assert not plan.changed
