"""Subscribers at the HTTP endpoint of a real MCPX: told over their own streams, and gone when they leave."""

from __future__ import annotations

import anyio
import pytest
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import ResourceUpdatedNotification

from tests.live.gateways import http_client, http_endpoint, write_config
from tests.mcpx.core.gateway.native.connecting import entry, subscribe

pytestmark = pytest.mark.anyio

URI = "mcpx://a/note:///full"


async def touch(client, text: str) -> None:
    call = {"server_name": "a", "tool_name": "touch", "arguments": {"uri": "note:///full", "text": text}}
    assert not (await client.call_tool("exec", call)).is_error


class OldClient:
    """A client of the handshake era, subscribed until it is to leave."""

    def __init__(self, endpoint) -> None:
        self.endpoint = endpoint
        self.told = anyio.Event()
        self.leave = anyio.Event()

    async def run(self, *, task_status=anyio.TASK_STATUS_IGNORED) -> None:
        async with http_client(self.endpoint, mode="legacy", message_handler=self.on_message) as client:
            await client.call_tool("inspect", {"server_name": "a"})
            await subscribe(client, URI)
            task_status.started()
            await self.leave.wait()

    async def on_message(self, message) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            assert message.params.uri == URI
            self.told.set()


async def test_both_eras_are_told_and_the_last_one_ends_the_subscription(ears, era, tmp_path):
    config = write_config(tmp_path, {"a": entry(era, ears)})
    with anyio.fail_after(50):
        async with http_endpoint(config) as endpoint, http_client(endpoint, mode="auto") as new:
            old = OldClient(endpoint)
            async with anyio.create_task_group() as tasks:
                await tasks.start(old.run)
                async with new.listen(resource_subscriptions=[URI]) as stream:
                    assert stream.honored.resource_subscriptions == [URI]
                    await touch(new, "new")
                    assert await anext(stream) == ResourceUpdated(URI)
                    await old.told.wait()
                    assert [event["uris"] for event in ears.of("subscribed")] == [["note:///full"]]
                    old.leave.set()
                    await touch(new, "newer")
                    assert await anext(stream) == ResourceUpdated(URI)
                    assert ears.of("unsubscribed") == []
            await ears.hear("unsubscribed", uris=["note:///full"])
            assert len(ears.of("subscribed")) == 1
