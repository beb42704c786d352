"""The view of what a model sees shows what clients are really sent, to the letter."""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.config import HttpGateway
from mcpx.core.gateway.clients import attached
from mcpx.core.gateway.frontends.http.frontend import HttpFrontend, listen
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT, Endpoint
from mcpx.core.wire.channel import Channel
from mcpx.page.page import Page
from mcpx.page.views import model
from mcpx.page.views.sights import measured
from supervisors import ChildSpec
from tests.mcpx.core.gateway.endpoints import HttpEndpoint
from tests.mcpx.core.gateway.test_profiles import both, open_gateway
from tests.mcpx.line import Line
from tests.mcpx.page.signed_in import signed_in
from tests.mcpx.scripted import PATIENCE_S, config_of, entry, soon
from tests.mcpx.serving import ENVELOPE

pytestmark = pytest.mark.anyio
ABOUT = "io.modelcontextprotocol/clientInfo"


@pytest.fixture
def with_tools(tmp_path):
    """Makes the entry of a server that offers tools with these descriptions."""

    def make(settings=None, /, **tools):
        file = tmp_path / f"{'-'.join(tools)[:40]}.json"
        schema = {"type": "object"}
        listed = [{"name": name, "description": text, "inputSchema": schema} for name, text in tools.items()]
        file.write_text(json.dumps(listed))
        return entry(tools=str(file), settings=settings)

    return make


@asynccontextmanager
async def looking(config):
    async with open_gateway(config) as gateway:
        await gateway.hub.listed(PATIENCE_S)
        async with signed_in(Page(gateway.hub, gateway.clients)) as page:
            yield gateway, page


@asynccontextmanager
async def client_of(gateway, name, endpoint=DEFAULT_ENDPOINT, *, modern=False):
    """A client of that name, with what it is sent: its greeting, and its tools by name."""
    async with Line(gateway.hub).connected(gateway.endpoints.gateway(endpoint)) as line:
        meta = {"_meta": ENVELOPE | {ABOUT: {"name": name, "version": "1.2"}}} if modern else {}
        if modern:
            line.greeted = await line.ask("server/discover", meta)
        else:
            line.greeted = await line.initialize({"name": name, "version": "1.2"})
        listed = await line.ask("tools/list", meta)
        line.tools = {tool["name"]: tool for tool in listed["tools"]}
        yield line


def whole(text):
    return text["text"] + text["cut"]


async def the_client(page, name):
    [found] = [each for each in (await page.get("/model"))["clients"] if each["name"] == name]
    return found, await page.get(f"/model/{found['id']}")


@pytest.mark.parametrize(
    "endpoint",
    [DEFAULT_ENDPOINT, Endpoint(expose="all"), Endpoint(expose="both"), Endpoint(profile="work")],
    ids=str,
)
async def test_it_is_what_the_client_was_sent(endpoint):
    async with looking(both()) as (gateway, page):
        for name in ("someone", "claude-code", "codex-mcp-client"):
            for modern in (False, True):
                async with client_of(gateway, name, endpoint, modern=modern) as line:
                    about, seen = await the_client(page, name)
                    assert_is(about, seen, line)
                    assert about["endpoint"]["profile"] == endpoint.profile


def assert_is(about, seen, line):
    """What is shown is what the client was sent."""
    assert whole(seen["instructions"]) == line.greeted["instructions"]
    assert [each["name"] for each in seen["tools"]] == list(line.tools)
    for each in seen["tools"]:
        assert whole(each["description"]) == line.tools[each["name"]].get("description", "")
    properties = {
        (tool, name): schema["description"]
        for tool, sent in line.tools.items()
        if tool in {"inspect", "query", "exec", "resources"}
        for name, schema in sent["inputSchema"]["properties"].items()
        if "description" in schema
    }
    shown = {
        (each["name"], parameter["name"]): whole(parameter["description"])
        for each in seen["tools"]
        for parameter in each["parameters"]
    }
    assert shown == properties
    assert about["own_tools"] + about["native_tools"] == len(line.tools)
    assert about["tokens"] > 0
    assert about["version"] == "1.2"


async def test_the_definition_of_a_tool_is_what_was_sent():
    async with looking(both()) as (gateway, page), client_of(gateway, "x", Endpoint(expose="both")) as line:
        about, seen = await the_client(page, "x")
        for each in seen["tools"]:
            written = await page.get(f"/model/{about['id']}/tools/{each['name']}")
            assert json.loads(written["text"]) == line.tools[each["name"]]
        await page.get(f"/model/{about['id']}/tools/no%20such%20tool", fails=True)


async def test_what_a_client_cuts_is_told_from_what_it_shows(with_tools):
    async with looking(both()) as (_, page):
        seen = await page.get("/model/as-codex")
        assert len(seen["instructions"]["text"].encode()) <= 1000
        assert seen["limits"][0] == "It shows 1,000 bytes of the instructions."
        for each in (await page.get("/model/as-github-copilot"))["tools"]:
            assert not each["description"]["cut"]  # the lists stand in the parameters
    async with looking(config_of({"s": with_tools(long="x" * 5000)}, expose="all")) as (_, page):
        [tool] = (await page.get("/model/as-claude-code"))["tools"]
        assert len(tool["description"]["text"]) == 2048
        assert len(tool["description"]["cut"]) == 5000 - 2048
        [tool] = (await page.get("/model/as-other"))["tools"]
        assert not tool["description"]["cut"]


def test_a_text_is_cut_between_characters():
    found = measured("aé" * 10, max_bytes=5)
    assert found["text"] == "aéa"
    assert found["cut"] == "é" + "aé" * 8
    assert found["bytes"] == 30
    assert measured("x\ud800y")["text"] == "x?y"
    assert measured("abcdef", room=4) | {"tokens": 0} == {
        "text": "abcd",
        "cut": "",
        "left_out": 2,
        "chars": 6,
        "bytes": 6,
        "tokens": 0,
    }


async def test_clients_come_and_go_and_each_is_shown_once():
    async with looking(both()) as (gateway, page):
        assert (await page.get("/model"))["clients"] == []
        async with client_of(gateway, "one"), client_of(gateway, "two", modern=True) as two:
            await two.ask("tools/list", {"_meta": ENVELOPE | {ABOUT: {"name": "two", "version": "1.3"}}})
            shown = {each["name"]: each for each in (await page.get("/model"))["clients"]}
            assert shown.keys() == {"one", "two"}
            assert (shown["one"]["revision"], shown["two"]["revision"]) == ("2025-06-18", "2026-07-28")
            assert shown["two"]["version"] == "1.3"
            left = shown["two"]["id"]
        assert (await page.get("/model"))["clients"] == []
        await page.get(f"/model/{left}", fails=True)


async def test_the_topic_tells_of_a_client_the_moment_it_is_there(monkeypatch):
    monkeypatch.setattr(model, "LOOK_S", 0.01)
    async with looking(both()) as (gateway, page):
        news = model.TOPICS["model"](page.page, "")
        with anyio.fail_after(PATIENCE_S):
            assert (await anext(news))["clients"] == []
            async with client_of(gateway, "one"):
                assert [each["name"] for each in (await anext(news))["clients"]] == ["one"]
            assert (await anext(news))["clients"] == []
        await news.aclose()


async def test_a_client_without_a_session_stays_for_a_while(monkeypatch):
    async with looking(both()) as (gateway, page):
        with listen("127.0.0.1", 0) as listener:
            http = HttpFrontend(gateway.endpoints, listener, HttpGateway(), token=None, limit=1 << 24)
            gateway.hub.root.add(ChildSpec(name="http", run=http.run))
            async with httpx2.AsyncClient(timeout=PATIENCE_S) as client:
                for is_modern in (True, True, False):
                    endpoint = HttpEndpoint(client, http.url, modern=is_modern)
                    await endpoint.open()
                    await endpoint.answer("tools/list", {})
                shown = (await page.get("/model"))["clients"]
                assert sorted(each["revision"] for each in shown) == ["2025-11-25", "2026-07-28"]
                assert {each["transport"] for each in shown} == {"http"}
                monkeypatch.setattr(attached, "SESSIONLESS_S", 0.0)
                assert [each["revision"] for each in (await page.get("/model"))["clients"]] == ["2025-11-25"]
                gateway.hub.root.stop()


async def test_a_client_of_a_transparent_endpoint_sees_its_server_as_it_is(with_tools):
    server = with_tools(look="Looks <b>around</b>")
    async with looking(config_of({"s": server, "other": with_tools(secret="not there")})) as (gateway, page):
        connected = Line(gateway.hub)
        async with through(gateway, connected, Endpoint(server="s")):
            await connected.initialize({"name": "direct", "version": "9", "title": "A title"})
            listed = await connected.ask("tools/list", {})
            about, seen = await the_client(page, "direct")
            assert about["endpoint"]["server"] == "s"
            assert (about["title"], about["transport"]) == ("A title", "socket")
            assert [whole(each["description"]) for each in seen["tools"]] == ["Looks <b>around</b>"]
            assert [each["name"] for each in listed["tools"]] == ["look"]
            await page.get("/search", q="look", client=about["id"], status=400)


@asynccontextmanager
async def through(gateway, line, endpoint):
    """Connect a line at a transparent endpoint."""
    fds = [*os.pipe(), *os.pipe()]
    for fd in fds:
        os.set_blocking(fd, False)
    line._in, line._out = fds[2], fds[1]
    channel = Channel(fds[0], fds[3])
    stream = gateway.endpoints.stream_client(endpoint, channel, "socket")
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream._connection.run)
            yield
            stream._wire.end()
    finally:
        channel.close()
        for fd in fds:
            os.close(fd)


async def test_what_servers_say_is_bounded(with_tools):
    tools = {f"t{number}": "d" * 30_000 for number in range(30)}
    async with looking(config_of({"s": with_tools(**tools)}, expose="all")) as (_, page):
        seen = await page.get("/model/as-other")
        assert {each["description"]["left_out"] for each in seen["tools"]} == {22_000}
        assert {each["description"]["chars"] for each in seen["tools"]} == {30_000}


# --- the search


async def test_the_ranking_is_that_of_inspect_with_its_reasons(with_tools):
    texts = {"create_issue": "Open a new bug in a project", "list_issues": "List all of them", "ping": "Pong"}
    async with looking(config_of({"tracker": with_tools(**texts), "other": with_tools(calm="No")})) as (
        gateway,
        page,
    ):
        found = await page.get("/search", q="file a ticket")
        said = await gateway.hub.calls.inspect("", None, query="file a ticket")
        assert found["answer"]["text"] == said.content[0]["text"]
        [server] = [each for each in found["servers"] if each["server"] == "tracker"]
        best = server["hits"][0]
        assert best["name"] == "create_issue"
        [why] = [each for each in best["why"] if each["word"] == "ticket"]
        assert why["found"] in {"issue", "bug"}
        assert set(why["parts"]) <= {"name", "description"}
        assert best["shown"] == "whole"
        assert best["score"] >= server["hits"][-1]["score"]
        exact = (await page.get("/search", q="create_issue", server="tracker"))["servers"][0]["hits"][0]
        assert (exact["name"], exact["exact"]) == ("create_issue", True)


async def test_a_search_is_at_the_endpoint_of_the_client():
    async with looking(both()) as (gateway, page), client_of(gateway, "x", Endpoint(profile="work")):
        about, _ = await the_client(page, "x")
        inside = await page.get("/search", q="steal open shout", client=about["id"])
        assert {each["server"] for each in inside["servers"]} == {"shop"}
        await page.get("/search", q="  ", status=400)
        await page.get("/search", q="x", client="c999", fails=True)
        assert "vault" in (await page.get("/search", q="shout", server="valt", fails=True))["error"]


async def test_a_search_wakes_nobody(with_tools):
    config = config_of({"s": with_tools({"start": "on_demand"}, look="Looks around")})
    async with looking(config) as (gateway, page):
        upstream = gateway.hub.upstreams["s"]
        await soon(lambda: upstream.info().state is State.ASLEEP)
        began = upstream.queue.lifecycle_or_none().generation
        [found] = (await page.get("/search", q="look around"))["servers"]
        assert [each["name"] for each in found["hits"]] == ["look"]
        await gateway.hub.calls.inspect("", None, query="look around")  # which does
        await soon(lambda: upstream.queue.lifecycle_or_none().generation == began + 1)


async def test_nothing_that_is_asked_breaks_the_search():
    async with looking(both()) as (_, page):
        for query in (
            "<script>alert(1)</script>",
            "\0\x1b[31m",
            "x" * 50_000,
            "\u202e",
            "ü" * 3000,
            "a " * 500,
        ):
            found = await page.get("/search", q=query)
            assert isinstance(found["answer"]["text"], str)
