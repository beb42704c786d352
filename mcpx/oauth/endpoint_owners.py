"""Endpoints at other origins than their issuer's: refused where they belong to another issuer (RFC 9700 4.4).

Metadata of a hostile authorization server may name the authorization endpoint of an honest one beside a token
endpoint of its own: the person agrees at the honest one, and the code goes to the hostile one together with
its verifier. So each origin that metadata lead to is asked for metadata of its own, at its root and at the
paths above the endpoint, where a host of several issuers has them. It has none, as the second host of an
honest issuer, or they must name this issuer and this token endpoint.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final
from urllib.parse import unquote, urlsplit

import httpx2
from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls

from mcpx.core.text import one_line
from mcpx.oauth.addresses import origin, shown_origin
from mcpx.oauth.callback_answer import MAX_QUOTE_LEN
from mcpx.oauth.client import is_issuer
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.record import JSON

CHECKED: Final = (
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
    "userinfo_endpoint",
)
"""The endpoints that MCPX uses: each takes a secret, or makes one."""
MAX_DEPTH: Final = 3  # of the path of another issuer on the endpoint's host: `/auth/realms/NAME`

Fetch = Callable[[str], Awaitable[JSON | None]]
"""The JSON object at a URL; None where there is none. Raises `SignInError` where that cannot be known."""


async def check_owners(metadata: JSON, fetch: Fetch) -> None:
    """Refuse metadata, checked otherwise, that name endpoints of two authorization servers.

    Raises:
        SignInError: `WRONG_ISSUER`; or what `fetch` raises.
    """
    home = origin(httpx2.URL(metadata["issuer"]))
    owners: dict[str, list[JSON]] = {}  # by the issuer that they would be of
    for name in CHECKED:
        if (url := _url(metadata.get(name))) is None or origin(url) == home:
            continue
        if ".." in unquote(urlsplit(metadata[name]).path).split("/"):  # browsers take it for another path
            text = f"{name} of {one_line(metadata['issuer'], MAX_QUOTE_LEN)} has .. in its path"
            raise SignInError(Problem.METADATA_REFUSED, text)
        for issuer in _possible_issuers(url):
            if issuer not in owners:
                owners[issuer] = await _metadata_of(issuer, fetch)
            if owners[issuer]:
                _check(metadata, name, url, owners[issuer])
                break


def _check(metadata: JSON, name: str, url: httpx2.URL, found: list[JSON]) -> None:
    for each in found:
        if is_issuer(each["issuer"], metadata["issuer"]):
            theirs = _url(each.get("token_endpoint"))
            if theirs is None or theirs == _url(metadata.get("token_endpoint")):
                continue
        shown, other = (one_line(said["issuer"], MAX_QUOTE_LEN) for said in (metadata, each))
        text = (
            f"{shown} names an endpoint at {shown_origin(url)} ({name}), which belongs to {other} and has"
            " another token endpoint: a sign-in that mixes two authorization servers could give your account"
            " to somebody else, and is refused"
        )
        raise SignInError(Problem.WRONG_ISSUER, text)


def _url(value: object) -> httpx2.URL | None:
    try:
        return httpx2.URL(value) if isinstance(value, str) else None
    except httpx2.InvalidURL:
        return None  # it is refused where it is used


def _possible_issuers(url: httpx2.URL) -> Iterator[str]:
    """The issuers that an endpoint may belong to, by its path; the most specific first, the host last."""
    parts = url.path.strip("/").split("/")[:-1][:MAX_DEPTH]
    for count in range(len(parts), -1, -1):
        path = "/".join(("", *parts[:count]))
        yield str(url.copy_with(path=path or "/", query=None, fragment=None, userinfo=b"")).rstrip("/")


async def _metadata_of(issuer: str, fetch: Fetch) -> list[JSON]:
    """All metadata of an authorization server that stand where those of this issuer would."""
    urls = build_oauth_authorization_server_metadata_discovery_urls(issuer, issuer)
    found = [await fetch(url) for url in urls]
    return [each for each in found if each is not None and isinstance(each.get("issuer"), str)]


def token_note(metadata: JSON) -> str | None:
    """What to tell a person before they agree: where the token goes, if that is another host."""
    agree, token = _url(metadata.get("authorization_endpoint")), _url(metadata.get("token_endpoint"))
    if agree is None or token is None or origin(agree) == origin(token):
        return None
    return f"you agree at {_host(agree)}; {_host(token)} gets the token"


def _host(url: httpx2.URL) -> str:
    return one_line(url.netloc.decode("ascii"), MAX_QUOTE_LEN)
