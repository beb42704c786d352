"""The HTTP frontend under clients that are too many, too slow, or do not read: what they get and cost."""

from __future__ import annotations

import json
import socket
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from tests.mcpx.core.gateway.frontends.http.test_events import Session
from tests.mcpx.core.gateway.frontends.http.test_frontend import ACCEPT, HELLO, post
from tests.mcpx.core.gateway.frontends.test_not_reading import flooding, memory
from tests.mcpx.serving import LEGACY, serving, write_config

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]
MANY = 2000
ALLOWED = 300
PLACES = ALLOWED + 20  # and what a server takes that starts meanwhile


@pytest.fixture
def config(tmp_path):
    return write_config(tmp_path, {"s": flooding()}, startup_wait=20, http={"max_connections": ALLOWED})


@asynccontextmanager
async def http(folder, config):
    arguments = ["serve", config, "--transport", "http", "--port", "0", "--no-auth"]
    async with serving(folder, *arguments) as mcpx:
        yield mcpx, (await mcpx.logged("http.listening"))["url"]


def connect(url: str, holds: int | None = None) -> socket.socket:
    """A connection; `holds` bounds the bytes that the system keeps unread for it."""
    joined = socket.socket()
    if holds is not None:
        joined.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, holds)
    joined.settimeout(20)
    joined.connect((urlsplit(url).hostname, urlsplit(url).port))
    joined.setblocking(False)
    return joined


@contextmanager
def silent(url: str, count: int):
    """So many connections that say nothing; those that find no place are not waited for."""
    address = (urlsplit(url).hostname, urlsplit(url).port)
    made = []
    try:
        for _ in range(count):
            joined = socket.socket()
            joined.setblocking(False)
            joined.connect_ex(address)
            made.append(joined)
        yield made
    finally:
        for joined in made:
            joined.close()


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def is_closed(joined: socket.socket, *, within: float) -> bool:
    """Whether the server closes the connection in that time, having answered or not."""
    with anyio.move_on_after(within):
        while True:
            await anyio.wait_readable(joined)
            try:
                if not joined.recv(65536):
                    return True
            except ConnectionResetError:
                return True
    return False


async def test_silent_connections_take_so_many_places_and_no_more_and_make_room(tmp_path, config):
    async with http(tmp_path, config) as (mcpx, url):
        before = descriptors(mcpx.process.pid)
        with silent(url, MANY):
            full = await mcpx.logged("http.full")
            assert f"{ALLOWED} connections are open" in full["reason"]
            assert descriptors(mcpx.process.pid) - before <= PLACES
            began = time.monotonic()
            answer = await post(url)
            assert answer.status_code == 200
            assert time.monotonic() - began < 20
            assert descriptors(mcpx.process.pid) - before <= PLACES
        assert len([line for line in mcpx.log if line["event"] == "http.full"]) == 1
        assert mcpx.other_stderr == []


async def test_a_head_that_does_not_come_whole_is_not_waited_for(tmp_path, config):
    async with http(tmp_path, config) as (_, url):
        with connect(url) as silent_one, connect(url) as half:
            half.send(b"POST /mcp HTTP/1.1\r\nHost: x\r\n")
            began = time.monotonic()
            assert await is_closed(silent_one, within=20)
            assert await is_closed(half, within=20)
            assert time.monotonic() - began > 5


def head_of_post(url: str, length: int, **headers: str) -> bytes:
    lines = ["POST /mcp HTTP/1.1", f"Host: {urlsplit(url).netloc}", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "Content-Type: application/json", "", ""]).encode()


async def test_half_bodies_are_bounded_in_sum(tmp_path, config):
    async with http(tmp_path, config) as (mcpx, url):
        before = memory(mcpx.process.pid)
        part = b"x" * (1 << 20)
        refused = 0

        async def send_half() -> None:
            nonlocal refused
            async with await anyio.connect_tcp(urlsplit(url).hostname, urlsplit(url).port) as stream:
                try:
                    await stream.send(head_of_post(url, 61 << 20))
                    for _ in range(60):
                        await stream.send(part)
                    await anyio.sleep(1)
                except anyio.BrokenResourceError:
                    refused += 1

        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(send_half)
            await mcpx.logged("http.bodies_full")
        assert refused >= 6
        assert memory(mcpx.process.pid) - before < 450
        assert (await post(url)).status_code == 200


async def session(client: httpx2.AsyncClient, url: str) -> dict[str, str]:
    """The headers of a session that wants all log messages."""
    opened = await Session(client, url).open(LEGACY)
    await opened.post(id=2, method="logging/setLevel", params={"level": "debug"})
    return opened.headers


def raw_post(url: str, headers: dict[str, str], number: int, tool: str, **arguments) -> bytes:
    given = {"server_name": "s", "tool_name": tool, "arguments": arguments}
    params = {"name": "exec", "arguments": given}
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
    return head_of_post(url, len(body), **headers) + body


async def test_answers_that_nobody_reads_are_bounded(tmp_path, config):
    """Each connection asks for several answers at once: of the first ones the system holds some itself."""
    async with http(tmp_path, config) as (mcpx, url), httpx2.AsyncClient(timeout=50) as client:
        headers = await session(client, url)
        before = memory(mcpx.process.pid)
        unread = [connect(url, holds=1 << 16) for _ in range(12)]
        try:
            for number, joined in enumerate(unread):
                several = range(10 * number + 10, 10 * number + 18)
                joined.send(b"".join(raw_post(url, headers, each, "big", size=15 << 17) for each in several))
            gone = await mcpx.logged("client.gone")
            assert "MB unread" in gone["reason"]
            assert memory(mcpx.process.pid) - before < 450
            assert (await post(url)).status_code == 200
        finally:
            for joined in unread:
                joined.close()


async def test_log_messages_pass_by_a_client_that_does_not_read_its_stream(tmp_path, config):
    async with http(tmp_path, config) as (mcpx, url), httpx2.AsyncClient(timeout=50) as client:
        headers = await session(client, url)
        before = memory(mcpx.process.pid)
        with connect(url) as unread:
            unread.send(raw_post(url, headers, 10, "chatter", size=100_000, count=1000))
            await mcpx.logged("client.not_reading")
            arguments = {"server_name": "s", "tool_name": "echo", "arguments": {}}
            call = {"name": "exec", "arguments": arguments}
            ask = {"jsonrpc": "2.0", "id": 11, "method": "tools/call", "params": call}
            answer = await client.post(url, json=ask, headers=headers)
            assert "echo" in answer.text
            assert memory(mcpx.process.pid) - before < 80


async def test_a_body_of_too_many_values_is_refused_unread_and_a_long_text_is_not(tmp_path, config):
    async with http(tmp_path, config) as (_, url), httpx2.AsyncClient(timeout=50) as client:
        for more, status in (("[[[[1]]]]," * 400_000, 413), ("[[[[1]]]]" * 400_000, 200)):
            extra = f"[{more}1]" if status == 413 else f'"{more}"'
            body = '{"padding":' + extra + "," + json.dumps(HELLO)[1:]
            answer = await client.post(
                url, content=body, headers=ACCEPT | {"content-type": "application/json"}
            )
            assert answer.status_code == status
            if status == 413:
                assert "too many values" in answer.json()["error"]["message"]
