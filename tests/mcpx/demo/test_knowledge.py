"""The knowledge base over real stdio, in both protocol eras."""

from __future__ import annotations

import base64
import json
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPError
from mcp_types import (
    EmptyResult,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    SubscribeRequest,
    SubscribeRequestParams,
    UnsubscribeRequest,
    UnsubscribeRequestParams,
)

from mcpx.demo.knowledge import BUNDLED

# The knowledge base tells its client of documents that come, go and change, in both protocol eras.

POLL = ("--poll", "0.02")
PATIENCE_S = 50.0


class Told:
    """What the client has heard: `changed`, or the URI of an update."""

    def __init__(self):
        self.heard = []
        self._news = anyio.Event()

    def note(self, what):
        self.heard.append(what)
        self._news.set()
        self._news = anyio.Event()

    async def message(self, message):
        if isinstance(message, ResourceListChangedNotification):
            self.note("changed")
        elif isinstance(message, ResourceUpdatedNotification):
            self.note(message.params.uri)

    async def hears(self, what, count=1):
        with anyio.fail_after(PATIENCE_S):
            while self.heard.count(what) < count:
                await self._news.wait()

    async def follow(self, subscription):
        async for event in subscription:
            self.note(getattr(event, "uri", "changed"))


@asynccontextmanager
async def subscribed(client, era, told, uri):
    """The client hears of the list, and of updates of that document."""
    if era == "legacy":
        # not by the SDK's own methods for it, which warn
        send = client.session.send_request
        await send(SubscribeRequest(params=SubscribeRequestParams(uri=uri)), EmptyResult)
        yield
        await send(UnsubscribeRequest(params=UnsubscribeRequestParams(uri=uri)), EmptyResult)
        return
    async with (
        listen(client.session, resources_list_changed=True, resource_subscriptions=[uri]) as subscription,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(told.follow, subscription)
        yield
        tasks.cancel_scope.cancel()


def options(era, told):
    """An SDK client gets the events of a listen stream a second time as messages: heard once is enough."""
    return {"message_handler": told.message} if era == "legacy" else {}


async def test_documents_that_come_go_and_change_are_told(connect, era, tmp_path):
    told = Told()
    mine, other = tmp_path / "mine.txt", tmp_path / "other.txt"
    mine.write_text("one")
    other.write_text("one")
    async with connect("knowledge", "--folder", str(tmp_path), *POLL, **options(era, told)) as client:
        can = client.server_capabilities.resources
        assert (can.list_changed, can.subscribe) == (True, True)
        uri = mine.resolve().as_uri()
        async with subscribed(client, era, told, uri):
            (tmp_path / "new.txt").write_text("new")
            await told.hears("changed", 1)
            other.write_text("another text")  # nobody subscribed to it
            mine.write_text("two")
            await told.hears(uri, 1)
            (tmp_path / "new.txt").unlink()
            await told.hears("changed", 2)
            other.rename(tmp_path / "moved.txt")
            await told.hears("changed", 3)
            assert other.resolve().as_uri() not in told.heard
        names = [resource.name for resource in (await client.list_resources()).resources]
        assert names == ["mine.txt", "moved.txt"]


async def test_an_edit_by_replacing_the_file_is_an_edit(connect, era, tmp_path):
    """As editors do it: a new file of the same length, moved into the old one's place."""
    told = Told()
    document, draft = tmp_path / "doc.txt", tmp_path / ".draft"
    document.write_text("one")
    async with connect("knowledge", "--folder", str(tmp_path), *POLL, **options(era, told)) as client:
        uri = document.resolve().as_uri()
        async with subscribed(client, era, told, uri):
            draft.write_text("two")
            draft.replace(document)
            await told.hears(uri)
            assert "changed" not in told.heard


@pytest.mark.parametrize("era", ["legacy"], indirect=True)  # later a stream is closed, and that is that
async def test_who_has_unsubscribed_hears_no_more(connect, era, tmp_path):
    told = Told()
    document = tmp_path / "doc.txt"
    document.write_text("one")
    async with connect("knowledge", "--folder", str(tmp_path), *POLL, **options(era, told)) as client:
        uri = document.resolve().as_uri()
        async with subscribed(client, era, told, uri):
            document.write_text("second")
            await told.hears(uri)
        document.write_text("third text")
        (tmp_path / "new.txt").write_text("the end")  # seen in the same look, or a later one
        await told.hears("changed")
        (tmp_path / "new.txt").unlink()
        await told.hears("changed", 2)
        assert told.heard.count(uri) == 1


pytestmark = pytest.mark.anyio

LEAFLETS = {"diabetes.txt": "糖尿病", "heart-disease.txt": "心脏病", "hypertension.txt": "高血压"}


def lines(name: str) -> list[str]:
    return (BUNDLED / name).read_text("utf-8").splitlines()


async def test_the_three_leaflets_are_listed_with_name_type_and_size_and_no_description(connect):
    async with connect("knowledge") as client:
        resources = (await client.list_resources()).resources
    assert [resource.name for resource in resources] == sorted(LEAFLETS)
    for resource in resources:
        assert resource.uri == (BUNDLED / resource.name).as_uri()
        assert resource.mime_type == "text/plain"
        assert resource.size == (BUNDLED / resource.name).stat().st_size
        assert resource.description is None


async def test_a_leaflet_is_read_whole_by_its_uri(connect):
    async with connect("knowledge") as client:
        for resource in (await client.list_resources()).resources:
            (content,) = (await client.read_resource(resource.uri)).contents
            assert content.uri == resource.uri
            assert content.text == (BUNDLED / resource.name).read_text("utf-8")
            assert content.text.startswith(LEAFLETS[resource.name])
            assert 6 <= len(content.text.splitlines()) <= 12


async def test_a_refused_uri_is_the_protocols_not_found_with_the_uri(connect, era):
    uri = (BUNDLED / "asthma.txt").as_uri()
    async with connect("knowledge") as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
    assert caught.value.code == (-32002 if era == "legacy" else -32602)
    assert caught.value.data == {"uri": uri}


async def test_nothing_outside_the_folder_can_be_read(connect, tmp_path):
    outside, inside = tmp_path / "secret.txt", tmp_path / "docs"
    outside.write_text("secret")
    inside.mkdir()
    (inside / "link.txt").symlink_to(outside)
    (inside / "open.txt").write_text("open")
    base = inside.resolve().as_uri()
    refused = [
        outside.as_uri(),
        f"{base}/../secret.txt",
        f"{base}/%2e%2e/secret.txt",
        f"{base}/%2E%2E%2Fsecret.txt",
        f"{base}/link.txt",
    ]
    async with connect("knowledge", "--folder", str(inside)) as client:
        assert [r.name for r in (await client.list_resources()).resources] == ["open.txt"]
        for uri in refused:
            with pytest.raises(MCPError, match="Resource not found"):
                await client.read_resource(uri)
        (content,) = (await client.read_resource(f"{base}/open.txt")).contents
    assert content.text == "open"


async def test_another_folder_may_hold_unicode_names_subfolders_and_binary_files(connect, tmp_path):
    (tmp_path / "子").mkdir()
    (tmp_path / "子" / "血压.md").write_text("# 血压", "utf-8")
    (tmp_path / "dot.png").write_bytes(b"\x89PNG\xff")
    async with connect("knowledge", "--folder", str(tmp_path)) as client:
        binary, text = (await client.list_resources()).resources
        (blob,) = (await client.read_resource(binary.uri)).contents
        (words,) = (await client.read_resource(text.uri)).contents
    assert (text.name, text.mime_type, words.text) == ("子/血压.md", "text/markdown", "# 血压")
    assert (blob.mime_type, base64.b64decode(blob.blob, validate=True)) == ("image/png", b"\x89PNG\xff")


async def test_a_file_added_while_running_is_listed_and_read(connect, tmp_path):
    async with connect("knowledge", "--folder", str(tmp_path)) as client:
        assert (await client.list_resources()).resources == []
        (tmp_path / "new.txt").write_text("news")
        (resource,) = (await client.list_resources()).resources
        (content,) = (await client.read_resource(resource.uri)).contents
    assert content.text == "news"


async def test_search_documents_names_every_line_that_matches(connect):
    async with connect("knowledge") as client:
        result = await client.call_tool("search_documents", {"query": "每周至少运动"})
        nothing = await client.call_tool("search_documents", {"query": "哮喘"})
    assert json.loads(result.content[0].text) == result.structured_content
    (match,) = result.structured_content["matches"]
    assert match["name"] == "diabetes.txt"
    assert lines("diabetes.txt")[match["line"] - 1] == match["text"]
    assert nothing.structured_content == {"matches": []}


@pytest.mark.parametrize("arguments", [{}, {"query": ""}, {"query": 3}])
async def test_search_without_a_query_is_an_error_that_says_so(connect, arguments):
    async with connect("knowledge") as client:
        result = await client.call_tool("search_documents", arguments)
    assert result.is_error
    assert "query must be" in result.content[0].text
