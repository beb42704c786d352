"""Metadata that name endpoints of two authorization servers, and those of one server with several hosts."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from mcpx.oauth.discovery import find_sign_in, token_note
from mcpx.oauth.errors import Problem
from tests.mcpx.oauth.scripted_issuer import Fault, scripted_issuer
from tests.mcpx.oauth.signed_in import Person, refusal, server_at

pytestmark = pytest.mark.anyio
PATHS = {
    "authorization_endpoint": "authorize",
    "token_endpoint": "token",
    "registration_endpoint": "register",
    "revocation_endpoint": "revoke",
    "userinfo_endpoint": "userinfo",
}
HONEST = pytest.mark.parametrize(
    "honest",
    [
        {},
        {"openid": True},
        {"issuer_path": "/tenant"},
        {"issuer_path": "/auth/realms/desk", "openid": True},
    ],
    ids=str,
)


def endpoints(issuer, *names):
    return {name: f"{issuer.issuer}/{PATHS[name]}" for name in names}


@contextmanager
def two_issuers(**honest):
    """One that tells lies about the other, in front of a server; and that other one."""
    with scripted_issuer(sends_iss=False) as hostile, scripted_issuer(sends_iss=False, **honest) as other:
        yield hostile, other


@HONEST
async def test_a_person_is_not_sent_to_one_server_with_a_code_for_another(honest):
    with two_issuers(**honest) as (hostile, other):
        hostile.metadata = endpoints(other, "authorization_endpoint", "registration_endpoint")
        error = await refusal(hostile, Person(hostile).signs_in())
        assert error.problem is Problem.WRONG_ISSUER
        assert other.issuer in str(error)
        assert (other.asked, other.seen("register"), hostile.seen("token")) == (0, [], [])


@HONEST
@pytest.mark.parametrize("name", PATHS)
async def test_no_endpoint_of_another_issuer_is_used(honest, name):
    with two_issuers(**honest) as (hostile, other):
        hostile.metadata = endpoints(other, name)
        error = await refusal(hostile, Person(hostile).signs_in())
        assert error.problem is Problem.WRONG_ISSUER
        assert {each.step.partition(":")[0] for each in other.requests} <= {"metadata", "other"}


async def test_all_endpoints_of_another_issuer_are_still_not_those_of_this_one():
    with two_issuers() as (hostile, other):
        hostile.metadata = endpoints(other, *PATHS)
        error = await refusal(hostile, Person(hostile).signs_in())
        assert error.problem is Problem.WRONG_ISSUER


async def test_a_host_that_names_this_issuer_with_another_token_endpoint_is_refused():
    with two_issuers() as (issuer, other):
        issuer.metadata = endpoints(other, "authorization_endpoint")
        other.metadata = {"issuer": issuer.issuer, "token_endpoint": f"{other.issuer}/token"}
        error = await refusal(issuer, Person(issuer).signs_in())
        assert error.problem is Problem.WRONG_ISSUER


@pytest.mark.parametrize("names_issuer", [False, True])
@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint"])
async def test_an_issuer_may_have_endpoints_on_several_hosts(name, names_issuer):
    with two_issuers(discovery="header" if names_issuer else "none") as (issuer, second):
        second.grants = issuer.grants
        issuer.metadata = endpoints(second, name)
        second.metadata = {"issuer": issuer.issuer, "token_endpoint": f"{issuer.issuer}/token"}
        second.metadata |= issuer.metadata
        record = await Person(issuer).signs_in()
        assert issuer.grants.access_of(record.tokens.access_token).person == "alice"
        hosts = [each.issuer.removeprefix("http://") for each in (issuer, second)]
        agree, token = hosts if name == "token_endpoint" else hosts[::-1]
        assert token_note(record.metadata) == f"you agree at {agree}; {token} gets the token"


async def test_a_page_for_every_path_is_no_metadata():
    with scripted_issuer() as issuer:
        issuer.metadata = {"revocation_endpoint": issuer.url("elsewhere", "/a/b/c/d/revoke")}
        for body in (b"<html>", {"error": "not found"}, [], {"issuer": 7}):
            issuer.faults["other"] = Fault(status=200, body=body)
            assert await find_sign_in(server_at(issuer.mcp_url)) is not None
        assert 0 < len(issuer.seen(origin="elsewhere")) <= 11 * 4


@pytest.mark.parametrize("fault", [Fault(status=503), Fault(drop=True)], ids=str)
async def test_a_host_that_cannot_say_now_whose_it_is_is_asked_again_later(fault):
    with scripted_issuer() as issuer:
        issuer.metadata = {"authorization_endpoint": issuer.url("elsewhere", "/authorize")}
        issuer.faults["other"] = fault
        error = await refusal(issuer, find_sign_in(server_at(issuer.mcp_url)))
        assert error.for_now


@pytest.mark.parametrize("path", ["/x/../authorize", "/x/%2e%2e/%2E./authorize", "/a/.%2e"])
async def test_a_path_that_browsers_read_otherwise_is_refused(path):
    with two_issuers() as (hostile, other):
        hostile.metadata = {"authorization_endpoint": other.issuer + path}
        error = await refusal(hostile, Person(hostile).signs_in())
        assert error.problem in {Problem.METADATA_REFUSED, Problem.WRONG_ISSUER}
        assert other.asked == 0


async def test_where_one_host_does_both_nothing_is_noted():
    with scripted_issuer() as issuer:
        assert token_note((await Person(issuer).signs_in()).metadata) is None
