"""The bounds of a sign-in's requests: where they may go, how long they take, how much is read."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import ssl
from collections.abc import AsyncIterator

import anyio
import httpx2
import pytest

from mcpx.core.config import Http, ServerConfig, Stdio
from mcpx.core.config.server_config import Tls
from mcpx.oauth import network as module
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.network import MAX_BODY_BYTES, open_network
from tests.mcpx.authority import Authority
from tests.mcpx.oauth.scripted_issuer import Fault, scripted_issuer
from tests.mcpx.oauth.signed_in import server_at

pytestmark = pytest.mark.anyio
PUBLIC, PRIVATE, LOCAL = "https://93.184.216.34/mcp", "https://10.0.0.1/mcp", "http://127.0.0.1:9/mcp"


@pytest.mark.parametrize(
    ("server", "url", "allowed"),
    [
        (PUBLIC, "https://as.example/token", True),
        (PUBLIC, "http://as.example/token", False),
        (PUBLIC, "http://127.0.0.1:8080/token", False),
        (PUBLIC, "http://localhost/token", False),
        (PUBLIC, "https://127.0.0.1/token", False),
        (PUBLIC, "https://[::1]/token", False),
        (PUBLIC, "https://[::ffff:10.0.0.1]/token", False),
        (PUBLIC, "https://192.168.0.1/token", False),
        (PUBLIC, "https://169.254.169.254/latest", False),
        (PRIVATE, "https://10.9.9.9/token", True),
        (PRIVATE, "https://127.0.0.1/token", False),
        (PRIVATE, "https://169.254.169.254/latest", False),
        (PRIVATE, "http://10.0.0.1/token", False),
        (LOCAL, "http://127.0.0.1:8080/token", True),
        (LOCAL, "http://localhost:8080/token", True),
        (LOCAL, "http://[::1]:8080/token", True),
        (LOCAL, "http://10.0.0.1/token", False),
        (LOCAL, "http://as.example/token", False),
        (LOCAL, "http://169.254.169.254/latest", False),
        (PUBLIC, "https://user:word@as.example/token", False),
        (PUBLIC, "https:///token", False),
        (PUBLIC, "javascript:alert(1)", False),
        (PUBLIC, "file:///etc/passwd", False),
        (PUBLIC, "", False),
        (PUBLIC, "https://[", False),
        (PUBLIC, "https://as.example/" + "x" * 9000, False),
        (PUBLIC, "https://as.example/\x00", False),
    ],
)
async def test_which_urls_are_allowed(server, url, allowed):
    async with open_network(server_at(server)) as network:
        if allowed:
            network.check_url(url, "it")
            return
        with pytest.raises(SignInError) as raised:
            network.check_url(url, "it")
        assert raised.value.problem is Problem.INSECURE
        assert "word" not in str(raised.value)


@pytest.fixture
def names(monkeypatch):
    """Names and their addresses, for this test."""
    known: dict[str, str] = {}
    real = socket.getaddrinfo

    def look_up(host, *rest, **more):
        name = host.decode() if isinstance(host, bytes) else host
        return real(known.get(name, name), *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


async def test_a_name_that_leads_to_this_machine_is_refused_before_anything_is_sent(names):
    names.update({"mcp.example": "93.184.216.34", "as.example": "127.0.0.1"})
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        async with open_network(server_at("https://mcp.example/mcp")) as network:
            with pytest.raises(SignInError) as raised:
                await network.send(httpx2.Request("GET", f"https://as.example:{port}/x"))
        assert raised.value.problem is Problem.INSECURE
        assert "as.example" in str(raised.value)
        connection, _ = listening.accept()
        with connection:
            assert connection.recv(1) == b""  # not even a handshake


async def test_a_local_name_is_http_only_where_it_is_this_machine(names):
    names["app.localhost"] = "10.255.255.1"
    with scripted_issuer() as issuer:
        port = httpx2.URL(issuer.issuer).port
        names["app.localhost"] = "127.0.0.1"
        async with open_network(server_at(issuer.mcp_url)) as network:
            answer = await network.send(httpx2.Request("GET", f"http://app.localhost:{port}/x"))
        assert answer.status_code == 404


async def test_redirects_stay_within_their_origin_and_end():
    with scripted_issuer() as issuer:
        url = issuer.url("issuer", "/here")
        async with open_network(server_at(issuer.mcp_url)) as network:
            issuer.faults["other"] = Fault(redirect=issuer.url("issuer", "/there"), times=1)
            assert (await network.send(httpx2.Request("GET", url))).status_code == 404
            assert [each.path for each in issuer.requests] == ["/here", "/there"]
            issuer.faults["other"] = Fault(redirect=issuer.url("issuer", "/there"), times=1)
            one = await network.send(httpx2.Request("GET", url), follow_redirects=False)
            assert one.is_redirect
            issuer.faults["other"] = Fault(redirect=issuer.url("elsewhere", "/there"))
            assert (await network.send(httpx2.Request("GET", url))).is_redirect
            assert issuer.seen(origin="elsewhere") == []
            issuer.faults["other"] = Fault(redirect=url)
            assert (await network.send(httpx2.Request("GET", url))).is_redirect


@pytest.mark.parametrize(
    "fault",
    [
        Fault(endless=True),
        Fault(status=200, body=b"x" * (MAX_BODY_BYTES + 1)),
        Fault(status=200, body=gzip.compress(b"x" * 1000), headers={"content-encoding": "gzip"}),
    ],
    ids=["endless", "long", "compressed"],
)
async def test_a_body_ends(fault):
    with scripted_issuer() as issuer:
        issuer.faults["other"] = fault
        async with open_network(server_at(issuer.mcp_url)) as network:
            with pytest.raises(SignInError) as raised:
                await network.send(httpx2.Request("GET", issuer.url("issuer", "/x")))
        assert raised.value.problem is Problem.METADATA_REFUSED


@pytest.mark.parametrize("fault", [Fault(hold=True), Fault(status=200, body=b"x" * 99, slowly=True)], ids=str)
async def test_a_request_ends(fault, monkeypatch):
    monkeypatch.setattr(module, "REQUEST_TIMEOUT_S", 0.2)
    with scripted_issuer() as issuer:
        issuer.faults["other"] = fault
        async with open_network(server_at(issuer.mcp_url)) as network:
            with anyio.fail_after(50), pytest.raises(SignInError) as raised:
                await network.send(httpx2.Request("GET", issuer.url("issuer", "/x")))
        issuer.release()
        assert raised.value.problem is Problem.UNREACHABLE


async def test_a_server_that_cannot_be_reached_is_named():
    with scripted_issuer() as issuer:
        issuer.go_down("issuer")
        async with open_network(server_at(issuer.mcp_url)) as network:
            with pytest.raises(SignInError) as raised:
                await network.send(httpx2.Request("GET", issuer.url("issuer", "/x?secret=1")))
        assert raised.value.for_now
        assert str(raised.value) == f"{issuer.url('issuer')} cannot be reached: Connection refused"


@contextlib.asynccontextmanager
async def https_server(context: ssl.SSLContext) -> AsyncIterator[tuple[str, list[bool]]]:
    """An empty server: its address, and for each connection whether the client showed a certificate."""
    shown: list[bool] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        shown.append(bool(writer.get_extra_info("peercert")))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 OK\r\nconnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/", shown


async def test_the_servers_certificates_hold_for_its_sign_in_and_it_alone_is_shown_the_clients(tmp_path):
    authority = Authority(tmp_path)
    cert, key = authority.issue("client")
    context = authority.server_context(wants_client=False)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(authority.ca)
    tls = Tls(ca=str(authority.ca), cert=str(cert), key=str(key))
    async with https_server(context) as (url, shown), https_server(context) as (other, shown_other):
        server = ServerConfig(name="notes", transport=Http(url=url, tls=tls))
        async with open_network(server) as network:
            for each in (url, other):
                assert (await network.send(httpx2.Request("GET", each))).status_code == 204
        async with open_network(server_at(url)) as network:
            with pytest.raises(SignInError, match="its certificate is not trusted"):
                await network.send(httpx2.Request("GET", url))
    assert shown == [True]
    assert shown_other == [False]


async def test_certificates_that_cannot_be_used_are_said(tmp_path):
    file = tmp_path / "ca.pem"
    for ca in (str(file), str(tmp_path / "none.pem")):
        file.write_text("nothing")
        server = ServerConfig(name="notes", transport=Http(url=PUBLIC, tls=Tls(ca=ca)))
        with pytest.raises(SignInError) as raised:
            async with open_network(server):
                pass
        assert ca in str(raised.value)


async def test_a_server_on_pipes_has_no_sign_in():
    with pytest.raises(SignInError) as raised:
        async with open_network(ServerConfig(name="notes", transport=Stdio(command="x"))):
            pass
    assert raised.value.problem is Problem.NOT_FOR_PEOPLE
