"""The peer endpoint over HTTP: who is let in there, and to what."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from tests.mcpx.core.gateway.endpoints import ACCEPT
from tests.mcpx.core.gateway.frontends.http.test_tokens import (
    DEFAULT,
    LIST,
    answer,
    bearer,
    make,
    served,
    state,
)
from tests.mcpx.scripted import config_of, entry

__all__ = ["state"]
pytestmark = pytest.mark.anyio
PROFILES = {"work": {"servers": ["shop"], "tools": {"shop": ["echo"]}}}


def config(**more):
    return config_of({"shop": entry(), "lab/b c%": entry(), **more}, profiles=PROFILES)


@pytest.mark.parametrize("modern", [False, True])
async def test_a_name_is_percent_encoded_and_a_profile_narrows_what_there_is(modern):
    narrow = make("ci", profile="work")
    async with served(config()) as site:
        path = f"/peers/{quote('lab/b c%', safe='')}"
        async with site.at(DEFAULT, path, modern=modern) as peer:
            names = {tool["name"] for tool in (await answer(peer, "tools/list", {}))["tools"]}
            assert {"echo", "die"} <= names
        async with site.at(narrow, "/peers/shop", modern=modern) as peer:
            listed = await answer(peer, "tools/list", {})
            assert [tool["name"] for tool in listed["tools"]] == ["echo"]
            assert "error" not in json.dumps(await answer(peer, "tools/call", call("echo", text="hi")))
            refused = (await peer.answer("tools/call", call("count"))).error
            assert refused["data"]["mcpx"]["code"] == "unknown_tool"
        assert await site.status("mcpx_wrong", "/peers/shop") == 401
        assert "there is no server" in await site.refused(narrow, path)
        assert "lab" not in await site.refused(narrow, "/peers/nothing")
        assert "shop" in await site.refused(DEFAULT, "/peers/shob")


async def test_a_server_that_is_removed_ends_its_sessions_there():
    async with served(config()) as site, site.at(DEFAULT, "/peers/shop") as peer:
        assert (await peer.answer("tools/call", call("echo", text="hi"))).error is None
        await site.hub.reload(config_of({"other": entry()}))
        headers = ACCEPT | bearer(DEFAULT) | peer._headers
        for _ in range(2):
            gone = await site.client.post(f"{site.url}/peers/shop", json=LIST, headers=headers)
            assert gone.status_code == 404


async def test_a_server_may_be_named_by_an_alias():
    shop = entry(settings={"aliases": ["old/shop"]})
    async with served(config_of({"shop": shop})) as site:
        path = f"/peers/{quote('old/shop', safe='')}"
        async with site.at(DEFAULT, path) as peer, site.at(DEFAULT, path, modern=True) as modern:
            for each in (peer, modern):
                assert (await each.answer("tools/call", call("echo", text="hi"))).error is None


def call(tool, **arguments):
    return {"name": tool, "arguments": arguments}
