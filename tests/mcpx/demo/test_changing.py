"""The changing server over real stdio: the lists change, and the client is told, in both eras."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import pytest
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError

pytestmark = [
    pytest.mark.anyio,
    # the SDK's word for `resources/subscribe`, which the handshake era still needs
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

OWN = ["add_tool", "remove_tool", "add_document", "remove_document"]
TOOLS, RESOURCES = "notifications/tools/list_changed", "notifications/resources/list_changed"


class Heard:
    """The changes that a client was told of, as events of the newer era, whichever it speaks."""

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream(100)

    async def on_message(self, message) -> None:
        kind = getattr(message, "method", None)
        if kind == TOOLS:
            await self._send.send(ToolsListChanged())
        elif kind == RESOURCES:
            await self._send.send(ResourcesListChanged())
        elif kind == "notifications/resources/updated":
            await self._send.send(ResourceUpdated(uri=message.params.uri))

    async def follow(self, subscription) -> None:
        async for event in subscription:
            await self._send.send(event)

    async def next(self):
        with anyio.fail_after(50):
            return await self._receive.receive()

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self._send.close()
        self._receive.close()


@asynccontextmanager
async def listening(connect, era, *uris):
    """A client and what it hears, subscribed to both lists and to `uris`."""
    with Heard() as heard:
        # a listen stream's frames reach the message handler too: one of the two is enough
        handler = heard.on_message if era == "legacy" else None
        async with connect("changing", message_handler=handler) as client:
            if era == "legacy":
                for uri in uris:
                    await client.subscribe_resource(uri)
                yield client, heard
                return
            wanted = client.listen(
                tools_list_changed=True, resources_list_changed=True, resource_subscriptions=uris
            )
            async with wanted as subscription, anyio.create_task_group() as tasks:
                tasks.start_soon(heard.follow, subscription)
                yield client, heard
                tasks.cancel_scope.cancel()


async def call(client, tool, **arguments) -> str:
    result = await client.call_tool(tool, arguments)
    return ("error: " if result.is_error else "") + result.content[0].text


async def tools(client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


async def test_it_starts_with_its_own_tools_and_no_resources(connect):
    async with connect("changing") as client:
        assert await tools(client) == OWN
        assert (await client.list_resources()).resources == []


async def test_the_capabilities_promise_list_changes_and_subscriptions(connect):
    async with connect("changing") as client:
        told = client.server_capabilities
    assert told.tools.list_changed
    assert told.resources.list_changed
    assert told.resources.subscribe


async def test_an_added_tool_is_announced_listed_and_greets_until_it_is_removed(connect, era):
    async with listening(connect, era) as (client, heard):
        await call(client, "add_tool", name="wave")
        assert await heard.next() == ToolsListChanged()
        assert await tools(client) == [*OWN, "wave"]
        assert await call(client, "wave") == "Hello from wave"
        await call(client, "remove_tool", name="wave")
        assert await heard.next() == ToolsListChanged()
        assert await tools(client) == OWN
        assert (await call(client, "wave")).startswith("error: There is no tool wave")


async def test_an_added_document_is_announced_listed_and_read_until_it_is_removed(connect, era):
    async with listening(connect, era) as (client, heard):
        await call(client, "add_document", name="list", text="milk")
        assert await heard.next() == ResourcesListChanged()
        (resource,) = (await client.list_resources()).resources
        assert (resource.uri, resource.size) == ("note:///list", 4)
        assert (await client.read_resource(resource.uri)).contents[0].text == "milk"
        await call(client, "remove_document", name="list")
        assert await heard.next() == ResourcesListChanged()
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource(resource.uri)


async def test_a_subscriber_hears_of_its_document_being_replaced_and_of_no_other(connect, era):
    async with listening(connect, era, "note:///mine") as (client, heard):
        for name in ("mine", "other"):
            await call(client, "add_document", name=name, text="old")
            assert await heard.next() == ResourcesListChanged()
        await call(client, "add_document", name="other", text="new")
        await call(client, "add_document", name="mine", text="new")
        assert await heard.next() == ResourceUpdated(uri="note:///mine")
        assert (await client.read_resource("note:///mine")).contents[0].text == "new"


@pytest.mark.parametrize("era", ["legacy"], indirect=True)
async def test_after_unsubscribing_no_update_is_heard(connect, era):
    async with listening(connect, era, "note:///mine") as (client, heard):
        await call(client, "add_document", name="mine", text="old")
        assert await heard.next() == ResourcesListChanged()
        await client.unsubscribe_resource("note:///mine")
        await call(client, "add_document", name="mine", text="new")
        await call(client, "add_tool", name="marker")
        assert await heard.next() == ToolsListChanged()


@pytest.mark.parametrize(
    ("tool", "arguments", "complaint"),
    [
        ("add_tool", {"name": "add_tool"}, "There is a tool add_tool already"),
        ("add_tool", {"name": "two words"}, "name must be"),
        ("add_tool", {}, "name must be"),
        ("remove_tool", {"name": "wave"}, "no added tool wave; there are: none"),
        ("add_document", {"name": "list"}, "text must be"),
        ("remove_document", {"name": "list"}, "no document list; there are: none"),
        ("dance", {}, "There is no tool dance"),
    ],
)
@pytest.mark.parametrize("era", ["legacy"], indirect=True)
async def test_what_cannot_be_done_is_an_error_result_that_says_why(connect, tool, arguments, complaint):
    async with connect("changing") as client:
        assert complaint in await call(client, tool, **arguments)
        assert await tools(client) == OWN
