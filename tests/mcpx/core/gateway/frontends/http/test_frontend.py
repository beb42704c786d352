"""The HTTP frontend as clients see it: who is let in, what is served, and a port that is taken."""

from __future__ import annotations

import json
import socket
import stat
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.mcpx.scripted import entry
from tests.mcpx.serving import LEGACY, MODERN, run_cli, serving, write_config

pytestmark = pytest.mark.anyio

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": LEGACY,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
def config(tmp_path):
    return write_config(tmp_path, {"s": entry()}, startup_wait=20)


@asynccontextmanager
async def http(folder, config, *options: str):
    """A serving process, and its URL."""
    arguments = ["serve", config, "--transport", "http", "--port", "0", *options]
    async with serving(folder, *arguments) as mcpx:
        yield mcpx, (await mcpx.logged("http.listening"))["url"]


def token(folder) -> str:
    return (folder / "state" / "token").read_text().strip()


def bearer(folder) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(folder)}"}


async def post(url: str, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=50) as client:
        return await client.post(url, json=HELLO, headers=ACCEPT | headers)


@asynccontextmanager
async def meanwhile(ask, *arguments, **more):
    """Have something asked meanwhile; the list that the answer comes into."""
    answers = []

    async def asked() -> None:
        answers.append(await ask(*arguments, **more))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(asked)
        yield answers


async def test_only_the_right_token_is_let_in(tmp_path, config):
    async with http(tmp_path, config) as (_, url):
        good = token(tmp_path)
        assert len(good) >= 40
        assert (await post(url)).status_code == 401
        for wrong in ("Bearer wrong", f"Bearer {good}x", f"Basic {good}", "Bearer", good, "Bearer tök"):
            async with httpx2.AsyncClient(timeout=50) as client:
                headers = [*ACCEPT.items(), ("Authorization", wrong.encode())]
                answer = await client.post(url, json=HELLO, headers=headers)
            assert answer.status_code == 401, wrong
            assert good not in answer.text
        answer = await post(url, **bearer(tmp_path))
        assert answer.status_code == 200
        assert '"serverInfo"' in answer.text


async def test_a_foreign_host_or_origin_is_refused_even_with_the_token(tmp_path, config):
    async with http(tmp_path, config) as (_, url):
        key = bearer(tmp_path)
        port = urlsplit(url).port
        assert (await post(url, **key, Host="evil.example")).status_code == 421
        assert (await post(url, **key, Host=f"evil.example:{port}")).status_code == 421
        assert (await post(url, **key, Origin="https://evil.example")).status_code == 403
        assert (await post(url, **key, Origin="null")).status_code == 403
        assert (await post(url, **key, Origin=f"http://localhost:{port}")).status_code == 200
        assert (await post(url, **key, Host=f"localhost:{port}")).status_code == 200
        assert (await post(url, **key, Host=f"LocalHost:{port}")).status_code == 200


async def test_a_foreign_host_is_refused_without_auth_too(tmp_path, config):
    async with http(tmp_path, config, "--no-auth") as (_, url):
        assert (await post(url)).status_code == 200
        assert (await post(url, Host="evil.example")).status_code == 421
        assert (await post(url, Origin="https://evil.example")).status_code == 403
        assert not (tmp_path / "state" / "token").exists()


async def test_hosts_and_origins_that_are_configured_are_let_in(tmp_path):
    allowed = {"allowed_hosts": ["box.example:80"], "allowed_origins": ["https://page.example"]}
    config = write_config(tmp_path, {"s": entry()}, http=allowed)
    async with http(tmp_path, config, "--no-auth") as (_, url):
        assert (await post(url, Host="box.example:80")).status_code == 200
        assert (await post(url, Origin="https://page.example")).status_code == 200
        assert (await post(url, Host="other.example:80")).status_code == 421


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_three_tools_are_the_same_as_over_stdio_in_both_eras(tmp_path, config, mode):
    async with http(tmp_path, config) as (_, url), httpx2.AsyncClient(headers=bearer(tmp_path)) as client:
        transport = streamable_http_client(url, http_client=client)
        with anyio.fail_after(50):
            async with Client(transport, mode=mode, cache=None) as session:
                assert (session.protocol_version == MODERN) is (mode == "auto")
                listed = {tool.name: tool for tool in (await session.list_tools()).tools}
                assert list(listed) == ["inspect", "exec", "resources"]
                assert "echo(text" in listed["inspect"].description
                call = {"server_name": "s", "tool_name": "echo", "arguments": {"text": "hi"}}
                assert (await session.call_tool("exec", call)).content[0].text == "hi"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_query_is_served_over_http_too(tmp_path, mode):
    hints = {"echo": {"readOnlyHint": True, "openWorldHint": False}}
    config = write_config(tmp_path, {"s": entry()}, tiers=True, annotations=hints)
    async with http(tmp_path, config, "--no-auth") as (_, url), httpx2.AsyncClient() as client:
        transport = streamable_http_client(url, http_client=client)
        with anyio.fail_after(50):
            async with Client(transport, mode=mode, cache=None) as session:
                listed = {tool.name: tool for tool in (await session.list_tools()).tools}
                assert list(listed) == ["inspect", "query", "exec", "resources"]
                call = {"server_name": "s", "tool_name": "echo", "arguments": {"text": "hi"}}
                assert (await session.call_tool("query", call)).content[0].text == "hi"
                refused = await session.call_tool("query", call | {"tool_name": "count", "arguments": {}})
                assert refused.structured_content["outcome"] == "not_sent"


async def test_many_clients_at_once_each_get_their_own_answers(tmp_path, config):
    async with http(tmp_path, config, "--no-auth") as (_, url):
        got: dict[str, str] = {}

        async def talk(name: str) -> None:
            async with httpx2.AsyncClient() as client:
                transport = streamable_http_client(url, http_client=client)
                async with Client(transport, mode="legacy", cache=None) as session:
                    call = {"server_name": "s", "tool_name": "echo", "arguments": {"text": name}}
                    got[name] = (await session.call_tool("exec", call)).content[0].text

        with anyio.fail_after(40):
            async with anyio.create_task_group() as tasks:
                for number in range(8):
                    tasks.start_soon(talk, str(number))
        assert got == {str(number): str(number) for number in range(8)}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "box.example"])
def test_no_auth_where_others_reach_it_wants_a_second_word(tmp_path, config, host):
    serve = ("serve", config, "--transport", "http", "--port", "0", "--host", host, "--no-auth")
    done = run_cli(tmp_path, *serve)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--yes-everybody" in done.stderr
    assert host in done.stderr


def test_so_it_does_where_the_configuration_names_the_address(tmp_path):
    config = write_config(tmp_path, {"s": entry()}, http={"host": "0.0.0.0"})
    done = run_cli(tmp_path, "serve", config, "--transport", "http", "--port", "0", "--no-auth")
    assert done.returncode == 2
    assert "--yes-everybody" in done.stderr


def own_address() -> str:
    """An address of this machine that is not loopback; no packet is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has loopback only")
        return str(asking.getsockname()[0])


async def test_with_both_words_it_is_open_and_says_so_but_loopback_is_not_believed_from_afar(
    tmp_path, config
):
    here = own_address()
    options = ("--host", "0.0.0.0", "--no-auth", "--yes-everybody")
    async with http(tmp_path, config, *options) as (mcpx, url):
        await mcpx.logged("http.open_to_everybody")
        port = urlsplit(url).port
        assert (await post(f"http://127.0.0.1:{port}/mcp")).status_code == 200
        for claimed in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
            answer = await post(f"http://{here}:{port}/mcp", Host=f"{claimed}:{port}")
            assert answer.status_code == 421, claimed


async def test_with_a_token_plain_http_beyond_this_machine_is_warned_of(tmp_path, config):
    async with http(tmp_path, config, "--host", "0.0.0.0") as (mcpx, _):
        await mcpx.logged("http.unencrypted")
        assert not [line for line in mcpx.log if line["event"] == "http.open_to_everybody"]


async def test_what_a_client_puts_into_a_header_reaches_the_log_harmless(tmp_path, config):
    async with serving(
        tmp_path, "serve", config, "--transport", "http", "--port", "0", "--no-auth", MCPX_LOG_FORMAT=""
    ) as mcpx:
        listening = await mcpx.said("http.listening")
        port = int(listening.partition("127.0.0.1:")[2].partition("/")[0])
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            head = "POST /mcp HTTP/1.1\r\nHost: a\x9bc\r\nContent-Length: 2\r\n"
            await stream.send((head + "Content-Type: application/json\r\n\r\n{}").encode("latin-1"))
            assert b"421" in (await stream.receive())[:20]
            await stream.send(b"GET /mcp HTTP/1.1\r\nHost: a\x1b[31mb\r\n\r\n")
            assert b"400" in (await stream.receive())[:20]
        told = await mcpx.said("Invalid Host header")
        assert "\x9b" not in told
        assert "\\x9b" in told


def test_a_port_in_use_is_one_clear_line(tmp_path, config):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run_cli(tmp_path, "serve", config, "--transport", "http", "--port", port)
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in lines[0]
    assert "--port" in lines[0]


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_that_is_not_here_is_one_clear_line(tmp_path, config, host):
    done = run_cli(tmp_path, "serve", config, "--transport", "http", "--host", host, "--port", "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert ("cannot listen on 192.0.2.1:0" in done.stderr) is (host == "192.0.2.1")


async def test_the_token_stays_over_a_restart_and_out_of_the_log(tmp_path, config):
    async with http(tmp_path, config) as (mcpx, _):
        first = token(tmp_path)
        assert first not in json.dumps(mcpx.log)
    async with http(tmp_path, config) as (_, url):
        assert token(tmp_path) == first
        assert (await post(url, **bearer(tmp_path))).status_code == 200


def test_a_token_that_others_may_read_is_refused_with_what_to_do(tmp_path, config):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "token").write_text("secret\n")
    (state / "token").chmod(0o644)
    done = run_cli(tmp_path, "serve", config, "--transport", "http", "--port", "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "others may read it" in done.stderr
    assert "chmod 600" in done.stderr
    assert "secret" not in done.stderr
    assert stat.S_IMODE((state / "token").stat().st_mode) == 0o644
