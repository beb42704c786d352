"""Servers that are reached over HTTP: Streamable HTTP, SSE, one behind a header, and those that refuse."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import pytest

from tests.live import servers
from tests.live.carried import assert_carried
from tests.live.directly import at_one_moment
from tests.live.gateways import open_gateway, write_config
from tests.live.held import Held
from tests.live.processes import serving
from tests.ports import free_port

pytestmark = pytest.mark.live

SECRET = "a-secret-of-this-test"
KINDS = {"streaming": ("streamableHttp", "http", "mcp"), "events": ("sse", "sse", "sse")}
ANSWERED = {"streaming": "listening on port", "events": "running on port"}


@pytest.fixture(scope="module")
def upstreams(portal):
    """Entries of everything that is served over HTTP here, and of what is not."""
    entries = {}
    with ExitStack() as stack:
        for name, (transport, kind, path) in KINDS.items():
            port = free_port()
            server = servers.require(servers.everything_over_http(transport, port))
            running = serving([server.command, *server.args], ready=ANSWERED[name], env=server.env)
            stack.enter_context(portal.wrap_async_context_manager(running))
            entries[name] = {"type": kind, "url": f"http://127.0.0.1:{port}/{path}"}
        guarded = serving([sys.executable, str(servers.HERE / "guarded.py"), SECRET], ready="serving at")
        url = stack.enter_context(portal.wrap_async_context_manager(guarded)).split()[-1]
        allowed = {"Authorization": f"Bearer {SECRET}"}
        entries["guarded"] = {"type": "http", "url": url, "headers": allowed}
        entries["locked-out"] = {"type": "http", "url": url, "headers": {"Authorization": "Bearer wrong"}}
        entries["misplaced"] = {"type": "http", "url": url.replace("/mcp", "/elsewhere"), "headers": allowed}
        entries["nobody"] = {"type": "http", "url": f"http://127.0.0.1:{free_port()}/mcp"}
        entries["nobody-sse"] = {"type": "sse", "url": f"http://127.0.0.1:{free_port()}/sse"}
        yield entries


@pytest.fixture(scope="module", params=["stdio-legacy", "http-auto"])
def over_http(request, portal, upstreams, tmp_path_factory):
    """All of them behind MCPX."""
    folder = tmp_path_factory.mktemp("over-http")
    config = write_config(folder, upstreams, startup_wait=20)
    with portal.wrap_async_context_manager(open_gateway(request.param, config)) as gateway:
        held = Held(portal, gateway, folder)
        held.descriptions()  # waits for the servers
        yield held


@pytest.mark.parametrize("server", KINDS)
def test_its_tools_are_those_of_the_same_server_over_stdio(over_http, direct, server):
    names = {tool.name for tool in direct.tools("everything")}
    inspected = over_http.inspect(server).structured_content
    assert inspected["state"] == "ready"
    assert {tool["name"] for tool in inspected["tools"]} == names


@pytest.mark.parametrize("server", KINDS)
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("echo", {"message": "over HTTP"}),
        ("get-tiny-image", {}),
        ("get-resource-reference", {"resourceType": "Blob", "resourceId": 3}),
        ("get-structured-content", {"location": "New York"}),
    ],
)
def test_a_result_is_the_servers_own(over_http, direct, server, tool, arguments):
    theirs, mine = at_one_moment(
        lambda: direct.call("everything", tool, arguments), lambda: over_http.exec(server, tool, arguments)
    )
    assert_carried(mine, theirs)


@pytest.mark.parametrize("server", KINDS)
def test_a_resource_is_the_servers_own(over_http, direct, server):
    uri = "demo://resource/dynamic/blob/1"
    theirs, mine = at_one_moment(
        lambda: direct.read("everything", uri), lambda: over_http.resources(server, uri)
    )
    assert mine.structured_content["blob"] == theirs.contents[0].blob


def test_a_server_behind_a_header_lets_mcpx_in(over_http):
    answer = over_http.exec("guarded", "whoami")
    assert not answer.is_error
    assert answer.content[0].text == "the one with the secret"


@pytest.mark.parametrize(
    ("server", "state", "words"),
    [
        ("locked-out", "parked", "HTTP 401"),
        ("misplaced", "waiting", "HTTP 404"),
        ("nobody", "waiting", "the server cannot be reached"),
        ("nobody-sse", "waiting", "the server cannot be reached"),
    ],
)
def test_a_server_that_refuses_has_its_cause_in_inspect_and_in_the_log(over_http, server, state, words):
    event = "upstream.parked" if state == "parked" else "upstream.failed"
    assert words in over_http.wait_for(event, server=server)["cause"]
    answer = over_http.inspect(server)
    assert words in answer.structured_content["state"]
    assert words in answer.content[0].text
    shown = answer.structured_content["state"].partition(":")[0].partition(",")[0]
    assert shown in {state, "starting"} if state == "waiting" else shown == state


@pytest.mark.parametrize(("server", "words"), [("locked-out", "HTTP 401"), ("nobody", "cannot be reached")])
def test_a_call_of_a_server_that_refuses_says_why_and_that_nothing_was_sent(over_http, server, words):
    told = over_http.exec(server, "whoami").structured_content
    assert (told["code"], told["outcome"]) == ("server_unavailable", "not_sent")
    assert words in told["error"]


def test_no_secret_is_in_the_log(over_http):
    assert over_http.log.find("upstream.ready", server="guarded")
    assert SECRET not in str(over_http.log.records) + str(over_http.log.other)
