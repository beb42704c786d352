"""The channel over TLS: as any other channel, and to the one certificate that is known."""

import os
import socket
import ssl
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from mcpx.cluster.node.starting import make_credentials
from mcpx.core.wire.channel import HIGH_WATER, PeerNotReading
from mcpx.core.wire.tls_channel import WrongCertificate, accept_tls, connect_tls, connected_to, server_context
from tests.mcpx.scripted import PATIENCE_S, soon

pytestmark = pytest.mark.anyio
CREDENTIALS = make_credentials()
OTHERS = make_credentials()


class End:
    """One end, with what it was told."""

    def __init__(self, channel):
        self.channel = channel
        self.got = bytearray()
        self.said = []
        channel.on_data = self.got.extend
        channel.on_end = lambda: self.said.append("end")
        channel.on_broken = self.said.append
        channel.on_congested = lambda: self.said.append("congested")
        channel.on_drained = lambda: self.said.append("drained")


@asynccontextmanager
async def listening(folder):
    """A port, and the channels of those who came; a handshake that fails is noted."""
    context = server_context(CREDENTIALS.certificate, CREDENTIALS.key, str(folder))
    came = []

    async def accept():
        while True:
            await anyio.wait_readable(listener)
            peer = listener.accept()[0]
            peer.setblocking(False)
            try:
                came.append(End(await accept_tls(peer, context)))
            except OSError as error:
                peer.close()
                came.append(error)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(accept)
            yield listener.getsockname()[1], came
            tasks.cancel_scope.cancel()
    for each in came:
        if isinstance(each, End):
            each.channel.close()


@asynccontextmanager
async def pair(folder):
    async with listening(folder) as (port, came):
        client = End(await connect_tls("127.0.0.1", port, CREDENTIALS.certificate))
        await soon(lambda: came)
        try:
            yield client, came[0]
        finally:
            client.channel.close()


async def test_bytes_go_both_ways_in_their_order(tmp_path):
    async with pair(tmp_path) as (client, server):
        server.channel.start_reading()
        client.channel.start_reading()
        client.channel.write(b"one ", memoryview(b"two "))
        client.channel.write(b"three")
        server.channel.write(b"back")
        await soon(lambda: server.got == b"one two three" and client.got == b"back")
    assert not list(tmp_path.iterdir())  # the key lay there for a moment only


async def test_what_is_written_in_one_turn_goes_out_at_its_end_in_one_system_call(tmp_path, monkeypatch):
    async with pair(tmp_path) as (client, server):
        server.channel.start_reading()
        writes = []
        real = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: writes.append(len(data)) or real(fd, data))
        for _ in range(100):
            client.channel.write(b"x" * 1000)
        assert not writes
        await soon(lambda: len(server.got) == 100_000)
        assert len(writes) == 1


async def test_a_message_of_many_megabytes_comes_whole_and_others_behind_it(tmp_path):
    large = bytes(range(256)) * 80_000
    async with pair(tmp_path) as (client, server):
        server.channel.start_reading()
        client.channel.write(large)
        client.channel.write(b"behind")
        assert client.channel.congested
        assert client.channel.position == len(large) + 6
        await soon(lambda: len(server.got) == len(large) + 6)
        assert server.got == large + b"behind"
        assert client.said == ["congested", "drained"]
        assert client.channel.unsent == 0
        assert client.channel.position == len(large) + 6


async def test_one_that_does_not_read_holds_up_and_is_given_up(tmp_path):
    async with pair(tmp_path) as (client, _server):
        while "congested" not in client.said:
            client.channel.write(b"x" * HIGH_WATER)
            await anyio.lowlevel.checkpoint()
        for _ in range(80):
            client.channel.write(b"x" * HIGH_WATER)
        assert isinstance(client.said[-1], PeerNotReading)


async def test_reading_that_is_paused_or_held_waits(tmp_path):
    async with pair(tmp_path) as (client, server):
        client.channel.write(b"early")
        client.channel.flush()
        server.channel.start_reading()
        server.channel.hold_reading()
        await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        assert not server.got
        server.channel.release_reading()
        await soon(lambda: server.got == b"early")


async def test_the_end_is_seen_once_and_before_it_all_that_was_sent(tmp_path):
    async with pair(tmp_path) as (client, server):
        server.channel.start_reading()
        client.channel.write(b"last words")
        client.channel.flush()
        client.channel.close()
        client.channel.close()
        await soon(lambda: server.said)
        assert server.got == b"last words"
        assert server.said == ["end"]
        assert server.channel.hung_up()


async def test_one_that_is_killed_is_seen_as_an_end(tmp_path):
    async with pair(tmp_path) as (client, server):
        server.channel.start_reading()
        client.channel.pause_reading()
        client.channel.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.channel.release_writer()
        client.channel.socket.close()  # a reset, without a farewell
        await soon(lambda: server.said)
        assert server.said == ["end"]


async def test_bytes_that_are_no_tls_end_the_connection(tmp_path):
    async with pair(tmp_path) as (client, server):
        server.channel.start_reading()
        client.channel.socket.send(b"this was never sealed" * 1000)
        await soon(lambda: server.said)
        assert server.said == ["end"]
        assert not server.got


async def test_another_certificate_is_refused(tmp_path):
    async with listening(tmp_path) as (port, came):
        with pytest.raises(WrongCertificate, match="another certificate"):
            await connect_tls("127.0.0.1", port, OTHERS.certificate)
        await soon(lambda: came)
        assert isinstance(came[0], OSError)  # it is told, too


async def test_one_that_speaks_no_tls_1_3_is_refused(tmp_path):
    async with listening(tmp_path) as (port, came):
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((OSError, anyio.BrokenResourceError, anyio.EndOfStream)):
            async with await anyio.connect_tcp("127.0.0.1", port, ssl_context=old):
                pass
        await soon(lambda: came)
        assert isinstance(came[0], ssl.SSLError)


async def test_nobody_there_and_nobody_who_answers_are_told_apart():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with anyio.fail_after(PATIENCE_S), pytest.raises(TimeoutError, match="no answer within"):
            await connect_tls("127.0.0.1", port, CREDENTIALS.certificate, timeout=0.05)
    with pytest.raises(ConnectionRefusedError):
        await connect_tls("127.0.0.1", port, CREDENTIALS.certificate)


async def test_what_comes_with_the_last_of_the_handshake_is_not_lost(tmp_path):
    """The client's first message may be in the very chunk that ends the handshake."""
    async with listening(tmp_path) as (port, came):
        for number in range(20):
            client = await connect_tls("127.0.0.1", port, CREDENTIALS.certificate)
            client.write(b"hello")
            client.flush()
            await soon(lambda expected=number: len(came) > expected)
            came[number].channel.start_reading()
            await soon(lambda at=number: came[at].got == b"hello")
            client.close()


async def test_an_address_that_is_silent_does_not_keep_from_the_next(monkeypatch):
    here = ("127.0.0.1", 0)
    with socket.create_server(here, backlog=0) as silent, socket.create_server(here) as live:
        addresses = [each.getsockname() for each in (silent, live)]

        async def both(*_arguments, **_options):
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]

        waiting = []
        for _ in range(4):  # until no more are taken in
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            waiting[-1].connect_ex(addresses[0])
        monkeypatch.setattr(anyio, "getaddrinfo", both)
        with anyio.fail_after(PATIENCE_S):
            connected = await connected_to("both.example", 80)
        assert connected.getpeername() == addresses[1]
        for each in (connected, *waiting):
            each.close()
