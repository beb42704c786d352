"""A person who signs in to a scripted issuer, for the tests of what comes afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, urlsplit

import anyio
import pytest

from mcpx.core.config import Http, ServerConfig
from mcpx.core.config.server_config import OAuth
from mcpx.oauth.answers import Callback
from mcpx.oauth.code_grant import sign_in
from mcpx.oauth.errors import SignInError
from mcpx.oauth.record import Record
from tests.mcpx.oauth.scripted_issuer import ScriptedIssuer, scripted_issuer

BACK = [f"http://127.0.0.1:{port}/callback" for port in range(8767, 8772)]


class Person:
    """Signs in at once, in a browser of the scripted issuer; `saved` are the records that were stored."""

    def __init__(self, issuer: ScriptedIssuer, /, **auth: object) -> None:
        self.issuer = issuer
        self.server = server_at(issuer.mcp_url, **auth)
        self.saved: list[Record] = []
        self.urls: list[str] = []

    async def ask(self, url: str) -> Callback:
        """Agree; the URL is noted in `urls`."""
        self.urls.append(url)
        address = await anyio.to_thread.run_sync(self.issuer.consent, url)
        return Callback(**dict(parse_qsl(urlsplit(address).query)))

    async def save(self, record: Record) -> None:
        """Note a record in `saved`."""
        assert record.tokens is None or record.registration is None
        self.saved.append(record)

    async def signs_in(self, record: Record | None = None, **more: object) -> Record:
        """The record of a sign-in."""
        more = {"redirect_uris": BACK, "ask": self.ask, **more}
        return await sign_in(self.server, record, save=self.save, **more)

    @property
    def asked_for(self) -> dict[str, str]:
        """The parameters of the last authorization request."""
        return dict(parse_qsl(urlsplit(self.urls[-1]).query))


@asynccontextmanager
async def signed_in(**options: object) -> AsyncIterator[tuple[ScriptedIssuer, Person, Record]]:
    """An issuer with these options, a person who has signed in there, and the record of that."""
    with scripted_issuer(**options) as issuer:
        person = Person(issuer)
        yield issuer, person, await person.signs_in()


def server_at(url: str, **auth: object) -> ServerConfig:
    """A server over HTTP with these settings of `auth`."""
    return ServerConfig(name="notes", transport=Http(url=url, auth=OAuth(**auth)))


async def refusal(issuer: ScriptedIssuer, step) -> SignInError:
    """The error of a step that fails, which shows no secret."""
    with pytest.raises(SignInError) as raised:
        await step
    text = str(raised.value)
    assert not any(secret in text for secret in issuer.secrets)
    assert text.isprintable()
    return raised.value
