"""What an authorization server gives that no honest one would: it costs its own sign-in, and nothing else."""

from __future__ import annotations

import json
import time

import pytest

from mcpx.core.catalog.snapshot import iso_seconds
from mcpx.oauth.answers import MAX_LIFETIME_S
from mcpx.oauth.challenge import MAX_SCOPES_LEN, Challenge
from mcpx.oauth.discovery import find_sign_in
from mcpx.oauth.errors import Problem
from mcpx.oauth.record import decode_record, encode_record, record_path
from mcpx.oauth.token_store import TokenStore
from tests.mcpx.oauth.scripted_issuer import scripted_issuer
from tests.mcpx.oauth.signed_in import Person, refusal, server_at

pytestmark = pytest.mark.anyio
MANY_SCOPES = [f"scope{number}" for number in range(15_000)]
MAX_TEXT_LEN = 500


@pytest.mark.parametrize(
    ("lies", "odd"),
    [
        ("metadata", {"service_documentation": "\ud800"}),
        ("metadata", {"authorization_response_iss_parameter_supported": []}),
        ("metadata", {"client_id_metadata_document_supported": {}}),
        ("metadata", {"authorization_endpoint": "#"}),
        ("resource_metadata", {"resource_name": "\ud800"}),
        ("resource_metadata", {"scopes_supported": ["\ud800"]}),
    ],
    ids=repr,
)
async def test_metadata_that_cannot_be_used_are_refused(lies, odd):
    with scripted_issuer() as issuer:
        if "authorization_endpoint" in odd:
            odd = {"authorization_endpoint": f"{issuer.issuer}/authorize#part"}
        getattr(issuer, lies).update(odd)
        error = await refusal(issuer, Person(issuer).signs_in())
        assert error.problem in {Problem.METADATA_REFUSED, Problem.NO_METADATA}
        assert issuer.asked == 0


@pytest.mark.parametrize(
    "odd",
    [
        {"client_id": "a\r\nX: y"},
        {"client_id": "\ud800"},
        {"client_secret": "one line of it\nand another"},
        {"client_secret": "\ud800"},
    ],
    ids=repr,
)
async def test_a_client_that_cannot_be_shown_again_is_not_taken(odd):
    with scripted_issuer() as issuer:
        issuer.registration.update(odd)
        error = await refusal(issuer, Person(issuer).signs_in())
        assert error.problem is Problem.REGISTRATION_REFUSED


async def test_a_refresh_token_of_many_lines_is_not_taken():
    """Each line would be looked for in each text that MCPX writes."""
    with scripted_issuer() as issuer:
        issuer.token_answer["refresh_token"] = "\n".join(f"a line of it {number}" for number in range(9999))
        record = await Person(issuer).signs_in()
        assert record.tokens.refresh_token is None


@pytest.mark.parametrize("lifetime", [1e300, 1e15, 10**30])
async def test_a_token_for_ever_expires_at_a_time_that_can_be_shown(lifetime):
    with scripted_issuer() as issuer:
        issuer.token_answer["expires_in"] = lifetime
        record = await Person(issuer).signs_in()
        assert record.tokens.expires_at < time.time() + MAX_LIFETIME_S + 1
        assert iso_seconds(record.tokens.expires_at)
        assert decode_record(encode_record(record), record.identity) == record


async def test_a_client_for_ever_expires_at_a_time_that_can_be_kept():
    with scripted_issuer() as issuer:
        issuer.registration.update(client_secret="a secret of it", client_secret_expires_at=10**400)
        record = await Person(issuer).signs_in()
        assert record.registration.client_secret_expires_at < time.time() + MAX_LIFETIME_S + 1
        assert decode_record(encode_record(record), record.identity) == record


async def test_a_record_with_a_time_that_no_calendar_has_is_set_aside(tmp_path):
    with scripted_issuer() as issuer:
        record = await Person(issuer).signs_in()
    store = TokenStore(tmp_path)
    async with store.lock(record.identity):
        await store.write(record)
    path = record_path(store.folder, record.identity)
    stored = json.loads(path.read_bytes())
    stored["record"]["tokens"]["expires_at"] = 1e300
    path.write_text(json.dumps(stored))
    assert await store.read(record.identity) is None


async def test_scopes_without_end_are_cut_off():
    with scripted_issuer(challenge_scope=None) as issuer:
        issuer.resource_metadata["scopes_supported"] = [*MANY_SCOPES, "a b\x1b[31m", "\u202eevil"]
        person = Person(issuer)
        await person.signs_in()
        assert 0 < len(person.asked_for["scope"]) <= MAX_SCOPES_LEN
        issuer.resource_metadata.clear()
        issuer.token_answer["scope"] = " ".join(MANY_SCOPES)
        record = await person.signs_in()
        assert record.tokens.scope.split() == MANY_SCOPES[: len(record.tokens.scope.split())]
        assert len(record.tokens.scope) <= MAX_SCOPES_LEN


async def test_a_long_address_of_metadata_is_not_quoted_whole():
    with scripted_issuer(discovery="none") as issuer:
        url = issuer.url("resource", "/" + "ignore-all-" * 500)
        error = await refusal(
            issuer,
            find_sign_in(server_at(issuer.mcp_url), Challenge(status=401, resource_metadata=url)),
        )
        assert len(str(error)) < MAX_TEXT_LEN
