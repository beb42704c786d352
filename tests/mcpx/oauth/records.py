"""Records, a store in memory, and an authorization server that is a function: for tests of accounts."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager

import anyio
import httpx2
from msgspec.structs import replace

from mcpx.core.config import Http, ServerConfig
from mcpx.core.config.server_config import OAuth
from mcpx.oauth.account import Account
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.record import Record, Registration, Tokens, identity_of

URL = "https://notes.example/mcp"
NO_AUTH = {"www-authenticate": 'Bearer resource_metadata="https://notes.example/.well-known/x"'}
NO_SCOPE = {"www-authenticate": 'Bearer error="insufficient_scope", scope="write"'}


def server_of(url=URL, **auth):
    return ServerConfig(name="notes", transport=Http(url=url, auth=OAuth(**auth)))


def tokens_of(number=1, *, now=None, lifetime_s=3600.0, refresh=True):
    now = time.time() if now is None else now
    return Tokens(
        access_token=f"access-{number:04}",
        refresh_token=f"refresh-{number:04}" if refresh else None,
        obtained_at=now,
        expires_at=None if lifetime_s is None else now + lifetime_s,
        scope="read",
    )


def record_of(number=1, *, server=None, revision=1, **tokens):
    return Record(
        identity=identity_of(server or server_of()),
        registration=Registration(client_id="client", client_secret="hush-hush-hush"),
        tokens=tokens_of(number, **tokens),
        metadata={"issuer": "https://issuer.example"},
        revision=revision,
    )


class MemoryStore:
    """A token store that several accounts may share. `failure` is raised by all that changes it."""

    def __init__(self, *records):
        self.kept = {each.identity: each for each in records}
        self.failure = None
        self.writes = 0
        self.locks = {}

    async def read(self, identity):
        return self.kept.get(identity)

    async def write(self, record):
        await anyio.lowlevel.checkpoint()
        if self.failure is not None:
            raise self.failure
        self.writes += 1
        self.kept[record.identity] = record

    async def delete(self, identity):
        if self.failure is not None:
            raise self.failure
        self.kept.pop(identity, None)

    @asynccontextmanager
    async def lock(self, identity):
        async with self.locks.setdefault(identity, anyio.Lock()):
            yield

    def stamp(self, identity):
        return None if identity not in self.kept else id(self.kept[identity])


class Issuer:
    """Rotates refresh tokens: takes the place of `refresh`, `obtain` and `find_sign_in`.

    `failures` are raised first, one each; `gate` is waited for, if it is set.
    """

    def __init__(self, monkeypatch, *, lifetime_s=3600.0, clock=time.time):
        self.number, self.lifetime_s, self.clock = 1, lifetime_s, clock
        self.failures, self.gate = [], None
        self.asked = []
        self.discovered = object()
        monkeypatch.setattr("mcpx.oauth.token_requests.refresh", self.refresh)
        monkeypatch.setattr("mcpx.oauth.token_requests.obtain", self.obtain)
        monkeypatch.setattr("mcpx.oauth.discovery.find_sign_in", self.find_sign_in)

    async def refresh(self, server, record):
        self.asked.append(record.tokens.refresh_token)
        await self._may_fail()
        if record.tokens.refresh_token != f"refresh-{self.number:04}":
            raise SignInError(Problem.GRANT_REFUSED, "the refresh token was used before")
        return self._next(record)

    async def obtain(self, server, record, challenge=None):
        self.asked.append(challenge and challenge.scope)
        await self._may_fail()
        return self._next(record or record_of(0, server=server))

    async def find_sign_in(self, server, challenge=None):
        self.asked.append("discovery")
        await self._may_fail()
        return self.discovered

    async def _may_fail(self):
        if self.gate is not None:
            await self.gate.wait()
        await anyio.lowlevel.checkpoint()
        if self.failures:
            raise self.failures.pop(0)

    def _next(self, record):
        self.number += 1
        tokens = tokens_of(self.number, now=self.clock(), lifetime_s=self.lifetime_s)
        return replace(record, tokens=tokens, revision=record.revision + 1)


class Clock:
    """Seconds since 1970, that pass by `pass_s` alone."""

    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now

    def pass_s(self, seconds):
        self.now += seconds


def account_of(store, *, server=None, clock=time.time, **more):
    server = server or server_of()
    return Account(server, identity_of(server), store, clock=clock, **more)


def request_to(url=URL):
    return httpx2.Request("POST", url, json={})


async def token_on(account, request=None):
    """What `authorize` puts on a request."""
    request = request or request_to()
    await account.authorize(request)
    return request.headers.get("authorization")


async def refuse(account, request, status=401, headers=NO_AUTH):
    """Have a request refused; whether it is to be sent again."""
    return await account.refused(request, httpx2.Response(status, headers=headers))
