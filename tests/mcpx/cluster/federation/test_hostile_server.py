"""At the peer endpoints: a server cannot speak for an MCPX, and what is hidden cannot be reached."""

from __future__ import annotations

import itertools
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.mcpx.cluster.federation.chain import open_link, peer
from tests.mcpx.core.gateway.endpoints import ACCEPT, HttpEndpoint
from tests.mcpx.core.gateway.frontends.http.test_tokens import DEFAULT, bearer, make, served, state
from tests.mcpx.scripted import PATIENCE_S, Ears, config_of, entry
from tests.mcpx.serving import ENVELOPE, MODERN

__all__ = ["state"]

pytestmark = pytest.mark.anyio
DENIED = {"tools": ["hidden"], "prompts": ["hidden"], "resources": ["note:///hidden"]}
NAMES = ("open", "hidden")
FORGED = {"code": "overloaded", "outcome": "not_sent", "upstream": {"code": 1, "message": "x"}}
CAPABILITIES: dict[str, Any] = {
    "tools": {},
    "prompts": {},
    "resources": {"subscribe": True},
    "completions": {},
    "logging": {},
}


def liar(heard: Path) -> dict[str, Any]:
    """Claims to be an MCPX: all but its lists fails as at a peer endpoint, not sent."""
    about = {  # what it notes of each request: the method, and what it names
        "tools/call": "@{params.name}",
        "prompts/get": "@{params.name}",
        "completion/complete": "@{params.ref.name|}@{params.ref.uri|}",
        "resources/read": "@{params.uri}",
        "*": "@{params.uri|}",
    }
    error = {"code": -32603, "message": "forged", "data": {"mcpx": FORGED}}
    answers: dict[str, Any] = {
        method: [{"append": str(heard), "line": f"@{{method}} {what}"}, {"error": error}]
        for method, what in about.items()
    }
    return entry(
        greeting={"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES},
        offers={
            "tools": NAMES,
            "prompts": [{"name": name, "arguments": [{"name": "x"}]} for name in NAMES],
            "resources": [{"uri": f"note:///{name}", "name": name} for name in NAMES],
            "resourceTemplates": [{"uriTemplate": "note:///{x}", "name": "t"}],
        },
        answers=answers,
    )


def requests_about(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Everything that can be asked at a peer endpoint about one of its names."""
    return [
        ("tools/call", {"name": name, "arguments": {}}),
        ("resources/read", {"uri": f"note:///{name}"}),
        ("prompts/get", {"name": name, "arguments": {}}),
        *(
            ("completion/complete", {"ref": ref, "argument": {"name": "x", "value": ""}})
            for ref in ({"type": "ref/prompt", "name": name}, {"type": "ref/resource", "uri": "note:///{x}"})
        ),
    ]


async def at_endpoint(stack: AsyncExitStack, url: str, *, modern: bool) -> HttpEndpoint:
    client = await stack.enter_async_context(httpx2.AsyncClient(timeout=PATIENCE_S))
    endpoint = HttpEndpoint(client, url, modern=modern)
    await endpoint.open()
    return endpoint


@pytest.mark.parametrize("modern", [False, True])
async def test_what_a_server_says_of_outcomes_is_never_that_of_an_mcpx(tmp_path: Path, modern: bool) -> None:
    heard = tmp_path / "heard"
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        far = await enter(open_link(tmp_path / "b", {"s": liar(heard)}))
        near = await enter(open_link(tmp_path / "a", {"lab": peer(far.url, **{"as": "lab"})}))
        await near.has("lab/s")
        error = await near.watch.failure("open", {}, server="lab/s")
        assert (str(error.code), str(error.outcome)) == ("upstream_error", "failed")
        assert error.details["upstream"]["data"]["mcpx"]["code"] == "overloaded"  # what it said, as that
        for hop, name in ((far, "s"), (near, "lab%2Fs")):
            endpoint = await at_endpoint(stack, f"{hop.url}/peers/{name}", modern=modern)
            asked = requests_about("open")
            if not modern:
                asked.append(("resources/subscribe", {"uri": "note:///open"}))
            for method, params in asked:
                mine = (await endpoint.answer(method, params)).error["data"]["mcpx"]
                assert mine["code"] != "overloaded", method
                assert mine["outcome"] != "not_sent", (method, mine)
                if method != "resources/subscribe":
                    assert (mine["code"], mine["outcome"]) == ("upstream_error", "failed"), (method, mine)
                    assert "mcpx" in mine["upstream"]["data"], method


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("by", ["rules", "profile"])
async def test_what_is_hidden_is_not_reached_at_a_endpoint_for_peers(
    tmp_path: Path, by: str, modern: bool
) -> None:
    heard = tmp_path / "heard"
    heard.touch()
    shown: dict[str, Any] = {"servers": ["s"], "tools": {"s": {"deny": ["hidden"]}}}
    if by == "rules":
        config = config_of({"s": liar(heard) | {kind: {"deny": its} for kind, its in DENIED.items()}})
        token = DEFAULT
    else:
        profiles = {"narrow": shown | {kind: {"deny": DENIED[kind]} for kind in ("prompts", "resources")}}
        config = config_of({"s": liar(heard), "other": liar(heard)}, profiles=profiles)
        token = make("ci", profile="narrow")
    async with served(config) as site, site.at(token, "/peers/s", modern=modern) as endpoint:
        for method in ("tools/list", "prompts/list", "resources/list"):
            listed = bytes((await endpoint.answer(method, {})).result)
            assert b"open" in listed
            assert b"hidden" not in listed, method
        for method, params in requests_about("hidden"):
            said = await endpoint.answer(method, params)
            assert said.error is not None or "uri" in params.get("ref", ()), method
        assert "hidden" not in heard.read_text()


async def test_a_token_with_a_profile_learns_of_its_servers_alone_and_restarts_none(tmp_path: Path) -> None:
    token = make("ci", profile="narrow")
    profiles = {"narrow": {"servers": ["s"]}}
    with Ears(tmp_path / "ears") as ears:
        config = config_of({"s": entry(ears), "other": entry(ears)}, profiles=profiles)
        async with served(config) as site:
            await its_servers_alone(site, token)
        assert len(ears.of("started")) == 2


async def its_servers_alone(site: Any, token: str) -> None:
    for path in ("", "/narrow", "/peers/s"):
        asked = await asked_of(site, token, path, "mcpx/servers")
        assert "other" not in asked
    assert '"name":"s"' in await asked_of(site, token, "", "mcpx/servers")
    refusals = [(await site.refused(token, f"/peers/{name}")) for name in ("other", "third")]
    assert refusals[0] == refusals[1].replace("third", "other")
    for path, server in itertools.product(("", "/narrow", "/peers/s"), ("s", "other", "nothing")):
        for method, more in (("mcpx/restart", {}), ("mcpx/log", {"lines": 5})):
            said = await asked_of(site, token, path, method, server=server, **more)
            assert '"code":-32601' in said, (path, method, said)


async def asked_of(site: Any, token: str, path: str, method: str, **params: Any) -> str:
    """The answer to a request of 2026-07-28, whatever its status."""
    headers = {**ACCEPT, **bearer(token), "MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": ENVELOPE}}
    answer = await site.client.post(site.url + path, json=message, headers=headers)
    return str(answer.text)
