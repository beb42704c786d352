"""A hub whose server wants a sign-in, and a person who signs in to it. For tests."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from mcpx.core.config import Config, parse
from mcpx.errors import CallError, Outcome
from tests.mcpx.oauth.scripted_issuer import ScriptedIssuer
from tests.mcpx.scripted import PATIENCE_S, Watch, open_watched
from tests.ports import free_port


def config_for(issuer: ScriptedIssuer, *names: str, entry: Any = None, **settings: Any) -> Config:
    """A configuration with entries of these names for the issuer's server: `r`, without names."""
    servers = {name: {"url": issuer.mcp_url, **(entry or {})} for name in names or ("r",)}
    whole = {"shutdown_grace": 0.2, "login_port": free_port(), **settings, "mcpServers": servers}
    return parse(json.dumps(whole), where="test")


async def sign_in(
    watch: Watch, issuer: ScriptedIssuer, name: str = "r", *, person: str = "alice", **more: Any
) -> None:
    """A person signs in to a server of a hub. Raises what `SignIns.begin` and its result do."""
    pending = watch.hub.sign_ins.begin(name, **more)
    try:
        with anyio.fail_after(PATIENCE_S):
            url = await pending.url()
            await anyio.to_thread.run_sync(lambda: issuer.browse(url, person=person))
            await pending.wait()
    finally:
        pending.leave()


async def answered(watch: Watch) -> bool:
    """Whether a call is answered; one that is not has not run."""
    try:
        await watch.text("count", server="r")
    except CallError as error:
        if error.outcome is not Outcome.NOT_SENT:
            raise
        return False
    return True


def expire_stored(state: Path) -> None:
    """Let what is stored be the sign-in of some time ago: its access tokens have expired."""
    for file in (state / "oauth").glob("*.json"):
        stored = json.loads(file.read_bytes())
        tokens = stored["record"]["tokens"]
        tokens["obtained_at"], tokens["expires_at"] = tokens["obtained_at"] - 7200, time.time() - 60
        file.write_text(json.dumps(stored))


@asynccontextmanager
async def signed_in(issuer: ScriptedIssuer, state: Path, **settings: Any) -> AsyncIterator[Watch]:
    """A hub with the issuer's server, called `r`, that somebody has signed in to and that has answered."""
    async with open_watched(config_for(issuer, **settings), state=state) as watch:
        await sign_in(watch, issuer)
        assert await watch.text("count", {"key": "first"}, server="r") == "first"
        yield watch
