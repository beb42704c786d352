"""What a client sees through the transparent endpoint equals what it sees directly, member by member."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager, nullcontext

import pytest

from tests.mcpx.core.gateway.transparent.talking import SERVER, directly, odd_http, on_stream, over_http
from tests.mcpx.scripted import STARTED_QUICKLY, config_of, open_watched
from tests.mcpx.serving import serving, write_config

pytestmark = pytest.mark.anyio

KINDS = ["stream to stdio", "http to stdio", "stream to http", "http to http"]
HELLO = (
    '{"protocolVersion":"%s","capabilities":{"roots":{},"odd":{}},"clientInfo":{"name":"t","version":"1"}}'
)
ENVELOPE = (
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    '"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},'
    '"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info",'
    '"com.acme/x":1,"progressToken":"mine"}'
)


def entry(*arguments):
    return {"command": sys.executable, "args": [*STARTED_QUICKLY, str(SERVER), *arguments]}


@asynccontextmanager
async def endpoint(kind, folder):
    """A client of that kind of endpoint, to the odd server over stdio or HTTP."""
    way, _, upstream = kind.partition(" to ")
    with odd_http() if upstream == "http" else nullcontext() as url:
        servers = {"odd": {"url": url} if url else entry()}
        if way == "stream":
            async with open_watched(config_of(servers)) as watch, on_stream(watch.hub) as talk:
                yield talk
        else:
            options = ["--transport", "http", "--port", "0", "--no-auth"]
            async with serving(folder, "serve", write_config(folder, servers), *options) as mcpx:
                listening = await mcpx.logged("http.listening")
                async with over_http(f"{listening['url']}/servers/odd") as talk:
                    yield talk


async def handshake(talk, version="2025-11-25"):
    await talk.ask("initialize", HELLO % version, "first")
    await talk.send("notifications/initialized")


async def older(talk, *, vendor):
    """Everything that a client of the older revisions may say, and more."""
    await handshake(talk)
    for number, (method, params) in enumerate(
        [
            ("tools/list", None),
            ("tools/list", '{"cursor":"p 2"}'),
            ("tools/call", '{"name":"odd","arguments":{"a":1e400,"b":[1.0]},"vendor":null}'),
            ("tools/call", '{"name":"error"}'),
            ("tools/call", '{"name":"tell","_meta":{"progressToken":"mine","n":null}}'),
            ("tools/call", '{"name":"tell","_meta":{"progressToken":7}}'),
            ("tools/call", '{"name":"ask","arguments":{"method":"elicitation/create"}}'),
            ("tools/call", '{"name":"ask","arguments":{"method":"vendor/\\u00fc \\"odd\\""}}'),
            ("resources/list", "{}"),
            ("resources/read", '{"uri":"odd://x"}'),
            ("resources/subscribe", '{"uri":"odd://x"}'),
            ("resources/unsubscribe", '{"uri":"odd://x"}'),
            ("prompts/get", '{"name":"p"}'),
            ("completion/complete", '{"ref":{},"argument":{}}'),
            ("logging/setLevel", '{"level":"debug"}'),
            ("tasks/list", None),
            ("vendor/\u00fc", '{"b":1,"a":[]}'),
            ("no/such", '{"a":1}'),
            ("ping", None),
        ],
        start=2,
    ):
        await talk.ask(method, params, number)
    talk.reply = '"error":{"code":-7,"message":"no","data":{"a":null}%s}' % (',"vendor":1' if vendor else "")
    await talk.ask("tools/call", '{"name":"ask","arguments":{"method":"sampling/createMessage"}}', "a string")


@pytest.mark.parametrize("kind", KINDS)
async def test_all_that_an_older_client_sees(kind, tmp_path):
    async with directly() as direct, endpoint(kind, tmp_path) as through:
        if kind != "stream to stdio":
            direct.reply = through.reply = '"result":{"action":"accept","vendor":1}'
        for talk in (direct, through):
            await older(talk, vendor=kind == "stream to stdio")
        equal(direct, through)


@pytest.mark.parametrize("kind", KINDS)
async def test_all_that_a_client_of_2026_07_28_sees(kind, tmp_path):
    async with directly() as direct, endpoint(kind, tmp_path) as through:
        for talk in (direct, through):
            if kind.startswith("http"):
                talk.headers = getattr(talk, "headers", {}) | {"mcp-protocol-version": "2026-07-28"}
            await talk.ask("server/discover", "{" + ENVELOPE + "}", 1)
            await talk.ask("tools/list", "{" + ENVELOPE + "}", 2)
            await talk.ask("tools/list", '{"cursor":"p 2",' + ENVELOPE + "}", 3)
            await talk.ask("tools/call", '{"name":"odd","arguments":{"b":1e400},' + ENVELOPE + "}", 4)
            await talk.ask("tools/call", '{"name":"error",' + ENVELOPE + "}", 5)
            await talk.ask("tools/call", '{"name":"tell",' + ENVELOPE + "}", 6)
            await talk.ask("tasks/list", "{" + ENVELOPE + "}", 7)
            await talk.ask("vendor/x", '{"b":1,' + ENVELOPE + "}", 8)
            await talk.send(
                "subscriptions/listen", '{"notifications":{"toolsListChanged":true},' + ENVELOPE + "}", "l"
            )
            await talk.take()
            await talk.take()
        equal(direct, through)


def equal(direct, through):
    """Both heard the same."""
    for ours, theirs in zip(through.heard, direct.heard, strict=False):
        assert ours == theirs
    assert len(through.heard) == len(direct.heard)


async def test_a_result_600_levels_deep(tmp_path):
    deep = '{"x":' * 600 + "1" + "}" * 600
    for kind in KINDS[:2]:
        async with directly() as direct, endpoint(kind, tmp_path) as through:
            lines = []
            for talk in (direct, through):
                await handshake(talk)
                await talk.send("vendor/deep", deep if kind == KINDS[0] else '{"deep":600}', 2)
                lines.append((await talk.read()).replace(" ", ""))
            assert lines[0].rpartition('"result":')[2] == lines[1].rpartition('"result":')[2]
            assert lines[0].count('{"x":') == 600
