"""What is hidden at an endpoint does not exist there: the answers of an MCPX that has only the rest."""

from __future__ import annotations

import gc
import json
import re
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT, Endpoint
from supervisors import ChildSpec
from tests.mcpx import scripted
from tests.mcpx.line import Line
from tests.mcpx.scripted import config_of, open_watched, soon
from tests.mcpx.serving import ENVELOPE

pytestmark = pytest.mark.anyio
SHOP = ("buy", "browse", "shout", "touch", "grow")
VAULT = ("buy", "open", "shout", "touch", "grow", "steal")
WORK = {"servers": ["shop"], "tools": {"shop": ["buy", "sh*"]}}
ONLY_SHOP = Endpoint(only=("shop",))
ALL_OF_SHOP, SOME_OF_SHOP = {"shop": SHOP}, {"shop": ("buy", "shout")}


def entry(name, tools, **settings):
    """A server of which everything has its name in it; `shout`, `touch` and `grow` do more than answer."""
    kinds = {"listChanged": True}
    note, said, more = f"note:///{name}", f"@{{params.name}} of {name}", f"more-{name}"
    given = {"text": {"type": "string", "description": f"what {name} is to say"}}
    schema = {"type": "object", "properties": given}
    grown = {"name": more, "inputSchema": {"type": "object"}, "uri": f"note:///{more}"}
    offers = {
        "tools": [{"name": t, "description": f"The {t} of {name}", "inputSchema": schema} for t in tools],
        "resources": [{"uri": note, "name": name, "description": f"A note of {name}"}],
        "resourceTemplates": [{"uriTemplate": f"{note}/{{page}}", "name": name}],
        "prompts": [{"name": f"ask-{name}", "arguments": [{"name": "about"}]}],
    }
    greeting = {
        "capabilities": {
            "tools": kinds,
            "resources": kinds | {"subscribe": True},
            "prompts": kinds,
            "completions": {},
            "logging": {},
        },
        "serverInfo": {"name": name, "title": f"Title of {name}", "version": "1"},
        "instructions": f"How to use {name}.",
    }
    shout = {"notify": "notifications/message", "params": {"level": "info", "data": f"{name}!"}}
    answers = {
        "tools/call shout": [{"say": said}, shout],
        "tools/call touch": [
            {"say": said},
            {"notify": "notifications/resources/updated", "params": {"uri": note}},
        ],
        "tools/call grow": [
            {"say": said},
            {"offer": "@{given.text}", "entry": grown},
            {"notify": "notifications/@{given.text}/list_changed"},
        ],
        "tools/call": said,
        "resources/read": {"contents": [{"uri": "@{params.uri}", "text": f"a text of {name}"}]},
        "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": name}}]},
        "completion/complete": {"completion": {"values": [name]}},
        "logging/setLevel": {},
        "resources/subscribe": {},
        "resources/unsubscribe": {},
        "*": [{"error": {"code": -32601, "message": f"{name} has no @{{method}}"}}],
    }
    return scripted.entry(settings=settings, greeting=greeting, offers=offers, answers=answers)


def both(**settings):
    """A shop, and a vault that some do not see."""
    servers = {"vault": entry("vault", VAULT), "shop": entry("shop", SHOP)}
    return config_of(servers, **{"profiles": {"work": WORK}, **settings})


class Gateway:
    """A hub and its endpoints."""

    def __init__(self, watch):
        self.hub = watch.hub
        self.watch = watch
        self.clients = ClientSessions(watch.hub)
        self.endpoints = Endpoints(watch.hub, self.clients)
        watch.hub.root.add(ChildSpec(name="clients", run=self.clients.run))

    @asynccontextmanager
    async def client(self, endpoint=DEFAULT_ENDPOINT, *, modern=False, slow=False):
        async with Line(self.hub).connected(self.endpoints.gateway(endpoint)) as line:
            line.slow = slow
            line.meta = {"_meta": ENVELOPE} if modern else {}
            if not modern:
                line.greeted = await line.initialize()
            yield line


@asynccontextmanager
async def open_gateway(config):
    async with open_watched(config) as watch:
        yield Gateway(watch)


def inspect(**given):
    return "tools/call", {"name": "inspect", "arguments": given}


def run(server, tool, **more):
    names = {"server_name": server, "tool_name": tool}
    return "tools/call", {"name": "exec", "arguments": names | {"arguments": {"text": "x"}} | more}


def read(server, uri=None):
    return "tools/call", {
        "name": "resources",
        "arguments": {"server_name": server} | ({"uri": uri} if uri else {}),
    }


async def answer(line, method, params):
    """The whole answer, without the random id of a result that is kept."""
    result = await line.ask(method, params | line.meta)
    return re.sub(r"result/[0-9a-f]{4}\b", "result/ID", json.dumps([result, line.error]))


def completion(**ref):
    return "completion/complete", {"ref": ref, "argument": {"name": "about", "value": "v"}}


REQUESTS = [
    ("tools/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("prompts/list", {}),
    inspect(),
    inspect(server_name="shop"),
    inspect(server_name="vault"),
    inspect(server_name="vaults"),
    inspect(server_name="steal"),
    inspect(server_name="vault.steal"),
    inspect(tool_name="steal"),
    inspect(tool_name="buy"),
    inspect(tool_name=["buy", "steal", "open"]),
    inspect(tool_name="touch"),
    inspect(server_name="shop", tool_name="steal"),
    inspect(server_name="shop", tool_name="browse"),
    inspect(server_name="vault", tool_name="open"),
    inspect(query="steal from the vault"),
    inspect(query="touch browse buy"),
    inspect(server_name="vault", query="open"),
    run("shop", "buy"),
    run("shop", "buy", select="a.b"),
    run("shop", "browse"),
    run("shop", "brows"),
    run("shop", "steal"),
    run("shop", "vault.steal"),
    run("vault", "steal"),
    run("vault", "buy"),
    run("vaul", "steal"),
    run("", "buy"),
    run("", "steal"),
    run("", "touch"),
    run("steal", ""),
    run("vault", ""),
    run("steal", "vault"),
    run("mcp__vault__steal", ""),
    read("shop"),
    read("vault"),
    read(""),
    read("shop", "note:///shop"),
    read("shop", "note:///vault"),
    read("vault", "note:///vault"),
    read("", "note:///vault"),
    read("", "mcpx://vault/note:///vault"),
    read("shop", "mcpx://vault/note:///vault"),
    read("vault", "mcpx://result/abcd"),
    ("tools/call", {"name": "shop__buy", "arguments": {"text": "x"}}),
    ("tools/call", {"name": "shop__browse", "arguments": {}}),
    ("tools/call", {"name": "vault__buy", "arguments": {}}),
    ("tools/call", {"name": "vault__steal", "arguments": {"text": 3}}),
    ("tools/call", {"name": "vault__stea", "arguments": {}}),
    ("tools/call", {"name": "steal", "arguments": {}}),
    *(
        ("resources/read", {"uri": uri})
        for uri in (
            "note:///shop",
            "note:///vault",
            "note:///vault/1",
            "mcpx://shop/note:///shop/2",
            "mcpx://vault/note:///vault",
            "mcpx://vault/note:///vault/1",
            "mcpx://vaul/x",
            "mcpx://result/abcd",
        )
    ),
    ("prompts/get", {"name": "shop.ask-shop"}),
    ("prompts/get", {"name": "vault.ask-vault"}),
    ("prompts/get", {"name": "ask-vault"}),
    completion(type="ref/prompt", name="shop.ask-shop"),
    completion(type="ref/prompt", name="vault.ask-vault"),
    completion(type="ref/resource", uri="mcpx://vault/note:///vault/{page}"),
    completion(type="ref/resource", uri="note:///vault/{page}"),
    completion(type="ref/resource", uri="mcpx://shop/note:///shop/{page}"),
]
SUBSCRIPTIONS = [
    ("resources/subscribe", {"uri": "mcpx://vault/note:///vault"}),
    ("resources/subscribe", {"uri": "note:///vault"}),
    ("resources/subscribe", {"uri": "mcpx://shop/note:///shop"}),
    ("resources/unsubscribe", {"uri": "mcpx://vault/note:///vault"}),
]


@pytest.mark.parametrize("expose", ["three", "both"])
@pytest.mark.parametrize(
    ("endpoint", "rest"),
    [
        (ONLY_SHOP, ALL_OF_SHOP),
        (Endpoint(profile="work"), SOME_OF_SHOP),
        (Endpoint(profile="work", only=("shop",)), SOME_OF_SHOP),
        (Endpoint(only=("shop",), expose="all"), ALL_OF_SHOP),
    ],
    ids=["only", "profile", "both", "native"],
)
async def test_the_answers_are_those_of_an_mcpx_that_has_only_what_is_shown(endpoint, rest, expose):
    alone = config_of({name: entry(name, tools) for name, tools in rest.items()}, expose=expose)
    async with open_gateway(both(expose=expose)) as gateway, open_gateway(alone) as other:
        for modern, slow in ((False, False), (False, True), (True, False), (True, True)):
            async with (
                gateway.client(endpoint, modern=modern, slow=slow) as here,
                other.client(Endpoint(expose=endpoint.expose), modern=modern, slow=slow) as there,
            ):
                if modern:
                    requests = [("server/discover", {}), *REQUESTS]
                else:
                    assert here.greeted == there.greeted
                    requests = [*REQUESTS, *SUBSCRIPTIONS]
                for method, params in requests:
                    answers = [await answer(line, method, params) for line in (here, there)]
                    assert answers[0] == answers[1], (method, params)
                    assert "of vault" not in answers[0]


async def test_a_client_hears_nothing_of_what_it_does_not_see():
    async with open_gateway(both()) as gateway:
        level = "logging/setLevel", {"level": "debug"}
        async with gateway.client() as whole, gateway.client(ONLY_SHOP) as part:
            for line in (whole, part):
                await line.ask(*level)
                await line.ask("tools/list", {})
                await line.ask("resources/list", {})
            await whole.ask("resources/subscribe", {"uri": "mcpx://vault/note:///vault"})
            await whole.ask(*run("vault", "touch"))
            await whole.hear("notifications/resources/updated")
            for kind in ("resources", "prompts", "tools"):
                await whole.ask(*run("vault", "grow", arguments={"text": kind}))
                await whole.hear(f"notifications/{kind}/list_changed")
            await whole.ask(*run("vault", "shout"))
            await whole.hear("notifications/message")
            await part.ask("ping", {})  # and read what came before
            assert part.notifications == []
            await whole.ask(*run("shop", "shout"))
            await part.hear("notifications/message")
            for kind in ("resources", "prompts", "tools"):
                await whole.ask(*run("shop", "grow", arguments={"text": kind}))
                await part.hear(f"notifications/{kind}/list_changed")


async def test_streams_of_2026_07_28_carry_what_is_shown_and_nothing_else():
    every = {f"{kind}ListChanged": True for kind in ("tools", "resources", "prompts")}
    uris = ["mcpx://vault/note:///vault", "mcpx://shop/note:///shop"]
    async with (
        open_gateway(both()) as gateway,
        gateway.client() as whole,
        gateway.client(Endpoint(profile="work"), modern=True) as part,
        anyio.create_task_group() as tasks,
    ):
        await part.ask("tools/list", part.meta)
        wanted = {"notifications": every | {"resourceSubscriptions": uris}}
        tasks.start_soon(part.ask, "subscriptions/listen", wanted | part.meta)
        await soon(lambda: part.notifications)
        await whole.ask("resources/subscribe", {"uri": uris[0]})
        await whole.ask(*run("vault", "touch"))
        await whole.hear("notifications/resources/updated")
        for server in ("vault", "shop"):
            for kind in ("resources", "prompts"):
                await whole.ask(*run(server, "grow", arguments={"text": kind}))
                await whole.hear(f"notifications/{kind}/list_changed")
            if server == "vault":
                assert part.notifications == ["notifications/subscriptions/acknowledged"]
        await whole.ask(*run("shop", "touch"))
        heard = [f"notifications/{each}" for each in ("prompts/list_changed", "resources/updated")]
        await soon(lambda: set(heard) <= set(part.notifications))
        await gateway.hub.reload(both(profiles={}))
        await whole.ask(*run("shop", "touch"))
        await soon(lambda: "notifications/tools/list_changed" in part.notifications)
        assert part.notifications.count(heard[1]) == 1
        tasks.cancel_scope.cancel()


async def test_a_hidden_tool_that_changes_is_not_announced():
    async with (
        open_gateway(both()) as gateway,
        gateway.client() as whole,
        gateway.client(Endpoint(profile="work")) as part,
    ):
        for line in (whole, part):
            await line.ask("tools/list", {})
        await whole.ask(*run("shop", "grow", arguments={"text": "tools"}))
        await whole.hear("notifications/tools/list_changed")
        await whole.ask(*run("shop", "grow", arguments={"text": "prompts"}))
        await part.hear("notifications/prompts/list_changed")
        await part.ask("ping", {})
        assert part.notifications == []


async def test_a_reload_changes_what_a_profile_shows_at_once():
    async with (
        open_gateway(both()) as gateway,
        gateway.client(Endpoint(profile="work", expose="both")) as line,
    ):

        async def shown():
            listed = await line.ask("tools/list", {})
            return [tool["name"] for tool in listed["tools"][3:]]

        assert await shown() == ["shop__buy", "shop__shout"]
        pids = {name: up.pid for name, up in gateway.hub.upstreams.items()}
        work = {"servers": ["*"], "tools": {"vault": ["open"], "shop": []}}
        await gateway.hub.reload(both(profiles={"work": work}))
        for line.slow in (False, True):
            answer = await line.ask(*run("shop", "buy"))
            assert answer["structuredContent"]["code"] == "unknown_tool"
            assert not (await line.ask(*run("vault", "open"))).get("isError")
        for kind in ("tools", "resources", "prompts"):
            await line.hear(f"notifications/{kind}/list_changed")
        assert await shown() == ["vault__open"]
        assert {name: up.pid for name, up in gateway.hub.upstreams.items()} == pids
        await gateway.hub.reload(both(profiles={}))
        for line.slow in (False, True):
            answer = await line.ask(*run("vault", "open"))
            assert answer["structuredContent"]["code"] == "unknown_server"
        await line.hear("notifications/resources/list_changed")
        assert await shown() == []
        assert (await line.ask("resources/list", {}))["resources"] == []


async def test_updates_end_with_a_reload_that_hides_their_server():
    async with (
        open_gateway(both()) as gateway,
        gateway.client(Endpoint(profile="work")) as line,
        gateway.client() as whole,
    ):
        uri = {"uri": "mcpx://shop/note:///shop"}
        for each in (line, whole):
            await each.ask("resources/subscribe", uri)
        await whole.ask(*run("shop", "touch"))
        await line.hear("notifications/resources/updated")
        await whole.hear("notifications/resources/updated")
        await gateway.hub.reload(both(profiles={"work": {"servers": ["vault"]}}))
        await whole.ask(*run("shop", "touch"))
        await whole.hear("notifications/resources/updated")
        await line.ask("ping", {})
        assert "notifications/resources/updated" not in line.notifications


async def test_endpoints_that_nobody_uses_cost_nothing():
    async with open_gateway(both()) as gateway, AsyncExitStack() as stack:
        line = await stack.enter_async_context(gateway.client(ONLY_SHOP))
        again = gateway.endpoints.gateway(ONLY_SHOP)
        assert again is gateway.endpoints.gateway(ONLY_SHOP)
        assert gateway.endpoints.gateway(DEFAULT_ENDPOINT) is gateway.endpoints.gateway(DEFAULT_ENDPOINT)
        assert len(gateway.clients._lists) == 2
        del again, line
        await stack.aclose()

        def collected():
            gc.collect()
            return len(gateway.clients._lists) == 1

        await soon(collected)
