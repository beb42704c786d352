"""Steps of a sign-in and refreshes going wrong in each way: they end in time and in words."""

from __future__ import annotations

import anyio
import pytest

from mcpx.errors import Outcome
from mcpx.oauth import network, renewal
from mcpx.oauth.errors import SignInError
from tests.mcpx.oauth.scripted_issuer import Fault, scripted_issuer
from tests.mcpx.oauth.signing_in import answered, config_for, sign_in, signed_in
from tests.mcpx.scripted import PATIENCE_S, open_watched, soon

pytestmark = pytest.mark.anyio
STEPS = ["resource_metadata", "metadata", "register", "token:authorization_code"]
HTML = {"content-type": "text/html"}
FAULTS = {
    "never answers": {"hold": True},
    "is cut": {"drop": True},
    "never ends": {"endless": True},
    "answers byte by byte": {"status": 200, "body": " " * 1000, "slowly": True},
    "answers with a page": {"status": 200, "body": "<script>alert(1)</script>", "headers": HTML},
    "answers with deep JSON": {"status": 200, "body": "[" * 100_000},
    "answers with an array": {"status": 200, "body": "[1]"},
    "answers with a bomb": {"status": 200, "body": b"\x1f\x8b", "headers": {"content-encoding": "gzip"}},
    "redirects elsewhere": {"redirect": "/x"},
    "redirects to a file": {"redirect": "file:///etc/passwd"},
    "asks for a password": {"status": 401, "headers": {"www-authenticate": "Basic"}},
    "is broken": {"status": 500, "body": "x" * 1000},
    "asks to wait": {"status": 429, "headers": {"retry-after": "100000000000000000000"}},
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("way", FAULTS)
async def test_a_step_goes_wrong(step, way, tmp_path, monkeypatch):
    monkeypatch.setattr(network, "REQUEST_TIMEOUT_S", 0.5)
    with scripted_issuer() as issuer:
        async with open_watched(config_for(issuer), state=tmp_path) as watch:
            fault = Fault(**FAULTS[way])
            if fault.redirect == "/x":
                fault.redirect = issuer.url("elsewhere", "/x")
            issuer.faults[step] = fault
            with anyio.fail_after(50), pytest.raises(SignInError) as caught:
                await sign_in(watch, issuer)
            said = str(caught.value)
            assert "MCPX failed" not in said
            assert len(said) < 500
            assert not any(secret in said for secret in issuer.secrets)
            assert not issuer.seen(origin="elsewhere")
            issuer.faults.clear()
            issuer.release()
            await sign_in(watch, issuer)
            await soon(lambda: watch.state("r") == "ready")
            assert await watch.text("whoami", server="r") == "alice"


async def test_a_server_that_sends_calls_elsewhere_does_not_send_the_token_there(tmp_path):
    with scripted_issuer() as issuer:
        async with open_watched(config_for(issuer), state=tmp_path) as watch:
            await sign_in(watch, issuer)
            issuer.faults["mcp:tools/call"] = Fault(redirect=issuer.url("elsewhere", "/mcp"))
            await watch.failure("count", server="r")
            assert not issuer.leaked_to("elsewhere")
            issuer.faults.clear()
            assert await watch.text("count", server="r") == "count"


@pytest.mark.parametrize("way", [way for way in FAULTS if way != "asks to wait"])
async def test_a_refresh_goes_wrong(way, tmp_path, monkeypatch):
    """Calls meanwhile have not run; later they do, and only a refusal makes somebody sign in."""
    monkeypatch.setattr(network, "REQUEST_TIMEOUT_S", 0.3)
    monkeypatch.setattr(renewal, "FIRST_PAUSE_S", 0.01)
    with scripted_issuer() as issuer:
        async with signed_in(issuer, tmp_path) as watch:
            fault = Fault(**FAULTS[way])
            if fault.redirect == "/x":
                fault.redirect = issuer.url("elsewhere", "/x")
            issuer.faults["token:refresh_token"] = fault
            issuer.expire()
            error = await watch.failure("count", server="r")
            assert error.outcome is Outcome.NOT_SENT
            assert len(str(error)) < 700
            assert not any(secret in str(error) for secret in issuer.secrets)
            assert not issuer.seen(origin="elsewhere")
            issuer.faults.clear()
            issuer.release()
            if way == "asks for a password":
                assert "mcpx login r" in str(error)
                await sign_in(watch, issuer)
            with anyio.fail_after(PATIENCE_S):
                while not await answered(watch):  # noqa: ASYNC110 - there is a pause between two refreshes
                    await anyio.sleep(0.02)
            assert issuer.asked == 1 + (way == "asks for a password")
            assert issuer.reuses == 0
