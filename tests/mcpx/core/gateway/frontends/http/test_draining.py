"""How MCPX leaves over HTTP: it says so first, serves on, and drops no request without an answer."""

from __future__ import annotations

import json
import signal
import socket
import time
from contextlib import ExitStack, asynccontextmanager
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2
import pytest

from tests.mcpx.cluster.replicas.site import counting
from tests.mcpx.scripted import entry, soon
from tests.mcpx.serving import ENVELOPE, LEGACY, MODERN, is_stopped, serving, write_config

pytestmark = pytest.mark.anyio
ACCEPT = {"Accept": "application/json, text/event-stream"}
MODERN_HEADERS = ACCEPT | {"MCP-Protocol-Version": MODERN}
INITIALIZE = {
    "protocolVersion": LEGACY,
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


@asynccontextmanager
async def served(folder, ears, *, real=False, **settings):
    config = write_config(folder, {"s": entry(ears), "counting": counting(folder / "counted")}, **settings)
    async with serving(
        folder, "serve", config, "--transport", "http", "--port", "0", "--no-auth", real=real
    ) as mcpx:
        url = (await mcpx.logged("http.listening"))["url"]
        origin = url.removesuffix("/mcp")
        async with httpx2.AsyncClient(timeout=50, base_url=origin) as client:
            with anyio.fail_after(50):
                while (await client.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - of another process
                    await anyio.sleep(0.01)
            yield mcpx, client, origin


def request(method, **params):
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params | {"_meta": ENVELOPE}}


def executed(tool, server="s", **arguments):
    given = {"server_name": server, "tool_name": tool, "arguments": arguments}
    return request("tools/call", name="exec", arguments=given)


async def execute(client, tool, **arguments):
    headers = MODERN_HEADERS | {"Mcp-Method": "tools/call", "Mcp-Name": "exec"}
    return await client.post("/mcp", json=executed(tool, **arguments), headers=headers)


def counted(folder):
    file = folder / "counted"
    return sorted(file.read_text().split()) if file.exists() else []


def messages(response):
    lines = response.text.replace("\r\n", "\n").split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")] or [response.json()]


async def until_stopping(client):
    with anyio.fail_after(50):
        while (answer := await client.get("/readyz")).status_code == 200:  # noqa: ASYNC110
            await anyio.sleep(0.01)
    return answer


async def test_after_the_signal_it_says_so_and_serves_on_and_then_it_ends(tmp_path, ears):
    for drain in (1.0, 20.0):  # a machine that is busy needs longer to ask
        async with served(tmp_path, ears, http={"drain": drain}) as (mcpx, client, origin):
            begun = time.monotonic()
            mcpx.process.send_signal(signal.SIGTERM)
            try:
                await served_on(client, origin)
            except httpx2.TransportError:
                assert time.monotonic() - begun > drain
                assert drain == 1.0
                continue
            with anyio.fail_after(50):
                while mcpx.process.poll() is None:  # noqa: ASYNC110
                    await anyio.sleep(0.02)
            assert (mcpx.process.returncode, time.monotonic() - begun > drain * 0.9) == (0, True)
            with pytest.raises(httpx2.ConnectError):
                await httpx2.AsyncClient(base_url=origin).get("/healthz")
            return


async def served_on(client, origin):
    """It is not ready, but alive, and runs a newcomer's call."""
    refused = await until_stopping(client)
    assert (refused.status_code, refused.text) == (503, "not ready: MCPX is stopping\n")
    assert (await client.get("/healthz")).status_code == 200
    async with httpx2.AsyncClient(base_url=origin, timeout=50) as newcomer:
        answer = await execute(newcomer, "echo", text="still here")
    assert answer.headers["connection"] == "close"
    assert "still here" in answer.text


async def test_what_is_open_finishes_within_the_grace_time_in_both_eras(tmp_path, ears):
    async with served(tmp_path, ears, shutdown_grace=10) as (mcpx, client, origin):
        answers = []

        async def newer():
            answers.append(await execute(client, "work", server="counting", id="new", seconds=1))

        async def older():
            async with httpx2.AsyncClient(base_url=origin, timeout=50) as alone:
                body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
                greeted = await alone.post("/mcp", json=body, headers=ACCEPT)
                headers = ACCEPT | {"Mcp-Session-Id": greeted.headers["mcp-session-id"]}
                work = executed("work", server="counting", id="old", seconds=1)
                answers.append(await alone.post("/mcp", json=work, headers=headers))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(newer)
            tasks.start_soon(older)
            await soon(lambda: counted(tmp_path) == ["new", "old"])
            mcpx.process.send_signal(signal.SIGTERM)
        said = sorted(messages(answer)[-1]["result"]["content"][0]["text"].split()[-1] for answer in answers)
        assert said == ["new", "old"]
        with anyio.fail_after(50):
            while mcpx.process.poll() is None:  # noqa: ASYNC110
                await anyio.sleep(0.02)


async def test_what_does_not_finish_is_answered_with_an_unknown_outcome(tmp_path, ears):
    async with served(tmp_path, ears, shutdown_grace=0.3) as (mcpx, client, _):
        async with anyio.create_task_group() as tasks:

            async def end():
                await ears.hear("call", tool="hang")
                mcpx.process.send_signal(signal.SIGTERM)

            tasks.start_soon(end)
            answer = await execute(client, "hang")
        (message,) = messages(answer)
        assert message["id"] == 7
        assert message["error"]["data"]["outcome"] == "unknown"


async def test_streams_of_listeners_end_cleanly_and_at_once(tmp_path, ears):
    async with served(tmp_path, ears, shutdown_grace=20) as (mcpx, client, _):
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
        greeted = await client.post("/mcp", json=body, headers=ACCEPT)
        session = {"Mcp-Session-Id": greeted.headers["mcp-session-id"]}
        listen = request("subscriptions/listen", notifications={"toolsListChanged": True})
        headers = MODERN_HEADERS | {"Mcp-Method": "subscriptions/listen"}
        begun = time.monotonic()
        async with (
            client.stream("GET", "/mcp", headers=ACCEPT | session) as older,
            client.stream("POST", "/mcp", json=listen, headers=headers) as newer,
        ):
            assert (older.status_code, newer.status_code) == (200, 200)
            mcpx.process.send_signal(signal.SIGTERM)
            with anyio.fail_after(50):  # neither raises: the last chunk came
                await older.aread()
                await newer.aread()
        assert time.monotonic() - begun < 10


async def test_a_connection_that_waits_in_the_backlog_is_served(tmp_path, ears):
    async with served(tmp_path, ears) as (mcpx, _, origin):
        address = urlsplit(origin)
        mcpx.process.send_signal(signal.SIGSTOP)
        await soon(lambda: is_stopped(mcpx.process.pid))
        with ExitStack() as stack:
            waiting = [socket.create_connection((address.hostname, address.port), 10) for _ in range(5)]
            for each in waiting:
                stack.enter_context(each)
                each.sendall(b"GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n" % address.netloc.encode())
            mcpx.process.send_signal(signal.SIGTERM)
            mcpx.process.send_signal(signal.SIGCONT)
            for each in waiting:
                head = await anyio.to_thread.run_sync(each.recv, 4096)
                assert head.startswith(b"HTTP/1.1 200 OK"), head
                assert b"connection: close" in head
