"""Signing in without a person."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec.structs import replace

from mcpx.oauth.challenge import Challenge
from mcpx.oauth.errors import Problem
from mcpx.oauth.token_requests import obtain
from tests.mcpx.oauth.scripted_issuer import Fault, scripted_issuer
from tests.mcpx.oauth.signed_in import refusal, server_at

pytestmark = pytest.mark.anyio
ROBOT = {"grant": "client_credentials", "client_id": "robot"}
TWICE = 2


@pytest.mark.parametrize("method", [None, "client_secret_basic", "client_secret_post"])
@pytest.mark.parametrize("discovery", ["header", "origin"])
async def test_a_client_signs_in_by_its_secret(method, discovery):
    with scripted_issuer(discovery=discovery) as issuer:
        issuer.metadata = {"authorization_endpoint": None}
        issuer.add_client("robot", "secret-of-robot")
        server = server_at(issuer.mcp_url, **ROBOT, client_secret="secret-of-robot", token_auth=method)

        record = await obtain(server, None, Challenge(status=401, scope="read"))

        assert issuer.grants.access_of(record.tokens.access_token).scope == "read"
        assert record.tokens.refresh_token is None
        assert record.registration.client_secret is None
        assert "secret-of-robot" not in repr(record)
        assert issuer.asked == 0


async def test_a_client_signs_in_by_its_key():
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    with scripted_issuer() as issuer:
        issuer.add_client("robot", public_key=key.public_key())
        record = await obtain(server_at(issuer.mcp_url, **ROBOT, private_key=pem, algorithm="ES256"), None)
        assert issuer.grants.access_of(record.tokens.access_token)


async def test_a_token_is_obtained_anew_without_discovery():
    with scripted_issuer() as issuer:
        issuer.add_client("robot", "secret-of-robot")
        server = server_at(issuer.mcp_url, **ROBOT, client_secret="secret-of-robot")
        first = await obtain(server, None)
        before = len(issuer.requests)
        second = await obtain(server, first)
        assert [each.step for each in issuer.requests[before:]] == ["token:client_credentials"]
        assert second.tokens.access_token != first.tokens.access_token
        assert second.revision == first.revision + 1


async def test_old_metadata_are_replaced_when_the_server_refuses_a_token_and_kept_while_there_are_no_others():
    with scripted_issuer() as issuer:
        issuer.add_client("robot", "secret-of-robot")
        server = server_at(issuer.mcp_url, **ROBOT, client_secret="secret-of-robot")
        first = await obtain(server, None)
        old = replace(first, metadata={**first.metadata, "token_endpoint": f"{issuer.issuer}/gone"})
        assert (await refusal(issuer, obtain(server, old))).for_now
        assert (await obtain(server, old, Challenge(status=401))).metadata == first.metadata
        issuer.faults["resource_metadata"] = Fault(status=503)
        assert (await obtain(server, first, Challenge(status=401))).metadata == first.metadata


async def test_configured_scopes_are_asked_for():
    with scripted_issuer(more_scopes=("offline_access",)) as issuer:
        issuer.add_client("robot", "secret-of-robot")
        server = server_at(issuer.mcp_url, **ROBOT, client_secret="secret-of-robot", scopes=("write",))
        await obtain(server, None)
        assert issuer.seen("token")[0].form["scope"] == "write"


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (Fault(status=401, body={"error": "invalid_client"}), Problem.CLIENT_REFUSED),
        (Fault(status=400, body={"error": "unsupported_grant_type"}), Problem.GRANT_REFUSED),
        (Fault(status=503), Problem.UNREACHABLE),
        (Fault(status=200, body=b"?"), Problem.UNREACHABLE),
        (Fault(endless=True), Problem.UNREACHABLE),
    ],
    ids=str,
)
async def test_a_refusal_is_for_good_and_a_failure_for_now(fault, problem):
    with scripted_issuer() as issuer:
        issuer.add_client("robot", "secret-of-robot")
        issuer.faults["token"] = fault
        server = server_at(issuer.mcp_url, **ROBOT, client_secret="secret-of-robot")
        assert (await refusal(issuer, obtain(server, None))).problem is problem


async def test_a_server_that_moves_to_another_issuer_does_not_get_the_secret():
    with scripted_issuer() as one, scripted_issuer() as other:
        one.add_client("robot", "secret-of-robot")
        server = server_at(one.mcp_url, **ROBOT, client_secret="secret-of-robot", issuer=one.issuer)
        await obtain(server, None)
        one.resource_metadata = {"authorization_servers": [other.issuer]}
        error = await refusal(one, obtain(server, None))
        assert error.problem is Problem.WRONG_ISSUER
        assert other.requests == []


async def test_of_several_issuers_the_configured_one_is_taken():
    with scripted_issuer() as one, scripted_issuer() as other:
        one.add_client("robot", "secret-of-robot")
        one.resource_metadata = {"authorization_servers": [other.issuer, one.issuer]}
        server = server_at(one.mcp_url, **ROBOT, client_secret="secret-of-robot", issuer=one.issuer)
        assert (await obtain(server, None)).registration.issuer == one.issuer
        assert other.requests == []


async def test_no_metadata_no_token():
    with scripted_issuer(discovery="none") as issuer:
        server = server_at(issuer.mcp_url, **ROBOT, client_secret="secret-of-robot")
        assert (await refusal(issuer, obtain(server, None))).problem is Problem.NO_METADATA
