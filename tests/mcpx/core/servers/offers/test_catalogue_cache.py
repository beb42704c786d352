"""Descriptions for text resources without one, from their content; at no cost to anybody else."""

from __future__ import annotations

import os
import signal

import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.servers.offers.catalogue_cache import is_text
from tests.mcpx.scripted import config_of, entry, one_server, open_watched

pytestmark = pytest.mark.anyio

LONG = "0123456789" * 15


def document(name: str, mime_type: str = "text/plain", **more) -> dict:
    return {"uri": f"doc:///{name}", "name": name, "mimeType": mime_type, **more}


DOCUMENTS = [
    document("long", text=LONG),
    document("short", "application/ld+json", text="{}"),
    document("exact", text=LONG[:100]),
    document("told", text="never read", description="as the server says"),
    document("image", "image/png", blob="AAAA"),
    document("large", text="x", size=300_000),
]


def described(watch, name: str) -> str | None:
    item = watch.hub.registry.get_resource("s", f"doc:///{name}")
    return item.description if item else None


async def all_described(watch) -> None:
    await watch.until(lambda: all(described(watch, name) for name in ("long", "short", "exact")))


async def test_text_gets_its_first_hundred_characters_and_nothing_else_is_read(ears):
    async with one_server(ears, resources=DOCUMENTS) as watch:
        await all_described(watch)
        assert described(watch, "long") == f'begins: "{LONG[:100]}..."'
        assert described(watch, "exact") == f'begins: "{LONG[:100]}"'
        assert described(watch, "short") == 'begins: "{}"'
        assert described(watch, "told") == "as the server says"
        assert described(watch, "image") is None
        assert described(watch, "large") is None
        read = sorted(event["uri"] for event in ears.of("read"))
        assert read == ["doc:///exact", "doc:///long", "doc:///short"]


async def test_nothing_is_read_again_after_a_reconnect(ears):
    async with one_server(ears, resources=DOCUMENTS) as watch:
        await all_described(watch)
        os.kill(watch.hub.upstreams["s"].pid, signal.SIGKILL)
        await watch.leaves(State.READY)
        await watch.becomes(State.READY)
        assert described(watch, "long") == f'begins: "{LONG[:100]}..."'
        await watch.text("echo", {"text": "whatever was to be read has been asked for before this"})
        assert len(ears.of("started")) == 2
        assert len(ears.of("read")) == 3


async def test_reads_that_are_never_answered_hold_nobody_up(ears):
    documents = [document(str(number), text="x") for number in range(20)]
    async with one_server(ears, resources=documents, unread=True) as watch:
        assert watch.state() is State.READY
        await ears.hear("read")
        assert await watch.text("echo", {"text": "at once"}) == "at once"
        assert len(ears.of("read")) <= 4  # a few at a time


async def test_describing_can_be_switched_off(ears):
    config = config_of({"s": entry(ears, resources=DOCUMENTS)}, auto_describe=False)
    async with open_watched(config) as watch:
        await watch.text("echo", {"text": "whatever was to be read has been asked for before this"})
        assert described(watch, "long") is None
        assert ears.of("read") == []


@pytest.mark.parametrize(
    "mime_type",
    [
        "text/plain",
        "text/html; charset=utf-8",
        "Application/JSON",
        "application/xml",
        "application/javascript",
        "application/yaml",
        "application/x-sh",
        "application/x-python",
        "application/vnd.api+json",
        "image/svg+xml",
    ],
)
async def test_a_text_type(mime_type):
    assert is_text(mime_type)


@pytest.mark.parametrize("mime_type", [None, "", "image/png", "application/pdf", "application/octet-stream"])
async def test_not_a_text_type(mime_type):
    assert not is_text(mime_type)
