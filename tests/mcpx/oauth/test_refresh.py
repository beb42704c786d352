"""Refreshing a token: what comes back, and which failures are for good."""

from __future__ import annotations

import time

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec.structs import replace

from mcpx.oauth import token_requests
from mcpx.oauth.errors import Problem
from mcpx.oauth.token_requests import refresh
from tests.mcpx.oauth.scripted_issuer import Fault, scripted_issuer
from tests.mcpx.oauth.signed_in import Person, refusal, server_at, signed_in

pytestmark = pytest.mark.anyio


async def test_a_refresh_is_one_request_and_no_discovery():
    async with signed_in() as (issuer, person, first):
        before = len(issuer.requests)

        second = await refresh(person.server, first)

        assert [each.step for each in issuer.requests[before:]] == ["token:refresh_token"]
        assert second.tokens.access_token != first.tokens.access_token
        assert second.tokens.refresh_token != first.tokens.refresh_token
        assert second.tokens.expires_at == pytest.approx(time.time() + 3600, abs=60)
        assert second.revision == first.revision + 1
        assert replace(second, tokens=first.tokens, revision=first.revision) == first
        assert issuer.grants.access_of(second.tokens.access_token)
        assert issuer.seen("token:refresh_token")[0].form["resource"] == issuer.mcp_url


async def test_what_the_answer_does_not_repeat_is_kept():
    async with signed_in(rotates=False) as (issuer, person, first):
        issuer.token_answer = {"scope": None, "expires_in": None, "refresh_token": ""}
        second = await refresh(person.server, first)
        assert second.tokens.refresh_token == first.tokens.refresh_token
        assert second.tokens.scope == first.tokens.scope
        assert second.tokens.expires_at is None


@pytest.mark.parametrize("expires_in", [0, -1, "", "soon", None, []])
async def test_a_lifetime_that_says_nothing_is_none(expires_in):
    async with signed_in() as (issuer, person, first):
        issuer.token_answer = {"expires_in": expires_in}
        assert (await refresh(person.server, first)).tokens.expires_at is None


async def test_an_answer_in_other_words_is_read():
    async with signed_in() as (issuer, person, first):
        issuer.token_answer = {
            "expires_in": "60.0",
            "scope": ["read", "wri\x1bte", "write"],
            "token_type": "bEARER",
        }
        tokens = (await refresh(person.server, first)).tokens
        assert tokens.scope == "read write"
        assert tokens.expires_at == pytest.approx(tokens.obtained_at + 60)


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_the_client_shows_its_secret(method):
    with scripted_issuer() as issuer:
        issuer.add_client("mine", "s3cr:t/+ %")
        person = Person(issuer, client_id="mine", client_secret="s3cr:t/+ %", token_auth=method)
        second = await refresh(person.server, await person.signs_in())
        assert issuer.grants.access_of(second.tokens.access_token)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
async def test_a_key_signs_codes_and_refreshes(algorithm):
    key = (
        ec.generate_private_key(ec.SECP256R1())
        if algorithm == "ES256"
        else rsa.generate_private_key(65537, 2048)
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    with scripted_issuer() as issuer:
        issuer.add_client("mine", public_key=key.public_key())
        person = Person(issuer, client_id="mine", private_key=pem, algorithm=algorithm)
        second = await refresh(person.server, await person.signs_in())
        assert issuer.grants.access_of(second.tokens.access_token)


async def test_a_key_that_cannot_sign_is_said_without_the_key():
    with scripted_issuer() as issuer:
        issuer.add_client("mine", public_key="x")
        person = Person(issuer)
        record = await person.signs_in()
        server = server_at(issuer.mcp_url, client_id="mine", private_key="-----BEGIN SECRET-----")
        error = await refusal(issuer, refresh(server, record))
        assert error.problem is Problem.CLIENT_REFUSED
        assert "BEGIN" not in str(error)


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (Fault(status=400, body={"error": "invalid_grant"}), Problem.GRANT_REFUSED),
        (Fault(status=400, body={"error": "invalid_scope"}), Problem.GRANT_REFUSED),
        (Fault(status=403, body={"error": "invalid_grant"}), Problem.GRANT_REFUSED),
        (Fault(status=200, body={"error": "bad_refresh_token"}), Problem.GRANT_REFUSED),
        (Fault(status=400, body=b"<html>"), Problem.GRANT_REFUSED),
        (Fault(status=400, body={"error": "invalid_client"}), Problem.CLIENT_REFUSED),
        (Fault(status=400, body={"error": "unauthorized_client"}), Problem.CLIENT_REFUSED),
        (Fault(status=401), Problem.CLIENT_REFUSED),
        (Fault(status=400, body={"error": "temporarily_unavailable"}), Problem.UNREACHABLE),
        (Fault(status=403, body=b"<html>blocked"), Problem.UNREACHABLE),
        (Fault(status=404), Problem.UNREACHABLE),
        (Fault(status=429), Problem.UNREACHABLE),
        (Fault(status=500, body={"error": "invalid_grant"}), Problem.UNREACHABLE),
        (Fault(status=503), Problem.UNREACHABLE),
        (Fault(status=200, body=b""), Problem.UNREACHABLE),
        (Fault(status=200, body=b"[" * 100_000), Problem.UNREACHABLE),
        (Fault(status=200, body={"access_token": 7}), Problem.UNREACHABLE),
        (Fault(status=200, body={"token_type": "Bearer"}), Problem.UNREACHABLE),
        (Fault(status=200, body={"access_token": "a\r\nx-evil: b"}), Problem.UNREACHABLE),
        (Fault(status=200, body={"access_token": ""}), Problem.UNREACHABLE),
        (Fault(endless=True), Problem.UNREACHABLE),
        (Fault(drop=True), Problem.UNREACHABLE),
    ],
    ids=str,
)
async def test_a_refusal_is_for_good_and_a_failure_for_now(fault, problem):
    async with signed_in() as (issuer, person, record):
        issuer.faults["token"] = fault
        error = await refusal(issuer, refresh(person.server, record))
        assert error.problem is problem
        assert error.for_now == (problem is Problem.UNREACHABLE)
        assert issuer.asked == 1
        assert len(issuer.seen("token:refresh_token")) == 1
        assert len(issuer.seen("register")) == 1


async def test_a_server_that_is_down_is_for_now():
    async with signed_in() as (issuer, person, record):
        issuer.go_down("issuer")
        error = await refusal(issuer, refresh(person.server, record))
        assert error.for_now
        assert "refused" in str(error)


async def test_a_network_in_which_somebody_else_answers_is_for_now():
    async with signed_in() as (issuer, person, record):
        near = {**record.metadata, "token_endpoint": "http://10.0.0.1/token"}
        assert (await refusal(issuer, refresh(person.server, replace(record, metadata=near)))).for_now


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("x", None), ("9" * 99, None), ("-1", None)])
async def test_how_long_to_wait_is_passed_on(header, seconds):
    async with signed_in() as (issuer, person, record):
        issuer.faults["token"] = Fault(status=429, headers={"retry-after": header})
        assert (await refusal(issuer, refresh(person.server, record))).retry_after_s == seconds


async def test_a_server_that_quotes_what_it_was_sent_is_not_quoted():
    async with signed_in() as (issuer, person, record):
        said = f"the token {record.tokens.refresh_token} is bad"
        issuer.faults["token"] = Fault(status=400, body={"error": "invalid_grant", "error_description": said})
        error = await refusal(issuer, refresh(person.server, record))
        assert "HTTP 400" in str(error)


async def test_a_refresh_ends(monkeypatch):
    monkeypatch.setattr(token_requests, "TOKEN_TIMEOUT_S", 0.05)
    async with signed_in() as (issuer, person, record):
        issuer.faults["token"] = Fault(hold=True)
        error = await refusal(issuer, refresh(person.server, record))
        issuer.release()
        assert error.for_now


async def test_there_is_nothing_to_refresh_with():
    async with signed_in(refresh_tokens=False) as (issuer, person, record):
        for nothing in (record, replace(record, tokens=None), replace(record, metadata=None)):
            error = await refusal(issuer, refresh(person.server, nothing))
            assert error.problem is Problem.GRANT_REFUSED
        gone = replace(record, registration=None, tokens=replace(record.tokens, refresh_token="r"))
        assert (await refusal(issuer, refresh(person.server, gone))).problem is Problem.CLIENT_REFUSED


async def test_a_token_endpoint_that_has_moved_is_found_again():
    async with signed_in() as (issuer, person, record):
        old = {**record.metadata, "token_endpoint": f"{issuer.issuer}/gone"}

        second = await refresh(person.server, replace(record, metadata=old))

        assert second.metadata == record.metadata
        assert issuer.grants.access_of(second.tokens.access_token)
        assert issuer.asked == 1


async def test_a_token_endpoint_does_not_move_to_another_issuer():
    with scripted_issuer() as issuer, scripted_issuer() as other:
        person = Person(issuer)
        record = await person.signs_in()
        issuer.resource_metadata = {"authorization_servers": [other.issuer]}
        issuer.faults["token"] = Fault(status=404)
        assert (await refusal(issuer, refresh(person.server, record))).for_now
        assert other.seen("token") == []


async def test_a_secret_does_not_go_to_another_issuer_than_its_own():
    with scripted_issuer() as issuer:
        issuer.add_client("mine", "secret-of-mine")
        person = Person(issuer, client_id="mine", client_secret="secret-of-mine")
        record = await person.signs_in()
        moved = server_at(
            issuer.mcp_url, client_id="mine", client_secret="secret-of-mine", issuer="https://as.example"
        )
        error = await refusal(issuer, refresh(moved, record))
        assert error.problem is Problem.WRONG_ISSUER
        assert issuer.seen("token:refresh_token") == []
