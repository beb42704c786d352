"""Pictures at a transparent endpoint: byte for byte, unless the client is known not to take them."""

from __future__ import annotations

import base64
import io
import json
from contextlib import asynccontextmanager

import pytest
from PIL import Image

from tests.mcpx.core.gateway.transparent.talking import on_stream
from tests.mcpx.core.gateway.transparent.test_http import served, talking
from tests.mcpx.scripted import config_of, entry, open_watched

pytestmark = pytest.mark.anyio
HELLO = '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"%s","version":"1"}}'
CLAUDE = "claude-code"


def picture(width):
    out = io.BytesIO()
    Image.new("RGB", (width, 20)).save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


LARGE = picture(9000)


@pytest.fixture
def camera(tmp_path):
    """The entry of a server whose tool and resource are the same large picture."""
    shot, read = tmp_path / "shot", tmp_path / "read"
    block = {"type": "image", "data": LARGE, "mimeType": "image/png"}
    shot.write_text(json.dumps({"content": [block, {"type": "text", "text": "taken"}]}) + "\n")
    read.write_text(
        json.dumps({"contents": [{"uri": "a:/b", "mimeType": "image/png", "blob": LARGE}]}) + "\n"
    )
    answers = {"tools/call shot": [{"raw": str(shot)}], "resources/read a:/b": [{"raw": str(read)}]}
    offers = {"tools": ["shot"], "resources": [{"uri": "a:/b", "name": "b"}]}

    def made(**settings):
        return entry(answers=answers, offers=offers, settings=settings)

    return made


@asynccontextmanager
async def client(camera, name, **settings):
    config = config_of({"s": camera(**settings)})
    async with open_watched(config) as watch, on_stream(watch.hub, "s") as talk:
        await talk.ask("initialize", HELLO % name, "first")
        await talk.send("notifications/initialized")
        yield talk


async def shot(talk, request_id=2):
    said = await talk.ask("tools/call", '{"name":"shot","arguments":{}}', request_id)
    assert "result" in said, said
    return said["result"]


def width(data):
    return Image.open(io.BytesIO(base64.b64decode(data))).width


@pytest.mark.parametrize(("name", "settings"), [("t", {}), (CLAUDE, {"fit_images": "never"}), ("cursor", {})])
async def test_it_passes_to_a_client_that_is_not_known_to_need_less(camera, name, settings):
    async with client(camera, name, **settings) as talk:
        result = await shot(talk)
        assert [each.get("data") for each in result["content"]] == [LARGE, None]
        read = await talk.ask("resources/read", '{"uri":"a:/b"}', 3)
        assert read["result"]["contents"][0]["blob"] == LARGE


async def test_it_fits_for_a_client_that_is_known_to_need_it_and_the_original_can_be_read(camera):
    async with client(camera, CLAUDE) as talk:
        for ask in ("tools/call", "resources/read"):
            if ask == "tools/call":
                small, note, *rest = (await shot(talk))["content"]
                assert (width(small["data"]), rest) == (2000, [{"type": "text", "text": "taken"}])
            else:
                small, note = (await talk.ask(ask, '{"uri":"a:/b"}', 3))["result"]["contents"]
                assert width(small["blob"]) == 2000
            assert "9,000" in note["text"] and "mcpx://result/" in note["text"], note
            address = note["text"].partition("mcpx://result/")[2].rstrip("]")
            uri = f"mcpx://result/{address}"
            original = await talk.ask("resources/read", json.dumps({"uri": uri}), 4)
            (found,) = original["result"]["contents"]
            assert (found["uri"], found.get("blob")) == (uri, LARGE)
        odd = await talk.ask("resources/read", json.dumps({"uri": f"{uri}?block=9"}), 5)
        assert "block=1" in odd["error"]["message"]


async def test_nobody_else_can_read_the_original(camera):
    config = config_of({"s": camera()})
    async with (
        open_watched(config) as watch,
        on_stream(watch.hub, "s") as one,
        on_stream(watch.hub, "s") as two,
    ):
        for talk in (one, two):
            await talk.ask("initialize", HELLO % CLAUDE, "first")
        _, note, _ = (await shot(one))["content"]
        uri = "mcpx://result/" + note["text"].partition("mcpx://result/")[2].rstrip("]")
        assert "error" in await two.ask("resources/read", json.dumps({"uri": uri}), 3)
        assert "result" in await one.ask("resources/read", json.dumps({"uri": uri}), 3)


async def test_over_http_too_in_both_eras(camera):
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": CLAUDE, "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    async with (
        served(s={**camera(), "era": "handshake"}) as (_, http),
        talking(http, "/mcp/servers/s") as talk,
    ):
        await talk.ask("initialize", HELLO % CLAUDE, "first")
        small, _, _ = (await shot(talk))["content"]
        assert width(small["data"]) == 2000
    modern = {"modern": True}
    server = camera()
    server["args"][-1] = json.dumps(json.loads(server["args"][-1]) | modern)
    async with served(s=server) as (_, http), talking(http, "/mcp/servers/s") as talk:
        talk.headers["mcp-protocol-version"] = "2026-07-28"
        params = {"name": "shot", "arguments": {}, "_meta": meta}
        small, note, _ = (await talk.ask("tools/call", json.dumps(params), 2))["result"]["content"]
        assert width(small["data"]) == 2000
        uri = "mcpx://result/" + note["text"].partition("mcpx://result/")[2].rstrip("]")
        original = await talk.ask("resources/read", json.dumps({"uri": uri, "_meta": meta}), 3)
        assert original["result"]["contents"][0]["blob"] == LARGE
        assert original["result"]["resultType"] == "complete"
