"""Two MCPX of one person with one sign-in: neither uses a refresh token that the other has used."""

from __future__ import annotations

import time

import anyio
import pytest

from mcpx.oauth import accounts
from tests.mcpx.oauth.scripted_issuer import scripted_issuer
from tests.mcpx.oauth.signing_in import config_for, sign_in, signed_in
from tests.mcpx.scripted import open_watched

pytestmark = pytest.mark.anyio


async def test_both_refresh_and_neither_burns_a_token(tmp_path):
    with scripted_issuer(lifetime_s=1) as issuer:
        async with (
            signed_in(issuer, tmp_path) as one,
            open_watched(config_for(issuer), state=tmp_path) as two,
        ):
            until = time.monotonic() + 2

            async def keep_calling(watch, name):
                number = 0
                while time.monotonic() < until:
                    number += 1
                    assert await watch.text("count", {"key": f"{name}.{number}"}, server="r")
                    await anyio.sleep(0.01)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(keep_calling, one, "one")
                tasks.start_soon(keep_calling, two, "two")
            assert (issuer.asked, issuer.reuses) == (1, 0)
            assert 1 <= issuer.refreshes <= 8


async def test_both_find_it_expired_at_once(tmp_path):
    with scripted_issuer() as issuer:
        async with (
            signed_in(issuer, tmp_path) as one,
            open_watched(config_for(issuer), state=tmp_path) as two,
        ):
            for round_number in range(10):
                issuer.expire()
                async with anyio.create_task_group() as tasks:
                    for watch in (one, two):
                        tasks.start_soon(lambda watch=watch: watch.text("count", {}, server="r"))
                assert issuer.refreshes <= 2 * (round_number + 1)
            assert (issuer.asked, issuer.reuses) == (1, 0)


async def test_who_signs_in_signs_in_for_both(tmp_path, monkeypatch):
    monkeypatch.setattr(accounts, "LOOK_INTERVAL_S", 0.1)
    with scripted_issuer() as issuer:
        async with (
            open_watched(config_for(issuer), state=tmp_path) as one,
            open_watched(config_for(issuer), state=tmp_path) as two,
        ):
            await sign_in(one, issuer)
            assert await one.text("whoami", server="r") == "alice"
            with anyio.fail_after(50):
                while two.state("r") != "ready":  # noqa: ASYNC110 - another process would not tell either
                    await anyio.sleep(0.05)
            assert await two.text("whoami", server="r") == "alice"
            assert issuer.asked == 1


async def test_two_accounts_of_one_server(tmp_path):
    with scripted_issuer() as issuer:
        async with open_watched(config_for(issuer, "home", "work"), state=tmp_path) as watch:
            await sign_in(watch, issuer, "home", person="alice")
            assert watch.state("work") == "needs sign-in"
            await sign_in(watch, issuer, "work", person="bob")
            for _ in range(2):
                assert await watch.text("whoami", server="home") == "alice"
                assert await watch.text("whoami", server="work") == "bob"
                issuer.expire()
