"""Reading `WWW-Authenticate`."""

from __future__ import annotations

import time

import httpx2
import pytest

from mcpx.oauth.challenge import MAX_HEADER_LEN, challenge_in

METADATA = "https://mcp.example/.well-known/oauth-protected-resource"


@pytest.mark.parametrize(
    ("header", "scope", "metadata", "error"),
    [
        (None, None, None, None),
        ("", None, None, None),
        ("Bearer", None, None, None),
        (f'Bearer resource_metadata="{METADATA}"', None, METADATA, None),
        (f"Bearer resource_metadata={METADATA}, scope=read", "read", METADATA, None),
        (f'bearer error = "invalid_token" ,RESOURCE_METADATA= "{METADATA}"', None, METADATA, "invalid_token"),
        ('Bearer scope="a  b", error="insufficient_scope"', "a b", None, "insufficient_scope"),
        ('Bearer realm="x, scope=\\"evil\\"", scope="good"', "good", None, None),
        ('Bearer realm="say \\"hi\\"", error="e"', None, None, "e"),
        ('Bearer xscope="evil", my_error="evil"', None, None, None),
        ('Basic realm="r", scope="evil", Bearer scope="good"', "good", None, None),
        ('Negotiate YWJj=, Bearer scope="good"', "good", None, None),
        ('Basic realm="r", scope="evil"', None, None, None),
        (f'DPoP algs="ES256", resource_metadata="{METADATA}"', None, METADATA, None),
        ('Bearer scope="", error=', None, None, None),
        ('Bearer scope="a", Bearer scope="b", error="e"', "a", None, "e"),
        ('Bearer scope="a \x7fb c"', "a c", None, None),
        ('Bearer scope="unfinished', None, None, None),
        ('=,,"; \\ ="', None, None, None),
    ],
)
def test_a_header_is_read(header, scope, metadata, error):
    headers = {} if header is None else {"WWW-Authenticate": header}
    found = challenge_in(httpx2.Response(401, headers=headers))
    assert (found.scope, found.resource_metadata, found.error) == (scope, metadata, error)
    assert found.status == 401


def test_several_headers_are_one():
    headers = [("WWW-Authenticate", 'Basic realm="r"'), ("WWW-Authenticate", 'Bearer scope="a"')]
    found = challenge_in(httpx2.Response(403, headers=headers))
    assert found.scope == "a"
    assert found.header == 'Basic realm="r", Bearer scope="a"'


@pytest.mark.parametrize(
    "header", ['Bearer a="' + "\\" * 100_000, "a " * 100_000, "=" * 100_000, '"' * 99_999]
)
def test_a_long_header_takes_no_time(header):
    begun = time.process_time()
    found = challenge_in(httpx2.Response(401, headers={"WWW-Authenticate": header}))
    assert len(found.header or "") <= MAX_HEADER_LEN
    assert time.process_time() - begun < 1


@pytest.mark.parametrize(
    ("status", "error", "wants"),
    [(403, "insufficient_scope", True), (401, "insufficient_scope", False), (403, "invalid_token", False)],
)
def test_more_scopes_are_wanted_by_a_403_that_says_so(status, error, wants):
    response = httpx2.Response(status, headers={"WWW-Authenticate": f'Bearer error="{error}"'})
    assert challenge_in(response).wants_more_scopes is wants
