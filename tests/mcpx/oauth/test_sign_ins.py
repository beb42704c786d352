"""Sign-ins of a hub: begun once per server, joined, and in force for its sessions."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager

import anyio
import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.errors import CallError, Code, MCPXError
from mcpx.oauth.errors import Problem, SignInError
from tests.mcpx.scripted import config_of, entry, open_watched
from tests.ports import free_port

pytestmark = pytest.mark.anyio

LOGIN_PORT = free_port()  # another than the default, which the machine's own sign-ins use


@asynccontextmanager
async def signing(issuer, tmp_path, names=("s",), **auth):
    """A hub whose servers want a sign-in."""
    servers = {name: {"type": "http", "url": issuer.mcp_url, **auth} for name in names}
    config = config_of(servers | {"prog": entry()}, login_port=LOGIN_PORT)
    with anyio.fail_after(40):
        async with open_watched(config, state=tmp_path) as watch:
            yield watch, watch.hub.sign_ins


async def agree(issuer, sign_in, person="alice"):
    """Have a person agree, and wait until it is in force; the status and text of their browser's page."""
    link = await sign_in.url()
    page = await anyio.to_thread.run_sync(lambda: issuer.browse(link, person=person))
    await sign_in.wait()
    sign_in.leave()
    return page


async def problem_of(sign_in):
    with pytest.raises(SignInError) as caught:
        await sign_in.wait()
    return caught.value.problem


async def test_a_server_goes_on_when_a_person_has_signed_in(issuer, tmp_path):
    async with signing(issuer, tmp_path) as (watch, sign_ins):
        assert watch.state() is State.NEEDS_SIGN_IN
        assert await sign_ins.needed() == ["s"]
        with pytest.raises(CallError) as refused:
            await watch.text("whoami", {})
        assert refused.value.code is Code.SERVER_UNAVAILABLE
        await agree(issuer, sign_ins.begin("s"))
        assert (await sign_ins.started("s")).state is State.READY
        assert await watch.text("whoami", {}) == "alice"
        assert (await sign_ins.needed(), await sign_ins.signed_in()) == ([], ["s"])
        assert sign_ins.pending("s") is None
        assert not sign_ins.are_waited_for


async def test_one_sign_in_is_joined_and_ends_with_the_last_who_wants_it(issuer, tmp_path):
    async with signing(issuer, tmp_path) as (_, sign_ins):
        many = [sign_ins.begin("s") for _ in range(64)]
        assert len({*many}) == 1
        await many[0].url()
        for each in many[1:]:
            each.leave()
        assert many[0].is_open
        many[0].leave()
        assert sign_ins.begin("s") is not many[0]
        assert await problem_of(many[0]) is Problem.CANCELLED
        await agree(issuer, sign_ins.pending("s"))
        assert issuer.asked == 1


async def test_other_scopes_replace_a_sign_in(issuer, tmp_path):
    async with signing(issuer, tmp_path) as (_, sign_ins):
        first = sign_ins.begin("s")
        await first.url()
        second = sign_ins.begin("s", scopes=["write", "read"])
        assert await problem_of(first) is Problem.CANCELLED
        assert sign_ins.begin("s") is second
        assert sign_ins.begin("s", scopes=["read", "write"]) is second
        await agree(issuer, second)
        assert set(second.account.scopes) == {"read", "write"}


async def test_two_servers_are_two_accounts_and_return_to_one_port(issuer, tmp_path):
    async with signing(issuer, tmp_path, names=("s", "t")) as (watch, sign_ins):
        one, two = sign_ins.begin("s"), sign_ins.begin("t")
        assert await one.url() != await two.url()
        assert one.redirect_uri == two.redirect_uri
        _, page = await agree(issuer, two, "bob")
        assert "signed in to t" in page
        _, page = await agree(issuer, one)
        assert "signed in to s" in page
        assert await watch.text("whoami", {}, server="s") == "alice"
        assert await watch.text("whoami", {}, server="t") == "bob"


async def test_another_person_gets_sessions_of_their_own(issuer, tmp_path):
    async with signing(issuer, tmp_path) as (watch, sign_ins):
        await agree(issuer, sign_ins.begin("s"))
        assert await watch.text("whoami", {}) == "alice"
        before = watch.hub.upstreams["s"].queue.lifecycle().generation
        await agree(issuer, sign_ins.begin("s"), "bob")
        assert (await sign_ins.started("s")).state is State.READY
        assert watch.hub.upstreams["s"].queue.lifecycle().generation > before
        assert await watch.text("whoami", {}) == "bob"


async def test_the_port_of_an_entry_is_the_only_one_that_its_browser_returns_to(issuer, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        auth = {"auth": {"client_id": "fixed", "callback_port": port}}
        issuer.add_client("fixed", redirect_uris=(f"http://127.0.0.1:{port}/callback",))
        async with signing(issuer, tmp_path, **auth) as (_, sign_ins):
            begun = sign_ins.begin("s")
            assert await problem_of(begun) is Problem.PORT_TAKEN
            assert str(port) in str(begun.progress.error)
            taken.close()
            begun = sign_ins.begin("s")
            await agree(issuer, begun)
            assert begun.redirect_uri == f"http://127.0.0.1:{port}/callback"


async def test_more_scopes_leave_the_session_as_it_is(issuer, tmp_path):
    async with signing(issuer, tmp_path) as (watch, sign_ins):
        await agree(issuer, sign_ins.begin("s"))
        await sign_ins.started("s")
        with pytest.raises(CallError):
            await watch.text("admin", {})
        before = watch.hub.upstreams["s"].queue.lifecycle().generation
        await agree(issuer, sign_ins.begin("s"))
        assert await watch.text("admin", {})
        assert watch.hub.upstreams["s"].queue.lifecycle().generation == before
        assert issuer.calls == ["admin"]


async def test_after_a_logout_nothing_is_sent_with_the_token(issuer, tmp_path):
    async with signing(issuer, tmp_path) as (watch, sign_ins):
        await agree(issuer, sign_ins.begin("s"))
        await sign_ins.started("s")
        begun = sign_ins.begin("s")
        assert await sign_ins.logout("s")
        assert await problem_of(begun) is Problem.CANCELLED
        assert not await sign_ins.logout("s")
        assert len(issuer.seen("revoke")) == 2
        await watch.until(lambda: watch.state() is State.NEEDS_SIGN_IN)
        with pytest.raises(CallError):
            await watch.text("whoami", {})
        assert not issuer.holding(tmp_path)
        assert issuer.calls == []


async def test_an_entry_that_has_changed_meanwhile_is_not_signed_in(issuer, tmp_path):
    async with signing(issuer, tmp_path) as (watch, sign_ins):
        begun = sign_ins.begin("s")
        await begun.url()
        other = {"type": "http", "url": issuer.mcp_url + "?other"}
        await watch.hub.reload(config_of({"s": other}, login_port=LOGIN_PORT))
        await anyio.to_thread.run_sync(issuer.browse, begun.progress.link)
        assert await problem_of(begun) is Problem.CANCELLED
        assert "changed meanwhile" in str(begun.progress.error)
        assert await sign_ins.signed_in() == []


async def test_servers_that_sleep_are_asked_whether_they_want_a_sign_in(issuer, tmp_path):
    async with signing(issuer, tmp_path, start="on_demand") as (watch, sign_ins):
        await agree(issuer, sign_ins.begin("s"))
        await sign_ins.started("s")
    async with signing(issuer, tmp_path, start="on_demand") as (watch, sign_ins):
        assert watch.state() is State.ASLEEP
        assert await sign_ins.needed() == []
        await sign_ins.logout("s")
        assert watch.state() is State.ASLEEP
        assert await sign_ins.needed() == ["s"]


async def test_who_cannot_be_signed_in_is_refused(issuer, tmp_path):
    auth = {"auth": {"grant": "client_credentials", "client_id": "c", "client_secret": "x"}}
    async with signing(issuer, tmp_path, **auth) as (watch, sign_ins):
        with pytest.raises(SignInError, match="needs nobody"):
            sign_ins.begin("s")
        with pytest.raises(SignInError, match="program on this computer"):
            sign_ins.begin("prog")
        with pytest.raises(CallError, match="prog"):
            sign_ins.begin("progg")
        watch.hub.stop()
    with pytest.raises((MCPXError, SignInError)):
        sign_ins.begin("s")


async def test_a_hub_that_ends_ends_its_sign_ins(issuer, tmp_path):
    async with signing(issuer, tmp_path) as (_, sign_ins):
        begun = sign_ins.begin("s")
        await begun.url()
    assert await problem_of(begun) is Problem.CANCELLED
    with pytest.raises(MCPXError, match="ends"):
        sign_ins.begin("s")
