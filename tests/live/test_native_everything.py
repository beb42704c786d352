"""server-everything behind MCPX: resources, templates, prompts and completions, field by field as directly.

The differences that are allowed, and why:

* `uri`, `uriTemplate` and prompt names are in MCPX's namespace, so that servers cannot collide.
* `_meta["io.modelcontextprotocol/serverInfo"]`, `ttlMs`, `cacheScope`, `resultType`: of the revision that
  MCPX speaks with the client, 2026-07-28 at some endpoints; the server itself speaks an older one.
* An error's `data` also holds the `uri`, which the server does not give; not found is -32602 for a client of
  2026-07-28, where -32002 is retired.
* A text with a clock in it is compared while the server's own answer stays the same.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp_types import (
    EmptyResult,
    PromptReference,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    SubscribeRequest,
    SubscribeRequestParams,
    UnsubscribeRequest,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tests.live import gateways, servers
from tests.live.directly import TRIES

pytestmark = pytest.mark.live

URI = "mcpx://everything/"
OURS = {"ttlMs", "cacheScope", "resultType"}
STAMP = "io.modelcontextprotocol/serverInfo"
TEXT, BLOB = "demo://resource/dynamic/text/1", "demo://resource/dynamic/blob/1"
DOCUMENT = "demo://resource/static/document/architecture.md"


@pytest.fixture
def both(gateway, direct, scratch) -> Both:
    servers.require(servers.live_server("everything", scratch))
    return Both(direct._portal, direct._clients["everything"], gateway.gateway.client)


class Both:
    """The same request directly and through MCPX."""

    def __init__(self, portal: Any, theirs: Client, ours: Client) -> None:
        self._portal = portal
        self._theirs = theirs
        self._ours = ours
        self.modern = ours.protocol_version in MODERN_PROTOCOL_VERSIONS

    def ask(
        self, theirs: Callable[..., Awaitable[Any]], ours: Callable[..., Awaitable[Any]]
    ) -> tuple[Any, Any]:
        """Both answers, of one moment."""
        for _ in range(TRIES):
            before = self._portal.call(theirs, self._theirs)
            between = self._portal.call(ours, self._ours)
            if plain(self._portal.call(theirs, self._theirs)) == plain(before):
                return plain(before), plain(between)
        raise AssertionError("the server's own answer was never twice the same")

    def errors(self, theirs: Callable[..., Any], ours: Callable[..., Any]) -> tuple[Any, Any]:
        told = []
        for ask, client in ((theirs, self._theirs), (ours, self._ours)):
            with pytest.raises(MCPError) as caught:
                self._portal.call(ask, client)
            told.append(caught.value.error)
        return told[0], told[1]


def plain(model: Any) -> Any:
    dumped = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    if set(dumped.get("_meta", {})) <= {STAMP}:
        dumped.pop("_meta", None)
    return {key: value for key, value in dumped.items() if key not in OURS}


def renamed(value: Any) -> Any:
    if isinstance(value, list):
        return [renamed(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {k: URI + v if k in {"uri", "uriTemplate"} else renamed(v) for k, v in value.items()}


def of_everything(listed: dict[str, Any], kind: str, key: str, prefix: str) -> dict[str, Any]:
    """A list of MCPX's without the other servers' entries."""
    return {**listed, kind: [item for item in listed[kind] if item[key].startswith(prefix)]}


def test_resources(both):
    theirs, ours = both.ask(lambda c: c.list_resources(), lambda c: c.list_resources(cache_mode="refresh"))
    assert len(theirs["resources"]) >= 7
    assert of_everything(ours, "resources", "uri", URI) == renamed(theirs)


def test_templates(both):
    theirs, ours = both.ask(lambda c: c.list_resource_templates(), lambda c: c.list_resource_templates())
    assert len(theirs["resourceTemplates"]) == 2
    assert of_everything(ours, "resourceTemplates", "uriTemplate", URI) == renamed(theirs)


def test_prompts(both):
    theirs, ours = both.ask(lambda c: c.list_prompts(), lambda c: c.list_prompts())
    assert len(theirs["prompts"]) == 4
    for prompt in theirs["prompts"]:
        prompt["name"] = f"everything.{prompt['name']}"
    assert of_everything(ours, "prompts", "name", "everything.") == theirs


@pytest.mark.parametrize("uri", [TEXT, BLOB, DOCUMENT])
def test_a_read(both, uri):
    theirs, ours = both.ask(
        lambda c: c.read_resource(uri), lambda c: c.read_resource(URI + uri, cache_mode="refresh")
    )
    assert ours == renamed(theirs)


def test_a_read_of_nothing(both):
    uri = "demo://resource/dynamic/text/none"
    theirs, ours = both.errors(lambda c: c.read_resource(uri), lambda c: c.read_resource(URI + uri))
    assert ours.message == theirs.message
    assert ours.code == (-32602 if both.modern and theirs.code == -32002 else theirs.code)
    assert ours.data["uri"] == URI + uri


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("simple-prompt", None),
        ("args-prompt", {"city": "Oslo", "state": "no"}),
        ("args-prompt", {"city": "Oslo"}),
        ("completable-prompt", {"department": "Sales", "name": "Eve"}),
        ("resource-prompt", {"resourceType": "Text", "resourceId": "3"}),
        ("resource-prompt", {"resourceType": "Blob", "resourceId": "4"}),
    ],
)
def test_a_prompt(both, name, arguments):
    theirs, ours = both.ask(
        lambda c: c.get_prompt(name, arguments), lambda c: c.get_prompt(f"everything.{name}", arguments)
    )
    assert theirs["messages"]
    assert ours == renamed(theirs)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("args-prompt", {}), ("resource-prompt", {"resourceType": "Sound", "resourceId": "3"})],
)
def test_a_prompt_with_wrong_arguments(both, name, arguments):
    theirs, ours = both.errors(
        lambda c: c.get_prompt(name, arguments), lambda c: c.get_prompt(f"everything.{name}", arguments)
    )
    assert ours == theirs


@pytest.mark.parametrize(
    ("name", "argument", "value", "context"),
    [
        ("completable-prompt", "department", "", None),
        ("completable-prompt", "department", "S", None),
        ("completable-prompt", "name", "", {"department": "Marketing"}),
        ("completable-prompt", "name", "J", {"department": "Support"}),
        ("resource-prompt", "resourceType", "", None),
        ("args-prompt", "city", "O", None),
    ],
)
def test_a_completion_for_a_prompt(both, name, argument, value, context):
    asked = {"argument": {"name": argument, "value": value}, "context_arguments": context}
    theirs, ours = both.ask(
        lambda c: c.complete(PromptReference(name=name), **asked),
        lambda c: c.complete(PromptReference(name=f"everything.{name}"), **asked),
    )
    assert ours == theirs
    if name == "completable-prompt":
        assert theirs["completion"]["values"]


@pytest.mark.parametrize("value", ["1", "x"])
def test_a_completion_for_a_template(both, value):
    template = "demo://resource/dynamic/text/{resourceId}"
    asked = {"argument": {"name": "resourceId", "value": value}}
    theirs, ours = both.ask(
        lambda c: c.complete(ResourceTemplateReference(uri=template), **asked),
        lambda c: c.complete(ResourceTemplateReference(uri=URI + template), **asked),
    )
    assert ours == theirs


@pytest.mark.anyio
async def test_a_subscription(endpoint, scratch, tmp_path):
    """The updates that the server sends to a subscriber, and none after it has left; the URI is renamed."""
    everything = servers.require(servers.live_server("everything", scratch))
    config = gateways.write_config(tmp_path, {"everything": everything.entry()})
    heard: list[str] = []
    news = anyio.Event()

    def hear(uri: str) -> None:
        nonlocal news
        heard.append(uri)
        news.set()
        news = anyio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            hear(message.params.uri)

    async def toggle(client: Client) -> str:
        call = {"server_name": "everything", "tool_name": "toggle-subscriber-updates"}
        return (await client.call_tool("exec", call)).content[0].text

    async with gateways.open_gateway(endpoint, config, message_handler=on_message) as gateway:
        client, first = gateway.client, URI + TEXT
        await gateway.inspect("everything")
        with anyio.fail_after(gateways.ANSWER_S):
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                async with client.listen(resource_subscriptions=[first]) as stream:
                    assert stream.honored.resource_subscriptions == [first]
                    assert re.match("Started", await toggle(client))
                    async for event in stream:
                        assert event.uri == first
                        break
                assert re.match("Stopped", await toggle(client))
                heard.clear()
            else:
                subscribe = SubscribeRequest(params=SubscribeRequestParams(uri=first))
                await client.session.send_request(subscribe, EmptyResult)
                assert re.match("Started", await toggle(client))
                while not heard:
                    await news.wait()
                assert heard == [first]
                assert re.match("Stopped", await toggle(client))
                unsubscribe = UnsubscribeRequest(params=UnsubscribeRequestParams(uri=first))
                await client.session.send_request(unsubscribe, EmptyResult)
                heard.clear()
            await toggle(client)  # updates are sent at once, to those who are subscribed
            await toggle(client)
            await gateway.inspect("everything")
        assert heard == []
