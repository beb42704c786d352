"""Discovery of a sign-in: the server's own metadata (RFC 9728), then its authorization server's (RFC 8414).

OpenID Connect discovery is tried where an authorization server has no metadata of RFC 8414. A server
without metadata of its own is looked at as of 2025-03-26: it may be its own authorization server. Which URLs
are looked at, and in which order, is the SDK's knowledge. Unlike the SDK, this goes on after an answer that
is of no use, guesses no endpoints, and accepts metadata whose optional fields are odd.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final
from urllib.parse import unquote, urlsplit

import httpx2
import msgspec
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    create_oauth_metadata_request,
)
from mcp.shared.auth_utils import check_resource_allowed

from mcpx.core.config import Http, ServerConfig, Sse
from mcpx.core.text import one_line
from mcpx.errors import MCPXError
from mcpx.oauth.addresses import origin, shown_origin
from mcpx.oauth.answers import MAX_QUOTE_LEN, json_object
from mcpx.oauth.challenge import Challenge
from mcpx.oauth.client import is_issuer
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.network import OAuthNetwork, oauth_of, open_network, url_of
from mcpx.oauth.record import JSON, Identity, Record

_OK: Final = 200
_UNAUTHORIZED: Final = 401
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500
_CERTAIN: Final = (Problem.WRONG_ISSUER, Problem.UNREACHABLE)
"""Problems that a server has which signs people in, or may."""
_ORDER: Final = (Problem.WRONG_ISSUER, Problem.INSECURE, Problem.UNREACHABLE, Problem.METADATA_REFUSED)


class Discovered(msgspec.Struct, frozen=True, kw_only=True):
    """An authorization server that a server's tokens come from. Both metadata are as they came, checked."""

    issuer: str
    resource: str
    """What tokens are asked for (RFC 8707)."""
    metadata: JSON
    resource_metadata: JSON | None = None
    """None for a server that is its own authorization server."""

    def new_record(self, server: ServerConfig, identity: Identity, revision: int) -> Record:
        """Begin the record of a sign-in there, without a client and tokens."""
        return Record(
            identity=identity,
            resource=self.resource if oauth_of(server).resource else None,
            metadata=self.metadata,
            resource_metadata=self.resource_metadata,
            revision=revision,
        )


async def find_sign_in(server: ServerConfig, challenge: Challenge | None = None) -> Discovered | None:
    """Find where to sign in to a server; None if it says nothing of that: its 401 means something else.

    Takes two requests at best and a handful at worst, each of which is bounded.

    Raises:
        SignInError: `UNREACHABLE` where that cannot be known now (a 5xx, no connection): whether the server
            wants a sign-in is then only known if `challenge.resource_metadata` says so. `NO_METADATA`,
            `METADATA_REFUSED`, `WRONG_ISSUER`, `INSECURE` for one that wants a sign-in that is impossible.
    """
    async with open_network(server) as network:
        return await discover(network, challenge)


async def answers_401(server: ServerConfig) -> bool:
    """Return True if a server answers 401 to a request that asks for nothing, without a token."""
    if not isinstance(server.transport, Http | Sse):
        return False
    headers = {
        **server.transport.headers,
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }
    request = httpx2.Request("POST", server.transport.url, headers=headers, content=b"{}")
    try:
        async with open_network(server) as network:
            response = await network.send(request)
    except MCPXError:
        return False
    return response.status_code == _UNAUTHORIZED


async def discover(network: OAuthNetwork, challenge: Challenge | None = None) -> Discovered | None:
    """Do as `find_sign_in`, with connections that are open."""
    search = _Search(network)
    named = challenge.resource_metadata if challenge is not None else None
    if named is None and not search.is_secure:
        return None
    resource_metadata = await search.resource_metadata(named)
    issuer = _issuer_named(network.server, resource_metadata)
    metadata = await search.server_metadata(issuer)
    if metadata is None:
        if named is None:
            return None
        text = f"{network.server.name} does not say where its authorization server is"
        raise SignInError(Problem.NO_METADATA, text)
    resource = search.url if resource_metadata is None else resource_metadata["resource"]
    return Discovered(
        issuer=metadata["issuer"], resource=resource, metadata=metadata, resource_metadata=resource_metadata
    )


class _Search:
    """One search; what was wrong on the way is told only if nothing is found."""

    def __init__(self, network: OAuthNetwork) -> None:
        self._network = network
        self._name = network.server.name
        url = httpx2.URL(url_of(network.server))
        self.url = str(url.copy_with(userinfo=b"", query=None, fragment=None))
        """The server's URL in canonical form, without what may be secret in it."""
        self._origin = str(url.copy_with(userinfo=b"", raw_path=b"/", fragment=None)).rstrip("/")
        self._problems: list[SignInError] = []

    @property
    def is_secure(self) -> bool:
        """True if a sign-in to the server's own URL is allowed at all."""
        try:
            self._network.check_url(self.url, "the server")
        except SignInError:
            return False
        return True

    async def resource_metadata(self, named: str | None) -> JSON | None:
        """The server's own metadata; None if it has none. `named` is the URL that its challenge names."""
        if named is not None:
            self._network.check_url(named, f"the URL of the metadata of {self._name}")
        for url in dict.fromkeys(build_protected_resource_metadata_discovery_urls(named, self.url)):
            if (found := await self._document(url)) is not None and isinstance(found.get("resource"), str):
                self._check_resource(found["resource"])
                return found
        if named is not None:
            text = f"{self._name} names metadata for a sign-in, but none can be read at {_shown(named)}"
            raise self._worst() or SignInError(Problem.NO_METADATA, text)
        if (problem := self._worst()) is not None and problem.for_now:
            raise problem  # it says nothing of whether the server has metadata
        return None

    def _check_resource(self, resource: str) -> None:
        try:
            canonical = str(httpx2.URL(resource).copy_with(fragment=None))
        except httpx2.InvalidURL:
            canonical = ""
        if not check_resource_allowed(requested_resource=self.url, configured_resource=canonical):
            other = one_line(resource, MAX_QUOTE_LEN)
            text = (
                f'the metadata of {self._name} are those of another server, "{other}", and not of {self.url}'
            )
            raise SignInError(Problem.METADATA_REFUSED, text)

    async def server_metadata(self, issuer: str | None) -> JSON | None:
        """The metadata of an authorization server; of the server itself if none is named, or None."""
        expected = issuer or self._origin
        self._network.check_url(expected, f"the authorization server of {self._name}")
        self._problems.clear()
        for url in build_oauth_authorization_server_metadata_discovery_urls(expected, expected):
            if (found := await self._document(url)) is None:
                continue
            if not isinstance(said := found.get("issuer"), str):
                continue
            if is_issuer(said, expected):
                return await self._checked(found)
            text = (
                f"the authorization server of {self._name} should be {one_line(expected, MAX_QUOTE_LEN)}, but"
                f" calls itself {one_line(said, MAX_QUOTE_LEN)}: a sign-in there could give your account to"
                " somebody else, and is refused"
            )
            self._problems.append(SignInError(Problem.WRONG_ISSUER, text))
        if (problem := self._worst()) is not None and (issuer is not None or problem.problem in _CERTAIN):
            raise problem
        if issuer is None:
            return None
        shown = one_line(issuer, MAX_QUOTE_LEN)
        text = f"{self._name} names {shown} to sign in at, but that says nothing of itself (RFC 8414)"
        raise SignInError(Problem.NO_METADATA, text)

    async def _checked(self, metadata: JSON) -> JSON:
        """Metadata of an authorization server whose endpoints may be used, and are of one server."""
        shown = one_line(metadata["issuer"], MAX_QUOTE_LEN)
        for endpoint in ("authorization_endpoint", "token_endpoint"):
            url = metadata.get(endpoint)
            if url is None and endpoint == "authorization_endpoint":
                continue  # of one for machines only
            if not isinstance(url, str):
                text = f"the metadata of {shown} lack {endpoint}"
                raise SignInError(Problem.METADATA_REFUSED, text)
            self._network.check_url(url, f"{endpoint} of {shown}")
            if "#" in url:  # what is added to it would be lost
                text = f"{endpoint} of {shown} has a fragment, which none may have (RFC 6749 3.1)"
                raise SignInError(Problem.METADATA_REFUSED, text)
        await check_owners(metadata, self._certain_document)
        return metadata

    async def _certain_document(self, url: str) -> JSON | None:
        """The JSON object at a URL; None if there is none."""
        self._problems.clear()
        found = await self._document(url)
        if found is None and (problem := self._worst()) is not None and problem.for_now:
            raise problem
        return found

    async def _document(self, url: str) -> JSON | None:
        """The JSON object at a URL; None if there is none that can be had, the reason for which is noted."""
        try:
            response = await self._network.send(create_oauth_metadata_request(url))
        except SignInError as error:
            self._problems.append(error)
            return None
        status = response.status_code
        if status >= _SERVER_ERROR or status == _TOO_MANY_REQUESTS:
            text = f"the metadata of {self._name} cannot be had now: HTTP {status} at {_shown(url)}"
            self._problems.append(SignInError(Problem.UNREACHABLE, text))
        if status != _OK:
            return None
        if (found := json_object(response)) is not None:
            return found
        text = f"the metadata for a sign-in to {self._name} at {_shown(url)} are no JSON object"
        self._problems.append(SignInError(Problem.METADATA_REFUSED, text))
        return None

    def _worst(self) -> SignInError | None:
        """The problem that says most about why nothing was found."""
        return min(self._problems, key=lambda each: _ORDER.index(each.problem), default=None)


def _shown(url: str) -> str:
    return one_line(url, MAX_QUOTE_LEN)


def _issuer_named(server: ServerConfig, resource_metadata: JSON | None) -> str | None:
    """The authorization server to use: the configured one, else the first that the server names."""
    wanted = oauth_of(server).issuer
    named = (resource_metadata or {}).get("authorization_servers")
    servers = [each for each in named if isinstance(each, str) and each] if isinstance(named, list) else []
    if wanted is None:
        return servers[0] if servers else None
    if servers and not any(is_issuer(each, wanted) for each in servers):
        text = (
            f"{server.name} wants a sign-in at {one_line(servers[0], MAX_QUOTE_LEN)}, but the issuer in its"
            f" configuration is {wanted}: nothing was sent there"
        )
        raise SignInError(Problem.WRONG_ISSUER, text)
    return wanted


# --- endpoints at other origins than their issuer's: refused where they belong to another (RFC 9700 4.4)
#
# Metadata of a hostile authorization server may name the authorization endpoint of an honest one beside a
# token endpoint of its own: the person agrees at the honest one, and the code goes to the hostile one with
# its verifier. So each origin that metadata lead to is asked for metadata of its own, at its root and at the
# paths above the endpoint, where a host of several issuers has them. It has none, as the second host of an
# honest issuer, or they must name this issuer and this token endpoint.

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
    """Tell a person before they agree where the token goes, if that is another host."""
    agree, token = _url(metadata.get("authorization_endpoint")), _url(metadata.get("token_endpoint"))
    if agree is None or token is None or origin(agree) == origin(token):
        return None
    return f"you agree at {_host(agree)}; {_host(token)} gets the token"


def _host(url: httpx2.URL) -> str:
    return one_line(url.netloc.decode("ascii"), MAX_QUOTE_LEN)
