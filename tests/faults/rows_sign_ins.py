"""The faults of signing in: of authorization servers, at refreshes and at sign-ins.

A token that expires is refreshed by the call that finds it, as well as ahead: rows let it expire early.
"""

from __future__ import annotations

from typing import Any

import anyio

from mcpx.errors import Code
from mcpx.oauth.errors import Problem
from tests.faults.stage import Seen
from tests.faults.stage_sign_in import PATIENCE_S, SETTINGS, sign_in_stage
from tests.faults.table import Faults
from tests.mcpx.oauth.scripted_issuer import Fault

faults = Faults()
UNAVAILABLE = Code.SERVER_UNAVAILABLE
REFRESH, EXCHANGE = "token:refresh_token", "token:authorization_code"
INVALID: dict[str, Any] = {"error": "invalid_grant", "error_description": "expired or revoked"}

# --- refreshes


@faults.row("sign-in: authorization server down when a token expires")
async def down(seen: Seen) -> None:
    """Calls are refused at once until it is back; then the next refresh makes it good, without a person."""
    async with sign_in_stage(seen) as on:
        on.issuer.go_down("issuer")
        on.expire()
        await on.caught(UNAVAILABLE, "cannot be reached")
        on.issuer.come_up("issuer")
        on.now()
        await on.recovers()


async def fails_for_now(seen: Seen, fault: Fault, *says: str, within: float = PATIENCE_S) -> None:
    """One refresh fails; calls meanwhile have not run; a later one makes it good, without a person."""
    async with sign_in_stage(seen) as on:
        on.issuer.faults[REFRESH] = fault
        on.expire()
        await on.caught(UNAVAILABLE, *says, within=within)
        on.issuer.faults.clear()
        on.issuer.release()
        on.now()
        await on.recovers()
        on.check(on.issuer.reuses == 0, "a refresh token was used twice")


@faults.row("sign-in: HTTP 503 at a refresh")
async def unavailable(seen: Seen) -> None:
    await fails_for_now(seen, Fault(status=503), "503", within=2)


@faults.row("sign-in: HTTP 429 at a refresh, with Retry-After")
async def limited(seen: Seen) -> None:
    await fails_for_now(seen, Fault(status=429, headers={"retry-after": "1"}), "429", within=2)


@faults.row("sign-in: a refresh is never answered")
async def silent(seen: Seen) -> None:
    """The call ends in its own time, and has not run."""
    async with sign_in_stage(seen) as on:
        on.issuer.faults[REFRESH] = Fault(hold=True)
        on.expire()
        await on.caught(UNAVAILABLE, "was not run", within=SETTINGS["call_timeout"] + 2)
        on.issuer.release()
        on.now()
        await on.recovers()


@faults.row("sign-in: a refresh is answered with a body without end")
async def endless(seen: Seen) -> None:
    await fails_for_now(seen, Fault(endless=True))


@faults.row("sign-in: a refresh is answered with a page")
async def page(seen: Seen) -> None:
    html = Fault(status=200, body="<html>Please log in</html>", headers={"content-type": "text/html"})
    await fails_for_now(seen, html, within=2)


@faults.row("sign-in: a refresh is redirected to another server")
async def redirected(seen: Seen) -> None:
    """Nothing goes there."""
    async with sign_in_stage(seen) as on:
        on.issuer.faults[REFRESH] = Fault(redirect=on.issuer.url("elsewhere", "/token"))
        on.expire()
        await on.caught(UNAVAILABLE)
        on.check(not on.issuer.seen(origin="elsewhere"), "the other server was asked")
        on.issuer.faults.clear()
        on.now()
        await on.recovers()


@faults.row("sign-in: connection cut in a refresh")
async def cut(seen: Seen) -> None:
    await fails_for_now(seen, Fault(drop=True), within=2)


@faults.row("sign-in: refresh token refused")
async def refused(seen: Seen) -> None:
    async with sign_in_stage(seen) as on:
        on.issuer.faults[REFRESH] = Fault(status=400, body=INVALID)
        on.expire()
        await on.caught(UNAVAILABLE, "mcpx login r")
        await on.needs_sign_in()
        on.issuer.faults.clear()
        on.now()
        await on.signs_in()


@faults.row("sign-in: access revoked at the authorization server")
async def revoked(seen: Seen) -> None:
    async with sign_in_stage(seen) as on:
        on.issuer.revoke_all()
        on.now()
        await on.caught(UNAVAILABLE, "mcpx login r")
        await on.needs_sign_in()
        await on.signs_in()


@faults.row("sign-in: server refuses every token")
async def refuses_all(seen: Seen) -> None:
    """One refresh and one call more, and then it waits for a person: no storm."""
    async with sign_in_stage(seen) as on:
        on.issuer.faults["mcp:tools/call"] = Fault(status=401, headers={"www-authenticate": "Bearer"})
        on.now()
        await on.caught(UNAVAILABLE, "mcpx login r")
        await on.needs_sign_in()
        on.check(on.issuer.refreshes == 1, f"{on.issuer.refreshes} refreshes")
        on.issuer.faults.clear()
        on.now()
        await on.signs_in()


@faults.row("sign-in: a call wants another scope")
async def scope(seen: Seen) -> None:
    """That call is told so; the session goes on."""
    async with sign_in_stage(seen) as on:
        await on.caught(UNAVAILABLE, "write", "mcpx login r", tool="admin")
        await on.answered()
        on.check_same_session()


@faults.row("sign-in: 64 calls find an expired token")
async def many(seen: Seen) -> None:
    """One refresh, and every call is answered."""
    async with sign_in_stage(seen) as on:
        on.expire()
        async with anyio.create_task_group() as tasks:
            for _ in range(64):
                tasks.start_soon(on.answered)
        on.check(on.issuer.refreshes == 1, f"{on.issuer.refreshes} refreshes")
        on.check_same_session()


# --- sign-ins


@faults.row("sign-in: authorization server down at the sign-in")
async def down_at_sign_in(seen: Seen) -> None:
    async with sign_in_stage(seen, signed_in=False) as on:
        on.issuer.go_down("issuer")
        await on.sign_in_fails(Problem.UNREACHABLE)
        on.issuer.come_up("issuer")
        on.now()
        await on.signs_in()


async def lies(seen: Seen, problem: Problem, *, within: float = 2, asks: int = 0, **said: Any) -> None:
    """A sign-in fails because of what is said; without that it succeeds. `{elsewhere}` is another server."""
    async with sign_in_stage(seen, signed_in=False) as on:
        on.may_ask += asks - 1
        elsewhere = on.issuer.url("elsewhere")
        for what, lie in said.items():
            told = {key: _filled(value, elsewhere) for key, value in lie.items()}
            getattr(on.issuer, what).update(told)
        await on.sign_in_fails(problem, within=within)
        on.check(not on.issuer.leaked_to("elsewhere"), "the other server got a secret")
        for what in said:
            getattr(on.issuer, what).clear()
        on.now()
        await on.signs_in()


def _filled(value: Any, elsewhere: str) -> Any:
    if isinstance(value, list):
        return [_filled(each, elsewhere) for each in value]
    return value.replace("{elsewhere}", elsewhere) if isinstance(value, str) else value


@faults.row("sign-in: authorization server lies about its issuer")
async def wrong_issuer(seen: Seen) -> None:
    await lies(seen, Problem.WRONG_ISSUER, metadata={"issuer": "{elsewhere}"})


@faults.row("sign-in: the browser comes back from another issuer")
async def another_issuer(seen: Seen) -> None:
    await lies(seen, Problem.WRONG_ISSUER, asks=1, callback={"iss": "{elsewhere}"})


@faults.row("sign-in: metadata for another server")
async def another_resource(seen: Seen) -> None:
    await lies(seen, Problem.METADATA_REFUSED, resource_metadata={"resource": "{elsewhere}/mcp"})


@faults.row("sign-in: token endpoint without https")
async def insecure(seen: Seen) -> None:
    await lies(seen, Problem.INSECURE, metadata={"token_endpoint": "http://auth.example.com/token"})


@faults.row("sign-in: an address of the cloud's metadata service")
async def link_local(seen: Seen) -> None:
    await lies(
        seen, Problem.INSECURE, resource_metadata={"authorization_servers": ["http://169.254.169.254"]}
    )


async def spoilt(seen: Seen, step: str, fault: Fault, problem: Problem, *, within: float = 2) -> None:
    """A sign-in fails at a step; once that works again, it succeeds."""
    async with sign_in_stage(seen, signed_in=False) as on:
        on.may_ask += 1 if step == EXCHANGE else 0
        on.may_ask -= 1
        if fault.redirect is not None:
            fault.redirect = on.issuer.url("elsewhere", fault.redirect)
        on.issuer.faults[step] = fault
        await on.sign_in_fails(problem, within=within)
        on.issuer.faults.clear()
        on.now()
        await on.signs_in()


@faults.row("sign-in: metadata without end")
async def endless_metadata(seen: Seen) -> None:
    await spoilt(seen, "metadata", Fault(endless=True), Problem.METADATA_REFUSED, within=PATIENCE_S)


@faults.row("sign-in: metadata redirected to another server")
async def redirected_metadata(seen: Seen) -> None:
    await spoilt(seen, "metadata", Fault(redirect="/x"), Problem.NO_METADATA)


@faults.row("sign-in: registration refused")
async def registration(seen: Seen) -> None:
    body = {"error": "invalid_client_metadata", "error_description": "not you"}
    await spoilt(seen, "register", Fault(status=400, body=body), Problem.REGISTRATION_REFUSED)


@faults.row("sign-in: code refused")
async def code(seen: Seen) -> None:
    await spoilt(seen, EXCHANGE, Fault(status=400, body=INVALID), Problem.CODE_REFUSED)


@faults.row("sign-in: the exchange of the code redirected to another server")
async def redirected_code(seen: Seen) -> None:
    await spoilt(seen, EXCHANGE, Fault(redirect="/token"), Problem.UNREACHABLE)


@faults.row("sign-in: the person says no")
async def denied(seen: Seen) -> None:
    async with sign_in_stage(seen, signed_in=False, consent="deny") as on:
        await on.sign_in_fails(Problem.DENIED, "The person said no.")
        on.issuer.options.consent = "allow"
        on.now()
        await on.signs_in()
