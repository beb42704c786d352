"""Finding where to sign in; and which server says nothing of that."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from mcpx.oauth.challenge import Challenge
from mcpx.oauth.discovery import find_sign_in, token_note
from mcpx.oauth.errors import Problem
from tests.mcpx.oauth.scripted_issuer import Fault, scripted_issuer
from tests.mcpx.oauth.signed_in import Person, refusal, server_at

pytestmark = pytest.mark.anyio
PROTECTED = "/.well-known/oauth-protected-resource"


def challenge_of(issuer):
    """The challenge of a server that names its metadata."""
    return Challenge(status=401, resource_metadata=issuer.url("resource", PROTECTED))


@pytest.mark.parametrize("named", [True, False])
async def test_a_server_says_where_to_sign_in(named):
    with scripted_issuer() as issuer:
        found = await find_sign_in(server_at(issuer.mcp_url), challenge_of(issuer) if named else None)
        assert found.issuer == issuer.issuer
        assert found.resource == issuer.mcp_url
        assert found.metadata["token_endpoint"] == f"{issuer.issuer}/token"
        assert found.resource_metadata["authorization_servers"] == [issuer.issuer]
        assert [each.step for each in issuer.requests] == [
            "resource_metadata",
            "metadata:oauth-authorization-server",
        ]


async def test_a_server_may_be_its_own_authorization_server():
    with scripted_issuer(discovery="origin") as issuer:
        found = await find_sign_in(server_at(f"{issuer.mcp_url}?key=secret"))
        assert found.issuer == issuer.issuer
        assert found.resource_metadata is None
        assert found.resource == issuer.mcp_url


async def test_a_server_without_metadata_says_nothing():
    with scripted_issuer(discovery="none") as issuer:
        assert await find_sign_in(server_at(issuer.mcp_url), Challenge(status=401)) is None


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"", b'"x"', {"error": "not found"}], ids=str)
async def test_a_server_with_a_page_for_every_path_says_nothing(body):
    with scripted_issuer(discovery="none") as issuer:
        for step in ("resource_metadata", "metadata", "other"):
            issuer.faults[step] = Fault(status=200, body=body)
        assert await find_sign_in(server_at(issuer.mcp_url)) is None


async def test_a_server_that_names_metadata_which_are_not_there():
    with scripted_issuer(discovery="none") as issuer:
        error = await refusal(issuer, find_sign_in(server_at(issuer.mcp_url), challenge_of(issuer)))
        assert error.problem is Problem.NO_METADATA


async def test_the_well_known_places_are_tried_after_the_one_that_is_named():
    with scripted_issuer() as issuer:
        named = Challenge(status=401, resource_metadata=issuer.url("resource", "/nothing"))
        assert await find_sign_in(server_at(issuer.mcp_url), named) is not None


@pytest.mark.parametrize("step", ["resource_metadata", "metadata"])
@pytest.mark.parametrize("fault", [Fault(status=500), Fault(status=429), Fault(drop=True)], ids=str)
async def test_what_cannot_be_known_now_is_said(step, fault):
    with scripted_issuer() as issuer:
        issuer.faults[step] = fault
        error = await refusal(issuer, find_sign_in(server_at(issuer.mcp_url)))
        assert error.for_now


@pytest.mark.parametrize(
    "resource", ["https://other.example/mcp", "http://127.0.0.1:1/mcp", "https://[", "x", "", "a\x1b\n" * 500]
)
async def test_metadata_of_another_server_are_refused(resource):
    with scripted_issuer() as issuer:
        issuer.resource_metadata = {"resource": resource}
        error = await refusal(issuer, find_sign_in(server_at(issuer.mcp_url)))
        assert error.problem is Problem.METADATA_REFUSED
        assert issuer.seen("metadata") == []


@pytest.mark.parametrize("path", ["", "/", "/mcp", "/mcp/"])
async def test_metadata_of_the_whole_server_hold_for_its_parts(path):
    with scripted_issuer() as issuer:
        issuer.resource_metadata = {"resource": issuer.url("resource") + path}
        found = await find_sign_in(server_at(issuer.mcp_url))
        assert found.resource == issuer.url("resource") + path


@pytest.mark.parametrize("path", ["", "/tenant"])
async def test_a_slash_behind_an_issuer_is_nothing(path):
    with scripted_issuer(issuer_path=path) as issuer:
        issuer.resource_metadata = {"authorization_servers": [f"{issuer.issuer}/"]}
        assert (await find_sign_in(server_at(issuer.mcp_url))).issuer == issuer.issuer


@pytest.mark.parametrize("openid", [True, False])
@pytest.mark.parametrize("said", ["https://honest.example", "", "{}/tenant", "{}/../x", "https://[", "x"])
async def test_metadata_of_another_issuer_are_refused(openid, said):
    with scripted_issuer(openid=openid) as issuer:
        issuer.metadata = {"issuer": said.format(issuer.issuer)}
        error = await refusal(issuer, find_sign_in(server_at(issuer.mcp_url)))
        assert error.problem is Problem.WRONG_ISSUER


@pytest.mark.parametrize(
    ("lie", "problem"),
    [
        ({"token_endpoint": None}, Problem.METADATA_REFUSED),
        ({"token_endpoint": 7}, Problem.METADATA_REFUSED),
        ({"token_endpoint": "http://as.example/token"}, Problem.INSECURE),
        ({"authorization_endpoint": "javascript:alert(1)"}, Problem.INSECURE),
        ({"authorization_endpoint": "file:///etc/passwd"}, Problem.INSECURE),
        ({"authorization_endpoint": "http://as.example/"}, Problem.INSECURE),
        ({"token_endpoint": "http://169.254.169.254/token"}, Problem.INSECURE),
    ],
    ids=str,
)
async def test_endpoints_that_cannot_be_used_are_refused(lie, problem):
    with scripted_issuer() as issuer:
        issuer.metadata = lie
        error = await refusal(issuer, find_sign_in(server_at(issuer.mcp_url)))
        assert error.problem is problem


async def test_odd_values_that_nobody_needs_do_no_harm():
    with scripted_issuer() as issuer:
        issuer.metadata = {"service_documentation": "", "ui_locales_supported": 7, "jwks_uri": "?"}
        issuer.resource_metadata = {"resource_documentation": "", "jwks_uri": "?", "scopes_supported": 7}
        assert await find_sign_in(server_at(issuer.mcp_url)) is not None


@pytest.mark.parametrize(
    "named", ["http://169.254.169.254/latest", "http://as.example/", "file:///etc/passwd", "x"]
)
async def test_no_request_goes_where_a_challenge_must_not_lead(named):
    with scripted_issuer() as issuer:
        challenge = Challenge(status=401, resource_metadata=named)
        error = await refusal(issuer, find_sign_in(server_at(issuer.mcp_url), challenge))
        assert error.problem is Problem.INSECURE
        assert issuer.requests == []


async def test_a_server_without_https_has_no_sign_in_unless_it_says_so():
    server = server_at("http://intranet.example/mcp")
    assert await find_sign_in(server, Challenge(status=401)) is None


async def test_metadata_without_authorization_servers_lead_to_the_server_itself():
    with scripted_issuer(discovery="origin") as issuer:
        body = {"resource": issuer.mcp_url}
        issuer.faults["resource_metadata"] = Fault(status=200, body=body)
        assert (await find_sign_in(server_at(issuer.mcp_url))).issuer == issuer.issuer


@pytest.mark.parametrize("servers", [None, [], "https://as.example", [7], {}], ids=str)
async def test_a_server_that_names_no_authorization_server(servers):
    with scripted_issuer() as issuer:
        issuer.resource_metadata = {"authorization_servers": servers}
        assert await find_sign_in(server_at(issuer.mcp_url)) is None
        error = await refusal(issuer, find_sign_in(server_at(issuer.mcp_url), challenge_of(issuer)))
        assert error.problem is Problem.NO_METADATA


@pytest.mark.parametrize("named", ["https://[", "http://as.example", "x"])
async def test_an_issuer_that_is_no_address_is_refused(named):
    with scripted_issuer() as issuer:
        issuer.resource_metadata = {"authorization_servers": [named, issuer.issuer]}
        error = await refusal(issuer, find_sign_in(server_at(issuer.mcp_url)))
        assert error.problem is Problem.INSECURE


async def test_a_configured_issuer_is_used_where_the_server_names_none():
    with scripted_issuer() as issuer:
        issuer.resource_metadata = {"authorization_servers": None}
        found = await find_sign_in(server_at(issuer.mcp_url, issuer=issuer.issuer))
        assert found.issuer == issuer.issuer


# --- metadata that name endpoints of two authorization servers, and those of one server with several hosts

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
