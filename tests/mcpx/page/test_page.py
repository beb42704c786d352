"""The life of the page: where it is served, when it is turned off, when its listener or the daemon ends."""

import socket
import sys

import anyio
import pytest
from msgspec.structs import replace

from mcpx.errors import MCPXError
from mcpx.page import listener as listening
from mcpx.page.page import OFF
from supervisors import Backoff
from tests.mcpx.page import visiting
from tests.mcpx.page.visiting import HTTP, HTTP_6, LISTENERS, NEEDS_IPV6, OWN, Visitor, served

pytestmark = pytest.mark.anyio
HOSTS = ("localhost", "127.0.0.2") if sys.platform == "linux" else ("localhost",)
OTHERS = [{"host": host, "port": 0} for host in HOSTS]


async def forever(_page, _argument):
    yield 1
    await anyio.sleep_forever()


async def until(holds):
    with anyio.fail_after(visiting.PATIENCE_S):
        while not holds():
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("http", [HTTP, pytest.param(HTTP_6, marks=NEEDS_IPV6), *OTHERS])
async def test_it_is_served_beside_the_endpoints_where_these_are_on_loopback(tmp_path, monkeypatch, http):
    async with served(tmp_path, monkeypatch, http) as page:
        visitor = await Visitor.entering(page)
        assert page.hub.http().url == f"{visitor.origin}/mcp"
        assert (await visitor.get("/ui/api/here")).status == 200
        assert page._listener is None


async def test_where_the_endpoints_are_open_to_a_network_it_has_its_own_listener(tmp_path, monkeypatch):
    async with served(tmp_path, monkeypatch, {"host": "0.0.0.0", "port": 0}) as page:
        visitor = await Visitor.entering(page)
        await until(lambda: page.hub.http().url is not None)
        port = int(page.hub.http().url.split(":")[2].split("/")[0])
        assert (visitor.host, visitor.port != port) == ("127.0.0.1", True)
        endpoint = Visitor(f"http://127.0.0.1:{port}", visitor.cookie)
        for host in (endpoint.authority, visitor.authority):
            refused = await endpoint.ask("GET", "/ui/", endpoint.cookies, host=host)
            assert refused.status in {401, 404, 421}


async def test_where_the_port_of_the_endpoints_is_taken_it_has_its_own_listener(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        http = {"port": taken.getsockname()[1]}
        async with served(tmp_path, monkeypatch, http) as page:
            visitor = await Visitor.entering(page)
            assert visitor.port != http["port"]
            assert (await visitor.get("/ui/")).status == 200


async def test_there_is_one_listener_for_all_links_and_none_before(tmp_path, monkeypatch):
    async with served(tmp_path, monkeypatch) as page:
        assert not page.use().has_clients
        assert page._supervisor.names() == []
        links = []

        async def take():
            links.append(await page.link())

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(take)
        assert len({link.partition("?")[0] for link in links}) == 1
        assert len(set(links)) == 5


async def test_turned_off_it_is_not_there(tmp_path, monkeypatch):
    for http in (OWN, HTTP):
        async with served(tmp_path, monkeypatch, http, ui=False) as page:
            with pytest.raises(MCPXError, match=OFF):
                await page.link()
            assert page._supervisor.names() == []
            if http is not None:
                await until(lambda: page.hub.http().url is not None)
                visitor = Visitor(page.hub.http().url.removesuffix("/mcp"))
                for path in ("/ui", "/ui/", "/ui/open?code=x", "/ui/api/here", "/ui/static/app.mjs"):
                    assert (await visitor.get(path)).status == 404


@LISTENERS
async def test_when_it_is_turned_off_everything_ends_and_turned_on_again_it_can_be_opened(
    tmp_path, monkeypatch, http
):
    async with served(tmp_path, monkeypatch, http) as page:
        page.served.streams.topics = {"overview": forever}
        visitor = await Visitor.entering(page)
        unused = await page.link()
        async with visitor.stream("overview") as stream:
            await stream.next("overview")
            await page.hub.reload(replace(page.hub.config, ui=False))
            await stream.over()
        with pytest.raises(MCPXError, match=OFF):
            await page.link()
        if http is None:
            await until(lambda: page._listener is None)
            with pytest.raises(OSError):
                await visitor.get("/ui/")
        else:
            assert (await visitor.get("/ui/")).status == 404
        await page.hub.reload(replace(page.hub.config, ui=True))
        again = await Visitor.entering(page)
        assert (await Visitor(again.origin, visitor.cookie).get("/ui/")).status == 401
        assert (await again.get(unused.removeprefix(visitor.origin))).status == 401
        assert (await again.get("/ui/")).status == 200


async def test_another_reload_leaves_what_is_open(tmp_path, monkeypatch):
    async with served(tmp_path, monkeypatch) as page:
        page.served.streams.topics = {"overview": forever}
        visitor = await Visitor.entering(page)
        async with visitor.stream("overview") as stream:
            await stream.next("overview")
            await page.hub.reload(replace(page.hub.config, idle_exit=7000.0))
            assert (await visitor.get("/ui/api/here")).status == 200
            assert len(page.served.streams) == 1


async def test_a_listener_that_is_lost_comes_back_at_the_same_place(tmp_path, monkeypatch):
    monkeypatch.setattr(listening, "BACKOFF", Backoff(initial=0.01, cap=0.02))
    async with served(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
        before = page._listener._server
        before.lost = "for a test"
        before.end()
        await until(lambda: page._listener._server not in (before, None))
        assert (await visitor.get("/ui/api/here")).status == 200
        assert (await Visitor.entering(page)).origin == visitor.origin


async def test_a_port_that_was_taken_meanwhile_is_given_up_and_the_daemon_lives(tmp_path, monkeypatch):
    """More failures than the infrastructure may have: they are the page's alone."""
    monkeypatch.setattr(listening, "BACKOFF", Backoff(initial=0.01, cap=0.02))
    refusals = 5 * (listening.ATTEMPTS + 1)
    real = listening.listen

    def listen(host, port, **options):
        nonlocal refusals
        if port == visitor.port or refusals:
            refusals -= bool(refusals)
            raise listening.BindError("cannot listen, for a test")
        return real(host, port, **options)

    async with served(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
        monkeypatch.setattr(listening, "listen", listen)
        before = page._listener._server
        before.lost = "for a test"
        before.end()
        await until(lambda: page._listener._server is None)
        with pytest.raises(MCPXError, match="the page cannot be served: cannot listen, for a test"):
            await page.link()
        await until(lambda: page._listener._server is not None)
        again = await Visitor.entering(page)
        assert again.port != visitor.port
        assert page.hub.root.names()


@LISTENERS
async def test_a_daemon_that_leaves_closes_the_page_first_and_quickly(tmp_path, monkeypatch, http):
    async with served(tmp_path, monkeypatch, http) as page:
        page.served.streams.topics = {"overview": forever}
        visitor = await Visitor.entering(page)
        async with visitor.stream("overview") as first, visitor.stream("overview") as second:
            await first.next("overview")
            began = anyio.current_time()
            page.hub.stop()
            await first.over()
            await second.over()
            assert anyio.current_time() - began < 0.5
            with pytest.raises(MCPXError, match="the daemon is about to leave"):
                await page.link()


async def test_an_open_page_counts_as_use_and_one_that_was_left_does_not(tmp_path, monkeypatch):
    async with served(tmp_path, monkeypatch) as page:
        page.served.streams.topics = {"overview": forever}
        visitor = await Visitor.entering(page)
        before = page.use().so_far
        async with visitor.stream("overview") as stream:
            await stream.next("overview")
            assert page.use().has_clients
        await until(lambda: not page.use().has_clients)
        assert page.use().so_far >= before


async def test_when_the_side_of_http_begins_anew_the_session_is_good_there(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        http = {"port": free.getsockname()[1]}
    async with served(tmp_path, monkeypatch, http) as page:
        page.served.streams.topics = {"overview": forever}
        visitor = await Visitor.entering(page)
        side = page.hub.http.__self__
        before = side.frontend
        async with visitor.stream("overview") as stream:
            await stream.next("overview")
            before._listener.shutdown(socket.SHUT_RDWR)
            await stream.over()
        await until(lambda: side.frontend not in (before, None))
        async with visitor.stream("overview") as stream:
            assert await stream.next("overview") == 1
        assert (await Visitor.entering(page)).origin == visitor.origin
