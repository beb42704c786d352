"""Connections that are made anew: the old ones end with their last answer."""

from __future__ import annotations

from contextlib import aclosing

import httpx2
import pytest

from mcpx.core.servers.transport.http_bodies import read_whole
from mcpx.core.servers.transport.http_network import Network

pytestmark = pytest.mark.anyio


async def body():
    for _ in range(2):
        yield b"x" * 10


class Clients:
    """Makes clients that answer at once, and keeps them."""

    def __init__(self, answer=lambda _request: httpx2.Response(200, content=body())):
        self.made = []
        self._answer = answer

    def __call__(self):
        self.made.append(httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer)))
        return self.made[-1]

    def closed(self):
        return [client.is_closed for client in self.made]


async def test_a_client_that_was_replaced_is_closed_after_its_last_answer():
    clients = Clients()
    async with aclosing(Network(clients)) as network:
        first, second = [await network.send(httpx2.Request("POST", "http://h/")) for _ in range(2)]
        network.renew()
        await (await network.send(httpx2.Request("POST", "http://h/"))).aclose()
        assert clients.closed() == [False, False]
        assert await read_whole(first, 100) == b"x" * 20  # it goes on
        await first.aclose()
        await first.aclose()
        assert clients.closed() == [False, False]
        await second.aclose()
        assert clients.closed() == [True, False]
    assert clients.closed() == [True, True]


async def test_a_client_without_an_answer_open_is_closed_with_the_next_request():
    def answer(request):
        if request.method == "GET":
            raise httpx2.ConnectError("refused")
        return httpx2.Response(200, content=b"")

    clients = Clients(answer)
    async with aclosing(Network(clients)) as network:
        for _ in range(3):
            network.renew()
        with pytest.raises(httpx2.ConnectError):
            await network.send(httpx2.Request("GET", "http://h/"))
        assert clients.closed() == [True, True, True, False]
        await (await network.send(httpx2.Request("POST", "http://h/"))).aclose()
        assert clients.closed() == [True, True, True, False]


async def test_streams_that_stand_are_left_for_new_connections():
    class Stream(httpx2.ByteStream):
        left = None

        def leave(self, reason):
            self.left = reason

    async with aclosing(Network(Clients())) as network:
        stream = Stream(b"")
        kept = network.keep(httpx2.Response(200, stream=stream))
        assert kept.stream is stream
        network.keep(httpx2.Response(200, content=b"no stream"))
        network.renew()
        assert "anew" in stream.left
