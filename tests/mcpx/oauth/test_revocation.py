"""Revoking tokens, as far as it can be had."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mcpx.oauth import token_requests
from mcpx.oauth.token_requests import revoke
from tests.mcpx.oauth.scripted_issuer import Fault, scripted_issuer
from tests.mcpx.oauth.signed_in import Person

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("secret", [None, "secret-of-mine"])
async def test_both_tokens_are_revoked(secret):
    with scripted_issuer() as issuer:
        issuer.add_client("mine", secret)
        person = Person(issuer, client_id="mine", client_secret=secret)
        record = await person.signs_in()

        await revoke(person.server, record)

        kinds = [each.form["token_type_hint"] for each in issuer.seen("revoke")]
        assert kinds == ["refresh_token", "access_token"]
        assert issuer.grants.access_of(record.tokens.access_token) is None
        assert all(family.revoked for family in issuer.grants.families.values())


@pytest.mark.parametrize(
    "fault", [Fault(status=500), Fault(drop=True), Fault(endless=True), Fault(hold=True)], ids=str
)
async def test_what_cannot_be_revoked_is_left(fault, monkeypatch):
    monkeypatch.setattr(token_requests, "REVOKE_TIMEOUT_S", 0.2)
    with scripted_issuer() as issuer:
        person = Person(issuer)
        record = await person.signs_in()
        issuer.faults["revoke"] = fault
        await revoke(person.server, record)
        issuer.release()


async def test_there_is_nothing_to_revoke_or_nowhere():
    with scripted_issuer() as issuer:
        person = Person(issuer)
        record = await person.signs_in()
        before = len(issuer.requests)
        nowhere = {key: each for key, each in record.metadata.items() if key != "revocation_endpoint"}
        insecure = {**record.metadata, "revocation_endpoint": "http://example.com/revoke"}
        for left in (
            replace(record, tokens=None),
            replace(record, metadata=None),
            replace(record, metadata=nowhere),
            replace(record, metadata=insecure),
            replace(record, registration=None),
        ):
            await revoke(person.server, left)
        assert len(issuer.requests) == before
