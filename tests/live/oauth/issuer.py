"""The authorization server of `provider.mjs` and the server of `notes_server.py`, as the tests see them."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import httpx2
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests.live import servers
from tests.live.conformance.suite import node
from tests.live.processes import serving

PROVIDER: Final = servers.HERE / "oauth" / "provider.mjs"
PATIENCE_S: Final = 50.0
CLIENT_DOCUMENT_URL: Final = "https://client.example/mcpx.json"
"""What the provider takes for the address of a client's metadata document."""
CLIENT_DOCUMENT: Final = {
    "client_id": CLIENT_DOCUMENT_URL,
    "client_name": "MCPX",
    "application_type": "native",
    "redirect_uris": ["http://127.0.0.1/callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}


class Issuer:
    """A running provider. `machine_key` is the PEM of the key that `machine-with-key` signs with."""

    def __init__(self, address: str, machine_key: str) -> None:
        self.address = address
        self.machine_key = machine_key

    async def begin(self) -> None:
        """Do nothing wrong any more, and count what happens from here."""
        await self._post("_begin")

    async def switch(self, **switches: Any) -> None:
        """Have these lifetimes and faults, and no others: `lifetime` (s), `issuer`, `iss`, `token_status`."""
        await self._post("_switch", switches)

    async def revoke(self) -> None:
        """End all that people agreed to."""
        await self._post("_revoke")

    async def forget_clients(self) -> None:
        """Forget the clients that registered themselves."""
        await self._post("_forget")

    async def happened(self, what: str, count: int = 0) -> list[dict[str, Any]]:
        """What has happened of that kind since the test began; waits until it has that often."""
        async with httpx2.AsyncClient(timeout=PATIENCE_S) as client:
            asked = {"what": what, "count": count}
            answer = await client.get(f"{self.address}/_events", params=asked)
            events: list[dict[str, Any]] = answer.json()
            return events

    async def times(self, *kinds: str) -> list[int]:
        """How often each has happened since the test began."""
        return [len(await self.happened(what)) for what in kinds]

    async def _post(self, path: str, body: Any = None) -> None:
        async with httpx2.AsyncClient(timeout=PATIENCE_S) as client:
            (await client.post(f"{self.address}/{path}", json=body)).raise_for_status()


class Notes:
    """The server that wants a sign-in."""

    def __init__(self, url: str) -> None:
        self.url = url

    def entry(self, **more: Any) -> dict[str, Any]:
        """Its entry under `mcpServers`."""
        return {"type": "http", "url": self.url, **more}

    def sse_entry(self) -> dict[str, Any]:
        """That of the same tools by the older transport."""
        return {"type": "sse", "url": self.url.replace("/mcp", "/sse")}

    async def seen(self) -> list[dict[str, Any]]:
        """The method, tool and status of each request so far."""
        async with httpx2.AsyncClient(timeout=PATIENCE_S) as client:
            seen: list[dict[str, Any]] = (await client.get(self.url.replace("/mcp", "/_seen"))).json()
            return seen


@asynccontextmanager
async def running_issuer(*scopes: str) -> AsyncIterator[Issuer]:
    """The provider, running, with these scopes in its list beside its own.

    Without it the test is skipped, or failed with `CI=true`.
    """
    program = node()
    installed = (servers.HERE / "node_modules" / "oidc-provider").exists()
    servers.absent(
        None if program and installed else "oidc-provider is missing; run scripts/test --all to install it"
    )
    assert program is not None
    key = await anyio.to_thread.run_sync(lambda: rsa.generate_private_key(65537, 2048))
    public = {**json.loads(RSAAlgorithm.to_jwk(key.public_key())), "alg": "RS256", "use": "sig"}
    environment = {
        "MACHINE_JWKS": json.dumps({"keys": [public]}),
        "CLIENT_DOCUMENT": json.dumps(CLIENT_DOCUMENT),
        "SCOPES": " ".join(scopes),
    }
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    async with serving([program, os.fspath(PROVIDER)], ready="issuer at", env=environment) as line:
        yield Issuer(line.split()[-1], pem)
