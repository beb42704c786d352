"""The knowledge base tells its client of documents that come, go and change, in both protocol eras."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import pytest
from mcp.client.subscriptions import listen
from mcp_types import (
    EmptyResult,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    SubscribeRequest,
    SubscribeRequestParams,
    UnsubscribeRequest,
    UnsubscribeRequestParams,
)

pytestmark = pytest.mark.anyio
POLL = ("--poll", "0.02")
PATIENCE_S = 15.0


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
