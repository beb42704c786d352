"""Tokens with names at a real daemon: made, used and revoked while it runs."""

from __future__ import annotations

import json

import httpx2
import pytest

from tests.mcpx.core.gateway.endpoints import ACCEPT, HttpEndpoint
from tests.mcpx.scripted import PATIENCE_S, entry
from tests.mcpx.serving import run_cli, serving, write_config

pytestmark = pytest.mark.anyio
PROFILES = {"one": {"servers": ["a"]}, "two": {"servers": ["b"]}}


@pytest.mark.parametrize("modern", [False, True])
async def test_a_token_is_valid_as_soon_as_it_is_made_and_no_longer_once_it_is_revoked(tmp_path, modern):
    config = write_config(tmp_path, {"a": entry(), "b": entry()}, profiles=PROFILES, http={"port": 0})

    def cli(*words):
        done = run_cli(tmp_path, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async with (
        serving(tmp_path, "daemon", "run", "--config", config) as daemon,
        httpx2.AsyncClient(timeout=PATIENCE_S) as client,
    ):
        url = (await daemon.logged("http.listening"))["url"]
        endpoints = {}
        for name in PROFILES:
            token = cli("token", "new", name, "--profile", name, "--config", config).strip()
            endpoint = endpoints[name] = HttpEndpoint(client, url, modern=modern)
            endpoint._headers["Authorization"] = f"Bearer {token}"
            await endpoint.open()
        for own, other, name in (("a", "b", "one"), ("b", "a", "two")):
            for server, code in ((own, None), (other, "unknown_server")):
                call = {"server_name": server, "tool_name": "echo", "arguments": {"text": "hi"}}
                said = await endpoints[name].answer("tools/call", {"name": "exec", "arguments": call})
                assert json.loads(bytes(said.result)).get("structuredContent", {}).get("code") == code
        status = json.loads(cli("status", "--config", config, "--json"))
        assert status["daemon"]["http"]["named_tokens"] == 2
        assert "2 named tokens" in cli("status", "--config", config)
        cli("token", "revoke", "one")
        listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        sent = [
            (await client.post(url, json=listing, headers=ACCEPT | endpoint._headers)).status_code
            for endpoint in endpoints.values()
        ]
        assert (sent[0], sent[1] == 401) == (401, False)
        ended = await daemon.logged("http.token_ended")
        assert ended["token"] == "one"
