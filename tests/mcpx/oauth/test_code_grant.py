"""Signing a person in, against an authorization server that does what it is told."""

from __future__ import annotations

import logging

import anyio
import pytest
from msgspec.structs import replace

from mcpx.oauth import code_grant as module
from mcpx.oauth.answers import Callback
from mcpx.oauth.challenge import Challenge
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.record import Record
from tests.mcpx.oauth.scripted_issuer import Fault, scripted_issuer
from tests.mcpx.oauth.signed_in import BACK, Person, refusal, server_at, signed_in

pytestmark = pytest.mark.anyio
SECOND_CLIENT = 2


async def refused(person: Person, record: Record | None = None, **more: object) -> SignInError:
    """The error of a sign-in that fails."""
    return await refusal(person.issuer, person.signs_in(record, **more))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"discovery": "well-known"},
        {"discovery": "origin"},
        {"openid": True},
        {"issuer_path": "/tenant"},
        {"issuer_path": "/tenant", "openid": True},
        {"sends_iss": False},
        {"token_auth": ("client_secret_basic",)},
        {"token_auth": ("client_secret_post",)},
        {"path": "/"},
    ],
    ids=str,
)
async def test_a_person_signs_in(options):
    with scripted_issuer(**options) as issuer:
        person = Person(issuer)

        record = await person.signs_in()

        assert issuer.grants.access_of(record.tokens.access_token).person == "alice"
        assert record.tokens.refresh_token in issuer.secrets
        assert record.tokens.expires_at == pytest.approx(record.tokens.obtained_at + 3600)
        assert record.metadata["issuer"] == record.registration.issuer == issuer.issuer
        assert record.resource == person.asked_for["resource"]
        assert person.asked_for["code_challenge_method"] == "S256"
        assert list(record.registration.redirect_uris) == BACK
        (kept,) = person.saved
        assert (kept.tokens, kept.registration) == (None, record.registration)
        assert 0 < kept.revision < record.revision
        assert not issuer.leaked_to("elsewhere")
        (registered,) = issuer.seen("register")
        assert registered.json["application_type"] == "native"
        assert registered.json["client_name"] == "MCPX"


async def test_a_client_that_is_known_is_not_registered_again():
    async with signed_in() as (issuer, person, first):
        second = await person.signs_in(replace(first, tokens=None))
        assert second.registration == first.registration
        assert len(issuer.seen("register")) == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda issuer, record: issuer.forget_clients(),
        lambda issuer, record: {"issuer": "http://127.0.0.1:9/"},
        lambda issuer, record: {"redirect_uris": ("http://127.0.0.1:9/callback",)},
        lambda issuer, record: {"client_secret": "x", "client_secret_expires_at": 1.0},
    ],
    ids=["forgotten", "of another issuer", "other redirect", "expired"],
)
async def test_a_stale_client_is_registered_anew_once_before_the_person_is_asked(spoil):
    async with signed_in() as (issuer, person, first):
        changes = spoil(issuer, first) or {}
        stale = replace(first, tokens=None, registration=replace(first.registration, **changes))

        second = await person.signs_in(stale)

        assert second.registration.client_id != first.registration.client_id
        assert len(issuer.seen("register")) == SECOND_CLIENT
        assert issuer.asked == SECOND_CLIENT
        assert issuer.grants.access_of(second.tokens.access_token)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=404, times=1),
        Fault(redirect="http://127.0.0.1:9/error?error=invalid_client", times=1),
    ],
    ids=str,
)
async def test_an_issuer_says_in_its_own_way_that_it_does_not_know_the_client(fault):
    with scripted_issuer() as issuer:
        person = Person(issuer)
        first = replace(await person.signs_in(), tokens=None)
        issuer.faults["authorize"] = fault
        second = await person.signs_in(first)
        assert second.registration.client_id != first.registration.client_id


async def test_a_client_that_is_refused_at_the_end_is_registered_anew_by_the_next_sign_in():
    async with signed_in() as (issuer, person, first):
        issuer.faults["token"] = Fault(status=401, body={"error": "invalid_client"}, times=1)
        error = await refused(person, first)
        assert error.problem is Problem.CLIENT_REFUSED
        assert person.saved[-1].registration is None
        assert person.saved[-1].tokens == first.tokens
        await person.signs_in(person.saved[-1])
        assert len(issuer.seen("register")) == SECOND_CLIENT


@pytest.mark.parametrize(
    ("refusals", "uris", "scope"), [(0, BACK, "read"), (1, BACK, None), (2, BACK[:1], None)]
)
async def test_an_issuer_that_refuses_a_client_is_told_less_of_it(refusals, uris, scope):
    with scripted_issuer() as issuer:
        if refusals:
            said = {"error": "invalid_client_metadata"}
            issuer.faults["register"] = Fault(status=400, body=said, times=refusals)
        person = Person(issuer)
        record = await person.signs_in(scopes=["read"])
        assert list(record.registration.redirect_uris) == uris
        assert record.registration.scope == scope
        assert person.asked_for["scope"] == "read"
        assert issuer.asked == 1


@pytest.mark.parametrize(("status", "times"), [(400, 3), (403, 1)])
async def test_an_issuer_that_refuses_every_client_is_not_asked_for_long(status, times):
    with scripted_issuer() as issuer:
        issuer.faults["register"] = Fault(status=status)
        assert (await refused(Person(issuer))).problem is Problem.REGISTRATION_REFUSED
        assert len(issuer.seen("register")) == times


async def test_a_client_with_a_secret_shows_it_although_no_method_was_said():
    with scripted_issuer(token_auth=("client_secret_post",)) as issuer:
        issuer.registration = {"token_endpoint_auth_method": None}
        record = await Person(issuer).signs_in()
        assert record.registration.token_auth == "client_secret_post"


async def test_a_registration_does_not_replace_the_client_of_tokens_in_use():
    async with signed_in() as (issuer, person, first):
        person.saved.clear()
        issuer.forget_clients()
        await person.signs_in(first)
        assert person.saved == []


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", None])
async def test_a_configured_client_shows_its_secret_and_does_not_store_it(method):
    with scripted_issuer(registers=False) as issuer:
        issuer.add_client("mine", "s3cr:t/+ %")
        person = Person(issuer, client_id="mine", client_secret="s3cr:t/+ %", token_auth=method)
        record = await person.signs_in()
        assert record.registration.client_id == "mine"
        assert record.registration.client_secret is None
        assert issuer.grants.access_of(record.tokens.access_token)
        assert person.saved == []


async def test_a_metadata_document_is_the_client_where_the_server_takes_it():
    url = "https://client.example/mcpx.json"
    with scripted_issuer(takes_documents=True, registers=False) as issuer:
        record = await Person(issuer, client_metadata_url=url).signs_in()
        assert record.registration.client_id == url
    with scripted_issuer() as issuer:
        record = await Person(issuer, client_metadata_url=url).signs_in()
        assert record.registration.client_id != url


# --- what is asked for


async def test_scopes_of_the_challenge_are_asked_for_and_a_refresh_token():
    with scripted_issuer(more_scopes=("offline_access",)) as issuer:
        person = Person(issuer)
        await person.signs_in(challenge=Challenge(status=401, scope="read"))
        assert person.asked_for["scope"] == "read offline_access"
        assert person.asked_for["prompt"] == "consent"


async def test_a_step_up_asks_for_what_was_granted_and_what_is_wanted():
    with scripted_issuer() as issuer:
        person = Person(issuer)
        first = await person.signs_in(scopes=["read"])
        assert first.tokens.scope == "read"
        more = Challenge(status=403, error="insufficient_scope", scope="write")
        second = await person.signs_in(first, challenge=more)
        assert set(person.asked_for["scope"].split()) >= {"read", "write"}
        assert second.revision > first.revision


@pytest.mark.parametrize(
    ("said", "scopes", "is_known"),
    [
        ({}, ["read"], True),
        ({}, ["write"], False),
        ({"scope": "read write"}, ["write"], True),
        ({"scope": None}, ["write"], False),
        ({"scope": "nothing"}, ["read"], True),
    ],
    ids=str,
)
async def test_a_client_that_may_not_ask_for_more_scopes_is_registered_anew(said, scopes, is_known):
    with scripted_issuer() as issuer:
        issuer.registration = said
        person = Person(issuer)
        first = await person.signs_in(scopes=["read"])
        second = await person.signs_in(first, scopes=scopes)
        assert (second.registration.client_id == first.registration.client_id) is is_known
        assert issuer.asked == SECOND_CLIENT


async def test_nothing_is_asked_for_where_nobody_names_scopes():
    with scripted_issuer(scopes=(), more_scopes=("everything",)) as issuer:
        issuer.resource_metadata = {"scopes_supported": None}
        person = Person(issuer)
        await person.signs_in()
        assert "scope" not in person.asked_for


async def test_the_resource_is_left_out_where_the_configuration_says_so():
    with scripted_issuer(takes_resource=False) as issuer:
        error = await refused(Person(issuer))
        assert error.problem is Problem.DENIED
        assert '"resource": false' in str(error)
        person = Person(issuer, resource=False)
        record = await person.signs_in()
        assert "resource" not in person.asked_for
        assert record.resource is None


async def test_an_authorize_endpoint_keeps_its_own_query():
    with scripted_issuer() as issuer:
        issuer.metadata = {"authorization_endpoint": f"{issuer.issuer}/authorize?tenant=a&state=b"}
        person = Person(issuer)
        await person.signs_in()
        assert person.asked_for["tenant"] == "a"


# --- what goes wrong


async def test_a_person_who_says_no():
    with scripted_issuer(consent="deny") as issuer:
        error = await refused(Person(issuer))
        assert error.problem is Problem.DENIED
        assert "The person said no" in str(error)


@pytest.mark.parametrize(
    ("callback", "problem"),
    [
        ({"state": "other"}, Problem.STATE_MISMATCH),
        ({"state": None}, Problem.STATE_MISMATCH),
        ({"state": "other", "error": "access_denied"}, Problem.STATE_MISMATCH),
        ({"iss": "https://evil.example"}, Problem.WRONG_ISSUER),
        ({"iss": None}, Problem.WRONG_ISSUER),
        ({"iss": "https://evil.example", "error": "access_denied"}, Problem.WRONG_ISSUER),
        ({"code": None}, Problem.CODE_REFUSED),
        ({"code": "guessed"}, Problem.CODE_REFUSED),
        ({"code": None, "error": "temporarily_unavailable"}, Problem.UNREACHABLE),
        ({"code": None, "error": "unauthorized_client"}, Problem.CLIENT_REFUSED),
        ({"code": None, "error": "bad\x1b[31m\n" * 1000}, Problem.DENIED),
    ],
    ids=str,
)
async def test_a_browser_that_comes_back_with_something_else(callback, problem):
    with scripted_issuer() as issuer:
        issuer.callback = callback
        error = await refused(Person(issuer))
        assert error.problem is problem
        assert "evil.example" not in str(error) or problem is Problem.WRONG_ISSUER
        if problem is not Problem.CODE_REFUSED:
            assert issuer.seen("token") == []


@pytest.mark.parametrize(
    ("step", "fault", "problem"),
    [
        ("token", Fault(status=400, body={"error": "invalid_grant"}), Problem.CODE_REFUSED),
        ("token", Fault(status=401, body={"error": "invalid_client"}), Problem.CLIENT_REFUSED),
        ("token", Fault(status=503), Problem.UNREACHABLE),
        ("token", Fault(drop=True), Problem.UNREACHABLE),
        ("token", Fault(status=200, body=b"<html>"), Problem.UNREACHABLE),
        ("token", Fault(status=200, body={"access_token": "x", "token_type": "DPoP"}), Problem.GRANT_REFUSED),
        ("register", Fault(status=403), Problem.REGISTRATION_REFUSED),
        ("register", Fault(status=500), Problem.UNREACHABLE),
        ("register", Fault(status=201, body=b"[]"), Problem.REGISTRATION_REFUSED),
        ("register", Fault(status=201, body={"client_id": "x" * 9000}), Problem.REGISTRATION_REFUSED),
        ("register", Fault(status=201, body={"client_id": 7}), Problem.REGISTRATION_REFUSED),
        ("metadata", Fault(status=503), Problem.UNREACHABLE),
        ("metadata", Fault(status=404), Problem.NO_METADATA),
        ("metadata", Fault(status=200, body=b"<html>"), Problem.METADATA_REFUSED),
        ("metadata", Fault(endless=True), Problem.METADATA_REFUSED),
        ("resource_metadata", Fault(status=503), Problem.UNREACHABLE),
        ("resource_metadata", Fault(drop=True), Problem.UNREACHABLE),
    ],
    ids=str,
)
async def test_a_step_that_fails(step, fault, problem):
    with scripted_issuer() as issuer:
        issuer.faults[step] = fault
        error = await refused(Person(issuer))
        assert error.problem is problem


@pytest.mark.parametrize("step", ["resource_metadata", "metadata", "register", "token"])
async def test_nothing_follows_a_redirect_to_another_origin(step):
    with scripted_issuer() as issuer:
        issuer.faults[step] = Fault(redirect=issuer.url("elsewhere", "/x"))
        await refused(Person(issuer))
        assert issuer.seen(origin="elsewhere") == []


async def test_a_server_without_metadata():
    with scripted_issuer(discovery="none") as issuer:
        error = await refused(Person(issuer))
        assert error.problem is Problem.NO_METADATA


async def test_a_server_without_https():
    with scripted_issuer() as issuer:
        person = Person(issuer)
        person.server = server_at("http://intranet.example/mcp")
        error = await refused(person)
        assert error.problem is Problem.INSECURE
        assert "http://intranet.example/mcp" in str(error)


async def test_a_server_that_registers_nobody():
    with scripted_issuer(registers=False) as issuer:
        error = await refused(Person(issuer))
        assert error.problem is Problem.REGISTRATION_REFUSED
        assert BACK[0] in str(error)
        assert "client_id" in str(error)


@pytest.mark.parametrize("methods", [None, [], ["plain"], "S256"])
async def test_a_server_without_pkce_is_refused(methods):
    with scripted_issuer() as issuer:
        issuer.metadata = {"code_challenge_methods_supported": methods}
        error = await refused(Person(issuer))
        assert error.problem is Problem.METADATA_REFUSED
        assert "PKCE" in str(error)
        assert issuer.seen("register") == []


@pytest.mark.parametrize("discovery", ["header", "origin"])
async def test_a_server_that_lies_about_its_issuer(discovery):
    with scripted_issuer(discovery=discovery) as issuer:
        issuer.metadata = {"issuer": "https://honest.example"}
        error = await refused(Person(issuer))
        assert error.problem is Problem.WRONG_ISSUER
        assert "https://honest.example" in str(error)
        assert issuer.seen("register") == []


async def test_a_client_does_not_go_to_another_issuer():
    with scripted_issuer() as issuer:
        issuer.add_client("mine", "secret-of-mine")
        person = Person(issuer, client_id="mine", client_secret="secret-of-mine", issuer="https://as.example")
        error = await refused(person)
        assert error.problem is Problem.WRONG_ISSUER
        assert issuer.asked == 0


async def test_a_client_stays_with_the_issuer_that_it_was_used_at_first():
    with scripted_issuer() as one, scripted_issuer() as other:
        for issuer in (one, other):
            issuer.add_client("mine", "secret-of-mine")
        person = Person(one, client_id="mine", client_secret="secret-of-mine")
        record = await person.signs_in()
        one.resource_metadata = {"authorization_servers": [other.issuer]}
        error = await refused(person, record)
        assert error.problem is Problem.WRONG_ISSUER
        assert other.seen("authorize") == []


async def test_a_machine_is_no_person():
    with scripted_issuer() as issuer:
        person = Person(issuer, grant="client_credentials", client_id="m", client_secret="s")
        assert (await refused(person)).problem is Problem.NOT_FOR_PEOPLE


@pytest.mark.parametrize(("after_s", "is_forgotten"), [(-1.0, True), (60.0, False)])
async def test_a_person_who_gives_up_may_have_met_an_unknown_client(after_s, is_forgotten, monkeypatch):
    async def give_up(_url: str) -> Callback:
        scope.cancel()
        await anyio.sleep_forever()

    monkeypatch.setattr(module, "STUCK_AFTER_S", after_s)
    async with signed_in() as (_, person, in_use):
        person.saved.clear()
        for record in (in_use, replace(in_use, tokens=None)):
            with anyio.CancelScope() as scope:
                await person.signs_in(record, ask=give_up)
        assert [each.registration for each in person.saved] == ([None] if is_forgotten else [])


async def test_nothing_of_it_is_logged(caplog):
    caplog.set_level(logging.DEBUG)
    async with signed_in() as (issuer, person, record):
        issuer.callback = {"state": "other"}
        await refused(person, record)
        assert not any(secret in caplog.text for secret in issuer.secrets)
        assert person.asked_for["state"] not in caplog.text
        assert "OAuth flow error" not in caplog.text
