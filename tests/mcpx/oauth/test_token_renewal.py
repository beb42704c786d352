"""A hub whose server's tokens have to be renewed while the authorization server has its troubles."""

from __future__ import annotations

import time

import anyio
import pytest
from msgspec.structs import replace

from mcpx.core.catalog.snapshot import State
from mcpx.errors import CallError, Code
from mcpx.oauth.token_store import TokenStore
from tests.mcpx.oauth.test_sign_ins import agree, signing
from tests.mcpx.scripted import QUICK

pytestmark = pytest.mark.anyio


async def signed_in(watch, sign_ins, issuer):
    await agree(issuer, sign_ins.begin("s"))
    await sign_ins.started("s")


async def test_calls_fail_unsent_while_a_token_cannot_be_renewed_and_then_run_without_a_person(
    issuer, tmp_path
):
    async with signing(issuer, tmp_path) as (watch, sign_ins):
        await signed_in(watch, sign_ins, issuer)
        issuer.go_down("issuer")
        issuer.expire()
        with pytest.raises(CallError, match="cannot be reached") as failed:
            await watch.text("whoami", {})
        assert failed.value.code is Code.SERVER_UNAVAILABLE
        issuer.come_up("issuer")
        with anyio.fail_after(50):
            while True:
                try:
                    assert await watch.text("whoami", {}) == "alice"
                except CallError:  # within the pause
                    await anyio.lowlevel.checkpoint()
                else:
                    break
        assert (issuer.asked, issuer.reuses) == (1, 0)


async def test_a_server_whose_token_could_not_be_renewed_at_the_start_comes_up_by_itself(issuer, tmp_path):
    async with signing(issuer, tmp_path) as (watch, sign_ins):
        await signed_in(watch, sign_ins, issuer)
        record = watch.hub.upstreams["s"].account.record
    expired = replace(record.tokens, obtained_at=time.time() - 3600, expires_at=time.time() - 1)
    await TokenStore(tmp_path).write(replace(record, tokens=expired))
    issuer.go_down("issuer")
    async with signing(issuer, tmp_path, restart=QUICK) as (watch, sign_ins):
        with pytest.raises(CallError, match="cannot be reached"):
            await watch.text("whoami", {})
        assert (watch.state() in {State.WAITING, State.PARKED}, issuer.asked) == (True, 1)
        issuer.come_up("issuer")
        await watch.until(lambda: watch.state() is State.READY)
        assert await watch.text("whoami", {}) == "alice"
        assert issuer.asked == 1
