"""The registry's lookups, over a real hub."""

from __future__ import annotations

import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.errors import CallError, Code
from tests.mcpx.scripted import config_of, entry, open_watched

pytestmark = pytest.mark.anyio

DOCUMENTS = [
    {"uri": "doc:///a", "name": "a", "mimeType": "text/plain", "description": "A text", "text": "the text"},
    {"uri": "doc:///b", "name": "b", "mimeType": "image/png", "size": 3, "blob": "AAEC"},
]
SERVERS = {
    "docs": entry(resources=DOCUMENTS),
    "plain": entry(),
    "none": {"command": "there-is-no-such-command"},
}


async def test_lookups_answer_what_is_there_and_none_for_what_is_not():
    async with open_watched(config_of(SERVERS)) as watch:
        registry = watch.hub.registry
        states = [(info.name, info.state) for info in registry.list_servers()]
        assert states == [("docs", State.READY), ("plain", State.READY), ("none", State.PARKED)]
        assert registry.get_tool("plain", "echo").server_name == "plain"
        assert "echo" in [tool.name for tool in registry.list_tools("plain")]
        assert registry.get_resource("docs", "doc:///b").size == 3
        assert [item.uri for item in registry.list_resources("docs")] == ["doc:///a", "doc:///b"]
        assert list(registry.list_all_resources()) == ["docs"]
        nothing = (
            registry.get_server_info("z"),
            registry.get_tool("z", "echo"),
            registry.get_tool("plain", "z"),
            registry.get_resource("docs", "doc:///z"),
        )
        assert nothing == (None,) * 4
        assert (
            registry.list_tools("z") == registry.list_tools("none") == registry.list_resources("plain") == []
        )


async def test_reading_gives_text_as_a_string_and_binary_as_a_dictionary():
    async with open_watched(config_of(SERVERS)) as watch:
        read = watch.hub.registry.read_resource
        assert await read("docs", "doc:///a") == "the text"
        assert await read("docs", "doc:///b") == {"uri": "doc:///b", "mime_type": "image/png", "blob": "AAEC"}


async def test_reading_what_is_not_there_says_what_is():
    async with open_watched(config_of(SERVERS)) as watch:
        read = watch.hub.registry.read_resource
        for server, uri, code, told in [
            ("dosc", "doc:///a", Code.UNKNOWN_SERVER, "docs"),
            ("docs", "doc:///c", Code.UNKNOWN_RESOURCE, "doc:///"),
            ("none", "doc:///a", Code.SERVER_UNAVAILABLE, "command not found"),
        ]:
            with pytest.raises(CallError) as caught:
                await read(server, uri)
            assert caught.value.code is code
            assert told in str(caught.value)
