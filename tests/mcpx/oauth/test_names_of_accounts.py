"""Whom a person has signed in as, where the authorization server tells it."""

from __future__ import annotations

import base64
import json

import pytest

from tests.mcpx.oauth.scripted_issuer import Fault, scripted_issuer
from tests.mcpx.oauth.signed_in import Person

pytestmark = pytest.mark.anyio


def id_token(claims):
    """An id token with a signature that nobody can check."""
    parts = (json.dumps({"alg": "RS256"}).encode(), claims, b"no signature")
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"sub": "1", "email": "al@x.example", "preferred_username": "al", "name": "Al"}, "al"),
        ({"sub": "1", "email": "al@x.example", "name": "Al"}, "al@x.example"),
        ({"sub": "1", "name": "Al"}, "Al"),
        ({"sub": "1"}, "1"),
        ({"sub": "1", "email": "", "preferred_username": 7, "name": " \t"}, "1"),
        ({"preferred_username": "al\x1b[31m\n\u202eevil"}, "al [31m evil"),
        ({"sub": "x" * 500}, "x" * 100 + "..."),
        ({}, None),
        ([], None),
    ],
    ids=str,
)
async def test_the_id_token_says_it(claims, name):
    with scripted_issuer() as issuer:
        issuer.token_answer = {"id_token": id_token(json.dumps(claims).encode())}
        record = await Person(issuer).signs_in()
        assert (record.account, record.tokens.access_token != "") == (name, True)


@pytest.mark.parametrize(
    "token",
    ["", "a.b", "a.b.c", "é.é.é", "..", "a" * 70_000, 7, None, id_token(b"[" * 5000), id_token(b"\xff")],
)
async def test_what_is_no_id_token_names_nobody_and_costs_nothing(token):
    with scripted_issuer() as issuer:
        issuer.token_answer = {"id_token": token}
        assert (await Person(issuer).signs_in()).account is None


@pytest.mark.parametrize("scopes", [["openid", "read"], ["read"]], ids=" ".join)
async def test_the_userinfo_endpoint_says_it_where_it_was_agreed_to(scopes):
    with scripted_issuer() as issuer:
        issuer.metadata = {"userinfo_endpoint": f"{issuer.issuer}/userinfo"}
        issuer.faults["other"] = Fault(status=200, body={"sub": "1", "email": "al@x.example"})
        record = await Person(issuer).signs_in(scopes=scopes)
        asked = [each for each in issuer.requests if each.path == "/userinfo"]
        if "openid" in scopes:
            assert record.account == "al@x.example"
            assert [each.headers["authorization"] for each in asked] == [
                f"Bearer {record.tokens.access_token}"
            ]
        else:
            assert (record.account, asked) == (None, [])


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=500),
        Fault(drop=True),
        Fault(status=200, body=b"<html>"),
        Fault(redirect="http://127.0.0.1:9/"),
    ],
    ids=str,
)
async def test_one_that_does_not_answer_costs_a_name_and_no_sign_in(fault):
    with scripted_issuer() as issuer:
        issuer.metadata = {"userinfo_endpoint": f"{issuer.issuer}/userinfo"}
        issuer.faults["other"] = fault
        record = await Person(issuer).signs_in(scopes=["openid"])
        assert (record.account, record.tokens is not None) == (None, True)
