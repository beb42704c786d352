"""A page that is served on real sockets, and a client that says each byte of its requests itself."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from socket import has_dualstack_ipv6
from typing import NamedTuple
from urllib.parse import urlsplit

import anyio
import anyio.abc
import pytest

from mcpx.core.config import parse
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http.supervision import SupervisedHttp
from mcpx.page.page import Page
from mcpx.parts import open_hub

PATIENCE_S = 50.0
OWN = None
HTTP = {"host": "127.0.0.1", "port": 0}
HTTP_6 = {"host": "::1", "port": 0}
NEEDS_IPV6 = pytest.mark.skipif(not has_dualstack_ipv6(), reason="this system has no IPv6")
LISTENERS = pytest.mark.parametrize(
    "http", [OWN, HTTP, pytest.param(HTTP_6, marks=NEEDS_IPV6)], ids=["own", "http", "http-6"]
)
Headers = Sequence[tuple[str, str]]


@asynccontextmanager
async def served(
    folder: Path, monkeypatch: pytest.MonkeyPatch, http=OWN, name="c.json", **settings
) -> AsyncIterator[Page]:
    """The page of a hub, as the composition root puts them together."""
    monkeypatch.setenv("MCPX_STATE_DIR", str(folder))
    with_http = {} if http is None else {"http": http}
    servers = {"s": {"command": "true", "disabled": True}}
    text = json.dumps({"shutdown_grace": 0.2, **with_http, **settings, "mcpServers": servers})
    config = parse(text, where=str(folder / name))
    side = None if http is None else SupervisedHttp(config)
    async with open_hub(config, state=folder, http=side and side.status) as hub:
        endpoints = Endpoints(hub, ClientSessions(hub))
        page = Page(hub, endpoints.clients)
        if side is not None:
            hub.root.add(side.serve(endpoints, page))
        hub.root.add(page.child())
        yield page


class Answer(NamedTuple):
    """A response: its headers by their names in lower case, the last of each."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class Visitor:
    """Who knows where the page is, and may have its cookie."""

    def __init__(self, origin: str, cookie: str | None = None) -> None:
        parts = urlsplit(origin)
        assert parts.hostname is not None
        assert parts.port is not None
        self.origin, self.authority = f"http://{parts.netloc}", parts.netloc
        self.host, self.port = parts.hostname, parts.port
        self.cookie = cookie

    @classmethod
    async def entering(cls, page: Page) -> Visitor:
        """One who has opened the page with a link of its own."""
        link = await page.link()
        visitor = cls(link)
        entered = await visitor.get(link.removeprefix(visitor.origin))
        assert entered.status == 200, entered
        visitor.cookie = entered.headers["set-cookie"].split(";")[0]
        return visitor

    @property
    def cookies(self) -> Headers:
        return [] if self.cookie is None else [("Cookie", self.cookie)]

    @property
    def acting(self) -> Headers:
        """What a browser adds to a request of the page that does something."""
        return [*self.cookies, ("Origin", self.origin), ("Content-Type", "application/json")]

    async def get(self, target: str, *, method: str = "GET", more: Headers = ()) -> Answer:
        return await self.ask(method, target, [*self.cookies, *more])

    async def post(self, target: str, body: bytes = b"{}") -> Answer:
        return await self.ask("POST", target, self.acting, body)

    async def ask(
        self, method: str, target: str, headers: Headers, body: bytes = b"", *, host: str | None = None
    ) -> Answer:
        """One request on a connection of its own, with these headers, `Host`, and those of its end."""
        async with await self.connect() as connection:
            await connection.send(self.request(method, target, headers, body, host=host))
            received = b""
            with anyio.fail_after(PATIENCE_S):
                async for chunk in connection:
                    received += chunk
        return read(received)

    def request(
        self, method: str, target: str, headers: Headers, body: bytes = b"", *, host: str | None = None
    ) -> bytes:
        all_headers = [("Host", self.authority if host is None else host), *headers]
        all_headers += [("Content-Length", str(len(body))), ("Connection", "close")]
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in all_headers)]
        return "\r\n".join([*lines, "", ""]).encode() + body

    async def connect(self) -> anyio.abc.SocketStream:
        return await anyio.connect_tcp(self.host, self.port)

    @asynccontextmanager
    async def stream(self, *topics: str, page: str = "") -> AsyncIterator[Stream]:
        """The stream of these topics, once it has begun."""
        target = f"/ui/api/events?page={page}&" + "&".join(f"topic={topic}" for topic in topics)
        async with await self.connect() as connection:
            await connection.send(self.request("GET", target, self.cookies))
            stream = Stream(connection)
            head = await stream.until(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 "), head
            yield stream


class Stream:
    """What comes on a stream of events."""

    def __init__(self, connection: anyio.abc.SocketStream) -> None:
        self._connection = connection
        self._rest = b""

    async def until(self, end: bytes) -> bytes:
        """What comes until then, with that."""
        with anyio.fail_after(PATIENCE_S):
            while end not in self._rest:
                self._rest += await self._connection.receive()
        found, _, self._rest = self._rest.partition(end)
        return found + end

    async def next(self, event: str):
        """The data of the next event of that name."""
        await self.until(f"event: {event}\ndata: ".encode())
        return json.loads(await self.until(b"\n\n"))

    async def over(self) -> None:
        """Wait for its end in order; fails if it is cut off."""
        await self.until(b"0\r\n\r\n")


def read(received: bytes) -> Answer:
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Answer(int(first.split(" ")[1]), headers, body)
