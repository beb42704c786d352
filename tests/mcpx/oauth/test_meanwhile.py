"""What happens to a sign-in while something else does: sign-ins, sign-outs, restarts, and other issuers."""

from __future__ import annotations

import anyio
import pytest

from mcpx.errors import Outcome
from mcpx.oauth import token_requests
from mcpx.oauth.errors import SignInError
from tests.mcpx.oauth.scripted_issuer import Fault, scripted_issuer
from tests.mcpx.oauth.signing_in import answered, config_for, expire_stored, sign_in, signed_in
from tests.mcpx.scripted import PATIENCE_S, open_watched

pytestmark = pytest.mark.anyio
REFRESH = "token:refresh_token"


async def works(watch, issuer):
    """The server is used, now and with the next token."""
    for _ in range(2):
        assert await watch.text("count", server="r") == "count"
        issuer.expire()


async def test_a_refresh_that_ends_after_a_new_sign_in_does_not_undo_it(tmp_path):
    with scripted_issuer() as issuer:
        async with signed_in(issuer, tmp_path) as watch, anyio.create_task_group() as tasks:
            issuer.faults[REFRESH] = Fault(hold=True, works=True)
            issuer.expire()
            tasks.start_soon(watch.hub.calls.exec, "r", "look", {"key": "late"})
            await issuer.reached(REFRESH)
            login = anyio.Event()

            async def login_again():
                await sign_in(watch, issuer, person="bob")
                login.set()

            tasks.start_soon(login_again)
            with anyio.move_on_after(1):
                await login.wait()
            issuer.release()
            with anyio.fail_after(PATIENCE_S):
                await login.wait()
            assert await watch.text("whoami", server="r") == "bob"
            issuer.expire()
            assert await watch.text("whoami", server="r") == "bob"
            assert (issuer.asked, issuer.reuses) == (2, 0)
        async with open_watched(config_for(issuer), state=tmp_path) as watch:
            assert await watch.text("whoami", server="r") == "bob"


async def test_a_refresh_that_ends_after_a_sign_out_does_not_undo_it(tmp_path):
    with scripted_issuer() as issuer:
        async with signed_in(issuer, tmp_path) as watch, anyio.create_task_group() as tasks:
            issuer.faults[REFRESH] = Fault(hold=True, works=True)
            issuer.expire()
            tasks.start_soon(answered, watch)
            await issuer.reached(REFRESH)
            done = anyio.Event()

            async def logout():
                await watch.hub.sign_ins.logout("r")
                done.set()

            tasks.start_soon(logout)
            with anyio.move_on_after(1):
                await done.wait()
            issuer.release()
            with anyio.fail_after(PATIENCE_S):
                await done.wait()
        assert not issuer.holding(tmp_path)
        async with open_watched(config_for(issuer), state=tmp_path) as watch:
            assert "mcpx login r" in str(await watch.failure("count", server="r"))


async def test_a_sign_out_does_not_wait_for_an_issuer_that_is_silent(tmp_path, monkeypatch):
    monkeypatch.setattr(token_requests, "REVOKE_TIMEOUT_S", 0.2)
    with scripted_issuer() as issuer:
        async with signed_in(issuer, tmp_path) as watch:
            issuer.faults["revoke"] = Fault(hold=True)
            with anyio.fail_after(50):
                assert await watch.hub.sign_ins.logout("r")
            assert not issuer.holding(tmp_path)
            assert (await watch.failure("count", server="r")).outcome is Outcome.NOT_SENT
            issuer.release()


async def test_a_refresh_after_a_restart_needs_no_metadata(tmp_path):
    with scripted_issuer() as issuer:
        async with signed_in(issuer, tmp_path):
            pass
        for step in ("metadata", "resource_metadata", "register", "authorize"):
            issuer.faults[step] = Fault(status=503)
        issuer.expire()
        async with open_watched(config_for(issuer), state=tmp_path) as watch:
            await works(watch, issuer)
        assert (issuer.asked, issuer.reuses) == (1, 0)


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_restart_while_the_issuer_is_down_does_not_ask_the_person(is_known, tmp_path):
    """The token has expired; `is_known`: MCPX knows that, before the server says so."""
    with scripted_issuer() as issuer:
        async with signed_in(issuer, tmp_path):
            pass
        issuer.expire()
        if is_known:
            expire_stored(tmp_path)
        issuer.go_down("issuer")
        config = config_for(issuer, entry={"queue_timeout": 1, "restart": {"park_after": 1000}})
        async with open_watched(config, state=tmp_path) as watch:
            error = await watch.failure("count", server="r")
            assert error.outcome is Outcome.NOT_SENT
            assert "mcpx login" not in str(error)
            assert watch.state("r") != "needs sign-in"
            issuer.come_up("issuer")
            with anyio.fail_after(PATIENCE_S):
                while not await answered(watch):  # noqa: ASYNC110 - between two refreshes there is a pause
                    await anyio.sleep(0.05)
        assert issuer.asked == 1


async def test_clients_that_the_issuer_has_forgotten_register_anew(tmp_path):
    with scripted_issuer() as issuer:
        async with signed_in(issuer, tmp_path) as watch:
            issuer.forget_clients()
            issuer.expire()
            error = await watch.failure("count", server="r")
            assert error.outcome is Outcome.NOT_SENT
            assert "mcpx login r" in str(error)
            await sign_in(watch, issuer)
            await works(watch, issuer)
        assert (issuer.asked, len(issuer.seen("register"))) == (2, 2)


async def test_sixty_four_calls_of_a_sign_in_that_has_ended_are_refused_after_one_refresh(tmp_path):
    with scripted_issuer() as issuer:
        async with signed_in(issuer, tmp_path) as watch:
            issuer.revoke_all()

            async def call():
                error = await watch.failure("count", server="r")
                assert error.outcome is Outcome.NOT_SENT
                assert "mcpx login r" in str(error)

            async with anyio.create_task_group() as tasks:
                for _ in range(64):
                    tasks.start_soon(call)
            assert issuer.calls == ["first"]
            assert issuer.refreshes == 1


@pytest.mark.parametrize("entry", [{}, {"auth": {"client_id": "fixed", "client_secret": "client-secret-1"}}])
async def test_another_issuer_gets_nothing_of_the_first(entry, tmp_path):
    """The server names another authorization server by now: one that somebody else has put there."""
    with scripted_issuer() as issuer, scripted_issuer() as evil:
        issuer.add_client("fixed", "client-secret-1")
        config = config_for(issuer, entry=entry)
        async with open_watched(config, state=tmp_path) as watch:
            await sign_in(watch, issuer)
            evil.metadata = {"resource": None}
            issuer.resource_metadata = {"authorization_servers": [evil.issuer]}
            issuer.revoke_all()
            await watch.failure("count", server="r")
            pending = watch.hub.sign_ins.begin("r")
            try:
                with anyio.fail_after(PATIENCE_S):
                    url = await pending.url()
                    await anyio.to_thread.run_sync(evil.browse, url)
                    await pending.wait()
            except (SignInError, AssertionError):
                pass
            finally:
                pending.leave()
        got = [each for each in evil.requests if any(secret in said(each) for secret in issuer.secrets)]
        assert not got, [each.step for each in got]


def said(seen):
    return " ".join([*seen.query.values(), *seen.headers.values(), seen.body.decode()])


@pytest.mark.parametrize(
    "lies",
    [
        {"expires_in": "3600"},
        {"expires_in": None},
        {"expires_in": 10**15},
        {"expires_in": 3600.5},
        {"token_type": "bearer"},
        {"token_type": "BEARER"},
        {"scope": None},
        {"scope": ""},
        {"refresh_token": None},
        {"id_token": "x.y.z", "extra": {"a": [1]}},
    ],
    ids=str,
)
async def test_answers_that_are_a_little_off_are_taken(lies, tmp_path):
    with scripted_issuer() as issuer:
        issuer.token_answer = lies
        async with signed_in(issuer, tmp_path):
            pass
        async with open_watched(config_for(issuer), state=tmp_path) as watch:
            assert await watch.text("count", server="r") == "count"


@pytest.mark.parametrize(
    "lies",
    [
        {"access_token": "a\r\nX-Evil: 1"},
        {"access_token": ""},
        {"access_token": None},
        {"access_token": 7},
        {"access_token": "é" * 10},
        {"access_token": "x" * 300_000},
        {"token_type": "mac"},
    ],
    ids=lambda lies: str(lies)[:40],
)
async def test_answers_that_cannot_be_used_are_refused_in_words(lies, tmp_path):
    with scripted_issuer() as issuer:
        issuer.token_answer = lies
        async with open_watched(config_for(issuer), state=tmp_path) as watch:
            with pytest.raises(SignInError) as caught:
                await sign_in(watch, issuer)
            assert "MCPX failed" not in str(caught.value)
            assert not any(secret in str(caught.value) for secret in issuer.secrets)
            assert watch.state("r") == "needs sign-in"
            issuer.token_answer = {}
            await sign_in(watch, issuer)
            await works(watch, issuer)
