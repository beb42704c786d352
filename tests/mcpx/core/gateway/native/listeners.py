"""Clients of either era that are subscribed, and the events that they receive.

`open_listener` opens one with its subscriptions; `ReceivedEvents` keeps the events in order and lets a test
wait for them. `barrier` makes sure that everything that was on its way to a client has been received.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import anyio
from mcp import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp_types import (
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ToolListChangedNotification,
)

from tests.mcpx.core.gateway.native.connecting import Gateway, subscribe
from tests.mcpx.scripted import PATIENCE_S

LISTS = {
    ToolListChangedNotification: "tools",
    ResourceListChangedNotification: "resources",
    PromptListChangedNotification: "prompts",
    ToolsListChanged: "tools",
    ResourcesListChanged: "resources",
    PromptsListChanged: "prompts",
}


class ReceivedEvents:
    """The events of one client: URIs of updated resources, and `tools`, `resources`, `prompts` for lists."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.client: Client
        self._news = anyio.Event()

    def add(self, event: str) -> None:
        self.events.append(event)
        news, self._news = self._news, anyio.Event()
        news.set()

    async def hear(self, event: str, *, count: int = 1, within: float = PATIENCE_S) -> None:
        with anyio.fail_after(within):
            while self.events.count(event) < count:
                await self._news.wait()

    async def notified(self, message: Any) -> None:
        """The SDK's message handler, for the handshake era."""
        if isinstance(message, ResourceUpdatedNotification):
            self.add(message.params.uri)
        elif type(message) in LISTS:
            self.add(LISTS[type(message)])

    async def follow(self, stream: Any) -> None:
        """A stream of 2026-07-28."""
        with suppress(SubscriptionLost):
            async for event in stream:
                self.add(event.uri if isinstance(event, ResourceUpdated) else LISTS[type(event)])


@asynccontextmanager
async def open_listener(
    mcpx: Gateway, mode: str, *uris: str, lists: bool = False
) -> AsyncIterator[ReceivedEvents]:
    """A client that is subscribed to those resources, and with `lists` to changes of the lists."""
    received = ReceivedEvents()
    async with AsyncExitStack() as stack:
        if mode == "handshake":
            client = mcpx.client(mode, message_handler=received.notified)
            received.client = await stack.enter_async_context(client)
            for uri in uris:
                await subscribe(received.client, uri)
        else:
            received.client = await stack.enter_async_context(mcpx.client(mode))
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stream = await stack.enter_async_context(
                received.client.listen(
                    resource_subscriptions=uris,
                    tools_list_changed=lists,
                    resources_list_changed=lists,
                    prompts_list_changed=lists,
                )
            )
            assert set(stream.honored.resource_subscriptions or ()) == set(uris)
            tasks.start_soon(received.follow, stream)
            stack.callback(tasks.cancel_scope.cancel)
        yield received


async def barrier(*listeners: ReceivedEvents) -> None:
    """What was sent to these clients before is heard: answers come behind it on the same stream."""
    for received in listeners:
        await received.client.call_tool("inspect", {"server_name": "a"})
    await anyio.lowlevel.checkpoint()
