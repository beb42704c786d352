"""Sessions that are opened without the SDK's server: the same answers as with it, which comes when needed."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import termios
from contextlib import asynccontextmanager

import anyio
import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.config import Config
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.offer import Offer
from mcpx.core.gateway.server import GatewayServer
from mcpx.core.system.endpoint import COUNTED_KEY, DEFAULT_ENDPOINT, PROBE_KEY, SETTLED_KEY, Endpoint
from supervisors import ChildSpec
from tests.mcpx.line import Line
from tests.mcpx.scripted import Gate, config_of, entry, open_watched, soon
from tests.mcpx.serving import LEGACY, environment, run_cli

pytestmark = pytest.mark.anyio
ABOUT = {"name": "test", "version": "1"}


def asked(**more):
    return {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": ABOUT, **more}


ORDINARY = [
    asked(),
    asked(protocolVersion="2024-11-05"),
    asked(protocolVersion="2025-03-26"),
    asked(protocolVersion="2026-07-28"),
    asked(protocolVersion="no such revision"),
    asked(clientInfo={**ABOUT, "title": "Test", "websiteUrl": "http://localhost", "description": None}),
    asked(clientInfo={**ABOUT, "unheard": {"of": [1]}}, unheard=None),
    asked(
        capabilities={"roots": {"listChanged": True}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}
    ),
    asked(capabilities={"roots": {}, "experimental": {"x": {"y": 1}}, "tools": True, "logging": False}),
    asked(capabilities={"roots": None, "sampling": {"tools": {}, "context": {}}}),
    asked(_meta={"progressToken": 1, "x": {"y": None}}),
    asked(_meta={PROBE_KEY: True}),
]
ODD = [
    {},
    asked(protocolVersion=7),
    asked(protocolVersion=None),
    asked(capabilities=[]),
    asked(capabilities={"roots": True}),
    asked(capabilities={"roots": {"listChanged": "x"}}),
    asked(capabilities={"tasks": {}}),
    asked(capabilities={"extensions": {"a/b": {}}}),
    asked(clientInfo={"name": "test"}),
    asked(clientInfo={"name": 1, "version": "1"}),
    asked(clientInfo={**ABOUT, "icons": [{"src": "x"}]}),
    asked(_meta=[]),
    asked(_meta={"progressToken": 1.5}),
]
LISTS = [
    ("tools/list", {}),
    ("tools/list", {"cursor": None}),
    ("tools/list", {"cursor": "x"}),
    ("tools/list", {"cursor": 1}),
    ("tools/list", {"_meta": {"progressToken": 1, SETTLED_KEY: True, COUNTED_KEY: False}}),
    ("tools/list", {"_meta": {"progressToken": []}}),
    ("tools/list", {"unheard": 1}),
    ("tools/list", []),
    ("resources/list", {}),
    ("resources/list", {"cursor": "x"}),
    ("resources/templates/list", {"_meta": {SETTLED_KEY: True}}),
    ("prompts/list", {}),
    ("prompts/list", {"cursor": 1}),
    ("ping", {}),
    ("ping", {"_meta": {}}),
]


class Raw(Line):
    """A client that gets every answer as the bytes that came, and counts those that needed no SDK."""

    opened = 0

    def _took(self, taken, method):
        self.opened += taken
        return super()._took(taken, method)

    def decode(self, line):
        self.line = line
        return super().decode(line)

    async def answer(self, method, params):
        await self.ask(method, params)
        return self.line.replace(b'"id":%d,' % self.last_id, b"")


async def answers(server, *, slow, greeting, after=()):
    line = Raw(server.hub)
    line.slow = slow
    async with line.connected(server):
        found = [await line.answer("initialize", greeting)]
        line.tell("notifications/initialized", None)
        found += [await line.answer(*each) for each in after]
    return found, line.opened


TEXTS = [{"uri": f"note:///{name}", "name": name, "text": name} for name in "ab"]
OFFERS = {
    "prompts": ["greet", {"name": "ask", "arguments": [{"name": "what", "required": True}]}],
    "resourceTemplates": [{"uriTemplate": "note:///{name}", "name": "a note"}],
}


@pytest.fixture(params=["three", "both", "tools alone"])
def config(request):
    if request.param == "tools alone":
        return config_of({"s": entry(native=False)})
    return config_of({"s": entry(resources=TEXTS, offers=OFFERS), "t": entry()}, expose=request.param)


async def test_the_sdks_server_gives_the_same_bytes(config: Config):
    async with open_watched(config) as watch:
        clients = ClientSessions(watch.hub)
        server = GatewayServer(watch.hub, clients)
        offer = server.offer
        for greeting in [*ORDINARY, *ODD]:
            fast, opened = await answers(server, slow=False, greeting=greeting)
            slow, none = await answers(server, slow=True, greeting=greeting)
            assert fast == slow, greeting
            assert (opened, none) == (int(greeting in ORDINARY), 0), greeting
        fast, opened = await answers(server, slow=False, greeting=asked(), after=LISTS)
        slow, _ = await answers(server, slow=True, greeting=asked(), after=LISTS)
        assert fast == slow
        # what has to be read twice, or refused, is left to the SDK
        assert opened == 1 + 5 + (4 if offer.has_native else 0)
        assert json.loads(server.stamp) == {"io.modelcontextprotocol/serverInfo": server.server_info_stamp}


async def test_such_a_session_is_a_client_as_any_other_and_passes_to_the_sdk_when_it_asks_for_more():
    async with open_watched(config_of({"s": entry()})) as watch:
        clients = ClientSessions(watch.hub)
        watch.hub.root.add(ChildSpec(name="clients", run=clients.run))
        endpoints = Endpoints(watch.hub, clients)
        offer = endpoints.offer(DEFAULT_ENDPOINT)
        assert endpoints.offer(DEFAULT_ENDPOINT) is offer
        async with Line(watch.hub).connected(offer) as line:
            await line.initialize()
            (attached,) = clients.attached.all()
            assert (attached.name, attached.revision, len(clients)) == ("test", LEGACY, 1)
            assert len((await line.ask("tools/list", {}))["tools"]) == 3
            ran = {"server_name": "s", "tool_name": "echo", "arguments": {"text": "hi"}}
            await line.ask("tools/call", {"name": "exec", "arguments": ran})
            ran["tool_name"] = "add"
            await line.ask("tools/call", {"name": "exec", "arguments": ran | {"arguments": {"name": "more"}}})
            await line.hear("notifications/tools/list_changed")
            roots = watch.hub.clients.roots_version
            line.tell("notifications/roots/list_changed", None)
            await soon(lambda: watch.hub.clients.roots_version != roots)
            assert await line.ask("prompts/list", {}) == {"prompts": []}
            assert offer.loaded_server() is None
            await line.ask("completion/complete", {})
            assert offer.loaded_server() is endpoints.gateway(DEFAULT_ENDPOINT)
            assert (await line.ask("ping", None), len(clients)) == ({}, 1)
            assert await line.ask("initialize", asked()) is not None
            assert await line.ask("logging/setLevel", {"level": "debug"}) == {}
        await soon(lambda: not clients.attached.all() and not len(clients))


def calling(tool="echo", **arguments):
    return {"name": "exec", "arguments": {"server_name": "s", "tool_name": tool, "arguments": arguments}}


@asynccontextmanager
async def on_a_known_server(folder, *, slow=False, then=lambda: None, **script):
    """A client of MCPX whose server was listed in an earlier run, and is asleep; `then` comes in between."""
    once = {"restart": {"park_after": 1, "park_probe": 1000}}
    config = config_of({"s": entry(settings=once, **script)})
    async with open_watched(config, state=folder):
        pass
    then()
    async with open_watched(config, state=folder) as watch:
        assert watch.state() is State.ASLEEP
        offer = Endpoints(watch.hub, ClientSessions(watch.hub)).offer(DEFAULT_ENDPOINT)
        line = Line(watch.hub)
        line.slow = slow
        async with line.connected(offer):
            await line.initialize()
            yield watch, line
            assert (offer.loaded_server() is None) is not slow


@pytest.mark.parametrize("slow", [False, True])
async def test_a_call_wakes_a_known_server_with_the_sdks_server_and_without(tmp_path, slow):
    async with on_a_known_server(tmp_path, slow=slow) as (watch, line):
        (said,) = (await line.ask("tools/call", calling(text="hi")))["content"]
        assert (said["text"], watch.state()) == ("hi", State.READY)


@pytest.mark.parametrize("slow", [False, True])
async def test_a_known_server_that_starts_no_more_fails_its_call_once_and_with_the_cause(tmp_path, slow):
    wanted = tmp_path / "wanted"
    wanted.touch()
    async with on_a_known_server(tmp_path, slow=slow, then=wanted.unlink, wants=str(wanted)) as (watch, line):
        failed = await line.ask("tools/call", calling(text="hi"))
        about = failed["structuredContent"]
        assert (failed["isError"], about["code"], about["outcome"]) == (
            True,
            "server_unavailable",
            "not_sent",
        )
        assert "the file that I want is missing" in failed["content"][0]["text"]
        assert watch.hub.meter.since_start().of_server("s").refused == 1


async def test_a_call_that_waits_for_a_known_server_can_be_cancelled(tmp_path):
    with Gate(tmp_path / "gate") as gate:
        gate.let_one_through()
        async with on_a_known_server(tmp_path, gate=str(gate.path)) as (watch, line):
            asked = {"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": calling(text="hi")}
            os.write(line._out, json.dumps(asked).encode() + b"\n")
            await watch.becomes(State.STARTING)
            line.tell("notifications/cancelled", {"requestId": 77})
            assert await line.ask("prompts/list", {}) == {"prompts": []}
            gate.let_one_through()
            await watch.becomes(State.READY)
            (said,) = (await line.ask("tools/call", calling(text="more")))[
                "content"
            ]  # the next answer of all
            assert said["text"] == "more"


async def test_a_list_that_waits_can_be_cancelled_and_ends_with_its_client():
    silent = {"command": sys.executable, "args": ["-S", "-E", "-c", "input(); input()"]}
    async with open_watched(config_of({"s": silent}, startup_wait=60), settled=False) as watch:
        offer = Endpoints(watch.hub, ClientSessions(watch.hub)).offer(DEFAULT_ENDPOINT)
        async with Line(watch.hub).connected(offer) as line:
            await line.initialize()
            os.write(line._out, b'{"jsonrpc":"2.0","id":77,"method":"tools/list"}\n')
            line.tell("notifications/cancelled", {"requestId": 77})
            assert await line.ask("ping", None) == {}
            os.write(line._out, b'{"jsonrpc":"2.0","id":78,"method":"tools/list"}\n')
            assert await line.ask("ping", None) == {}


def unread(pipe):
    """The bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


async def test_what_follows_while_the_sdk_is_loaded_comes_after_it():
    begun, gate = anyio.Event(), anyio.Event()
    async with open_watched(config_of({"s": entry()})) as watch:
        endpoints = Endpoints(watch.hub, ClientSessions(watch.hub))

        async def load(endpoint):
            begun.set()
            await gate.wait()
            return endpoints.gateway(endpoint)

        offer = Offer(watch.hub, endpoints.clients, load=load)
        async with Line(watch.hub).connected(offer) as line, anyio.create_task_group() as tasks:
            await line.initialize()
            tasks.start_soon(line.ask, "prompts/get", {})
            await begun.wait()
            roots = watch.hub.clients.roots_version
            line.tell("notifications/roots/list_changed", None)
            await soon(lambda: not unread(line._out))
            assert watch.hub.clients.roots_version == roots
            gate.set()
            await soon(lambda: watch.hub.clients.roots_version != roots)


async def test_every_endpoint_has_an_offer_of_its_own():
    async with open_watched(config_of({"s": entry(), "t": entry()})) as watch:
        endpoints = Endpoints(watch.hub, ClientSessions(watch.hub))
        only = endpoints.offer(Endpoint(only=("s",)))
        assert set(only.hub.upstreams) == {"s"}
        assert endpoints.gateway(Endpoint(only=("s",))).offer is only


# --- what is imported for it

LISTED = """
import atexit, json, os, sys
atexit.register(lambda: open(os.environ["MODULES"], "w").write(json.dumps(sorted(sys.modules))))
from mcpx.__main__ import main
main()
"""
UNWANTED = {
    "click",
    "mcp.client.session",
    "mcp.server.connection",
    "mcp.server.lowlevel.server",
    "mcp.server.runner",
    "mcp_types._types",
    "mcp_types._v2025_11_25",
    "mcp_types._v2026_07_28",
    "pydantic",
    "python_multipart",
    "sse_starlette",
    "starlette",
    "uvicorn",
    "httpx2",
    "httptools",
    "mcpx.cli.group",
    "mcpx.core.gateway.frontends.http",
    "mcpx.core.gateway.server",
    "mcpx.core.servers.fleet.read_cache",
}


def test_a_daemon_that_served_a_small_session_has_not_imported_the_sdks_server(tmp_path):
    config, modules = tmp_path / "config.json", tmp_path / "modules"
    config.write_text(json.dumps({"mcpServers": {"s": entry()}}))
    environ = {**environment(tmp_path), "MODULES": str(modules)}
    daemon = subprocess.Popen(
        [sys.executable, "-c", LISTED, "daemon", "run", "--config", str(config)], env=environ
    )
    try:
        session = [
            {"id": 1, "method": "initialize", "params": asked()},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/list"},
            {"id": 3, "method": "ping"},
            {"id": 5, "method": "prompts/list"},
            {"id": 6, "method": "resources/list"},
            {
                "id": 4,
                "method": "tools/call",
                "params": {
                    "name": "exec",
                    "arguments": {"server_name": "s", "tool_name": "echo", "arguments": {"text": "hi"}},
                },
            },
        ]
        lines = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in session)
        status = ["daemon", "status", "--config", str(config)]
        while daemon.poll() is None and run_cli(tmp_path, *status).returncode:
            pass
        shim = [sys.executable, "-m", "mcpx", "attach", "--config", str(config)]
        done = subprocess.run(
            shim, input=lines, env=environ, capture_output=True, text=True, check=True, timeout=50
        )
        answered = [json.loads(line) for line in done.stdout.splitlines()]
        assert sorted(each["id"] for each in answered if "id" in each) == [1, 2, 3, 4, 5, 6]
        assert not any("error" in each for each in answered)
        assert run_cli(tmp_path, "daemon", "stop", "--config", str(config)).returncode == 0
        assert daemon.wait(20) == 0
    finally:
        daemon.kill()
        daemon.wait()
    loaded = set(json.loads(modules.read_text()))
    assert "mcpx.core.gateway.eras" in loaded
    assert not UNWANTED & loaded
