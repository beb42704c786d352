"""A sign-in that waits for a person: who it waits for, how it ends, and what it leaves behind."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import pytest

from mcpx.core.config import Http, ServerConfig
from mcpx.core.config.server_config import OAuth
from mcpx.oauth.accounts import Accounts
from mcpx.oauth.callback import CallbackListeners, ports_from
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.sign_in import SignIn
from tests.mcpx.oauth.scripted_issuer import Fault

pytestmark = pytest.mark.anyio


class Desk:
    """Where sign-ins to one scripted server are begun, each with an owner's task."""

    def __init__(self, issuer, tasks, state):
        self.issuer = issuer
        self.tasks = tasks
        self.listeners = CallbackListeners(tasks)
        self.accounts = Accounts(state)
        server = ServerConfig(name="notes", transport=Http(url=issuer.mcp_url))
        self.account = self.accounts.of(server)

    def begin(self, *, timeout_s=20.0, **more):
        sign_in = SignIn(self.account, ports=(0,), timeout_s=timeout_s, **more)
        sign_in.join()
        self.tasks.start_soon(sign_in.run, self.listeners)
        return sign_in

    async def consent(self, sign_in):
        """The person agrees in a browser, which is not followed back."""
        return await anyio.to_thread.run_sync(self.issuer.consent, await sign_in.url())

    async def browse(self, sign_in):
        """The person agrees in a browser, and sees the page that it ends at."""
        return await anyio.to_thread.run_sync(self.issuer.browse, await sign_in.url())


@asynccontextmanager
async def desk_of(issuer, tmp_path):
    with anyio.fail_after(50):
        async with anyio.create_task_group() as tasks:
            yield Desk(issuer, tasks, tmp_path)


async def refused(sign_in):
    """Why a sign-in failed."""
    with pytest.raises(SignInError) as caught:
        await sign_in.wait()
    assert not sign_in.is_open
    return caught.value


async def closed(sign_in):
    """Whether nothing listens where the browser would have returned to."""
    port = int(sign_in.redirect_uri.split(":")[2].split("/")[0])
    with pytest.raises(OSError):
        await anyio.connect_tcp("127.0.0.1", port)
    return True


async def test_a_person_signs_in_and_the_browser_says_so(issuer, tmp_path):
    async with desk_of(issuer, tmp_path) as desk:
        sign_in = desk.begin()
        status, page = await desk.browse(sign_in)
        await sign_in.wait()
        assert (status, sign_in.is_open) == (200, False)
        assert "signed in to notes" in page
        assert desk.account.record.tokens is not None
        assert await closed(sign_in)


@pytest.mark.parametrize("form", ["{}", "?{query}", "{query}"])
async def test_an_address_can_be_pasted_in_place_of_the_browser(issuer, tmp_path, form):
    async with desk_of(issuer, tmp_path) as desk:
        sign_in = desk.begin()
        with pytest.raises(SignInError, match="has not come so far"):
            sign_in.answer("code=c&state=s")
        address = await desk.consent(sign_in)
        for junk, problem in {
            "nonsense": Problem.NO_ANSWER,
            sign_in.progress.link: Problem.NO_ANSWER,
            "code=c&state=s": Problem.STATE_MISMATCH,
        }.items():
            with pytest.raises(SignInError) as caught:
                sign_in.answer(junk)
            assert caught.value.problem is problem
        sign_in.answer(form.format(address, query=address.partition("?")[2]))
        await sign_in.wait()
        assert desk.account.record.tokens is not None


async def test_it_ends_when_nobody_waits_for_it_any_more(issuer, tmp_path):
    async with desk_of(issuer, tmp_path) as desk:
        sign_in = desk.begin()
        await sign_in.url()
        sign_in.join()
        sign_in.leave()
        assert sign_in.is_open
        sign_in.leave()
        assert (await refused(sign_in)).problem is Problem.CANCELLED
        assert await closed(sign_in)
        assert desk.account.record is None or desk.account.record.tokens is None


async def test_it_ends_when_its_time_is_over_and_says_what_to_do(issuer, tmp_path):
    async with desk_of(issuer, tmp_path) as desk:
        sign_in = desk.begin(timeout_s=0.5)
        error = await refused(sign_in)
        assert error.problem is Problem.TIMED_OUT
        assert "0.5 s" in str(error)
        assert "mcpx login notes" in str(error)


async def test_who_joins_may_wait_longer_or_less_long(issuer, tmp_path):
    async with desk_of(issuer, tmp_path) as desk:
        sign_in = desk.begin(timeout_s=0.2)
        sign_in.join(20.0)
        with pytest.raises(SignInError, match=r"within 0\.3 s"):
            await sign_in.wait(0.3)
        assert sign_in.is_open
        await desk.browse(sign_in)
        await sign_in.wait()


async def test_a_person_who_says_no_is_told_so(issuer, tmp_path):
    issuer.options.consent = "deny"
    async with desk_of(issuer, tmp_path) as desk:
        sign_in = desk.begin()
        _, page = await desk.browse(sign_in)
        error = await refused(sign_in)
        assert error.problem is Problem.DENIED
        assert "Not signed in" in page
        assert await closed(sign_in)


async def test_a_code_that_is_refused_is_no_sign_in(issuer, tmp_path):
    issuer.faults["token:authorization_code"] = Fault(status=400)
    async with desk_of(issuer, tmp_path) as desk:
        sign_in = desk.begin()
        _, page = await desk.browse(sign_in)
        error = await refused(sign_in)
        assert "Not signed in" in page
        assert not any(secret in str(error) + page for secret in issuer.secrets)


async def test_an_answer_with_another_state_is_not_taken(issuer, tmp_path):
    issuer.callback["state"] = "x" * 43
    async with desk_of(issuer, tmp_path) as desk:
        sign_in = desk.begin()
        status, _ = await desk.browse(sign_in)
        assert status == 400
        with pytest.raises(SignInError, match="state of another sign-in") as caught:
            await sign_in.wait(0.0)
        assert caught.value.problem is Problem.STATE_MISMATCH
        assert sign_in.is_open
        issuer.callback.clear()
        assert (await desk.browse(sign_in))[0] == 200
        await sign_in.wait()


async def test_an_address_that_no_browser_should_open_is_not_shown(issuer, tmp_path):
    async with desk_of(issuer, tmp_path) as desk:
        sign_in = SignIn(desk.account, ports=(0,), timeout_s=20.0)
        async with desk.listeners.listening((0,)) as listener:
            for link in ("file:///etc/passwd", "javascript:x", 'https://as/"; x', "https://as/\x1b[2J", ""):
                with pytest.raises(SignInError, match="no browser should open"):
                    await sign_in._ask(listener, link)
            assert sign_in.progress.link is None


async def test_the_registration_names_the_port_in_use_first_and_the_others(issuer, tmp_path):
    async with desk_of(issuer, tmp_path) as desk:
        sign_in = SignIn(desk.account, ports=ports_from(47_617), timeout_s=20.0)
        sign_in.join()
        desk.tasks.start_soon(sign_in.run, desk.listeners)
        await desk.browse(sign_in)
        await sign_in.wait()
        uris = desk.account.record.registration.redirect_uris
        assert uris[0] == sign_in.redirect_uri
        assert len(uris) == 5


async def test_the_browser_returns_to_this_computer_by_the_name_that_the_client_has(issuer, tmp_path):
    async with desk_of(issuer, tmp_path) as desk:
        auth = OAuth(callback_host="localhost")
        named = ServerConfig(name="named", transport=Http(url=issuer.mcp_url, auth=auth))
        desk.account = desk.accounts.of(named)
        sign_in = desk.begin()
        await desk.browse(sign_in)
        await sign_in.wait()
        assert sign_in.redirect_uri.startswith("http://localhost:")
        assert set(desk.account.record.registration.redirect_uris) == {sign_in.redirect_uri}


async def test_a_fault_of_mcpx_itself_ends_it(issuer, tmp_path):
    async with desk_of(issuer, tmp_path) as desk:

        async def fail(_record):
            raise ZeroDivisionError

        sign_in = desk.begin(adopt=fail)
        await desk.browse(sign_in)
        assert "ZeroDivisionError" in str(await refused(sign_in))
