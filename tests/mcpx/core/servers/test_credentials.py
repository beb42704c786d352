"""Credentials that age: fetched again at each start, and when a server over HTTP refuses them."""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest

from mcpx.core.config import load
from mcpx.core.running import secrets
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


@asynccontextmanager
async def refusing(tmp_path, vault, **settings):
    """A server that admits who has the token of now, and a hub that has the first one."""
    with raw_http({}) as raw:
        guarded(raw, vault)
        server = {"url": raw.url, "headers": {"X-Api-Key": vault.command}, "era": "handshake", **settings}
        async with await opened(tmp_path, server) as hub:
            watch = Watch(hub)
            await hub.settled(15)
            yield watch, raw


async def test_a_refusal_over_http_is_answered_with_a_value_of_now(tmp_path, vault):
    async with refusing(tmp_path, vault) as (watch, raw):
        for token in ("two", "three", "four"):
            vault.holds(token)
            assert await watch.text("echo") == "pong"
        assert vault.times == 4
        assert raw.refused == 3
        assert watch.hub.upstreams["s"].queue.lifecycle().failures == 0


async def test_one_fetch_for_all_calls_that_are_refused_together(tmp_path, vault):
    async with refusing(tmp_path, vault) as (watch, _):
        vault.holds("two")
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(watch.text, "echo")
        assert vault.times == 2


async def test_a_value_that_stays_wrong_parks_the_server_and_says_what_was_tried(tmp_path, vault):
    async with refusing(tmp_path, vault) as (watch, raw):
        raw.admits = lambda _headers: False
        with pytest.raises(CallError) as caught:
            await watch.hub.calls.exec("s", "echo", None)
        assert caught.value.code is Code.SERVER_UNAVAILABLE
        for _ in range(5):
            await watch.failure("echo")
        assert vault.times <= 3
        assert "which were fetched again" in str(caught.value)
        assert "one" not in str(caught.value)


async def test_sixty_four_calls_that_wait_for_one_fetch_are_all_answered(tmp_path, vault):
    async with refusing(tmp_path, vault) as (watch, _):
        vault.holds("two")
        said = []

        async def call():
            said.append(await watch.outcome("echo"))

        async with anyio.create_task_group() as tasks:
            for _ in range(64):
                tasks.start_soon(call)
        assert (said, vault.times) == ([None] * 64, 2)


async def test_a_value_that_expires_while_a_call_is_sent_again_is_fetched_again_for_it(
    tmp_path, vault, monkeypatch
):
    monkeypatch.setattr(credentials, "AT_ONCE_S", 0.0)  # as on a machine where everything takes long
    async with refusing(tmp_path, vault) as (watch, raw):
        told = iter(["two", "three", "four"])

        def admits(headers):
            known = headers.get("x-api-key")
            if known != "four":
                vault.holds(next(told))
            return known == "four"

        raw.admits = admits
        assert await watch.text("echo") == "pong"
        assert (vault.times, raw.refused) == (4, 3)
        assert watch.hub.upstreams["s"].queue.lifecycle().failures == 0


@pytest.mark.parametrize(
    ("command", "says"),
    [("cat {token}", "the same as before"), ("cat {token}; exit 1", "ended with exit code 1")],
)
async def test_a_fetch_that_helps_nothing_is_not_repeated_and_is_named(tmp_path, vault, command, says):
    async with refusing(tmp_path, vault) as (watch, raw):
        entry_of = watch.hub.upstreams["s"].credentials
        raw.admits = lambda _headers: False
        if "exit" in command:
            vault.token.unlink()
        errors = [await watch.failure("echo") for _ in range(4)]
        assert {error.code for error in errors} == {Code.SERVER_UNAVAILABLE}
        assert vault.times == 2
        assert says in str(errors[0]), str(errors[0])
        assert entry_of.entry.transport.headers == {"X-Api-Key": "one"}


async def test_a_fetch_that_hangs_holds_up_its_server_alone_and_is_bounded(tmp_path, vault, monkeypatch):
    async with refusing(tmp_path, vault) as (watch, raw):
        monkeypatch.setattr(secrets, "TIMEOUT_S", 0.5)
        raw.admits = lambda _headers: False
        vault.token.unlink()
        os.mkfifo(vault.token)  # the command waits for who writes
        error = await watch.failure("echo")
        assert error.code is Code.SERVER_UNAVAILABLE
        assert "did not answer within 0.5 s" in str(error)
        assert vault.times == 2


async def test_servers_that_share_a_command_and_are_refused_together_run_it_once(tmp_path, vault):
    with raw_http({}) as raw:
        guarded(raw, vault)
        server = {"url": raw.url, "headers": {"X-Api-Key": vault.command}, "era": "handshake"}
        file = tmp_path / "mcpx.json"
        servers = dict.fromkeys("abc", server)
        file.write_text(json.dumps({"login_shell": False, "mcpServers": servers}))
        config = await anyio.to_thread.run_sync(lambda: load(file))
        async with open_hub(config, state=tmp_path / "state") as hub:
            watch = Watch(hub)
            await hub.settled(15)
            assert vault.times == 1
            vault.holds("two")
            async with anyio.create_task_group() as tasks:
                for name in servers:
                    tasks.start_soon(partial(watch.text, "echo", server=name))
            assert vault.times <= 4  # those that come at the same time share it
            assert {hub.upstreams[name].queue.lifecycle().failures for name in servers} == {0}


async def test_a_token_that_expires_all_the_time_fails_no_call(tmp_path, vault):
    """One fetch for each expiry, whoever is refused meanwhile."""
    async with refusing(tmp_path, vault) as (watch, _):
        said = []

        async def caller():
            for _ in range(20):
                said.append(await watch.outcome("echo"))
                if len(said) % 10 == 0:
                    vault.holds(f"token-{len(said)}")

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(caller)
    assert said == [None] * 80
    assert vault.times <= 1 + len(said) // 10


async def test_a_reload_does_not_take_a_renewed_value_for_a_change(tmp_path, vault):
    async with refusing(tmp_path, vault) as (watch, _):
        vault.holds("two")
        await watch.text("echo")
        plan = await watch.hub.reload(load(tmp_path / "mcpx.json"))
        assert not plan.changed
