"""A hub with one server that wants a sign-in, and a person who signs in to it without a browser."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from mcpx.core.daemon.status import ServerStatus
from mcpx.core.daemon.status_snapshot import snapshot
from mcpx.core.protocol.context import ClientId, InputAnswers, read_capabilities
from mcpx.core.protocol.messages import Exec
from mcpx.core.protocol.requests import RequestContext
from mcpx.oauth.record import Record, Tokens
from tests.mcpx.oauth.scripted_issuer import Access, ScriptedIssuer, scripted_issuer
from tests.mcpx.scripted import Watch, config_of, open_watched

OPENS_LINKS = b'{"elicitation":{"form":{},"url":{}}}'
COUNTED = Exec("s", "count", b'{"key":"k"}')


class Scene(Watch):
    """The hub, and the issuer of its server `s`."""

    issuer: ScriptedIssuer

    async def sign_in(self, scope: str = "read", *, lifetime_s: float | None = 3600.0) -> None:
        """Put a token in force, as a sign-in does."""
        account = self.hub.upstreams["s"].account
        assert account is not None
        token = f"token-{time.monotonic_ns()}"
        expires_at = None if lifetime_s is None else time.time() + lifetime_s
        self.issuer.grants.access[token] = Access(token, "alice", scope, None, None, "c")
        tokens = Tokens(access_token=token, scope=scope, expires_at=expires_at)
        await account.adopt(Record(identity=account.identity, tokens=tokens))

    def status(self) -> ServerStatus:
        return next(iter(snapshot(self.hub, clients=0).servers))

    def tried(self) -> int:
        """How many requests the server has got."""
        return len([each for each in self.issuer.seen() if each.step.startswith("mcp:")])


@asynccontextmanager
async def scene_with(
    issuer: ScriptedIssuer,
    state: Path,
    *,
    settings: dict[str, Any] | None = None,
    settled: bool = True,
    **top: Any,
) -> AsyncIterator[Scene]:
    """A hub whose server `s` is that of the issuer."""
    config = config_of({"s": {"url": issuer.mcp_url, **(settings or {})}}, **top)
    async with open_watched(config, state=state, settled=settled) as watch:
        watch.__class__ = Scene
        assert isinstance(watch, Scene)
        watch.issuer = issuer
        yield watch


@asynccontextmanager
async def needs_sign_in(
    state: Path, *, settings: dict[str, Any] | None = None, top: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[Scene]:
    """A hub whose server `s` answers 401 and says where to sign in; both servers run in this process."""
    with scripted_issuer(**options) as issuer:
        async with scene_with(issuer, state, settings=settings, **(top or {})) as scene:
            yield scene


class Person:
    """A client of this machine that opens links, and its person, who signs in once they have agreed to."""

    log_level = None
    is_local = True
    is_peer = False

    def __init__(self, scene: Scene, *, modern: bool = False, action: str = "accept") -> None:
        self.client = ClientId()
        self.modern = modern
        self.capabilities = read_capabilities(OPENS_LINKS)
        self.asked: list[dict[str, Any]] = []
        self.action = action
        self._scene = scene

    def log(self, params: dict[str, Any]) -> None: ...

    async def ask(self, method: str, params: dict[str, Any], on_progress: Any) -> dict[str, Any]:
        assert method == "elicitation/create"
        return await self.shown(params)

    async def shown(self, params: dict[str, Any]) -> dict[str, Any]:
        """Open a link, or do not."""
        self.asked.append(params)
        if self.action == "accept":
            await anyio.to_thread.run_sync(self._scene.issuer.browse, params["url"])
        return {"action": self.action}

    def context(self, answers: InputAnswers | None = None) -> RequestContext:
        return RequestContext(client=self.client, caller=self, answers=answers)
